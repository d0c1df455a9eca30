//! Random pipelines.
//!
//! A stage that depends on the order of documents (`$limit`, `$skip`, and accumulators such as `$first` and `$push`) follows a
//! sort of whole documents by `_id`. A sum of doubles depends on the order in the last bit. Therefore a group of doubles also
//! follows a sort.

use bson::{Bson, Document, doc};

use super::{StepGenerator, expression};
use crate::differential::step::{COLLECTIONS, Step};

impl StepGenerator {
    pub(super) fn aggregate(&mut self, collection: &str, documents: &[Document]) -> Step {
        let mut pipeline = vec![Bson::Document(doc! { "$match": self.filter(documents) })];
        // Whether the documents are the stored documents in a total order.
        let mut is_sorted = false;
        let count = self.dice.between(1, 4);
        for _ in 0..count {
            let (stage, keeps_order) = self.stage(documents, is_sorted);
            is_sorted = keeps_order;
            pipeline.push(stage.into());
        }
        Step::new(collection, "aggregate", doc! { "pipeline": pipeline })
    }

    /// Returns a stage, and whether the documents still have a total order after the stage.
    fn stage(&mut self, documents: &[Document], is_sorted: bool) -> (Document, bool) {
        match self.dice.below(24) {
            0 => (doc! { "$match": self.filter(documents) }, is_sorted),
            1 | 2 if is_sorted => (doc! { "$limit": self.dice.number(1, 6) }, true),
            3 if is_sorted => (doc! { "$skip": self.dice.number(0, 4) }, true),
            4..7 if is_sorted => (self.group(documents), false),
            7..9 => (
                doc! { "$project": self.computed(documents, true) },
                is_sorted,
            ),
            9..11 => {
                let name = *self.dice.pick(&["$set", "$addFields"]);
                (doc! { name: self.computed(documents, false) }, is_sorted)
            }
            11 => (doc! { "$unset": self.random_path() }, is_sorted),
            12..14 => (self.unwind(documents), false),
            14 => {
                let expression = expression::any(self, documents, 1);
                (doc! { "$sortByCount": expression }, false)
            }
            15 => (doc! { "$count": "n" }, false),
            16 => (self.lookup(documents), is_sorted),
            17 => (doc! { "$unionWith": COLLECTIONS[1] }, false),
            18 => {
                let root = expression::any(self, documents, 1);
                (
                    doc! { "$replaceWith": { "$mergeObjects": ["$$ROOT", { "r": root }] } },
                    is_sorted,
                )
            }
            19 if is_sorted => {
                let (one, _) = self.stage(documents, true);
                let branch = if one.contains_key("$facet") {
                    Vec::new()
                } else {
                    vec![one]
                };
                (
                    doc! { "$facet": { "one": branch, "two": [{ "$count": "n" }] } },
                    false,
                )
            }
            20 => {
                let path = format!("${}", self.random_path());
                let bucket = doc! {
                    "groupBy": path, "boundaries": [0, 2, 5, 1000], "default": "other", "output": { "n": { "$sum": 1 } },
                };
                (doc! { "$bucket": bucket }, false)
            }
            _ => {
                let mut sort = self.sort(documents);
                if !sort.contains_key("_id") {
                    sort.insert("_id", 1);
                }
                (doc! { "$sort": sort }, true)
            }
        }
    }

    fn group(&mut self, documents: &[Document]) -> Document {
        let id = match self.dice.below(3) {
            0 => Bson::Null,
            _ => expression::any(self, documents, 1),
        };
        let mut group = doc! { "_id": id };
        let accumulators = [
            "$sum",
            "$avg",
            "$min",
            "$max",
            "$first",
            "$last",
            "$push",
            "$addToSet",
            "$mergeObjects",
            "$count",
        ];
        let count = self.dice.between(1, 2);
        for at in 0..count {
            let name = *self.dice.pick(&accumulators);
            let operand = match name {
                "$count" => Bson::Document(Document::new()),
                _ => expression::any(self, documents, 1),
            };
            group.insert(format!("g{at}"), doc! { name: operand });
        }
        doc! { "$group": group }
    }

    fn computed(&mut self, documents: &[Document], is_projection: bool) -> Document {
        let mut fields = Document::new();
        let count = self.dice.between(1, 2);
        for at in 0..count {
            let path = if self.dice.chance(60) {
                self.random_path()
            } else {
                format!("n{at}")
            };
            let value = if is_projection && self.dice.chance(50) {
                Bson::Int32(1)
            } else {
                expression::any(self, documents, 2)
            };
            fields.insert(path, value);
        }
        fields
    }

    fn unwind(&mut self, documents: &[Document]) -> Document {
        let path = format!("${}", self.existing_or_random_path(documents).0);
        if self.dice.chance(50) {
            return doc! { "$unwind": path };
        }
        let mut unwind = doc! { "path": path };
        if self.dice.chance(60) {
            unwind.insert("preserveNullAndEmptyArrays", self.dice.chance(70));
        }
        if self.dice.chance(40) {
            unwind.insert("includeArrayIndex", "at");
        }
        doc! { "$unwind": unwind }
    }

    fn lookup(&mut self, documents: &[Document]) -> Document {
        // The found documents are sorted, in the form of `$lookup` that supports a sort.
        let mut lookup = doc! { "from": COLLECTIONS[1], "as": "l" };
        lookup.insert("pipeline", [doc! { "$sort": { "_id": 1 } }].to_vec());
        if self.dice.chance(70) {
            lookup.insert("localField", self.existing_or_random_path(documents).0);
            lookup.insert("foreignField", self.random_path());
        }
        doc! { "$lookup": lookup }
    }
}

/// Returns the pipeline of an update.
pub(super) fn update_pipeline(world: &mut StepGenerator, documents: &[Document]) -> Bson {
    let mut stages = vec![Bson::Document(
        doc! { "$set": world.computed(documents, false) },
    )];
    if world.dice.chance(30) {
        stages.push(doc! { "$unset": world.random_path() }.into());
    }
    if world.dice.chance(20) {
        stages.push(doc! { "$replaceWith": { "$mergeObjects": ["$$ROOT", { "r": 1 }] } }.into());
    }
    Bson::Array(stages)
}
