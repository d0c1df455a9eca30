//! `$divide`: a quotient as a double or a decimal.
//!
//! ```text
//! { "$divide": [6, 3] } → 2.0
//! { "$divide": [{ "$numberDecimal": "1" }, 4] } → { "$numberDecimal": "0.25" }
//! { "$divide": [null, 2] } → null
//! ```

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::value::Number;
use crate::{Error, Result};

pub(super) fn parse_divide(call: &OperatorCall<'_>) -> Result<Expression> {
    call.binary(divide)
}

fn divide<'v>(dividend: Value<'v>, divisor: Value<'v>) -> Result<Value<'v>> {
    let (Some(a), Some(b)) = (dividend.as_number(), divisor.as_number()) else {
        if dividend.is_nullish() || divisor.is_nullish() {
            return Ok(Value::NULL);
        }
        let (a, b) = (dividend.type_name(), divisor.type_name());
        let message = format!("$divide takes numbers, not {a} and {b}");
        return Err(Error::with_server_code(14, message));
    };
    if b.is_zero() {
        return Err(Error::bad_value("$divide cannot divide by zero"));
    }
    Ok(match (a, b) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Number::Decimal(a.to_decimal().divide(b.to_decimal())).into()
        }
        _ => (a.to_double() / b.to_double()).into(),
    })
}
