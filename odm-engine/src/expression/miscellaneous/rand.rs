//! `$rand`: a random number from 0 to 1, 1 excluded. Each document gets a new number.
//!
//! ```text
//! { "$lt": [{ "$rand": {} }, 1] } → true
//! ```

use bson::RawBsonRef;

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope};
use crate::{Error, Result, value};

#[derive(Debug)]
struct Rand;

pub(super) fn parse_rand(call: &OperatorCall<'_>) -> Result<Expression> {
    let is_empty = match call.operand {
        RawBsonRef::Document(document) => value::fields(document).next().is_none(),
        RawBsonRef::Array(array) => value::items(array).next().is_none(),
        other => {
            let type_name = value::type_name(other);
            let message = format!("$rand takes an empty document, not {type_name}");
            return Err(Error::with_server_code(10065, message));
        }
    };
    if !is_empty {
        return Err(Error::with_server_code(
            3_040_501,
            "$rand takes no arguments",
        ));
    }
    Ok(Expression::from_operator(Rand))
}

impl ExpressionOperator for Rand {
    fn evaluate<'v>(&'v self, _scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        Ok(rand::random::<f64>().into())
    }
}
