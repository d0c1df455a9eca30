//! `$sortByCount`: each value of an expression with its number of occurrences, the most frequent value first.
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

use super::PipelineStage;
use super::group::{GroupOutputs, GroupStage};
use super::stages::StageCall;
use crate::collation::ValueOrder;
use crate::expression::Computation;
use crate::sort::Sort;
use crate::{Error, Result, value};

pub(super) fn parse_sort_by_count(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    match call.operand {
        RawBsonRef::String(path) if path.starts_with('$') => {}
        RawBsonRef::String(_) => {
            let message = "$sortByCount takes a path with '$' in front, or an expression";
            return Err(Error::with_server_code(40148, message));
        }
        RawBsonRef::Document(expression) => {
            let first = value::fields(expression).next();
            if !first.is_some_and(|(name, _)| name.starts_with('$')) {
                let message = "$sortByCount takes an operator, not a document of fields";
                return Err(Error::with_server_code(40147, message));
            }
        }
        _ => {
            return Err(Error::with_server_code(
                40149,
                "$sortByCount takes a path or an expression",
            ));
        }
    }
    let environment = &call.context.environment;
    let mut outputs = GroupOutputs::default();
    let counting = rawdoc! { "$sum": 1 };
    outputs.add_output("count", RawBsonRef::Document(&counting), environment)?;
    let group = GroupStage {
        id: Computation::parse(call.operand, environment)?,
        single_id_field: None,
        outputs,
        order: environment.order().clone(),
    };
    let sort = Sort::parse(&rawdoc! { "count": -1 }, ValueOrder::SIMPLE)?;
    Ok(vec![
        PipelineStage::from_operator(group),
        PipelineStage::Sort(sort),
    ])
}
