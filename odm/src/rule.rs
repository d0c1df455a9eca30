//! Rules for the values of a model, said on its fields: every typed write keeps to them.
//!
//! A document that is inserted or saved is checked as a whole. Of an update is checked what it sets, by the rules of the place where
//! it does; where only the outcome tells, the [`Outcome`] is [`undecided`](Verdict::undecided), and the documents are looked at behind
//! the update, in its transaction.

mod behind;
#[cfg(feature = "garde")]
mod garde;

pub(crate) use behind::Behind;
use bson::{RawBson, RawBsonRef};
#[cfg(feature = "garde")]
pub use garde::{Validated, broken, checked};

use crate::{
    Error, ErrorKind, Result,
    document::{Document, Stored},
    error,
    query::encode,
};

/// A value that breaks a rule: its path, and what the rule says of it.
pub(crate) type Violation = (String, String);

/// The rules of a document.
pub struct Whole<T> {
    /// The values of a document that break one, by their paths in Rust.
    pub broken: fn(&T) -> Vec<Violation>,
    /// Those of its fields.
    pub fields: Rules,
}

/// The rules of what is inside of a value of some type.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Checks what is written at a place below the value.
    pub check: fn(&[&str], Proposed<'_>, &mut Verdict<'_>),
    /// The stored names of a path in Rust.
    pub stored: fn(&[&str]) -> Vec<String>,
    /// What is right below the value.
    pub parts: Parts,
}

/// What is right below a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// Fields, or nothing.
    Fields,
    /// The elements of an array.
    Elements,
    /// The values of a map.
    Values,
}

/// What an operator of an update writes at a place.
#[derive(Debug, Clone, Copy)]
pub enum Proposed<'v> {
    /// This value, or what is there already.
    Value(RawBsonRef<'v>),
    /// The array that is there with these elements, or some of them, beside others.
    Elements(RawBsonRef<'v>),
    /// What is there with something taken away.
    Less,
    /// What only the outcome tells.
    Unknown,
}

/// The violations in a value by their paths in Rust; none if it cannot be told.
type Check = fn(RawBson) -> Option<Vec<Violation>>;

/// The rules of one field.
pub struct FieldRule {
    /// The values in a value of the field that break one, by their paths in Rust; none if it cannot be told.
    pub check: Option<Check>,
    /// The same by the rules of its elements alone.
    pub elements: Option<Check>,
    /// The rules of what is inside, which the field has as well: `dive`.
    pub inside: Option<Rules>,
    /// Whether there are any.
    pub is_ruled: bool,
    /// Whether there are some for the elements alone: `inner`.
    pub has_inner: bool,
    /// Whether there are some that a change of the length may break: `length`.
    pub has_length: bool,
    /// Whether there are some that any change inside may break.
    pub is_whole: bool,
    /// Whether there are some that look at other fields, or others that look at this one.
    pub is_entangled: bool,
    /// What is right below the field.
    pub parts: Parts,
}

/// What has been found about an update so far.
#[derive(Debug, Default)]
pub struct Verdict<'p> {
    /// The place that is written.
    path: &'p str,
    violations: Vec<Violation>,
    /// The places of which only the outcome tells.
    undecided: Vec<String>,
    /// Whether the outcome of such a place may break the rules of another.
    entangled: bool,
}

impl Rules {
    /// Of a type of which nothing is known: it may have rules inside that only its values as a whole are checked by.
    pub const UNKNOWN: Self = Self {
        check: |_, _, verdict| verdict.leave_open(),
        stored: |path| path.iter().map(|name| (*name).to_owned()).collect(),
        parts: Parts::Fields,
    };

    /// Of an array.
    pub(crate) const fn of_elements<T: Stored>() -> Self {
        Self {
            check: below::<T>,
            stored: stored_below::<T>,
            parts: Parts::Elements,
        }
    }

    /// Of a map.
    pub(crate) const fn of_values<T: Stored>() -> Self {
        Self {
            parts: Parts::Values,
            ..Self::of_elements::<T>()
        }
    }
}

fn below<T: Stored>(path: &[&str], proposed: Proposed<'_>, verdict: &mut Verdict<'_>) {
    match path {
        [_, rest @ ..] if !rest.is_empty() => (T::RULES.check)(rest, proposed, verdict),
        _ => verdict.leave_open(),
    }
}

fn stored_below<T: Stored>(path: &[&str]) -> Vec<String> {
    match path {
        [] => Vec::new(),
        [first, rest @ ..] => [(*first).to_owned()]
            .into_iter()
            .chain((T::RULES.stored)(rest))
            .collect(),
    }
}

impl Verdict<'_> {
    /// Only the outcome tells.
    pub fn leave_open(&mut self) {
        self.undecided.push(self.path.to_owned());
    }

    /// Checks what is written to a field, or `below` it.
    pub fn field(&mut self, rule: &FieldRule, below: &[&str], proposed: Proposed<'_>) {
        if !rule.is_ruled && !rule.is_entangled {
            return;
        }
        if rule.is_entangled {
            self.entangled = true;
            return self.leave_open();
        }
        if below.is_empty() {
            match proposed {
                Proposed::Value(value) => self.note(rule.check, value.into(), 0, &rule.inside),
                Proposed::Elements(elements) => {
                    if rule.is_whole || rule.has_length {
                        self.leave_open();
                    }
                    if rule.has_inner || rule.inside.is_some() {
                        self.note(rule.elements, elements.into(), 1, &rule.inside);
                    }
                }
                Proposed::Less if !rule.is_whole && !rule.has_length => {}
                Proposed::Less | Proposed::Unknown => self.leave_open(),
            }
            return;
        }
        if rule.is_whole || (rule.has_length && rule.parts == Parts::Values) {
            self.leave_open();
        }
        match (below, proposed) {
            // As the only one it is checked by the rules of all.
            ([_], Proposed::Value(value)) if rule.parts != Parts::Fields => {
                if rule.has_inner || rule.inside.is_some() {
                    match alone(value, rule.parts) {
                        Some(alone) => self.note(rule.elements, alone, 1, &rule.inside),
                        None => self.leave_open(),
                    }
                }
            }
            _ if rule.has_inner => self.leave_open(),
            _ => {
                if let Some(inside) = rule.inside {
                    (inside.check)(below, proposed, self);
                }
            }
        }
    }

    /// Notes what is wrong with a value; `own` names of each path stand for the place itself.
    fn note(&mut self, check: Option<Check>, value: RawBson, own: usize, inside: &Option<Rules>) {
        let Some(broken) = check.and_then(|check| check(value)) else {
            return self.leave_open();
        };
        for (path, message) in broken {
            // The first name is that of the field.
            let names = names(&path);
            let names = names.get(1..).unwrap_or_default();
            let inner = inside.as_ref().map_or_else(
                || (Rules::UNKNOWN.stored)(names),
                |inside| (inside.stored)(names),
            );
            let inner = inner.get(own..).unwrap_or_default();
            let path = std::iter::once(self.path)
                .chain(inner.iter().map(String::as_str))
                .collect::<Vec<_>>();
            self.violations.push((path.join("."), message));
        }
    }
}

/// The value as the only one of an array or a map.
fn alone(value: RawBsonRef<'_>, parts: Parts) -> Option<RawBson> {
    if parts == Parts::Values {
        return crate::query::document("key", RawBson::from(value))
            .ok()
            .map(Into::into);
    }
    let mut array = bson::RawArrayBuf::new();
    array.push(RawBson::from(value));
    Some(array.into())
}

/// The names in a path as it is written in Rust: `addresses[0].city`.
fn names(path: &str) -> Vec<&str> {
    let parts = path.split(['.', '[']);
    let names = parts.map(|part| part.trim_end_matches(']'));
    names.filter(|name| !name.is_empty()).collect()
}

/// Checks a whole document.
///
/// # Errors
///
/// [`Validation`](ErrorKind::Validation) with all that is wrong.
pub(crate) fn check_document<T: Document>(document: &T) -> Result<()> {
    let Some(rules) = T::RULES else {
        return Ok(());
    };
    let broken = broken_rules(rules, document);
    if broken.is_empty() {
        return Ok(());
    }
    let error = refuse(broken);
    Err(match encode(document.id()).map(bson::Bson::try_from) {
        Ok(Ok(id)) => error.with_id(id),
        _ => error,
    })
}

/// What is wrong with a document, by stored paths.
fn broken_rules<T>(rules: &Whole<T>, document: &T) -> Vec<Violation> {
    let broken = (rules.broken)(document).into_iter();
    let stored =
        |(path, message): Violation| ((rules.fields.stored)(&names(&path)).join("."), message);
    let mut broken: Vec<_> = broken.map(stored).collect();
    broken.sort();
    broken
}

/// Checks what an update sets, and says what remains to be seen.
///
/// # Errors
///
/// [`Validation`](ErrorKind::Validation) with all that is wrong.
pub(crate) fn check_update<'c, T: Document>(
    changes: impl Iterator<Item = (&'c str, &'c str, &'c RawBson)>,
) -> Result<Option<Behind>> {
    let Some(rules) = T::RULES else {
        return Ok(None);
    };
    let (mut violations, mut behind) = (Vec::new(), Behind::of::<T>());
    for (operator, path, value) in changes {
        let mut check = |path: &str, proposed| {
            let mut verdict = Verdict {
                path,
                ..Verdict::default()
            };
            let names: Vec<_> = path.split('.').collect();
            (rules.fields.check)(&names, proposed, &mut verdict);
            violations.append(&mut verdict.violations);
            behind.add(verdict.undecided, verdict.entangled);
        };
        let value = value.as_raw_bson_ref();
        match operator {
            "$set" | "$min" | "$max" => check(path, Proposed::Value(value)),
            "$unset" => check(path, Proposed::Value(RawBsonRef::Null)),
            "$push" | "$addToSet" => check(path, Proposed::Elements(value)),
            "$pull" | "$pullAll" | "$pop" => check(path, Proposed::Less),
            "$rename" => {
                check(path, Proposed::Value(RawBsonRef::Null));
                if let RawBsonRef::String(to) = value {
                    check(to, Proposed::Unknown);
                }
            }
            // `$inc`, `$mul`, `$bit`, `$currentDate`, and whatever may come.
            _ => check(path, Proposed::Unknown),
        }
    }
    if violations.is_empty() {
        return Ok(Some(behind).filter(|behind| !behind.is_empty()));
    }
    Err(error::of_model::<T>(refuse(violations)))
}

/// The error that has all that is wrong.
fn refuse(violations: Vec<Violation>) -> Error {
    let all: Vec<_> = violations
        .iter()
        .map(|(path, message)| match path.is_empty() {
            true => message.clone(),
            false => format!("`{path}`: {message}"),
        })
        .collect();
    let message = format!(
        "nothing was written, as a rule is broken: {}",
        all.join("; ")
    );
    let path = match violations.as_slice() {
        [(path, _)] if !path.is_empty() => Some(path.clone()),
        _ => None,
    };
    let error = Error::new(ErrorKind::Validation, message).with_violations(violations);
    match path {
        Some(path) => error.with_path(path),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_its_names() {
        assert_eq!(names("addresses[0].city"), ["addresses", "0", "city"]);
        assert_eq!(names("tags[1][2]"), ["tags", "1", "2"]);
        assert!(names("").is_empty());
    }
}
