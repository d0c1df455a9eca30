//! Metadata of overflow arrays: the manifest and the pending work in an owner document, and the metadata of a chunk document.

use bson::{
    Binary, Bson, DateTime, Document, RawBsonRef, RawDocument, doc, oid::ObjectId,
    spec::BinarySubtype,
};

use super::{
    Metadata, ParsedMetadata, metadata_path,
    pending::{BLOCKED, LEASE, TOKEN},
};
use crate::{
    Result,
    language::field::Path,
    model::stored::{set_at, to_raw_document},
    overflow::manifest::{
        ArrayWork, ArrayWorkKind, ElementChange, Manifest, array_or_empty, integer_or_zero,
    },
    schema::OverflowField,
};

/// Expands to the path of the manifest of an array, or to the path of all manifests.
#[doc(hidden)]
#[macro_export]
macro_rules! __odm_manifest_path {
    () => {
        "_odm.overflow"
    };
    ($array:literal) => {
        ::core::concat!($crate::__odm_manifest_path!(), ".", $array)
    };
}

/// Expands to the path of the pending work of an array, or to the name of the work in a manifest.
#[doc(hidden)]
#[macro_export]
macro_rules! __odm_work_path {
    () => {
        "work"
    };
    ($array:literal) => {
        ::core::concat!(
            $crate::__odm_manifest_path!($array),
            ".",
            $crate::__odm_work_path!()
        )
    };
}

/// The manifests of the overflow arrays of a document, by the stored name of the array. The first spill of an array writes its
/// manifest. The fold of an array removes the manifest, and removes this field if no manifest is left.
pub(crate) const OVERFLOW: &str = __odm_manifest_path!();

/// The field of a manifest with the generation of the chunks. Missing until the first chunk, and after a fold.
pub(crate) const GENERATION: &str = "generation";

/// The field of a manifest with the number of the next chunk. A spill raises the number.
pub(crate) const NEXT: &str = "next";

/// The field of a manifest with the number of elements in chunks. Written by spills, element changes and repairs.
pub(crate) const COUNT: &str = "count";

/// The field of a manifest with the version guard of the array. Each change writes the field, except a push to the end.
pub(crate) const VERSION: &str = "version";

/// The field of a manifest with the tail buffer. Pushes fill the tail; a spill empties the tail.
pub(crate) const TAIL: &str = "tail";

/// The field of a manifest with the sort key between resident and spilled elements. Only in the manifest of a sorted array.
pub(crate) const BOUND: &str = "bound";

/// The field of a manifest with the single pending work of the array. Disappears when the work is complete.
pub(crate) const WORK: &str = __odm_work_path!();

/// The field of pending work that names the kind. The values are the names of [`ArrayWorkKind`].
pub(crate) const KIND: &str = "kind";

/// The field of pending work with the frozen elements between the chunks and the tail.
pub(crate) const BLOCK: &str = "block";

/// The field of pending work with the change of the elements in chunks, as BSON bytes.
const CHANGE: &str = "change";

/// The field of pending work that says whether the change may remove elements.
const CHANGES_COUNT: &str = "changes_count";

/// The field of pending work with the number of chunks of an insert.
const EXPECTED_CHUNKS: &str = "expected_chunks";

/// The field of pending work with the obsolete generation that the last step deletes.
const SWEPT_GENERATION: &str = "swept_generation";

/// The fields of a manifest that identify the chunks of the array: no elements.
pub(crate) const CHUNK_REFERENCES: [&str; 3] = [GENERATION, NEXT, WORK];

/// The fields of pending work without the block and the change.
pub(crate) const WORK_HEAD: [&str; 4] = [TOKEN, LEASE, KIND, SWEPT_GENERATION];

impl OverflowField {
    /// Returns the path of a field of the manifest in an owner document.
    pub(crate) fn manifest_path(&self, name: &str) -> String {
        format!("{}.{name}", self.manifest)
    }

    /// Returns the path of a field of the pending work in an owner document.
    pub(crate) fn work_path(&self, name: &str) -> String {
        format!("{}.{name}", self.pending_change)
    }
}

/// Returns the place of the manifest of an array. `document` is the place of the owner document.
pub(crate) fn manifest_in(document: &Path, array: &str) -> Path {
    document.append_name(OVERFLOW).append_name(array)
}

impl Metadata<'_> {
    /// Returns the number of spilled elements of an array: in chunks, in the block and in the tail. `None` without a manifest.
    pub(crate) fn spilled_count(self, array: &str) -> Option<u64> {
        let manifests = self.value(OVERFLOW)?.as_document()?;
        let manifest = manifests.get_document(array).ok()?;
        let in_chunks = match manifest.get(COUNT).ok().flatten() {
            Some(RawBsonRef::Int64(count)) => u64::try_from(count).unwrap_or(0),
            Some(RawBsonRef::Int32(count)) => u64::try_from(count).unwrap_or(0),
            _ => 0,
        };
        let work = manifest.get_document(WORK).ok();
        let block = work.map_or(0, |work| array_len(work, BLOCK));
        Some(in_chunks + block + array_len(manifest, TAIL))
    }
}

/// Returns the length of the array in a field, or 0 without an array.
fn array_len(document: &RawDocument, name: &str) -> u64 {
    let array = document.get_array(name);
    array.map_or(0, |array| array.into_iter().count() as u64)
}

impl<'d> ParsedMetadata<'d> {
    /// Returns the manifests of the overflow arrays, by the stored name of the array.
    pub(crate) fn manifests(self) -> Option<&'d Document> {
        self.value(OVERFLOW)?.as_document()
    }
}

impl Manifest {
    /// Reads a manifest. A missing number counts as 0.
    pub(crate) fn from_document(manifest: &Document) -> Self {
        let work = manifest.get_document(WORK).ok();
        Self {
            generation: manifest.get_object_id(GENERATION).ok(),
            next_seq: integer_or_zero(manifest.get(NEXT)),
            count: integer_or_zero(manifest.get(COUNT)),
            version: integer_or_zero(manifest.get(VERSION)),
            tail: array_or_empty(manifest.get(TAIL)),
            bound: manifest.get(BOUND).cloned(),
            work: work.and_then(ArrayWork::from_document),
        }
    }

    /// Returns the manifest as the owner document stores it.
    pub(crate) fn to_document(&self) -> Result<Document> {
        let mut manifest = Document::new();
        if let Some(generation) = self.generation {
            manifest.insert(GENERATION, generation);
        }
        manifest.insert(NEXT, self.next_seq);
        manifest.insert(COUNT, self.count);
        manifest.insert(VERSION, self.version);
        manifest.insert(TAIL, self.tail.clone());
        if let Some(bound) = &self.bound {
            manifest.insert(BOUND, bound.clone());
        }
        if let Some(work) = &self.work {
            manifest.insert(WORK, work.to_document()?);
        }
        Ok(manifest)
    }
}

impl ArrayWorkKind {
    /// Returns the stored name of the kind.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Spill => kind::SPILL,
            Self::Change { .. } => kind::CHANGE,
            Self::Stage => kind::STAGE,
            Self::Published { .. } => kind::PUBLISHED,
            Self::Sweep => kind::SWEEP,
        }
    }
}

/// The stored names of the kinds of pending work.
mod kind {
    pub(super) const SPILL: &str = "spill";
    pub(super) const CHANGE: &str = "change";
    pub(super) const STAGE: &str = "stage";
    pub(super) const PUBLISHED: &str = "published";
    pub(super) const SWEEP: &str = "sweep";
}

impl ArrayWork {
    /// Reads pending work. Returns `None` if the work is malformed.
    fn from_document(work: &Document) -> Option<Self> {
        let kind = match work.get_str(KIND).ok()? {
            kind::SPILL => ArrayWorkKind::Spill,
            kind::CHANGE => ArrayWorkKind::Change {
                change: ElementChange::from_bytes(work.get_binary_generic(CHANGE).ok()?)?,
                changes_count: work.get_bool(CHANGES_COUNT).unwrap_or(true),
            },
            kind::STAGE => ArrayWorkKind::Stage,
            kind::PUBLISHED => ArrayWorkKind::Published {
                expected_chunks: work.get_i64(EXPECTED_CHUNKS).ok(),
            },
            kind::SWEEP => ArrayWorkKind::Sweep,
            _ => return None,
        };
        let lease_end = work.get_datetime(LEASE).ok().copied()?;
        // Blocked work counts as abandoned: a waiting writer tries the work and gets the rejection.
        let blocked = work.get_document(BLOCKED).ok();
        let is_blocked =
            blocked.is_some_and(|record| record.get_datetime(LEASE).ok() == Some(&lease_end));
        Some(Self {
            token: work.get_object_id(TOKEN).ok()?,
            lease_end: if is_blocked { DateTime::MIN } else { lease_end },
            kind,
            block: array_or_empty(work.get(BLOCK)),
            swept_generation: work.get_object_id(SWEPT_GENERATION).ok(),
        })
    }

    /// Returns the work as the owner document stores it.
    pub(crate) fn to_document(&self) -> Result<Document> {
        let mut work = doc! { TOKEN: self.token, LEASE: self.lease_end, KIND: self.kind.name() };
        match &self.kind {
            ArrayWorkKind::Change {
                change,
                changes_count,
            } => {
                // Store the operators as bytes: names of stored fields cannot start with `$`.
                let bytes = to_raw_document(&change.to_document())?.into_bytes();
                let subtype = BinarySubtype::Generic;
                work.insert(CHANGE, Binary { subtype, bytes });
                work.insert(CHANGES_COUNT, *changes_count);
            }
            ArrayWorkKind::Published {
                expected_chunks: Some(expected_chunks),
            } => {
                work.insert(EXPECTED_CHUNKS, *expected_chunks);
            }
            _ => {}
        }
        if !self.block.is_empty() {
            work.insert(BLOCK, self.block.clone());
        }
        if let Some(generation) = self.swept_generation {
            work.insert(SWEPT_GENERATION, generation);
        }
        Ok(work)
    }
}

impl ElementChange {
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let change = Document::try_from(RawDocument::from_bytes(bytes).ok()?).ok()?;
        let array_filters = change.get_array("array_filters").ok().into_iter().flatten();
        Some(Self {
            operators: change.get_document("update").cloned().unwrap_or_default(),
            array_filters: array_filters
                .filter_map(|filter| filter.as_document().cloned())
                .collect(),
        })
    }

    /// Returns the change as pending work stores it.
    pub(crate) fn to_document(&self) -> Document {
        doc! { "update": self.operators.clone(), "array_filters": self.array_filters.clone() }
    }
}

/// The generation of a chunk. Written with the chunk; stays.
pub(crate) const CHUNK_GENERATION: &str = metadata_path!("generation");

/// The array version of the last change that was applied to the elements of a chunk. Stays.
pub(crate) const APPLIED_VERSION: &str = metadata_path!("applied_version");

/// The provisional mark of a chunk: no owner may have adopted the chunk yet. Written with the chunk, outside of transactions.
/// Disappears when the chunk is confirmed.
pub(crate) const PROVISIONAL: &str = metadata_path!("provisional");

/// The end of the lease on a provisional chunk: from then on, recovery confirms or deletes the chunk.
pub(crate) const PROVISIONAL_LEASE: &str = metadata_path!("provisional.lease");

/// The token of the write that publishes a provisional chunk. Without a token, the manifest decides.
pub(crate) const PROVISIONAL_TOKEN: &str = metadata_path!("provisional.token");

/// Identifies the insert of a provisional chunk. A late process may insert a chunk again that was deleted meanwhile. The writer
/// that confirms a chunk compares this value.
pub(crate) const PROVISIONAL_INSTANCE: &str = metadata_path!("provisional.instance");

/// The token in the `_id` of a chunk: the write that created the chunk.
pub(crate) const CHUNK_ID_TOKEN: &str = "_id.token";

/// The token in the `_id` of the record of an abandoned insert. Recovery writes the record, and deletes the record after five
/// minutes.
pub(crate) const ABANDONED_INSERT: &str = "_id.abandoned";

/// Returns the `_id` of a chunk: the chunk number `n` of the write with this token.
pub(crate) fn chunk_id(owner: &Bson, generation: ObjectId, token: ObjectId, n: i64) -> Document {
    doc! { "owner": owner.clone(), "generation": generation, "token": token, "n": n }
}

/// Returns the `_id` of the record that recovery has abandoned the insert with this token.
pub(crate) fn abandoned_insert_id(owner: &Bson, token: ObjectId) -> Document {
    doc! { "owner": owner.clone(), "abandoned": token }
}

/// The metadata of a chunk document.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ChunkMetadata {
    /// The generation of the chunk. `None` in the record of an abandoned insert.
    pub(crate) generation: Option<ObjectId>,
    /// The end of the lease. Only in a provisional chunk.
    pub(crate) lease_end: Option<DateTime>,
    /// The token of the write that publishes the chunk. Only in a provisional chunk.
    pub(crate) token: Option<ObjectId>,
    /// Identifies the insert. Only in a provisional chunk without a token.
    pub(crate) instance: Option<ObjectId>,
}

impl ChunkMetadata {
    /// Reads the metadata of a chunk document.
    pub(crate) fn of(chunk: &Document) -> Self {
        let metadata = ParsedMetadata::of(chunk);
        let object_id = |path: &str| metadata.value(path)?.as_object_id();
        let lease_end = metadata.value(PROVISIONAL_LEASE);
        Self {
            generation: object_id(CHUNK_GENERATION),
            lease_end: lease_end.and_then(Bson::as_datetime).copied(),
            token: object_id(PROVISIONAL_TOKEN),
            instance: object_id(PROVISIONAL_INSTANCE),
        }
    }

    /// Writes the metadata into a chunk document.
    pub(crate) fn write_to(self, chunk: &mut Document) {
        let parts = [
            (CHUNK_GENERATION, self.generation.map(Bson::from)),
            (PROVISIONAL_LEASE, self.lease_end.map(Bson::from)),
            (PROVISIONAL_TOKEN, self.token.map(Bson::from)),
            (PROVISIONAL_INSTANCE, self.instance.map(Bson::from)),
        ];
        for (path, value) in parts {
            if let Some(value) = value {
                set_at(chunk, path, value);
            }
        }
    }
}
