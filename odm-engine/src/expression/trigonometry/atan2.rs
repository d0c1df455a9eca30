//! `$atan2`: the angle of the point with coordinates y and x.
//!
//! ```text
//! { "$atan2": [0, 1] } → 0.0
//! { "$atan2": [{ "$numberDecimal": "0" }, -1] } → { "$numberDecimal": "3.141592653589793238462643383279503" }
//! { "$atan2": [null, 1] } → null
//! ```

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::value::Number;
use crate::{Error, Result};

pub(super) fn parse_atan2(call: &OperatorCall<'_>) -> Result<Expression> {
    call.binary(atan2)
}

fn atan2<'v>(y: Value<'v>, x: Value<'v>) -> Result<Value<'v>> {
    // If y is null, the type of x is not checked.
    let Some(y) = number_or_null(&y, 51044)? else {
        return Ok(Value::NULL);
    };
    let Some(x) = number_or_null(&x, 51045)? else {
        return Ok(Value::NULL);
    };
    Ok(match (y, x) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Number::Decimal(y.to_decimal().atan2(x.to_decimal())).into()
        }
        _ => y.to_double().atan2(x.to_double()).into(),
    })
}

fn number_or_null(value: &Value<'_>, code: i32) -> Result<Option<Number>> {
    if value.is_nullish() {
        return Ok(None);
    }
    value.as_number().map(Some).ok_or_else(|| {
        let message = format!("$atan2 takes numbers, not {}", value.type_name());
        Error::with_server_code(code, message)
    })
}
