//! The indexes for fan-outs: dependents by reference, and pending work by lease.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use super::{
    is_dependent,
    layout::{CopyGroup, copy_groups, dependent_groups},
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{Direction, Index, Stage},
    error,
    pending::record::PendingKind,
    schema::Model,
    session::access::Access,
    write::maintainer::DeclaredIndexes,
};

/// Adds the indexes that find dependents and pending work to the declared indexes.
pub(super) fn add_copy_indexes(models: &[&'static Model], declared: &mut [DeclaredIndexes]) {
    for (model, indexes) in declared {
        for group in copy_groups(model)
            .iter()
            .filter(|group| group.has_fan_out())
        {
            Index::declare_on(group.reference_path(), indexes);
        }
        if is_dependent(model) {
            indexes.push(Index::sparse_on(PendingKind::REVALIDATE.lease_path()));
        }
        if dependent_groups(models, model).next().is_some() {
            indexes.push(Index::sparse_on(PendingKind::FAN_OUT.lease_path()));
        }
    }
}

/// The reference paths that are known to have an index. All handles of a database share the list.
#[derive(Debug, Default)]
pub(crate) struct IndexedReferences(Mutex<HashSet<(&'static str, String)>>);

impl IndexedReferences {
    fn with_known<R>(&self, change: impl FnOnce(&mut HashSet<(&'static str, String)>) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Rejects a write whose fan-out would scan a whole collection for dependents, because the reference has no index.
///
/// # Errors
///
/// [`Unsupported`](ErrorKind::Unsupported) if an index is missing and the collection has documents.
pub(super) async fn ensure_indexed(access: &Access, dependents: &[CopyGroup]) -> Result<()> {
    for group in dependents {
        let dependent_model = group.model;
        let key = (dependent_model.collection, group.reference_path());
        if access
            .shared_state()
            .index_cache
            .with_known(|known| known.contains(&key))
        {
            continue;
        }
        let indexes = access
            .backend()
            .list_indexes(dependent_model.collection)
            .await;
        let indexes = indexes.map_err(error::naming_model(dependent_model))?;
        let required = Index::new(vec![(key.1.clone(), Direction::Ascending)]);
        if !indexes.iter().any(|index| index.serves_as(&required)) {
            let origin = Stage::COPIES.step("look for dependents without an index");
            let has_dependents = access
                .has_documents(dependent_model.collection, origin)
                .await;
            if !has_dependents.map_err(error::naming_model(dependent_model))? {
                continue;
            }
            let message = format!(
                "a write to copied fields needs an index on `{path}` of `{collection}`, and nothing was written: call `sync_indexes`",
                collection = dependent_model.collection,
                path = key.1
            );
            let error = Error::new(ErrorKind::Unsupported, message).with_path(key.1);
            return Err(error::naming_model(dependent_model)(error));
        }
        access
            .shared_state()
            .index_cache
            .with_known(|known| known.insert(key));
    }
    Ok(())
}
