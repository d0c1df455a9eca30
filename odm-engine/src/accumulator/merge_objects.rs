//! `$mergeObjects`: the fields of all documents. If a field occurs several times, the last value
//! wins.
//!
//! ```text
//! { "$mergeObjects": "$a" }
//! in:  { "a": { "x": 1, "y": 1 } }
//! in:  { "a": null }
//! in:  { "a": { "x": 2 } }
//! out: { "x": 2, "y": 1 }
//! ```

use bson::{Document, RawBson, RawDocument, RawDocumentBuf};

use super::{Accumulator, AccumulatorCall, AccumulatorSpec};
use crate::expression::Value;
use crate::{Error, Result};

#[derive(Default)]
struct MergeObjectsAccumulator {
    merged: Document,
    /// An upper bound of the memory in use: the last measurement plus the sizes of the documents
    /// added since.
    bytes: usize,
    measured: usize,
}

/// The number of bytes that may be added before the next measurement, besides the measured size
/// itself.
const REMEASURE_SLACK_BYTES: usize = 1 << 20;

pub(super) fn parse_merge_objects(call: &AccumulatorCall<'_>) -> Result<AccumulatorSpec> {
    call.unary_accumulator(MergeObjectsAccumulator::default)
}

impl Accumulator for MergeObjectsAccumulator {
    fn add_value(&mut self, value: Value<'_>, _: &RawDocument) -> Result<()> {
        if value.is_nullish() {
            return Ok(());
        }
        let Some(document) = value.as_document() else {
            let message = format!("$mergeObjects takes documents, not {}", value.type_name());
            return Err(Error::with_server_code(40400, message));
        };
        self.merged.extend(Document::try_from(document)?);
        self.bytes += document.as_bytes().len();
        // Most documents only replace existing fields, so the upper bound is measured again before
        // the limit can apply.
        if self.bytes > 2 * self.measured + REMEASURE_SLACK_BYTES {
            self.measured = RawDocumentBuf::try_from(&self.merged)?.as_bytes().len();
            self.bytes = self.measured;
        }
        Ok(())
    }

    fn into_value(self: Box<Self>) -> Option<RawBson> {
        // The document was built from raw documents, so the conversion succeeds.
        RawDocumentBuf::try_from(&self.merged)
            .ok()
            .map(RawBson::from)
    }

    fn held_bytes(&self) -> usize {
        self.bytes
    }
}
