//! Requirements of an update beyond the caller's condition: room in arrays, numbers within the range of their type, and no null in the
//! place of an operator's value.
//!
//! A requirement is a condition in the filter of the update, so that it holds in the very step that changes the document. Where an update
//! changes nothing, the requirements tell why.

use bson::{RawBson, RawDocument, RawDocumentBuf};

use super::{
    elements::{Elements, Levels},
    place::OutOfRange,
};
use crate::{
    Error, ErrorKind, Result,
    error::full,
    field::Path,
    query::{Node, document},
    schema::{Model, OverflowField},
};

/// A condition that a document must meet to be changed.
#[derive(Debug, Clone)]
pub(in crate::action) struct Requirement {
    pub(super) condition: Node,
    /// Some elements may be in chunk documents, which a condition on the document does not see.
    pub(super) may_spill: bool,
    pub(super) reason: Reason,
}

/// Why a document does not meet a requirement.
#[derive(Debug, Clone)]
pub(super) enum Reason {
    /// The array at a path would have more elements than its `max`.
    Room { path: String, max: usize },
    /// The number at a path would leave the range of its type.
    Range(Box<RangeReason>),
    /// The value at a path is null, which reads as the same `None` as a missing value. An operator works on the missing one.
    Null(Box<NullReason>),
}

/// A number that would leave the range of its type.
#[derive(Debug, Clone)]
pub(super) struct RangeReason {
    path: String,
    operator: &'static str,
    by: RawBson,
    /// The type, with its range.
    of: &'static str,
    is_checked_by_backend: bool,
    /// The condition on an element that may be outside of its document.
    element: Option<Node>,
}

/// A null, and the update that removes it.
#[derive(Debug, Clone)]
pub(super) struct NullReason {
    pub(super) update: RawDocumentBuf,
    pub(super) array_filters: Vec<RawDocumentBuf>,
    /// The condition on the document by which `$` names the element.
    pub(super) first: Node,
}

impl Requirement {
    /// There is no null at the end of a way.
    pub(super) fn no_null(levels: &Levels, is_array: bool) -> Result<Self> {
        let is_null = is_null(&levels.rest, is_array);
        let mut elements = Elements::default();
        let path = elements.place(&levels.and(&is_null))?;
        Ok(Self {
            condition: levels.none_meets(is_null),
            may_spill: levels.may_spill,
            reason: Reason::Null(Box::new(NullReason {
                update: document("$unset", document(&path, true)?)?,
                array_filters: elements.array_filters()?,
                first: elements.condition(),
            })),
        })
    }

    /// The number at the end of a way stays in the range of its type; gives the condition on the place too.
    pub(super) fn in_range(
        (path, levels): (&Path, &Levels),
        operator: &'static str,
        by: &RawBson,
        out: OutOfRange,
    ) -> (Self, Node) {
        let (of, is_checked_by_backend) = (out.of, out.is_checked_by_backend);
        let leaves = leaves_range(&levels.rest, out);
        let stays = Node::Not(Box::new(leaves.clone()));
        let requirement = Self {
            condition: levels.none_meets(leaves.clone()),
            may_spill: levels.may_spill,
            reason: Reason::Range(Box::new(RangeReason {
                path: path.to_string(),
                operator,
                by: by.clone(),
                of,
                is_checked_by_backend,
                element: levels.element_meets(leaves),
            })),
        };
        (requirement, stays)
    }

    /// The overflow array of the requirement, with the condition of an element that does not meet it.
    pub(super) fn spilled(&self, model: &Model) -> Option<(&'static OverflowField, &Node)> {
        let Reason::Range(reason) = &self.reason else {
            return None;
        };
        let mut fields = model.overflows.iter();
        let field = fields.find(|field| field.holds(&reason.path))?;
        Some((field, reason.element.as_ref()?))
    }

    /// Whether every backend itself refuses the operator on a document that does not meet the requirement.
    pub(super) fn is_checked_by_backend(&self) -> bool {
        matches!(&self.reason, Reason::Range(reason) if reason.is_checked_by_backend)
    }

    /// The error for a document that does not meet it, of which the value at the place was read too.
    pub(super) fn refuse(&self, found: &RawDocument) -> Option<Error> {
        match &self.reason {
            Reason::Room { path, max } => Some(full(*max, found).with_path(path.clone())),
            Reason::Range(reason) => Some(reason.refuse(found)),
            Reason::Null(_) => None,
        }
    }

    /// The path of which [`refuse`](Self::refuse) shows the value; none if there may be several.
    pub(super) fn shows(&self) -> Option<&str> {
        match &self.reason {
            Reason::Range(reason) if !reason.path.contains('$') => Some(&reason.path),
            _ => None,
        }
    }
}

impl RangeReason {
    fn refuse(&self, found: &RawDocument) -> Error {
        let Self {
            path,
            operator,
            by,
            of,
            ..
        } = self;
        let value = match value_at(found, path) {
            None => "a value".to_owned(),
            Some(RawBson::Null) => "0 (nothing is stored)".to_owned(),
            Some(value) => text(&value),
        };
        let (name, sign) = match *operator {
            "$mul" => ("mul", '×'),
            _ => ("inc", '+'),
        };
        let message = format!(
            "`{name}` is not applied: {value} {sign} {} is outside of the range of {of}",
            text(by),
        );
        let error = Error::new(ErrorKind::Invalid, message).with_path(path.clone());
        error.with_id_of(found)
    }
}

/// A number as people write it.
fn text(number: &RawBson) -> String {
    match number {
        RawBson::Int32(number) => number.to_string(),
        RawBson::Int64(number) => number.to_string(),
        RawBson::Decimal128(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}

/// The value at a path, or null if it is missing. None for a path with elements by condition.
fn value_at(found: &RawDocument, path: &str) -> Option<RawBson> {
    if path.contains('$') {
        return None;
    }
    let mut value = RawBson::Document(found.to_owned());
    for part in path.split('.') {
        let next = match &value {
            RawBson::Document(inside) => inside.get(part).ok().flatten().map(RawBson::from),
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

/// The condition that a place holds null, and is not missing.
fn is_null(place: &Path, is_array: bool) -> Node {
    let is = |name: &str| Node::Test(place.clone(), "$type", name.into());
    match is_array {
        // The type of an array is that of its elements too.
        true => is("null").and(Node::Not(Box::new(is("array")))),
        false => is("null"),
    }
}

/// The condition that a number at a place would leave the range of its type.
fn leaves_range(place: &Path, out: OutOfRange) -> Node {
    let test = |operator, bound| Node::Test(place.clone(), operator, bound);
    let low = out.less_than.map(|bound| test("$lt", bound));
    let high = out.greater_than.map(|bound| test("$gt", bound));
    let missing = out.missing.then(|| test("$eq", RawBson::Null));
    let mut ways: Vec<_> = low.into_iter().chain(high).chain(missing).collect();
    match (ways.pop(), ways.is_empty()) {
        (Some(only), true) => only,
        (last, _) => Node::Or(ways.into_iter().chain(last).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::{Arithmetic, IntegerRange};

    const BYTE: IntegerRange = IntegerRange {
        low: -128,
        high: 127,
        of: "`i8`",
    };
    const UNSIGNED: IntegerRange = IntegerRange {
        low: 0,
        high: 255,
        of: "`u8`",
    };

    /// Every number of a byte, by every amount and factor near the ends.
    #[test]
    fn the_bounds_are_those_of_arithmetic() {
        for range in [BYTE, UNSIGNED] {
            for operation in [Arithmetic::Add, Arithmetic::Multiply] {
                for by in -300..=300_i64 {
                    let out = range.left_by(operation, by.into());
                    let bound = |bound: Option<bson::RawBson>| bound.and_then(|b| b.as_i64());
                    let (less, greater, missing) = out.map_or((None, None, false), |out| {
                        (bound(out.less_than), bound(out.greater_than), out.missing)
                    });
                    let after = |n: i64| match operation {
                        Arithmetic::Add => n + by,
                        Arithmetic::Multiply => n * by,
                    };
                    let is_out = |n: i64| !(range.low..=range.high).contains(&after(n));
                    for n in range.low..=range.high {
                        let said = less.is_some_and(|b| n < b) || greater.is_some_and(|b| n > b);
                        assert_eq!(said, is_out(n), "{n}, {operation:?} {by}");
                    }
                    assert_eq!(missing, is_out(0), "nothing, {operation:?} {by}");
                }
            }
        }
    }

    #[test]
    fn the_largest_range_has_ends() {
        let all = IntegerRange {
            low: i64::MIN,
            high: i64::MAX,
            of: "`i64`",
        };
        let out = |operation, by: i64| all.left_by(operation, by.into()).unwrap();
        let bounds = |operation, by| {
            let out = out(operation, by);
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
