//! Pending work: the paths of the records, the fields of a record, and the record of the documents that reject the work.
//!
//! `docs/internals/metadata.md` describes the fields in "Pending work" and in "Blocked work".

use bson::{Bson, DateTime, Document, RawDocument, doc, oid::ObjectId};

use super::{ParsedMetadata, metadata_path};
use crate::pending::{blocked::Rejection, record::PendingKind};

/// The record of a fan-out, in the source. Disappears when no dependent has an outdated copy any more.
pub(crate) const FAN_OUT: &str = metadata_path!("pending.fan_out");

/// The record of a revalidation, in the dependent. Disappears when the copies have been compared with the sources.
pub(crate) const REVALIDATE: &str = metadata_path!("pending.revalidate");

/// The record of changed contributions, in the child. Disappears when the parents have the contributions.
pub(crate) const ROLLUP: &str = metadata_path!("pending.rollup");

/// The record of a recompute, in the parent. Disappears when the rollups include all children.
pub(crate) const RECOMPUTE: &str = metadata_path!("pending.recompute");

/// The field of a record that identifies the write.
pub(crate) const TOKEN: &str = "token";

/// The field of a record, and of a [`BlockedRecord`], with the end of the lease.
pub(crate) const LEASE: &str = "lease";

/// The field of a record, and of a [`BlockedRecord`], with the start. A fan-out has the field after the first renewal of the lease.
pub(crate) const SINCE: &str = "since";

/// The field of the record of a fan-out with the number of dependents that were updated so far.
pub(crate) const UPDATED: &str = "updated";

/// The field of a record that contains a [`BlockedRecord`].
pub(crate) const BLOCKED: &str = "blocked";

impl ParsedMetadata<'_> {
    /// Whether the document has pending work of a kind.
    pub(crate) fn has_pending(self, kind: PendingKind) -> bool {
        self.value(kind.record_path()).is_some()
    }

    /// Returns the token of the pending work of a kind.
    pub(crate) fn pending_token(self, kind: PendingKind) -> Option<ObjectId> {
        self.value(&kind.field_path(TOKEN))?.as_object_id()
    }
}

/// The documents that reject pending work. Written after an attempt; disappears with the work, or at `db.run_pending()`.
#[derive(Debug)]
pub(crate) struct BlockedRecord {
    /// The time of the first rejection.
    pub(crate) since: DateTime,
    /// The end of the lease at the time of this record. After a renewal of the lease, the record no longer counts.
    pub(crate) lease_end: DateTime,
    pub(crate) rejections: Vec<Rejection>,
}

impl BlockedRecord {
    /// Reads the record. `None` if the record is malformed.
    pub(crate) fn from_document(record: &RawDocument) -> Option<Self> {
        let rejections = record.get_array("by").ok()?.into_iter().flatten();
        Some(Self {
            since: record.get_datetime(SINCE).ok()?,
            lease_end: record.get_datetime(LEASE).ok()?,
            rejections: rejections
                .filter_map(|rejection| Rejection::from_document(rejection.as_document()?))
                .collect(),
        })
    }

    /// Returns the record as stored.
    pub(crate) fn to_document(&self) -> Document {
        let rejections = self.rejections.iter().map(Rejection::to_document);
        let rejections: Vec<_> = rejections.map(Bson::Document).collect();
        doc! { SINCE: self.since, LEASE: self.lease_end, "by": rejections }
    }
}

impl Rejection {
    fn from_document(rejection: &RawDocument) -> Option<Self> {
        Some(Self {
            collection: rejection.get_str("collection").ok()?.to_owned(),
            id: Bson::try_from(rejection.get("id").ok()??).ok()?,
            reason: rejection.get_str("reason").ok()?.to_owned(),
        })
    }

    fn to_document(&self) -> Document {
        doc! { "collection": &self.collection, "id": self.id.clone(), "reason": &self.reason }
    }
}
