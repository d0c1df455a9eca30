//! `$subtract`: the difference of two numbers, the milliseconds between two dates, or a date minus
//! milliseconds.
//!
//! ```text
//! { "$subtract": [5, 3] } → 2
//! { "$subtract": [{ "$date": "1970-01-01T00:00:01Z" }, 1000] } → { "$date": "1970-01-01T00:00:00Z" }
//! { "$subtract": [{ "$date": "1970-01-01T00:00:01Z" }, { "$date": "1970-01-01T00:00:00Z" }] } → { "$numberLong": "1000" }
//! { "$subtract": [null, 1] } → null
//! ```

use bson::{DateTime, RawBson, RawBsonRef};

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::value::Number;
use crate::{Error, Result};

pub(super) fn parse_subtract(call: &OperatorCall<'_>) -> Result<Expression> {
    call.binary(subtract)
}

fn subtract<'v>(a: Value<'v>, b: Value<'v>) -> Result<Value<'v>> {
    if let (Some(a), Some(b)) = (a.as_number(), b.as_number()) {
        return Ok(number_difference(a, b).into());
    }
    if a.is_nullish() || b.is_nullish() {
        return Ok(Value::NULL);
    }
    match (a.as_bson(), b.as_bson(), b.as_number()) {
        (Some(RawBsonRef::DateTime(a)), Some(RawBsonRef::DateTime(b)), _) => {
            let millis = a.timestamp_millis().wrapping_sub(b.timestamp_millis());
            Ok(millis.into())
        }
        (Some(RawBsonRef::DateTime(date)), _, Some(number)) => earlier_date(date, number),
        _ => {
            let (a, b) = (a.type_name(), b.type_name());
            let message = format!("$subtract cannot subtract {b} from {a}");
            Err(Error::with_server_code(14, message))
        }
    }
}

fn number_difference(a: Number, b: Number) -> Number {
    use Number as N;
    match (a, b) {
        (N::Decimal(_), _) | (_, N::Decimal(_)) => {
            N::Decimal(a.to_decimal().subtract(b.to_decimal()))
        }
        (N::Double(_), _) | (_, N::Double(_)) => N::Double(a.to_double() - b.to_double()),
        (N::Int32(a), N::Int32(b)) => match a.checked_sub(b) {
            Some(small) => N::Int32(small),
            None => N::Int64(i64::from(a) - i64::from(b)),
        },
        (x, y) => match x
            .whole_long()
            .zip(y.whole_long())
            .and_then(|(x, y)| x.checked_sub(y))
        {
            Some(exact) => N::Int64(exact),
            None => N::Double(x.to_double() - y.to_double()),
        },
    }
}

fn earlier_date(date: DateTime, number: Number) -> Result<Value<'static>> {
    let millis = match number {
        Number::Decimal(number) => number.to_nearest_long(),
        number => number.truncated_long().ok_or_else(|| {
            Error::with_server_code(
                31109,
                "the number to $subtract from a date must fit into a long",
            )
        })?,
    };
    let before = date.timestamp_millis().checked_sub(millis);
    match before.filter(|_| millis != i64::MIN) {
        Some(before) => Ok(RawBson::DateTime(DateTime::from_millis(before)).into()),
        None => Err(Error::with_server_code(
            159,
            "the date of a $subtract is out of range",
        )),
    }
}
