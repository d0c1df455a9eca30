//! `$setEquals`: whether all arrays have the same distinct elements.
//!
//! ```text
//! { "$setEquals": [[1, 2, 1], [2, 1]] } → true
//! { "$setEquals": [[1], [1], [1, 2]] } → false
//! ```

use super::elements::{Elements, array};
use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    if call.count() < 2 {
        let message = "$setEquals takes two or more operands";
        return Err(Error::server(17045, message));
    }
    call.variadic(set_equals)
}

fn set_equals(sets: Vec<Value<'_>>) -> Result<Value<'_>> {
    let elements = |set| -> Result<Elements<'_>> {
        Ok(value::items(array("$setEquals", set, 5887502)?).collect())
    };
    let sets: Vec<_> = sets.iter().map(elements).collect::<Result<_>>()?;
    let equal = sets.windows(2).all(|pair| match pair {
        [a, b] => a.equals(b),
        _ => true,
    });
    Ok(equal.into())
}
