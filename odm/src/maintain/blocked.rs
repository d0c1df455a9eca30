//! Blocked follow-up work: a document rejects a follow-up write. The result would be too large, break a validation rule of the server,
//! or duplicate a key of a unique index.
//!
//! A rejecting document must not stop the work on the rest of a batch, so the batch is written again document by document. The rejected
//! work stays pending: the document with the pending work gets a record of the rejecting documents and their reasons. The pause before
//! the next attempt grows with the age of the record. `owed`, `check` and the log name the rejecting documents.

use std::{fmt, time::Duration};

use bson::{Bson, DateTime, Document, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, doc};

use super::{
    LEASE, Promise, overflow,
    stored::{Amendment, change, change_all, close, open},
};
use crate::{
    Error, ErrorKind, Result,
    access::{Access, also, found_by},
    backend::{BoxFuture, operation::Find},
    decode, error,
    query::{append, by_id, document},
    schema::Model,
};

/// The longest pause between two attempts at blocked work.
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);

/// How many rejecting documents a record names.
const MAX_NAMED: usize = 10;

/// How many characters of a reason a record keeps.
const MAX_REASON: usize = 300;

/// A document that rejects a follow-up write, and the reason.
///
/// Make the document smaller, change the duplicate key, or relax the collection's validation rule. Then call
/// [`Database::settle`](crate::Database::settle), which tries again at once.
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
    pub(super) fn new(model: &Model, id: Bson, error: &Error) -> Self {
        Self {
            collection: model.collection.to_owned(),
            id,
            reason: error.message().chars().take(MAX_REASON).collect(),
        }
    }

    /// Returns the rejecting documents that an error names. Without a name the document with the pending work rejects the write.
    pub(super) fn all_of(error: &Error, model: &Model, owing: &Bson) -> Vec<Self> {
        let one = |error: &Error| Self {
            collection: error.collection().unwrap_or(model.collection).to_owned(),
            ..Self::new(model, error.id().unwrap_or(owing).clone(), error)
        };
        match error.failures().len() {
            0 => vec![one(error)],
            _ => error.failures().map(|(_, failure)| one(failure)).collect(),
        }
    }

    fn stored(&self) -> Bson {
        let Self {
            collection,
            id,
            reason,
        } = self;
        Bson::Document(doc! { "in": collection, "id": id.clone(), "why": reason })
    }

    fn read(stored: &RawDocument) -> Option<Self> {
        Some(Self {
            collection: stored.get_str("in").ok()?.to_owned(),
            id: Bson::try_from(stored.get("id").ok()??).ok()?,
            reason: stored.get_str("why").ok()?.to_owned(),
        })
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.collection, self.id, self.reason)
    }
}

/// Whether an error is about one document alone and would come back: the rest of a batch can be written.
pub(super) fn is_rejection(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::DuplicateKey | ErrorKind::Invalid)
}

/// Whether an error is a rejection, or says that other work stays pending after a rejection.
pub(super) fn is_blocking(error: &Error) -> bool {
    is_rejection(error) || error.kind() == ErrorKind::Unsettled
}

/// The rejections of one fan-out, grouped by the source of the rejected copy.
#[derive(Debug, Default)]
pub(super) struct Rejections {
    named: Vec<(Option<RawBson>, Rejection)>,
    /// The errors of the first rejections.
    errors: Vec<Error>,
    count: usize,
}

impl Rejections {
    /// Adds a rejection. A source needs only some names. Without a source the pending work is in the rejecting document, so every
    /// rejection is kept.
    pub(super) fn push(
        &mut self,
        source: Option<&RawBson>,
        model: &Model,
        id: RawBson,
        error: Error,
    ) -> Result<()> {
        self.count += 1;
        let id = Bson::try_from(id).map_err(error::encode)?;
        let rejection = Rejection::new(model, id.clone(), &error);
        if self.errors.len() < MAX_NAMED {
            self.errors.push(error::of(model)(error).with_id(id));
        }
        let same = self.named.iter();
        let same = same.filter(|(other, _)| other.as_ref() == source);
        if source.is_none() || same.count() < MAX_NAMED {
            self.named.push((source.cloned(), rejection));
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Rejection> {
        self.named.iter().map(|(_, rejection)| rejection)
    }

    /// Returns each source of a rejected copy with the rejections.
    pub(super) fn by_source(&self) -> Vec<(RawBson, Vec<Rejection>)> {
        let mut found: Vec<(RawBson, Vec<Rejection>)> = Vec::new();
        for (source, rejection) in &self.named {
            let Some(source) = source else {
                continue;
            };
            match found.iter_mut().find(|(other, _)| other == source) {
                Some((_, all)) => all.push(rejection.clone()),
                None => found.push((source.clone(), vec![rejection.clone()])),
            }
        }
        found
    }

    /// Returns an error that names the rejecting documents, or `None` without rejections.
    pub(super) fn into_error(self) -> Option<Error> {
        let first = self.errors.first().cloned()?;
        Some(match self.errors.len() {
            1 => first,
            _ => first.with_failures(self.errors.into_iter().enumerate()),
        })
    }
}

/// The error of work that stays pending because documents reject the writes.
pub(super) fn blocked<'r>(
    model: &Model,
    rejections: impl IntoIterator<Item = &'r Rejection>,
) -> Error {
    let rejections: Vec<_> = rejections.into_iter().take(MAX_NAMED).collect();
    let errors = rejections.iter().map(|rejection| {
        let error = Error::new(ErrorKind::Invalid, rejection.reason.clone());
        error
            .with_collection(rejection.collection.clone())
            .with_id(rejection.id.clone())
    });
    let errors: Vec<_> = errors.collect();
    let named: Vec<_> = rejections.iter().map(ToString::to_string).collect();
    let message = format!(
        "documents reject follow-up writes, which stay pending: {}; let them accept these, then run `db.settle()`",
        named.join("; ")
    );
    let error = error::of(model)(Error::new(ErrorKind::Unsettled, message));
    error.with_failures(errors.into_iter().enumerate())
}

/// Records the rejections in the documents with the pending work, and delays the next attempt. The log names the rejecting documents.
///
/// Documents without that work, or with renewed work, stay unchanged. The future is boxed: many futures contain this rare call.
pub(super) fn note<'a>(
    access: &'a Access,
    model: &'static Model,
    promise: Promise,
    owing: RawDocumentBuf,
    rejections: &'a [Rejection],
) -> BoxFuture<'a, Result<()>> {
    Box::pin(record_all(access, model, promise, owing, rejections))
}

async fn record_all(
    access: &Access,
    model: &'static Model,
    promise: Promise,
    mut owing: RawDocumentBuf,
    rejections: &[Rejection],
) -> Result<()> {
    for rejection in rejections {
        tracing::warn!(
            target: "odm", model = model.name, work = promise.name(), collection = rejection.collection, id = %rejection.id,
            reason = rejection.reason, "a document rejects a follow-up write, which stays pending"
        );
    }
    let record = promise.field("blocked");
    also(&mut owing, &promise.due(), document("$exists", true)?)?;
    let mut projection = document(&promise.due(), 1)?;
    append(&mut projection, &record, 1)?;
    let find = Find {
        projection: Some(projection),
        ..found_by(&model.collection.into(), &owing)
    };
    let named: Vec<_> = rejections.iter().take(MAX_NAMED).collect();
    let named: Vec<_> = named.into_iter().map(Rejection::stored).collect();
    let (mut with_record, mut without) = (Vec::new(), Vec::new());
    for raw in access.find_all(model, find).await? {
        let (Some(id), Some(due)) = (decode::id(&raw), promise.due_of(&raw)?) else {
            continue;
        };
        let now = DateTime::now();
        let since = since(&raw, promise)?.unwrap_or(now);
        let age = now.to_system_time().duration_since(since.to_system_time());
        let pause = age.unwrap_or_default().clamp(LEASE, LONGEST_PAUSE);
        let next = DateTime::from_system_time(now.to_system_time() + pause);
        let mut filter = open(&by_id(&RawBson::from(id))?)?;
        filter.insert(promise.due(), doc! { "$eq": due });
        let filter = close(&filter)?;
        let mut set = doc! { promise.due(): next };
        without.push(Amendment::new(filter.clone(), doc! { "$set": set.clone() }));
        set.insert(
            &*record,
            doc! { "since": since, "due": next, "by": named.clone() },
        );
        with_record.push(Amendment::new(filter, doc! { "$set": set }));
    }
    match change_all(access, model, with_record).await {
        // The document has no room for the record. A date replaces a date of the same size.
        Err(error) if is_rejection(&error) => change_all(access, model, without).await.map(drop),
        noted => noted.map(drop),
    }
}

/// Returns the record of a document unless the work was renewed after the record was written.
fn record(raw: &RawDocument, promise: Promise) -> Result<Option<&RawDocument>> {
    let record = promise.said_in(raw, "blocked")?;
    let record = record.and_then(RawBsonRef::as_document);
    let due = promise.due_of(raw)?;
    Ok(record.filter(|record| due.is_some() && record.get_datetime("due").ok() == due))
}

fn since(raw: &RawDocument, promise: Promise) -> Result<Option<DateTime>> {
    Ok(record(raw, promise)?.and_then(|record| record.get_datetime("since").ok()))
}

/// Returns the documents that reject the pending work of a document. Empty if the work is not blocked.
pub(crate) fn rejections(raw: &RawDocument, promise: Promise) -> Result<Vec<Rejection>> {
    let by = record(raw, promise)?.and_then(|record| record.get_array("by").ok());
    let by = by.into_iter().flatten().flatten();
    let by = by.filter_map(|rejection| Rejection::read(rejection.as_document()?));
    Ok(by.collect())
}

/// Whether the pending work of a document is blocked.
pub(super) fn is_blocked(raw: &RawDocument, promise: Promise) -> bool {
    record(raw, promise).is_ok_and(|record| record.is_some())
}

/// The condition that a document has pending work with a record of rejections.
pub(crate) fn recorded(promise: Promise) -> Result<RawDocumentBuf> {
    let mut filter = document(&promise.due(), document("$exists", true)?)?;
    append(
        &mut filter,
        &promise.field("blocked"),
        document("$exists", true)?,
    )?;
    Ok(filter)
}

/// The kinds of pending work of a model and of the chunk documents of the overflow arrays.
pub(crate) fn promises(access: &Access, model: &'static Model) -> Vec<(&'static Model, Promise)> {
    let all = [
        Promise::FAN,
        Promise::VERIFY,
        Promise::COUNT,
        Promise::RECOUNT,
        Promise::LINK,
    ];
    let own = all
        .into_iter()
        .filter(|promise| promise.is_of(access, model));
    let arrays = model.overflows.iter().map(Promise::of_array);
    let own = own.chain(arrays).map(|promise| (model, promise));
    own.chain(overflow::owed_outside(model)).collect()
}

/// Makes blocked work of a model due now.
pub(crate) async fn unblock(access: &Access, model: &'static Model) -> Result<()> {
    for (model, promise) in promises(access, model) {
        let find = Find {
            projection: Some(document("_id", 1)?),
            limit: Some(1),
            ..found_by(&model.collection.into(), &recorded(promise)?)
        };
        if access.find_all(model, find).await?.is_empty() {
            continue;
        }
        let mut set = Document::new();
        set.insert(promise.due(), DateTime::now());
        let mut unset = Document::new();
        unset.insert(promise.field("blocked"), "");
        let now = doc! { "$set": set, "$unset": unset };
        change(access, model, Amendment::new(recorded(promise)?, now)).await?;
    }
    Ok(())
}
