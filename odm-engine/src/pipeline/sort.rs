//! `$sort`: sorts the documents. A sort before a `$limit` holds only as many documents as needed.
//!
//! ```text
//! { "$sort": { "a": -1 } }
//! in:  { "_id": 1, "a": 1 }
//! in:  { "_id": 2, "a": 2 }
//! out: { "_id": 2, "a": 2 }
//! out: { "_id": 1, "a": 1 }
//! ```

use bson::RawBsonRef;

use super::PipelineStage;
use super::stages::StageCall;
use crate::error::code;
use crate::sort::{Sort, check_field_path};
use crate::{Error, Result, value};

/// The maximum number of paths in a sort.
const MAX_SORT_PATHS: usize = 32;

pub(super) fn parse_sort(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    let RawBsonRef::Document(specification) = call.operand else {
        let message = "$sort takes a document of paths and directions";
        return Err(Error::with_server_code(15973, message));
    };
    if value::get(specification, "$natural").is_some() {
        // A stream of documents has no natural order, so `$natural` is checked like any other path.
        check_field_path("$natural")?;
    }
    let sort = Sort::parse(specification, call.context.environment.order())?;
    if sort.is_empty() {
        return Err(Error::with_server_code(
            15976,
            "$sort needs at least one path",
        ));
    }
    if sort.directed_paths().len() > MAX_SORT_PATHS {
        let message = format!("$sort takes {MAX_SORT_PATHS} paths at most");
        return Err(Error::with_server_code(
            code::TOO_MANY_COMPOUND_KEYS,
            message,
        ));
    }
    Ok(vec![PipelineStage::Sort(sort)])
}
