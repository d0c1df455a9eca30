//! `$project`: some of the fields, and computed ones.
//!
//! ```text
//! { "$project": { "a": 1, "c": { "$abs": "$b" } } }
//! in:  { "_id": 1, "a": 1, "b": -2 }
//! out: { "_id": 1, "a": 1, "c": 2 }
//!
//! { "$project": { "b": 0 } }
//! in:  { "_id": 1, "a": 1, "b": -2 }
//! out: { "_id": 1, "a": 1 }
//! ```

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::stages::Call;
use super::{Stage, Transform};
use crate::projection::Projection;
use crate::{Error, Result};

pub(super) fn parse(call: &Call<'_>) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(projection) = call.operand else {
        return Err(Error::server(15969, "$project takes a document of fields"));
    };
    let projection = Projection::parse_stage(projection, call.environment)?;
    Ok(vec![Stage::transform(projection)])
}

impl Transform for Projection {
    fn apply(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        self.apply_plainly(document)
    }
}
