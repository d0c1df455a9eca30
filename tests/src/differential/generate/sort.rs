//! Random sorts.

use bson::{Bson, Document};

use super::StepGenerator;

impl StepGenerator {
    /// Returns a sort. Most sorts end with `_id`, because MongoDB does not determine the order of ties.
    pub(super) fn sort(&mut self, documents: &[Document]) -> Document {
        let mut sort = Document::new();
        let count = *self.dice.pick(&[0, 1, 1, 1, 2, 2, 3]);
        for _ in 0..count {
            let (path, _) = self.existing_or_random_path(documents);
            let direction = self.direction();
            let direction = match self.dice.below(50) {
                0 => self.scalar(),
                _ => direction,
            };
            sort.insert(path, direction);
        }
        if !sort.contains_key("_id") && self.dice.chance(90) {
            sort.insert("_id", self.direction());
        }
        sort
    }

    pub(super) fn direction(&mut self) -> Bson {
        Bson::Int32(*self.dice.pick(&[1, -1]))
    }
}
