//! `$sort`: in an order. Before a `$limit`, no more documents are held than that needs.
//!
//! ```text
//! { "$sort": { "a": -1 } }
//! in:  { "_id": 1, "a": 1 }
//! in:  { "_id": 2, "a": 2 }
//! out: { "_id": 2, "a": 2 }
//! out: { "_id": 1, "a": 1 }
//! ```

use bson::RawBsonRef;

use super::Stage;
use super::stages::Call;
use crate::error::code;
use crate::sort::{Sort, check_field_path};
use crate::{Error, Result, value};

/// How many paths a sort can have.
const MAX_PATHS: usize = 32;

pub(super) fn parse(call: &Call<'_>) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(specification) = call.operand else {
        let message = "$sort takes a document of paths and directions";
        return Err(Error::server(15973, message));
    };
    if value::get(specification, "$natural").is_some() {
        // There is none of documents on their way, and so it is a path like any other.
        check_field_path("$natural")?;
    }
    let sort = Sort::parse(specification)?;
    if sort.is_empty() {
        return Err(Error::server(15976, "$sort needs at least one path"));
    }
    if sort.fields().len() > MAX_PATHS {
        let message = format!("$sort takes {MAX_PATHS} paths at most");
        return Err(Error::server(code::TOO_MANY_COMPOUND_KEYS, message));
    }
    Ok(vec![Stage::Sort(sort)])
}
