//! Inserts, in batches that the server accepts.

use ::mongodb::{Database, bson::Document, error::ErrorKind as DriverErrorKind};
use bson::{
    RawDocumentBuf,
    raw::{RawBsonRef, cstr},
};

use super::{
    WriteSession,
    error::{self, RejectedWrite},
    write_command::{self, ARRAY_ELEMENT_OVERHEAD_BYTES, MAX_DOCUMENT_BYTES, MAX_STATEMENTS},
};
use crate::{Error, ErrorKind, Result, backend::operation::InsertOperation};

/// Inserts documents: [`Executor::insert`](crate::backend::Executor::insert).
pub(super) async fn insert_documents(
    database: &Database,
    insert: InsertOperation,
    session: WriteSession<'_>,
) -> Result<()> {
    // Prefer the ordered path for one document, because the driver retries the insert of one document.
    if insert.ordered || insert.documents.len() == 1 {
        insert_ordered(database, &insert.collection, &insert.documents, session).await
    } else {
        insert_unordered(database, &insert.collection, &insert.documents, session).await
    }
}

async fn insert_ordered(
    database: &Database,
    name: &str,
    documents: &[RawDocumentBuf],
    mut session: WriteSession<'_>,
) -> Result<()> {
    let mut stored = 0;
    while let Some(batch) = next_batch(documents, stored) {
        let result = send_batch(database, name, batch, session.as_deref_mut()).await;
        stored += result.map_err(|failure| failure.into_insert_error(name, documents, stored))?;
    }
    Ok(())
}

/// Inserts every document that can be inserted. In a transaction the first failure ends the insert.
///
/// This function sends raw commands, because the driver's error omits the rejected keys. The driver does not retry raw commands.
async fn insert_unordered(
    database: &Database,
    name: &str,
    documents: &[RawDocumentBuf],
    mut session: WriteSession<'_>,
) -> Result<()> {
    let mut attempted = 0;
    let mut failures = Vec::new();
    while let Some(batch) = next_batch(documents, attempted)
        && (session.is_none() || failures.is_empty())
    {
        let batch_failures = match batch {
            [document] if document.as_bytes().len() > MAX_DOCUMENT_BYTES => {
                vec![BatchFailure::of_document(0, too_large(document))]
            }
            _ => {
                let answer =
                    send_insert_command(database, name, batch, false, session.as_deref_mut()).await;
                let batch_failures = error::all_in_answer(&answer.map_err(|failure| {
                    let error = failure.error.with_collection(name);
                    error.with_failures(failures.clone())
                })?);
                batch_failures.into_iter().map(BatchFailure::from).collect()
            }
        };
        for BatchFailure { position, error } in batch_failures {
            let error = error.with_collection(name);
            let Some(position) = position.map(|position| attempted + position) else {
                return Err(error.with_failures(failures));
            };
            failures.push((position, with_id(error, documents.get(position))));
        }
        attempted += batch.len();
    }
    let Some((position, first)) = failures.first() else {
        return Ok(());
    };
    // In a transaction the documents after the failure were not attempted.
    let stored = match session {
        None => documents.len() - failures.len(),
        Some(_) => *position,
    };
    Err(first.clone().with_inserted(stored).with_failures(failures))
}

/// Returns the documents of the next batch: as many as one command can hold, and at least one. A single document may be too
/// large.
fn next_batch(documents: &[RawDocumentBuf], stored: usize) -> Option<&[RawDocumentBuf]> {
    let rest = documents.get(stored..)?;
    let mut bytes = 0;
    let prefix = rest.iter().take(MAX_STATEMENTS).take_while(|document| {
        bytes += document.as_bytes().len() + ARRAY_ELEMENT_OVERHEAD_BYTES;
        bytes <= MAX_DOCUMENT_BYTES
    });
    let len = prefix.count().max(1);
    rest.get(..len)
}

/// Sends a batch, and returns the number of stored documents.
async fn send_batch(
    database: &Database,
    collection: &str,
    batch: &[RawDocumentBuf],
    session: WriteSession<'_>,
) -> Result<usize, BatchFailure> {
    if let [document] = batch
        && document.as_bytes().len() > MAX_DOCUMENT_BYTES
    {
        return Err(BatchFailure::of_document(0, too_large(document)));
    }
    if session.is_some() {
        return send_raw(database, collection, batch, session).await;
    }
    let result = database
        .collection::<RawDocumentBuf>(collection)
        .insert_many(batch)
        .await;
    let Err(failure) = result else {
        return Ok(batch.len());
    };
    let write_error = match &*failure.kind {
        DriverErrorKind::InsertMany(insert) => {
            insert.write_errors.as_deref().and_then(<[_]>::first)
        }
        _ => None,
    };
    let Some(write_error) = write_error else {
        return Err(BatchFailure::of_all(error::from_driver(failure)));
    };
    let position = write_error.index;
    let refusal = error::from_server_code(write_error.code, &write_error.message, None);
    match batch.get(position) {
        // The driver's error omits the duplicate key. Send the document alone as a raw command, because the raw answer has the
        // key.
        Some(document) if refusal.is_duplicate_key() => {
            let single = std::slice::from_ref(document);
            let result = send_raw(database, collection, single, None).await;
            // If the second insert succeeds, another writer has removed the duplicate in the meantime.
            result
                .map(|stored| position + stored)
                .map_err(|failure| failure.shifted_by(position))
        }
        _ => Err(BatchFailure::of_document(
            position,
            refusal.with_source(failure),
        )),
    }
}

/// Sends a batch as a raw command, and returns the number of stored documents.
async fn send_raw(
    database: &Database,
    collection: &str,
    batch: &[RawDocumentBuf],
    session: WriteSession<'_>,
) -> Result<usize, BatchFailure> {
    let answer = send_insert_command(database, collection, batch, true, session).await?;
    match error::first_in_answer(&answer) {
        None => Ok(batch.len()),
        Some(rejection) => Err(rejection.into()),
    }
}

/// Sends a batch as a raw command. The raw answer is complete, but the driver does not retry the command.
async fn send_insert_command(
    database: &Database,
    collection: &str,
    batch: &[RawDocumentBuf],
    ordered: bool,
    session: WriteSession<'_>,
) -> Result<Document, BatchFailure> {
    let names = (cstr!("insert"), cstr!("documents"));
    let result =
        write_command::send_write_command(database, names, collection, batch, ordered, session)
            .await;
    result.map_err(BatchFailure::of_all)
}

/// The failure of a batch. A part of the batch may be stored.
struct BatchFailure {
    /// The rejected document, if any. Every document before the rejected document is stored.
    position: Option<usize>,
    error: Error,
}

impl From<RejectedWrite> for BatchFailure {
    fn from(RejectedWrite { position, error }: RejectedWrite) -> Self {
        Self { position, error }
    }
}

impl BatchFailure {
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

    /// Shifts the position of the failure, for a batch that began this many documents earlier.
    fn shifted_by(self, offset: usize) -> Self {
        Self {
            position: self.position.map(|position| position + offset),
            error: self.error,
        }
    }

    /// Converts the failure to the error of the whole insert, where the batch began after `stored` documents.
    fn into_insert_error(
        self,
        collection: &str,
        documents: &[RawDocumentBuf],
        stored: usize,
    ) -> Error {
        let error = self.error.with_collection(collection);
        let Some(position) = self.position else {
            // After a lost connection the number of stored documents in the batch is unknown.
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
        format!(
            "the document is too large: {size} bytes (MongoDB stores at most {MAX_DOCUMENT_BYTES} bytes)"
        ),
    )
}
