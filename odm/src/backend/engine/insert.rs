//! Inserts. Each failure gets the id of its document.

use std::sync::Arc;

use bson::{Bson, RawBson, RawDocumentBuf};
use odm_engine::{InsertReport, Session};

use super::{
    EngineTarget,
    blocking::{self, Call, MAX_CALLER_INPUT},
    error, total_bytes,
};
use crate::{Result, backend::operation::InsertOperation};

/// Inserts documents: [`Executor::insert`](crate::backend::Executor::insert).
pub(super) async fn insert_documents<T: EngineTarget>(
    target: Arc<T>,
    insert: InsertOperation,
) -> Result<()> {
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
    let (input_bytes, name) = (total_bytes(&documents), collection.clone());
    let to_error = |failure| error::in_collection(failure, &collection);
    let report = if input_bytes <= MAX_CALLER_INPUT {
        // The call can run twice, so it keeps the documents.
        let call = Call::new(move || insert_into(&target, &name, documents.clone(), ordered));
        call.run(to_error).await?
    } else {
        let run = move || Ok(insert_into(&target, &name, documents, ordered));
        blocking::run_to_end(run).await?.map_err(to_error)?
    };
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

fn insert_into(
    session: &Session,
    collection: &str,
    documents: Vec<RawDocumentBuf>,
    ordered: bool,
) -> odm_engine::Result<InsertReport> {
    if ordered {
        session.insert(collection, documents)
    } else {
        session.insert_unordered(collection, documents)
    }
}
