//! `$cond`: one of two values. Only the one that is chosen is computed.
//!
//! ```text
//! { "$cond": { "if": true, "then": 1, "else": 2 } } → 1
//! { "$cond": [null, 1, 2] } → 2
//! ```

use crate::Result;
use crate::expression::call::{Call, Operands};
use crate::expression::{Expression, Operator, Scope, Value};

#[derive(Debug)]
struct Cond([Expression; 3]);

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    if call.operand.as_document().is_none() {
        return call.fold(Cond(call.exactly()?));
    }
    let arguments = call.arguments(&["else", "if", "then"], 17083, 17083)?;
    call.fold(Cond([
        arguments.required("if", 17080)?,
        arguments.required("then", 17081)?,
        arguments.required("else", 17082)?,
    ]))
}

impl Operands for Cond {
    fn operands(&self) -> impl Iterator<Item = &Expression> {
        self.0.iter()
    }
}

impl Operator for Cond {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        let [condition, then, otherwise] = &self.0;
        if condition.evaluate(scope)?.is_truthy() {
            then.evaluate(scope)
        } else {
            otherwise.evaluate(scope)
        }
    }
}
