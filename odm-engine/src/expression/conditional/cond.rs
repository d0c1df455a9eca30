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
        return cond(call, call.exactly()?);
    }
    let arguments = call.arguments(&["else", "if", "then"], 17083, 17083)?;
    let operands = [
        arguments.required("if", 17080)?,
        arguments.required("then", 17081)?,
        arguments.required("else", 17082)?,
    ];
    cond(call, operands)
}

/// A constant condition has decided already.
fn cond(call: &Call<'_>, [condition, then, otherwise]: [Expression; 3]) -> Result<Expression> {
    let constant = condition.constant().filter(|_| call.names.folds());
    match constant.map(|condition| condition.is_truthy()) {
        Some(true) => Ok(then),
        Some(false) => Ok(otherwise),
        None => call.fold(Cond([condition, then, otherwise])),
    }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bson::{RawBson, rawdoc};

    use crate::expression::Computation;

    #[test]
    fn a_constant_condition_leaves_one_branch() {
        let call = |condition: bool| {
            let operands = [condition.into(), RawBson::from(1), RawBson::from("$a")];
            RawBson::from(rawdoc! { "$cond": bson::RawArrayBuf::from_iter(operands) })
        };
        let constant = |condition: bool| {
            let call = call(condition);
            let parsed = Computation::parse(call.as_raw_bson_ref(), &Arc::default()).unwrap();
            parsed.constant().and_then(|value| value.into_bson())
        };
        assert_eq!(constant(true), Some(RawBson::from(1)));
        assert_eq!(constant(false), None);
    }
}
