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
struct MergeObjects {
    merged: Document,
    /// No less than it takes: measured, and the documents that came since then.
    bytes: usize,
    measured: usize,
}

/// How many bytes may come before they are measured again, besides as many as there are.
const SLACK: usize = 1 << 20;

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
        self.merged.extend(Document::try_from(document)?);
        self.bytes += document.as_bytes().len();
        // Mostly, fields only take the place of others.
        if self.bytes > 2 * self.measured + SLACK {
            self.measured = RawDocumentBuf::try_from(&self.merged)?.as_bytes().len();
            self.bytes = self.measured;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Option<RawBson> {
        // It was made of raw documents, and so can become one.
        RawDocumentBuf::try_from(&self.merged)
            .ok()
            .map(RawBson::from)
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}
