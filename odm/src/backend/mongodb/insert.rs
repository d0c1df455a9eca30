//! Inserts, in batches that the server takes.

use ::mongodb::{Database, bson::Document, error::ErrorKind as DriverErrorKind};
use bson::{
    RawDocumentBuf,
    raw::{RawBsonRef, cstr},
};

use super::{
    Session,
    error::{self, Refused},
    write_command::{self, ELEMENT_BYTES, MAX_BYTES, MAX_STATEMENTS},
};
use crate::{Error, ErrorKind, Result, backend::operation::Insert};

/// See [`Executor::insert`](crate::backend::Executor::insert).
pub(super) async fn insert(
    database: &Database,
    insert: Insert,
    session: Session<'_>,
) -> Result<()> {
    // The driver tries an insert of one document again.
    if insert.ordered || insert.documents.len() == 1 {
        in_order(database, &insert.collection, &insert.documents, session).await
    } else {
        all_that_can_be(database, &insert.collection, &insert.documents, session).await
    }
}

async fn in_order(
    database: &Database,
    name: &str,
    documents: &[RawDocumentBuf],
    mut session: Session<'_>,
) -> Result<()> {
    let mut stored = 0;
    while let Some(batch) = next_batch(documents, stored) {
        let sent = send(database, name, batch, session.as_deref_mut()).await;
        stored += sent.map_err(|failure| failure.describe(name, documents, stored))?;
    }
    Ok(())
}

/// Goes on behind the documents that are refused, unless their transaction has ended with the first.
///
/// As commands, because the driver does not say which keys were refused. They are not tried again.
async fn all_that_can_be(
    database: &Database,
    name: &str,
    documents: &[RawDocumentBuf],
    mut session: Session<'_>,
) -> Result<()> {
    let mut tried = 0;
    let mut failures = Vec::new();
    while let Some(batch) = next_batch(documents, tried)
        && (session.is_none() || failures.is_empty())
    {
        let refused = match batch {
            [document] if document.as_bytes().len() > MAX_BYTES => {
                vec![Failure::of_document(0, too_large(document))]
            }
            _ => {
                let answer = command(database, name, batch, false, session.as_deref_mut()).await;
                let refused = error::all_in_answer(&answer.map_err(|failure| {
                    let error = failure.error.with_collection(name);
                    error.with_failures(failures.clone())
                })?);
                refused.into_iter().map(Failure::from).collect()
            }
        };
        for Failure { position, error } in refused {
            let error = error.with_collection(name);
            let Some(position) = position.map(|position| tried + position) else {
                return Err(error.with_failures(failures));
            };
            failures.push((position, with_id(error, documents.get(position))));
        }
        tried += batch.len();
    }
    let Some((position, first)) = failures.first() else {
        return Ok(());
    };
    // What stands behind the failure that ends a transaction was not tried.
    let stored = match session {
        None => documents.len() - failures.len(),
        Some(_) => *position,
    };
    Err(first.clone().with_inserted(stored).with_failures(failures))
}

/// As many documents as can be sent at once: one at least, and only one that is too large.
fn next_batch(documents: &[RawDocumentBuf], stored: usize) -> Option<&[RawDocumentBuf]> {
    let rest = documents.get(stored..)?;
    let mut bytes = 0;
    let fit = rest.iter().take(MAX_STATEMENTS).take_while(|document| {
        bytes += document.as_bytes().len() + ELEMENT_BYTES;
        bytes <= MAX_BYTES
    });
    let len = fit.count().max(1);
    rest.get(..len)
}

/// Sends a batch, and says how many of it are stored.
async fn send(
    database: &Database,
    collection: &str,
    batch: &[RawDocumentBuf],
    session: Session<'_>,
) -> Result<usize, Failure> {
    if let [document] = batch
        && document.as_bytes().len() > MAX_BYTES
    {
        return Err(Failure::of_document(0, too_large(document)));
    }
    if session.is_some() {
        return send_raw(database, collection, batch, session).await;
    }
    let sent = database
        .collection::<RawDocumentBuf>(collection)
        .insert_many(batch)
        .await;
    let Err(failure) = sent else {
        return Ok(batch.len());
    };
    let refused = match &*failure.kind {
        DriverErrorKind::InsertMany(insert) => {
            insert.write_errors.as_deref().and_then(<[_]>::first)
        }
        _ => None,
    };
    let Some(refused) = refused else {
        return Err(Failure::of_all(error::from_driver(failure)));
    };
    let position = refused.index;
    let refusal = error::server(refused.code, &refused.message, None);
    match batch.get(position) {
        // The driver leaves out of its error which key it was; the raw answer to the document alone has it.
        Some(document) if refusal.is_duplicate_key() => {
            let alone = std::slice::from_ref(document);
            let sent = send_raw(database, collection, alone, None).await;
            // If it went well, whatever had the key is gone by now.
            sent.map(|stored| position + stored)
                .map_err(|failure| failure.behind(position))
        }
        _ => Err(Failure::of_document(position, refusal.with_source(failure))),
    }
}

/// Sends a batch as a command, and says how many of it are stored.
async fn send_raw(
    database: &Database,
    collection: &str,
    batch: &[RawDocumentBuf],
    session: Session<'_>,
) -> Result<usize, Failure> {
    let answer = command(database, collection, batch, true, session).await?;
    match error::in_answer(&answer) {
        None => Ok(batch.len()),
        Some(refused) => Err(refused.into()),
    }
}

/// Sends a batch as a command, whose answer has everything, but which the driver does not try again.
async fn command(
    database: &Database,
    collection: &str,
    batch: &[RawDocumentBuf],
    ordered: bool,
    session: Session<'_>,
) -> Result<Document, Failure> {
    let names = (cstr!("insert"), cstr!("documents"));
    let sent = write_command::send(database, names, collection, batch, ordered, session).await;
    sent.map_err(Failure::of_all)
}

/// A batch that was not stored whole.
struct Failure {
    /// The document that was refused; everything before it is stored. None if it is not about one document.
    position: Option<usize>,
    error: Error,
}

impl From<Refused> for Failure {
    fn from(Refused { position, error }: Refused) -> Self {
        Self { position, error }
    }
}

impl Failure {
    fn of_document(position: usize, error: Error) -> Self {
        Self {
            position: Some(position),
            error,
        }
    }

    fn of_all(error: Error) -> Self {
        Self {
            position: None,
            error,
        }
    }

    /// The same failure, of a batch that began this much earlier.
    fn behind(self, before: usize) -> Self {
        Self {
            position: self.position.map(|position| position + before),
            error: self.error,
        }
    }

    /// With what the caller of the whole insert wants to know, where the batch began after `stored` documents.
    fn describe(self, collection: &str, documents: &[RawDocumentBuf], stored: usize) -> Error {
        let error = self.error.with_collection(collection);
        let Some(position) = self.position else {
            // With the connection lost, how many of the batch are stored is unknown.
            return match error.kind() {
                ErrorKind::Connection => error,
                _ => error.with_inserted(stored),
            };
        };
        let failed = stored + position;
        let error = with_id(error, documents.get(failed));
        let failure = (failed, error.clone());
        error.with_inserted(failed).with_failures([failure])
    }
}

pub(super) fn with_id(error: Error, document: Option<&RawDocumentBuf>) -> Error {
    let id = document.and_then(|document| document.get("_id").ok().flatten());
    match id.map(RawBsonRef::try_into) {
        Some(Ok::<bson::Bson, _>(id)) => error.with_id(id),
        _ => error,
    }
}

fn too_large(document: &RawDocumentBuf) -> Error {
    let size = document.as_bytes().len();
    Error::new(
        ErrorKind::Invalid,
        format!("the document has {size} bytes, and MongoDB stores at most {MAX_BYTES}"),
    )
}
