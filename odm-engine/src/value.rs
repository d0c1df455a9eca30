//! BSON values as the engine sees them: their order, their types, and safe iteration.

mod decimal;
pub(crate) mod growth;
mod lookup;
mod number;
mod sum;

use std::cmp::Ordering;

use bson::spec::{BinarySubtype, ElementType};
use bson::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::{Error, Result};

pub(crate) use decimal::{Decimal, Function, Rounding};
pub(crate) use lookup::get;
pub(crate) use number::Number;
pub(crate) use sum::Sum;

/// How deep documents may nest.
///
/// Everything that recurses over values relies on it: what enters the engine goes through [`check`].
pub(crate) const MAX_DEPTH: usize = 180;

/// MongoDB's order over values of all types.
///
/// Numbers of all types share one scale, compared exactly, with NaN below all of them. Callers
/// decide what a missing value is: mostly null, in some places undefined.
pub(crate) fn compare(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> Ordering {
    rank(a).cmp(&rank(b)).then_with(|| compare_same_rank(a, b))
}

/// Whether two values are equal in [`compare`]'s order: `1`, `1.0` and `Decimal128(1.00)` are.
pub(crate) fn equal(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> bool {
    compare(a, b) == Ordering::Equal
}

/// Whether two values are the same to the last byte: `1` and `1.0` are not.
pub(crate) fn identical(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> bool {
    alone(a).as_bytes() == alone(b).as_bytes()
}

/// The place of a value's type in the order of types. Types with one rank compare by value.
pub(crate) fn rank(value: RawBsonRef<'_>) -> u8 {
    match value {
        RawBsonRef::MinKey => 0,
        RawBsonRef::Undefined => 1,
        RawBsonRef::Null => 2,
        RawBsonRef::Double(_)
        | RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Decimal128(_) => 3,
        RawBsonRef::String(_) | RawBsonRef::Symbol(_) => 4,
        RawBsonRef::Document(_) => 5,
        RawBsonRef::Array(_) => 6,
        RawBsonRef::Binary(_) => 7,
        RawBsonRef::ObjectId(_) => 8,
        RawBsonRef::Boolean(_) => 9,
        RawBsonRef::DateTime(_) => 10,
        RawBsonRef::Timestamp(_) => 11,
        RawBsonRef::RegularExpression(_) => 12,
        RawBsonRef::DbPointer(_) => 13,
        RawBsonRef::JavaScriptCode(_) => 14,
        RawBsonRef::JavaScriptCodeWithScope(_) => 15,
        RawBsonRef::MaxKey => 16,
    }
}

/// The name that `$type` and error messages use for a value's type.
pub(crate) fn type_name(value: RawBsonRef<'_>) -> &'static str {
    element_type_name(value.element_type())
}

/// The name that `$type` and error messages use for a type.
pub(crate) fn element_type_name(element_type: ElementType) -> &'static str {
    match element_type {
        ElementType::Double => "double",
        ElementType::String => "string",
        ElementType::EmbeddedDocument => "object",
        ElementType::Array => "array",
        ElementType::Binary => "binData",
        ElementType::Undefined => "undefined",
        ElementType::ObjectId => "objectId",
        ElementType::Boolean => "bool",
        ElementType::DateTime => "date",
        ElementType::Null => "null",
        ElementType::RegularExpression => "regex",
        ElementType::DbPointer => "dbPointer",
        ElementType::JavaScriptCode => "javascript",
        ElementType::Symbol => "symbol",
        ElementType::JavaScriptCodeWithScope => "javascriptWithScope",
        ElementType::Int32 => "int",
        ElementType::Timestamp => "timestamp",
        ElementType::Int64 => "long",
        ElementType::Decimal128 => "decimal",
        ElementType::MinKey => "minKey",
        ElementType::MaxKey => "maxKey",
    }
}

/// About how many bytes a value takes: exactly, where there can be many.
pub(crate) fn size(value: RawBsonRef<'_>) -> usize {
    match value {
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text) => {
            text.len()
        }
        RawBsonRef::Document(document) => document.as_bytes().len(),
        RawBsonRef::Array(array) => array.as_bytes().len(),
        RawBsonRef::Binary(binary) => binary.bytes.len(),
        RawBsonRef::RegularExpression(regex) => regex.pattern.as_str().len(),
        RawBsonRef::JavaScriptCodeWithScope(code) => code.code.len() + code.scope.as_bytes().len(),
        _ => size_of::<f64>(),
    }
}

/// Whether MongoDB takes the value for true where an operator wants a yes or no.
pub(crate) fn is_truthy(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Boolean(value) => value,
        RawBsonRef::Null | RawBsonRef::Undefined => false,
        _ => Number::from_bson(value).is_none_or(|number| !number.is_zero()),
    }
}

/// The fields of a document in order. Iteration ends at bytes that are not BSON.
pub(crate) fn fields(document: &RawDocument) -> impl Iterator<Item = (&str, RawBsonRef<'_>)> {
    document
        .iter_elements()
        .map_while(|element| element.ok())
        .map_while(|element| Some((element.key().as_str(), element.value().ok()?)))
}

/// The elements of an array in order. Iteration ends at bytes that are not BSON.
pub(crate) fn items(array: &RawArray) -> impl Iterator<Item = RawBsonRef<'_>> {
    array.into_iter().map_while(|item| item.ok())
}

/// Checks that every byte of a document is BSON and that it does not nest deeper than
/// [`MAX_DEPTH`].
///
/// # Errors
/// Malformed bytes (MongoDB's code 22) and too deep nesting (code 15).
pub(crate) fn check(document: &RawDocument) -> Result<()> {
    check_within(document, MAX_DEPTH)
}

/// Checks an array as [`check`] does a document.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_array(array: &RawArray) -> Result<()> {
    check_at(array.iter_elements(), MAX_DEPTH)
}

/// As [`check`], with another limit for the nesting.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_within(document: &RawDocument, depth: usize) -> Result<()> {
    check_at(document.iter_elements(), depth)
}

fn check_at(elements: bson::raw::RawIter<'_>, left: usize) -> Result<()> {
    let Some(left) = left.checked_sub(1) else {
        let message = "documents can nest 180 levels deep, and stages of pipelines a little deeper";
        return Err(Error::server(15, message));
    };
    for element in elements {
        let value = element.and_then(|element| element.value());
        let value = value.map_err(|error| Error::server(22, format!("not valid BSON: {error}")))?;
        match value {
            RawBsonRef::Document(inner) => check_at(inner.iter_elements(), left)?,
            RawBsonRef::Array(inner) => check_at(inner.iter_elements(), left)?,
            RawBsonRef::JavaScriptCodeWithScope(code) => {
                check_at(code.scope.iter_elements(), left)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn compare_same_rank(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> Ordering {
    use RawBsonRef as V;
    if let (Some(a), Some(b)) = (Number::from_bson(a), Number::from_bson(b)) {
        return a.compare(b);
    }
    match (a, b) {
        (V::String(a) | V::Symbol(a), V::String(b) | V::Symbol(b)) => a.cmp(b),
        (V::Document(a), V::Document(b)) => compare_documents(a, b),
        (V::Array(a), V::Array(b)) => compare_arrays(a, b),
        (V::Binary(a), V::Binary(b)) => {
            let length = |binary: &bson::raw::RawBinaryRef<'_>| match binary.subtype {
                // The old generic subtype stores its length twice, and the server counts that.
                BinarySubtype::BinaryOld => binary.bytes.len() + 4,
                _ => binary.bytes.len(),
            };
            (length(&a), u8::from(a.subtype), a.bytes).cmp(&(
                length(&b),
                u8::from(b.subtype),
                b.bytes,
            ))
        }
        (V::ObjectId(a), V::ObjectId(b)) => a.bytes().cmp(&b.bytes()),
        (V::Boolean(a), V::Boolean(b)) => a.cmp(&b),
        (V::DateTime(a), V::DateTime(b)) => a.timestamp_millis().cmp(&b.timestamp_millis()),
        (V::Timestamp(a), V::Timestamp(b)) => (a.time, a.increment).cmp(&(b.time, b.increment)),
        (V::RegularExpression(a), V::RegularExpression(b)) => {
            (a.pattern.as_str(), a.options.as_str()).cmp(&(b.pattern.as_str(), b.options.as_str()))
        }
        (V::DbPointer(_), V::DbPointer(_)) => {
            let (a, b) = (alone(a), alone(b));
            (a.as_bytes().len(), a.as_bytes()).cmp(&(b.as_bytes().len(), b.as_bytes()))
        }
        (V::JavaScriptCode(a), V::JavaScriptCode(b)) => a.cmp(b),
        (V::JavaScriptCodeWithScope(a), V::JavaScriptCodeWithScope(b)) => a
            .code
            .cmp(b.code)
            .then_with(|| compare_documents(a.scope, b.scope)),
        // What remains are the types with a single value.
        _ => Ordering::Equal,
    }
}

/// A value as the only one of a document, which gives access to its bytes.
fn alone(value: RawBsonRef<'_>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    document.append(bson::raw::cstr!(""), value);
    document
}

/// Documents compare field by field: the types' ranks, then the names, then the values.
fn compare_documents(a: &RawDocument, b: &RawDocument) -> Ordering {
    let (mut a, mut b) = (fields(a), fields(b));
    loop {
        let ((a_name, a_value), (b_name, b_value)) = match (a.next(), b.next()) {
            (Some(a), Some(b)) => (a, b),
            (a, b) => return a.is_some().cmp(&b.is_some()),
        };
        let order = rank(a_value)
            .cmp(&rank(b_value))
            .then_with(|| a_name.cmp(b_name))
            .then_with(|| compare_same_rank(a_value, b_value));
        if order != Ordering::Equal {
            return order;
        }
    }
}

fn compare_arrays(a: &RawArray, b: &RawArray) -> Ordering {
    let (mut a, mut b) = (items(a), items(b));
    loop {
        let order = match (a.next(), b.next()) {
            (Some(a), Some(b)) => compare(a, b),
            (a, b) => return a.is_some().cmp(&b.is_some()),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawBson, doc, rawdoc};
    use proptest::prelude::*;

    #[test]
    fn types_are_ordered_before_values() {
        let sorted = rawdoc! {
            "a": RawBson::MinKey, "b": RawBson::Undefined, "c": RawBson::Null, "d": 7, "e": "x", "f": { "x": 1 },
            "g": [1], "h": bson::oid::ObjectId::new(), "i": false, "j": true,
            "k": bson::DateTime::now(), "l": RawBson::MaxKey
        };
        let values: Vec<_> = fields(&sorted).map(|(_, value)| value).collect();
        assert!(values.is_sorted_by(|a, b| compare(*a, *b) == Ordering::Less));
    }

    #[test]
    fn documents_compare_by_type_then_name_then_value() {
        let order = |a: RawDocumentBuf, b: RawDocumentBuf| compare_documents(&a, &b);
        assert_eq!(
            order(rawdoc! { "b": 1 }, rawdoc! { "a": "x" }),
            Ordering::Less
        );
        assert_eq!(
            order(rawdoc! { "b": 1 }, rawdoc! { "a": 2 }),
            Ordering::Greater
        );
        assert_eq!(
            order(rawdoc! { "a": 1 }, rawdoc! { "a": 1, "b": 1 }),
            Ordering::Less
        );
        assert_eq!(
            order(rawdoc! { "a": 1 }, rawdoc! { "a": 1.0 }),
            Ordering::Equal
        );
    }

    #[test]
    fn nesting_is_limited() {
        let nested = |depth: usize| {
            let inner = (1..depth).fold(doc! {}, |inner, _| doc! { "a": inner });
            RawDocumentBuf::try_from(&inner).unwrap()
        };
        assert!(check(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(check(&nested(MAX_DEPTH + 1)).unwrap_err().code(), Some(15));
    }

    fn any_number() -> impl Strategy<Value = RawBson> {
        prop_oneof![
            any::<i32>().prop_map(RawBson::Int32),
            any::<i64>().prop_map(RawBson::Int64),
            (-1000..1000_i64).prop_map(RawBson::Int64),
            any::<f64>().prop_map(RawBson::Double),
            (-4000..4000).prop_map(|quarters| RawBson::Double(f64::from(quarters) / 4.0)),
            any::<[u8; 16]>()
                .prop_map(|bytes| RawBson::Decimal128(bson::Decimal128::from_bytes(bytes))),
            (-99999..99999_i64, -4..4).prop_map(|(digits, exponent)| {
                RawBson::Decimal128(format!("{digits}E{exponent}").parse().unwrap())
            }),
        ]
    }

    proptest! {
        #[test]
        fn numbers_have_one_order(a in any_number(), b in any_number(), c in any_number()) {
            let order = |a: &RawBson, b: &RawBson| compare(a.as_raw_bson_ref(), b.as_raw_bson_ref());
            prop_assert_eq!(order(&a, &a), Ordering::Equal);
            prop_assert_eq!(order(&a, &b), order(&b, &a).reverse());
            let mut sorted = [&a, &b, &c];
            sorted.sort_by(|a, b| order(a, b));
            prop_assert_ne!(order(sorted[0], sorted[2]), Ordering::Greater);
            if order(sorted[0], sorted[1]).is_lt() || order(sorted[1], sorted[2]).is_lt() {
                prop_assert_eq!(order(sorted[0], sorted[2]), Ordering::Less);
            }
        }
    }
}
