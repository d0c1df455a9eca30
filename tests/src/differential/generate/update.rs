//! Updates with all operators, replacements, upserts, and find-and-modify.

use bson::{Bson, Document, doc};

use super::{StepGenerator, aggregate};
use crate::differential::compare::pins_id;
use crate::differential::step::Step;

/// An update with array filters and a required filter.
struct GeneratedUpdate {
    update: Bson,
    array_filters: Vec<Document>,
    /// The condition that the filter must contain for a positional `$`.
    needs: Document,
}

impl StepGenerator {
    pub(super) fn update(&mut self, collection: &str, documents: &[Document]) -> Step {
        if self.dice.chance(10) {
            return self.replace(collection, documents);
        }
        let is_many = self.dice.chance(40);
        let change = self.change(documents);
        let mut filter = if change.needs.is_empty() {
            if is_many {
                self.filter(documents)
            } else {
                self.filter_of_one(documents)
            }
        } else {
            // A single condition decides the position. MongoDB does not define which of several conditions does.
            let mut filter = change.needs;
            if !is_many && self.schema.has_indexes {
                filter.insert("_id", self.stored_id(documents));
            }
            filter
        };
        let mut args = doc! { "update": change.update };
        if !change.array_filters.is_empty() {
            args.insert("arrayFilters", change.array_filters);
        }
        if self.dice.chance(12) {
            self.make_upsert(&mut args, &mut filter, documents);
        }
        args.insert("filter", filter);
        let name = if is_many { "updateMany" } else { "updateOne" };
        Step::new(collection, name, args)
    }

    pub(super) fn replace(&mut self, collection: &str, documents: &[Document]) -> Step {
        let mut filter = self.filter_of_one(documents);
        let mut replacement = Document::new();
        if self.dice.chance(25) {
            let id = filter.get("_id").cloned();
            let id = id.unwrap_or_else(|| self.stored_id(documents));
            replacement.insert("_id", id);
        }
        replacement.extend(self.fields());
        let mut args = doc! { "replacement": replacement.clone() };
        if self.dice.chance(20) {
            if !replacement.contains_key("_id") && !pins_id(&filter) {
                filter.insert("_id", self.fresh_id());
            }
            args.insert("upsert", true);
        }
        args.insert("filter", filter);
        Step::new(collection, "replaceOne", args)
    }

    pub(super) fn find_and_modify(&mut self, collection: &str, documents: &[Document]) -> Step {
        let filter = self.filter_of_one(documents);
        let mut args = doc! { "filter": filter.clone() };
        if self.dice.chance(50) {
            let mut sort = self.sort(documents);
            if !sort.contains_key("_id") {
                sort.insert("_id", 1);
            }
            args.insert("sort", sort);
            if self.dice.chance(60) {
                args.insert("filter", self.filter(documents));
            }
        }
        if self.dice.chance(40) {
            // No positional projection: a position could belong to the document before or after the change.
            let projection = self.projection(&Document::new(), documents);
            args.insert("projection", projection);
        }
        if self.dice.chance(25) {
            return Step::new(collection, "findOneAndDelete", args);
        }
        if self.dice.chance(50) {
            args.insert("returnDocument", "after");
        }
        if self.dice.chance(25) {
            args.insert("replacement", self.fields());
            return Step::new(collection, "findOneAndReplace", args);
        }
        let mut change = self.change(documents);
        while !change.needs.is_empty() {
            change = self.change(documents);
        }
        args.insert("update", change.update);
        if !change.array_filters.is_empty() {
            args.insert("arrayFilters", change.array_filters);
        }
        if self.dice.chance(12) {
            let mut filter = args.get_document("filter").cloned().unwrap_or_default();
            self.make_upsert(&mut args, &mut filter, documents);
            args.insert("filter", filter);
        }
        Step::new(collection, "findOneAndUpdate", args)
    }

    /// Makes an update insert a document if the filter matches no document, with an `_id` that both sides know.
    fn make_upsert(&mut self, args: &mut Document, filter: &mut Document, documents: &[Document]) {
        args.insert("upsert", true);
        if pins_id(filter) {
            return;
        }
        let id = if self.dice.chance(70) {
            self.fresh_id()
        } else {
            self.stored_id(documents)
        };
        if self.dice.chance(50) {
            filter.insert("_id", id);
        } else if let Ok(update) = args.get_document_mut("update")
            && !update.is_empty()
        {
            let on_insert = update
                .entry("$setOnInsert".to_owned())
                .or_insert_with(|| doc! {}.into());
            if let Bson::Document(fields) = on_insert {
                fields.insert("_id", id);
            }
        }
    }

    fn change(&mut self, documents: &[Document]) -> GeneratedUpdate {
        let mut change = GeneratedUpdate {
            update: Bson::Null,
            array_filters: Vec::new(),
            needs: Document::new(),
        };
        if self.dice.chance(10) {
            change.update = aggregate::update_pipeline(self, documents);
            return change;
        }
        let mut update = Document::new();
        let count = *self.dice.pick(&[1, 1, 1, 1, 2, 2, 3]);
        for _ in 0..count {
            let (path, value) = self.update_path(documents, &mut change);
            let (operator, operand) = self.operation(&path, value.as_ref(), documents);
            let operations = update
                .entry(operator.to_owned())
                .or_insert_with(|| doc! {}.into());
            if let Bson::Document(operations) = operations {
                operations.insert(path, operand);
            }
        }
        change.update = update.into();
        change
    }

    /// Returns a path to change, possibly with `$`, `$[]` or `$[name]`, and the value at the path.
    fn update_path(
        &mut self,
        documents: &[Document],
        change: &mut GeneratedUpdate,
    ) -> (String, Option<Bson>) {
        if self.dice.chance(22)
            && let Some((path, items)) = self.array_path(documents)
        {
            let item = self.dice.choose(&items).cloned();
            let (place, item) = match self.dice.below(3) {
                0 if change.needs.is_empty() => {
                    change.needs = match &item {
                        Some(item @ Bson::Document(inner)) if self.dice.chance(70) => {
                            let first = inner.iter().next();
                            match first {
                                Some((name, value)) => {
                                    doc! { format!("{path}.{name}"): value.clone() }
                                }
                                None => doc! { path.clone(): item.clone() },
                            }
                        }
                        Some(item) => {
                            let conditions = self.operators(Some(item), 1);
                            doc! { path.clone(): { "$elemMatch": conditions } }
                        }
                        None => doc! { path.clone(): { "$exists": true } },
                    };
                    ("$".to_owned(), item)
                }
                0 | 1 => ("$[]".to_owned(), item),
                _ => {
                    let name = (*self.dice.pick(&["e", "f"])).to_owned();
                    if !change
                        .array_filters
                        .iter()
                        .any(|filter| filter.keys().any(|key| key.starts_with(&name)))
                    {
                        let filter = self.array_filter(&name, item.as_ref());
                        change.array_filters.push(filter);
                    }
                    (format!("$[{name}]"), item)
                }
            };
            let mut path = format!("{path}.{place}");
            if let Some(Bson::Document(inner)) = &item
                && self.dice.chance(75)
            {
                let names: Vec<_> = inner.keys().map(String::as_str).chain(["x", "z"]).collect();
                let name = (*self.dice.pick(&names)).to_owned();
                let value = inner.get(&name).cloned();
                path.push('.');
                path.push_str(&name);
                return (path, value);
            }
            return (path, item);
        }
        self.existing_or_random_path(documents)
    }

    fn array_filter(&mut self, name: &str, item: Option<&Bson>) -> Document {
        match item {
            Some(Bson::Document(inner)) if self.dice.chance(80) => {
                let (path, value) = self.existing_or_random_path(std::slice::from_ref(inner));
                let conditions = self.operators(value.as_ref(), 1);
                doc! { format!("{name}.{path}"): conditions }
            }
            item => {
                let conditions = self.operators(item, 1);
                doc! { name: conditions }
            }
        }
    }

    fn operation(
        &mut self,
        path: &str,
        value: Option<&Bson>,
        documents: &[Document],
    ) -> (&'static str, Bson) {
        let is_number = matches!(
            value,
            Some(Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_))
        );
        let is_array = matches!(value, Some(Bson::Array(_)));
        match self.dice.below(24) {
            0..6 if is_number => {
                let name = *self.dice.pick(&["$inc", "$mul", "$inc", "$bit"]);
                if name == "$bit" {
                    ("$bit", self.bits())
                } else {
                    (name, self.increment())
                }
            }
            0..14 if is_array => self.array_operation(value),
            0..4 => {
                let operand = self.operand(value);
                ("$set", operand)
            }
            4 => ("$unset", Bson::String(String::new())),
            5 => {
                let mut to = if self.dice.chance(60) {
                    self.random_path()
                } else {
                    self.existing_or_random_path(documents).0
                };
                if to == path && self.dice.chance(90) {
                    to.push('r');
                }
                ("$rename", Bson::String(to))
            }
            6..9 => {
                let name = *self.dice.pick(&["$min", "$max"]);
                (name, self.operand(value))
            }
            9 => {
                let name = *self.dice.pick(&["$inc", "$mul"]);
                (name, self.increment())
            }
            10 => ("$bit", self.bits()),
            11 => ("$setOnInsert", self.value(1)),
            12..16 => self.array_operation(value),
            _ => {
                let operand = self.value(2);
                ("$set", operand)
            }
        }
    }

    fn increment(&mut self) -> Bson {
        let number = self.number();
        self.or_malformed(number)
    }

    fn bits(&mut self) -> Bson {
        let name = *self.dice.pick(&["and", "or", "xor"]);
        let mask = if self.dice.chance(70) {
            Bson::Int32(self.dice.number(0, 7))
        } else {
            Bson::Int64(self.dice.number(-1, 7).into())
        };
        let bits = Bson::Document(doc! { name: mask });
        self.or_malformed(bits)
    }

    fn array_operation(&mut self, value: Option<&Bson>) -> (&'static str, Bson) {
        let items = match value {
            Some(Bson::Array(values)) => values.clone(),
            _ => Vec::new(),
        };
        let item = self.dice.choose(&items).cloned();
        match self.dice.below(12) {
            0..5 => {
                let operand = if self.dice.chance(75) {
                    self.push(&items)
                } else {
                    self.operand(item.as_ref())
                };
                ("$push", operand)
            }
            5..7 => {
                let operand = if self.dice.chance(50) {
                    let each = Bson::Document(doc! { "$each": self.operands(&items) });
                    self.or_malformed(each)
                } else {
                    self.operand(item.as_ref())
                };
                ("$addToSet", operand)
            }
            7 => {
                let end = Bson::Int32(*self.dice.pick(&[1, -1]));
                ("$pop", self.or_malformed(end))
            }
            8..11 => {
                let operand = match (&item, self.dice.below(3)) {
                    (Some(Bson::Document(inner)), 0 | 1) => {
                        self.filter(std::slice::from_ref(inner)).into()
                    }
                    (_, 0) => self.operators(item.as_ref(), 1).into(),
                    _ => self.operand(item.as_ref()),
                };
                ("$pull", operand)
            }
            _ => {
                let push_values = self.operands(&items);
                ("$pullAll", self.or_malformed(push_values))
            }
        }
    }

    /// Returns the operand of `$push`, with modifiers.
    fn push(&mut self, items: &[Bson]) -> Bson {
        let mut push = doc! { "$each": self.operands(items) };
        if self.dice.chance(35) {
            let position = Bson::Int32(self.dice.number(-3, 4));
            push.insert("$position", self.or_malformed(position));
        }
        if self.dice.chance(35) {
            let slice = Bson::Int32(self.dice.number(-3, 4));
            push.insert("$slice", self.or_malformed(slice));
        }
        if self.dice.chance(35) {
            let sort = if self.dice.chance(50) {
                self.direction()
            } else {
                let mut sort = Document::new();
                let count = self.dice.between(1, 2);
                for _ in 0..count {
                    let name = *self.dice.pick(&["x", "y", "x.y", "a", "x.0"]);
                    sort.insert(name, self.direction());
                }
                sort.into()
            };
            push.insert("$sort", self.or_malformed(sort));
        }
        push.into()
    }

    fn operands(&mut self, items: &[Bson]) -> Bson {
        let count = self.dice.between(0, 3);
        (0..count)
            .map(|_| {
                let item = self.dice.choose(items).cloned();
                self.operand(item.as_ref())
            })
            .collect()
    }
}
