//! `$toHashedIndexKey`: the number that a hashed index of MongoDB would have for a value.
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
use crate::expression::call::Call;
use crate::value::{self, Number};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.whole(|value| {
        let mut context = Context::new();
        context.consume(0_i32.to_le_bytes());
        feed(&mut context, None, value.or_null());
        let mut key = [0; 8];
        for (byte, digest) in key.iter_mut().zip(context.finalize().0) {
            *byte = digest;
        }
        Ok(i64::from_le_bytes(key).into())
    })
}

/// The type, the name if there is one, and the content: numbers as whole ones, so that those of all
/// types that are equal agree.
fn feed(context: &mut Context, name: Option<&str>, value: RawBsonRef<'_>) {
    context.consume(canonical_type(value).to_le_bytes());
    if let Some(name) = name {
        context.consume(name);
        context.consume([0]);
    }
    match value {
        RawBsonRef::Document(document) => feed_fields(context, document),
        RawBsonRef::Array(array) => {
            // An array has the bytes of a document.
            if let Ok(elements) = RawDocument::from_bytes(array.as_bytes()) {
                feed_fields(context, elements);
            }
        }
        value => match Number::from_bson(value) {
            Some(number) => context.consume(whole(number).to_le_bytes()),
            None => {
                let mut document = RawDocumentBuf::new();
                document.append(cstr!(""), value);
                // Around the content are the length, the type and the empty name, and the end.
                let bytes = document.as_bytes();
                let content = bytes.get(6..bytes.len() - 1).unwrap_or_default();
                context.consume(content);
            }
        },
    }
}

fn feed_fields(context: &mut Context, document: &RawDocument) {
    for (name, value) in value::fields(document) {
        feed(context, Some(name), value);
    }
    // The end of a document counts as a field of the type 0, without a name.
    context.consume(0_i32.to_le_bytes());
}

/// The number's part in front of the point, within the range of a long; 0 for NaN.
fn whole(number: Number) -> i64 {
    match number {
        number if number.is_nan() => 0,
        number => number.truncated().unwrap_or_else(|| {
            if number.compare(Number::Int32(0)).is_lt() {
                i64::MIN
            } else {
                i64::MAX
            }
        }),
    }
}

/// The place of the type in the order of types, by MongoDB's numbers.
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
