//! `$cond`: one of two values. Only the chosen branch is evaluated.
//!
//! ```text
//! { "$cond": { "if": true, "then": 1, "else": 2 } } → 1
//! { "$cond": [null, 1, 2] } → 2
//! ```

use crate::Result;
use crate::expression::call::{FoldableOperator, OperatorCall};
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope};

#[derive(Debug)]
struct Cond([Expression; 3]);

pub(super) fn parse_cond(call: &OperatorCall<'_>) -> Result<Expression> {
    if call.operand.as_document().is_none() {
        return build_cond(call, call.exact_operands()?);
    }
    let arguments = call.named_arguments(&["else", "if", "then"], 17083, 17083)?;
    let operands = [
        arguments.required_expression("if", 17080)?,
        arguments.required_expression("then", 17081)?,
        arguments.required_expression("else", 17082)?,
    ];
    build_cond(call, operands)
}

/// Builds a `$cond`. A constant condition selects the branch during parsing.
fn build_cond(
    call: &OperatorCall<'_>,
    [condition, then, otherwise]: [Expression; 3],
) -> Result<Expression> {
    let constant = condition
        .as_constant()
        .filter(|_| call.names.folds_constants());
    match constant.map(|condition| condition.is_truthy()) {
        Some(true) => Ok(then),
        Some(false) => Ok(otherwise),
        None => call.fold_constant(Cond([condition, then, otherwise])),
    }
}

impl FoldableOperator for Cond {
    fn operand_expressions(&self) -> impl Iterator<Item = &Expression> {
        self.0.iter()
    }
}

impl ExpressionOperator for Cond {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
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
            parsed.constant_value().and_then(|value| value.into_bson())
        };
        assert_eq!(constant(true), Some(RawBson::from(1)));
        assert_eq!(constant(false), None);
    }
}
