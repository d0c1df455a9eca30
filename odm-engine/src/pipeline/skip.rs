//! `$skip`: without the first documents.
//!
//! ```text
//! { "$skip": 1 }
//! in:  { "_id": 1 }
//! in:  { "_id": 2 }
//! out: { "_id": 2 }
//! ```

use super::stages::Call;
use super::{Stage, limit};
use crate::Result;

pub(super) fn parse(call: &Call<'_>) -> Result<Vec<Stage>> {
    Ok(vec![Stage::Skip(limit::count(call, 5107200)?)])
}
