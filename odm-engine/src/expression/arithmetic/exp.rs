//! `$exp`: e to the power of a number.
//!
//! ```text
//! { "$exp": 0 } → 1.0
//! { "$exp": { "$numberDecimal": "1" } } → { "$numberDecimal": "2.718281828459045235360287471352662" }
//! ```

use crate::Result;
use crate::expression::Expression;
use crate::expression::call::Call;
use crate::expression::numeric::numeric;
use crate::value::{Function, Number};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| {
        numeric("$exp", &value, |number| {
            Ok(match number {
                Number::Decimal(number) => Number::Decimal(number.apply(Function::Exp)).into(),
                number => number.to_double().exp().into(),
            })
        })
    })
}
