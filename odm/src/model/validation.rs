//! Validation rules of a model's fields. Every typed write is validated.
//!
//! Inserts and saves validate whole documents. An update is validated by the rules of the fields that the update sets. If a rule
//! needs the outcome of the update, the place is undecided: `OutcomeCheck` then validates the documents after the update, in the
//! same transaction.

#[cfg(feature = "garde")]
mod garde;
mod outcome;

use bson::{RawBson, RawBsonRef};
#[cfg(feature = "garde")]
pub use garde::{Validated, checked, find_violations};
pub(crate) use outcome::OutcomeCheck;

use crate::{
    Error, ErrorKind, Result, error,
    language::query::encode_value,
    model::document::{Document, Stored},
    write::footprint::{Operator, PathChange},
};

/// A broken rule: the path of the value, and the message of the rule.
pub(crate) type Violation = (String, String);

/// The validation rules of a document.
pub struct DocumentRules<T> {
    /// Returns the broken rules of a document, with Rust paths.
    pub find_violations: fn(&T) -> Vec<Violation>,
    /// The rules of the fields.
    pub fields: Rules,
}

/// The validation rules for the parts of a value of some type.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Checks a write to a place below the value.
    pub check: fn(&[&str], Proposed<'_>, &mut Verdict<'_>),
    /// Converts a Rust path to stored names.
    pub stored: fn(&[&str]) -> Vec<String>,
    /// The kind of parts that the value has.
    pub parts: Parts,
}

/// The kind of parts that a value has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// Fields, or no parts.
    Fields,
    /// The elements of an array.
    Elements,
    /// The values of a map.
    Values,
}

/// The effect of an update operator on a place.
#[derive(Debug, Clone, Copy)]
pub enum Proposed<'v> {
    /// The place holds this value, or stays unchanged.
    Value(RawBsonRef<'v>),
    /// The array at the place gains some or all of these elements.
    Elements(RawBsonRef<'v>),
    /// The array at the place loses elements.
    Less,
    /// Only the outcome shows the value.
    Unknown,
}

/// Returns the broken rules of a value, with Rust paths, or `None` if the value cannot be decoded.
type ValueCheck = fn(RawBson) -> Option<Vec<Violation>>;

/// The validation rules of a field.
pub struct FieldRule {
    /// Checks a value of the field. `None` if the rules need more than the field: other fields, or the type parameters.
    pub check: Option<ValueCheck>,
    /// Checks an array or map by the rules of its elements alone. `None` without such rules.
    pub elements: Option<ValueCheck>,
    /// The rules of the field's type: `dive`.
    pub type_rules: Option<Rules>,
    /// Whether the field has rules.
    pub is_ruled: bool,
    /// Whether the field has rules for its elements: `inner`.
    pub has_inner: bool,
    /// Whether a change of the length can break a rule: `length`.
    pub has_length: bool,
    /// Whether any change inside the field can break a rule.
    pub is_whole: bool,
    /// Whether rules of the field read other fields, or rules of other fields read this field.
    pub is_entangled: bool,
    /// The kind of parts that the field has.
    pub parts: Parts,
}

/// The result of validating an update.
#[derive(Debug, Default)]
pub struct Verdict<'p> {
    /// The place that the update writes.
    path: &'p str,
    violations: Vec<Violation>,
    /// The places that only the outcome of the update can validate.
    undecided: Vec<String>,
    /// Whether the outcome of an undecided place can break the rules of other places.
    entangled: bool,
}

impl Rules {
    /// The rules of a type without known rules. Such a type may have rules that only a check of the whole value runs.
    pub const UNKNOWN: Self = Self {
        check: |_, _, verdict| verdict.mark_undecided(),
        stored: |path| path.iter().map(|name| (*name).to_owned()).collect(),
        parts: Parts::Fields,
    };

    /// The rules of an array.
    pub(crate) const fn of_elements<T: Stored>() -> Self {
        Self {
            check: check_below::<T>,
            stored: stored_below::<T>,
            parts: Parts::Elements,
        }
    }

    /// The rules of a map.
    pub(crate) const fn of_values<T: Stored>() -> Self {
        Self {
            parts: Parts::Values,
            ..Self::of_elements::<T>()
        }
    }
}

fn check_below<T: Stored>(path: &[&str], proposed: Proposed<'_>, verdict: &mut Verdict<'_>) {
    match path {
        [_, rest @ ..] if !rest.is_empty() => (T::RULES.check)(rest, proposed, verdict),
        _ => verdict.mark_undecided(),
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
    /// Marks the place as undecided.
    pub fn mark_undecided(&mut self) {
        self.undecided.push(self.path.to_owned());
    }

    /// Validates a write to a field, or to the path `subpath` below the field.
    pub fn field(&mut self, rule: &FieldRule, subpath: &[&str], proposed: Proposed<'_>) {
        if !rule.is_ruled && !rule.is_entangled {
            return;
        }
        if rule.is_entangled {
            self.entangled = true;
            return self.mark_undecided();
        }
        if subpath.is_empty() {
            match proposed {
                Proposed::Value(value) => {
                    self.record_violations(rule.check, value.into(), 0, &rule.type_rules)
                }
                Proposed::Elements(elements) => {
                    if rule.is_whole || rule.has_length {
                        self.mark_undecided();
                    }
                    if rule.has_inner || rule.type_rules.is_some() {
                        self.record_violations(rule.elements, elements.into(), 1, &rule.type_rules);
                    }
                }
                Proposed::Less if !rule.is_whole && !rule.has_length => {}
                Proposed::Less | Proposed::Unknown => self.mark_undecided(),
            }
            return;
        }
        if rule.is_whole || (rule.has_length && rule.parts == Parts::Values) {
            self.mark_undecided();
        }
        match (subpath, proposed) {
            // Wrap the value in an array or map of its own: `elements` checks whole arrays and maps.
            ([_], Proposed::Value(value)) if rule.parts != Parts::Fields => {
                if rule.has_inner || rule.type_rules.is_some() {
                    match as_single_child(value, rule.parts) {
                        Some(single) => {
                            self.record_violations(rule.elements, single, 1, &rule.type_rules)
                        }
                        None => self.mark_undecided(),
                    }
                }
            }
            _ if rule.has_inner => self.mark_undecided(),
            _ => {
                if let Some(rules) = rule.type_rules {
                    (rules.check)(subpath, proposed, self);
                }
            }
        }
    }

    /// Records the broken rules of a value. The first `skipped` names of each Rust path belong to the written place, so the
    /// stored path leaves the names out.
    fn record_violations(
        &mut self,
        check: Option<ValueCheck>,
        value: RawBson,
        skipped: usize,
        rules: &Option<Rules>,
    ) {
        let Some(broken) = check.and_then(|check| check(value)) else {
            return self.mark_undecided();
        };
        for (path, message) in broken {
            // The first name is the name of the field.
            let names = path_names(&path);
            let names = names.get(1..).unwrap_or_default();
            let inner = rules.as_ref().map_or_else(
                || (Rules::UNKNOWN.stored)(names),
                |rules| (rules.stored)(names),
            );
            let inner = inner.get(skipped..).unwrap_or_default();
            let path = std::iter::once(self.path)
                .chain(inner.iter().map(String::as_str))
                .collect::<Vec<_>>();
            self.violations.push((path.join("."), message));
        }
    }
}

/// Wraps a value as the only element of an array, or as the only value of a map.
fn as_single_child(value: RawBsonRef<'_>, parts: Parts) -> Option<RawBson> {
    if parts == Parts::Values {
        return crate::language::query::single_field_document("key", RawBson::from(value))
            .ok()
            .map(Into::into);
    }
    let mut array = bson::RawArrayBuf::new();
    array.push(RawBson::from(value));
    Some(array.into())
}

/// Splits a Rust path into names: `addresses[0].city`.
fn path_names(path: &str) -> Vec<&str> {
    let parts = path.split(['.', '[']);
    let names = parts.map(|part| part.trim_end_matches(']'));
    names.filter(|name| !name.is_empty()).collect()
}

/// Validates a whole document.
///
/// # Errors
///
/// [`Validation`](ErrorKind::Validation) with all broken rules.
pub(crate) fn check_document<T: Document>(document: &T) -> Result<()> {
    let Some(rules) = T::RULES else {
        return Ok(());
    };
    let broken = broken_rules(rules, document);
    if broken.is_empty() {
        return Ok(());
    }
    let error = validation_error(broken);
    Err(
        match encode_value(document.id()).map(bson::Bson::try_from) {
            Ok(Ok(id)) => error.with_id(id),
            _ => error,
        },
    )
}

/// Returns the broken rules of a document, with stored paths.
fn broken_rules<T>(rules: &DocumentRules<T>, document: &T) -> Vec<Violation> {
    let broken = (rules.find_violations)(document).into_iter();
    let stored =
        |(path, message): Violation| ((rules.fields.stored)(&path_names(&path)).join("."), message);
    let mut broken: Vec<_> = broken.map(stored).collect();
    broken.sort();
    broken
}

/// Validates the values that an update sets. Returns the check of the outcome, if a place is undecided.
///
/// # Errors
///
/// [`Validation`](ErrorKind::Validation) with all broken rules.
pub(crate) fn check_update<'c, T: Document>(
    changes: impl Iterator<Item = PathChange<'c>>,
) -> Result<Option<OutcomeCheck>> {
    let Some(rules) = T::RULES else {
        return Ok(None);
    };
    let (mut violations, mut outcome_check) = (Vec::new(), OutcomeCheck::for_model::<T>());
    for change in changes {
        let (path, operand) = (change.path, change.operand);
        let mut check = |path: &str, proposed| {
            let mut verdict = Verdict {
                path,
                ..Verdict::default()
            };
            let names: Vec<_> = path.split('.').collect();
            (rules.fields.check)(&names, proposed, &mut verdict);
            violations.append(&mut verdict.violations);
            outcome_check.add_places(verdict.undecided, verdict.entangled);
        };
        match change.operator {
            Operator::Set | Operator::SetOnInsert | Operator::Min | Operator::Max => {
                check(path, Proposed::Value(operand))
            }
            Operator::Unset => check(path, Proposed::Value(RawBsonRef::Null)),
            Operator::Push | Operator::AddToSet => check(path, Proposed::Elements(operand)),
            Operator::Pull | Operator::PullAll | Operator::Pop => check(path, Proposed::Less),
            Operator::Rename => {
                check(path, Proposed::Value(RawBsonRef::Null));
                if let Some(target) = change.rename_target() {
                    check(target, Proposed::Unknown);
                }
            }
            Operator::Inc
            | Operator::Mul
            | Operator::Bit
            | Operator::CurrentDate
            | Operator::Unknown => check(path, Proposed::Unknown),
        }
    }
    if violations.is_empty() {
        return Ok(Some(outcome_check).filter(|outcome_check| !outcome_check.is_empty()));
    }
    Err(error::of_model::<T>(validation_error(violations)))
}

/// Returns the error for the broken rules.
fn validation_error(violations: Vec<Violation>) -> Error {
    let messages: Vec<_> = violations
        .iter()
        .map(|(path, message)| match path.is_empty() {
            true => message.clone(),
            false => format!("`{path}`: {message}"),
        })
        .collect();
    let message = format!(
        "validation failed, nothing was written: {}",
        messages.join("; ")
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
    fn rust_path_splits_into_names() {
        assert_eq!(path_names("addresses[0].city"), ["addresses", "0", "city"]);
        assert_eq!(path_names("tags[1][2]"), ["tags", "1", "2"]);
        assert!(path_names("").is_empty());
    }
}
