//! A function of a fixed number of values, for operators that do not take their operands as a list.

use std::fmt;

use super::{Call, Operands};
use crate::Result;
use crate::expression::{Expression, Operator, Scope, Value};
use crate::value::growth;

/// What an operator computes from the values of its `N` operands.
pub(in crate::expression) type Of<const N: usize> = for<'v> fn([Value<'v>; N]) -> Result<Value<'v>>;

struct Function<const N: usize> {
    name: Box<str>,
    operands: [Expression; N],
    function: Of<N>,
}

impl Call<'_> {
    /// An operator that is a function of these operands.
    ///
    /// # Errors
    /// What the function gives for constant ones.
    pub(in crate::expression) fn function<const N: usize>(
        &self,
        operands: [Expression; N],
        function: Of<N>,
    ) -> Result<Expression> {
        self.fold(Function {
            name: self.name.into(),
            operands,
            function,
        })
    }
}

impl<const N: usize> Operands for Function<N> {
    fn operands(&self) -> impl Iterator<Item = &Expression> {
        self.operands.iter()
    }
}

impl<const N: usize> Operator for Function<N> {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        let mut values = [const { Value::Missing }; N];
        let mut held = 0;
        for (value, operand) in values.iter_mut().zip(&self.operands) {
            *value = operand.evaluate(scope)?;
            held += value.bytes();
            growth::check_size(held)?;
        }
        (self.function)(values)
    }
}

impl<const N: usize> fmt::Debug for Function<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(&self.name).field(&self.operands).finish()
    }
}
