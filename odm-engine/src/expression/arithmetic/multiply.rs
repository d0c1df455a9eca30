//! `$multiply`: the product of numbers.
//!
//! ```text
//! { "$multiply": [2, 3] } → 6
//! { "$multiply": [2, 1.5] } → 3.0
//! { "$multiply": [65536, 65536] } → { "$numberLong": "4294967296" }
//! { "$multiply": [2, null] } → null
//! ```

use crate::expression::call::OperatorCall;
use crate::expression::numeric::int_or_long;
use crate::expression::{Expression, Value};
use crate::value::Number;
use crate::{Error, Result};

pub(super) fn parse_multiply(call: &OperatorCall<'_>) -> Result<Expression> {
    call.commutative(multiply_values)
}

fn multiply_values<'v>(values: Vec<Value<'v>>) -> Result<Value<'v>> {
    let mut product = RunningProduct {
        value: Number::Int64(1),
        double: 1.0,
    };
    let mut has_long = false;
    for value in &values {
        if value.is_nullish() {
            return Ok(Value::NULL);
        }
        let number = value.as_number().ok_or_else(|| {
            let message = format!("$multiply takes numbers, not {}", value.type_name());
            Error::with_server_code(14, message)
        })?;
        has_long |= matches!(number, Number::Int64(_));
        product.multiply_by(number);
    }
    Ok(match product.value {
        Number::Int64(number) if !has_long => int_or_long(number),
        number => number.into(),
    })
}

struct RunningProduct {
    /// The product in the widest type so far. An int counts as a long.
    value: Number,
    /// The product in double precision, for integers that overflow.
    double: f64,
}

impl RunningProduct {
    fn multiply_by(&mut self, number: Number) {
        self.double *= number.to_double();
        self.value = match (self.value, number) {
            (a @ Number::Decimal(_), b) | (a, b @ Number::Decimal(_)) => {
                Number::Decimal(a.to_decimal().multiply(b.to_decimal()))
            }
            (Number::Double(_), _) | (_, Number::Double(_)) => Number::Double(self.double),
            (a, b) => {
                let exact = a
                    .whole_long()
                    .zip(b.whole_long())
                    .and_then(|(a, b)| a.checked_mul(b));
                exact.map_or(Number::Double(self.double), Number::Int64)
            }
        };
    }
}
