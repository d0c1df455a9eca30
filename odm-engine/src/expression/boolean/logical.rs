//! `$and`, `$or`: whether all operands are true, whether any is. Those behind the one that decides
//! are not computed.
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
use crate::expression::call::{Call, Operands};
use crate::expression::regroup::{Order, regroup};
use crate::expression::{Expression, Operator, Scope, Value};

#[derive(Debug)]
struct Logical {
    /// What an operand must be to decide: false for `$and`, true for `$or`.
    deciding: bool,
    operands: Vec<Expression>,
}

pub(super) fn parse_and(call: &Call<'_>) -> Result<Expression> {
    parse(call, false)
}

pub(super) fn parse_or(call: &Call<'_>) -> Result<Expression> {
    parse(call, true)
}

fn parse(call: &Call<'_>, deciding: bool) -> Result<Expression> {
    let operands = call.operands()?;
    // A constant that decides does so whatever the others are, even if they would fail.
    let is_decided = |operand: &Expression| {
        let constant = operand.constant();
        constant.is_some_and(|constant| constant.is_truthy() == deciding)
    };
    if !call.names.folds() {
        return Ok(Expression::operator(Logical { deciding, operands }));
    }
    let fails = operands
        .iter()
        .any(|operand| matches!(operand, Expression::Failing(_)));
    if !fails && operands.iter().any(is_decided) {
        return Ok(Expression::Constant(Some(RawBson::Boolean(deciding))));
    }
    regroup(call, operands, Order::Free, |operands| Logical {
        deciding,
        operands,
    })
}

impl Operands for Logical {
    fn operands(&self) -> impl Iterator<Item = &Expression> {
        self.operands.iter()
    }
}

impl Operator for Logical {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        for operand in &self.operands {
            if operand.evaluate(scope)?.is_truthy() == self.deciding {
                return Ok(self.deciding.into());
            }
        }
        Ok((!self.deciding).into())
    }

    fn release(&mut self, name: &str) -> Option<Vec<Expression>> {
        let own = if self.deciding { "$or" } else { "$and" };
        (name == own).then(|| mem::take(&mut self.operands))
    }
}
