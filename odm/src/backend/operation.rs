//! The operations of a backend, as plain data.
//!
//! Documents, filters and values are raw BSON: the typed language has encoded them already, and a backend need not
//! know what they mean to the application.

mod bulk_write;

#[cfg(any(feature = "engine", feature = "mongodb"))]
pub(super) use bulk_write::refuse_upsert;
pub use bulk_write::{BulkItem, BulkWrite, BulkWritten, Unmatched, Write, Written};

use std::{borrow::Cow, fmt, time::Duration};

use bson::{RawBson, RawDocumentBuf, Timestamp};

#[cfg(any(feature = "engine", feature = "mongodb"))]
use crate::{Error, ErrorKind, Result};

/// The name of a collection: static for a model's, owned for one computed at run time.
pub type Collection = Cow<'static, str>;

/// Reads the documents that match.
#[derive(Debug, Clone, PartialEq)]
pub struct Find {
    /// Where to look.
    pub collection: Collection,
    /// Which documents; an empty one matches all.
    pub filter: RawDocumentBuf,
    /// Which fields, or all of them.
    pub projection: Option<RawDocumentBuf>,
    /// The order, or none in particular.
    pub sort: Option<RawDocumentBuf>,
    /// How many documents at most.
    pub limit: Option<u64>,
    /// How long the backend may work on it, its further batches included; as long as it takes if none. A read that takes longer
    /// ends, on the server too, with an error of kind [`Timeout`](crate::ErrorKind::Timeout).
    pub max_time: Option<Duration>,
}

/// Runs documents through a pipeline of stages.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    /// Where the documents come from.
    pub collection: Collection,
    /// The stages, in order: `{$match: {…}}`, `{$group: {…}}`. None that writes.
    pub pipeline: Vec<RawDocumentBuf>,
    /// The values of the variables that expressions read as `$$name`.
    pub variables: RawDocumentBuf,
    /// How long the read may take: see [`Find::max_time`].
    pub max_time: Option<Duration>,
}

/// Reads the documents that match each of several keys.
#[derive(Debug, Clone, PartialEq)]
pub struct FindEach {
    /// Where to look.
    pub collection: Collection,
    /// The path whose value is, or whose array contains, the key.
    pub path: String,
    /// The keys, each once.
    pub keys: Vec<RawBson>,
    /// A further condition; an empty one matches all.
    pub filter: RawDocumentBuf,
    /// Which fields are read of each, or all; a [projection](Find::projection).
    pub projection: Option<RawDocumentBuf>,
    /// The order within each key, or none in particular.
    pub sort: Option<RawDocumentBuf>,
    /// How many documents for each key at most.
    pub limit: Option<u64>,
    /// How long the read may take: see [`Find::max_time`].
    pub max_time: Option<Duration>,
}

/// Runs several queries at once, each on a collection of its own or on the same.
#[derive(Debug, Clone, PartialEq)]
pub struct FindSeveral {
    /// The queries.
    pub finds: Vec<Find>,
}

impl FindSeveral {
    /// How long all of it may take: the shortest [time](Find::max_time) of a query.
    #[must_use]
    pub fn max_time(&self) -> Option<Duration> {
        let limits = self.finds.iter().filter_map(|find| find.max_time);
        limits.min()
    }
}

/// Counts the documents that match.
#[derive(Debug, Clone, PartialEq)]
pub struct Count {
    /// Where to look.
    pub collection: Collection,
    /// Which documents; an empty one matches all.
    pub filter: RawDocumentBuf,
    /// Where to stop counting.
    pub limit: Option<u64>,
    /// How long the read may take: see [`Find::max_time`].
    pub max_time: Option<Duration>,
}

/// Reads the values at a path of the documents that match, each once.
#[derive(Debug, Clone, PartialEq)]
pub struct Distinct {
    /// Where to look.
    pub collection: Collection,
    /// The dotted path; of an array, its elements count.
    pub path: String,
    /// Which documents; an empty one matches all.
    pub filter: RawDocumentBuf,
    /// How long the read may take: see [`Find::max_time`].
    pub max_time: Option<Duration>,
}

/// Inserts documents.
#[derive(Debug, Clone, PartialEq)]
pub struct Insert {
    /// Where to.
    pub collection: Collection,
    /// Each with its `_id` as the first field.
    pub documents: Vec<RawDocumentBuf>,
    /// Whether to stop at the first that is refused, rather than to insert all that can be.
    pub ordered: bool,
}

/// Changes documents.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// Where to look.
    pub collection: Collection,
    /// Which documents; an empty one matches all.
    pub filter: RawDocumentBuf,
    /// What becomes of them.
    pub change: Change,
    /// Whether to change all documents that match, not only the first; a replacement is for one.
    pub multi: bool,
    /// Whether to insert a document if none matches.
    pub upsert: bool,
}

/// What becomes of a document.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// What operators say.
    Operators {
        /// The operators: `{$set: {…}, …}`, one at least.
        update: RawDocumentBuf,
        /// The conditions behind `$[name]` in their paths.
        array_filters: Vec<RawDocumentBuf>,
    },
    /// This document, with the `_id` that was there. None of its fields is an operator: one at the top whose name begins
    /// with a dollar is refused.
    Replacement(RawDocumentBuf),
    /// What the stages of a pipeline make of it: `$addFields` and `$set`, `$project` and `$unset`, `$replaceRoot` and
    /// `$replaceWith`.
    Pipeline(Vec<RawDocumentBuf>),
}

impl Change {
    /// What operators say, without array filters.
    #[must_use]
    pub fn operators(update: RawDocumentBuf) -> Self {
        Self::Operators {
            update,
            array_filters: Vec::new(),
        }
    }

    /// Refuses operators as a replacement and the other way round: backends tell them apart by the first field.
    #[cfg(any(feature = "engine", feature = "mongodb"))]
    pub(super) fn check(&self) -> Result<()> {
        let starts = |document: &RawDocumentBuf| {
            let first = document.iter_elements().next();
            first.map(|first| first.is_ok_and(|first| first.key().as_str().starts_with('$')))
        };
        match self {
            Self::Operators { update, .. } if starts(update) != Some(true) => Err(Error::new(
                ErrorKind::Invalid,
                "an update by operators begins with an operator, such as `$set`",
            )),
            Self::Replacement(document) if starts(document) == Some(true) => Err(Error::new(
                ErrorKind::Invalid,
                "a replacement has no field at the top whose name begins with a dollar",
            )),
            _ => Ok(()),
        }
    }
}

/// Changes or deletes the first document that matches, and returns it in the same step.
#[derive(Debug, Clone, PartialEq)]
pub struct FindAndModify {
    /// Where to look.
    pub collection: Collection,
    /// Which document; an empty one matches any.
    pub filter: RawDocumentBuf,
    /// Which comes first, or none in particular.
    pub sort: Option<RawDocumentBuf>,
    /// Which fields to return, or all of them.
    pub projection: Option<RawDocumentBuf>,
    /// What to do to it.
    pub modification: Modification,
}

/// What a [`FindAndModify`] does.
#[derive(Debug, Clone, PartialEq)]
pub enum Modification {
    /// Deletes the document, and returns it as it was.
    Delete,
    /// Changes the document.
    Update {
        /// What becomes of it.
        change: Change,
        /// Whether to insert a document if none matches.
        upsert: bool,
        /// Whether to return the document as it is then rather than as it was before.
        return_new: bool,
    },
}

/// Deletes documents.
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// Where to look.
    pub collection: Collection,
    /// Which documents; an empty one matches all.
    pub filter: RawDocumentBuf,
    /// Whether to delete all documents that match, not only the first.
    pub multi: bool,
}

/// Follows what is committed.
#[derive(Debug, Clone, PartialEq)]
pub struct Watch {
    /// Where to look; the whole database if none.
    pub collection: Option<Collection>,
    /// Which events, as a condition on the events themselves; an empty one matches all.
    pub filter: RawDocumentBuf,
    /// Where to start.
    pub from: WatchFrom,
    /// What the events of updates hold beside the changed fields.
    pub full_document: FullDocument,
}

impl Watch {
    /// All changes of a collection from now on.
    #[must_use]
    pub fn collection(name: impl Into<Collection>) -> Self {
        Self {
            collection: Some(name.into()),
            ..Self::database()
        }
    }

    /// All changes of the database from now on.
    #[must_use]
    pub fn database() -> Self {
        Self {
            collection: None,
            filter: RawDocumentBuf::new(),
            from: WatchFrom::Now,
            full_document: FullDocument::Default,
        }
    }
}

/// Where in the history of a database a watch starts.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum WatchFrom {
    /// With what is committed from now on.
    #[default]
    Now,
    /// Behind the event that has this token as its `_id`, or where a
    /// [cursor](super::ChangeCursor::resume_token) was.
    After(RawDocumentBuf),
    /// With the first event whose `clusterTime` is this or later.
    At(Timestamp),
}

/// What the events of updates hold beside the changed fields.
///
/// MongoDB's images of documents before and after each change have no equal on the engine and cannot be asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FullDocument {
    /// Nothing.
    #[default]
    Default,
    /// `fullDocument`: the document as it is when the event is read, which may be later than the update; null if it is
    /// gone by then.
    UpdateLookup,
}

/// What an update did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Updated {
    /// How many documents matched the filter.
    pub matched: u64,
    /// How many of them are different now.
    pub modified: u64,
    /// The `_id` of the document that was inserted because none matched.
    pub upserted_id: Option<RawBson>,
}

/// What a delete did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deleted {
    /// How many documents were deleted.
    pub deleted: u64,
}

/// An index of a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct Index {
    /// Its name, by which it is dropped: MongoDB's default is `field_1_other_-1`.
    pub name: String,
    /// The paths, in order of significance.
    pub keys: Vec<(String, Direction)>,
    /// The one of the paths that is hashed, if one is: it serves for equal values only, and its direction means nothing.
    pub hashed: Option<String>,
    /// Whether two documents with the same key are refused.
    pub unique: bool,
    /// Whether documents without any of the fields are left out.
    pub sparse: bool,
    /// Which documents are in the index; all if none.
    pub partial: Option<RawDocumentBuf>,
    /// How long after the date in its one field a document is deleted.
    pub expire_after: Option<Duration>,
    /// The definition of an index that this type cannot describe: with a text, geographic or wildcard key, or with a collation. Present in
    /// lists alone; no backend creates such an index.
    pub other: Option<RawDocumentBuf>,
}

impl Index {
    /// A plain index, with MongoDB's default name.
    #[must_use]
    pub fn new(keys: Vec<(String, Direction)>) -> Self {
        Self {
            name: default_name(&keys, None),
            keys,
            hashed: None,
            unique: false,
            sparse: false,
            partial: None,
            expire_after: None,
            other: None,
        }
    }

    /// Has a hash in the place of this path's value: `{path: "hashed"}` in MongoDB's notation.
    ///
    /// ```
    /// use odm::backend::operation::{Direction, Index};
    ///
    /// let index = Index::new(vec![("customer".into(), Direction::Ascending)]).hashed("customer");
    /// assert_eq!(index.name, "customer_hashed");
    /// ```
    #[must_use]
    pub fn hashed(mut self, path: impl Into<String>) -> Self {
        let path = path.into();
        if self.name == default_name(&self.keys, self.hashed.as_deref()) {
            self.name = default_name(&self.keys, Some(&path));
        }
        self.hashed = Some(path);
        self
    }

    /// Whether it begins with the fields of a shard key, as MongoDB asks of one index of a sharded collection.
    pub(crate) fn begins_with(&self, key: &ShardKey) -> bool {
        let is_field = |((path, direction), field): (&(String, Direction), &String)| {
            let is_hashed = key.hashed.as_ref() == Some(field);
            path == field
                && (self.hashed.as_ref() == Some(path)) == is_hashed
                && (is_hashed || *direction == Direction::Ascending)
        };
        let is_prefix = self.keys.len() >= key.fields.len();
        let is_whole = !self.sparse && self.partial.is_none() && self.other.is_none();
        is_prefix && is_whole && self.keys.iter().zip(&key.fields).all(is_field)
    }

    /// One of the documents that have a value at a path.
    pub(crate) fn sparse_on(path: impl Into<String>) -> Self {
        let mut index = Self::new(vec![(path.into(), Direction::Ascending)]);
        index.sparse = true;
        index
    }

    /// Declares an index for lookups of documents by a value at a path, unless a declared index serves these lookups.
    pub(crate) fn declare_on(path: impl Into<String>, declared: &mut Vec<Self>) {
        let own = Self::new(vec![(path.into(), Direction::Ascending)]);
        if !declared.iter().any(|index| index.serves_as(&own)) {
            declared.push(own);
        }
    }

    /// Whether the index begins with the paths of `other` and contains every document with a value at the first path. A sparse index does.
    pub(crate) fn serves_as(&self, other: &Self) -> bool {
        let is_prefix = self.keys.starts_with(&other.keys);
        let is_plain = self.hashed.is_none() && self.other.is_none();
        is_prefix && is_plain && self.partial.is_none()
    }

    /// Refuses what no backend can keep exactly.
    #[cfg(any(feature = "engine", feature = "mongodb"))]
    pub(super) fn check(&self) -> Result<()> {
        if self.other.is_some() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "index {}: no backend creates an index with a collation, of texts, of places or of all paths",
                    self.name
                ),
            ));
        }
        if self
            .expire_after
            .is_some_and(|after| after.subsec_nanos() != 0)
        {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("index {}: documents expire after whole seconds", self.name),
            ));
        }
        Ok(())
    }
}

fn default_name(keys: &[(String, Direction)], hashed: Option<&str>) -> String {
    let each = keys.iter().map(|(path, direction)| match hashed {
        Some(hashed) if hashed == path => format!("{path}_hashed"),
        _ => format!("{path}_{}", direction.sign()),
    });
    each.collect::<Vec<_>>().join("_")
}

/// By what the documents of a collection are spread over the shards of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardKey {
    /// The paths, in order of significance.
    pub fields: Vec<String>,
    /// The one of the paths that is hashed, if one is: then documents with neighbouring values are on different shards.
    pub hashed: Option<String>,
}

impl ShardKey {
    /// The index that a collection needs to be sharded by it.
    #[must_use]
    pub fn index(&self) -> Index {
        let fields = self.fields.iter().cloned();
        let index = Index::new(fields.map(|path| (path, Direction::Ascending)).collect());
        match &self.hashed {
            None => index,
            Some(path) => index.hashed(path),
        }
    }
}

impl fmt::Display for ShardKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = self.fields.iter().map(|path| match &self.hashed {
            Some(hashed) if hashed == path => format!("hashed {path}"),
            _ => path.clone(),
        });
        write!(f, "({})", each.collect::<Vec<_>>().join(", "))
    }
}

/// The direction of a field in an index or a sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Smallest first: `1` in MongoDB's notation.
    Ascending,
    /// Largest first: `-1` in MongoDB's notation.
    Descending,
}

impl Direction {
    /// MongoDB's notation: `1` or `-1`.
    #[must_use]
    pub fn sign(self) -> i32 {
        match self {
            Self::Ascending => 1,
            Self::Descending => -1,
        }
    }
}

/// How a database finds the documents of a [`Find`], and what that takes: the answer to
/// [`Executor::explain`](super::Executor::explain), which carries the query out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explain {
    /// The names of the indexes that are used, each once; `_id_` is the one on `_id`. None if there is no such collection,
    /// too.
    pub indexes: Vec<String>,
    /// Whether all documents of the collection are read.
    pub is_scan: bool,
    /// Whether what was found is sorted afterwards, because no index gives the order: all that matches is read for that,
    /// whatever the limit.
    pub is_sorted_afterwards: bool,
    /// How many entries of indexes are read.
    pub keys_examined: u64,
    /// How many documents are read; none if the indexes hold all that is asked for.
    pub documents_examined: u64,
    /// How many documents are given back.
    pub returned: u64,
}

/// Any operation, as a [`Recorder`](super::Recorder) keeps it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// A read.
    Find(Find),
    /// A look at how a read finds its documents.
    Explain(Find),
    /// A read through a pipeline.
    Aggregate(Aggregate),
    /// A read by several keys.
    FindEach(FindEach),
    /// Several reads at once.
    FindSeveral(FindSeveral),
    /// A count.
    Count(Count),
    /// A read of distinct values.
    Distinct(Distinct),
    /// An insert.
    Insert(Insert),
    /// An update.
    Update(Update),
    /// A delete.
    Delete(Delete),
    /// A change that returns the document.
    FindAndModify(FindAndModify),
    /// Several writes.
    BulkWrite(BulkWrite),
    /// A look at the names of all collections.
    ListCollections,
    /// The creation of a collection.
    CreateCollection(Collection),
    /// The end of a collection.
    DropCollection(Collection),
    /// A look at a collection's indexes.
    ListIndexes(Collection),
    /// The creation of indexes.
    CreateIndexes(Collection, Vec<Index>),
    /// The end of an index, by name.
    DropIndex(Collection, String),
    /// Another time after which the documents of an index expire, by name.
    SetExpiry(Collection, String, Duration),
    /// A look at what a collection is sharded by.
    ShardKeyOf(Collection),
    /// The sharding of a collection.
    ShardCollection(Collection, ShardKey),
    /// A watch.
    Watch(Watch),
    /// The beginning of a transaction.
    Begin,
    /// The commit of a transaction.
    Commit,
    /// The abort of a transaction.
    Abort,
}

impl Operation {
    /// Whether it reads documents: one backend query.
    #[must_use]
    pub fn is_query(&self) -> bool {
        matches!(
            self,
            Self::Find(_)
                | Self::Explain(_)
                | Self::Aggregate(_)
                | Self::FindEach(_)
                | Self::FindSeveral(_)
                | Self::Count(_)
                | Self::Distinct(_)
        )
    }

    /// Whether it changes documents.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            Self::Insert(_)
                | Self::Update(_)
                | Self::Delete(_)
                | Self::FindAndModify(_)
                | Self::BulkWrite(_)
                | Self::DropCollection(_)
        )
    }
}
