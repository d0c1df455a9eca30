//! Inserts. Each failure gets the id of its document.

use bson::{Bson, RawBson, RawDocumentBuf};
use odm_engine::Session;

use super::error;
use crate::{Result, backend::operation::InsertOperation};

/// Inserts documents: [`Executor::insert`](crate::backend::Executor::insert).
pub(super) fn insert_documents(session: &Session, insert: InsertOperation) -> Result<()> {
    let InsertOperation {
        collection,
        documents,
        ordered,
        ..
    } = insert;
    if documents.is_empty() {
        return Ok(());
    }
    let id = |document: &RawDocumentBuf| document.get("_id").ok().flatten().map(RawBson::from);
    let ids: Vec<_> = documents.iter().map(id).collect();
    let report = if ordered {
        session.insert(&collection, documents)
    } else {
        session.insert_unordered(&collection, documents)
    };
    let report = report.map_err(|failure| error::in_collection(failure, &collection))?;
    let failures = report.failures.into_iter().map(|failure| {
        let error = error::in_collection(failure.error, &collection);
        let id = ids.get(failure.position).cloned().flatten();
        match id.map(Bson::try_from) {
            Some(Ok(id)) => (failure.position, error.with_id(id)),
            _ => (failure.position, error),
        }
    });
    let failures: Vec<_> = failures.collect();
    match failures.first() {
        None => Ok(()),
        Some((_, first)) => {
            let error = first.clone().with_inserted(report.inserted);
            Err(error.with_failures(failures))
        }
    }
}
