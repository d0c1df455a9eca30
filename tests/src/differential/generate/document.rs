//! Random documents.

use bson::{Bson, Document};

use super::StepGenerator;

impl StepGenerator {
    /// Returns a random document of the schema.
    pub(super) fn document(&mut self, id: Bson) -> Document {
        let mut document = Document::from_iter([("_id".to_owned(), id)]);
        for (name, value) in self.fields() {
            document.insert(name, value);
        }
        document
    }

    /// Returns the fields of a random document without the `_id`. Some fields are missing.
    pub(super) fn fields(&mut self) -> Document {
        let mut document = Document::new();
        for at in 0..self.schema.fields.len() {
            let Some((name, kind)) = self.schema.fields.get(at).copied() else {
                continue;
            };
            if self.dice.chance(78) {
                let value = self.value_of(kind);
                document.insert(name, value);
            }
        }
        document
    }
}
