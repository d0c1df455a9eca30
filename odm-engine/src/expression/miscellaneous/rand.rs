//! `$rand`: a random number from 0 up to, but not including, 1. Another one for each document.
//!
//! ```text
//! { "$lt": [{ "$rand": {} }, 1] } → true
//! ```

use bson::RawBsonRef;

use crate::expression::call::Call;
use crate::expression::{Expression, Operator, Scope, Value};
use crate::{Error, Result, value};

#[derive(Debug)]
struct Rand;

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let is_empty = match call.operand {
        RawBsonRef::Document(document) => value::fields(document).next().is_none(),
        RawBsonRef::Array(array) => value::items(array).next().is_none(),
        other => {
            let found = value::type_name(other);
            let message = format!("$rand takes an empty document, not {found}");
            return Err(Error::server(10065, message));
        }
    };
    if !is_empty {
        return Err(Error::server(3_040_501, "$rand takes no arguments"));
    }
    Ok(Expression::operator(Rand))
}

impl Operator for Rand {
    fn evaluate<'v>(&'v self, _scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        Ok(rand::random::<f64>().into())
    }
}
