//! Limits for elements that grow in place. The growth is checked before the write: a document that has grown beyond the size
//! limit cannot be written again.

use bson::{Document, RawDocumentBuf, doc};

use super::{
    super::{
        MAX_CHUNK_BYTES,
        capacity::{resident_unchanged, version_unchanged},
        chunks::live_chunks_filter,
        manifest::ArrayState,
    },
    ArrayUpdate,
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{AggregateOperation, Stage},
    metadata::overflow::TAIL,
    schema::{Model, OverflowField},
    write::metadata_update::to_raw_document,
};

/// The maximum size in bytes of a chunk after elements have grown. New chunks are smaller, and a chunk never receives further
/// elements.
const MAX_GROWN_CHUNK_BYTES: usize = 3 * MAX_CHUNK_BYTES;

/// Returns the condition that every element of the resident array can grow by `growth` bytes.
pub(super) fn can_grow(field: &OverflowField, growth: usize) -> Document {
    let stored = format!("${}", field.stored);
    let size = doc! { "$bsonSize": { "a": &stored } };
    let count = doc! { "$size": { "$ifNull": [stored, []] } };
    let grown = doc! { "$add": [size, { "$multiply": [count, growth as i64] }] };
    doc! { "$expr": { "$lte": [grown, field.max_resident_bytes as i64] } }
}

/// One place with elements of an array: the resident array, the tail, or a chunk.
struct MeasuredPart<'p> {
    model: &'static Model,
    filter: Document,
    path: &'p str,
    /// The maximum size of the elements, in bytes.
    max_bytes: usize,
}

impl ArrayUpdate {
    /// Rejects an update that could let elements grow beyond the limit. Returns the condition that the elements are unchanged
    /// since this check.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) if the elements could grow too much.
    pub(super) async fn ensure_growth_fits(
        &self,
        owner: &ArrayState,
        operators: &Document,
        growth: usize,
    ) -> Result<Document> {
        let field = self.field;
        let measured = |path, max_bytes| MeasuredPart {
            model: self.cx.model,
            filter: doc! { "_id": { "$eq": owner.id.clone() } },
            path,
            max_bytes,
        };
        let tail = field.manifest_path(TAIL);
        let in_chunks = live_chunks_filter(field, owner).map(|filter| MeasuredPart {
            model: field.chunks,
            filter,
            path: field.elements,
            max_bytes: MAX_GROWN_CHUNK_BYTES,
        });
        let in_owner = [
            measured(field.stored, field.max_resident_bytes),
            measured(&tail, field.max_chunk_bytes),
        ];
        for part in in_owner.into_iter().chain(in_chunks) {
            if self.grows_too_much(part, operators, growth).await? {
                let message = format!(
                    "each element may grow by {growth} bytes, which is more than its document has room for; nothing was written. Pull the \
                     elements and push their new values, or change fewer elements at once"
                );
                let error = Error::new(ErrorKind::Unsupported, message).with_path(field.field);
                return Err(crate::error::naming_model(self.cx.model)(error));
            }
        }
        let mut unchanged = resident_unchanged(field, &owner.resident);
        if let Some(manifest) = &owner.manifest {
            unchanged.extend(version_unchanged(field, manifest));
            unchanged.insert(tail, doc! { "$eq": manifest.tail.clone() });
        }
        Ok(unchanged)
    }

    /// Returns whether the elements of a part could grow beyond its limit.
    async fn grows_too_much(
        &self,
        part: MeasuredPart<'_>,
        operators: &Document,
        growth: usize,
    ) -> Result<bool> {
        let (name, condition) = self.footprint.growing_elements(operators);
        let elements = format!("${}", part.path);
        let grown = doc! { "$add": ["$bytes", { "$multiply": ["$count", growth as i64] }] };
        let stages = [
            doc! { "$match": part.filter },
            doc! { "$project": { "bytes": { "$bsonSize": { "a": &elements } }, &name: &elements } },
            doc! { "$unwind": format!("${name}") },
            doc! { "$match": condition },
            doc! { "$group": { "_id": "$_id", "bytes": { "$first": "$bytes" }, "count": { "$sum": 1 } } },
            doc! { "$match": { "$expr": { "$gt": [grown, part.max_bytes as i64] } } },
            doc! { "$limit": 1 },
        ];
        let aggregate = AggregateOperation {
            collection: part.model.collection.into(),
            pipeline: stages.iter().map(to_raw_document).collect::<Result<_>>()?,
            variables: RawDocumentBuf::new(),
            options: Stage::ARRAYS.step("measure the elements").into(),
        };
        let found = self.unrestricted.aggregate_all(part.model, aggregate);
        let found = found.await?;
        Ok(!found.is_empty())
    }
}
