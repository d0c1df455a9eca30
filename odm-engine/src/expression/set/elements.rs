//! The distinct elements of an array.

use std::iter;

use bson::{RawArray, RawArrayBuf, RawBsonRef};

use crate::collation::ValueOrder;
use crate::expression::Value;
use crate::{Error, Result};

/// Distinct values in the order of the operation.
#[derive(Debug)]
pub(super) struct DistinctElements<'v> {
    elements: Vec<RawBsonRef<'v>>,
    order: &'v ValueOrder,
}

impl<'v> DistinctElements<'v> {
    /// Of equal values, the first is kept.
    pub(super) fn new(
        values: impl IntoIterator<Item = RawBsonRef<'v>>,
        order: &'v ValueOrder,
    ) -> Self {
        let mut elements: Vec<_> = values.into_iter().collect();
        elements.sort_by(|a, b| order.compare(*a, *b));
        elements.dedup_by(|a, b| order.equal(*a, *b));
        DistinctElements { elements, order }
    }

    pub(super) fn len(&self) -> usize {
        self.elements.len()
    }

    pub(super) fn contains(&self, candidate: RawBsonRef<'_>) -> bool {
        let compare = |element: &RawBsonRef<'_>| self.order.compare(*element, candidate);
        self.elements.binary_search_by(compare).is_ok()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = RawBsonRef<'v>> {
        self.elements.iter().copied()
    }

    /// Returns whether both sets have equal elements.
    pub(super) fn equals(&self, other: &DistinctElements<'_>) -> bool {
        self.elements.len() == other.elements.len()
            && iter::zip(self.iter(), other.iter()).all(|(a, b)| self.order.equal(a, b))
    }

    /// Keeps only the elements that `other` also has.
    pub(super) fn common_with(mut self, other: &DistinctElements<'_>) -> Self {
        self.elements.retain(|element| other.contains(*element));
        self
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
