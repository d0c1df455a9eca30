//! `$match`: the documents that match a filter.
//!
//! ```text
//! { "$match": { "a": { "$gt": 1 } } }
//! in:  { "_id": 1, "a": 1 }
//! in:  { "_id": 2, "a": 2 }
//! out: { "_id": 2, "a": 2 }
//! ```

use bson::RawBsonRef;

use super::Stage;
use super::stages::Call;
use crate::filter::Filter;
use crate::{Error, Result};

pub(super) fn parse(call: &Call<'_>) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(filter) = call.operand else {
        return Err(Error::server(15959, "$match takes a filter"));
    };
    Ok(vec![Stage::Match(Filter::parse(filter)?)])
}
