//! `$cond`: one of two values. Only the one that is chosen is computed.
//!
//! ```text
//! { "$cond": { "if": true, "then": 1, "else": 2 } } → 1
//! { "$cond": [null, 1, 2] } → 2
//! ```

use crate::expression::call::{Call, Operands, fold};
use crate::expression::{Expression, Operator, Scope, Value};
use crate::{Error, Result, value};

#[derive(Debug)]
struct Cond([Expression; 3]);

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let Some(arguments) = call.operand.as_document() else {
        return fold(Cond(call.exactly()?));
    };
    let (mut condition, mut then, mut otherwise) = (None, None, None);
    for (name, argument) in value::fields(arguments) {
        let place = match name {
            "else" => &mut otherwise,
            "if" => &mut condition,
            "then" => &mut then,
            other => {
                let message =
                    format!("$cond has no argument '{other}', but 'if', 'then' and 'else'");
                return Err(Error::server(17083, message));
            }
        };
        *place = Some(call.parse(argument)?);
    }
    let missing = |code, name| Error::server(code, format!("$cond needs the argument '{name}'"));
    fold(Cond([
        condition.ok_or_else(|| missing(17080, "if"))?,
        then.ok_or_else(|| missing(17081, "then"))?,
        otherwise.ok_or_else(|| missing(17082, "else"))?,
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
