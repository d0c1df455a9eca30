//! Blocked follow-up work: a document rejects a follow-up write. The result would be too large, break a validation rule of the
//! server, or duplicate a key of a unique index.
//!
//! A rejecting document must not stop the work on the rest of a batch, so the batch is written again document by document. The
//! rejected work stays pending: the document with the pending work gets a record of the rejecting documents and their reasons.
//! The pause before the next attempt grows with the age of the record. `pending`, `check` and the log name the rejecting
//! documents.

use std::{fmt, time::Duration};

use bson::{Bson, DateTime, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, doc};

use super::record::PendingKind;
use crate::{
    Error, ErrorKind, Result,
    backend::{BoxFuture, operation::Stage},
    error,
    language::query::{append_field, field_present, id_filter, single_field_document},
    metadata::pending::{BLOCKED, BlockedRecord},
    model::decode,
    schema::Model,
    session::access::{ModelAccess, add_condition},
    write::{
        metadata_update::{
            MetadataUpdate, apply_update, apply_updates, parse_document, to_raw_document,
        },
        pending_kinds,
    },
};

/// The longest pause between two attempts at blocked work.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(60 * 60);

/// The maximum number of rejecting documents that a record names.
const MAX_RECORDED_REJECTIONS: usize = 10;

/// The maximum number of characters of a reason in a record.
const MAX_REASON_CHARS: usize = 300;

/// A document that rejects a follow-up write, and the reason.
///
/// Make the document smaller, change the duplicate key, or relax the collection's validation rule. Then call
/// [`Database::run_pending`](crate::Database::run_pending), which tries again at once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejection {
    /// The collection of the rejecting document.
    pub collection: String,
    /// The `_id` of the rejecting document.
    pub id: Bson,
    /// The message of the error.
    pub reason: String,
}

impl Rejection {
    pub(crate) fn new(model: &Model, id: Bson, error: &Error) -> Self {
        Self {
            collection: model.collection.to_owned(),
            id,
            reason: error.message().chars().take(MAX_REASON_CHARS).collect(),
        }
    }

    /// Returns the rejecting documents that an error names. Without a name the document with the pending work rejects the write.
    pub(crate) fn from_error(error: &Error, model: &Model, pending_id: &Bson) -> Vec<Self> {
        let from_single = |error: &Error| Self {
            collection: error.collection().unwrap_or(model.collection).to_owned(),
            ..Self::new(model, error.id().unwrap_or(pending_id).clone(), error)
        };
        match error.failures().len() {
            0 => vec![from_single(error)],
            _ => error
                .failures()
                .map(|(_, failure)| from_single(failure))
                .collect(),
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.collection, self.id, self.reason)
    }
}

/// Whether an error concerns a single document and would occur again. The rest of the batch can be written.
pub(crate) fn is_rejection(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::DuplicateKey | ErrorKind::Invalid)
}

/// Whether an error is a rejection, or says that other work stays pending after a rejection.
pub(crate) fn is_blocking(error: &Error) -> bool {
    is_rejection(error) || error.kind() == ErrorKind::StillPending
}

/// The rejections of one fan-out, grouped by the source of the rejected copy.
#[derive(Debug, Default)]
pub(crate) struct RejectionList {
    named: Vec<(Option<RawBson>, Rejection)>,
    /// The errors of the first rejections.
    errors: Vec<Error>,
    count: usize,
}

impl RejectionList {
    /// Adds a rejection. A source needs only some names. Without a source the pending work is in the rejecting document, so every
    /// rejection is kept.
    pub(crate) fn add_rejection(
        &mut self,
        source: Option<&RawBson>,
        model: &Model,
        id: RawBson,
        error: Error,
    ) -> Result<()> {
        self.count += 1;
        let id = Bson::try_from(id).map_err(error::from_bson)?;
        let rejection = Rejection::new(model, id.clone(), &error);
        if self.errors.len() < MAX_RECORDED_REJECTIONS {
            self.errors
                .push(error::naming_model(model)(error).with_id(id));
        }
        let rejections = self.named.iter();
        let rejections = rejections.filter(|(other, _)| other.as_ref() == source);
        if source.is_none() || rejections.count() < MAX_RECORDED_REJECTIONS {
            self.named.push((source.cloned(), rejection));
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn iter_rejections(&self) -> impl Iterator<Item = &Rejection> {
        self.named.iter().map(|(_, rejection)| rejection)
    }

    /// Returns each source of a rejected copy with the rejections.
    pub(crate) fn by_source(&self) -> Vec<(RawBson, Vec<Rejection>)> {
        let mut groups: Vec<(RawBson, Vec<Rejection>)> = Vec::new();
        for (source, rejection) in &self.named {
            let Some(source) = source else {
                continue;
            };
            match groups.iter_mut().find(|(other, _)| other == source) {
                Some((_, rejections)) => rejections.push(rejection.clone()),
                None => groups.push((source.clone(), vec![rejection.clone()])),
            }
        }
        groups
    }

    /// Returns an error that names the rejecting documents, or `None` without rejections.
    pub(crate) fn into_error(self) -> Option<Error> {
        let first = self.errors.first().cloned()?;
        Some(match self.errors.len() {
            1 => first,
            _ => first.with_failures(self.errors.into_iter().enumerate()),
        })
    }
}

/// The error of work that stays pending because documents reject the writes.
pub(crate) fn blocked_error<'r>(
    model: &Model,
    rejections: impl IntoIterator<Item = &'r Rejection>,
) -> Error {
    let rejections = rejections.into_iter().take(MAX_RECORDED_REJECTIONS);
    let rejections: Vec<_> = rejections.collect();
    let errors = rejections.iter().map(|rejection| {
        let error = Error::new(ErrorKind::Invalid, rejection.reason.clone());
        error
            .with_collection(rejection.collection.clone())
            .with_id(rejection.id.clone())
    });
    let errors: Vec<_> = errors.collect();
    let named: Vec<_> = rejections.iter().map(ToString::to_string).collect();
    let message = format!(
        "documents reject follow-up writes, which stay pending: {}; change these documents or the constraints, then call \
         `db.run_pending()`",
        named.join("; ")
    );
    let error = error::naming_model(model)(Error::new(ErrorKind::StillPending, message));
    error.with_failures(errors.into_iter().enumerate())
}

/// Records the rejections in the documents with the pending work, and delays the next attempt. The log names the rejecting documents.
///
/// Documents without that work, or with renewed work, stay unchanged. The future is boxed: many futures contain this rare call.
pub(crate) fn record_rejections<'a>(
    access: ModelAccess<'a>,
    kind: PendingKind,
    pending_filter: RawDocumentBuf,
    rejections: &'a [Rejection],
) -> BoxFuture<'a, Result<()>> {
    Box::pin(write_records(access, kind, pending_filter, rejections))
}

async fn write_records(
    access: ModelAccess<'_>,
    kind: PendingKind,
    mut pending_filter: RawDocumentBuf,
    rejections: &[Rejection],
) -> Result<()> {
    let model = access.model;
    for rejection in rejections {
        tracing::warn!(
            target: "odm", model = model.name, work = kind.record_path(), collection = rejection.collection, id = %rejection.id,
            reason = rejection.reason, "a document rejects a follow-up write, which stays pending: change the document or the constraint, then call `db.run_pending()`"
        );
    }
    let blocked_path = kind.field_path(BLOCKED);
    add_condition(&mut pending_filter, &kind.lease_path(), field_present())?;
    let mut projection = single_field_document(&kind.lease_path(), 1)?;
    append_field(&mut projection, &blocked_path, 1)?;
    let find = access
        .find_matching(&pending_filter)
        .with_origin(Stage::PENDING.step("read the blocked documents"))
        .with_projection(projection);
    let rejections = rejections.iter().take(MAX_RECORDED_REJECTIONS).cloned();
    let rejections: Vec<_> = rejections.collect();
    let (mut with_record, mut without_record) = (Vec::new(), Vec::new());
    for raw in access.find_all(find).await? {
        let (Some(id), Some(lease_end)) = (decode::stored_id(&raw), kind.lease_end(&raw)?) else {
            continue;
        };
        let now = DateTime::now();
        let start_time = blocked_record(&raw, kind)?.map_or(now, |record| record.since);
        let age = now
            .to_system_time()
            .duration_since(start_time.to_system_time());
        let lease = access.lease().duration();
        let pause = age.unwrap_or_default().min(MAX_RETRY_PAUSE).max(lease);
        let next_attempt = DateTime::from_system_time(now.to_system_time() + pause);
        let mut filter = parse_document(&id_filter(&RawBson::from(id)))?;
        filter.insert(kind.lease_path(), doc! { "$eq": lease_end });
        let filter = to_raw_document(&filter)?;
        let mut set = doc! { kind.lease_path(): next_attempt };
        let origin = Stage::PENDING.step("postpone the blocked work");
        let update = doc! { "$set": set.clone() };
        without_record.push(MetadataUpdate::new(origin, filter.clone(), update));
        let record = BlockedRecord {
            since: start_time,
            lease_end: next_attempt,
            rejections: rejections.clone(),
        };
        set.insert(&*blocked_path, record.to_document());
        let origin = Stage::PENDING.step("record the rejections");
        with_record.push(MetadataUpdate::new(origin, filter, doc! { "$set": set }));
    }
    match apply_updates(access, with_record).await {
        // The document has no room for the record. A date replaces a date of the same size.
        Err(error) if is_rejection(&error) => apply_updates(access, without_record).await.map(drop),
        result => result.map(drop),
    }
}

/// Returns the record of the rejections of a document's pending work. `None` if the work is not blocked, or if the lease was
/// renewed after the record was written.
pub(crate) fn blocked_record(
    raw: &RawDocument,
    kind: PendingKind,
) -> Result<Option<BlockedRecord>> {
    let record = kind.record_field(raw, BLOCKED)?;
    let record = record.and_then(RawBsonRef::as_document);
    let record = record.and_then(BlockedRecord::from_document);
    let lease_end = kind.lease_end(raw)?;
    Ok(record.filter(|record| Some(record.lease_end) == lease_end))
}

/// Returns the documents that reject the pending work of a document. Empty if the work is not blocked.
pub(crate) fn stored_rejections(raw: &RawDocument, kind: PendingKind) -> Result<Vec<Rejection>> {
    let record = blocked_record(raw, kind)?;
    Ok(record.map_or_else(Vec::new, |record| record.rejections))
}

/// Whether the pending work of a document is blocked.
pub(crate) fn is_blocked(raw: &RawDocument, kind: PendingKind) -> bool {
    blocked_record(raw, kind).is_ok_and(|record| record.is_some())
}

/// The condition that a document has pending work with a record of rejections.
pub(crate) fn blocked_filter(kind: PendingKind) -> Result<RawDocumentBuf> {
    let mut filter = single_field_document(&kind.lease_path(), field_present())?;
    append_field(&mut filter, &kind.field_path(BLOCKED), field_present())?;
    Ok(filter)
}

/// Ends the leases of blocked work of a model, so that the next recovery tries again.
pub(crate) async fn release_blocked(access: ModelAccess<'_>) -> Result<()> {
    for (model, kind) in pending_kinds(access) {
        let (access, blocked) = (access.to(model), blocked_filter(kind)?);
        let find = access
            .find_matching(&blocked)
            .with_origin(Stage::PENDING.step("read the blocked documents"))
            .with_limit(1);
        if access.find_ids(find).await?.is_empty() {
            continue;
        }
        let update = doc! {
            "$set": { kind.lease_path(): DateTime::now() },
            "$unset": { kind.field_path(BLOCKED): "" },
        };
        let origin = Stage::PENDING.step("release the blocked work");
        apply_update(access, MetadataUpdate::new(origin, blocked, update)).await?;
    }
    Ok(())
}
