//! `$atan2`: the angle of the point with a y and an x.
//!
//! ```text
//! { "$atan2": [0, 1] } → 0.0
//! { "$atan2": [{ "$numberDecimal": "0" }, -1] } → { "$numberDecimal": "3.141592653589793238462643383279503" }
//! { "$atan2": [null, 1] } → null
//! ```

use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::value::Number;
use crate::{Error, Result};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.binary(atan2)
}

fn atan2<'v>(y: Value<'v>, x: Value<'v>) -> Result<Value<'v>> {
    // If y is null, x is not even looked at.
    let Some(y) = number(&y, 51044)? else {
        return Ok(Value::NULL);
    };
    let Some(x) = number(&x, 51045)? else {
        return Ok(Value::NULL);
    };
    Ok(match (y, x) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Number::Decimal(y.to_decimal().atan2(x.to_decimal())).into()
        }
        _ => y.to_double().atan2(x.to_double()).into(),
    })
}

fn number(value: &Value<'_>, code: i32) -> Result<Option<Number>> {
    if value.is_nullish() {
        return Ok(None);
    }
    value.number().map(Some).ok_or_else(|| {
        let message = format!("$atan2 takes numbers, not {}", value.type_name());
        Error::server(code, message)
    })
}
