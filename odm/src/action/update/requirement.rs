//! Requirements of an update beyond the condition of the caller: room in arrays, numbers within the range of their type, and no
//! null in the place of an operator's value.
//!
//! A requirement is a condition in the filter of the update. The condition therefore holds in the very step that changes the
//! document. If an update changes nothing, the unmet requirement is the reason for the error.

use bson::{RawBson, RawDocument, RawDocumentBuf};

use super::{
    elements::{ElementConditions, Levels},
    operand_types::OutOfRange,
};
use crate::{
    Error, ErrorKind, Result,
    error::array_full,
    language::{
        field::Path,
        query::{FilterNode, single_field_document},
    },
    schema::{Model, OverflowField},
    write::footprint::Operator,
};

/// A condition that a document must meet to be updated.
#[derive(Debug, Clone)]
pub(in crate::action) struct UpdateRequirement {
    pub(super) condition: FilterNode,
    /// Some elements may be in chunk documents, which a condition on the owner document does not see.
    pub(super) may_spill: bool,
    pub(super) reason: RequirementReason,
}

/// The reason for a requirement, for the error.
#[derive(Debug, Clone)]
pub(super) enum RequirementReason {
    /// The array at a path would have more elements than its `max`.
    Room { path: String, max: usize },
    /// The number at a path would leave the range of its type.
    Range(Box<RangeReason>),
    /// The value at a path is null. An operator fails on null, but accepts a missing value, which also reads as `None`.
    Null(Box<NullReason>),
}

/// A number that would leave the range of its type.
#[derive(Debug, Clone)]
pub(super) struct RangeReason {
    path: String,
    operator: Operator,
    by: RawBson,
    /// The name and the range of the type.
    type_label: &'static str,
    is_checked_by_backend: bool,
    /// The condition on an element that may be in a chunk document.
    element: Option<FilterNode>,
}

/// A null, and the update that removes the null.
#[derive(Debug, Clone)]
pub(super) struct NullReason {
    pub(super) update: RawDocumentBuf,
    pub(super) array_filters: Vec<RawDocumentBuf>,
    /// The condition on the document by which `$` names the element.
    pub(super) element_condition: FilterNode,
}

impl UpdateRequirement {
    /// Requires that the value at the end of a path is not null.
    pub(super) fn not_null(levels: &Levels, is_array: bool) -> Result<Self> {
        let is_null = null_condition(&levels.rest, is_array);
        let mut elements = ElementConditions::default();
        let path = elements.operator_path(&levels.with_element_condition(&is_null))?;
        Ok(Self {
            condition: levels.no_place_condition(is_null),
            may_spill: levels.may_spill,
            reason: RequirementReason::Null(Box::new(NullReason {
                update: single_field_document("$unset", single_field_document(&path, true)?)?,
                array_filters: elements.array_filters()?,
                element_condition: elements.selection_condition(),
            })),
        })
    }

    /// Requires that the number at the end of a path stays in its range. Also returns the condition on the place alone.
    pub(super) fn in_range(
        (path, levels): (&Path, &Levels),
        operator: Operator,
        amount: &RawBson,
        bounds: OutOfRange,
    ) -> (Self, FilterNode) {
        let (type_label, is_checked_by_backend) = (bounds.of, bounds.is_checked_by_backend);
        let out_of_range = out_of_range_condition(&levels.rest, bounds);
        let condition = FilterNode::Not(Box::new(out_of_range.clone()));
        let requirement = Self {
            condition: levels.no_place_condition(out_of_range.clone()),
            may_spill: levels.may_spill,
            reason: RequirementReason::Range(Box::new(RangeReason {
                path: path.to_string(),
                operator,
                by: amount.clone(),
                type_label,
                is_checked_by_backend,
                element: levels.first_element_condition(out_of_range),
            })),
        };
        (requirement, condition)
    }

    /// Returns the overflow array of the requirement, with the condition on an element that does not meet the requirement.
    pub(super) fn overflow_condition(
        &self,
        model: &Model,
    ) -> Option<(&'static OverflowField, &FilterNode)> {
        let RequirementReason::Range(reason) = &self.reason else {
            return None;
        };
        let mut fields = model.overflows.iter();
        let field = fields.find(|field| field.contains_path(&reason.path))?;
        Some((field, reason.element.as_ref()?))
    }

    /// Whether every backend itself refuses the operator on a document that does not meet the requirement.
    pub(super) fn is_checked_by_backend(&self) -> bool {
        matches!(&self.reason, RequirementReason::Range(reason) if reason.is_checked_by_backend)
    }

    /// Returns the error for a document that does not meet the requirement. The document must contain the value at
    /// [`shown_path`](Self::shown_path).
    pub(super) fn to_error(&self, document: &RawDocument) -> Option<Error> {
        match &self.reason {
            RequirementReason::Room { path, max } => {
                Some(array_full(*max, document).with_path(path.clone()))
            }
            RequirementReason::Range(reason) => Some(reason.to_error(document)),
            RequirementReason::Null(_) => None,
        }
    }

    /// Returns the path of the value that the error shows, or `None` if the path can have several values.
    pub(super) fn shown_path(&self) -> Option<&str> {
        match &self.reason {
            RequirementReason::Range(reason) if !reason.path.contains('$') => Some(&reason.path),
            _ => None,
        }
    }
}

impl RangeReason {
    fn to_error(&self, document: &RawDocument) -> Error {
        let Self {
            path,
            operator,
            by: amount,
            type_label,
            ..
        } = self;
        let value = match value_at(document, path) {
            None => "a value".to_owned(),
            Some(RawBson::Null) => "0 (nothing is stored)".to_owned(),
            Some(value) => format_number(&value),
        };
        let (name, sign) = match operator {
            Operator::Mul => ("mul", '×'),
            _ => ("inc", '+'),
        };
        let message = format!(
            "`{name}` was not applied: {value} {sign} {} is outside the range of {type_label}",
            format_number(amount),
        );
        let error = Error::new(ErrorKind::Invalid, message).with_path(path.clone());
        error.with_id_of(document)
    }
}

/// Formats a number for an error message.
fn format_number(number: &RawBson) -> String {
    match number {
        RawBson::Int32(number) => number.to_string(),
        RawBson::Int64(number) => number.to_string(),
        RawBson::Decimal128(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}

/// Returns the value at a path, or null for a missing value. Returns `None` for a path with elements by condition.
fn value_at(found_document: &RawDocument, path: &str) -> Option<RawBson> {
    if path.contains('$') {
        return None;
    }
    let mut value = RawBson::Document(found_document.to_owned());
    for part in path.split('.') {
        let next = match &value {
            RawBson::Document(document) => document.get(part).ok().flatten().map(RawBson::from),
            RawBson::Array(elements) => {
                let index = part.parse().ok()?;
                elements.get(index).ok().flatten().map(RawBson::from)
            }
            _ => None,
        };
        value = next.unwrap_or(RawBson::Null);
    }
    Some(value)
}

/// Returns the condition that a place holds null, as opposed to a missing value.
fn null_condition(place: &Path, is_array: bool) -> FilterNode {
    let has_type = |name: &str| FilterNode::Test(place.clone(), "$type", name.into());
    match is_array {
        // `$type` of an array also matches the types of the elements.
        true => has_type("null").and(FilterNode::Not(Box::new(has_type("array")))),
        false => has_type("null"),
    }
}

/// Returns the condition that a number at a place would leave the range of its type.
fn out_of_range_condition(place: &Path, bounds: OutOfRange) -> FilterNode {
    let test = |operator, bound| FilterNode::Test(place.clone(), operator, bound);
    let low = bounds.less_than.map(|bound| test("$lt", bound));
    let high = bounds.greater_than.map(|bound| test("$gt", bound));
    let missing = bounds.missing.then(|| test("$eq", RawBson::Null));
    let mut branches: Vec<_> = low.into_iter().chain(high).chain(missing).collect();
    match (branches.pop(), branches.is_empty()) {
        (Some(only), true) => only,
        (last, _) => FilterNode::Or(branches.into_iter().chain(last).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::operand_types::{Arithmetic, IntegerRange};

    const BYTE: IntegerRange = IntegerRange {
        low: -128,
        high: 127,
        type_label: "`i8`",
    };
    const UNSIGNED: IntegerRange = IntegerRange {
        low: 0,
        high: 255,
        type_label: "`u8`",
    };

    /// Tests each number of a byte with all amounts and factors near the ends.
    #[test]
    fn bounds_match_the_arithmetic() {
        for range in [BYTE, UNSIGNED] {
            for operation in [Arithmetic::Add, Arithmetic::Multiply] {
                for amount in -300..=300_i64 {
                    let out = range.out_of_range_by(operation, amount.into());
                    let bound = |bound: Option<bson::RawBson>| bound.and_then(|b| b.as_i64());
                    let (less, greater, missing) = out.map_or((None, None, false), |out| {
                        (bound(out.less_than), bound(out.greater_than), out.missing)
                    });
                    let after = |n: i64| match operation {
                        Arithmetic::Add => n + amount,
                        Arithmetic::Multiply => n * amount,
                    };
                    let is_out = |n: i64| !(range.low..=range.high).contains(&after(n));
                    for n in range.low..=range.high {
                        let predicted =
                            less.is_some_and(|b| n < b) || greater.is_some_and(|b| n > b);
                        assert_eq!(predicted, is_out(n), "{n}, {operation:?} {amount}");
                    }
                    assert_eq!(missing, is_out(0), "nothing, {operation:?} {amount}");
                }
            }
        }
    }

    #[test]
    fn largest_range_has_bounds() {
        let all = IntegerRange {
            low: i64::MIN,
            high: i64::MAX,
            type_label: "`i64`",
        };
        let out = |operation, amount: i64| all.out_of_range_by(operation, amount.into()).unwrap();
        let bounds = |operation, amount| {
            let out = out(operation, amount);
            let bound = |bound: Option<bson::RawBson>| bound.map(|b| b.as_i64().unwrap());
            (bound(out.less_than), bound(out.greater_than))
        };
        assert_eq!(bounds(Arithmetic::Add, 1), (None, Some(i64::MAX - 1)));
        assert_eq!(bounds(Arithmetic::Add, i64::MIN), (Some(0), None));
        assert_eq!(bounds(Arithmetic::Add, i64::MAX), (None, Some(0)));
        assert_eq!(bounds(Arithmetic::Multiply, -1), (Some(-i64::MAX), None));
        assert_eq!(
            bounds(Arithmetic::Multiply, 2),
            (Some(i64::MIN / 2), Some(i64::MAX / 2))
        );
    }
}
