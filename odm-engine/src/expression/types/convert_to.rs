//! `$toBool`, `$toDate`, `$toDecimal`, `$toDouble`, `$toInt`, `$toLong`, `$toObjectId`, `$toString`:
//! `$convert` to that type, without the values for null and errors.
//!
//! ```text
//! { "$toBool": "false" } → true
//! { "$toDate": 0.0 } → { "$date": "1970-01-01T00:00:00Z" }
//! { "$toDecimal": 1.5 } → { "$numberDecimal": "1.50000000000000" }
//! { "$toDouble": "-.5" } → -0.5
//! { "$toInt": ["12"] } → 12
//! { "$toLong": 2.9 } → { "$numberLong": "2" }
//! { "$toObjectId": "5ab9cbfa31c2ab715d42129e" } → { "$oid": "5ab9cbfa31c2ab715d42129e" }
//! { "$toString": 1234567.0 } → "1.23457e+06"
//! ```

use bson::RawBsonRef;

use super::convert::convert;
use crate::expression::call::{Call, Operands};
use crate::expression::{Expression, Operator, Scope, Value};
use crate::{Error, Result, value};

#[derive(Debug)]
struct ConvertTo {
    input: Expression,
    target: &'static str,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let input = match call.operand {
        RawBsonRef::Array(array) => {
            let mut items = value::items(array);
            match (items.next(), items.next()) {
                (Some(only), None) => only,
                _ => {
                    let message = format!("{} takes a single operand", call.name);
                    return Err(Error::server(50723, message));
                }
            }
        }
        operand => operand,
    };
    let target = match call.name {
        "$toBool" => "bool",
        "$toDate" => "date",
        "$toDecimal" => "decimal",
        "$toDouble" => "double",
        "$toInt" => "int",
        "$toLong" => "long",
        "$toObjectId" => "objectId",
        _ => "string",
    };
    call.fold(ConvertTo {
        input: call.parse(input)?,
        target,
    })
}

impl Operands for ConvertTo {
    fn operands(&self) -> impl Iterator<Item = &Expression> {
        [&self.input].into_iter()
    }
}

impl Operator for ConvertTo {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        let input = self.input.evaluate(scope)?;
        if input.is_nullish() {
            return Ok(Value::NULL);
        }
        convert(&input, self.target)
    }
}
