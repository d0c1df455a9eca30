//! Declared indexes, brought to the database.

use std::{fmt, pin::Pin, sync::Arc};

use super::{Model, OnDelete, Schema};
use crate::{
    Error, ErrorKind, Result,
    backend::{
        Backend,
        operation::{Direction, Index, ShardKey},
    },
    error, maintain,
};

/// Brings the declared indexes to the database; made by [`Database::sync_indexes`](crate::Database::sync_indexes).
///
/// Awaited as it is, it creates what is missing and reports the rest. It is [`Unsupported`](crate::ErrorKind::Unsupported) if documents
/// expire by an index to which another model refers with a rule, as nothing would follow from that. Nothing is dropped unless asked for. On a sharded cluster, it
/// then shards the collection of each model with a `shard_key`; one that is sharded by another key is reported, and left as it is.
#[must_use = "indexes are synchronised when this is awaited"]
#[derive(Debug)]
pub struct SyncIndexes {
    backend: Arc<dyn Backend>,
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
    /// Declared, and there with other options: left as they are, or replaced if asked for. Collection, declared, found.
    pub differing: Vec<(String, Index, Index)>,
    /// There, and not declared: left alone, or dropped if asked for.
    pub undeclared: Vec<(String, Index)>,
    /// Dropped, because asked for.
    pub dropped: Vec<(String, Index)>,
    /// Collections of models with a shard key that are sharded by it now, and were not before.
    pub sharded: Vec<(String, ShardKey)>,
    /// Collections that are sharded by another key: left as they are. Collection, declared, found.
    pub sharded_otherwise: Vec<(String, ShardKey, ShardKey)>,
    /// Collections of models with a shard key that are not sharded, because the database is no sharded cluster.
    pub unsharded: Vec<(String, ShardKey)>,
}

impl SyncIndexes {
    pub(crate) fn new<S: Schema>(backend: Arc<dyn Backend>) -> Self {
        Self {
            backend,
            declared: maintain::with_overflows(maintain::with_tallies(
                maintain::with_copies(S::indexes(), S::MODELS),
                S::MODELS,
            )),
            replace_differing: false,
            drop_undeclared: false,
        }
    }

    /// Drops and creates again an index that differs from its declaration. Queries go without it meanwhile.
    pub fn replace_differing(mut self) -> Self {
        self.replace_differing = true;
        self
    }

    /// Drops indexes of the models' collections that no model declares.
    pub fn drop_undeclared(mut self) -> Self {
        self.drop_undeclared = true;
        self
    }

    async fn run(self) -> Result<IndexReport> {
        let mut report = IndexReport::default();
        let models: Vec<_> = self.declared.iter().map(|(model, _)| *model).collect();
        for (model, declared) in &self.declared {
            refuse_expiry(&models, model, declared)?;
        }
        for (model, declared) in &self.declared {
            self.sync(model.collection, declared, &mut report).await?;
            if let Some(key) = model.shard_key() {
                self.shard(model.collection, key, &mut report).await?;
            }
        }
        Ok(report)
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
        let mut missing = Vec::new();
        for index in declared {
            let Some(at) = found.iter().position(|other| is_same(index, other)) else {
                missing.push(index.clone());
                continue;
            };
            let other = found.swap_remove(at);
            if options_differ(index, &other) {
                if self.replace_differing {
                    self.backend.drop_index(collection, &other.name).await?;
                    report.dropped.push((collection.to_owned(), other.clone()));
                    missing.push(index.clone());
                }
                report
                    .differing
                    .push((collection.to_owned(), index.clone(), other));
            }
        }
        for index in found {
            if self.drop_undeclared {
                self.backend.drop_index(collection, &index.name).await?;
                report.dropped.push((collection.to_owned(), index.clone()));
            }
            report.undeclared.push((collection.to_owned(), index));
        }
        if !missing.is_empty() {
            self.backend
                .create_indexes(collection, missing.clone())
                .await?;
            report.created.extend(
                missing
                    .into_iter()
                    .map(|index| (collection.to_owned(), index)),
            );
        }
        Ok(())
    }
}

impl IntoFuture for SyncIndexes {
    type Output = Result<IndexReport>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// An index that deletes documents asks nobody: what refers to these by a rule would lead nowhere.
fn refuse_expiry(models: &[&'static Model], model: &Model, declared: &[Index]) -> Result<()> {
    let Some(index) = declared.iter().find(|index| index.expire_after.is_some()) else {
        return Ok(());
    };
    let refuse = |why: String| {
        let message = format!(
            "the index `{}` deletes documents when their time has come, without doing what the references say: {why}",
            index.name
        );
        let error = Error::new(ErrorKind::Unsupported, message);
        Err(error::of(model)(error))
    };
    if let Some(link) = model.links().iter().find(|link| link.inverse.is_some()) {
        return refuse(format!(
            "what `{}` leads to would list them for ever; leave `inverse` or `expire_after_seconds` out, and delete them by `delete_many`",
            link.side.field
        ));
    }
    for other in models {
        let mut links = other.links().iter();
        let refers = links.find(|link| {
            link.side.collection == model.collection && link.on_delete != OnDelete::Keep
        });
        if let Some(link) = refers {
            return refuse(format!(
                "`{}` of {} leads to them; say `on_delete = keep` there, or leave `expire_after_seconds` out and delete them by \
                 `delete_many`",
                link.side.field, other.name
            ));
        }
    }
    Ok(())
}

/// The name is the same, or it goes over the same fields: the server has at most one of either.
fn is_same(declared: &Index, found: &Index) -> bool {
    let keys = |index: &Index| (index.keys.clone(), index.hashed.clone());
    declared.name == found.name
        || keys(declared) == keys(found) && declared.partial == found.partial
}

/// The name alone makes no difference: whoever created the index chose it.
fn options_differ(declared: &Index, found: &Index) -> bool {
    let nameless = |index: &Index| Index {
        name: String::new(),
        ..index.clone()
    };
    nameless(declared) != nameless(found)
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
        text.push_str(&format!(" partial {partial:?}"));
    }
    if let Some(after) = index.expire_after {
        text.push_str(&format!(" expires after {} s", after.as_secs()));
    }
    text
}
