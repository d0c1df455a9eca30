//! Operators that are functions of a fixed number of values but do not take their operands as a
//! list.

use std::fmt;

use super::{FoldableOperator, OperatorCall};
use crate::Result;
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope};
use crate::value::growth;

/// A function of the values of `N` operands.
pub(in crate::expression) type FunctionOf<const N: usize> =
    for<'v> fn([Value<'v>; N]) -> Result<Value<'v>>;

struct FixedArityFunction<const N: usize> {
    name: Box<str>,
    operands: [Expression; N],
    function: FunctionOf<N>,
}

impl OperatorCall<'_> {
    /// Builds an operator that is a function of the given operands.
    ///
    /// # Errors
    /// No errors are returned today: a failure with constant operands becomes
    /// [`Expression::Failing`].
    pub(in crate::expression) fn fixed_function<const N: usize>(
        &self,
        operands: [Expression; N],
        function: FunctionOf<N>,
    ) -> Result<Expression> {
        self.fold_constant(FixedArityFunction {
            name: self.name.into(),
            operands,
            function,
        })
    }
}

impl<const N: usize> FoldableOperator for FixedArityFunction<N> {
    fn operand_expressions(&self) -> impl Iterator<Item = &Expression> {
        self.operands.iter()
    }
}

impl<const N: usize> ExpressionOperator for FixedArityFunction<N> {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        let mut values = [const { Value::Missing }; N];
        let mut bytes = 0;
        for (value, operand) in values.iter_mut().zip(&self.operands) {
            *value = operand.evaluate(scope)?;
            bytes += value.owned_bytes();
            growth::check_size(bytes)?;
        }
        (self.function)(values)
    }
}

impl<const N: usize> fmt::Debug for FixedArityFunction<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(&self.name).field(&self.operands).finish()
    }
}
