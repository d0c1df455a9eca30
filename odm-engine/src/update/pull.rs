//! `$pull`: takes the elements off an array that equal a value or meet conditions.
//!
//! ```text
//! { "$pull": { "tags": "old", "scores": { "$lt": 5 }, "lines": { "product": "xyz" } } }
//! in: { "tags": ["old", "new", "old"], "scores": [3, 7], "lines": [{ "product": "xyz", "count": 2 }] }
//! out: { "tags": ["new"], "scores": [7], "lines": [] }
//! ```

use bson::raw::cstr;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::node::Node;
use super::operation::{Operations, Operator};
use crate::filter::Filter;
use crate::{Error, Result, value};

/// Which elements go.
#[derive(Debug)]
enum Pull {
    Equal(RawBson),
    /// Documents that match.
    Document(Filter),
    /// Values for which the filter holds when they are a field without a name.
    Value(Filter),
}

pub(super) fn parse(
    operations: &mut Operations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    let pull = match operand {
        // MongoDB takes everything but conditions on a value for a filter on documents, what begins
        // with `$not` included, which it then refuses.
        RawBsonRef::Document(conditions)
            if Filter::is_on_value(conditions) && !begins_with_not(conditions) =>
        {
            Pull::Value(Filter::parse(&wrap(operand))?)
        }
        RawBsonRef::Document(conditions) => Pull::Document(Filter::parse(conditions)?),
        RawBsonRef::RegularExpression(_) => Pull::Value(Filter::parse(&wrap(operand))?),
        operand => Pull::Equal(operand.into()),
    };
    operations.change(path, pull)
}

fn begins_with_not(conditions: &RawDocument) -> bool {
    value::fields(conditions)
        .next()
        .is_some_and(|(name, _)| name == "$not")
}

impl Pull {
    fn takes(&self, item: RawBsonRef<'_>) -> bool {
        match self {
            Pull::Equal(value) => value::equal(value.as_raw_bson_ref(), item),
            Pull::Document(filter) => item.as_document().is_some_and(|item| filter.accepts(item)),
            Pull::Value(filter) => filter.accepts(&wrap(item)),
        }
    }
}

impl Operator for Pull {
    fn existing(&self, path: &str, value: &mut Node<'_>) -> Result<bool> {
        retain(value, "$pull", path, |item| !self.takes(item))
    }

    fn missing(&self) -> Result<Option<RawBson>> {
        Ok(None)
    }

    fn only_removes(&self) -> bool {
        true
    }
}

/// Keeps some of an array's elements. Returns whether any went.
///
/// # Errors
/// The value is no array (code 2).
pub(super) fn retain(
    value: &mut Node<'_>,
    operator: &str,
    path: &str,
    keep: impl Fn(RawBsonRef<'_>) -> bool,
) -> Result<bool> {
    let items = value.as_array().ok_or_else(|| {
        Error::bad_value(format!(
            "{operator} needs an array at '{path}', which is none"
        ))
    })?;
    let before = items.len();
    items.retain(|item| item.with(&keep));
    Ok(items.len() < before)
}

fn wrap(value: RawBsonRef<'_>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!(""), value);
    document
}

#[cfg(test)]
mod tests {
    use super::super::tests::updated;
    use bson::rawdoc;

    #[test]
    fn values_documents_and_conditions() {
        let update = rawdoc! { "$pull": { "a": 1, "b": { "$gte": 2 }, "c": { "x": 1 } } };
        let document =
            rawdoc! { "a": [1, 2, 1.0], "b": [1, 2, 3], "c": [{ "x": 1, "y": 2 }, { "x": 2 }, 1] };
        let expected = rawdoc! { "a": [2], "b": [1], "c": [{ "x": 2 }, 1] };
        assert_eq!(updated(document, update).unwrap(), expected);
    }

    #[test]
    fn only_arrays_have_elements() {
        let error = updated(rawdoc! { "a": 1 }, rawdoc! { "$pull": { "a": 1 } }).unwrap_err();
        assert_eq!(error.code(), Some(2));
    }
}
