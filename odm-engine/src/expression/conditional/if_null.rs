//! `$ifNull`: the first operand that is neither null nor missing, else the last one. Those behind it
//! are not computed.
//!
//! ```text
//! { "$ifNull": [null, "$$REMOVE", 3, 4] } → 3
//! { "$ifNull": [null, "$$REMOVE"] } → missing
//! ```

use crate::expression::call::{Call, Operands};
use crate::expression::{Expression, Operator, Scope, Value};
use crate::{Error, Result};

#[derive(Debug)]
struct IfNull(Vec<Expression>);

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let operands = call.operands()?;
    if operands.len() < 2 {
        let message = format!("$ifNull takes at least 2 operands, not {}", operands.len());
        return Err(Error::server(1_257_300, message));
    }
    call.fold(IfNull(operands))
}

impl Operands for IfNull {
    fn operands(&self) -> impl Iterator<Item = &Expression> {
        self.0.iter()
    }
}

impl Operator for IfNull {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        let mut last = Value::Missing;
        for operand in &self.0 {
            last = operand.evaluate(scope)?;
            if !last.is_nullish() {
                break;
            }
        }
        Ok(last)
    }
}
