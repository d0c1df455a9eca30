//! `$switch`: the value of the first branch whose case is true, else the default.
//!
//! A constant case is decided during parsing, and branches that cannot be reached are dropped.
//!
//! ```text
//! { "$switch": { "branches": [{ "case": false, "then": 1 }, { "case": 1, "then": 2 }] } } → 2
//! { "$switch": { "branches": [{ "case": null, "then": 1 }], "default": 3 } } → 3
//! ```

use bson::{RawArray, RawBsonRef};

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope};
use crate::{Error, Result, value};

#[derive(Debug)]
struct Switch {
    branches: Vec<(Expression, Expression)>,
    default: Option<Expression>,
}

/// A parsed expression with the failure of a constant part, if any.
type Parsed = (Expression, Option<Error>);

pub(super) fn parse_switch(call: &OperatorCall<'_>) -> Result<Expression> {
    let (mut branches, mut default) = (Vec::new(), None);
    for (name, argument) in value::fields(call.argument_document(40060)?) {
        match (name, argument) {
            ("branches", RawBsonRef::Array(array)) => branches = parse_branches(call, array)?,
            ("branches", other) => {
                let type_name = value::type_name(other);
                let message = format!("the branches of $switch must be an array, not {type_name}");
                return Err(Error::with_server_code(40061, message));
            }
            ("default", argument) => default = Some(call.parse_operand(argument)?),
            (other, _) => {
                let message = format!(
                    "$switch has no argument '{other}'; known are 'branches' and 'default'"
                );
                return Err(Error::with_server_code(40067, message));
            }
        }
    }
    if branches.is_empty() {
        return Err(Error::with_server_code(
            40068,
            "$switch needs at least one branch",
        ));
    }
    let (mut kept, mut default) = (Vec::new(), default);
    for ((case, case_failure), (then, then_failure)) in branches {
        let constant = case.as_constant().filter(|_| call.names.folds_constants());
        let constant_value = constant.map(|case| case.is_truthy());
        if constant_value == Some(false) {
            continue;
        }
        for failure in [case_failure, then_failure].iter().flatten() {
            call.names.constant_folding().record_failure(failure);
        }
        if constant_value == Some(true) {
            default = Some(then);
            break;
        }
        kept.push((case, then));
    }
    match default {
        Some(default) if kept.is_empty() => Ok(default),
        None if kept.is_empty() => {
            let message = "no case of $switch can be true, and there is no default";
            Ok(Expression::Failing(Error::with_server_code(40069, message)))
        }
        default => Ok(Expression::from_operator(Switch {
            branches: kept,
            default,
        })),
    }
}

fn parse_branches(call: &OperatorCall<'_>, array: &RawArray) -> Result<Vec<(Parsed, Parsed)>> {
    value::items(array)
        .map(|branch| {
            let RawBsonRef::Document(branch) = branch else {
                let type_name = value::type_name(branch);
                let message = format!("a branch of $switch must be a document, not {type_name}");
                return Err(Error::with_server_code(40062, message));
            };
            let (mut case, mut then) = (None, None);
            for (name, argument) in value::fields(branch) {
                let place = match name {
                    "case" => &mut case,
                    "then" => &mut then,
                    other => {
                        let message = format!(
                            "a branch of $switch has no argument '{other}'; known are 'case' and 'then'"
                        );
                        return Err(Error::with_server_code(40063, message));
                    }
                };
                *place = Some(
                    call.names
                        .constant_folding()
                        .parse_separately(|| call.parse_operand(argument))?,
                );
            }
            let missing = |code, name| {
                Error::with_server_code(
                    code,
                    format!("a branch of $switch needs the argument '{name}'"),
                )
            };
            Ok((
                case.ok_or_else(|| missing(40064, "case"))?,
                then.ok_or_else(|| missing(40065, "then"))?,
            ))
        })
        .collect()
}

impl ExpressionOperator for Switch {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        for (case, then) in &self.branches {
            if case.evaluate(scope)?.is_truthy() {
                return then.evaluate(scope);
            }
        }
        match &self.default {
            Some(default) => default.evaluate(scope),
            None => {
                let message = "no case of $switch is true, and there is no default";
                Err(Error::with_server_code(40066, message))
            }
        }
    }
}
