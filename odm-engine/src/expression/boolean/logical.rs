//! `$and`, `$or`: whether all operands or any operand is true. Evaluation stops at the first
//! operand that decides.
//!
//! ```text
//! { "$and": [true, 1, "x"] } → true
//! { "$and": [true, null] } → false
//! { "$or": [0, 5] } → true
//! { "$or": [] } → false
//! ```

use std::mem;

use bson::RawBson;

use crate::Result;
use crate::expression::call::{FoldableOperator, OperatorCall};
use crate::expression::regroup::{RegroupOrder, regroup_operands};
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope};

#[derive(Debug)]
struct AndOr {
    /// The truth value of an operand that decides the result: false for `$and`, true for `$or`.
    deciding: bool,
    operands: Vec<Expression>,
}

pub(super) fn parse_and(call: &OperatorCall<'_>) -> Result<Expression> {
    parse_logical(call, false)
}

pub(super) fn parse_or(call: &OperatorCall<'_>) -> Result<Expression> {
    parse_logical(call, true)
}

fn parse_logical(call: &OperatorCall<'_>, deciding: bool) -> Result<Expression> {
    let operands = call.parse_operands()?;
    // A constant that decides makes the result constant, even if another operand would fail at
    // evaluation.
    let is_decided = |operand: &Expression| {
        let constant = operand.as_constant();
        constant.is_some_and(|constant| constant.is_truthy() == deciding)
    };
    if !call.names.folds_constants() {
        return Ok(Expression::from_operator(AndOr { deciding, operands }));
    }
    let fails = operands
        .iter()
        .any(|operand| matches!(operand, Expression::Failing(_)));
    if !fails && operands.iter().any(is_decided) {
        return Ok(Expression::Constant(Some(RawBson::Boolean(deciding))));
    }
    regroup_operands(call, operands, RegroupOrder::Free, |operands| AndOr {
        deciding,
        operands,
    })
}

impl FoldableOperator for AndOr {
    fn operand_expressions(&self) -> impl Iterator<Item = &Expression> {
        self.operands.iter()
    }
}

impl ExpressionOperator for AndOr {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        for operand in &self.operands {
            if operand.evaluate(scope)?.is_truthy() == self.deciding {
                return Ok(self.deciding.into());
            }
        }
        Ok((!self.deciding).into())
    }

    fn take_operands(&mut self, name: &str) -> Option<Vec<Expression>> {
        let operator_name = if self.deciding { "$or" } else { "$and" };
        (name == operator_name).then(|| mem::take(&mut self.operands))
    }
}
