//! `$addFields`, `$set`: adds fields, or replaces the values of existing fields.
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

use super::stages::StageCall;
use super::{DocumentTransform, PipelineStage};
use crate::projection::{AddedFields, FieldChange};
use crate::{Error, Result};

pub(super) fn parse_add_fields(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    let RawBsonRef::Document(fields) = call.operand else {
        let message = format!("{} takes a document of fields", call.name);
        return Err(Error::with_server_code(40272, message));
    };
    let additions = AddedFields::parse(fields, &call.context.environment)?;
    Ok(vec![PipelineStage::from_transform(additions)])
}

impl DocumentTransform for AddedFields {
    fn transform_document(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        AddedFields::apply(self, document)
    }

    fn as_field_change(&self) -> Option<FieldChange<'_>> {
        Some(AddedFields::as_field_change(self))
    }
}
