//! Random dotted paths into stored documents.

use bson::{Bson, Document};

use super::StepGenerator;

impl StepGenerator {
    /// Returns a path, and the value at the path if the path exists in a random document.
    pub(super) fn existing_or_random_path(
        &mut self,
        documents: &[Document],
    ) -> (String, Option<Bson>) {
        match self.dice.choose(documents).cloned() {
            Some(document) if self.dice.chance(80) => self.path_into(&document),
            _ => (self.random_path(), None),
        }
    }

    /// Returns a path to an array, if a few attempts find an array.
    pub(super) fn array_path(&mut self, documents: &[Document]) -> Option<(String, Vec<Bson>)> {
        for _ in 0..6 {
            let (path, value) = self.existing_or_random_path(documents);
            if let Some(Bson::Array(values)) = value {
                return Some((path, values));
            }
        }
        None
    }

    /// Returns a path that need not exist.
    pub(super) fn random_path(&mut self) -> String {
        let mut path = if self.dice.chance(4) {
            "zz".to_owned()
        } else {
            let names: Vec<_> = self.schema.fields.iter().map(|(name, _)| *name).collect();
            (*self.dice.choose(&names).unwrap_or(&"a")).to_owned()
        };
        let more = *self.dice.pick(&[0, 0, 0, 1, 1, 2]);
        for _ in 0..more {
            path.push('.');
            let names = &["x", "y", "x", "y", "0", "1", "a", "2", "z"];
            let name = *self.dice.pick(names);
            path.push_str(name);
        }
        path
    }

    fn path_into(&mut self, document: &Document) -> (String, Option<Bson>) {
        let mut path = String::new();
        let mut value = Bson::Document(document.clone());
        loop {
            let depth = path.split('.').count();
            if !path.is_empty() && self.dice.chance(if depth == 1 { 50 } else { 40 }) {
                return (path, Some(value));
            }
            let next = match &value {
                Bson::Document(document) => {
                    // Usually skip the `_id`, because a path to the `_id` tests little.
                    let seldom = path.is_empty() && self.dice.chance(93);
                    let names: Vec<_> = document
                        .keys()
                        .filter(|name| !(seldom && *name == "_id"))
                        .collect();
                    let name = self.dice.choose(&names).map(|name| (*name).clone());
                    name.and_then(|name| Some((document.get(&name)?.clone(), Some(name))))
                }
                Bson::Array(values) => {
                    let at = self.dice.below(values.len());
                    let by_position = self.dice.chance(35);
                    values.get(at).and_then(|value| match value {
                        _ if by_position => Some((value.clone(), Some(at.to_string()))),
                        Bson::Document(_) => Some((value.clone(), None)),
                        _ => None,
                    })
                }
                _ => None,
            };
            match next {
                Some((inner, name)) => {
                    if let Some(name) = name {
                        if !path.is_empty() {
                            path.push('.');
                        }
                        path.push_str(&name);
                    }
                    value = inner;
                }
                None if path.is_empty() => return (self.random_path(), None),
                None => return (path, Some(value)),
            }
        }
    }
}
