//! What every case ends with: all that is owed is carried out, and all that is derived is looked at.

use std::sync::Arc;

use odm::{
    backend::{
        Backend,
        operation::{Change, Update},
    },
    bson::{Document, RawDocumentBuf, doc},
    check::Fault,
    prelude::*,
};

/// Carries out all that is owed, and looks; what `may_find` says may be there.
pub(super) async fn at_rest<S: Schema>(
    backend: Arc<dyn Backend>,
    may_find: fn(&Fault) -> bool,
) -> Result<(), String> {
    let db = odm::Database::<S>::with_backend(backend.clone());
    let said = |error: odm::Error| error.to_string();
    // What is carried out may owe something further.
    for _ in 0..4 {
        overdue::<S>(&backend).await;
        db.settle().await.map_err(said)?;
    }
    let owed = db.owed().await.map_err(said)?;
    if !owed.is_empty() {
        return Err(format!("there is owed {owed}"));
    }
    let mut report = db.check().await.map_err(said)?;
    report.findings.retain(|finding| !may_find(&finding.fault));
    match report.is_clean() {
        true => Ok(()),
        false => Err(report.to_string()),
    }
}

/// Nobody waits for what another may still be doing.
pub(super) async fn overdue<S: Schema>(backend: &Arc<dyn Backend>) {
    let raw = |document: Document| RawDocumentBuf::try_from(&document).expect("a document");
    for model in S::MODELS {
        for promise in ["fan.", "verify.", "count.", "recount.", ""] {
            let due = format!("_odm.{promise}due");
            let update = Update {
                collection: model.collection.into(),
                filter: raw(doc! { &due: { "$exists": true } }),
                change: Change::operators(raw(doc! { "$set": { due: DateTime::from_millis(0) } })),
                multi: true,
                upsert: false,
            };
            // Where a write is under way it is looked at again.
            let _ = backend.update(update).await;
        }
    }
}
