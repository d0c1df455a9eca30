//! `$toBool`, `$toDate`, `$toDecimal`, `$toDouble`, `$toInt`, `$toLong`, `$toObjectId`,
//! `$toString`: `$convert` to a fixed type, without `onNull` and `onError`.
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

use super::convert::convert_value;
use crate::expression::call::{FoldableOperator, OperatorCall};
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope};
use crate::{Error, Result, value};

#[derive(Debug)]
struct ConvertTo {
    input: Expression,
    target: &'static str,
}

pub(super) fn parse_convert_to(call: &OperatorCall<'_>) -> Result<Expression> {
    let input = match call.operand {
        RawBsonRef::Array(array) => {
            let mut items = value::items(array);
            match (items.next(), items.next()) {
                (Some(only), None) => only,
                _ => {
                    let message = format!("{} takes a single operand", call.name);
                    return Err(Error::with_server_code(50723, message));
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
    call.fold_constant(ConvertTo {
        input: call.parse_operand(input)?,
        target,
    })
}

impl FoldableOperator for ConvertTo {
    fn operand_expressions(&self) -> impl Iterator<Item = &Expression> {
        [&self.input].into_iter()
    }
}

impl ExpressionOperator for ConvertTo {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        let input = self.input.evaluate(scope)?;
        if input.is_nullish() {
            return Ok(Value::NULL);
        }
        convert_value(&input, self.target)
    }
}
