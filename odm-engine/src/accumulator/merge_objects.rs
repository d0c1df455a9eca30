//! `$mergeObjects`: the fields of all documents; of the same field, the last value.
//!
//! ```text
//! { "$mergeObjects": "$a" }
//! in:  { "a": { "x": 1, "y": 1 } }
//! in:  { "a": null }
//! in:  { "a": { "x": 2 } }
//! out: { "x": 2, "y": 1 }
//! ```

use bson::{Document, RawBson, RawDocument, RawDocumentBuf};

use super::{Accumulation, Accumulator, Call};
use crate::expression::Value;
use crate::{Error, Result};

#[derive(Default)]
struct MergeObjects(RawDocumentBuf);

pub(super) fn parse(call: &Call<'_>) -> Result<Accumulation> {
    call.unary(MergeObjects::default)
}

impl Accumulator for MergeObjects {
    fn add(&mut self, value: Value<'_>, _: &RawDocument) -> Result<()> {
        if value.is_nullish() {
            return Ok(());
        }
        let Some(document) = value.document() else {
            let message = format!("$mergeObjects takes documents, not {}", value.type_name());
            return Err(Error::server(40400, message));
        };
        let mut merged = Document::try_from(&self.0)?;
        merged.extend(Document::try_from(document)?);
        self.0 = RawDocumentBuf::try_from(&merged)?;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Option<RawBson> {
        Some(self.0.into())
    }

    fn bytes(&self) -> usize {
        self.0.as_bytes().len()
    }
}
