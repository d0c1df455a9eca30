//! `$pull`: removes the elements of an array that equal a value or meet conditions.
//!
//! ```text
//! { "$pull": { "tags": "old", "scores": { "$lt": 5 }, "lines": { "product": "xyz" } } }
//! in: { "tags": ["old", "new", "old"], "scores": [3, 7], "lines": [{ "product": "xyz", "count": 2 }] }
//! out: { "tags": ["new"], "scores": [7], "lines": [] }
//! ```

use bson::raw::cstr;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::node::UpdateNode;
use super::operation::{UpdateOperations, UpdateOperator};
use crate::collation::ValueOrder;
use crate::filter::Filter;
use crate::{Error, Result, value};

/// The elements to remove.
#[derive(Debug)]
enum Pull {
    Equal(RawBson, ValueOrder),
    /// Documents that match the filter.
    Document(Filter),
    /// Values that match the filter as a field with the empty name.
    Value(Filter),
}

pub(super) fn parse_pull(
    operations: &mut UpdateOperations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    let order = operations.order();
    let pull = match operand {
        // MongoDB treats all operands except conditions on a value as a filter on documents.
        // Conditions that begin with `$not` are then rejected.
        RawBsonRef::Document(conditions)
            if Filter::is_on_value(conditions) && !begins_with_not(conditions) =>
        {
            Pull::Value(Filter::parse_in_order(&wrap_value(operand), order)?)
        }
        RawBsonRef::Document(conditions) => {
            Pull::Document(Filter::parse_in_order(conditions, order)?)
        }
        RawBsonRef::RegularExpression(_) => {
            Pull::Value(Filter::parse_in_order(&wrap_value(operand), order)?)
        }
        operand => Pull::Equal(operand.into(), order.clone()),
    };
    operations.push_change(path, pull)
}

fn begins_with_not(conditions: &RawDocument) -> bool {
    value::fields(conditions)
        .next()
        .is_some_and(|(name, _)| name == "$not")
}

impl Pull {
    fn removes_item(&self, item: RawBsonRef<'_>) -> bool {
        match self {
            Pull::Equal(value, order) => order.equal(value.as_raw_bson_ref(), item),
            Pull::Document(filter) => item.as_document().is_some_and(|item| filter.accepts(item)),
            Pull::Value(filter) => filter.accepts(&wrap_value(item)),
        }
    }
}

impl UpdateOperator for Pull {
    fn change_existing(&self, path: &str, value: &mut UpdateNode<'_>) -> Result<bool> {
        retain_items(value, "$pull", path, |item| !self.removes_item(item))
    }

    fn initial_value(&self) -> Result<Option<RawBson>> {
        Ok(None)
    }

    fn only_removes(&self) -> bool {
        true
    }
}

/// Keeps the elements of an array for which `is_kept` is true. Returns whether any element was
/// removed.
///
/// # Errors
/// The value is not an array (code 2).
pub(super) fn retain_items(
    value: &mut UpdateNode<'_>,
    operator: &str,
    path: &str,
    is_kept: impl Fn(RawBsonRef<'_>) -> bool,
) -> Result<bool> {
    let items = value.as_array().ok_or_else(|| {
        Error::bad_value(format!(
            "{operator} needs an array at '{path}', but the value is not an array"
        ))
    })?;
    let before = items.len();
    items.retain(|item| item.with_value(&is_kept));
    Ok(items.len() < before)
}

fn wrap_value(value: RawBsonRef<'_>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!(""), value);
    document
}

#[cfg(test)]
mod tests {
    use super::super::tests::apply_update;
    use bson::rawdoc;

    #[test]
    fn values_documents_and_conditions() {
        let update = rawdoc! { "$pull": { "a": 1, "b": { "$gte": 2 }, "c": { "x": 1 } } };
        let document =
            rawdoc! { "a": [1, 2, 1.0], "b": [1, 2, 3], "c": [{ "x": 1, "y": 2 }, { "x": 2 }, 1] };
        let expected = rawdoc! { "a": [2], "b": [1], "c": [{ "x": 2 }, 1] };
        assert_eq!(apply_update(document, update).unwrap(), expected);
    }

    #[test]
    fn only_arrays_have_elements() {
        let error = apply_update(rawdoc! { "a": 1 }, rawdoc! { "$pull": { "a": 1 } }).unwrap_err();
        assert_eq!(error.code(), Some(2));
    }
}
