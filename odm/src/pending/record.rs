//! Pending work: durable follow-up work that a document records, and that any process can complete.

use bson::{
    DateTime, Document, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, doc, oid::ObjectId,
};

use crate::{
    Result, error,
    language::query::{append_field, equal_to, single_field_document},
    metadata::{
        self, Metadata,
        pending::{LEASE, SINCE, TOKEN},
        references::{INTENT_TOKEN, tombstone},
    },
    pending::lease::Lease,
    schema::OverflowField,
};

/// A kind of pending work, identified by the path of the stored record. A record has a token and the end of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PendingKind(&'static str);

impl PendingKind {
    /// Dependents may have outdated copies of the document.
    pub(crate) const FAN_OUT: Self = Self(metadata::pending::FAN_OUT);
    /// Copies in the document must be compared with the sources again.
    pub(crate) const REVALIDATE: Self = Self(metadata::pending::REVALIDATE);
    /// The contributions of the document to rollups of parents are outdated.
    pub(crate) const ROLLUP: Self = Self(metadata::pending::ROLLUP);
    /// Rollups of the document must be recomputed from all children.
    pub(crate) const RECOMPUTE: Self = Self(metadata::pending::RECOMPUTE);
    /// References of the document or the matching inverses are being written.
    pub(crate) const REFERENCES: Self = Self(metadata::references::RECORD);

    /// A chunk of an overflow array may have no owner.
    pub(crate) const PROVISIONAL_CHUNK: Self = Self(metadata::overflow::PROVISIONAL);

    /// Returns the kind of pending changes of an overflow array.
    pub(crate) fn overflow_array(field: &OverflowField) -> Self {
        Self(field.pending_change)
    }

    /// Returns the path of the record in a document.
    pub(crate) fn record_path(self) -> &'static str {
        self.0
    }

    /// Returns the path of a field of the record.
    pub(crate) fn field_path(self, name: &str) -> String {
        format!("{}.{name}", self.0)
    }

    pub(crate) fn token_path(self) -> String {
        self.field_path(TOKEN)
    }

    /// Adds the condition that a document has the work with this token.
    pub(crate) fn add_token_condition(
        self,
        filter: &mut RawDocumentBuf,
        token: ObjectId,
    ) -> Result<()> {
        append_field(filter, &self.token_path(), equal_to(token))
    }

    /// Returns the paths of the tokens that a document can have.
    pub(crate) fn token_paths(self) -> Vec<String> {
        match self {
            Self::REFERENCES => vec![INTENT_TOKEN.to_owned(), tombstone::TOKEN.to_owned()],
            _ => vec![self.token_path()],
        }
    }

    /// Returns the time of the write that recorded the work, in whole seconds. The time is part of the token.
    pub(crate) fn recorded_at(self, raw: &RawDocument) -> Result<Option<DateTime>> {
        let metadata = Metadata::read(raw)?;
        let mut paths = self.token_paths().into_iter();
        let token = paths.find_map(|path| metadata.value(&path)?.as_object_id());
        Ok(token.map(|token| token.timestamp()))
    }

    /// Returns the path of the end of the lease. An index on this path finds pending work.
    pub(crate) fn lease_path(self) -> String {
        self.field_path(LEASE)
    }

    /// Returns the condition that the lease has expired.
    pub(crate) fn expired_filter(self) -> Result<RawDocumentBuf> {
        let expired = single_field_document("$lte", DateTime::now())?;
        single_field_document(&self.lease_path(), expired)
    }

    /// Returns the end of the lease in a stored document. `None` without pending work of this kind.
    pub(crate) fn lease_end(self, raw: &RawDocument) -> Result<Option<DateTime>> {
        let lease_end = self.record_field(raw, LEASE)?;
        Ok(lease_end.and_then(RawBsonRef::as_datetime))
    }

    /// Returns the time since which the work is pending, if another process took over the lease.
    pub(crate) fn pending_since(self, raw: &RawDocument) -> Result<Option<DateTime>> {
        let start_time = self.record_field(raw, SINCE)?;
        Ok(start_time.and_then(RawBsonRef::as_datetime))
    }

    /// Returns a field of the record in a stored document.
    pub(crate) fn record_field<'d>(
        self,
        raw: &'d RawDocument,
        name: &str,
    ) -> Result<Option<RawBsonRef<'d>>> {
        Ok(Metadata::read(raw)?.value(&self.field_path(name)))
    }
}

/// The token of pending work with the end of the lease. Identifies the documents with the pending work of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PendingToken {
    pub(crate) token: ObjectId,
    pub(crate) lease_end: DateTime,
}

impl PendingToken {
    pub(crate) fn with_new_lease(lease: Lease) -> Self {
        Self {
            token: ObjectId::new(),
            lease_end: lease.new_end(),
        }
    }

    /// Reads the token of pending work from a stored document.
    pub(crate) fn from_stored(raw: &RawDocument, kind: PendingKind) -> Result<Option<Self>> {
        let lease_end = kind.lease_end(raw)?;
        let token = kind.record_field(raw, TOKEN)?;
        let token = token.and_then(RawBsonRef::as_object_id);
        let token = token.zip(lease_end);
        Ok(token.map(|(token, lease_end)| Self { token, lease_end }))
    }

    /// Returns the time of the write, in whole seconds.
    pub(crate) fn created_at(self) -> DateTime {
        self.token.timestamp()
    }

    /// Returns the condition that a document has the pending work with this token.
    pub(crate) fn token_filter(self, kind: PendingKind) -> Result<RawDocumentBuf> {
        let mut filter = single_field_document(&kind.lease_path(), equal_to(self.lease_end))?;
        kind.add_token_condition(&mut filter, self.token)?;
        Ok(filter)
    }

    /// Returns the record as stored in a document.
    pub(crate) fn to_document(self) -> Document {
        doc! { TOKEN: self.token, LEASE: self.lease_end }
    }

    pub(crate) fn to_raw(self) -> Result<RawBson> {
        let raw = RawDocumentBuf::try_from(&self.to_document());
        raw.map(RawBson::from).map_err(error::from_bson)
    }
}
