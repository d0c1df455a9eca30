//! An operator call during parsing, and the operators that are plain functions of their operands.

mod arguments;
mod function;

use std::ops::RangeInclusive;
use std::{fmt, mem};

use bson::{DateTime, RawBsonRef, RawDocument, RawDocumentBuf};

use super::regroup::{RegroupOrder, regroup_operands};
use super::{Environment, Expression, ExpressionOperator, Value, VariableScope, VisibleVariables};
use crate::collation::ValueOrder;
use crate::value::growth;
use crate::{Error, Result, value};
pub(super) use arguments::NamedArguments;
pub(super) use function::FunctionOf;

/// An operator with its operand before parsing: `{ name: operand }`.
#[derive(Debug, Clone, Copy)]
pub(super) struct OperatorCall<'a> {
    /// The name of the operator, such as `$add`.
    pub(super) name: &'a str,
    pub(super) operand: RawBsonRef<'a>,
    pub(super) names: &'a VisibleVariables<'a>,
}

/// A function from operand values to a result.
#[derive(Clone, Copy)]
enum OperandFunction {
    One(Unary),
    Two(Binary),
    TwoInOrder(OrderedBinary),
    Three(Ternary),
    /// Any number of operands. Each value is checked before the next operand is evaluated.
    Each(Variadic),
    EachInOrder(OrderedVariadic),
    /// A bounded number of operands, all evaluated before the call.
    Many(Variadic),
    ManyInOrder(OrderedVariadic),
}

pub(super) type Unary = for<'v> fn(Value<'v>) -> Result<Value<'v>>;
pub(super) type Binary = for<'v> fn(Value<'v>, Value<'v>) -> Result<Value<'v>>;
pub(super) type Ternary = for<'v> fn(Value<'v>, Value<'v>, Value<'v>) -> Result<Value<'v>>;
pub(super) type Variadic = for<'v> fn(Vec<Value<'v>>) -> Result<Value<'v>>;

/// A function that compares its operands.
pub(super) type OrderedBinary = for<'v> fn(&ValueOrder, Value<'v>, Value<'v>) -> Result<Value<'v>>;
pub(super) type OrderedVariadic = for<'v> fn(&ValueOrder, Vec<Value<'v>>) -> Result<Value<'v>>;

impl OperatorCall<'_> {
    /// Builds an operator that is a function of one operand.
    ///
    /// # Errors
    /// The number of operands is not 1 (code 16020). A failure with a constant operand is returned
    /// as [`Expression::Failing`].
    pub(super) fn unary(&self, function: Unary) -> Result<Expression> {
        self.apply_function(
            self.exact_operands::<1>()?.into(),
            OperandFunction::One(function),
        )
    }

    /// Builds an operator that is a function of the whole operand. An array is one operand, not a
    /// list of operands.
    ///
    /// # Errors
    /// The operand cannot be parsed.
    pub(super) fn whole_operand(&self, function: Unary) -> Result<Expression> {
        let operand = self.parse_operand(self.operand)?;
        self.apply_function(vec![operand], OperandFunction::One(function))
    }

    /// Builds an operator that is a function of two operands.
    ///
    /// # Errors
    /// See [`unary`](OperatorCall::unary).
    pub(super) fn binary(&self, function: Binary) -> Result<Expression> {
        self.apply_function(
            self.exact_operands::<2>()?.into(),
            OperandFunction::Two(function),
        )
    }

    /// Builds an operator that compares two operands.
    ///
    /// # Errors
    /// See [`unary`](OperatorCall::unary).
    pub(super) fn ordered_binary(&self, function: OrderedBinary) -> Result<Expression> {
        self.ordered_fixed_binary(self.exact_operands()?, function)
    }

    /// Builds an operator that compares any number of operands.
    ///
    /// # Errors
    /// An operand cannot be parsed.
    pub(super) fn ordered_variadic(&self, function: OrderedVariadic) -> Result<Expression> {
        self.apply_function(
            self.parse_operands()?,
            OperandFunction::EachInOrder(function),
        )
    }

    /// Builds an operator that compares two parsed operands.
    ///
    /// # Errors
    /// No errors are returned today.
    pub(super) fn ordered_fixed_binary(
        &self,
        operands: [Expression; 2],
        function: OrderedBinary,
    ) -> Result<Expression> {
        self.apply_function(operands.into(), OperandFunction::TwoInOrder(function))
    }

    /// Returns the order of values of the operation.
    pub(super) fn order(&self) -> &ValueOrder {
        self.names.order()
    }

    /// Builds an operator that is a function of three operands.
    ///
    /// # Errors
    /// See [`unary`](OperatorCall::unary).
    pub(super) fn ternary(&self, function: Ternary) -> Result<Expression> {
        self.apply_function(
            self.exact_operands::<3>()?.into(),
            OperandFunction::Three(function),
        )
    }

    /// Builds an operator that is a function of any number of operands.
    ///
    /// # Errors
    /// An operand cannot be parsed.
    pub(super) fn variadic(&self, function: Variadic) -> Result<Expression> {
        self.apply_function(self.parse_operands()?, OperandFunction::Each(function))
    }

    /// Builds an associative operator. Neighboring constant operands are combined, and nested
    /// operators of the same name are flattened.
    ///
    /// # Errors
    /// An operand cannot be parsed.
    pub(super) fn associative(&self, function: Variadic) -> Result<Expression> {
        self.regrouped_operator(RegroupOrder::Kept, OperandFunction::Each(function))
    }

    /// Builds an operator that is associative and commutative. All constant operands are combined
    /// and moved to the end.
    ///
    /// # Errors
    /// An operand cannot be parsed.
    pub(super) fn commutative(&self, function: Variadic) -> Result<Expression> {
        self.regrouped_operator(RegroupOrder::Free, OperandFunction::Each(function))
    }

    /// Builds an operator as [`commutative`](OperatorCall::commutative) does, for a function that compares.
    ///
    /// # Errors
    /// An operand cannot be parsed.
    pub(super) fn ordered_commutative(&self, function: OrderedVariadic) -> Result<Expression> {
        self.regrouped_operator(RegroupOrder::Free, OperandFunction::EachInOrder(function))
    }

    fn regrouped_operator(
        &self,
        regrouping: RegroupOrder,
        function: OperandFunction,
    ) -> Result<Expression> {
        regroup_operands(self, self.parse_operands()?, regrouping, |operands| {
            FunctionApplication {
                name: self.name.into(),
                operands,
                function,
                is_associative: true,
                order: self.order().clone(),
            }
        })
    }

    /// Builds an operator whose number of operands lies in a range.
    ///
    /// # Errors
    /// The number of operands is out of range (code 28667).
    pub(super) fn bounded_variadic(
        &self,
        count: RangeInclusive<usize>,
        function: Variadic,
    ) -> Result<Expression> {
        let operands = self.bounded_operands(count)?;
        self.apply_function(operands, OperandFunction::Many(function))
    }

    /// Builds an operator as [`bounded_variadic`](OperatorCall::bounded_variadic) does, for a function that compares.
    ///
    /// # Errors
    /// The number of operands is out of range (code 28667).
    pub(super) fn ordered_bounded_variadic(
        &self,
        count: RangeInclusive<usize>,
        function: OrderedVariadic,
    ) -> Result<Expression> {
        let operands = self.bounded_operands(count)?;
        self.apply_function(operands, OperandFunction::ManyInOrder(function))
    }

    fn bounded_operands(&self, count: RangeInclusive<usize>) -> Result<Vec<Expression>> {
        let operands = self.parse_operands()?;
        if !count.contains(&operands.len()) {
            let (min, max) = (count.start(), count.end());
            let message = format!(
                "{} takes {min} to {max} operands, not {}",
                self.name,
                operands.len()
            );
            return Err(Error::with_server_code(28667, message));
        }
        Ok(operands)
    }

    /// Parses exactly `N` operands.
    ///
    /// # Errors
    /// The number of operands differs (code 16020).
    pub(super) fn exact_operands<const N: usize>(&self) -> Result<[Expression; N]> {
        self.parse_operands()?
            .try_into()
            .map_err(|operands: Vec<_>| {
                let message = format!("{} takes {N} operands, not {}", self.name, operands.len());
                Error::with_server_code(16020, message)
            })
    }

    /// Parses the operands: the elements of an array, or a single operand.
    pub(super) fn parse_operands(&self) -> Result<Vec<Expression>> {
        match self.operand {
            RawBsonRef::Array(array) => value::items(array)
                .map(|operand| self.parse_operand(operand))
                .collect(),
            operand => Ok(vec![self.parse_operand(operand)?]),
        }
    }

    /// Returns the number of operands.
    pub(super) fn operand_count(&self) -> usize {
        match self.operand {
            RawBsonRef::Array(array) => value::items(array).count(),
            _ => 1,
        }
    }

    /// Returns the operand as a document of named arguments.
    ///
    /// # Errors
    /// The operand is not a document. `code` is the operator's error code for that.
    pub(super) fn argument_document(&self, code: i32) -> Result<&RawDocument> {
        self.operand.as_document().ok_or_else(|| {
            let type_name = value::type_name(self.operand);
            Error::with_server_code(
                code,
                format!(
                    "{} takes a document of arguments, not {type_name}",
                    self.name
                ),
            )
        })
    }

    /// Parses an operand of this operator.
    pub(super) fn parse_operand(&self, operand: RawBsonRef<'_>) -> Result<Expression> {
        Expression::parse(operand, self.names)
    }

    /// Returns the operator, or its constant value if all operands are constant. A constant
    /// operator that fails therefore fails even without documents.
    ///
    /// A failed constant becomes an [`Expression::Failing`], which is reported after the whole
    /// command is parsed.
    ///
    /// # Errors
    /// No errors are returned today.
    pub(super) fn fold_constant(
        &self,
        operator: impl FoldableOperator + 'static,
    ) -> Result<Expression> {
        let is_constant = |operand: &Expression| operand.as_constant().is_some();
        if !self.names.folds_constants() || !operator.operand_expressions().all(is_constant) {
            return Ok(Expression::from_operator(operator));
        }
        let (document, environment) = (RawDocumentBuf::new(), Environment::at_time(DateTime::MIN));
        let value = operator.evaluate(&VariableScope::new(&document, &environment));
        Ok(match value {
            Ok(value) => Expression::Constant(value.into_bson()),
            Err(error) => Expression::Failing(error),
        })
    }

    fn apply_function(
        &self,
        operands: Vec<Expression>,
        function: OperandFunction,
    ) -> Result<Expression> {
        self.fold_constant(FunctionApplication {
            name: self.name.into(),
            operands,
            function,
            is_associative: false,
            order: self.order().clone(),
        })
    }
}

/// An operator that is constant if the operands are constant: the value depends on nothing else.
pub(super) trait FoldableOperator: ExpressionOperator {
    /// Returns all expressions that the value is computed from.
    fn operand_expressions(&self) -> impl Iterator<Item = &Expression>;
}

/// Evaluates operands and limits the total size of the values.
///
/// # Errors
/// The values are too large in total, or an operand fails.
pub(super) fn evaluate_all<'v>(
    operands: &'v [Expression],
    scope: &VariableScope<'_, 'v>,
) -> Result<Vec<Value<'v>>> {
    let mut bytes = 0;
    let value = |operand: &'v Expression| {
        let value = operand.evaluate(scope)?;
        bytes += value.owned_bytes();
        growth::check_size(bytes)?;
        Ok(value)
    };
    operands.iter().map(value).collect()
}

/// A function applied to operands.
struct FunctionApplication {
    name: Box<str>,
    operands: Vec<Expression>,
    function: OperandFunction,
    is_associative: bool,
    order: ValueOrder,
}

impl FoldableOperator for FunctionApplication {
    fn operand_expressions(&self) -> impl Iterator<Item = &Expression> {
        self.operands.iter()
    }
}

impl FunctionApplication {
    /// Evaluates operands one by one and checks each value before the next operand is evaluated.
    ///
    /// An invalid value must be reported before the next operand's failure. A null decides
    /// operators that can be regrouped, whatever follows.
    fn evaluate_each<'v>(
        &'v self,
        function: impl Fn(Vec<Value<'v>>) -> Result<Value<'v>>,
        operands: &'v [Expression],
        scope: &VariableScope<'_, 'v>,
    ) -> Result<Value<'v>> {
        let mut values = Vec::with_capacity(operands.len());
        let mut bytes = 0;
        for operand in operands {
            match operand.evaluate(scope) {
                Ok(value) => {
                    bytes += value.owned_bytes();
                    growth::check_size(bytes)?;
                    values.push(value);
                }
                Err(error) => {
                    let before = function(values)?;
                    let is_decided = self.is_associative && before.is_nullish();
                    return if is_decided { Ok(before) } else { Err(error) };
                }
            }
        }
        function(values)
    }
}

impl ExpressionOperator for FunctionApplication {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        let value = |operand: &'v Expression| operand.evaluate(scope);
        match (self.function, self.operands.as_slice()) {
            (OperandFunction::One(function), [a]) => function(value(a)?),
            (OperandFunction::Two(function), [a, b]) => function(value(a)?, value(b)?),
            (OperandFunction::TwoInOrder(function), [a, b]) => {
                function(&self.order, value(a)?, value(b)?)
            }
            (OperandFunction::Three(function), [a, b, c]) => {
                function(value(a)?, value(b)?, value(c)?)
            }
            (OperandFunction::Each(function), all) => self.evaluate_each(function, all, scope),
            (OperandFunction::EachInOrder(function), all) => {
                self.evaluate_each(|values| function(&self.order, values), all, scope)
            }
            (OperandFunction::Many(function), all) => function(evaluate_all(all, scope)?),
            (OperandFunction::ManyInOrder(function), all) => {
                function(&self.order, evaluate_all(all, scope)?)
            }
            // Parsing has checked the number of operands.
            _ => Ok(Value::Missing),
        }
    }

    fn take_operands(&mut self, name: &str) -> Option<Vec<Expression>> {
        (self.is_associative && *self.name == *name).then(|| mem::take(&mut self.operands))
    }
}

impl fmt::Debug for FunctionApplication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(&self.name).field(&self.operands).finish()
    }
}
