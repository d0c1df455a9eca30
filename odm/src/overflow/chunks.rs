//! Chunk documents: the documents that store the spilled elements of an overflow array.
//!
//! ```text
//! { _id: { owner, generation, token, n }, book_id: owner, seq: 7, customers_purchased_extra: […],
//!   _odm: { generation, applied_version: 12, provisional: { lease, token } } }
//! ```
//!
//! - `generation` identifies one incarnation of the array. An array reads the chunks of a single generation.
//! - `applied_version` is the array version of the last element change that was applied to the chunk.
//! - `provisional` marks a chunk that may have no owner. Without a token, the manifest of the owner decides. With a token, the
//!   chunk is read only after the write with that token was published.
//!
//! A document with `abandoned` in its `_id` has no elements. It records for a while that recovery abandoned the insert with that
//! token.

use bson::{Bson, Document, RawBson, RawDocumentBuf, doc, oid::ObjectId};

use super::{
    capacity::EMPTY_ARRAY_BYTES,
    manifest::{ArrayState, ArrayWorkKind, integer_or_zero, raw_element_bytes},
};
use crate::{
    Result,
    backend::operation::{AggregateOperation, FindOperation, Stage},
    metadata::overflow::{CHUNK_GENERATION, PROVISIONAL_TOKEN},
    model::stored::{parse_document, to_raw_document},
    schema::OverflowField,
    session::access::{Access, ModelAccess, find_matching},
};

/// Returns the filter for the chunks that the manifest of `owner` covers, or `None` if the array has no chunks.
pub(crate) fn live_chunks_filter(field: &OverflowField, owner: &ArrayState) -> Option<Document> {
    let manifest = owner.manifest.as_ref()?;
    let generation = manifest.generation.filter(|_| manifest.has_chunks())?;
    let mut filter = generation_filter(field, &owner.id, generation);
    filter.insert(field.seq, doc! { "$lt": manifest.next_seq });
    let unpublished = doc! { PROVISIONAL_TOKEN: { "$exists": false } };
    match &manifest.work {
        Some(work) if matches!(work.kind, ArrayWorkKind::Published { .. }) => {
            let published = doc! { PROVISIONAL_TOKEN: { "$eq": work.token } };
            filter.insert("$or", vec![unpublished, published]);
        }
        _ => filter.extend(unpublished),
    }
    Some(filter)
}

/// Returns the filter for the chunks of an owner and a generation.
pub(crate) fn generation_filter(
    field: &OverflowField,
    owner: &Bson,
    generation: ObjectId,
) -> Document {
    doc! { field.owner: { "$eq": owner.clone() }, CHUNK_GENERATION: { "$eq": generation } }
}

/// Returns the query for the chunks that match the filter, in the order of their numbers.
pub(crate) fn find_in_order(field: &OverflowField, filter: &Document) -> Result<FindOperation> {
    Ok(
        find_matching(field.chunks.collection, &to_raw_document(filter)?)
            .with_origin(Stage::ARRAYS.step("read the chunks"))
            .with_sort(to_raw_document(&doc! { field.seq: 1 })?),
    )
}

/// Returns the elements of a chunk, or the single element of a sorted row.
pub(crate) fn elements_of_chunk(field: &OverflowField, elements: Option<Bson>) -> Vec<Bson> {
    match elements {
        Some(Bson::Array(elements)) => elements,
        Some(element) if field.order.is_some() => vec![element],
        _ => Vec::new(),
    }
}

/// The chunks of an overflow field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunks<'a> {
    pub(crate) access: ModelAccess<'a>,
    pub(crate) field: &'static OverflowField,
}

impl<'a> Chunks<'a> {
    pub(crate) fn new(access: &'a Access, field: &'static OverflowField) -> Self {
        let access = access.to(field.chunks);
        Self { access, field }
    }

    /// Reads the chunks that match the filter, in the order of their numbers.
    pub(crate) async fn read_all(self, filter: &Document) -> Result<Vec<Document>> {
        let find = find_in_order(self.field, filter)?;
        let found = self.access.find_all(find).await?;
        found.iter().map(|raw| parse_document(raw)).collect()
    }

    /// Reads the elements of the chunks that match the filter, in order.
    pub(crate) async fn read_elements(self, filter: &Document) -> Result<Vec<Bson>> {
        let find = find_in_order(self.field, filter)?;
        let mut elements = Vec::new();
        for raw in self.access.find_all(find).await? {
            let mut chunk = parse_document(&raw)?;
            elements.extend(elements_of_chunk(
                self.field,
                chunk.remove(self.field.elements),
            ));
        }
        Ok(elements)
    }

    /// Counts the elements in the chunks that match the filter.
    pub(crate) async fn count_elements(self, filter: &Document) -> Result<i64> {
        let elements = format!("${}", self.field.elements);
        let len = doc! { "$size": { "$ifNull": [elements, []] } };
        self.sum_over(filter, len).await
    }

    /// Returns the total size in bytes of the element arrays in the chunks that match the filter.
    pub(crate) async fn sum_element_bytes(self, filter: &Document) -> Result<i64> {
        let size = doc! { "$bsonSize": { "a": format!("${}", self.field.elements) } };
        self.sum_over(filter, size).await
    }

    /// Returns the sum of an expression over the chunks that match the filter.
    async fn sum_over(self, filter: &Document, expression: Document) -> Result<i64> {
        let pipeline = vec![
            to_raw_document(&doc! { "$match": filter.clone() })?,
            to_raw_document(&doc! { "$group": { "_id": null, "sum": { "$sum": expression } } })?,
        ];
        let chunk_model = self.access.model;
        let aggregate = AggregateOperation {
            collection: chunk_model.collection.into(),
            pipeline,
            variables: RawDocumentBuf::new(),
            options: Stage::ARRAYS.step("sum over the chunks").into(),
        };
        let rows = self.access.aggregate_all(chunk_model, aggregate).await?;
        let row = rows.first().map(|row| parse_document(row)).transpose()?;
        Ok(row.map_or(0, |row| integer_or_zero(row.get("sum"))))
    }
}

/// The maximum number of values in one pull.
const MAX_PULLED_VALUES: usize = 1_000;

/// Splits values into groups that one pull can name. The owner document stores the values of a pull until the pull is complete.
pub(crate) fn split_for_pulls<'e>(
    field: &OverflowField,
    elements: &'e [RawBson],
) -> Result<Vec<&'e [RawBson]>> {
    let size = |element: &RawBson| raw_element_bytes(element.clone());
    let max_bytes = field.max_chunk_bytes - EMPTY_ARRAY_BYTES;
    split_bounded(elements, size, MAX_PULLED_VALUES, max_bytes)
}

/// Splits elements into groups of at most `max_len` elements and `max_bytes`. A larger element is a group of its own.
pub(crate) fn split_bounded<E>(
    elements: &[E],
    size: impl Fn(&E) -> Result<usize>,
    max_len: usize,
    max_bytes: usize,
) -> Result<Vec<&[E]>> {
    let (mut parts, mut first, mut bytes) = (Vec::new(), 0, 0);
    for (position, element) in elements.iter().enumerate() {
        let element_bytes = size(element)?;
        let len = position - first;
        if len > 0 && (len >= max_len || bytes + element_bytes > max_bytes) {
            parts.extend(elements.get(first..position));
            (first, bytes) = (position, 0);
        }
        bytes += element_bytes;
    }
    parts.extend(elements.get(first..).filter(|rest| !rest.is_empty()));
    Ok(parts)
}
