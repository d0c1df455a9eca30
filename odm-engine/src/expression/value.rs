//! The results of expressions.

use std::cmp::Ordering;

use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::collation::ValueOrder;
use crate::value::{self, Number};

/// The result of an expression, borrowed from a document or from the expression where possible.
#[derive(Debug, Clone)]
pub(crate) enum Value<'v> {
    /// The missing value, such as the value of an absent field. Differs from null.
    Missing,
    Borrowed(RawBsonRef<'v>),
    Owned(RawBson),
}

impl<'v> Value<'v> {
    pub(crate) const NULL: Value<'static> = Value::Borrowed(RawBsonRef::Null);

    /// Returns the value, or `None` if missing.
    pub(crate) fn as_bson(&self) -> Option<RawBsonRef<'_>> {
        match self {
            Value::Missing => None,
            Value::Borrowed(value) => Some(*value),
            Value::Owned(value) => Some(value.as_raw_bson_ref()),
        }
    }

    /// Returns the value, or null if missing.
    pub(crate) fn or_null(&self) -> RawBsonRef<'_> {
        self.as_bson().unwrap_or(RawBsonRef::Null)
    }

    /// Returns the owned value, or `None` if missing.
    pub(crate) fn into_bson(self) -> Option<RawBson> {
        match self {
            Value::Missing => None,
            Value::Borrowed(value) => Some(value.into()),
            Value::Owned(value) => Some(value),
        }
    }

    /// Returns whether the value is missing, null or undefined. Most operators return null for such
    /// values.
    pub(crate) fn is_nullish(&self) -> bool {
        matches!(
            self.as_bson(),
            None | Some(RawBsonRef::Null | RawBsonRef::Undefined)
        )
    }

    /// Returns whether the value is true: any value except missing, null, undefined, false and
    /// zero.
    pub(crate) fn is_truthy(&self) -> bool {
        self.as_bson().is_some_and(value::is_truthy)
    }

    pub(crate) fn as_number(&self) -> Option<Number> {
        self.as_bson().and_then(Number::from_bson)
    }

    pub(crate) fn as_array(&self) -> Option<&RawArray> {
        self.as_bson().and_then(|value| value.as_array())
    }

    pub(crate) fn as_document(&self) -> Option<&RawDocument> {
        self.as_bson().and_then(|value| value.as_document())
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        self.as_bson().and_then(|value| value.as_str())
    }

    /// Returns the number if the value is a whole number of 32 bits.
    pub(crate) fn as_int32(&self) -> Option<i32> {
        self.as_number()
            .and_then(Number::whole_long)
            .and_then(|integer| integer.try_into().ok())
    }

    /// Returns the part of this value that `find` selects. The part is borrowed if this value is
    /// borrowed.
    pub(crate) fn map_part(
        self,
        find: impl for<'b> FnOnce(RawBsonRef<'b>) -> Option<RawBsonRef<'b>>,
    ) -> Value<'v> {
        match self {
            Value::Missing => Value::Missing,
            Value::Borrowed(value) => Value::from(find(value)),
            Value::Owned(value) => Value::from(find(value.as_raw_bson_ref()).map(RawBson::from)),
        }
    }

    /// Returns the approximate number of owned bytes. Borrowed and small values count as 0.
    pub(super) fn owned_bytes(&self) -> usize {
        match self {
            Value::Owned(RawBson::Document(document)) => document.as_bytes().len(),
            Value::Owned(RawBson::Array(array)) => array.as_bytes().len(),
            Value::Owned(RawBson::String(text)) => text.len(),
            _ => 0,
        }
    }

    /// Returns the name of the type, as `$type` does.
    pub(crate) fn type_name(&self) -> &'static str {
        self.as_bson().map_or("missing", value::type_name)
    }

    /// Compares two values in MongoDB's order over all types. A missing value sorts like undefined.
    pub(crate) fn compare(&self, other: &Value<'_>, order: &ValueOrder) -> Ordering {
        order.compare(self.or_undefined(), other.or_undefined())
    }

    fn or_undefined(&self) -> RawBsonRef<'_> {
        self.as_bson().unwrap_or(RawBsonRef::Undefined)
    }
}

impl<'v> From<RawBsonRef<'v>> for Value<'v> {
    fn from(value: RawBsonRef<'v>) -> Self {
        Value::Borrowed(value)
    }
}

impl<'v> From<Option<RawBsonRef<'v>>> for Value<'v> {
    fn from(value: Option<RawBsonRef<'v>>) -> Self {
        value.map_or(Value::Missing, Value::Borrowed)
    }
}

impl From<RawBson> for Value<'_> {
    fn from(value: RawBson) -> Self {
        Value::Owned(value)
    }
}

impl From<Option<RawBson>> for Value<'_> {
    fn from(value: Option<RawBson>) -> Self {
        value.map_or(Value::Missing, Value::Owned)
    }
}

impl From<RawDocumentBuf> for Value<'_> {
    fn from(value: RawDocumentBuf) -> Self {
        Value::Owned(RawBson::Document(value))
    }
}

impl From<RawArrayBuf> for Value<'_> {
    fn from(value: RawArrayBuf) -> Self {
        Value::Owned(RawBson::Array(value))
    }
}

impl From<Number> for Value<'_> {
    fn from(value: Number) -> Self {
        Value::Owned(value.to_bson())
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Owned(RawBson::Boolean(value))
    }
}

impl From<i32> for Value<'_> {
    fn from(value: i32) -> Self {
        Value::Owned(RawBson::Int32(value))
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Value::Owned(RawBson::Int64(value))
    }
}

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Value::Owned(RawBson::Double(value))
    }
}

impl From<String> for Value<'_> {
    fn from(value: String) -> Self {
        Value::Owned(RawBson::String(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_value_is_below_null() {
        assert_eq!(
            Value::Missing.compare(&Value::NULL, ValueOrder::SIMPLE),
            Ordering::Less
        );
        assert_eq!(
            Value::Missing.compare(&Value::Borrowed(RawBsonRef::Undefined), ValueOrder::SIMPLE),
            Ordering::Equal
        );
        assert_eq!(
            Value::Missing.compare(&Value::Borrowed(RawBsonRef::MinKey), ValueOrder::SIMPLE),
            Ordering::Greater
        );
    }
}
