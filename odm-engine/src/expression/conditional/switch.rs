//! `$switch`: the value of the first branch whose case is true, else the default.
//!
//! A branch whose case is constant is decided beforehand: what it makes superfluous is never
//! computed.
//!
//! ```text
//! { "$switch": { "branches": [{ "case": false, "then": 1 }, { "case": 1, "then": 2 }] } } → 2
//! { "$switch": { "branches": [{ "case": null, "then": 1 }], "default": 3 } } → 3
//! ```

use bson::{RawArray, RawBsonRef};

use crate::expression::call::Call;
use crate::expression::{Expression, Operator, Scope, Value};
use crate::{Error, Result, value};

#[derive(Debug)]
struct Switch {
    branches: Vec<(Expression, Expression)>,
    default: Option<Expression>,
}

/// An expression, and what constant parts of it fail with.
type Parsed = (Expression, Option<Error>);

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let (mut branches, mut default) = (Vec::new(), None);
    for (name, argument) in value::fields(call.document(40060)?) {
        match (name, argument) {
            ("branches", RawBsonRef::Array(array)) => branches = self::branches(call, array)?,
            ("branches", other) => {
                let found = value::type_name(other);
                let message = format!("the branches of $switch are an array, not {found}");
                return Err(Error::server(40061, message));
            }
            ("default", argument) => default = Some(call.parse(argument)?),
            (other, _) => {
                let message =
                    format!("$switch has no argument '{other}', but 'branches' and 'default'");
                return Err(Error::server(40067, message));
            }
        }
    }
    if branches.is_empty() {
        return Err(Error::server(40068, "$switch needs at least one branch"));
    }
    let (mut kept, mut default) = (Vec::new(), default);
    for ((case, case_failure), (then, then_failure)) in branches {
        let constant = case.constant().filter(|_| call.names.folds());
        let decided = constant.map(|case| case.is_truthy());
        if decided == Some(false) {
            continue;
        }
        for failure in [case_failure, then_failure].iter().flatten() {
            call.names.constants().note(failure);
        }
        if decided == Some(true) {
            default = Some(then);
            break;
        }
        kept.push((case, then));
    }
    match default {
        Some(default) if kept.is_empty() => Ok(default),
        None if kept.is_empty() => {
            let message = "no case of $switch is ever true, and it has no default";
            Ok(Expression::Failing(Error::server(40069, message)))
        }
        default => Ok(Expression::operator(Switch {
            branches: kept,
            default,
        })),
    }
}

fn branches(call: &Call<'_>, array: &RawArray) -> Result<Vec<(Parsed, Parsed)>> {
    value::items(array)
        .map(|branch| {
            let RawBsonRef::Document(branch) = branch else {
                let found = value::type_name(branch);
                let message = format!("a branch of $switch is a document, not {found}");
                return Err(Error::server(40062, message));
            };
            let (mut case, mut then) = (None, None);
            for (name, argument) in value::fields(branch) {
                let place = match name {
                    "case" => &mut case,
                    "then" => &mut then,
                    other => {
                        let message = format!(
                            "a branch of $switch has no argument '{other}', but 'case' and 'then'"
                        );
                        return Err(Error::server(40063, message));
                    }
                };
                *place = Some(
                    call.names
                        .constants()
                        .parse_apart(|| call.parse(argument))?,
                );
            }
            let missing = |code, name| {
                Error::server(
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

impl Operator for Switch {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        for (case, then) in &self.branches {
            if case.evaluate(scope)?.is_truthy() {
                return then.evaluate(scope);
            }
        }
        match &self.default {
            Some(default) => default.evaluate(scope),
            None => {
                let message = "no case of $switch is true, and it has no default";
                Err(Error::server(40066, message))
            }
        }
    }
}
