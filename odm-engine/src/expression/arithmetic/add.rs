//! `$add`: the sum of numbers, or of a date and milliseconds.
//!
//! The sum has the widest type of the operands. Integers that overflow become long, then double.
//! Only the result is rounded.
//!
//! ```text
//! { "$add": [1, 2, 3] } → 6
//! { "$add": [0.1, 0.2, 0.3] } → 0.6
//! { "$add": [2147483647, 1] } → { "$numberLong": "2147483648" }
//! { "$add": [{ "$date": "1970-01-01T00:00:00Z" }, 1000] } → { "$date": "1970-01-01T00:00:01Z" }
//! { "$add": [1, null] } → null
//! ```

use bson::{DateTime, RawBson, RawBsonRef};

use crate::expression::call::OperatorCall;
use crate::expression::numeric::int_or_long;
use crate::expression::{Expression, Value};
use crate::value::{Decimal, ExactSum, Number};
use crate::{Error, Result};

pub(super) fn parse_add(call: &OperatorCall<'_>) -> Result<Expression> {
    call.commutative(sum_values)
}

fn sum_values<'v>(values: Vec<Value<'v>>) -> Result<Value<'v>> {
    let mut total = RunningTotal::default();
    for value in &values {
        if value.is_nullish() {
            return Ok(Value::NULL);
        }
        total.add_value(value)?;
    }
    total.to_value()
}

/// The running sum. Decimals and other numbers are summed separately and combined at the end.
#[derive(Debug)]
struct RunningTotal {
    sum: ExactSum,
    decimals: Decimal,
    has_date: bool,
    has_decimal: bool,
    has_double: bool,
    has_long: bool,
}

impl RunningTotal {
    fn add_value(&mut self, value: &Value<'_>) -> Result<()> {
        if let Some(RawBsonRef::DateTime(date)) = value.as_bson() {
            if self.has_date {
                return Err(Error::with_server_code(16612, "$add takes only one date"));
            }
            self.has_date = true;
            self.sum.add_integer(date.timestamp_millis());
            return Ok(());
        }
        match value.as_number() {
            Some(Number::Int32(number)) => self.sum.add_double(number.into()),
            Some(Number::Int64(number)) => {
                self.has_long = true;
                self.sum.add_integer(number);
            }
            Some(Number::Double(number)) => {
                self.has_double = true;
                self.sum.add_double(number);
            }
            Some(Number::Decimal(number)) => {
                self.has_decimal = true;
                self.decimals = self.decimals.add(number);
            }
            None => {
                let type_name = value.type_name();
                let message = format!("$add takes numbers and dates, not {type_name}");
                return Err(Error::with_server_code(16554, message));
            }
        }
        Ok(())
    }

    fn to_value(&self) -> Result<Value<'static>> {
        let decimals = || self.decimals.add(self.sum.to_decimal());
        if self.has_date {
            let millis = if self.has_decimal {
                decimals().to_nearest_long()
            } else {
                let millis = self.sum.to_integer();
                millis.ok_or_else(|| {
                    Error::with_server_code(15, "the date of an $add is out of range")
                })?
            };
            return Ok(RawBson::DateTime(DateTime::from_millis(millis)).into());
        }
        if self.has_decimal {
            return Ok(Number::Decimal(decimals()).into());
        }
        Ok(match self.sum.to_integer() {
            Some(long) if !self.has_double && self.has_long => long.into(),
            Some(long) if !self.has_double => int_or_long(long),
            _ => self.sum.to_double().into(),
        })
    }
}

impl Default for RunningTotal {
    fn default() -> Self {
        RunningTotal {
            sum: ExactSum::default(),
            decimals: Decimal::from_integer(0),
            has_date: false,
            has_decimal: false,
            has_double: false,
            has_long: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bson::rawdoc;

    use crate::expression::{Computation, Environment};

    #[test]
    fn operands_are_checked_in_order() {
        let failing = rawdoc! { "$abs": "$text" };
        let add = |first: &str| {
            let add = rawdoc! { "add": { "$add": [first, failing.clone()] } };
            let environment = Arc::new(Environment::default());
            let add = Computation::parse(add.get("add").unwrap().unwrap(), &environment).unwrap();
            let document = rawdoc! { "text": "x", "number": 1 };
            add.evaluate(&document).map(|value| value.into_bson())
        };
        assert_eq!(add("$text").unwrap_err().code(), Some(16554));
        assert_eq!(add("$number").unwrap_err().code(), Some(28765));
        assert_eq!(add("$missing").unwrap(), Some(bson::RawBson::Null));
    }
}
