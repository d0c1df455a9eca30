//! Regrouping of associative operators, such as `$add`: flattens nested calls and combines constant
//! operands.
//!
//! MongoDB combines the constant operands during parsing, so `{ $add: ["$a", "x", 1] }` fails even
//! without a document.

use std::collections::VecDeque;
use std::mem;

use super::Expression;
use super::call::{FoldableOperator, OperatorCall};
use crate::Result;

/// The freedom to reorder operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegroupOrder {
    /// Operands keep their order. Only neighboring constants are combined.
    Kept,
    /// Operands can be reordered. All constants are combined and moved to the end.
    Free,
}

/// Builds the operator of `call` with `build` after regrouping.
///
/// Constant operands are combined, and operands of nested operators of the same name are inlined.
pub(super) fn regroup_operands<O: FoldableOperator + 'static>(
    call: &OperatorCall<'_>,
    operands: Vec<Expression>,
    order: RegroupOrder,
    build: impl Fn(Vec<Expression>) -> O,
) -> Result<Expression> {
    if !call.names.folds_constants()
        || operands
            .iter()
            .all(|operand| operand.as_constant().is_some())
    {
        return call.fold_constant(build(operands));
    }
    let (mut kept, mut constants) = (Vec::new(), Vec::new());
    let mut remaining = VecDeque::from(operands);
    while let Some(mut operand) = remaining.pop_front() {
        if operand.as_constant().is_some() {
            constants.push(operand);
            continue;
        }
        if let Expression::Operator(operator) = &mut operand
            && let Some(inner) = operator.take_operands(call.name)
        {
            for operand in inner.into_iter().rev() {
                remaining.push_front(operand);
            }
            continue;
        }
        if order == RegroupOrder::Kept {
            flush_constants(call, &mut constants, &mut kept, &build)?;
        }
        kept.push(operand);
    }
    flush_constants(call, &mut constants, &mut kept, &build)?;
    match kept
        .iter()
        .position(|operand| matches!(operand, Expression::Failing(_)))
    {
        Some(failing) => Ok(kept.swap_remove(failing)),
        None => call.fold_constant(build(kept)),
    }
}

/// Combines the collected constants into one operand and appends the operand.
fn flush_constants<O: FoldableOperator + 'static>(
    call: &OperatorCall<'_>,
    constants: &mut Vec<Expression>,
    kept: &mut Vec<Expression>,
    build: impl Fn(Vec<Expression>) -> O,
) -> Result<()> {
    if constants.len() > 1 {
        kept.push(call.fold_constant(build(mem::take(constants)))?);
    }
    kept.append(constants);
    Ok(())
}
