//! `$exp`: e to the power of a number.
//!
//! ```text
//! { "$exp": 0 } → 1.0
//! { "$exp": { "$numberDecimal": "1" } } → { "$numberDecimal": "2.718281828459045235360287471352662" }
//! ```

use crate::Result;
use crate::expression::Expression;
use crate::expression::call::OperatorCall;
use crate::expression::numeric::apply_to_number;
use crate::value::{DecimalFunction, Number};

pub(super) fn parse_exp(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| {
        apply_to_number("$exp", &value, |number| {
            Ok(match number {
                Number::Decimal(number) => {
                    Number::Decimal(number.apply_function(DecimalFunction::Exp)).into()
                }
                number => number.to_double().exp().into(),
            })
        })
    })
}
