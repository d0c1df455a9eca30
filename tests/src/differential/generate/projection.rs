//! Projections of all forms.

use bson::{Bson, Document, doc};

use super::{StepGenerator, expression};

impl StepGenerator {
    /// Returns a projection for the documents that a filter matches.
    pub(super) fn projection(&mut self, filter: &Document, documents: &[Document]) -> Document {
        let mut projection = Document::new();
        if self.dice.chance(30) {
            projection.insert("_id", self.dice.chance(40));
        }
        let includes = self.dice.chance(50);
        let count = *self.dice.pick(&[0, 1, 1, 2, 2, 3]);
        for _ in 0..count {
            let (path, value) = self.existing_or_random_path(documents);
            match self.dice.below(20) {
                0..3 => {
                    let slice = self.slice();
                    projection.insert(path, doc! { "$slice": slice });
                }
                3..6 => {
                    let path = path.split('.').next().unwrap_or("a").to_owned();
                    let item = match value {
                        Some(Bson::Array(values)) => self.dice.choose(&values).cloned(),
                        other => other,
                    };
                    let conditions = match &item {
                        Some(Bson::Document(inner)) => self.filter(std::slice::from_ref(inner)),
                        _ => self.operators(item.as_ref(), 1),
                    };
                    projection.insert(path, doc! { "$elemMatch": conditions });
                }
                6..8 if includes => {
                    if let Some(name) = sole_condition(filter) {
                        projection.insert(format!("{name}.$"), 1);
                    }
                }
                8 => {
                    // The nested form of the same path.
                    let inclusion_value = self.flag(includes);
                    let nested = path
                        .rsplit('.')
                        .fold(inclusion_value, |inner, name| doc! { name: inner }.into());
                    if let Bson::Document(nested) = nested {
                        projection.extend(nested);
                    }
                }
                9 => {
                    let computed = expression::any(self, documents, 2);
                    projection.insert(path, computed);
                }
                10 => {
                    let flag = self.dice.chance(50);
                    projection.insert(path, flag);
                }
                _ => {
                    let flag = self.flag(includes);
                    projection.insert(path, flag);
                }
            }
        }
        projection
    }

    fn flag(&mut self, includes: bool) -> Bson {
        if includes {
            self.dice
                .pick(&[
                    Bson::Int32(1),
                    true.into(),
                    Bson::Double(0.5),
                    Bson::Int64(-1),
                ])
                .clone()
        } else {
            self.dice
                .pick(&[
                    Bson::Int32(0),
                    false.into(),
                    Bson::Double(0.0),
                    Bson::Int64(0),
                ])
                .clone()
        }
    }

    fn slice(&mut self) -> Bson {
        let slice = if self.dice.chance(50) {
            Bson::Int32(self.dice.number(-3, 3))
        } else {
            let pair = [self.dice.number(-3, 3), self.dice.number(1, 3)];
            pair.into_iter().map(Bson::Int32).collect()
        };
        // A malformed operand is a scalar: MongoDB would read a malformed array as an expression.
        if self.dice.chance(3) {
            return self.scalar();
        }
        slice
    }
}

/// Returns the field of the only condition, which decides the position. MongoDB does not define which of several conditions does.
fn sole_condition(filter: &Document) -> Option<&str> {
    let mut names = filter.keys().filter(|name| *name != "_id");
    let name = names.next().filter(|name| !name.starts_with('$'))?;
    // With several conditions on the field, any condition may decide, too.
    let is_one = filter
        .get_document(name)
        .map_or(true, |conditions| conditions.len() == 1);
    (names.next().is_none() && is_one).then_some(name)
}
