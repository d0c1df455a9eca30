//! Metadata of copies: the versions of sources, the copied versions, and the origins of snapshots.

use bson::{Bson, DateTime, Document, doc};

use super::{ParsedMetadata, metadata_path};

/// The version of a source. Every write to a copied field increments the version. Stays in the document.
pub(crate) const SOURCE_VERSION: &str = metadata_path!("version");

/// The source versions of the copies in a struct, by reference.
const COPIED_FROM: &str = metadata_path!("copied_from");

/// The origins of the snapshots in a struct, by field.
const ORIGIN: &str = metadata_path!("origin");

/// Returns the path of the source version of the copies beside a reference. Every write of the copies sets the version. The
/// version disappears with the reference.
pub(crate) fn copied_from(reference: &str) -> String {
    format!("{COPIED_FROM}.{reference}")
}

/// Returns the path of the origin of a snapshot. The write that fills the snapshot stores the origin. The origin disappears with
/// the struct.
pub(crate) fn origin(field: &str) -> String {
    format!("{ORIGIN}.{field}")
}

/// Removes the source version of the copies beside a reference from a struct.
pub(crate) fn remove_copied_from(embedded: &mut Document, reference: &str) {
    let mut names = COPIED_FROM.split('.');
    let versions = names.try_fold(embedded, |document, name| {
        document.get_document_mut(name).ok()
    });
    if let Some(versions) = versions {
        versions.remove(reference);
    }
}

/// The origin of a snapshot, in the struct of the snapshot.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotOrigin {
    /// The `_id` of the source.
    pub(crate) id: Bson,
    /// The time at which the snapshot was filled.
    pub(crate) at: DateTime,
}

impl SnapshotOrigin {
    fn from_document(stored: &Document) -> Option<Self> {
        Some(Self {
            id: stored.get("id")?.clone(),
            at: *stored.get_datetime("at").ok()?,
        })
    }

    /// Returns the origin as stored.
    pub(crate) fn to_document(&self) -> Document {
        doc! { "id": self.id.clone(), "at": self.at }
    }
}

impl ParsedMetadata<'_> {
    /// Returns the version of a source.
    pub(crate) fn source_version(self) -> Option<i64> {
        self.value(SOURCE_VERSION)?.as_i64()
    }

    /// Returns the source version of the copies beside a reference.
    pub(crate) fn copied_from(self, reference: &str) -> Option<i64> {
        self.value(&copied_from(reference))?.as_i64()
    }

    /// Returns the origin of a snapshot.
    pub(crate) fn snapshot_origin(self, field: &str) -> Option<SnapshotOrigin> {
        SnapshotOrigin::from_document(self.value(&origin(field))?.as_document()?)
    }
}
