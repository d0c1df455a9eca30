//! An operator with its operand, while it is parsed.

mod arguments;
mod function;

use std::ops::RangeInclusive;
use std::{fmt, mem};

use bson::{DateTime, RawBsonRef, RawDocument, RawDocumentBuf};

use super::regroup::{Order, regroup};
use super::{Environment, Expression, Names, Operator, Scope, Value};
use crate::value::growth;
use crate::{Error, Result, value};
pub(super) use arguments::Arguments;
pub(super) use function::Of as FunctionOf;

/// `{ name: operand }`, not yet understood.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    /// The operator, as `$add`.
    pub(super) name: &'a str,
    pub(super) operand: RawBsonRef<'a>,
    pub(super) names: &'a Names<'a>,
}

/// What an operator computes from the values of its operands.
#[derive(Clone, Copy)]
enum Function {
    One(Unary),
    Two(Binary),
    Three(Ternary),
    /// Of as many as there are, looked at one by one.
    Each(Variadic),
    /// Of some, looked at together.
    Many(Variadic),
}

pub(super) type Unary = for<'v> fn(Value<'v>) -> Result<Value<'v>>;
pub(super) type Binary = for<'v> fn(Value<'v>, Value<'v>) -> Result<Value<'v>>;
pub(super) type Ternary = for<'v> fn(Value<'v>, Value<'v>, Value<'v>) -> Result<Value<'v>>;
pub(super) type Variadic = for<'v> fn(Vec<Value<'v>>) -> Result<Value<'v>>;

impl Call<'_> {
    /// An operator that is a function of one operand.
    ///
    /// # Errors
    /// Not one operand (code 16020); what the function gives for a constant one.
    pub(super) fn unary(&self, function: Unary) -> Result<Expression> {
        self.apply(self.exactly::<1>()?.into(), Function::One(function))
    }

    /// An operator that is a function of its operand as it stands: an array is no list of operands.
    ///
    /// # Errors
    /// What the function gives for a constant one.
    pub(super) fn whole(&self, function: Unary) -> Result<Expression> {
        let operand = self.parse(self.operand)?;
        self.apply(vec![operand], Function::One(function))
    }

    /// An operator that is a function of two operands.
    ///
    /// # Errors
    /// As [`unary`](Call::unary).
    pub(super) fn binary(&self, function: Binary) -> Result<Expression> {
        self.apply(self.exactly::<2>()?.into(), Function::Two(function))
    }

    /// An operator that is a function of three operands.
    ///
    /// # Errors
    /// As [`unary`](Call::unary).
    pub(super) fn ternary(&self, function: Ternary) -> Result<Expression> {
        self.apply(self.exactly::<3>()?.into(), Function::Three(function))
    }

    /// An operator that is a function of any number of operands.
    ///
    /// # Errors
    /// What the function gives for constant ones.
    pub(super) fn variadic(&self, function: Variadic) -> Result<Expression> {
        self.apply(self.operands()?, Function::Each(function))
    }

    /// As [`variadic`](Call::variadic), where operands that follow each other can be put together:
    /// the constant ones are, and those of an inner operator of the same name join those around it.
    ///
    /// # Errors
    /// What the function gives for constant ones.
    pub(super) fn associative(&self, function: Variadic) -> Result<Expression> {
        self.regrouped(Order::Kept, function)
    }

    /// As [`associative`](Call::associative), where the order does not matter either: all constant
    /// operands are put together, behind the others.
    ///
    /// # Errors
    /// What the function gives for constant ones.
    pub(super) fn commutative(&self, function: Variadic) -> Result<Expression> {
        self.regrouped(Order::Free, function)
    }

    fn regrouped(&self, order: Order, function: Variadic) -> Result<Expression> {
        regroup(self, self.operands()?, order, |operands| Application {
            name: self.name.into(),
            operands,
            function: Function::Each(function),
            is_associative: true,
        })
    }

    /// An operator that is a function of some number of operands.
    ///
    /// # Errors
    /// More or fewer operands (code 28667); what the function gives for constant ones.
    pub(super) fn ranged(
        &self,
        count: RangeInclusive<usize>,
        function: Variadic,
    ) -> Result<Expression> {
        let operands = self.operands()?;
        if !count.contains(&operands.len()) {
            let (least, most) = (count.start(), count.end());
            let message = format!(
                "{} takes {least} to {most} operands, not {}",
                self.name,
                operands.len()
            );
            return Err(Error::server(28667, message));
        }
        self.apply(operands, Function::Many(function))
    }

    /// Exactly `N` operands.
    ///
    /// # Errors
    /// Another number of them (code 16020).
    pub(super) fn exactly<const N: usize>(&self) -> Result<[Expression; N]> {
        self.operands()?.try_into().map_err(|operands: Vec<_>| {
            let message = format!("{} takes {N} operands, not {}", self.name, operands.len());
            Error::server(16020, message)
        })
    }

    /// The operands: the elements of an array, or what stands there alone.
    pub(super) fn operands(&self) -> Result<Vec<Expression>> {
        match self.operand {
            RawBsonRef::Array(array) => value::items(array)
                .map(|operand| self.parse(operand))
                .collect(),
            operand => Ok(vec![self.parse(operand)?]),
        }
    }

    /// How many operands there are.
    pub(super) fn count(&self) -> usize {
        match self.operand {
            RawBsonRef::Array(array) => value::items(array).count(),
            _ => 1,
        }
    }

    /// The operand as a document of named arguments.
    ///
    /// # Errors
    /// It is not a document; `code` is the operator's number for that.
    pub(super) fn document(&self, code: i32) -> Result<&RawDocument> {
        self.operand.as_document().ok_or_else(|| {
            let found = value::type_name(self.operand);
            Error::server(
                code,
                format!("{} takes a document of arguments, not {found}", self.name),
            )
        })
    }

    /// An operand of this operator as an expression.
    pub(super) fn parse(&self, operand: RawBsonRef<'_>) -> Result<Expression> {
        Expression::parse(operand, self.names)
    }

    /// An operator, or the constant that it gives if all its operands are: what fails for each
    /// document then fails at once, even if there are no documents.
    ///
    /// A constant that fails is an [`Expression::Failing`]; it is reported once everything is parsed.
    ///
    /// # Errors
    /// None yet.
    pub(super) fn fold(&self, operator: impl Operands + 'static) -> Result<Expression> {
        let is_constant = |operand: &Expression| operand.constant().is_some();
        if !self.names.folds() || !operator.operands().all(is_constant) {
            return Ok(Expression::operator(operator));
        }
        let (document, environment) = (RawDocumentBuf::new(), Environment::new(DateTime::MIN));
        let value = operator.evaluate(&Scope::new(&document, &environment));
        Ok(match value {
            Ok(value) => Expression::Constant(value.into_bson()),
            Err(error) => Expression::Failing(error),
        })
    }

    fn apply(&self, operands: Vec<Expression>, function: Function) -> Result<Expression> {
        self.fold(Application {
            name: self.name.into(),
            operands,
            function,
            is_associative: false,
        })
    }
}

/// An operator whose value depends on its operands only.
pub(super) trait Operands: Operator {
    /// The expressions that its value is computed from, all of them.
    fn operands(&self) -> impl Iterator<Item = &Expression>;
}

/// The values of operands, which are not too large together.
///
/// # Errors
/// They are; what an operand fails with.
pub(super) fn evaluate_all<'v>(
    operands: &'v [Expression],
    scope: &Scope<'_, 'v>,
) -> Result<Vec<Value<'v>>> {
    let mut held = 0;
    let value = |operand: &'v Expression| {
        let value = operand.evaluate(scope)?;
        held += value.bytes();
        growth::check_size(held)?;
        Ok(value)
    };
    operands.iter().map(value).collect()
}

/// A function with its operands.
struct Application {
    name: Box<str>,
    operands: Vec<Expression>,
    function: Function,
    is_associative: bool,
}

impl Operands for Application {
    fn operands(&self) -> impl Iterator<Item = &Expression> {
        self.operands.iter()
    }
}

impl Application {
    /// The function of operands of which each is looked at before the next one is computed: what is
    /// wrong with one of them comes before what the next fails with. A null decides for the operators
    /// that can be regrouped, whatever comes behind it.
    fn each<'v>(
        &'v self,
        function: Variadic,
        operands: &'v [Expression],
        scope: &Scope<'_, 'v>,
    ) -> Result<Value<'v>> {
        let mut values = Vec::with_capacity(operands.len());
        let mut held = 0;
        for operand in operands {
            match operand.evaluate(scope) {
                Ok(value) => {
                    held += value.bytes();
                    growth::check_size(held)?;
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

impl Operator for Application {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        let value = |operand: &'v Expression| operand.evaluate(scope);
        match (self.function, self.operands.as_slice()) {
            (Function::One(function), [a]) => function(value(a)?),
            (Function::Two(function), [a, b]) => function(value(a)?, value(b)?),
            (Function::Three(function), [a, b, c]) => function(value(a)?, value(b)?, value(c)?),
            (Function::Each(function), all) => self.each(function, all, scope),
            (Function::Many(function), all) => function(evaluate_all(all, scope)?),
            // Parsing has counted the operands.
            _ => Ok(Value::Missing),
        }
    }

    fn release(&mut self, name: &str) -> Option<Vec<Expression>> {
        (self.is_associative && *self.name == *name).then(|| mem::take(&mut self.operands))
    }
}

impl fmt::Debug for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(&self.name).field(&self.operands).finish()
    }
}
