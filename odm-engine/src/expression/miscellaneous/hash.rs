//! `$toHashedIndexKey`: the number that a hashed index of MongoDB stores for a value.
//!
//! ```text
//! { "$toHashedIndexKey": 1 } → { "$numberLong": "5902408780260971510" }
//! { "$toHashedIndexKey": 1.9 } → { "$numberLong": "5902408780260971510" }
//! ```

use bson::raw::cstr;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use md5::Context;

use crate::Result;
use crate::expression::Expression;
use crate::expression::call::OperatorCall;
use crate::value::{self, Number};

pub(super) fn parse_to_hashed_index_key(call: &OperatorCall<'_>) -> Result<Expression> {
    call.whole_operand(|value| {
        let mut context = Context::new();
        context.consume(0_i32.to_le_bytes());
        hash_value(&mut context, None, value.or_null());
        let mut key = [0; 8];
        for (byte, digest) in key.iter_mut().zip(context.finalize().0) {
            *byte = digest;
        }
        Ok(i64::from_le_bytes(key).into())
    })
}

/// Hashes the type, the name if given, and the content. Numbers are hashed as whole numbers, so
/// that equal numbers of all types share a hash.
fn hash_value(context: &mut Context, name: Option<&str>, value: RawBsonRef<'_>) {
    context.consume(canonical_type(value).to_le_bytes());
    if let Some(name) = name {
        context.consume(name);
        context.consume([0]);
    }
    match value {
        RawBsonRef::Document(document) => hash_fields(context, document),
        RawBsonRef::Array(array) => {
            // An array has the bytes of a document.
            if let Ok(elements) = RawDocument::from_bytes(array.as_bytes()) {
                hash_fields(context, elements);
            }
        }
        value => match Number::from_bson(value) {
            Some(number) => context.consume(clamped_integer(number).to_le_bytes()),
            None => {
                let mut document = RawDocumentBuf::new();
                document.append(cstr!(""), value);
                // The content starts after the length, the type and the empty name, and stops
                // before the end byte.
                let bytes = document.as_bytes();
                let content = bytes.get(6..bytes.len() - 1).unwrap_or_default();
                context.consume(content);
            }
        },
    }
}

fn hash_fields(context: &mut Context, document: &RawDocument) {
    for (name, value) in value::fields(document) {
        hash_value(context, Some(name), value);
    }
    // The end of a document is hashed as a field of type 0 without a name.
    context.consume(0_i32.to_le_bytes());
}

/// Returns the whole part of a number, clamped to the range of a long. 0 for NaN.
fn clamped_integer(number: Number) -> i64 {
    match number {
        number if number.is_nan() => 0,
        number => number.truncated_long().unwrap_or_else(|| {
            if number.compare(Number::Int32(0)).is_lt() {
                i64::MIN
            } else {
                i64::MAX
            }
        }),
    }
}

/// Returns MongoDB's canonical type number, which orders the types.
fn canonical_type(value: RawBsonRef<'_>) -> i32 {
    match value {
        RawBsonRef::MinKey => -1,
        RawBsonRef::MaxKey => 127,
        RawBsonRef::Undefined => 0,
        RawBsonRef::Null => 5,
        RawBsonRef::Double(_)
        | RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Decimal128(_) => 10,
        RawBsonRef::String(_) | RawBsonRef::Symbol(_) => 15,
        RawBsonRef::Document(_) => 20,
        RawBsonRef::Array(_) => 25,
        RawBsonRef::Binary(_) => 30,
        RawBsonRef::ObjectId(_) => 35,
        RawBsonRef::Boolean(_) => 40,
        RawBsonRef::DateTime(_) => 45,
        RawBsonRef::Timestamp(_) => 47,
        RawBsonRef::RegularExpression(_) => 50,
        RawBsonRef::DbPointer(_) => 55,
        RawBsonRef::JavaScriptCode(_) => 60,
        RawBsonRef::JavaScriptCodeWithScope(_) => 65,
    }
}
