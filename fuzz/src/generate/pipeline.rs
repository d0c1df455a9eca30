//! Generators of pipelines for aggregations and updates.

use bson::{Bson, Document, doc};

use super::expression::MAX_EXPRESSION_DEPTH;
use super::operators::ValueKind;
use super::{Generator, NAMES};

/// The stages, sorted by name.
pub(crate) const STAGES: &[&str] = &[
    "$addFields",
    "$bucket",
    "$bucketAuto",
    "$count",
    "$documents",
    "$facet",
    "$group",
    "$limit",
    "$lookup",
    "$match",
    "$project",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
    "$sample",
    "$set",
    "$skip",
    "$sort",
    "$sortByCount",
    "$unionWith",
    "$unset",
    "$unwind",
];

/// The stages of an update.
const TRANSFORMS: [&str; 6] = [
    "$addFields",
    "$project",
    "$replaceRoot",
    "$replaceWith",
    "$set",
    "$unset",
];

/// The accumulators, sorted by name.
pub(crate) const ACCUMULATORS: &[&str] = &[
    "$addToSet",
    "$avg",
    "$bottom",
    "$bottomN",
    "$count",
    "$first",
    "$firstN",
    "$last",
    "$lastN",
    "$max",
    "$maxN",
    "$mergeObjects",
    "$min",
    "$minN",
    "$push",
    "$stdDevPop",
    "$stdDevSamp",
    "$sum",
    "$top",
    "$topN",
];

const GRANULARITIES: [&str; 5] = ["R5", "E6", "1-2-5", "POWERSOF2", "E192"];

/// A second collection that pipelines read.
pub(crate) const OTHER_COLLECTION: &str = "other";

impl Generator<'_> {
    /// Returns the stages of an aggregation. Nested pipelines have at most this depth, and can read the bound variables.
    pub(crate) fn stages(&mut self, depth: usize, bound: &[&'static str]) -> Vec<Document> {
        let count = self.below(5);
        (0..count)
            .map(|_| {
                let mut name = self.pick(STAGES);
                // `$documents` fails unless `$documents` is the first stage on a different collection.
                if name == "$documents" && !self.one_in(8) {
                    name = "$match";
                }
                let mut stage = Document::new();
                stage.insert(name, self.stage(name, depth, bound));
                stage
            })
            .collect()
    }

    /// Returns the stages of an update.
    pub(crate) fn transforms(&mut self) -> Vec<Document> {
        let count = 1 + self.below(3);
        (0..count)
            .map(|_| {
                let name = self.pick(&TRANSFORMS);
                let mut stage = Document::new();
                stage.insert(name, self.stage(name, 0, &[]));
                stage
            })
            .collect()
    }

    fn stage(&mut self, name: &str, depth: usize, bound: &[&'static str]) -> Bson {
        match name {
            "$addFields" | "$set" => self.fields(bound).into(),
            "$bucket" => {
                let mut boundaries: Vec<_> = (0..5).map(|_| self.below(9) as i32 - 2).collect();
                boundaries.sort_unstable();
                boundaries.dedup();
                let mut bucket = doc! {
                    "groupBy": self.group_by(bound),
                    "boundaries": boundaries,
                };
                if !self.one_in(4) {
                    bucket.insert("default", self.pick(&["rest", "a"]));
                }
                self.output(&mut bucket, bound);
                bucket.into()
            }
            "$bucketAuto" => {
                let mut bucket = doc! {
                    "groupBy": self.group_by(bound),
                    "buckets": 1 + self.below(4) as i32,
                };
                if self.one_in(4) {
                    bucket.insert("granularity", self.pick(&GRANULARITIES));
                }
                self.output(&mut bucket, bound);
                bucket.into()
            }
            "$count" => self.pick(&NAMES).into(),
            "$documents" => vec![self.document(1), self.document(1)].into(),
            "$facet" => {
                let facets = (0..1 + self.below(2)).map(|_| {
                    let name = self.pick(&NAMES);
                    let stages = match depth {
                        0 => vec![doc! { "$limit": 1 }],
                        _ => self.stages(depth - 1, bound),
                    };
                    (name.to_owned(), Bson::from(stages))
                });
                facets.collect::<Document>().into()
            }
            "$group" => {
                let mut group = match self.below(4) {
                    0 => doc! { "_id": null },
                    1 => doc! { "_id": { "a": "$a", "b": self.expression(ValueKind::Any, 2, bound) } },
                    _ => doc! { "_id": self.expression(ValueKind::Any, MAX_EXPRESSION_DEPTH, bound) },
                };
                group.extend(self.accumulators(bound));
                group.into()
            }
            "$limit" | "$sample" => {
                let count = Bson::Int32(1 + self.below(6) as i32);
                match name {
                    "$sample" => doc! { "size": count }.into(),
                    _ => count,
                }
            }
            "$skip" => Bson::Int32(self.below(3) as i32),
            "$lookup" => self.lookup(depth, bound),
            "$match" if self.one_in(2) => self.filter_document(2).into(),
            "$match" => doc! { "$expr": self.expression(ValueKind::Boolean, MAX_EXPRESSION_DEPTH, bound) }.into(),
            "$project" => self.computed_projection(bound).into(),
            "$redact" => {
                let decision = *self.choose(&["$$DESCEND", "$$KEEP"]);
                let condition = self.expression(ValueKind::Boolean, 2, bound);
                doc! { "$cond": [condition, decision, "$$PRUNE"] }.into()
            }
            "$replaceRoot" => {
                doc! { "newRoot": self.expression(ValueKind::Document, MAX_EXPRESSION_DEPTH, bound) }.into()
            }
            "$replaceWith" => self.expression(ValueKind::Document, MAX_EXPRESSION_DEPTH, bound),
            "$sort" => {
                let direction = if self.one_in(2) { 1 } else { -1 };
                doc! { self.path(): direction, "_id": 1 }.into()
            }
            "$sortByCount" => match self.one_in(2) {
                true => format!("${}", self.path()).into(),
                false => doc! { "$max": [self.expression(ValueKind::Any, 2, bound)] }.into(),
            },
            "$unionWith" if depth == 0 => OTHER_COLLECTION.into(),
            "$unionWith" => {
                let stages = self.nested(depth - 1, bound);
                doc! { "coll": OTHER_COLLECTION, "pipeline": stages }.into()
            }
            "$unset" => vec![self.path(), self.path()].into(),
            _ => match self.one_in(2) {
                true => "$c".into(),
                false => {
                    let mut unwind = doc! { "path": format!("${}", self.path()) };
                    if self.one_in(2) {
                        unwind.insert("includeArrayIndex", self.pick(&NAMES));
                    }
                    unwind.insert("preserveNullAndEmptyArrays", self.one_in(2));
                    unwind.into()
                }
            },
        }
    }

    fn lookup(&mut self, depth: usize, bound: &[&'static str]) -> Bson {
        let mut lookup = doc! { "from": OTHER_COLLECTION, "as": self.path() };
        let is_by_pipeline = depth > 0 && self.one_in(2);
        if !is_by_pipeline || self.one_in(2) {
            lookup.insert("localField", self.path());
            lookup.insert("foreignField", self.path());
        }
        let mut bound = bound.to_vec();
        if is_by_pipeline {
            let variables = doc! {
                "x": self.expression(ValueKind::Any, 2, &bound),
                "y": self.expression(ValueKind::Number, 2, &bound),
            };
            lookup.insert("let", variables);
            bound.extend(["x", "y"]);
        }
        let stages = match is_by_pipeline {
            true => self.nested(depth - 1, &bound),
            false => ordered(Vec::new()),
        };
        lookup.insert("pipeline", stages);
        lookup.into()
    }

    /// Returns a pipeline on the second collection.
    fn nested(&mut self, depth: usize, bound: &[&'static str]) -> Vec<Document> {
        if self.one_in(8) {
            let mut stages = vec![doc! { "$documents": [self.document(2), self.document(2)] }];
            stages.extend(self.stages(depth, bound));
            return stages;
        }
        let filter = match self.below(4) {
            0 => Document::new(),
            1 => self.filter_document(1),
            // The form of a join filter, which an index can answer.
            2 => {
                doc! { "$expr": { "$eq": [format!("${}", self.path()), self.read(ValueKind::Any, bound)] } }
            }
            _ => doc! { "$expr": self.expression(ValueKind::Boolean, 2, bound) },
        };
        let mut stages = ordered(vec![doc! { "$match": filter }]);
        stages.extend(self.stages(depth, bound));
        stages
    }

    fn fields(&mut self, bound: &[&'static str]) -> Document {
        let mut fields = Document::new();
        for _ in 0..1 + self.below(3) {
            let kind = *self.choose(&[
                ValueKind::Any,
                ValueKind::Number,
                ValueKind::Text,
                ValueKind::Array,
            ]);
            let value = match self.below(8) {
                0 => doc! { self.pick(&NAMES): self.expression(kind, 2, bound) }.into(),
                _ => self.expression(kind, MAX_EXPRESSION_DEPTH, bound),
            };
            let path = match self.one_in(3) {
                true => self.path(),
                false => self.pick(&NAMES).to_owned(),
            };
            fields.insert(path, value);
        }
        fields
    }

    /// Returns a projection that works in a query and in `$project`.
    pub(crate) fn computed_projection(&mut self, bound: &[&'static str]) -> Document {
        if self.one_in(4) {
            return doc! { self.path(): 0, self.path(): 0 };
        }
        let mut projection = doc! { self.path(): 1 };
        projection.extend(self.fields(bound));
        if self.one_in(4) {
            projection.insert("_id", 0);
        }
        projection
    }

    /// Returns the grouping expression of buckets, which must not be a constant.
    fn group_by(&mut self, bound: &[&'static str]) -> Bson {
        match self.expression(ValueKind::Number, MAX_EXPRESSION_DEPTH, bound) {
            computed @ (Bson::Document(_) | Bson::String(_)) => computed,
            _ => "$a".into(),
        }
    }

    fn output(&mut self, bucket: &mut Document, bound: &[&'static str]) {
        if self.one_in(2) {
            bucket.insert("output", self.accumulators(bound));
        }
    }

    fn accumulators(&mut self, bound: &[&'static str]) -> Document {
        let count = self.below(4);
        let mut accumulators = Document::new();
        for name in ["a", "b", "c"].iter().take(count) {
            let accumulator = self.pick(ACCUMULATORS);
            let mut one = Document::new();
            one.insert(accumulator, self.accumulated(accumulator, bound));
            accumulators.insert(*name, one);
        }
        accumulators
    }

    fn accumulated(&mut self, accumulator: &str, bound: &[&'static str]) -> Bson {
        let order = doc! { self.path(): if self.one_in(2) { 1 } else { -1 }, "_id": 1 };
        let count = Bson::Int32(1 + self.below(4) as i32);
        match accumulator {
            "$count" => Document::new().into(),
            "$bottom" | "$top" => {
                doc! { "sortBy": order, "output": self.expression(ValueKind::Any, 2, bound) }.into()
            }
            "$bottomN" | "$topN" => {
                let output = self.expression(ValueKind::Any, 2, bound);
                doc! { "sortBy": order, "output": output, "n": count }.into()
            }
            "$firstN" | "$lastN" | "$maxN" | "$minN" => {
                doc! { "input": self.expression(ValueKind::Any, 2, bound), "n": count }.into()
            }
            "$mergeObjects" => self.accumulator_operand(ValueKind::Document, bound),
            "$addToSet" | "$first" | "$last" | "$max" | "$min" | "$push" => {
                self.accumulator_operand(ValueKind::Any, bound)
            }
            _ => self.accumulator_operand(ValueKind::Number, bound),
        }
    }

    /// Returns the operand of an accumulator, which must not be an array.
    fn accumulator_operand(&mut self, kind: ValueKind, bound: &[&'static str]) -> Bson {
        match self.expression(kind, MAX_EXPRESSION_DEPTH, bound) {
            Bson::Array(_) => "$c".into(),
            operand => operand,
        }
    }
}

/// Adds a sort without ties, because an index returns documents in a different order.
pub(crate) fn ordered(mut stages: Vec<Document>) -> Vec<Document> {
    stages.push(doc! { "$sort": { "_id": 1 } });
    stages
}
