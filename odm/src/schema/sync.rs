//! Declared indexes, brought to the database.

use std::{collections::BTreeSet, fmt, pin::Pin, sync::Arc};

use bson::{Document, RawDocument};

use super::{Model, OnDelete, Schema};
use crate::{
    Error, ErrorKind, Result,
    backend::{
        Backend,
        operation::{Direction, Index, ShardKey},
    },
    error, maintain,
};

/// MongoDB's codes for a conflict of two indexes: the same keys, or the same name.
const IN_THE_WAY: [i32; 2] = [85, 86];

/// Brings the declared indexes to the database; made by [`Database::sync_indexes`](crate::Database::sync_indexes).
///
/// Creates missing indexes and reports differences. Drops indexes only on request. On a sharded cluster the call also shards the
/// collection of each model with a `shard_key`; a collection with another shard key is reported and left alone.
///
/// Every index is tried, also after a failure. After a failure the error has the kind of the first failure and the whole report in the
/// message; [`Error::index_report`](crate::Error::index_report) returns the report.
///
/// # Errors
///
/// [`Unsupported`](crate::ErrorKind::Unsupported), before any change, if an index expires documents that counts, copies or links are
/// derived from: the server deletes without follow-up work. [`Connection`](crate::ErrorKind::Connection) ends the call at once.
#[must_use = "indexes are synchronised when this is awaited"]
#[derive(Debug)]
pub struct SyncIndexes {
    backend: Arc<dyn Backend>,
    models: Vec<&'static Model>,
    /// The indexes of each collection.
    declared: Vec<(&'static Model, Vec<Index>)>,
    replace_differing: bool,
    drop_undeclared: bool,
}

/// What [`SyncIndexes`] found and did.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct IndexReport {
    /// Declared, and missing before: created.
    pub created: Vec<(String, Index)>,
    /// Found with other options, or with the name of a declared index: left alone, or replaced on request. Collection, declared, found.
    pub differing: Vec<(String, Index, Index)>,
    /// Differed in the time of expiry alone: changed in place on request. Collection, declared, found.
    pub changed: Vec<(String, Index, Index)>,
    /// There, and not declared: left alone, or dropped if asked for.
    pub undeclared: Vec<(String, Index)>,
    /// Dropped, because asked for.
    pub dropped: Vec<(String, Index)>,
    /// Indexes that could not be created, changed or dropped. With failures the report is part of an
    /// [error](crate::Error::index_report).
    pub failed: Vec<FailedIndex>,
    /// Collections of models with a shard key that are sharded by it now, and were not before.
    pub sharded: Vec<(String, ShardKey)>,
    /// Collections that are sharded by another key: left as they are. Collection, declared, found.
    pub sharded_otherwise: Vec<(String, ShardKey, ShardKey)>,
    /// Collections of models with a shard key that are not sharded, because the database is no sharded cluster.
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
    /// Errors with the same text are equal.
    fn eq(&self, other: &Self) -> bool {
        self.collection == other.collection
            && self.index == other.index
            && self.error.to_string() == other.error.to_string()
    }
}

impl SyncIndexes {
    pub(crate) fn new<S: Schema>(backend: Arc<dyn Backend>) -> Self {
        let declared = maintain::with_overflows(maintain::with_tallies(
            maintain::with_copies(S::indexes(), S::MODELS),
            S::MODELS,
        ));
        let mut models = S::MODELS.to_vec();
        let all = declared.iter().map(|(model, _)| *model);
        let others =
            all.filter(|model| !S::MODELS.iter().any(|other| std::ptr::eq(*other, *model)));
        models.extend(others);
        Self {
            backend,
            models,
            declared: by_collection(declared),
            replace_differing: false,
            drop_undeclared: false,
        }
    }

    /// Replaces an index that differs from the declaration. Another time of expiry is changed in place.
    ///
    /// The new index is built before the old index is dropped, under another name such as `email_1_2` if the old index has the declared
    /// name. Queries always have an index, and a unique index that fails on duplicates leaves the old index in place.
    ///
    /// Two changes have another order, because the server refuses both indexes side by side: the removal of `expire_after_seconds`, and
    /// `unique` or `sparse` before MongoDB 5.0. There the old index is dropped first, and created again if the new index fails.
    pub fn replace_differing(mut self) -> Self {
        self.replace_differing = true;
        self
    }

    /// Drops undeclared indexes of the models' collections. Indexes that no model can declare are reported and stay: with a collation, and
    /// text, geographic and wildcard indexes.
    pub fn drop_undeclared(mut self) -> Self {
        self.drop_undeclared = true;
        self
    }

    async fn run(self) -> Result<IndexReport> {
        for (model, declared) in &self.declared {
            refuse_expiry(&self.models, model, declared)?;
        }
        let mut report = IndexReport::default();
        let mut ended = None;
        for (model, declared) in &self.declared {
            if let Err(error) = self.sync_all(model, declared, &mut report).await {
                let is_cut_off = error.kind() == ErrorKind::Connection;
                ended.get_or_insert(error);
                if is_cut_off {
                    break;
                }
            }
        }
        let first = report.failed.first().map(|failed| failed.error.clone());
        let Some(error) = ended.or(first) else {
            return Ok(report);
        };
        let message = match report.failed.len() {
            0 => error.message().to_owned(),
            count => format!("{count} indexes are not as declared:\n{report}"),
        };
        let with_report = Error::new(error.kind(), message).with_index_report(report);
        Err(with_report.with_source(error))
    }

    /// Syncs one collection. Failures of single indexes go to the report.
    async fn sync_all(
        &self,
        model: &Model,
        declared: &[Index],
        report: &mut IndexReport,
    ) -> Result<()> {
        let collection = model.collection;
        if let Err(error) = self.sync(collection, declared, report).await {
            // The list of indexes failed, so no index of the collection was tried.
            for index in declared {
                note(report, collection, index, error.clone())?;
            }
            if declared.is_empty() {
                return Err(error);
            }
            return Ok(());
        }
        if let Some(key) = model.shard_key() {
            let index = key.index();
            if let Err(error) = self.shard(collection, key, report).await {
                note(report, collection, &index, error)?;
            }
        }
        Ok(())
    }

    /// Its index is there by now.
    async fn shard(&self, collection: &str, key: ShardKey, report: &mut IndexReport) -> Result<()> {
        let name = collection.to_owned();
        if !self.backend.capabilities().sharding {
            report.unsharded.push((name, key));
            return Ok(());
        }
        match self.backend.shard_key_of(collection).await? {
            Some(found) if found == key => {}
            Some(found) => report.sharded_otherwise.push((name, key, found)),
            None => {
                let done = self.backend.shard_collection(collection, key.clone());
                done.await?;
                report.sharded.push((name, key));
            }
        }
        Ok(())
    }

    async fn sync(
        &self,
        collection: &str,
        declared: &[Index],
        report: &mut IndexReport,
    ) -> Result<()> {
        let mut found = self.backend.list_indexes(collection).await?;
        let mut names = Names::default();
        names
            .found
            .extend(found.iter().map(|index| index.name.clone()));
        let mut differing = Vec::new();
        // Exact matches first: another declared index must not be compared with one of these.
        for index in declared {
            match found.iter().position(|other| !options_differ(index, other)) {
                Some(at) => drop(found.swap_remove(at)),
                None => differing.push(index),
            }
        }
        let mut missing = Vec::new();
        for index in differing {
            let same_keys = found.iter().position(|other| has_same_keys(index, other));
            let same_name = || found.iter().position(|other| other.name == index.name);
            match same_keys.or_else(same_name) {
                None => {
                    let name = names.free(&index.name);
                    names.found.insert(name.clone());
                    missing.push(Index {
                        name,
                        ..index.clone()
                    });
                }
                Some(at) => {
                    let other = found.swap_remove(at);
                    if self.replace_differing {
                        self.replace(collection, (index, &other), &mut names, report)
                            .await?;
                    }
                    let differs = (collection.to_owned(), index.clone(), other);
                    report.differing.push(differs);
                }
            }
        }
        self.create_all(collection, missing, report).await?;
        for index in found {
            // An earlier replacement built the new index under another name and ended before the drop of this one.
            let was_replaced = declared.iter().find(|other| other.name == index.name);
            let is_dropped = match was_replaced {
                Some(declared) => {
                    let differs = (collection.to_owned(), declared.clone(), index.clone());
                    report.differing.push(differs);
                    self.replace_differing
                }
                None => self.drop_undeclared && index.other.is_none(),
            };
            if is_dropped {
                self.drop(collection, &index, report).await?;
            }
            if was_replaced.is_none() {
                report.undeclared.push((collection.to_owned(), index));
            }
        }
        Ok(())
    }

    /// Creates all in one command. After a failure creates each by itself, so that one failure stops no other index.
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
        if all.await.is_ok() {
            let created = missing.into_iter();
            let created = created.map(|index| (collection.to_owned(), index));
            report.created.extend(created);
            return Ok(());
        }
        for index in missing {
            let created = self.backend.create_indexes(collection, vec![index.clone()]);
            match created.await {
                Ok(()) => report.created.push((collection.to_owned(), index)),
                Err(error) => note(report, collection, &index, error)?,
            }
        }
        Ok(())
    }

    /// Builds the declared index, then drops the found index.
    async fn replace(
        &self,
        collection: &str,
        (declared, found): (&Index, &Index),
        names: &mut Names,
        report: &mut IndexReport,
    ) -> Result<()> {
        let backend = &self.backend;
        if let Some(after) = declared.expire_after
            && differs_in_expiry_alone(declared, found)
        {
            let changed = backend.set_expiry(collection, &found.name, after).await;
            return match changed {
                Ok(()) => {
                    let changed = (collection.to_owned(), declared.clone(), found.clone());
                    report.changed.push(changed);
                    Ok(())
                }
                Err(error) => note(report, collection, declared, error),
            };
        }
        let name = names.free(&declared.name);
        let new = Index {
            name: name.clone(),
            ..declared.clone()
        };
        let created = backend.create_indexes(collection, vec![new.clone()]).await;
        match created {
            Ok(()) => {
                names.found.insert(name);
                report.created.push((collection.to_owned(), new));
                self.drop(collection, found, report).await
            }
            Err(error) if error.code().is_some_and(|code| IN_THE_WAY.contains(&code)) => {
                self.replace_in_its_place(collection, (declared, found), report)
                    .await
            }
            Err(error) => note(report, collection, declared, error),
        }
    }

    /// Drops the found index, then builds the declared index: the server refuses both side by side.
    async fn replace_in_its_place(
        &self,
        collection: &str,
        (declared, found): (&Index, &Index),
        report: &mut IndexReport,
    ) -> Result<()> {
        let backend = &self.backend;
        let failed = report.failed.len();
        self.drop(collection, found, report).await?;
        if report.failed.len() > failed {
            return Ok(());
        }
        let created = backend.create_indexes(collection, vec![declared.clone()]);
        let Err(error) = created.await else {
            report
                .created
                .push((collection.to_owned(), declared.clone()));
            return Ok(());
        };
        if found.other.is_none() {
            let again = backend.create_indexes(collection, vec![found.clone()]);
            if again.await.is_ok() {
                report.dropped.pop();
            }
        }
        note(report, collection, declared, error)
    }

    async fn drop(&self, collection: &str, index: &Index, report: &mut IndexReport) -> Result<()> {
        match self.backend.drop_index(collection, &index.name).await {
            Ok(()) => report.dropped.push((collection.to_owned(), index.clone())),
            // Another process was faster.
            Err(error) if error.is_not_found() => {}
            Err(error) => note(report, collection, index, error)?,
        }
        Ok(())
    }
}

/// Adds a failure to the report. Returns the error of a lost connection, which ends the sync.
fn note(report: &mut IndexReport, collection: &str, index: &Index, error: Error) -> Result<()> {
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
        Box::pin(self.run())
    }
}

/// Groups the indexes by collection, without repetitions, and with distinct names: the server refuses equal names.
fn by_collection(declared: Vec<(&'static Model, Vec<Index>)>) -> Vec<(&'static Model, Vec<Index>)> {
    let mut all: Vec<(&'static Model, Vec<Index>)> = Vec::new();
    for (model, indexes) in declared {
        let mut models = all.iter().map(|(other, _)| other.collection);
        let at = models.position(|other| other == model.collection);
        let at = at.unwrap_or_else(|| {
            all.push((model, Vec::new()));
            all.len() - 1
        });
        let Some((_, own)) = all.get_mut(at) else {
            continue;
        };
        for mut index in indexes {
            if own.iter().any(|other| !options_differ(&index, other)) {
                continue;
            }
            let mut names = Names::default();
            names
                .declared
                .extend(own.iter().map(|other| other.name.clone()));
            index.name = names.free(&index.name);
            own.push(index);
        }
    }
    all
}

/// The names of the indexes of a collection.
#[derive(Debug, Default)]
struct Names {
    /// Names in the database.
    found: BTreeSet<String>,
    declared: BTreeSet<String>,
}

impl Names {
    /// Returns the declared name if that is free, else the name with a number.
    fn free(&self, declared: &str) -> String {
        let is_free = |name: &String| !self.found.contains(name) && !self.declared.contains(name);
        let mut numbered = (2..).map(|number| format!("{declared}_{number}"));
        let own = Some(declared.to_owned()).filter(is_free);
        own.or_else(|| numbered.find(is_free)).unwrap_or_default()
    }
}

/// Refuses indexes that expire documents with derived data: the server deletes without follow-up work.
fn refuse_expiry(models: &[&'static Model], model: &Model, declared: &[Index]) -> Result<()> {
    let Some(index) = declared.iter().find(|index| index.expire_after.is_some()) else {
        return Ok(());
    };
    let refuse = |why: String| {
        let message = format!(
            "the index `{}` deletes documents when their time has come, without any follow-up work: {why}",
            index.name
        );
        let error = Error::new(ErrorKind::Unsupported, message);
        Err(error::of(model)(error))
    };
    // An index covers all models of the collection.
    let own = models.iter();
    for own in own.filter(|own| own.collection == model.collection) {
        if let Some(link) = own.links().iter().find(|link| link.inverse.is_some()) {
            return refuse(format!(
                "the documents that `{}` refers to would list them for ever; leave `inverse` or `expire_after_seconds` out, and delete them by \
                 `delete_many`",
                link.side.field
            ));
        }
        if let Some(field) = own.overflows.first() {
            return refuse(format!(
                "the elements of `{}` outside of them would stay; leave `expire_after_seconds` out, and delete them by `delete_many`",
                field.field
            ));
        }
    }
    for other in models {
        let mut links = other.links().iter();
        let refers = links.find(|link| {
            link.side.collection == model.collection && link.on_delete != OnDelete::Keep
        });
        if let Some(link) = refers {
            return refuse(format!(
                "`{}` of {} refers to them; say `on_delete = keep` there, or leave `expire_after_seconds` out and delete them by \
                 `delete_many`",
                link.side.field, other.name
            ));
        }
        let mut rollups = other.tallies.iter();
        if let Some(rollup) = rollups.find(|rollup| rollup.collection == model.collection) {
            return refuse(format!(
                "`{}` of {} is made of them, and would count them for ever; leave `expire_after_seconds` out, and delete them by `delete_many`",
                rollup.field, other.name
            ));
        }
        if let Some(copy) = maintain::cleared(other, model) {
            return refuse(format!(
                "`{copy}` of {} is to be cleared with them; leave `on_delete = clear` out there, or leave `expire_after_seconds` out and delete \
                 them by `delete_many`",
                other.name
            ));
        }
    }
    Ok(())
}

/// Whether a found index has the keys and the condition of the declared index.
fn has_same_keys(declared: &Index, found: &Index) -> bool {
    let keys = |index: &Index| (index.keys.clone(), index.hashed.clone());
    found.other.is_none() && keys(declared) == keys(found) && declared.partial == found.partial
}

/// The name alone makes no difference: whoever created the index chose it.
fn options_differ(declared: &Index, found: &Index) -> bool {
    let nameless = |index: &Index| Index {
        name: String::new(),
        ..index.clone()
    };
    nameless(declared) != nameless(found)
}

fn differs_in_expiry_alone(declared: &Index, found: &Index) -> bool {
    let found = Index {
        expire_after: declared.expire_after,
        ..found.clone()
    };
    !options_differ(declared, &found)
}

impl fmt::Display for IndexReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return f.write_str("every index is as declared");
        }
        let mut lines = Vec::new();
        let name = |collection: &str, index: &Index| format!("{collection}: {}", describe(index));
        for (collection, index) in &self.created {
            lines.push(format!("created    {}", name(collection, index)));
        }
        for (collection, declared, found) in &self.differing {
            lines.push(format!(
                "differs    {}, declared as {}",
                name(collection, found),
                describe(declared)
            ));
        }
        for (collection, declared, found) in &self.changed {
            lines.push(format!(
                "changed    {}, which was {}",
                name(collection, declared),
                describe(found)
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
        for (collection, declared, found) in &self.sharded_otherwise {
            lines.push(format!(
                "differs    {collection} is sharded by {found}, declared as {declared}: left as it is"
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

fn describe(index: &Index) -> String {
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
        text.push_str(&format!(" partial {}", readable(partial)));
    }
    if let Some(after) = index.expire_after {
        text.push_str(&format!(" expires after {} s", after.as_secs()));
    }
    if let Some(other) = &index.other {
        text.push_str(&format!(" {}", readable(other)));
    }
    text
}

/// A document in readable form.
fn readable(document: &RawDocument) -> String {
    match Document::try_from(document) {
        Ok(document) => document.to_string(),
        Err(_) => format!("{document:?}"),
    }
}
