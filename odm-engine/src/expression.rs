//! Aggregation expressions: values computed from a document.
//!
//! An expression is parsed once, with everything in it that is constant computed already, and then
//! evaluated on raw documents. Values that are only looked at are borrowed from the document.
//!
//! Each operator is a file in the folder of its category, listed in the category's sorted registry.
//! The examples in the documentation of each file are run by a test.

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

use call::Call;
pub(crate) use computation::Computation;
pub(crate) use names::{Names, check_bindable};
use path::FieldPath;
pub(crate) use scope::{Environment, Scope};
pub(crate) use value::Value;

/// A parsed expression, such as `{ $add: ["$price", 1] }`.
#[derive(Debug)]
pub(crate) enum Expression {
    /// The same value for each document. `None` is a missing one.
    Constant(Option<RawBson>),
    /// What is at a path of a variable: `"$a.b"`, `"$$this.c"`, `"$$ROOT"`.
    Path(FieldPath),
    /// A document of computed fields; those that are missing are left out.
    Object(Vec<(CString, Expression)>),
    /// An array of computed elements; those that are missing are null.
    Array(Vec<Expression>),
    /// An operator with its operands.
    Operator(Box<dyn Operator>),
    /// A constant part that cannot be computed.
    Failing(Error),
}

/// What an expression operator computes.
pub(crate) trait Operator: fmt::Debug + Send + Sync {
    /// The value for what `scope` shows.
    ///
    /// # Errors
    /// Operands of the wrong kind, with MongoDB's codes.
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>>;

    /// The operands, taken out, if this is the associative operator `name`: one of that name around
    /// it can have them as its own.
    fn release(&mut self, _name: &str) -> Option<Vec<Expression>> {
        None
    }
}

impl Expression {
    /// Reads an expression that may use the variables in `names`.
    ///
    /// # Errors
    /// Unknown operators and variables, operands of the wrong number or kind, and whatever constant
    /// parts fail with, with MongoDB's codes.
    pub(crate) fn parse(value: RawBsonRef<'_>, names: &Names<'_>) -> Result<Expression> {
        names.constants().parse_all(|| {
            let expression = parse::expression(value, names)?;
            if let Expression::Failing(error) = &expression {
                names.constants().note(error);
            }
            Ok(expression)
        })
    }

    /// The value for what `scope` shows.
    ///
    /// # Errors
    /// What its operators fail with.
    pub(crate) fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
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

    /// Whether there is an operator of this name.
    pub(crate) fn is_operator(name: &str) -> bool {
        categories::find(name).is_some()
    }

    /// An operator as an expression.
    fn operator(operator: impl Operator + 'static) -> Expression {
        Expression::Operator(Box::new(operator))
    }

    /// The value, if it is the same for each document.
    pub(crate) fn constant(&self) -> Option<Value<'_>> {
        match self {
            Expression::Constant(None) => Some(Value::Missing),
            Expression::Constant(Some(value)) => Some(Value::Borrowed(value.as_raw_bson_ref())),
            _ => None,
        }
    }
}
