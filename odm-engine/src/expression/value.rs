//! What an expression gives.

use std::cmp::Ordering;

use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::value::{self, Number};

/// The value of an expression, borrowed from a document or from the expression where that is possible.
#[derive(Debug, Clone)]
pub(crate) enum Value<'v> {
    /// No value at all, such as that of a field that is not there: something else than null.
    Missing,
    Borrowed(RawBsonRef<'v>),
    Owned(RawBson),
}

impl<'v> Value<'v> {
    pub(crate) const NULL: Value<'static> = Value::Borrowed(RawBsonRef::Null);

    /// The value, or `None` if it is missing.
    pub(crate) fn as_bson(&self) -> Option<RawBsonRef<'_>> {
        match self {
            Value::Missing => None,
            Value::Borrowed(value) => Some(*value),
            Value::Owned(value) => Some(value.as_raw_bson_ref()),
        }
    }

    /// The value, or null if it is missing.
    pub(crate) fn or_null(&self) -> RawBsonRef<'_> {
        self.as_bson().unwrap_or(RawBsonRef::Null)
    }

    /// The value for itself, or `None` if it is missing.
    pub(crate) fn into_bson(self) -> Option<RawBson> {
        match self {
            Value::Missing => None,
            Value::Borrowed(value) => Some(value.into()),
            Value::Owned(value) => Some(value),
        }
    }

    /// Whether it is missing, null or undefined, which most operators answer with null.
    pub(crate) fn is_nullish(&self) -> bool {
        matches!(
            self.as_bson(),
            None | Some(RawBsonRef::Null | RawBsonRef::Undefined)
        )
    }

    /// Whether it counts as true: all but missing, null, undefined, false and zero.
    pub(crate) fn is_truthy(&self) -> bool {
        self.as_bson().is_some_and(value::is_truthy)
    }

    pub(crate) fn number(&self) -> Option<Number> {
        self.as_bson().and_then(Number::from_bson)
    }

    pub(crate) fn array(&self) -> Option<&RawArray> {
        self.as_bson().and_then(|value| value.as_array())
    }

    pub(crate) fn document(&self) -> Option<&RawDocument> {
        self.as_bson().and_then(|value| value.as_document())
    }

    pub(crate) fn text(&self) -> Option<&str> {
        self.as_bson().and_then(|value| value.as_str())
    }

    /// The number, if it is a whole one of 32 bits.
    pub(crate) fn int32(&self) -> Option<i32> {
        self.number()
            .and_then(Number::whole)
            .and_then(|whole| whole.try_into().ok())
    }

    /// What `find` points at in this value, borrowed if this value is.
    pub(crate) fn part(
        self,
        find: impl for<'b> FnOnce(RawBsonRef<'b>) -> Option<RawBsonRef<'b>>,
    ) -> Value<'v> {
        match self {
            Value::Missing => Value::Missing,
            Value::Borrowed(value) => Value::from(find(value)),
            Value::Owned(value) => Value::from(find(value.as_raw_bson_ref()).map(RawBson::from)),
        }
    }

    /// How many bytes it holds itself, if that can be many.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Value::Owned(RawBson::Document(document)) => document.as_bytes().len(),
            Value::Owned(RawBson::Array(array)) => array.as_bytes().len(),
            Value::Owned(RawBson::String(text)) => text.len(),
            _ => 0,
        }
    }

    /// The name of its type as `$type` gives it.
    pub(crate) fn type_name(&self) -> &'static str {
        self.as_bson().map_or("missing", value::type_name)
    }

    /// MongoDB's order over values of all types. A missing value has the place of an undefined one.
    pub(crate) fn compare(&self, other: &Value<'_>) -> Ordering {
        value::compare(self.or_undefined(), other.or_undefined())
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
        assert_eq!(Value::Missing.compare(&Value::NULL), Ordering::Less);
        assert_eq!(
            Value::Missing.compare(&Value::Borrowed(RawBsonRef::Undefined)),
            Ordering::Equal
        );
        assert_eq!(
            Value::Missing.compare(&Value::Borrowed(RawBsonRef::MinKey)),
            Ordering::Greater
        );
    }
}
