//! Operators that do not mind how their operands are grouped, such as `$add`.
//!
//! MongoDB computes what is constant in them beforehand, so `{ $add: ["$a", "x", 1] }` fails even
//! without a document.

use std::collections::VecDeque;
use std::mem;

use super::Expression;
use super::call::{Call, Operands};
use crate::Result;

/// How operands can be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Not at all: only constants that follow each other are put together.
    Kept,
    /// At will: all constants are put together, behind the others.
    Free,
}

/// The operator of `call` that `make` makes of operands, with its constant ones put together and with the
/// operands of inner operators of the same name as its own.
pub(super) fn regroup<O: Operands + 'static>(
    call: &Call<'_>,
    operands: Vec<Expression>,
    order: Order,
    make: impl Fn(Vec<Expression>) -> O,
) -> Result<Expression> {
    if !call.names.folds() || operands.iter().all(|operand| operand.constant().is_some()) {
        return call.fold(make(operands));
    }
    let (mut kept, mut constants) = (Vec::new(), Vec::new());
    let mut left = VecDeque::from(operands);
    while let Some(mut operand) = left.pop_front() {
        if operand.constant().is_some() {
            constants.push(operand);
            continue;
        }
        if let Expression::Operator(operator) = &mut operand
            && let Some(inner) = operator.release(call.name)
        {
            for operand in inner.into_iter().rev() {
                left.push_front(operand);
            }
            continue;
        }
        if order == Order::Kept {
            flush(call, &mut constants, &mut kept, &make)?;
        }
        kept.push(operand);
    }
    flush(call, &mut constants, &mut kept, &make)?;
    match kept
        .iter()
        .position(|operand| matches!(operand, Expression::Failing(_)))
    {
        Some(failing) => Ok(kept.swap_remove(failing)),
        None => call.fold(make(kept)),
    }
}

/// Adds the constants to what is kept, as one.
fn flush<O: Operands + 'static>(
    call: &Call<'_>,
    constants: &mut Vec<Expression>,
    kept: &mut Vec<Expression>,
    make: impl Fn(Vec<Expression>) -> O,
) -> Result<()> {
    if constants.len() > 1 {
        kept.push(call.fold(make(mem::take(constants)))?);
    }
    kept.append(constants);
    Ok(())
}
