//! Synchronization of declared indexes with the database.

use std::{collections::BTreeSet, fmt, pin::Pin, sync::Arc};

use bson::Bson;

use super::{
    Model, Schema,
    missing_indexes::{MissingIndexes, MissingIndexesOf, missing_among},
};
use crate::{
    Error, ErrorKind, Result,
    backend::{
        Backend,
        operation::{Direction, Index, ShardKey},
    },
    error,
    model::stored::format_document,
    write,
};

/// MongoDB's codes for a conflict of two indexes: equal keys, or equal names.
const INDEX_CONFLICT_CODES: [i32; 2] = [85, 86];

/// Synchronizes the declared indexes with the database. [`Database::sync_indexes`](crate::Database::sync_indexes) creates this
/// action.
///
/// The action creates missing indexes and reports differences. It drops indexes only on request. On a sharded cluster the action
/// also shards the collection of each model with a `shard_key`. A collection with another shard key is reported and stays
/// unchanged.
///
/// The action tries every index, also after a failure. After a failure the error has the kind of the first failure, and its
/// message contains the whole report. [`Error::index_report`](crate::Error::index_report) returns the report.
///
/// # Errors
///
/// [`Unsupported`](crate::ErrorKind::Unsupported), before any change, if an index would expire documents that rollups, copies or
/// links are derived from: the server deletes documents without follow-up work. [`Connection`](crate::ErrorKind::Connection) ends
/// the call at once.
#[must_use = "indexes are synchronized when this is awaited"]
#[derive(Debug)]
pub struct SyncIndexes {
    backend: Arc<dyn Backend>,
    models: Vec<&'static Model>,
    /// The declared indexes of each collection.
    declared: Vec<(&'static Model, Vec<Index>)>,
    replace_differing: bool,
    drop_undeclared: bool,
    is_dry_run: bool,
}

/// The differences that [`SyncIndexes`] found, and its changes.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct IndexReport {
    /// Declared indexes that were missing and have been created.
    pub created: Vec<(String, Index)>,
    /// Indexes with other options than declared, or with the name of a declared index: unchanged, or replaced on request. The
    /// tuple contains the collection, the declared index and the found index.
    pub differing: Vec<(String, Index, Index)>,
    /// Indexes that differed in the expiry time alone and were changed in place on request. The tuple contains the collection,
    /// the declared index and the found index.
    pub changed: Vec<(String, Index, Index)>,
    /// Indexes that no model declares: unchanged, or dropped on request.
    pub undeclared: Vec<(String, Index)>,
    /// Indexes that were dropped on request.
    pub dropped: Vec<(String, Index)>,
    /// Indexes that could not be created, changed or dropped. With failures the report is part of an
    /// [error](crate::Error::index_report).
    pub failed: Vec<FailedIndex>,
    /// Collections that this call has sharded by their declared shard key.
    pub sharded: Vec<(String, ShardKey)>,
    /// Collections with another shard key than declared, which stay unchanged. The tuple contains the collection, the declared
    /// key and the found key.
    pub differently_sharded: Vec<(String, ShardKey, ShardKey)>,
    /// Collections with a declared shard key that are not sharded, because the database is not a sharded cluster.
    pub unsharded: Vec<(String, ShardKey)>,
}

/// An index that could not be created, changed or dropped.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FailedIndex {
    /// The collection.
    pub collection: String,
    /// The index.
    pub index: Index,
    /// The failure.
    pub error: Error,
}

impl PartialEq for FailedIndex {
    /// Compares errors by their text.
    fn eq(&self, other: &Self) -> bool {
        self.collection == other.collection
            && self.index == other.index
            && self.error.to_string() == other.error.to_string()
    }
}

impl SyncIndexes {
    pub(crate) fn new<S: Schema>(backend: Arc<dyn Backend>) -> Self {
        let declared = write::with_derived_indexes(S::indexes(), S::MODELS);
        let mut models = S::MODELS.to_vec();
        let declared_models = declared.iter().map(|(model, _)| *model);
        let overflow_models = declared_models
            .filter(|model| !S::MODELS.iter().any(|other| std::ptr::eq(*other, *model)));
        models.extend(overflow_models);
        Self {
            backend,
            models,
            declared: by_collection(declared),
            replace_differing: false,
            drop_undeclared: false,
            is_dry_run: false,
        }
    }

    /// Replaces indexes that differ from their declaration. A different expiry time is changed in place.
    ///
    /// The new index is built before the old index is dropped. If the old index has the declared name, the new index gets a name
    /// such as `email_1_2`. So queries always have an index, and a unique index that fails on duplicates leaves the old index in
    /// place.
    ///
    /// Two changes happen in the opposite order, because the server rejects both indexes side by side: the removal of
    /// `expire_after_seconds`, and `unique` or `sparse` before MongoDB 5.0. For these changes the old index is dropped first. It
    /// is created again if the new index fails.
    pub fn replace_differing(mut self) -> Self {
        self.replace_differing = true;
        self
    }

    /// Drops undeclared indexes of the models' collections.
    ///
    /// Indexes that no model can declare are reported and stay: indexes with a collation, and text, geographic and wildcard
    /// indexes.
    pub fn drop_undeclared(mut self) -> Self {
        self.drop_undeclared = true;
        self
    }

    /// Writes nothing. The report lists the indexes that would be created, dropped or changed.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "parts")]
    /// # struct Part { #[serde(rename = "_id")] id: i64, #[index] name: String }
    /// # #[derive(Schema)] #[schema(models(Part))] struct Shop;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// let db = odm::Database::<Shop>::open("memory:").await?;
    /// assert_eq!(db.sync_indexes().dry_run().await?.created.len(), 1);
    /// assert_eq!(db.backend().list_indexes("parts").await?, []);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    pub fn dry_run(mut self) -> Self {
        self.is_dry_run = true;
        self
    }

    /// Logs a warning for each model with a scope and without an index that begins with the scope. Every query of a session would read
    /// the documents of all scopes.
    pub(crate) fn warn_of_scopes_without_index(&self) {
        for model in &self.models {
            let Some(scope) = model.scope else {
                continue;
            };
            let of_collection =
                |(other, _): &&(&Model, Vec<Index>)| other.collection == model.collection;
            let declared = self.declared.iter().filter(of_collection);
            let mut declared = declared.flat_map(|(_, indexes)| indexes);
            // A partial index serves few queries.
            let begins_with_scope = |index: &Index| {
                let is_complete =
                    index.partial.is_none() && !index.sparse && index.hashed.is_none();
                is_complete
                    && index
                        .keys
                        .first()
                        .is_some_and(|(path, _)| path == scope.stored)
            };
            let is_sharded_by_scope = model.shard_key.first() == Some(&scope.stored);
            if !declared.any(begins_with_scope) && !is_sharded_by_scope {
                tracing::warn!(
                    target: "odm::indexes",
                    model = model.name, collection = model.collection,
                    "no index begins with the scope `{scope}`, so the queries of a session read the documents of all scopes: declare `index({scope})` in `#[document(…)]`",
                    scope = scope.stored
                );
            }
        }
    }

    /// Compares the declared indexes with the database, and changes nothing.
    pub(crate) async fn find_missing(self) -> Result<MissingIndexes> {
        let existing: BTreeSet<_> = self.backend.list_collections().await?.into_iter().collect();
        let mut collections = Vec::with_capacity(self.declared.len());
        for (model, declared) in &self.declared {
            let collection_exists = existing.contains(model.collection);
            let found = match collection_exists && !declared.is_empty() {
                true => self.backend.list_indexes(model.collection).await?,
                false => Vec::new(),
            };
            collections.push(MissingIndexesOf {
                model,
                collection_exists,
                indexes: missing_among(declared, &found),
            });
        }
        Ok(MissingIndexes::new(collections))
    }

    async fn sync_all_collections(self) -> Result<IndexReport> {
        for (model, declared) in &self.declared {
            ensure_no_derived_expiry(&self.models, model, declared)?;
        }
        let mut report = IndexReport::default();
        let mut first_error = None;
        for (model, declared) in &self.declared {
            if let Err(error) = self.sync_collection(model, declared, &mut report).await {
                let is_disconnected = error.kind() == ErrorKind::Connection;
                first_error.get_or_insert(error);
                if is_disconnected {
                    break;
                }
            }
        }
        let first_failure = report.failed.first().map(|failed| failed.error.clone());
        let Some(error) = first_error.or(first_failure) else {
            return Ok(report);
        };
        let message = match report.failed.len() {
            0 => error.message().to_owned(),
            count => {
                let hint = self.backfill_hint(&report).unwrap_or_default();
                format!("cannot synchronize {count} indexes:\n{report}{hint}")
            }
        };
        let with_report = Error::new(error.kind(), message).with_index_report(report);
        Err(with_report.with_source(error))
    }

    /// Returns what to do if the index of sequence numbers fails because documents without a number have equal keys.
    fn backfill_hint(&self, report: &IndexReport) -> Option<String> {
        let is_of_numbers = |model: &Model, failed: &FailedIndex| {
            let last = failed.index.keys.last().map(|(path, _)| path.as_str());
            let mut numbers = model.sequences.iter().map(|sequence| sequence.stored);
            model.collection == failed.collection && numbers.any(|number| Some(number) == last)
        };
        let failed = report.failed.iter();
        let mut duplicates = failed.filter(|failed| lacks_last_value(&failed.error));
        let model = duplicates.find_map(|failed| {
            let mut models = self.models.iter();
            models.find(|model| is_of_numbers(model, failed))
        })?;
        let name = model.name;
        let upgrade = match model.schema_version {
            1 => String::new(),
            _ => format!("`db.upgrade::<{name}>()`, "),
        };
        Some(format!(
            "\ndocuments without a sequence number are duplicates of each other: run {upgrade}`db.repair().only::<{name}>().apply()`, \
             then `db.sync_indexes()` again",
        ))
    }

    /// Synchronises one collection. Failures of single indexes go to the report.
    async fn sync_collection(
        &self,
        model: &Model,
        declared: &[Index],
        report: &mut IndexReport,
    ) -> Result<()> {
        let collection = model.collection;
        if let Err(error) = self.sync_indexes_of(collection, declared, report).await {
            // The list of indexes failed, so no index of the collection was tried.
            for index in declared {
                record_failure(report, collection, index, error.clone())?;
            }
            if declared.is_empty() {
                return Err(error);
            }
            return Ok(());
        }
        if let Some(key) = model.shard_key() {
            let index = key.index();
            if let Err(error) = self.sync_shard_key(collection, key, report).await {
                record_failure(report, collection, &index, error)?;
            }
        }
        Ok(())
    }

    /// Shards a collection by its declared key. The index of the key exists already, which MongoDB requires.
    async fn sync_shard_key(
        &self,
        collection: &str,
        key: ShardKey,
        report: &mut IndexReport,
    ) -> Result<()> {
        let name = collection.to_owned();
        if !self.backend.capabilities().sharding {
            report.unsharded.push((name, key));
            return Ok(());
        }
        match self.backend.shard_key_of(collection).await? {
            Some(actual) if actual == key => {}
            Some(actual) => report.differently_sharded.push((name, key, actual)),
            None => {
                if !self.is_dry_run {
                    let sharding = self.backend.shard_collection(collection, key.clone());
                    sharding.await?;
                }
                report.sharded.push((name, key));
            }
        }
        Ok(())
    }

    async fn sync_indexes_of(
        &self,
        collection: &str,
        declared: &[Index],
        report: &mut IndexReport,
    ) -> Result<()> {
        let mut actual = self.backend.list_indexes(collection).await?;
        let mut names = IndexNames::default();
        names
            .found
            .extend(actual.iter().map(|index| index.name.clone()));
        let mut differences = Vec::new();
        // Take exact matches first, so that no other declared index is compared with an index that already matches.
        for index in declared {
            match actual
                .iter()
                .position(|candidate| !options_differ(index, candidate))
            {
                Some(position) => drop(actual.swap_remove(position)),
                None => differences.push(index),
            }
        }
        let mut missing = Vec::new();
        for index in differences {
            let same_keys = actual
                .iter()
                .position(|candidate| has_same_keys(index, candidate));
            let same_name = || {
                actual
                    .iter()
                    .position(|candidate| candidate.name == index.name)
            };
            match same_keys.or_else(same_name) {
                None => {
                    let name = names.unused_name(&index.name);
                    names.found.insert(name.clone());
                    missing.push(Index {
                        name,
                        ..index.clone()
                    });
                }
                Some(position) => {
                    let existing = actual.swap_remove(position);
                    if self.replace_differing {
                        self.replace_index(collection, (index, &existing), &mut names, report)
                            .await?;
                    }
                    let difference = (collection.to_owned(), index.clone(), existing);
                    report.differing.push(difference);
                }
            }
        }
        self.create_all(collection, missing, report).await?;
        for index in actual {
            // An earlier replacement built the new index under another name, and ended before it dropped this index.
            let was_replaced = declared.iter().find(|other| other.name == index.name);
            let is_dropped = match was_replaced {
                Some(declared) => {
                    let difference = (collection.to_owned(), declared.clone(), index.clone());
                    report.differing.push(difference);
                    self.replace_differing
                }
                None => self.drop_undeclared && index.unsupported_definition.is_none(),
            };
            if is_dropped {
                self.drop_index(collection, &index, report).await?;
            }
            if was_replaced.is_none() {
                report.undeclared.push((collection.to_owned(), index));
            }
        }
        Ok(())
    }

    /// Creates all indexes in one command. After a failure creates each index separately, so that one failure stops no other
    /// index.
    async fn create_all(
        &self,
        collection: &str,
        missing: Vec<Index>,
        report: &mut IndexReport,
    ) -> Result<()> {
        if missing.is_empty() {
            return Ok(());
        }
        let all = self.backend.create_indexes(collection, missing.clone());
        if self.is_dry_run || all.await.is_ok() {
            let created = missing.into_iter();
            let created = created.map(|index| (collection.to_owned(), index));
            report.created.extend(created);
            return Ok(());
        }
        for index in missing {
            let created = self.backend.create_indexes(collection, vec![index.clone()]);
            match created.await {
                Ok(()) => report.created.push((collection.to_owned(), index)),
                Err(error) => record_failure(report, collection, &index, error)?,
            }
        }
        Ok(())
    }

    /// Builds the declared index, then drops the found index.
    async fn replace_index(
        &self,
        collection: &str,
        (declared, actual): (&Index, &Index),
        names: &mut IndexNames,
        report: &mut IndexReport,
    ) -> Result<()> {
        let backend = &self.backend;
        if let Some(after) = declared.expire_after
            && differs_in_expiry_alone(declared, actual)
        {
            let changed = match self.is_dry_run {
                true => Ok(()),
                false => backend.set_expiry(collection, &actual.name, after).await,
            };
            return match changed {
                Ok(()) => {
                    let changed = (collection.to_owned(), declared.clone(), actual.clone());
                    report.changed.push(changed);
                    Ok(())
                }
                Err(error) => record_failure(report, collection, declared, error),
            };
        }
        let name = names.unused_name(&declared.name);
        let new = Index {
            name: name.clone(),
            ..declared.clone()
        };
        let created = match self.is_dry_run {
            true => Ok(()),
            false => backend.create_indexes(collection, vec![new.clone()]).await,
        };
        match created {
            Ok(()) => {
                names.found.insert(name);
                report.created.push((collection.to_owned(), new));
                self.drop_index(collection, actual, report).await
            }
            Err(error)
                if error
                    .code()
                    .is_some_and(|code| INDEX_CONFLICT_CODES.contains(&code)) =>
            {
                self.replace_in_place(collection, (declared, actual), report)
                    .await
            }
            Err(error) => record_failure(report, collection, declared, error),
        }
    }

    /// Drops the found index, then builds the declared index: the server rejects both indexes side by side.
    async fn replace_in_place(
        &self,
        collection: &str,
        (declared, actual): (&Index, &Index),
        report: &mut IndexReport,
    ) -> Result<()> {
        let backend = &self.backend;
        let failures_before = report.failed.len();
        self.drop_index(collection, actual, report).await?;
        if report.failed.len() > failures_before {
            return Ok(());
        }
        let created = backend.create_indexes(collection, vec![declared.clone()]);
        let Err(error) = created.await else {
            report
                .created
                .push((collection.to_owned(), declared.clone()));
            return Ok(());
        };
        if actual.unsupported_definition.is_none() {
            let restored = backend.create_indexes(collection, vec![actual.clone()]);
            if restored.await.is_ok() {
                report.dropped.pop();
            }
        }
        record_failure(report, collection, declared, error)
    }

    async fn drop_index(
        &self,
        collection: &str,
        index: &Index,
        report: &mut IndexReport,
    ) -> Result<()> {
        let dropped = match self.is_dry_run {
            true => Ok(()),
            false => self.backend.drop_index(collection, &index.name).await,
        };
        match dropped {
            Ok(()) => report.dropped.push((collection.to_owned(), index.clone())),
            // Another process dropped the index first.
            Err(error) if error.is_not_found() => {}
            Err(error) => record_failure(report, collection, index, error)?,
        }
        Ok(())
    }
}

/// Adds a failure to the report. Returns the error of a lost connection, which ends the synchronisation.
fn record_failure(
    report: &mut IndexReport,
    collection: &str,
    index: &Index,
    error: Error,
) -> Result<()> {
    if error.kind() == ErrorKind::Connection {
        return Err(error);
    }
    report.failed.push(FailedIndex {
        collection: collection.to_owned(),
        index: index.clone(),
        error,
    });
    Ok(())
}

impl IntoFuture for SyncIndexes {
    type Output = Result<IndexReport>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.sync_all_collections())
    }
}

/// Groups the indexes by collection, without repetitions and with distinct names: the server rejects equal names.
fn by_collection(declared: Vec<(&'static Model, Vec<Index>)>) -> Vec<(&'static Model, Vec<Index>)> {
    let mut collections: Vec<(&'static Model, Vec<Index>)> = Vec::new();
    for (model, indexes) in declared {
        let mut models = collections.iter().map(|(model, _)| model.collection);
        let position = models.position(|collection| collection == model.collection);
        let position = position.unwrap_or_else(|| {
            collections.push((model, Vec::new()));
            collections.len() - 1
        });
        let Some((_, merged)) = collections.get_mut(position) else {
            continue;
        };
        for mut index in indexes {
            if merged.iter().any(|other| !options_differ(&index, other)) {
                continue;
            }
            let mut names = IndexNames::default();
            names
                .declared
                .extend(merged.iter().map(|other| other.name.clone()));
            index.name = names.unused_name(&index.name);
            merged.push(index);
        }
    }
    collections
}

/// The names of the indexes of a collection.
#[derive(Debug, Default)]
struct IndexNames {
    /// The names in the database.
    found: BTreeSet<String>,
    declared: BTreeSet<String>,
}

impl IndexNames {
    /// Returns the declared name if the name is unused, otherwise the name with a number.
    fn unused_name(&self, declared: &str) -> String {
        let is_free = |name: &String| !self.found.contains(name) && !self.declared.contains(name);
        let mut numbered = (2..).map(|number| format!("{declared}_{number}"));
        let unnumbered = Some(declared.to_owned()).filter(is_free);
        unnumbered
            .or_else(|| numbered.find(is_free))
            .unwrap_or_default()
    }
}

/// Checks that no index expires documents with derived data: the server deletes documents without follow-up work.
fn ensure_no_derived_expiry(
    models: &[&'static Model],
    model: &Model,
    declared: &[Index],
) -> Result<()> {
    let Some(index) = declared.iter().find(|index| index.expire_after.is_some()) else {
        return Ok(());
    };
    let reject = |reason: String| {
        let message = format!(
            "the index `{}` expires documents without follow-up work: {reason}",
            index.name
        );
        let error = Error::new(ErrorKind::Unsupported, message);
        Err(error::naming_model(model)(error))
    };
    // An index covers all models of the collection.
    let neighbours = models.iter();
    for neighbour in neighbours.filter(|neighbour| neighbour.collection == model.collection) {
        if let Some(link) = neighbour.links().iter().find(|link| link.inverse.is_some()) {
            return reject(format!(
                "the targets of `{}` would keep the expired documents in their inverse; remove `inverse` or \
                 `expire_after_seconds`, and delete the documents with `delete_many`",
                link.link_field.field
            ));
        }
        if let Some(field) = neighbour.overflows.first() {
            return reject(format!(
                "the spilled elements of `{}` would stay; remove `expire_after_seconds`, and delete the documents with \
                 `delete_many`",
                field.field
            ));
        }
    }
    for other in models {
        let mut links = other.links().iter();
        let referrer = links.find(|link| {
            link.link_field.collection == model.collection && link.on_delete.requires_target()
        });
        if let Some(link) = referrer {
            return reject(format!(
                "`{}` of {} refers to the expired documents; set `on_delete = keep` there, or remove `expire_after_seconds` and \
                 delete the documents with `delete_many`",
                link.link_field.field, other.name
            ));
        }
        let mut rollups = other.rollups.iter();
        if let Some(rollup) = rollups.find(|rollup| rollup.collection == model.collection) {
            return reject(format!(
                "the rollup `{}` of {} would still contain the expired documents; remove `expire_after_seconds`, and delete the \
                 documents with `delete_many`",
                rollup.field, other.name
            ));
        }
        if let Some(copy) = write::cleared_path(other, model) {
            return reject(format!(
                "the copy `{copy}` of {} would not be cleared; remove `on_delete = clear` there, or remove \
                 `expire_after_seconds` and delete the documents with `delete_many`",
                other.name
            ));
        }
    }
    Ok(())
}

/// Whether a found index has the keys and the condition of the declared index.
fn has_same_keys(declared: &Index, actual: &Index) -> bool {
    let keys = |index: &Index| (index.keys.clone(), index.hashed.clone());
    actual.unsupported_definition.is_none()
        && keys(declared) == keys(actual)
        && declared.partial == actual.partial
}

/// Whether two indexes differ in more than the name. The creator of an index chooses the name freely.
pub(super) fn options_differ(declared: &Index, actual: &Index) -> bool {
    let nameless = |index: &Index| Index {
        name: String::new(),
        ..index.clone()
    };
    nameless(declared) != nameless(actual)
}

fn differs_in_expiry_alone(declared: &Index, actual: &Index) -> bool {
    let actual = Index {
        expire_after: declared.expire_after,
        ..actual.clone()
    };
    !options_differ(declared, &actual)
}

impl fmt::Display for IndexReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return f.write_str("every index is as declared");
        }
        let mut lines = Vec::new();
        let name =
            |collection: &str, index: &Index| format!("{collection}: {}", describe_index(index));
        for (collection, index) in &self.created {
            lines.push(format!("created    {}", name(collection, index)));
        }
        for (collection, declared, actual) in &self.differing {
            lines.push(format!(
                "differs    {}, declared as {}",
                name(collection, actual),
                describe_index(declared)
            ));
        }
        for (collection, declared, actual) in &self.changed {
            lines.push(format!(
                "changed    {}, which was {}",
                name(collection, declared),
                describe_index(actual)
            ));
        }
        for failed in &self.failed {
            let FailedIndex {
                collection,
                index,
                error,
            } = failed;
            lines.push(format!("failed     {}: {error}", name(collection, index)));
        }
        for (collection, index) in &self.undeclared {
            lines.push(format!("undeclared {}", name(collection, index)));
        }
        for (collection, index) in &self.dropped {
            lines.push(format!("dropped    {}", name(collection, index)));
        }
        for (collection, key) in &self.sharded {
            lines.push(format!("sharded    {collection} by {key}"));
        }
        for (collection, declared, actual) in &self.differently_sharded {
            lines.push(format!(
                "differs    {collection} is sharded by {actual}, declared as {declared}: left as it is"
            ));
        }
        for (collection, key) in &self.unsharded {
            lines.push(format!(
                "unsharded  {collection} by {key}: the database is no sharded cluster"
            ));
        }
        f.write_str(&lines.join("\n"))
    }
}

pub(super) fn describe_index(index: &Index) -> String {
    let keys: Vec<_> = index
        .keys
        .iter()
        .map(|(path, direction)| match direction {
            _ if index.hashed.as_ref() == Some(path) => format!("hashed {path}"),
            Direction::Ascending => path.clone(),
            Direction::Descending => format!("-{path}"),
        })
        .collect();
    let mut text = format!("{} ({})", index.name, keys.join(", "));
    if index.unique {
        text.push_str(" unique");
    }
    if index.sparse {
        text.push_str(" sparse");
    }
    if let Some(partial) = &index.partial {
        text.push_str(&format!(" partial {}", format_document(partial)));
    }
    if let Some(after) = index.expire_after {
        text.push_str(&format!(" expires after {} s", after.as_secs()));
    }
    if let Some(other) = &index.unsupported_definition {
        text.push_str(&format!(" {}", format_document(other)));
    }
    text
}

/// Returns whether an error is about duplicate keys that end with null.
fn lacks_last_value(error: &Error) -> bool {
    let last = match error.value() {
        Some(Bson::Document(key)) => key.values().last(),
        value => value,
    };
    error.is_duplicate_key() && last == Some(&Bson::Null)
}
