//! Declared indexes that the database does not have.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    Model,
    sync::{describe_index, options_differ},
};
use crate::{
    Error, ErrorKind, Result,
    backend::{Backend, operation::Index},
    error,
};

/// The declared indexes that a database does not have, of each collection.
#[derive(Debug, Default)]
pub(crate) struct MissingIndexes(Vec<MissingIndexesOf>);

/// The declared indexes that one collection does not have.
#[derive(Debug)]
pub(super) struct MissingIndexesOf {
    pub(super) model: &'static Model,
    pub(super) collection_exists: bool,
    pub(super) indexes: Vec<Index>,
}

impl MissingIndexes {
    pub(super) fn new(collections: Vec<MissingIndexesOf>) -> Self {
        let has_missing = |of: &MissingIndexesOf| !of.indexes.is_empty();
        Self(collections.into_iter().filter(has_missing).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Logs a warning for each missing index of an existing collection. A new database has no collection yet.
    pub(crate) fn warn_for_existing_collections(&self) {
        for of in self.0.iter().filter(|of| of.collection_exists) {
            for index in &of.indexes {
                tracing::warn!(
                    target: "odm::indexes",
                    model = of.model.name, collection = of.model.collection, index = describe_index(index),
                    "a declared index is missing in the database; run `db.sync_indexes().await`"
                );
            }
        }
    }
}

impl fmt::Display for MissingIndexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_all = self.0.iter().flat_map(|of| {
            let indexes = of.indexes.iter();
            indexes.map(|index| format!("{}: {}", of.model.collection, describe_index(index)))
        });
        f.write_str(&of_all.collect::<Vec<_>>().join("\n"))
    }
}

/// Returns the declared indexes that are not among the found indexes. The names may differ.
pub(super) fn missing_among(declared: &[Index], found: &[Index]) -> Vec<Index> {
    let is_missing = |index: &&Index| !found.iter().any(|other| !options_differ(index, other));
    declared.iter().filter(is_missing).cloned().collect()
}

/// The collections of a database that lack a declared unique index, as far as is known.
#[derive(Debug, Default)]
pub(crate) struct MissingUniqueIndexes {
    /// Whether `collections` has entries. Every insert reads this flag.
    has_entries: AtomicBool,
    collections: Mutex<HashMap<&'static str, Vec<Index>>>,
}

impl MissingUniqueIndexes {
    /// Records the result of a comparison.
    pub(crate) fn set(&self, missing: MissingIndexes) {
        let of_collections = missing.0.into_iter().map(|of| {
            let unique = of.indexes.into_iter().filter(|index| index.unique);
            (of.model.collection, unique.collect::<Vec<_>>())
        });
        let of_collections = of_collections.filter(|(_, unique)| !unique.is_empty());
        let mut collections = self.lock_collections();
        *collections = of_collections.collect();
        self.has_entries
            .store(!collections.is_empty(), Ordering::Release);
    }

    /// Checks that the database has the declared unique indexes of a model, before an insert.
    ///
    /// # Errors
    ///
    /// [`MissingIndex`](ErrorKind::MissingIndex) for a missing index, and errors of the backend.
    pub(crate) async fn ensure_none(&self, model: &Model, backend: &dyn Backend) -> Result<()> {
        if !self.has_entries.load(Ordering::Acquire) {
            return Ok(());
        }
        let unique = self.lock_collections().get(model.collection).cloned();
        let Some(unique) = unique else {
            return Ok(());
        };
        // The indexes may have been created since `open`, by this process or by another process.
        let found = backend.list_indexes(model.collection).await;
        let found = found.map_err(error::naming_model(model))?;
        let missing = missing_among(&unique, &found);
        if let Some(index) = missing.first() {
            let message = format!(
                "the declared unique index {} is missing in the database, so that duplicates would be stored: run \
                 `db.sync_indexes().await` first (it reports an index with other options), or open the database with \
                 `IndexCheck::Off`",
                describe_index(index)
            );
            let error = Error::new(ErrorKind::MissingIndex, message);
            return Err(error::naming_model(model)(error));
        }
        let mut collections = self.lock_collections();
        collections.remove(model.collection);
        self.has_entries
            .store(!collections.is_empty(), Ordering::Release);
        Ok(())
    }

    fn lock_collections(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, Vec<Index>>> {
        self.collections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
