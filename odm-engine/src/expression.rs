//! Aggregation expressions: values computed from a document.
//!
//! An expression is parsed once, and its constant parts are computed during parsing. Evaluation
//! runs on raw documents and borrows values from the document where possible.
//!
//! Each operator is a file in the folder of its category and is listed in the category's sorted
//! registry. A test runs the examples in the documentation of each file.

mod accumulator;
mod arithmetic;
mod array;
mod boolean;
mod call;
mod categories;
mod comparison;
mod computation;
mod conditional;
mod constants;
mod date;
#[cfg(test)]
mod examples;
mod miscellaneous;
mod names;
mod numeric;
mod object;
mod parse;
mod path;
mod regroup;
mod scope;
mod set;
mod size;
mod string;
mod timestamp;
mod trigonometry;
mod types;
mod value;
mod variable;

use std::fmt;

use bson::raw::CString;
use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocumentBuf};

use crate::interrupt;
use crate::value::growth;
use crate::{Error, Result};

use call::OperatorCall;
pub(crate) use computation::Computation;
pub(crate) use names::{VisibleVariables, check_bindable};
use path::FieldPath;
pub(crate) use scope::{Environment, VariableScope};
pub(crate) use value::Value;

/// A parsed expression, such as `{ $add: ["$price", 1] }`.
#[derive(Debug)]
pub(crate) enum Expression {
    /// A value that is the same for each document. `None` is the missing value.
    Constant(Option<RawBson>),
    /// The value at a path of a variable: `"$a.b"`, `"$$this.c"`, `"$$ROOT"`.
    Path(FieldPath),
    /// A document of computed fields. Missing values are left out.
    Object(Vec<(CString, Expression)>),
    /// An array of computed elements. Missing values become null.
    Array(Vec<Expression>),
    /// An operator with its operands.
    Operator(Box<dyn ExpressionOperator>),
    /// A constant part whose computation failed.
    Failing(Error),
}

/// An operator of aggregation expressions.
pub(crate) trait ExpressionOperator: fmt::Debug + Send + Sync {
    /// Evaluates the operator with the variables of `scope`.
    ///
    /// # Errors
    /// An operand has the wrong type. Codes are MongoDB's.
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>>;

    /// Moves the operands out if this is the associative operator `name`. An enclosing operator of
    /// the same name then takes the operands as its own.
    fn take_operands(&mut self, _name: &str) -> Option<Vec<Expression>> {
        None
    }
}

impl Expression {
    /// Parses an expression that may use the variables in `names`.
    ///
    /// # Errors
    /// Unknown operators and variables, operands of the wrong number or type, and failures of
    /// constant parts. Codes are MongoDB's.
    pub(crate) fn parse(value: RawBsonRef<'_>, names: &VisibleVariables<'_>) -> Result<Expression> {
        names.constant_folding().parse_all(|| {
            let expression = parse::parse_expression(value, names)?;
            if let Expression::Failing(error) = &expression {
                names.constant_folding().record_failure(error);
            }
            Ok(expression)
        })
    }

    /// Evaluates the expression with the variables of `scope`.
    ///
    /// # Errors
    /// An operator of the expression fails.
    pub(crate) fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        match self {
            Expression::Constant(None) => Ok(Value::Missing),
            Expression::Constant(Some(value)) => Ok(Value::Borrowed(value.as_raw_bson_ref())),
            Expression::Path(path) => Ok(path.evaluate(scope)),
            Expression::Object(fields) => {
                let mut document = RawDocumentBuf::new();
                interrupt::check()?;
                for (name, field) in fields {
                    if let Some(value) = field.evaluate(scope)?.as_bson() {
                        document.append(name, value);
                        growth::check_size(document.as_bytes().len())?;
                    }
                }
                Ok(Value::from(document))
            }
            Expression::Array(elements) => {
                let mut array = RawArrayBuf::new();
                interrupt::check()?;
                for element in elements {
                    array.push(element.evaluate(scope)?.or_null());
                    growth::check_size(array.as_bytes().len())?;
                }
                Ok(Value::from(array))
            }
            Expression::Operator(operator) => {
                interrupt::check()?;
                operator.evaluate(scope)
            }
            Expression::Failing(error) => Err(error.clone()),
        }
    }

    /// Returns whether an operator of this name exists.
    pub(crate) fn is_operator(name: &str) -> bool {
        categories::find_parser(name).is_some()
    }

    /// Wraps an operator in an expression.
    fn from_operator(operator: impl ExpressionOperator + 'static) -> Expression {
        Expression::Operator(Box::new(operator))
    }

    /// Returns the value if the expression is constant.
    pub(crate) fn as_constant(&self) -> Option<Value<'_>> {
        match self {
            Expression::Constant(None) => Some(Value::Missing),
            Expression::Constant(Some(value)) => Some(Value::Borrowed(value.as_raw_bson_ref())),
            _ => None,
        }
    }
}
