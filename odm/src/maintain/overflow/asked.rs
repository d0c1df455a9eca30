//! What an update does to an array that overflows.

use std::collections::BTreeSet;

use bson::{Bson, Document, RawDocumentBuf, doc};

use super::{
    header::{array, size},
    order::Order,
    place,
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::Change,
    error,
    maintain::{
        link::rule_of,
        stored::{close, names, open, overlap},
    },
    schema::{Model, OverflowField},
};

/// How many bytes there are in a change beside what it changes elements by, at most.
const SIZE_OF_A_CHANGE: usize = 1024;

/// An update, taken apart.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) field: &'static OverflowField,
    pub(super) what: What,
    /// What it does beside.
    rest: Document,
    /// Whether that is something to another such array.
    has_more: bool,
    array_filters: Vec<Document>,
}

/// What becomes of the array.
#[derive(Debug, Clone)]
pub(super) enum What {
    /// These come behind its elements.
    Push(Vec<Bson>),
    /// These do, but for those that it has.
    Add(Vec<Bson>),
    /// It has these and no others.
    Replace(Vec<Bson>),
    /// Something happens to each element by itself: these operators, whether there may be fewer behind it, and by how many bytes one may
    /// grow.
    Each {
        operators: Document,
        counts: bool,
        growth: usize,
    },
}

/// Whether an update does something to an array of its documents that overflows.
pub(super) fn is_any(model: &Model, change: &Change) -> bool {
    let touches = |update: &RawDocumentBuf| {
        let mut fields = model.overflows.iter();
        fields.any(|field| super::super::stored::touches(update, field.stored))
    };
    match change {
        Change::Operators { update, .. } => !model.overflows.is_empty() && touches(update),
        // The typed language has no others.
        _ => false,
    }
}

impl Asked {
    /// What it does to one of the arrays, but for those of which the update says already where its elements go.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) for what is not kept apart, and [`Invalid`](ErrorKind::Invalid) for an element that is
    /// too large.
    pub(super) fn of(
        model: &'static Model,
        change: &Change,
        apart: &[&'static OverflowField],
    ) -> Result<Self> {
        Self::read(model, change, apart).map_err(error::of(model))
    }

    /// What an update does to the first of them, if none of the others refuses what it does to that.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub(super) fn first(model: &'static Model, change: &Change) -> Result<Self> {
        let first = Self::of(model, change, &[])?;
        let (mut apart, mut has_more) = (vec![first.field], first.has_more);
        while has_more {
            let next = Self::of(model, change, &apart)?;
            apart.push(next.field);
            has_more = next.has_more;
        }
        Ok(first)
    }

    fn read(
        model: &'static Model,
        change: &Change,
        apart: &[&'static OverflowField],
    ) -> Result<Self> {
        let Change::Operators {
            update,
            array_filters,
        } = change
        else {
            return Err(unsupported("it is changed by operators alone", ""));
        };
        let (mut rest, mut own) = (Document::new(), Document::new());
        let (mut found, mut has_more) = (None::<&'static OverflowField>, false);
        for (operator, fields) in open(update)? {
            let Bson::Document(fields) = fields else {
                rest.insert(operator, fields);
                continue;
            };
            for (path, value) in fields {
                let is_apart = |field: &OverflowField| {
                    let mut apart = apart.iter();
                    apart.any(|other| other.stored == field.stored)
                };
                let mut arrays = model.overflows.iter().filter(|field| !is_apart(field));
                let renamed = value.as_str().filter(|_| operator == "$rename");
                let field = arrays.find(|field| {
                    overlap(&path, field.stored)
                        || renamed.is_some_and(|to| overlap(to, field.stored))
                });
                let Some(field) = field else {
                    super::work::put(&mut rest, &operator, &path, value);
                    continue;
                };
                if found.is_some_and(|other| other.stored != field.stored) {
                    has_more = true;
                    super::work::put(&mut rest, &operator, &path, value);
                    continue;
                }
                found = Some(field);
                super::work::put(&mut own, &operator, &path, value);
            }
        }
        let Some(field) = found else {
            return Err(unsupported("it changes no array that overflows", ""));
        };
        let array_filters = array_filters.iter().map(|filter| open(filter));
        let what = What::of(field, own)?;
        if rule_of(model, field).is_some() && matches!(what, What::Each { counts: false, .. }) {
            return Err(unsupported(
                "references with a rule do not change in place: pull one, and push another",
                field.field,
            ));
        }
        Ok(Self {
            field,
            what,
            rest,
            has_more,
            array_filters: array_filters.collect::<Result<_>>()?,
        })
    }

    /// Whether the update does something to another such array.
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// The change, with these operators for the array.
    pub(super) fn change(&self, operators: &[&Document]) -> Result<Change> {
        let mut update = self.rest.clone();
        for operators in operators {
            for (operator, fields) in *operators {
                for (path, value) in fields.as_document().into_iter().flatten() {
                    super::work::put(&mut update, operator, path, value.clone());
                }
            }
        }
        let array_filters = self.array_filters.iter().map(close);
        Ok(Change::Operators {
            update: close(&update)?,
            array_filters: array_filters.collect::<Result<_>>()?,
        })
    }

    /// The elements that may grow by these operators, by the name that the operators have for them and the condition behind it; all if
    /// there are several such conditions, or none.
    pub(super) fn growing(&self, operators: &Document) -> (String, Document) {
        let mut names = BTreeSet::new();
        for (operator, fields) in operators {
            for (path, value) in fields.as_document().into_iter().flatten() {
                if !growth_by(operator, value).is_ok_and(|growth| growth == 0) {
                    let name = path
                        .split_once("$[")
                        .and_then(|(_, name)| name.split_once(']'));
                    names.extend(name.map(|(name, _)| name.to_owned()));
                }
            }
        }
        let mut names = names.into_iter();
        let only = names.next().filter(|_| names.next().is_none());
        let of_only = |filter: &&Document| name_of(filter) == only;
        match self.array_filters.iter().find(of_only).zip(only.clone()) {
            Some((filter, name)) => (name, filter.clone()),
            None => ("e".to_owned(), doc! {}),
        }
    }

    /// The same operators for the tail.
    pub(super) fn at_tail(&self, operators: &Document) -> Document {
        moved(operators, self.field.stored, &place(self.field, "tail"))
    }

    /// What the documents with the other elements need to be changed in the same way.
    pub(super) fn at_extras(&self, operators: &Document) -> Result<Document> {
        let (stored, elements) = (self.field.stored, self.field.elements);
        let moved = moved(operators, stored, elements);
        let mut named = Vec::new();
        for (_, fields) in &moved {
            for (path, _) in fields.as_document().into_iter().flatten() {
                let parts = path.split('.').filter_map(|part| part.strip_prefix("$["));
                named.extend(
                    parts
                        .filter_map(|part| part.strip_suffix(']'))
                        .map(String::from),
                );
            }
        }
        let used = self.array_filters.iter();
        let used = used.filter(|filter| name_of(filter).is_some_and(|name| named.contains(&name)));
        let used: Vec<_> = used.cloned().map(Bson::Document).collect();
        let change = doc! { "update": moved, "array_filters": used };
        // It stands in the document until it is done.
        let most = self.field.part;
        if close(&change)?.as_bytes().len() > most + SIZE_OF_A_CHANGE {
            return Err(unsupported(
                &format!(
                    "what elements outside of the document change by has {most} bytes at most, and nothing was written"
                ),
                self.field.field,
            ));
        }
        Ok(change)
    }
}

/// Which documents of the extras such operators change: of those that take elements away, the ones that have some of these.
pub(super) fn changed_by(field: &OverflowField, operators: &Document) -> Document {
    let value = |operator: &str| operators.get_document(operator).ok()?.get(field.elements);
    match (value("$pullAll"), value("$pull")) {
        (Some(values), _) => doc! { field.elements: { "$in": values.clone() } },
        (_, Some(Bson::Document(condition))) => {
            doc! { field.elements: { "$elemMatch": condition.clone() } }
        }
        _ => doc! {},
    }
}

impl What {
    /// The elements that the array may have behind it and not before.
    pub(super) fn added(&self) -> &[Bson] {
        match self {
            Self::Push(values) | Self::Add(values) | Self::Replace(values) => values,
            // References with a rule do not change in place.
            Self::Each { .. } => &[],
        }
    }

    fn of(field: &OverflowField, own: Document) -> Result<Self> {
        let is_whole = |fields: &Document| fields.len() == 1 && fields.contains_key(field.stored);
        let one = match own.iter().next() {
            Some((operator, Bson::Document(fields))) if own.len() == 1 && is_whole(fields) => {
                fields
                    .get(field.stored)
                    .map(|value| (operator.as_str(), value))
            }
            _ => None,
        };
        let refuse = |what: &str| Err(unsupported(what, field.field));
        match one {
            Some(("$push" | "$addToSet", Bson::Document(modifiers))) if modifiers.len() > 1 => {
                refuse(
                    "its elements are pushed at the end, without a position, an order or a slice",
                )
            }
            Some(("$push", Bson::Document(modifiers))) => {
                let elements = array(modifiers.get("$each"));
                check(field, &elements)?;
                Ok(Self::Push(elements))
            }
            Some(("$addToSet", Bson::Document(modifiers))) => {
                let elements = array(modifiers.get("$each"));
                check(field, &elements)?;
                Ok(Self::Add(elements))
            }
            Some(("$set", value @ Bson::Array(_))) => {
                let elements = array(Some(value));
                check(field, &elements)?;
                Ok(Self::Replace(elements))
            }
            Some(("$pull" | "$pullAll", values)) if size(values)? > field.part => {
                let most = field.part;
                refuse(&format!(
                    "values of more than {most} bytes are pulled by several updates"
                ))
            }
            Some(("$pull" | "$pullAll", _)) => Ok(Self::Each {
                operators: own,
                counts: true,
                growth: 0,
            }),
            Some((operator, _)) => refuse(&format!("there is no `{operator}` of it")),
            None => Self::each(field, own),
        }
    }

    fn each(field: &OverflowField, own: Document) -> Result<Self> {
        let mut growth = 0;
        for (operator, fields) in &own {
            for (path, value) in fields.as_document().into_iter().flatten() {
                growth += growth_by(operator, value)?;
                let behind = path.strip_prefix(field.stored).unwrap_or_default();
                if names(path) == field.stored && behind.is_empty() {
                    return Err(unsupported(
                        "one update does one thing to it: use several, in a transaction if they belong together",
                        field.field,
                    ));
                }
                let inside = behind.split_once(']').map_or("", |(_, inside)| inside);
                let inside = inside.trim_start_matches('.');
                if let Some(order) = Order::of(field)
                    && (inside.is_empty() || overlap(inside, order.by()))
                {
                    return Err(unsupported(
                        "what its elements are ordered by does not change: pull the element, and push it as it is to be",
                        field.field,
                    ));
                }
                if !behind.starts_with(".$[") {
                    return Err(unsupported(
                        "its elements are named by `all()` and `matching(…)`, wherever they are, and not by their place",
                        field.field,
                    ));
                }
            }
        }
        check_size(field, growth)?;
        Ok(Self::Each {
            operators: own,
            counts: false,
            growth,
        })
    }
}

/// By how many bytes an operator may let an element grow: what is of one size is as good as there already.
fn growth_by(operator: &str, value: &Bson) -> Result<usize> {
    match (operator, value) {
        (
            "$set" | "$min" | "$max",
            Bson::String(_) | Bson::Binary(_) | Bson::Document(_) | Bson::Array(_),
        )
        | ("$push" | "$addToSet", _) => size(value),
        _ => Ok(0),
    }
}

/// The operators for an array elsewhere.
fn moved(operators: &Document, from: &str, to: &str) -> Document {
    let mut moved = Document::new();
    for (operator, fields) in operators {
        for (path, value) in fields.as_document().into_iter().flatten() {
            let behind = path.strip_prefix(from).unwrap_or_default();
            super::work::put(
                &mut moved,
                operator,
                &format!("{to}{behind}"),
                value.clone(),
            );
        }
    }
    moved
}

/// The elements of which an array filter speaks.
fn name_of(filter: &Document) -> Option<String> {
    filter.iter().find_map(|(name, value)| match value {
        Bson::Array(parts) if name.starts_with('$') => {
            parts.iter().find_map(|part| name_of(part.as_document()?))
        }
        _ => name.split('.').next().map(ToOwned::to_owned),
    })
}

/// Refuses an element that is too large, before anything is written.
pub(super) fn check(field: &OverflowField, elements: &[Bson]) -> Result<()> {
    for element in elements {
        check_size(field, size(element)?)?;
    }
    Ok(())
}

/// Half as much as stays in a document is the most that one element has.
fn check_size(field: &OverflowField, size: usize) -> Result<()> {
    let most = field.part / 2;
    if size <= most {
        return Ok(());
    }
    let message = format!(
        "an element of {size} bytes, where {most} are the most; nothing was written: what is so large is a document of its own, and the \
         element refers to it"
    );
    Err(Error::new(ErrorKind::Invalid, message).with_path(field.field))
}

fn unsupported(what: &str, path: &str) -> Error {
    let message = format!("an array that overflows is no array like others: {what}");
    let error = Error::new(ErrorKind::Unsupported, message);
    match path {
        "" => error,
        path => error.with_path(path),
    }
}
