//! A generator of random documents, indexes and operations.
//!
//! Operands are drawn from stored values and changed slightly, so that conditions match or just miss. The generator omits
//! features with different answers on two servers: the current time (`$currentDate`, `$$NOW`), random values (`$rand`, `$sample`)
//! and generated ids. So every upsert names the `_id`. The generator also omits deprecated BSON types, and zero timestamps, which
//! a server replaces.

mod aggregate;
mod dice;
mod document;
mod expression;
mod filter;
mod index;
mod path;
mod projection;
mod sort;
mod transaction;
mod update;
mod value;

use bson::{Bson, Document, doc};

use super::pair::State;
use super::step::{COLLECTIONS, Step};
use dice::Dice;

/// A generator of steps for a few collections.
pub(super) struct StepGenerator {
    dice: Dice,
    schema: WorldSchema,
    /// The number of the last generated index, and of the last generated `_id`.
    last_index: usize,
    last_id: i32,
}

/// The shape of the documents and operations of a world.
#[derive(Debug, Default)]
struct WorldSchema {
    /// The fields of documents, each with the usual kind of value.
    fields: Vec<(&'static str, ValueKind)>,
    /// The scalars that recur in documents and conditions.
    pool: Vec<Bson>,
    has_indexes: bool,
    has_transactions: bool,
    /// Whether ids have several types.
    has_mixed_ids: bool,
}

/// The usual kind of value in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    Any,
    Number,
    Scalar,
    Scalars,
    Document,
    Documents,
    Text,
}

/// The intended maximum number of documents per collection.
const MAX_DOCUMENTS: usize = 25;

impl StepGenerator {
    pub(super) fn new(seed: u64, number: u64) -> Self {
        Self {
            dice: Dice::new(seed, number),
            schema: WorldSchema::default(),
            last_index: 0,
            last_id: 0,
        }
    }

    /// Draws a new schema, and returns the steps that create the collections.
    pub(super) fn new_schema(&mut self) -> Vec<Step> {
        self.schema = self.schema();
        let mut steps: Vec<_> = COLLECTIONS
            .iter()
            .map(|name| Step::new(name, "create", Document::new()))
            .collect();
        if self.schema.has_indexes {
            for collection in COLLECTIONS {
                let count = self.dice.between(0, 4);
                for _ in 0..count {
                    steps.push(self.create_index(collection, &[]));
                }
            }
        }
        for (collection, most) in COLLECTIONS.into_iter().zip([14, 5]) {
            let count = self.dice.between(1, most);
            for _ in 0..count {
                // Insert documents separately: if a unique index rejects a document, the rest is still inserted.
                let id = self.fresh_id();
                let document = self.document(id);
                steps.push(insert(collection, vec![document.into()]));
            }
        }
        steps
    }

    /// Returns the next steps.
    pub(super) fn next_steps(&mut self, state: &State) -> Vec<Step> {
        if self.schema.has_transactions && self.dice.chance(5) {
            return self.transactions(state);
        }
        let collection = if self.dice.chance(85) {
            COLLECTIONS[0]
        } else {
            COLLECTIONS[1]
        };
        let empty = Vec::new();
        let documents = state.documents.get(collection).unwrap_or(&empty);
        let step = match self.dice.below(100) {
            0..42 => self.find(collection, documents),
            42..46 => self.count(collection, documents),
            46..50 => self.distinct(collection, documents),
            50..59 => self.aggregate(collection, documents),
            59..63 => self.find_and_modify(collection, documents),
            63..84 => self.update(collection, documents),
            84..95 if documents.len() < MAX_DOCUMENTS => self.insert(collection, documents),
            84..98 => self.delete(collection, documents),
            98 if self.schema.has_indexes => self.define_index(collection, state),
            _ => self.count(collection, documents),
        };
        vec![step]
    }

    fn schema(&mut self) -> WorldSchema {
        let dice = &mut self.dice;
        let kinds = [
            ValueKind::Any,
            ValueKind::Number,
            ValueKind::Scalar,
            ValueKind::Scalars,
            ValueKind::Document,
            ValueKind::Documents,
            ValueKind::Text,
        ];
        let count = dice.between(2, 4);
        let fields = ["a", "b", "c", "d"];
        let fields = fields.into_iter().take(count);
        let fields = fields.map(|name| (name, *dice.pick(&kinds))).collect();
        let is_plain = dice.chance(20);
        let size = dice.between(4, 14);
        let pool = (0..size)
            .map(|_| {
                if is_plain {
                    value::common_value(dice)
                } else {
                    value::scalar(dice)
                }
            })
            .collect();
        WorldSchema {
            fields,
            pool,
            has_indexes: dice.chance(60),
            has_transactions: dice.chance(35),
            has_mixed_ids: dice.chance(15),
        }
    }

    fn find(&mut self, collection: &str, documents: &[Document]) -> Step {
        let filter = self.filter(documents);
        let mut args = Document::new();
        if self.dice.chance(35) {
            let projection = self.projection(&filter, documents);
            args.insert("projection", projection);
        }
        args.insert("filter", filter);
        if self.dice.chance(50) {
            args.insert("sort", self.sort(documents));
        }
        if self.dice.chance(20) {
            args.insert("skip", self.dice.number(0, 5));
        }
        if self.dice.chance(25) {
            args.insert("limit", self.dice.number(0, 6));
        }
        Step::new(collection, "find", args)
    }

    fn count(&mut self, collection: &str, documents: &[Document]) -> Step {
        let mut args = doc! { "filter": self.filter(documents) };
        if self.dice.chance(20) {
            args.insert("limit", self.dice.number(1, 6));
        }
        Step::new(collection, "count", args)
    }

    fn distinct(&mut self, collection: &str, documents: &[Document]) -> Step {
        let (path, _) = self.existing_or_random_path(documents);
        let mut args = doc! { "field": path };
        if self.dice.chance(60) {
            args.insert("filter", self.filter(documents));
        }
        Step::new(collection, "distinct", args)
    }

    fn insert(&mut self, collection: &str, documents: &[Document]) -> Step {
        let count = self.dice.between(1, 3);
        let inserted = (0..count).map(|_| {
            let id = if self.dice.chance(15) {
                self.stored_id(documents)
            } else {
                self.fresh_id()
            };
            Bson::Document(self.document(id))
        });
        insert(collection, inserted.collect())
    }

    fn delete(&mut self, collection: &str, documents: &[Document]) -> Step {
        if documents.len() > MAX_DOCUMENTS || self.dice.chance(20) {
            let filter = self.filter(documents);
            // Keep some documents, so that later operations have data.
            let filter = if filter.is_empty() || documents.len() < MAX_DOCUMENTS / 2 {
                let id = self.stored_id(documents);
                doc! { "$and": [filter, { "_id": { "$gte": id } }] }
            } else {
                filter
            };
            return Step::new(collection, "deleteMany", doc! { "filter": filter });
        }
        let filter = self.filter_of_one(documents);
        Step::new(collection, "deleteOne", doc! { "filter": filter })
    }

    /// Returns a filter that usually pins the `_id`, because MongoDB does not define which of several matching documents is
    /// chosen.
    fn filter_of_one(&mut self, documents: &[Document]) -> Document {
        let filter = self.filter(documents);
        if !self.schema.has_indexes && !filter.contains_key("_id") && self.dice.chance(60) {
            return filter;
        }
        let mut pinned = doc! { "_id": self.stored_id(documents) };
        if self.dice.chance(50) {
            pinned.extend(filter.into_iter().filter(|(name, _)| name != "_id"));
        }
        pinned
    }

    fn fresh_id(&mut self) -> Bson {
        self.last_id += 1;
        let number = self.last_id;
        if !self.schema.has_mixed_ids {
            return Bson::Int32(number);
        }
        match self.dice.below(8) {
            0 => Bson::Double(f64::from(number) + 0.5),
            1 => Bson::Int64(number.into()),
            2 => Bson::String(format!("id{number}")),
            3 => Bson::Document(doc! { "x": number }),
            4 => value::decimal(&number.to_string()),
            5 => Bson::DateTime(bson::DateTime::from_millis(number.into())),
            _ => Bson::Int32(number),
        }
    }

    /// Returns the `_id` of a stored document, or a fresh `_id`.
    fn stored_id(&mut self, documents: &[Document]) -> Bson {
        let stored = self.dice.choose(documents);
        let id = stored.and_then(|document| document.get("_id")).cloned();
        match id {
            Some(id) if self.dice.chance(92) => id,
            _ => self.fresh_id(),
        }
    }
}

fn insert(collection: &str, documents: Vec<Bson>) -> Step {
    Step::new(collection, "insertMany", doc! { "documents": documents })
}
