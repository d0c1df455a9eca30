//! The distinct elements of an array.

use std::iter;

use bson::{RawArray, RawArrayBuf, RawBsonRef};

use crate::expression::Value;
use crate::{Error, Result, value};

/// Distinct values in MongoDB's order.
#[derive(Debug, Default)]
pub(super) struct DistinctElements<'v>(Vec<RawBsonRef<'v>>);

impl<'v> DistinctElements<'v> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn contains(&self, candidate: RawBsonRef<'_>) -> bool {
        let position = self
            .0
            .binary_search_by(|element| value::compare(*element, candidate));
        position.is_ok()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = RawBsonRef<'v>> {
        self.0.iter().copied()
    }

    /// Returns whether both sets have equal elements.
    pub(super) fn equals(&self, other: &DistinctElements<'_>) -> bool {
        self.0.len() == other.0.len()
            && iter::zip(self.iter(), other.iter()).all(|(a, b)| value::equal(a, b))
    }

    /// Keeps only the elements that `other` also has.
    pub(super) fn common_with(mut self, other: &DistinctElements<'_>) -> Self {
        self.0.retain(|element| other.contains(*element));
        self
    }
}

impl<'v> FromIterator<RawBsonRef<'v>> for DistinctElements<'v> {
    /// Of equal values, the first is kept.
    fn from_iter<I: IntoIterator<Item = RawBsonRef<'v>>>(values: I) -> Self {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by(|a, b| value::compare(*a, *b));
        values.dedup_by(|a, b| value::equal(*a, *b));
        DistinctElements(values)
    }
}

impl From<DistinctElements<'_>> for Value<'_> {
    fn from(elements: DistinctElements<'_>) -> Self {
        elements.iter().collect::<RawArrayBuf>().into()
    }
}

/// Returns an operand that must be an array.
///
/// # Errors
/// The operand is not an array. `code` is the operator's error code for that.
pub(super) fn require_array<'o>(
    name: &str,
    operand: &'o Value<'_>,
    code: i32,
) -> Result<&'o RawArray> {
    operand.as_array().ok_or_else(|| {
        let type_name = operand.type_name();
        Error::with_server_code(code, format!("{name} takes arrays, not {type_name}"))
    })
}
