//! Random indexes.

use bson::{Bson, Document, doc};

use super::StepGenerator;
use crate::differential::pair::State;
use crate::differential::step::Step;

impl StepGenerator {
    /// Returns a step that creates an index on the stored documents, or drops an index.
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
                self.random_path()
            } else {
                self.existing_or_random_path(documents).0
            };
            let path = if self.dice.chance(4) {
                "_id".to_owned()
            } else {
                path
            };
            key.insert(path, self.direction());
        }
        self.last_index += 1;
        let name = format!("i{}", self.last_index);
        let kind = self.dice.below(100);
        let mut index = match kind {
            0..14 => self.wildcard(name),
            14..20 => {
                let paths: Vec<_> = key.keys().cloned().collect();
                if let Some(path) = self.dice.choose(&paths) {
                    key.insert(path, "hashed");
                }
                doc! { "key": key, "name": name }
            }
            _ => doc! { "key": key, "name": name },
        };
        // Wildcard and hashed indexes are never unique, and wildcard indexes never sparse. MongoDB and the engine both reject the
        // index.
        if self.dice.chance(if kind < 20 { 3 } else { 20 }) {
            index.insert("unique", true);
        }
        match self.dice.below(10) {
            0 if kind < 14 => {}
            0 => drop(index.insert("sparse", true)),
            1 | 2 => {
                let filter = self.partial_filter(documents);
                index.insert("partialFilterExpression", filter);
            }
            _ => {}
        }
        if self.dice.chance(10) {
            let strength = self.dice.number(1, 3);
            index.insert("collation", doc! { "locale": "en", "strength": strength });
        }
        Step::new(collection, "createIndexes", doc! { "indexes": [index] })
    }

    /// Returns a wildcard index of all paths, of a subtree, or of all paths with a projection.
    fn wildcard(&mut self, name: String) -> Document {
        if self.dice.chance(30) {
            let path = format!("{}.$**", self.random_path());
            return doc! { "key": { path: 1 }, "name": name };
        }
        let mut index = doc! { "key": { "$**": 1 }, "name": name };
        if self.dice.chance(50) {
            let includes = i32::from(self.dice.chance(50));
            let mut projection = Document::new();
            for _ in 0..self.dice.between(1, 2) {
                projection.insert(self.random_path(), includes);
            }
            if self.dice.chance(30) {
                projection.insert("_id", i32::from(self.dice.chance(50)));
            }
            index.insert("wildcardProjection", projection);
        }
        index
    }

    /// Returns a partial filter in the forms that an index allows.
    fn partial_filter(&mut self, documents: &[Document]) -> Document {
        let (path, value) = self.existing_or_random_path(documents);
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
            let other = self.random_path();
            return doc! { "$and": [filter, { other: { "$exists": true } }] };
        }
        filter
    }
}
