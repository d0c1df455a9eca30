//! The operations of a backend, as plain data.
//!
//! Documents, filters and values are raw BSON. The typed language has already encoded the values, so a backend needs no knowledge
//! of the models.

mod bulk_write;
mod display;
mod explain;
mod origin;

#[cfg(any(feature = "engine", feature = "mongodb"))]
pub(super) use bulk_write::ensure_no_upsert;
pub use bulk_write::{
    BulkItem, BulkItemOutcome, BulkOperation, BulkWrite, BulkWriteResult, Unmatched,
};
pub use explain::{Explain, RelatedPlan, RelatedStrategy};
pub use origin::{OperationOrigin, Stage};

use std::{borrow::Cow, fmt, time::Duration};

use bson::{RawBson, RawDocumentBuf, Timestamp};

#[cfg(any(feature = "engine", feature = "mongodb"))]
use crate::{Error, ErrorKind, Result};

/// The name of a collection: static for a model, owned for a name that is computed at run time.
pub type Collection = Cow<'static, str>;

/// Options of a read that do not change its result.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// The time limit of the read, including its further batches. `None` is no limit.
    ///
    /// A read that exceeds the limit ends, on the server too, with an error of kind [`Timeout`](crate::ErrorKind::Timeout).
    pub max_time: Option<Duration>,
    /// The name of the index that the database must use. A missing index is an error.
    pub hint: Option<String>,
    /// A text for the logs: the events of the log target `odm::operation`, and the profiler and `currentOp` of MongoDB.
    pub comment: Option<String>,
    /// The members of a MongoDB replica set that may answer. `None` is the option of the URL. The engine has one copy of the data.
    pub read_preference: Option<ReadPreference>,
    /// The part of the typed action that sends the read.
    pub origin: OperationOrigin,
    /// The stages that add the arrays of related documents, which the filter reads. The session turns a read with such stages into
    /// an aggregate, so a backend gets none.
    pub(crate) lookups: Vec<RawDocumentBuf>,
}

impl ReadOptions {
    /// Returns the options with a time limit, or without.
    #[must_use]
    pub fn with_max_time(self, max_time: Option<Duration>) -> Self {
        Self { max_time, ..self }
    }

    /// Checks that no index is required, for an operation without a choice of the index.
    #[cfg(any(feature = "engine", feature = "mongodb"))]
    pub(super) fn ensure_no_hint(&self, operation: &str) -> Result<()> {
        match &self.hint {
            None => Ok(()),
            Some(name) => Err(Error::new(
                ErrorKind::Unsupported,
                format!("{operation} cannot take the hint `{name}`: remove the hint"),
            )),
        }
    }
}

/// The members of a MongoDB replica set that may answer a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadPreference {
    /// The primary.
    Primary,
    /// The primary, or a secondary while there is no primary.
    PrimaryPreferred,
    /// A secondary. The data may be older.
    Secondary,
    /// A secondary, or the primary while there is no secondary.
    SecondaryPreferred,
    /// The member with the lowest latency. The data may be older.
    Nearest,
}

/// Reads the documents that match a filter.
#[derive(Debug, Clone, PartialEq)]
pub struct FindOperation {
    /// The collection to read.
    pub collection: Collection,
    /// The condition. An empty filter matches all documents.
    pub filter: RawDocumentBuf,
    /// The fields to return, or all fields.
    pub projection: Option<RawDocumentBuf>,
    /// The order, or no particular order.
    pub sort: Option<RawDocumentBuf>,
    /// The maximum number of documents.
    pub limit: Option<u64>,
    /// The time limit and other options.
    pub options: ReadOptions,
}

impl FindOperation {
    /// Returns the query with an origin.
    #[must_use]
    pub fn with_origin(mut self, origin: OperationOrigin) -> Self {
        self.options.origin = origin;
        self
    }

    /// Returns the query with a projection, or of all fields.
    pub(crate) fn with_projection(self, fields: impl Into<Option<RawDocumentBuf>>) -> Self {
        Self {
            projection: fields.into(),
            ..self
        }
    }

    /// Returns the query with an order, or without.
    pub(crate) fn with_sort(self, sort: impl Into<Option<RawDocumentBuf>>) -> Self {
        Self {
            sort: sort.into(),
            ..self
        }
    }

    /// Returns the query with a maximum number of documents, or without.
    pub(crate) fn with_limit(self, limit: impl Into<Option<u64>>) -> Self {
        Self {
            limit: limit.into(),
            ..self
        }
    }
}

/// Runs the documents of a collection through a pipeline of stages.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateOperation {
    /// The collection that the first stage reads.
    pub collection: Collection,
    /// The stages, in order: `{$match: {…}}`, `{$group: {…}}`. Stages that write are not allowed.
    pub pipeline: Vec<RawDocumentBuf>,
    /// The values of the variables that expressions read as `$$name`.
    pub variables: RawDocumentBuf,
    /// The time limit and other options.
    pub options: ReadOptions,
}

#[cfg(any(feature = "engine", feature = "mongodb"))]
impl AggregateOperation {
    /// Refuses a pipeline that writes.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) for the stages `$out` and `$merge`.
    pub(crate) fn ensure_reads(&self) -> Result<()> {
        let mut names = self
            .pipeline
            .iter()
            .flat_map(|stage| stage.iter().flatten());
        match names.find(|(name, _)| matches!(name.as_str(), "$merge" | "$out")) {
            None => Ok(()),
            Some((name, _)) => {
                let message = format!("the stage `{name}` writes: an aggregation can only read");
                let error = Error::new(ErrorKind::Unsupported, message);
                Err(error.with_collection(&*self.collection))
            }
        }
    }
}

/// Reads the documents that match each of several keys.
#[derive(Debug, Clone, PartialEq)]
pub struct FindEach {
    /// The collection to read.
    pub collection: Collection,
    /// The path: its value equals the key, or its array contains the key.
    pub path: String,
    /// The keys, without duplicates.
    pub keys: Vec<RawBson>,
    /// A further condition. An empty filter matches all documents.
    pub filter: RawDocumentBuf,
    /// The fields to return of each document, or all fields: a [projection](FindOperation::projection).
    pub projection: Option<RawDocumentBuf>,
    /// The order within each key, or no particular order.
    pub sort: Option<RawDocumentBuf>,
    /// The maximum number of documents per key.
    pub limit: Option<u64>,
    /// The time limit and other options.
    pub options: ReadOptions,
}

/// Runs several queries at once, on one collection or on several.
#[derive(Debug, Clone, PartialEq)]
pub struct FindSeveral {
    /// The queries.
    pub finds: Vec<FindOperation>,
}

impl FindSeveral {
    /// Returns the time limit of the whole operation: the shortest [limit](ReadOptions::max_time) of a query.
    #[must_use]
    pub fn max_time(&self) -> Option<Duration> {
        let limits = self.finds.iter().filter_map(|find| find.options.max_time);
        limits.min()
    }

    /// Returns the options of the whole operation: the options of the first query, with the shortest time limit.
    #[cfg(feature = "mongodb")]
    pub(super) fn options(&self) -> Result<ReadOptions> {
        for find in &self.finds {
            find.options.ensure_no_hint("one of several queries")?;
        }
        let first = self.finds.first().map(|find| find.options.clone());
        Ok(first.unwrap_or_default().with_max_time(self.max_time()))
    }
}

/// Counts the documents that match a filter.
#[derive(Debug, Clone, PartialEq)]
pub struct CountOperation {
    /// The collection to read.
    pub collection: Collection,
    /// The condition. An empty filter matches all documents.
    pub filter: RawDocumentBuf,
    /// The count at which counting stops.
    pub limit: Option<u64>,
    /// The time limit and other options.
    pub options: ReadOptions,
}

/// Reads the distinct values at a path of the documents that match.
#[derive(Debug, Clone, PartialEq)]
pub struct DistinctOperation {
    /// The collection to read.
    pub collection: Collection,
    /// The dotted path. For an array, the values are its elements.
    pub path: String,
    /// The condition. An empty filter matches all documents.
    pub filter: RawDocumentBuf,
    /// The time limit and other options.
    pub options: ReadOptions,
}

/// Inserts documents into a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct InsertOperation {
    /// The collection to insert into.
    pub collection: Collection,
    /// The documents, each with its `_id` as the first field.
    pub documents: Vec<RawDocumentBuf>,
    /// Whether to stop at the first failure. Otherwise the operation inserts every document that it can.
    pub ordered: bool,
    /// The part of the typed action that sends the write.
    pub origin: OperationOrigin,
}

/// Changes the documents that match a filter.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateOperation {
    /// The collection to change.
    pub collection: Collection,
    /// The condition. An empty filter matches all documents.
    pub filter: RawDocumentBuf,
    /// The change of the documents.
    pub change: DocumentChange,
    /// Whether to change all documents that match, not only the first. A replacement changes one document.
    pub multi: bool,
    /// Whether to insert a document if none matches.
    pub upsert: bool,
    /// The part of the typed action that sends the write.
    pub origin: OperationOrigin,
}

/// The change of a document.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum DocumentChange {
    /// A change by update operators.
    Operators {
        /// The operators, at least one: `{$set: {…}, …}`.
        update: RawDocumentBuf,
        /// The conditions of the placeholders `$[name]` in the operators' paths.
        array_filters: Vec<RawDocumentBuf>,
    },
    /// A replacement, which keeps the stored `_id`.
    ///
    /// A top-level field name must not begin with a dollar: a replacement contains no operators.
    Replacement(RawDocumentBuf),
    /// A change by the stages of a pipeline: `$addFields` and `$set`, `$project` and `$unset`, `$replaceRoot` and `$replaceWith`.
    Pipeline(Vec<RawDocumentBuf>),
}

impl DocumentChange {
    /// Creates a change by update operators, without array filters.
    #[must_use]
    pub fn operators(update: RawDocumentBuf) -> Self {
        Self::Operators {
            update,
            array_filters: Vec::new(),
        }
    }

    /// Checks that an operator update begins with an operator, and a replacement does not.
    ///
    /// A backend tells the two apart by the first field. Without this check a user's document could be executed as operators.
    #[cfg(any(feature = "engine", feature = "mongodb"))]
    pub(super) fn ensure_operators_match(&self) -> Result<()> {
        let begins_with_operator = |document: &RawDocumentBuf| {
            let first = document.iter_elements().next();
            first.map(|first| first.is_ok_and(|first| first.key().as_str().starts_with('$')))
        };
        match self {
            Self::Operators { update, .. } if begins_with_operator(update) != Some(true) => {
                Err(Error::new(
                    ErrorKind::Invalid,
                    "an operator update must begin with an operator, such as `$set`",
                ))
            }
            Self::Replacement(document) if begins_with_operator(document) == Some(true) => {
                Err(Error::new(
                    ErrorKind::Invalid,
                    "a replacement cannot contain operators: its first field name begins with a dollar",
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Changes or deletes the first document that matches, and returns the document in the same step.
#[derive(Debug, Clone, PartialEq)]
pub struct FindAndModify {
    /// The collection to change.
    pub collection: Collection,
    /// The condition. An empty filter matches any document.
    pub filter: RawDocumentBuf,
    /// The order that determines the first document, or no particular order.
    pub sort: Option<RawDocumentBuf>,
    /// The fields to return, or all fields.
    pub projection: Option<RawDocumentBuf>,
    /// The modification of the document.
    pub modification: FindAndModifyKind,
    /// The part of the typed action that sends the write.
    pub origin: OperationOrigin,
}

/// The modification that a [`FindAndModify`] performs.
#[derive(Debug, Clone, PartialEq)]
pub enum FindAndModifyKind {
    /// Deletes the document, and returns the deleted document.
    Delete,
    /// Changes the document.
    Update {
        /// The change of the document.
        change: DocumentChange,
        /// Whether to insert a document if none matches.
        upsert: bool,
        /// Whether to return the document from after the change. Otherwise the operation returns the document from before the
        /// change.
        return_new: bool,
    },
}

/// Deletes the documents that match a filter.
#[derive(Debug, Clone, PartialEq)]
pub struct DeleteOperation {
    /// The collection to delete from.
    pub collection: Collection,
    /// The condition. An empty filter matches all documents.
    pub filter: RawDocumentBuf,
    /// Whether to delete all documents that match, not only the first.
    pub multi: bool,
    /// The part of the typed action that sends the write.
    pub origin: OperationOrigin,
}

/// Watches committed changes.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchOperation {
    /// The collection to watch, or the whole database.
    pub collection: Option<Collection>,
    /// The condition on the events. An empty filter matches all events.
    pub filter: RawDocumentBuf,
    /// The start of the watch.
    pub from: WatchFrom,
    /// The documents that update events contain, beside the changed fields.
    pub full_document: FullDocument,
}

impl WatchOperation {
    /// Watches all changes of a collection from now on.
    #[must_use]
    pub fn collection(name: impl Into<Collection>) -> Self {
        Self {
            collection: Some(name.into()),
            ..Self::database()
        }
    }

    /// Watches all changes of the database from now on.
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

/// The position in the history of a database at which a watch starts.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum WatchFrom {
    /// Changes that are committed from now on.
    #[default]
    Now,
    /// Changes after a resume token: the `_id` of an event, or the [token of a cursor](super::ChangeCursor::resume_token).
    After(RawDocumentBuf),
    /// Changes from the first event with this `clusterTime` or a later time.
    At(Timestamp),
}

/// The documents that update events contain, beside the changed fields.
///
/// MongoDB's pre-images and post-images have no counterpart on the engine, so a watch cannot ask for these images.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FullDocument {
    /// No documents.
    #[default]
    Default,
    /// `fullDocument`: the document at the time when the event is read, which may be later than the update. Null if the document
    /// was deleted in the meantime.
    UpdateLookup,
}

/// The result of an update.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UpdateResult {
    /// The number of documents that matched the filter.
    pub matched: u64,
    /// The number of matched documents that changed.
    pub modified: u64,
    /// The `_id` of the document that the upsert inserted.
    pub upserted_id: Option<RawBson>,
}

/// The result of a delete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeleteResult {
    /// The number of deleted documents.
    pub deleted: u64,
}

/// An index of a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct Index {
    /// The name, by which the index is dropped. MongoDB's default is `field_1_other_-1`.
    pub name: String,
    /// The paths, in order of significance.
    pub keys: Vec<(String, Direction)>,
    /// The hashed path, if any. A hashed path only serves equality conditions, and its direction has no meaning.
    pub hashed: Option<String>,
    /// Whether two documents with the same key are an error.
    pub unique: bool,
    /// Whether the index excludes documents without any of the fields.
    pub sparse: bool,
    /// The condition on indexed documents. `None` is all documents.
    pub partial: Option<RawDocumentBuf>,
    /// The time from the date in the indexed field to the deletion of the document.
    pub expire_after: Option<Duration>,
    /// The definition of an index that this type cannot describe: with a text, geographic or wildcard key, or with a collation.
    ///
    /// Only lists of indexes have such definitions. No backend creates such an index.
    pub unsupported_definition: Option<RawDocumentBuf>,
}

impl Index {
    /// Creates a plain index, with MongoDB's default name.
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
            unsupported_definition: None,
        }
    }

    /// Hashes the values of a path: `{path: "hashed"}` in MongoDB's notation.
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

    /// Whether the index begins with the fields of a shard key. MongoDB requires an index of this form on a sharded collection.
    pub(crate) fn begins_with(&self, key: &ShardKey) -> bool {
        let is_field = |((path, direction), field): (&(String, Direction), &String)| {
            let is_hashed = key.hashed.as_ref() == Some(field);
            path == field
                && (self.hashed.as_ref() == Some(path)) == is_hashed
                && (is_hashed || *direction == Direction::Ascending)
        };
        let is_prefix = self.keys.len() >= key.fields.len();
        let is_complete =
            !self.sparse && self.partial.is_none() && self.unsupported_definition.is_none();
        is_prefix && is_complete && self.keys.iter().zip(&key.fields).all(is_field)
    }

    /// A sparse index on a path: only documents with a value at the path are indexed.
    pub(crate) fn sparse_on(path: impl Into<String>) -> Self {
        let mut index = Self::new(vec![(path.into(), Direction::Ascending)]);
        index.sparse = true;
        index
    }

    /// Declares an index for lookups of documents by a value at a path, unless a declared index serves these lookups.
    pub(crate) fn declare_on(path: impl Into<String>, declared: &mut Vec<Self>) {
        let lookup = Self::new(vec![(path.into(), Direction::Ascending)]);
        if !declared.iter().any(|index| index.serves_as(&lookup)) {
            declared.push(lookup);
        }
    }

    /// Whether the index begins with the paths of `other` and contains every document with a value at the first path. A sparse
    /// index qualifies.
    pub(crate) fn serves_as(&self, other: &Self) -> bool {
        let is_prefix = self.keys.starts_with(&other.keys);
        let is_plain = self.hashed.is_none() && self.unsupported_definition.is_none();
        is_prefix && is_plain && self.partial.is_none()
    }

    /// Checks that every backend can maintain the index exactly.
    #[cfg(any(feature = "engine", feature = "mongodb"))]
    pub(super) fn ensure_supported(&self) -> Result<()> {
        if self.unsupported_definition.is_some() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "index {}: text, geographic and wildcard indexes and indexes with a collation are not supported",
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
                format!(
                    "index {}: the expiry time must be a whole number of seconds",
                    self.name
                ),
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

/// The definition of a collection or a view, in MongoDB's form. Unlike [`Index`], a definition has every option of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionDefinition {
    /// The name.
    pub name: String,
    /// The kind, as in MongoDB's `listCollections`: `collection`, `view` or `timeseries`.
    pub kind: String,
    /// The options, as in MongoDB's `create`: `validator`, `collation`, `capped`, `viewOn`, …
    pub options: RawDocumentBuf,
    /// The indexes, as in MongoDB's `listIndexes`, without the index on `_id`.
    pub indexes: Vec<RawDocumentBuf>,
}

impl CollectionDefinition {
    /// Creates the definition of a collection without options and indexes.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind: "collection".into(),
            options: RawDocumentBuf::new(),
            indexes: Vec::new(),
        }
    }

    /// Whether the definition is a view, which has no documents of its own.
    #[must_use]
    pub fn is_view(&self) -> bool {
        self.kind == "view"
    }
}

/// The shard key of a collection: the fields that decide which shard of a cluster stores a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardKey {
    /// The paths, in order of significance.
    pub fields: Vec<String>,
    /// The hashed path, if any. Hashing spreads documents with neighbouring values over different shards.
    pub hashed: Option<String>,
}

impl ShardKey {
    /// Returns the index that a collection needs to be sharded by this key.
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
    /// Returns MongoDB's notation: `1` or `-1`.
    #[must_use]
    pub fn sign(self) -> i32 {
        match self {
            Self::Ascending => 1,
            Self::Descending => -1,
        }
    }
}

/// Any operation, as a [`Recorder`](super::Recorder) stores operations.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// Reads the documents that match.
    Find(FindOperation),
    /// Explains a query.
    Explain(FindOperation),
    /// Runs a pipeline.
    Aggregate(AggregateOperation),
    /// Reads documents by several keys.
    FindEach(FindEach),
    /// Runs several queries at once.
    FindSeveral(FindSeveral),
    /// Counts the documents that match.
    Count(CountOperation),
    /// Reads distinct values.
    Distinct(DistinctOperation),
    /// Inserts documents.
    Insert(InsertOperation),
    /// Changes documents.
    Update(UpdateOperation),
    /// Deletes documents.
    Delete(DeleteOperation),
    /// Changes a document and returns the document.
    FindAndModify(FindAndModify),
    /// Executes several writes.
    BulkWrite(BulkWrite),
    /// Lists all collections.
    ListCollections,
    /// Creates a collection.
    CreateCollection(Collection),
    /// Drops a collection.
    DropCollection(Collection),
    /// Lists the definitions of all collections and views.
    ListDefinitions,
    /// Creates a collection or a view with its options and indexes.
    CreateDefined(CollectionDefinition),
    /// Lists the indexes of a collection.
    ListIndexes(Collection),
    /// Creates indexes.
    CreateIndexes(Collection, Vec<Index>),
    /// Drops an index, given by name.
    DropIndex(Collection, String),
    /// Changes the expiry time of an index, given by name.
    SetExpiry(Collection, String, Duration),
    /// Reads the shard key of a collection.
    ShardKeyOf(Collection),
    /// Shards a collection.
    ShardCollection(Collection, ShardKey),
    /// Opens a change stream.
    Watch(WatchOperation),
    /// Begins a transaction.
    Begin,
    /// Commits a transaction.
    Commit,
    /// Aborts a transaction.
    Abort,
}

impl Operation {
    /// Returns whether the operation reads documents. Each such operation counts as one query.
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

    /// Returns the part of the typed action that sends the operation. Empty for an operation that is not about documents.
    #[must_use]
    pub fn origin(&self) -> OperationOrigin {
        match self {
            Self::Find(find) | Self::Explain(find) => find.options.origin,
            Self::Aggregate(aggregate) => aggregate.options.origin,
            Self::FindEach(find) => find.options.origin,
            Self::FindSeveral(several) => {
                let first = several.finds.first();
                first.map(|find| find.options.origin).unwrap_or_default()
            }
            Self::Count(count) => count.options.origin,
            Self::Distinct(distinct) => distinct.options.origin,
            Self::Insert(insert) => insert.origin,
            Self::Update(update) => update.origin,
            Self::Delete(delete) => delete.origin,
            Self::FindAndModify(modify) => modify.origin,
            Self::BulkWrite(bulk) => bulk.origin,
            Self::ListCollections
            | Self::ListDefinitions
            | Self::CreateDefined(_)
            | Self::CreateCollection(_)
            | Self::DropCollection(_)
            | Self::ListIndexes(_)
            | Self::CreateIndexes(..)
            | Self::DropIndex(..)
            | Self::SetExpiry(..)
            | Self::ShardKeyOf(_)
            | Self::ShardCollection(..)
            | Self::Watch(_)
            | Self::Begin
            | Self::Commit
            | Self::Abort => OperationOrigin::default(),
        }
    }

    /// Returns whether the operation changes documents.
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
