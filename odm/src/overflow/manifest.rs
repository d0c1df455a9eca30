//! The manifest: the part of an owner document that describes its spilled elements. `metadata/overflow.rs` has the stored form.

use bson::{Bson, DateTime, Document, RawBson, RawDocument, oid::ObjectId};

use crate::{
    Result,
    backend::operation::Stage,
    language::query::{id_filter, projection_of, single_field_document},
    metadata::{self, Metadata},
    model::stored::{parse_fields, to_raw_value, value_at},
    schema::{OverflowField, upgrade},
    session::access::ModelAccess,
};

/// The state of an overflow array, as recorded in the owner document.
#[derive(Debug, Clone)]
pub(crate) struct ArrayState {
    pub(crate) id: Bson,
    /// The resident elements.
    pub(crate) resident: Vec<Bson>,
    /// Whether the owner document is flagged as having spilled elements.
    pub(crate) has_more: bool,
    pub(crate) manifest: Option<Manifest>,
}

/// The description of an array's spilled elements. It exists from the first spill on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Manifest {
    /// The generation of the chunks. `None` before the first chunk.
    pub(crate) generation: Option<ObjectId>,
    /// The number of the next chunk. Chunks with smaller numbers belong to the array.
    pub(crate) next_seq: i64,
    /// The number of elements in chunks.
    pub(crate) count: i64,
    /// The version of the array. Every change raises the version, except a push to the end.
    pub(crate) version: i64,
    /// The tail buffer: the last elements, which are not in a chunk yet.
    pub(crate) tail: Vec<Bson>,
    /// The sort key that divides an ordered array: no spilled element sorts before the bound.
    pub(crate) bound: Option<Bson>,
    /// The multi-step write in progress.
    pub(crate) work: Option<ArrayWork>,
}

/// The pending work of one array: a write that takes several operations. An array has at most one.
#[derive(Debug, Clone)]
pub(crate) struct ArrayWork {
    /// The token of this write alone.
    pub(crate) token: ObjectId,
    /// The end of the lease. From then on, other processes may complete the work.
    pub(crate) lease_end: DateTime,
    pub(crate) kind: ArrayWorkKind,
    /// Frozen elements between the chunks and the tail, which become the next chunk.
    pub(crate) block: Vec<Bson>,
    /// The generation to delete: its chunks are obsolete.
    pub(crate) swept_generation: Option<ObjectId>,
}

/// The kind of pending work, with the data of the kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ArrayWorkKind {
    /// The block becomes a chunk.
    Spill,
    /// The elements in chunks receive the change that the owner document has received already.
    Change {
        change: ElementChange,
        /// Whether the change may remove elements.
        changes_count: bool,
    },
    /// Chunks are being filled and are not read yet. Only the writer can go on; other processes reclaim the chunks.
    Stage,
    /// The filled chunks are published and are read from now on. `expected_chunks` is the number of chunks of an insert, which may
    /// have missing chunks.
    Published { expected_chunks: Option<i64> },
    /// Chunks are being deleted.
    Sweep,
}

/// The change of the elements in chunks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ElementChange {
    /// The update operators for a chunk document.
    pub(crate) operators: Document,
    pub(crate) array_filters: Vec<Document>,
}

impl ArrayState {
    /// Reads the state of the array in the first document that matches the filter.
    pub(crate) async fn read_matching(
        access: ModelAccess<'_>,
        field: &OverflowField,
        filter: &RawDocument,
    ) -> Result<Option<Self>> {
        let projection = projection_of(["_id", metadata::FIELD, field.stored, field.flag])?;
        let find = access
            .find_matching(filter)
            .with_origin(Stage::ARRAYS.step("read the manifest"))
            .with_projection(access.model.upgrade.is_none().then_some(projection))
            .with_limit(1);
        let documents = access.find_all(find).await?;
        let Some(document) = documents.first() else {
            return Ok(None);
        };
        let current = upgrade::upgrade_for_read(access.model, document)?;
        Self::from_document(field, &current).map(Some)
    }

    /// Reads the state of the array in the document with an id.
    pub(crate) async fn read_by_id(
        access: ModelAccess<'_>,
        field: &OverflowField,
        id: &Bson,
    ) -> Result<Option<Self>> {
        Self::read_matching(access, field, &id_filter(&to_raw_value(id)?)).await
    }

    /// Reads the state of the array from an owner document.
    pub(crate) fn from_document(field: &OverflowField, document: &RawDocument) -> Result<Self> {
        let names = ["_id", field.stored, field.flag, metadata::FIELD];
        let mut document = parse_fields(document, &names)?;
        let manifest = value_at(&document, field.manifest).and_then(Bson::as_document);
        Ok(Self {
            manifest: manifest.map(Manifest::from_document),
            has_more: document.contains_key(field.flag),
            id: document.remove("_id").unwrap_or(Bson::Null),
            resident: match document.remove(field.stored) {
                Some(Bson::Array(elements)) => elements,
                _ => Vec::new(),
            },
        })
    }

    /// Whether the array in an owner document has a manifest: some elements are spilled, or were spilled.
    pub(crate) fn has_manifest(field: &OverflowField, document: &RawDocument) -> bool {
        Metadata::of(document).value(field.manifest).is_some()
    }

    /// Returns the pending work of the array.
    pub(crate) fn pending_work(&self) -> Option<&ArrayWork> {
        self.manifest.as_ref()?.work.as_ref()
    }

    /// Returns whether the pending work has this token.
    pub(crate) fn has_work(&self, token: ObjectId) -> bool {
        self.pending_work().is_some_and(|work| work.token == token)
    }

    /// Returns the total number of elements.
    pub(crate) fn len(&self) -> u64 {
        let spilled = self.manifest.as_ref().map_or(0, Manifest::len);
        self.resident.len() as u64 + spilled
    }
}

impl Manifest {
    /// Returns the number of spilled elements: in chunks, in the block and in the tail.
    pub(crate) fn len(&self) -> u64 {
        let block = self.work.as_ref().map_or(0, |work| work.block.len());
        u64::try_from(self.count).unwrap_or(0) + (block + self.tail.len()) as u64
    }

    /// Returns whether nothing is spilled and no work is pending.
    pub(crate) fn is_idle(&self) -> bool {
        self.len() == 0 && self.work.is_none()
    }

    /// Returns whether the array may have chunks with elements.
    pub(crate) fn has_chunks(&self) -> bool {
        self.next_seq > 0
    }
}

/// Returns an integer of any width, or 0 for another value.
pub(crate) fn integer_or_zero(value: Option<&Bson>) -> i64 {
    match value {
        Some(Bson::Int64(number)) => *number,
        Some(Bson::Int32(number)) => i64::from(*number),
        _ => 0,
    }
}

/// Returns the elements of an array, or none for another value.
pub(crate) fn array_or_empty(value: Option<&Bson>) -> Vec<Bson> {
    value.and_then(Bson::as_array).cloned().unwrap_or_default()
}

/// Returns the total size in bytes of the elements, as stored in an array.
pub(crate) fn total_element_bytes<'e>(
    elements: impl IntoIterator<Item = &'e Bson>,
) -> Result<usize> {
    let mut elements = elements.into_iter();
    elements.try_fold(0, |bytes, element| Ok(bytes + element_bytes(element)?))
}

/// Returns the size in bytes of an element, as stored in an array.
pub(crate) fn element_bytes(element: &Bson) -> Result<usize> {
    raw_element_bytes(RawBson::try_from(element.clone()).map_err(crate::error::from_bson)?)
}

/// Returns the size in bytes of a raw element, as stored in an array.
pub(crate) fn raw_element_bytes(element: RawBson) -> Result<usize> {
    let unnamed = single_field_document("", element)?;
    // The field name in `unnamed` is empty. In an array, the name is the position: allow six more bytes for its digits.
    Ok(unnamed.as_bytes().len() + 6)
}
