//! Metadata of references and inverses: intent records, tombstones, and the version guard of inverses.

use bson::{DateTime, RawBsonRef, RawDocument, RawDocumentBuf, oid::ObjectId};

use super::{Metadata, ParsedMetadata, metadata_path};

/// The version guard of inverses. Each write of an inverse changes the value. In a transaction, each new reference to the
/// document changes the value too. Stays in the document.
pub(crate) const INVERSE_VERSION: &str = metadata_path!("inverse_version");

/// The record of an unfinished write of references or an unfinished delete: the lease, with an intent record or a tombstone.
pub(crate) const RECORD: &str = metadata_path!("pending.references");

/// The end of the lease on an intent record or a tombstone: from then on, any process may recover the document.
pub(crate) const LEASE: &str = metadata_path!("pending.references.lease");

/// The intent record of an unfinished write of references. The first step of the write stores the record, the last step removes
/// the record.
pub(crate) const INTENT: &str = metadata_path!("pending.references.intent");

/// The token of the write with the intent record. Each later step compares the token.
pub(crate) const INTENT_TOKEN: &str = metadata_path!("pending.references.intent.token");

/// The ids in each reference before the write. An insert stores no old references.
pub(crate) const INTENT_OLD: &str = metadata_path!("pending.references.intent.old");

/// The ids that the write may add to each reference.
pub(crate) const INTENT_NEW: &str = metadata_path!("pending.references.intent.new");

/// Says that the write happened. Part of the write itself.
pub(crate) const INTENT_COMMITTED: &str = metadata_path!("pending.references.intent.committed");

/// Says that the write must not happen any more. Set by the recovery of an abandoned write.
pub(crate) const INTENT_ABORTED: &str = metadata_path!("pending.references.intent.aborted");

/// Returns the path of the ids that a write may add to the reference at a stored path.
pub(crate) fn intended_ids_path(reference: &str) -> String {
    format!("{INTENT_NEW}.{reference}")
}

/// A parsed intent record.
#[derive(Debug)]
pub(crate) struct IntentRecord {
    pub(crate) token: ObjectId,
    /// The references before the write. `None` for an insert.
    pub(crate) old: Option<RawDocumentBuf>,
    /// The references that the write may add.
    pub(crate) new: RawDocumentBuf,
    pub(crate) is_committed: bool,
    pub(crate) is_aborted: bool,
}

impl IntentRecord {
    fn from_document(record: &RawDocument) -> Option<Self> {
        let value = |name: &str| record.get(name).ok().flatten();
        let references = |name: &str| value(name)?.as_document().map(RawDocument::to_owned);
        Some(Self {
            token: value("token")?.as_object_id()?,
            old: references("old"),
            new: references("new").unwrap_or_default(),
            is_committed: value("committed").is_some(),
            is_aborted: value("aborted").is_some(),
        })
    }
}

/// The tombstone of a document in a delete that runs in several steps.
pub(crate) mod tombstone {
    use bson::{Document, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, doc, oid::ObjectId};

    use crate::{
        Result,
        language::query::{append_field, single_field_document},
        metadata::metadata_path,
        model::stored::to_raw_document,
    };

    /// The complete tombstone. Disappears with the document, or when the delete is rolled back.
    pub(crate) const PATH: &str = metadata_path!("pending.references.tombstone");

    /// The token of the delete, equal in all cascaded documents. Written by the first step of the delete.
    pub(crate) const TOKEN: &str = metadata_path!("pending.references.tombstone.token");

    /// Marks the tombstone as provisional: a `restrict` rule may still forbid the delete of the document or of a cascaded
    /// document. Disappears when the tombstone becomes final.
    pub(crate) const PROVISIONAL: &str = metadata_path!("pending.references.tombstone.provisional");

    /// The root document of the delete, which decides. Only in provisional tombstones of cascaded documents.
    const ROOT: &str = metadata_path!("pending.references.tombstone.root");

    /// A parsed tombstone.
    #[derive(Debug)]
    pub(crate) struct Tombstone {
        pub(crate) token: ObjectId,
        pub(crate) is_provisional: bool,
        /// `None` if the document itself is the root, or the tombstone is final.
        pub(crate) root: Option<DeleteRoot>,
    }

    /// The root document of a cascading delete.
    #[derive(Debug)]
    pub(crate) struct DeleteRoot {
        pub(crate) collection: String,
        pub(crate) id: RawBson,
    }

    impl Tombstone {
        pub(super) fn from_document(stored: &RawDocument) -> Option<Self> {
            let value = |name: &str| stored.get(name).ok().flatten();
            let root = value("root").and_then(RawBsonRef::as_document);
            Some(Self {
                token: value("token")?.as_object_id()?,
                is_provisional: value("provisional").is_some(),
                root: root.and_then(DeleteRoot::from_document),
            })
        }
    }

    impl DeleteRoot {
        fn from_document(stored: &RawDocument) -> Option<Self> {
            Some(Self {
                collection: stored.get_str("collection").ok()?.to_owned(),
                id: stored.get("id").ok()??.into(),
            })
        }

        fn to_document(&self) -> Result<RawDocumentBuf> {
            let mut stored = single_field_document("collection", self.collection.as_str())?;
            append_field(&mut stored, "id", self.id.clone())?;
            Ok(stored)
        }
    }

    /// Returns the operand of `$set` that writes a final tombstone.
    pub(crate) fn set_final(token: ObjectId) -> Result<RawDocumentBuf> {
        single_field_document(TOKEN, token)
    }

    /// Returns the operand of `$set` that writes a provisional tombstone. Without `root`, the document itself is the root.
    pub(crate) fn set_provisional(
        token: ObjectId,
        root: Option<&DeleteRoot>,
    ) -> Result<RawDocumentBuf> {
        let mut set = set_final(token)?;
        append_field(&mut set, PROVISIONAL, true)?;
        if let Some(root) = root {
            append_field(&mut set, ROOT, root.to_document()?)?;
        }
        Ok(set)
    }

    /// Returns the operand of `$unset` that makes a provisional tombstone final.
    pub(crate) fn unset_provisional() -> Result<RawDocumentBuf> {
        // With the root, a recovery would take the final tombstone for undecided.
        let mut unset = single_field_document(PROVISIONAL, "")?;
        append_field(&mut unset, ROOT, "")?;
        Ok(unset)
    }

    /// Returns the condition that a document has no final tombstone, and so does not count as deleted.
    pub(crate) fn not_final() -> Document {
        let is_final = doc! { TOKEN: { "$exists": true }, PROVISIONAL: { "$exists": false } };
        doc! { "$nor": [is_final] }
    }

    /// Returns [`not_final`] as raw BSON.
    pub(crate) fn not_final_raw() -> Result<RawDocumentBuf> {
        to_raw_document(&not_final())
    }
}

/// The state of a document in a delete with a tombstone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TombstoneState {
    Live,
    /// The document has a provisional tombstone: the delete is undecided.
    Provisional,
    /// The document has a final tombstone, and counts as deleted.
    Final,
}

impl TombstoneState {
    pub(crate) fn from_stored(raw: &RawDocument) -> Self {
        match Metadata::of(raw).tombstone() {
            None => Self::Live,
            Some(tombstone) if tombstone.is_provisional => Self::Provisional,
            Some(_) => Self::Final,
        }
    }
}

impl<'d> Metadata<'d> {
    /// Returns the intent record of an unfinished write.
    pub(crate) fn intent(self) -> Option<IntentRecord> {
        IntentRecord::from_document(self.value(INTENT)?.as_document()?)
    }

    /// Returns the tombstone of a delete in progress.
    pub(crate) fn tombstone(self) -> Option<tombstone::Tombstone> {
        tombstone::Tombstone::from_document(self.value(tombstone::PATH)?.as_document()?)
    }

    /// Whether a write of references or a delete of the document is unfinished.
    pub(crate) fn has_unfinished_write(self) -> bool {
        self.value(INTENT).is_some() || self.value(tombstone::TOKEN).is_some()
    }

    /// Returns the end of the lease on the intent record or the tombstone.
    pub(crate) fn lease_end(self) -> Option<DateTime> {
        self.value(LEASE).and_then(RawBsonRef::as_datetime)
    }

    /// Returns the version guard of the inverses in the document.
    pub(crate) fn inverse_version(self) -> Option<RawBsonRef<'d>> {
        self.value(INVERSE_VERSION)
    }
}

impl ParsedMetadata<'_> {
    /// Whether the document has a final tombstone, and counts as deleted.
    pub(crate) fn has_final_tombstone(self) -> bool {
        self.value(tombstone::TOKEN).is_some() && self.value(tombstone::PROVISIONAL).is_none()
    }
}
