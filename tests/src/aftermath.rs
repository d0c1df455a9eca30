//! The check at the end of a test, after all processes have ended or crashed: complete pending work, then check the database.

use std::sync::Arc;

use odm::{
    Database, Result, Schema,
    backend::{
        Backend,
        operation::{DocumentChange, UpdateOperation},
    },
    bson::{Document, RawDocumentBuf, doc},
    check::FindingKind,
    pending::PendingWork,
    prelude::*,
};

/// Sets every stored lease to 1970, so that recovery does not wait for processes that may still be working.
///
/// # Errors
///
/// Errors of the backend.
pub async fn expire_leases<S: Schema>(backend: &Arc<dyn Backend>) -> Result<()> {
    let long_ago = DateTime::from_millis(0);
    for (collection, lease) in lease_paths::<S>() {
        let raw =
            |document: Document| RawDocumentBuf::try_from(&document).expect("names without a zero");
        let write = UpdateOperation {
            collection: collection.into(),
            filter: raw(doc! { &lease: { "$exists": true } }),
            change: DocumentChange::operators(raw(doc! { "$set": { &lease: long_ago } })),
            multi: true,
            upsert: false,
            origin: Default::default(),
        };
        backend.update(write).await?;
    }
    Ok(())
}

/// Returns the collection and the path of each lease that documents of a schema can have.
pub(crate) fn lease_paths<S: Schema>() -> Vec<(&'static str, String)> {
    let mut paths = Vec::new();
    for model in S::MODELS {
        for lease in [
            "_odm.pending.references.lease",
            "_odm.pending.fan_out.lease",
            "_odm.pending.revalidate.lease",
            "_odm.pending.rollup.lease",
            "_odm.pending.recompute.lease",
        ] {
            paths.push((model.collection, lease.to_owned()));
        }
        for field in model.overflows {
            let work = format!("{}.lease", field.pending_change);
            paths.push((model.collection, work));
            paths.push((field.chunks.collection, "_odm.provisional.lease".to_owned()));
        }
    }
    paths
}

/// The maximum number of recovery rounds. Completed work may create new pending work.
const MAX_RECOVERY_ROUNDS: usize = 4;

/// Completes all pending work, and checks the database. Ignores findings for which `may_find` returns true.
///
/// # Errors
///
/// Pending work remains, the check has findings, or the backend fails.
pub async fn recover_and_check<S: Schema>(
    backend: Arc<dyn Backend>,
    may_find: fn(&FindingKind) -> bool,
) -> Result<(), String> {
    let message = |error: odm::Error| error.to_string();
    let db = Database::<S>::with_backend(backend.clone());
    let mut pending = PendingWork::default();
    for _ in 0..MAX_RECOVERY_ROUNDS {
        expire_leases::<S>(&backend).await.map_err(message)?;
        db.run_pending().await.map_err(message)?;
        pending = db.pending().await.map_err(message)?;
        if pending.is_empty() {
            break;
        }
    }
    if !pending.is_empty() {
        return Err(format!("pending work remains: {pending}"));
    }
    let mut report = db.check().await.map_err(message)?;
    report.findings.retain(|found| !may_find(&found.kind));
    match report.is_clean() {
        true => Ok(()),
        false => Err(report.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        Fixture,
        storm::{copies::Net, rollups::Blog},
    };

    #[derive(Debug, Clone, Serialize, Deserialize, Document)]
    #[document(collection = "sales")]
    struct Sale {
        #[serde(rename = "_id")]
        id: i64,
        #[embed(overflow(after = 2, into = "extra_sales", owner = "sale"))]
        customers: Overflow<String>,
    }

    #[derive(Schema)]
    #[schema(models(Sale))]
    struct Shop;

    /// Adds the lease paths of a schema that have an index, and the lease paths that [`expire_leases`] writes.
    async fn add_lease_paths<S: Schema>(
        indexed: &mut BTreeSet<String>,
        known: &mut BTreeSet<String>,
    ) {
        let fixture = Fixture::engine_memory().await;
        let db = Database::<S>::with_backend(fixture.backend());
        db.sync_indexes().await.expect("indexes");
        for (collection, path) in lease_paths::<S>() {
            known.insert(path);
            let indexes = fixture.backend().list_indexes(collection).await;
            for index in indexes.expect("indexes") {
                let paths = index.keys.into_iter().map(|(path, _)| path);
                indexed.extend(paths.filter(|path| path.ends_with(".lease")));
            }
        }
    }

    /// A lease at an unknown path would stay valid, and recovery would find no work. Each kind of lease has an index.
    #[tokio::test]
    async fn expired_leases_include_all_indexed_leases() {
        let (mut indexed, mut known) = (BTreeSet::new(), BTreeSet::new());
        add_lease_paths::<Net>(&mut indexed, &mut known).await;
        add_lease_paths::<Blog>(&mut indexed, &mut known).await;
        add_lease_paths::<Shop>(&mut indexed, &mut known).await;
        assert_eq!(known.len(), 7);
        assert_eq!(indexed, known);
    }
}
