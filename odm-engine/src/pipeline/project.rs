//! `$project`: selected and computed fields.
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

use super::stages::StageCall;
use super::{DocumentTransform, PipelineStage};
use crate::projection::{FieldChange, Projection};
use crate::{Error, Result};

pub(super) fn parse_project(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    let RawBsonRef::Document(projection) = call.operand else {
        return Err(Error::with_server_code(
            15969,
            "$project takes a document of fields",
        ));
    };
    let projection = Projection::parse_stage(projection, &call.context.environment)?;
    Ok(vec![PipelineStage::from_transform(projection)])
}

impl DocumentTransform for Projection {
    fn transform_document(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        self.apply_without_filter(document)
    }

    fn as_field_change(&self) -> Option<FieldChange<'_>> {
        Projection::as_field_change(self)
    }
}
