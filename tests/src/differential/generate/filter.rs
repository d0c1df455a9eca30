//! Random filters with all operators.

use bson::{Bson, Document, doc};

use super::{StepGenerator, expression, value};

impl StepGenerator {
    /// Returns a filter that suits the given documents.
    pub(super) fn filter(&mut self, documents: &[Document]) -> Document {
        if self.dice.chance(8) {
            return Document::new();
        }
        self.clauses(documents, 2)
    }

    fn clauses(&mut self, documents: &[Document], depth: usize) -> Document {
        let mut filter = Document::new();
        let count = *self.dice.pick(&[1, 1, 1, 2, 2, 3]);
        for _ in 0..count {
            let (name, condition) = self.clause(documents, depth);
            filter.insert(name, condition);
        }
        filter
    }

    fn clause(&mut self, documents: &[Document], depth: usize) -> (String, Bson) {
        if depth > 0 && self.dice.chance(16) {
            let name = *self.dice.pick(&["$and", "$or", "$nor", "$or"]);
            let count = self.dice.between(1, 3);
            let branches: Bson = (0..count)
                .map(|_| Bson::Document(self.clauses(documents, depth - 1)))
                .collect();
            let branches = self.or_malformed(branches);
            return (name.to_owned(), branches);
        }
        if self.dice.chance(6) {
            return ("$expr".to_owned(), expression::predicate(self, documents));
        }
        let (path, value) = self.existing_or_random_path(documents);
        let condition = self.condition(value.as_ref(), depth);
        (path, condition)
    }

    /// Returns the condition of a field, given a value of the field in some document.
    fn condition(&mut self, value: Option<&Bson>, depth: usize) -> Bson {
        match self.dice.below(20) {
            0..5 => self.operand(value),
            5 => Bson::RegularExpression(value::regex(&mut self.dice)),
            _ => self.operators(value, depth).into(),
        }
    }

    /// Returns conditions such as `{ $gte: 5, $lt: 9 }`.
    pub(super) fn operators(&mut self, value: Option<&Bson>, depth: usize) -> Document {
        let mut conditions = Document::new();
        let count = *self.dice.pick(&[1, 1, 1, 2]);
        for _ in 0..count {
            self.add_operator(&mut conditions, value, depth);
        }
        conditions
    }

    fn add_operator(&mut self, conditions: &mut Document, value: Option<&Bson>, depth: usize) {
        let (name, operand) = match self.dice.below(44) {
            0..14 => {
                let name = *self
                    .dice
                    .pick(&["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]);
                (name, self.operand(value))
            }
            14..20 => {
                let name = *self.dice.pick(&["$in", "$in", "$nin"]);
                let count = self.dice.between(0, 4);
                let list: Bson = (0..count)
                    .map(|_| {
                        if self.dice.chance(5) {
                            Bson::RegularExpression(value::regex(&mut self.dice))
                        } else {
                            self.operand(value)
                        }
                    })
                    .collect();
                (name, self.or_malformed(list))
            }
            20..23 => {
                let flags = [
                    true.into(),
                    false.into(),
                    true.into(),
                    Bson::Int32(0),
                    Bson::Int32(1),
                    Bson::Null,
                ];
                ("$exists", self.dice.pick(&flags).clone())
            }
            23..26 => ("$type", self.types()),
            26..29 => {
                let size = match value {
                    Some(Bson::Array(values)) if self.dice.chance(70) => {
                        i32::try_from(values.len()).unwrap_or(0)
                    }
                    _ => self.dice.number(0, 3),
                };
                let size = Bson::Int32(size);
                ("$size", self.or_malformed(size))
            }
            29..31 => {
                let operands = [self.number(), self.number()];
                let operands = if self.dice.chance(80) {
                    Bson::Array(vec![
                        Bson::Int32(self.dice.number(1, 4)),
                        Bson::Int32(self.dice.number(-1, 3)),
                    ])
                } else {
                    Bson::Array(operands.to_vec())
                };
                ("$mod", self.or_malformed(operands))
            }
            31..33 => {
                let regex = value::regex(&mut self.dice);
                if self.dice.chance(40) {
                    conditions.insert("$options", *self.dice.pick(&["i", "m", "s", "x", "", "q"]));
                    ("$regex", Bson::String(regex.pattern.as_str().to_owned()))
                } else {
                    ("$regex", Bson::RegularExpression(regex))
                }
            }
            33..37 if depth > 0 => ("$elemMatch", self.elem_match(value, depth - 1).into()),
            37..40 if depth > 0 => ("$all", self.all(value, depth - 1)),
            40..42 if depth > 0 => {
                let inner = if self.dice.chance(15) {
                    Bson::RegularExpression(value::regex(&mut self.dice))
                } else {
                    self.operators(value, depth - 1).into()
                };
                ("$not", self.or_malformed(inner))
            }
            42 => {
                let names = [
                    "$bitsAllSet",
                    "$bitsAnySet",
                    "$bitsAllClear",
                    "$bitsAnyClear",
                ];
                let name = *self.dice.pick(&names);
                let operand = match self.dice.below(3) {
                    0 => Bson::Int32(self.dice.number(0, 9)),
                    1 => Bson::Array(vec![
                        Bson::Int32(self.dice.number(0, 4)),
                        Bson::Int32(self.dice.number(0, 70)),
                    ]),
                    _ => self.scalar(),
                };
                (name, operand)
            }
            _ => ("$gte", self.operand(value)),
        };
        conditions.insert(name, operand);
    }

    fn elem_match(&mut self, value: Option<&Bson>, depth: usize) -> Document {
        let items = match value {
            Some(Bson::Array(values)) => values.clone(),
            _ => Vec::new(),
        };
        let item = self.dice.choose(&items).cloned();
        match &item {
            Some(Bson::Document(inner)) if self.dice.chance(85) => {
                let mut filter = Document::new();
                let count = self.dice.between(1, 2);
                for _ in 0..count {
                    let (name, condition) = self.clause(std::slice::from_ref(inner), depth);
                    filter.insert(name, condition);
                }
                filter
            }
            _ => self.operators(item.as_ref(), depth),
        }
    }

    fn all(&mut self, value: Option<&Bson>, depth: usize) -> Bson {
        let items = match value {
            Some(Bson::Array(values)) => values.clone(),
            other => other.cloned().into_iter().collect(),
        };
        let count = self.dice.between(0, 3);
        if self.dice.chance(25) {
            return (0..count)
                .map(|_| Bson::Document(doc! { "$elemMatch": self.elem_match(value, depth) }))
                .collect();
        }
        let list: Bson = (0..count)
            .map(|_| {
                let item = self.dice.choose(&items).cloned();
                self.operand(item.as_ref())
            })
            .collect();
        self.or_malformed(list)
    }

    fn types(&mut self) -> Bson {
        let names = [
            "double",
            "string",
            "object",
            "array",
            "binData",
            "objectId",
            "bool",
            "date",
            "null",
            "regex",
            "int",
            "timestamp",
            "long",
            "decimal",
            "minKey",
            "maxKey",
            "number",
            "missing",
        ];
        let one = |world: &mut StepGenerator| match world.dice.below(10) {
            0 => Bson::Int32(
                *world
                    .dice
                    .pick(&[1, 2, 3, 4, 8, 10, 16, 18, 19, -1, 127, 0, 50]),
            ),
            1 => Bson::Double(*world.dice.pick(&[1.0, 16.0, 1.5])),
            _ => Bson::String((*world.dice.pick(&names)).to_owned()),
        };
        if self.dice.chance(30) {
            let count = self.dice.between(0, 3);
            return (0..count).map(|_| one(self)).collect();
        }
        let one = one(self);
        self.or_malformed(one)
    }

    /// Returns an operand, given an existing value.
    pub(super) fn operand(&mut self, value: Option<&Bson>) -> Bson {
        match value {
            Some(value) if self.dice.chance(85) => self.similar_value(value),
            _ => self.value(2),
        }
    }

    /// Returns the operand, or rarely a random value that the operator may refuse.
    pub(super) fn or_malformed(&mut self, operand: Bson) -> Bson {
        if self.dice.chance(3) {
            return self.value(2);
        }
        operand
    }
}
