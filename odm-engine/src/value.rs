//! BSON values: order, types, sizes and safe iteration.

mod decimal;
pub(crate) mod growth;
mod lookup;
mod number;
mod sum;

use std::cmp::Ordering;

use bson::spec::{BinarySubtype, ElementType};
use bson::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::{Error, Result};

pub(crate) use decimal::{Decimal, DecimalFunction, Rounding};
pub(crate) use lookup::{
    FieldPosition, ScalarFields, begins_with_scalar_id, changed_fields, find_scalar, get,
    is_same_at, scalar_fields,
};
pub(crate) use number::Number;
pub(crate) use sum::ExactSum;

/// The maximum nesting depth of documents.
///
/// Functions that recurse over values rely on this limit: [`check_document`] checks all documents
/// that enter the engine.
pub(crate) const MAX_NESTING_DEPTH: usize = 180;

/// Compares two values in MongoDB's order over all types.
///
/// Numbers of all types are compared exactly on one scale, with NaN first. Callers replace a
/// missing value, mostly by null, sometimes by undefined.
pub(crate) fn compare(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> Ordering {
    compare_by(a, b, &str::cmp)
}

/// Compares two values as [`compare`] does, with a different order of strings.
pub(crate) fn compare_by(
    a: RawBsonRef<'_>,
    b: RawBsonRef<'_>,
    strings: &impl Fn(&str, &str) -> Ordering,
) -> Ordering {
    type_rank(a)
        .cmp(&type_rank(b))
        .then_with(|| compare_same_rank(a, b, strings))
}

/// Returns whether two values are equal in the order of [`compare`]: `1`, `1.0` and
/// `Decimal128(1.00)` are equal.
pub(crate) fn equal(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> bool {
    compare(a, b) == Ordering::Equal
}

/// Returns whether two values have the same bytes: `1` and `1.0` differ.
pub(crate) fn same_bytes(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> bool {
    use RawBsonRef as V;
    match (a, b) {
        (V::Int32(a), V::Int32(b)) => a == b,
        (V::Int64(a), V::Int64(b)) => a == b,
        (V::Double(a), V::Double(b)) => a.to_bits() == b.to_bits(),
        (V::String(a), V::String(b)) => a == b,
        (V::Document(a), V::Document(b)) => a.as_bytes() == b.as_bytes(),
        (V::Array(a), V::Array(b)) => a.as_bytes() == b.as_bytes(),
        _ => wrap_in_document(a).as_bytes() == wrap_in_document(b).as_bytes(),
    }
}

/// Returns the rank of a value's type in the order of types. Types of equal rank are compared by
/// value.
pub(crate) fn type_rank(value: RawBsonRef<'_>) -> u8 {
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

/// Returns the name of a value's type, as in `$type` and error messages.
pub(crate) fn type_name(value: RawBsonRef<'_>) -> &'static str {
    element_type_name(value.element_type())
}

/// Returns the name of a type, as in `$type` and error messages.
pub fn element_type_name(element_type: ElementType) -> &'static str {
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

/// Returns the approximate size of a value in bytes. The size is exact for types of variable
/// length.
pub(crate) fn approximate_bytes(value: RawBsonRef<'_>) -> usize {
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

/// Returns the number of bytes of a value in a document. The number is an estimate for rare types.
pub(crate) fn stored_bytes(value: RawBsonRef<'_>) -> usize {
    match value {
        RawBsonRef::Null | RawBsonRef::Undefined | RawBsonRef::MinKey | RawBsonRef::MaxKey => 0,
        RawBsonRef::Boolean(_) => 1,
        RawBsonRef::Int32(_) => 4,
        RawBsonRef::ObjectId(_) => 12,
        RawBsonRef::Decimal128(_) => 16,
        // A length before the content, and a zero byte or the subtype.
        RawBsonRef::String(_) | RawBsonRef::Symbol(_) | RawBsonRef::Binary(_) => {
            5 + approximate_bytes(value)
        }
        _ => approximate_bytes(value),
    }
}

/// Returns whether MongoDB treats the value as true in a boolean context.
pub(crate) fn is_truthy(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Boolean(value) => value,
        RawBsonRef::Null | RawBsonRef::Undefined => false,
        _ => Number::from_bson(value).is_none_or(|number| !number.is_zero()),
    }
}

/// Iterates over the fields of a document. The iteration ends at malformed bytes.
pub(crate) fn fields(document: &RawDocument) -> impl Iterator<Item = (&str, RawBsonRef<'_>)> {
    document
        .iter_elements()
        .map_while(|element| element.ok())
        .map_while(|element| Some((element.key().as_str(), element.value().ok()?)))
}

/// Iterates over the elements of an array. The iteration ends at malformed bytes.
pub(crate) fn items(array: &RawArray) -> impl Iterator<Item = RawBsonRef<'_>> {
    array.into_iter().map_while(|item| item.ok())
}

/// Checks that a document is valid BSON and nests at most [`MAX_NESTING_DEPTH`] levels.
///
/// # Errors
/// Malformed bytes (code 22), or too deep nesting (code 15).
pub(crate) fn check_document(document: &RawDocument) -> Result<()> {
    check_depth(document, MAX_NESTING_DEPTH)
}

/// Checks an array as [`check_document`] checks a document.
///
/// # Errors
/// See [`check_document`].
pub(crate) fn check_array_depth(array: &RawArray) -> Result<()> {
    check_elements(array.iter_elements(), MAX_NESTING_DEPTH)
}

/// Checks a document as [`check_document`] does, with another depth limit.
///
/// # Errors
/// See [`check_document`].
pub(crate) fn check_depth(document: &RawDocument, depth: usize) -> Result<()> {
    if lookup::is_valid_common_bson(document, depth) {
        return Ok(());
    }
    check_elements(document.iter_elements(), depth)
}

fn check_elements(elements: bson::raw::RawIter<'_>, depth: usize) -> Result<()> {
    let Some(depth) = depth.checked_sub(1) else {
        let message =
            "the document nests too deeply: the limit is 180 levels, slightly more in pipelines";
        return Err(Error::with_server_code(15, message));
    };
    for element in elements {
        let value = element.and_then(|element| element.value());
        let value = value
            .map_err(|error| Error::with_server_code(22, format!("not valid BSON: {error}")))?;
        match value {
            RawBsonRef::Document(inner) => check_elements(inner.iter_elements(), depth)?,
            RawBsonRef::Array(inner) => check_elements(inner.iter_elements(), depth)?,
            RawBsonRef::JavaScriptCodeWithScope(code) => {
                check_elements(code.scope.iter_elements(), depth)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn compare_same_rank(
    a: RawBsonRef<'_>,
    b: RawBsonRef<'_>,
    strings: &impl Fn(&str, &str) -> Ordering,
) -> Ordering {
    use RawBsonRef as V;
    if let (Some(a), Some(b)) = (Number::from_bson(a), Number::from_bson(b)) {
        return a.compare(b);
    }
    match (a, b) {
        (V::String(a) | V::Symbol(a), V::String(b) | V::Symbol(b)) => strings(a, b),
        (V::Document(a), V::Document(b)) => compare_documents(a, b, strings),
        (V::Array(a), V::Array(b)) => compare_arrays(a, b, strings),
        (V::Binary(a), V::Binary(b)) => {
            let length = |binary: &bson::raw::RawBinaryRef<'_>| match binary.subtype {
                // The old generic subtype stores its length twice, and the server counts both.
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
            let (a, b) = (wrap_in_document(a), wrap_in_document(b));
            (a.as_bytes().len(), a.as_bytes()).cmp(&(b.as_bytes().len(), b.as_bytes()))
        }
        (V::JavaScriptCode(a), V::JavaScriptCode(b)) => a.cmp(b),
        (V::JavaScriptCodeWithScope(a), V::JavaScriptCodeWithScope(b)) => a
            .code
            .cmp(b.code)
            .then_with(|| compare_documents(a.scope, b.scope, strings)),
        // The remaining types have a single value.
        _ => Ordering::Equal,
    }
}

/// Wraps a value in a document, to access the bytes.
fn wrap_in_document(value: RawBsonRef<'_>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    document.append(bson::raw::cstr!(""), value);
    document
}

/// Compares documents field by field: type ranks first, then names, then values.
fn compare_documents(
    a: &RawDocument,
    b: &RawDocument,
    strings: &impl Fn(&str, &str) -> Ordering,
) -> Ordering {
    let (mut a, mut b) = (fields(a), fields(b));
    loop {
        let ((a_name, a_value), (b_name, b_value)) = match (a.next(), b.next()) {
            (Some(a), Some(b)) => (a, b),
            (a, b) => return a.is_some().cmp(&b.is_some()),
        };
        let order = type_rank(a_value)
            .cmp(&type_rank(b_value))
            .then_with(|| a_name.cmp(b_name))
            .then_with(|| compare_same_rank(a_value, b_value, strings));
        if order != Ordering::Equal {
            return order;
        }
    }
}

fn compare_arrays(
    a: &RawArray,
    b: &RawArray,
    strings: &impl Fn(&str, &str) -> Ordering,
) -> Ordering {
    let (mut a, mut b) = (items(a), items(b));
    loop {
        let order = match (a.next(), b.next()) {
            (Some(a), Some(b)) => compare_by(a, b, strings),
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
        let order = |a: RawDocumentBuf, b: RawDocumentBuf| compare_documents(&a, &b, &str::cmp);
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
        assert!(check_document(&nested(MAX_NESTING_DEPTH)).is_ok());
        assert_eq!(
            check_document(&nested(MAX_NESTING_DEPTH + 1))
                .unwrap_err()
                .code(),
            Some(15)
        );
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
