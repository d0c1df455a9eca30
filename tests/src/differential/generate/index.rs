//! Indexes.

use bson::{Bson, Document, doc};

use super::World;
use crate::differential::pair::State;
use crate::differential::step::Step;

impl World {
    /// Makes an index over the documents that are there, or drops one.
    pub(super) fn define_index(&mut self, collection: &str, state: &State) -> Step {
        let known = state.indexes.get(collection).map_or(&[][..], Vec::as_slice);
        if let Some(index) = self.dice.choose(known).cloned()
            && self.dice.chance(50)
        {
            let name = index.get_str("name").unwrap_or_default();
            return Step::new(collection, "dropIndexes", doc! { "index": name });
        }
        let documents = state
            .documents
            .get(collection)
            .map_or(&[][..], Vec::as_slice);
        self.create_index(collection, documents)
    }

    pub(super) fn create_index(&mut self, collection: &str, documents: &[Document]) -> Step {
        let mut key = Document::new();
        let count = *self.dice.pick(&[1, 1, 1, 2, 2, 3]);
        for _ in 0..count {
            let path = if documents.is_empty() {
                self.any_path()
            } else {
                self.path(documents).0
            };
            let path = if self.dice.chance(4) {
                "_id".to_owned()
            } else {
                path
            };
            key.insert(path, self.direction());
        }
        self.last_index += 1;
        let mut index = doc! { "key": key, "name": format!("i{}", self.last_index) };
        if self.dice.chance(20) {
            index.insert("unique", true);
        }
        match self.dice.below(10) {
            0 => drop(index.insert("sparse", true)),
            1 | 2 => {
                let filter = self.partial_filter(documents);
                index.insert("partialFilterExpression", filter);
            }
            _ => {}
        }
        Step::new(collection, "createIndexes", doc! { "indexes": [index] })
    }

    /// A filter of the few forms that an index can have.
    fn partial_filter(&mut self, documents: &[Document]) -> Document {
        let (path, value) = self.path(documents);
        let operand = self.operand(value.as_ref());
        let condition = match self.dice.below(6) {
            0 => doc! { "$exists": true }.into(),
            1 => doc! { "$type": *self.dice.pick(&["number", "string", "int", "array"]) }.into(),
            2 => operand,
            _ => {
                let name = *self.dice.pick(&["$gt", "$gte", "$lt", "$lte", "$eq"]);
                Bson::Document(doc! { name: operand })
            }
        };
        let filter = doc! { path: condition };
        if self.dice.chance(20) {
            let other = self.any_path();
            return doc! { "$and": [filter, { other: { "$exists": true } }] };
        }
        filter
    }
}
