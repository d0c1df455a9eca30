//! `$count`: the number of documents, as one document. Returns no document for an empty input.
//!
//! ```text
//! { "$count": "total" }
//! in:  { "_id": 1 }
//! in:  { "_id": 2 }
//! out: { "total": 2 }
//! ```

use std::sync::Arc;

use bson::{RawBson, RawBsonRef, RawDocumentBuf};

use super::stages::StageCall;
use super::{CollectionSource, DocumentIterator, PipelineStage, StageOperator};
use crate::document::append_field;
use crate::{Error, Result};

#[derive(Debug)]
struct CountStage {
    field: Box<str>,
}

pub(super) fn parse_count(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    let rejection =
        |code, reason: &str| Error::with_server_code(code, format!("the field of $count {reason}"));
    let RawBsonRef::String(field) = call.operand else {
        return Err(rejection(40156, "must be a string"));
    };
    if field.is_empty() {
        return Err(rejection(40157, "must not be empty"));
    }
    if field.starts_with('$') {
        return Err(rejection(40158, "must not start with '$'"));
    }
    if field.contains('\0') {
        return Err(rejection(40159, "must not contain a null byte"));
    }
    if field.contains('.') {
        return Err(rejection(40160, "must not contain a dot"));
    }
    Ok(vec![PipelineStage::from_operator(CountStage {
        field: field.into(),
    })])
}

impl StageOperator for CountStage {
    fn run_stage(
        self: Box<Self>,
        documents: DocumentIterator,
        _: &Arc<dyn CollectionSource>,
    ) -> Result<DocumentIterator> {
        let mut count = 0_i64;
        for document in documents {
            document?;
            count += 1;
        }
        let counted = (count > 0).then(|| {
            let mut output = RawDocumentBuf::new();
            let count = i32::try_from(count).map_or(RawBson::Int64(count), RawBson::Int32);
            append_field(&mut output, &self.field, count);
            Ok(output)
        });
        Ok(Box::new(counted.into_iter()))
    }
}
