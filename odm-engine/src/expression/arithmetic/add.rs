//! `$add`: the sum of numbers, or a date so many milliseconds later.
//!
//! The type of the sum is the widest of the operands'; integers that do not fit become long, then
//! double. Nothing is rounded on the way.
//!
//! ```text
//! { "$add": [1, 2, 3] } → 6
//! { "$add": [0.1, 0.2, 0.3] } → 0.6
//! { "$add": [2147483647, 1] } → { "$numberLong": "2147483648" }
//! { "$add": [{ "$date": "1970-01-01T00:00:00Z" }, 1000] } → { "$date": "1970-01-01T00:00:01Z" }
//! { "$add": [1, null] } → null
//! ```

use bson::{DateTime, RawBson, RawBsonRef};

use crate::expression::call::Call;
use crate::expression::numeric::int_or_long;
use crate::expression::{Expression, Value};
use crate::value::{Decimal, Number, Sum};
use crate::{Error, Result};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.commutative(add)
}

fn add<'v>(values: Vec<Value<'v>>) -> Result<Value<'v>> {
    let mut total = Total::default();
    for value in &values {
        if value.is_nullish() {
            return Ok(Value::NULL);
        }
        total.add(value)?;
    }
    total.value()
}

/// Decimals and other numbers are added apart from each other.
#[derive(Debug)]
struct Total {
    sum: Sum,
    decimals: Decimal,
    has_date: bool,
    has_decimal: bool,
    has_double: bool,
    has_long: bool,
}

impl Total {
    fn add(&mut self, value: &Value<'_>) -> Result<()> {
        if let Some(RawBsonRef::DateTime(date)) = value.as_bson() {
            if self.has_date {
                return Err(Error::server(16612, "$add takes only one date"));
            }
            self.has_date = true;
            self.sum.add_integer(date.timestamp_millis());
            return Ok(());
        }
        match value.number() {
            Some(Number::Int32(number)) => self.sum.add(number.into()),
            Some(Number::Int64(number)) => {
                self.has_long = true;
                self.sum.add_integer(number);
            }
            Some(Number::Double(number)) => {
                self.has_double = true;
                self.sum.add(number);
            }
            Some(Number::Decimal(number)) => {
                self.has_decimal = true;
                self.decimals = self.decimals.add(number);
            }
            None => {
                let found = value.type_name();
                let message = format!("$add takes numbers and dates, not {found}");
                return Err(Error::server(16554, message));
            }
        }
        Ok(())
    }

    fn value(&self) -> Result<Value<'static>> {
        let decimals = || self.decimals.add(self.sum.to_decimal());
        if self.has_date {
            let millis = if self.has_decimal {
                decimals().to_nearest_long()
            } else {
                let millis = self.sum.to_integer();
                millis.ok_or_else(|| Error::server(15, "the date of an $add is out of range"))?
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

impl Default for Total {
    fn default() -> Self {
        Total {
            sum: Sum::default(),
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
    fn an_operand_is_looked_at_before_the_next_is_computed() {
        let failing = rawdoc! { "$abs": "$text" };
        let add = |first: &str| {
            let add = rawdoc! { "add": { "$add": [first, failing.clone()] } };
            let environment = Arc::new(Environment::default());
            let add = Computation::parse(add.get("add").unwrap().unwrap(), &environment).unwrap();
            let document = rawdoc! { "text": "x", "number": 1 };
            add.of(&document).map(|value| value.into_bson())
        };
        assert_eq!(add("$text").unwrap_err().code(), Some(16554));
        assert_eq!(add("$number").unwrap_err().code(), Some(28765));
        assert_eq!(add("$missing").unwrap(), Some(bson::RawBson::Null));
    }
}
