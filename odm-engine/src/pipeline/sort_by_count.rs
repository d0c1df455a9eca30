//! `$sortByCount`: each value of an expression and how often it comes, the most frequent first.
//!
//! ```text
//! { "$sortByCount": "$a" }
//! in:  { "a": "x" }
//! in:  { "a": "y" }
//! in:  { "a": "y" }
//! out: { "_id": "y", "count": 2 }
//! out: { "_id": "x", "count": 1 }
//! ```

use bson::{RawBsonRef, rawdoc};

use super::Stage;
use super::group::{Group, Outputs};
use super::stages::Call;
use crate::expression::Computation;
use crate::sort::Sort;
use crate::{Error, Result, value};

pub(super) fn parse(call: &Call<'_>) -> Result<Vec<Stage>> {
    match call.operand {
        RawBsonRef::String(path) if path.starts_with('$') => {}
        RawBsonRef::String(_) => {
            let message = "$sortByCount takes a path with '$' in front, or an expression";
            return Err(Error::server(40148, message));
        }
        RawBsonRef::Document(expression) => {
            let first = value::fields(expression).next();
            if !first.is_some_and(|(name, _)| name.starts_with('$')) {
                let message = "$sortByCount takes an operator, not a document of fields";
                return Err(Error::server(40147, message));
            }
        }
        _ => {
            return Err(Error::server(
                40149,
                "$sortByCount takes a path or an expression",
            ));
        }
    }
    let environment = &call.context.environment;
    let mut outputs = Outputs::default();
    let counting = rawdoc! { "$sum": 1 };
    outputs.add("count", RawBsonRef::Document(&counting), environment)?;
    let group = Group {
        id: Computation::parse(call.operand, environment)?,
        lone: None,
        outputs,
    };
    let sort = Sort::parse(&rawdoc! { "count": -1 })?;
    Ok(vec![Stage::operator(group), Stage::Sort(sort)])
}
