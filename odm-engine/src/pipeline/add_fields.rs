//! `$addFields`, `$set`: further fields, or other values of fields that are there.
//!
//! ```text
//! { "$set": { "b": { "$abs": "$a" }, "c.d": "$a" } }
//! in:  { "_id": 1, "a": -1 }
//! out: { "_id": 1, "a": -1, "b": 1, "c": { "d": -1 } }
//!
//! { "$addFields": { "a": "$$REMOVE" } }
//! in:  { "_id": 1, "a": -1 }
//! out: { "_id": 1 }
//! ```

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::stages::Call;
use super::{Stage, Transform};
use crate::projection::Additions;
use crate::{Error, Result};

pub(super) fn parse(call: &Call<'_>) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(fields) = call.operand else {
        let message = format!("{} takes a document of fields", call.name);
        return Err(Error::server(40272, message));
    };
    let additions = Additions::parse(fields, call.environment)?;
    Ok(vec![Stage::transform(additions)])
}

impl Transform for Additions {
    fn apply(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        Additions::apply(self, document)
    }
}
