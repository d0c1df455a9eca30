//! What is looked at when everybody has died, or come to an end: all that is owed is carried out, and everything is as the schema says.

use std::sync::Arc;

use odm::{
    Database, Result, Schema,
    backend::{
        Backend,
        operation::{Change, Update},
    },
    bson::{Document, RawDocumentBuf, doc, raw::cstr, rawdoc},
    check::Fault,
    prelude::*,
    settled::Owed,
};

/// Nobody waits for what another may still be doing.
///
/// # Errors
///
/// Those of the backend.
pub async fn overdue<S: Schema>(backend: &Arc<dyn Backend>) -> Result<()> {
    let long_ago = DateTime::from_millis(0);
    for model in S::MODELS {
        for due in [
            cstr!("_odm.due"),
            cstr!("_odm.fan.due"),
            cstr!("_odm.verify.due"),
            cstr!("_odm.count.due"),
            cstr!("_odm.recount.due"),
        ] {
            let write = Update {
                collection: model.collection.into(),
                filter: rawdoc! { due: { "$exists": true } },
                change: Change::operators(rawdoc! { "$set": { due: long_ago } }),
                multi: true,
                upsert: false,
            };
            backend.update(write).await?;
        }
        for field in model.overflows {
            let work = (model.collection, format!("{}.due", field.work));
            let own = (field.extras.collection, "_odm.own.due".to_owned());
            for (collection, due) in [work, own] {
                let of = |document: Document| {
                    RawDocumentBuf::try_from(&document).expect("names without a zero")
                };
                let write = Update {
                    collection: collection.into(),
                    filter: of(doc! { &due: { "$exists": true } }),
                    change: Change::operators(of(doc! { "$set": { &due: long_ago } })),
                    multi: true,
                    upsert: false,
                };
                backend.update(write).await?;
            }
        }
    }
    Ok(())
}

/// How often what is carried out may owe something further.
const ROUNDS: usize = 4;

/// Carries out all that is owed, and looks at everything; but for what `may_find` says, nothing may be found.
///
/// # Errors
///
/// What is not as it must be.
pub async fn look<S: Schema>(
    backend: Arc<dyn Backend>,
    may_find: fn(&Fault) -> bool,
) -> Result<(), String> {
    let said = |error: odm::Error| error.to_string();
    let db = Database::<S>::with_backend(backend.clone());
    let mut owed = Owed::default();
    for _ in 0..ROUNDS {
        overdue::<S>(&backend).await.map_err(said)?;
        db.settle().await.map_err(said)?;
        owed = db.owed().await.map_err(said)?;
        if owed.is_empty() {
            break;
        }
    }
    if !owed.is_empty() {
        return Err(format!("there is owed {owed}"));
    }
    let mut report = db.check().await.map_err(said)?;
    report.findings.retain(|found| !may_find(&found.fault));
    match report.is_clean() {
        true => Ok(()),
        false => Err(report.to_string()),
    }
}
