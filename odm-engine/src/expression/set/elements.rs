//! The distinct elements of an array.

use std::iter;

use bson::{RawArray, RawArrayBuf, RawBsonRef};

use crate::expression::Value;
use crate::{Error, Result, value};

/// Distinct values in MongoDB's order.
#[derive(Debug, Default)]
pub(super) struct Elements<'v>(Vec<RawBsonRef<'v>>);

impl<'v> Elements<'v> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn contains(&self, wanted: RawBsonRef<'_>) -> bool {
        let found = self.0.binary_search_by(|own| value::compare(*own, wanted));
        found.is_ok()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = RawBsonRef<'v>> {
        self.0.iter().copied()
    }

    /// Whether both have equal elements.
    pub(super) fn equals(&self, other: &Elements<'_>) -> bool {
        self.0.len() == other.0.len()
            && iter::zip(self.iter(), other.iter()).all(|(a, b)| value::equal(a, b))
    }

    /// The elements that `other` has too.
    pub(super) fn common_with(mut self, other: &Elements<'_>) -> Self {
        self.0.retain(|own| other.contains(*own));
        self
    }
}

impl<'v> FromIterator<RawBsonRef<'v>> for Elements<'v> {
    /// Of values that are equal the first one is kept.
    fn from_iter<I: IntoIterator<Item = RawBsonRef<'v>>>(values: I) -> Self {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by(|a, b| value::compare(*a, *b));
        values.dedup_by(|a, b| value::equal(*a, *b));
        Elements(values)
    }
}

impl From<Elements<'_>> for Value<'_> {
    fn from(elements: Elements<'_>) -> Self {
        elements.iter().collect::<RawArrayBuf>().into()
    }
}

/// An operand that has to be an array.
///
/// # Errors
/// It is not one; `code` is the operator's number for that.
pub(super) fn array<'o>(name: &str, operand: &'o Value<'_>, code: i32) -> Result<&'o RawArray> {
    operand.array().ok_or_else(|| {
        let found = operand.type_name();
        Error::server(code, format!("{name} takes arrays, not {found}"))
    })
}
