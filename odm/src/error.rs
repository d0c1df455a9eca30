//! What can go wrong, and what to do about it.

use std::{error, fmt, sync::Arc, time::Duration};

use bson::{Bson, RawDocument};

use crate::{
    document::Document,
    query::encode as encode_value,
    schema::{IndexReport, Model},
};

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of every operation.
///
/// [`kind`](Self::kind) and the predicates tell what happened; the accessors say where. Its text names the model, the
/// collection, the document, the path or the index as far as they are known, and what to do.
///
/// It is cheap to clone: when several documents wait for one that cannot be read, each gets the same error.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    model: Option<&'static str>,
    collection: Option<String>,
    id: Option<Bson>,
    path: Option<String>,
    index: Option<String>,
    value: Option<Bson>,
    code: Option<i32>,
    operation: Option<&'static str>,
    limit: Option<Duration>,
    inserted: Option<usize>,
    failures: Vec<(usize, Error)>,
    violations: Vec<(String, String)>,
    indexes: Option<Arc<IndexReport>>,
    source: Option<Arc<dyn error::Error + Send + Sync>>,
    is_passing: bool,
}

/// What kind of error it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A document that must be there is not.
    NotFound,
    /// More than one document where at most one was asked for.
    NotUnique,
    /// A unique index, or `_id`, has the value already: give another value, or change the document that has it.
    DuplicateKey,
    /// Another write came first and nothing was kept: try again from the beginning.
    Conflict,
    /// A reference leads to no document, and must: insert that one first, or let the reference lead elsewhere.
    Dangling,
    /// A reference leads to a document that another one is linked with already, and only one may be: change that one first.
    AlreadyLinked,
    /// Other documents refer to one that was to be deleted, and nothing was: change or delete them first.
    Restricted,
    /// A condition did not hold, so an update that had to apply did not.
    NotApplied,
    /// An array would hold more elements than its `max`, and nothing was written.
    TooManyElements,
    /// A stored document does not fit the model: repair the document, or let the model accept it.
    Decode,
    /// A value cannot be stored as BSON.
    Encode,
    /// Values break the rules of the model, and nothing was written: [`violations`](Error::violations) has all of them.
    Validation,
    /// The write was carried out and is there to stay, but a hook behind it failed: do not write again.
    Committed,
    /// A page token is none, or is one of another query: begin with the first page.
    InvalidPageToken,
    /// The operation makes no sense: a wrong regular expression, a map key with a dot, …
    Invalid,
    /// The backend does not have this operation or option.
    Unsupported,
    /// The URL names no backend that this build has.
    InvalidUrl,
    /// The server cannot be reached, or the connection was lost: whether a write took effect is unknown.
    Connection,
    /// Another process has the files open: close it, or use a server.
    InUse,
    /// The files are not a database of this engine, are damaged, or are of a newer version.
    Damaged,
    /// The changes behind a resume token are not known any more: read the documents again, and watch from then on.
    HistoryLost,
    /// Not all that writes owe was carried out in time: wait longer, or see why by `owed`.
    Unsettled,
    /// A read or a transaction took longer than its time limit, and was ended: [`limit`](Error::limit) has the limit.
    Timeout,
    /// The server aborted a transaction that was open for longer than `transactionLifetimeLimitSeconds`. Do less in one transaction, or
    /// raise the limit of the server.
    TransactionExpired,
    /// The transaction was committed or aborted before.
    TransactionOver,
    /// A write through the database, in the closure of a transaction of it, would be no part of that: use its `tx`.
    OutsideTransaction,
    /// The write changes more than fits into the memory of the engine, or than a server takes in one transaction: write in
    /// parts.
    WriteTooLarge,
    /// There is no room on the disk, and nothing was written: free space, or delete documents.
    StorageFull,
    /// Reading or writing files failed.
    Io,
    /// The database was [closed](crate::Database::close).
    Closed,
    /// The backend refused the operation for another reason; [`code`](Error::code) has MongoDB's number for it.
    Backend,
    /// The application's own error, made by [`Error::other`].
    Other,
}

impl Error {
    /// An error for an implementation of [`Backend`](crate::backend::Backend) to return.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            message: message.into(),
            model: None,
            collection: None,
            id: None,
            path: None,
            index: None,
            value: None,
            code: None,
            operation: None,
            limit: None,
            inserted: None,
            failures: Vec::new(),
            violations: Vec::new(),
            indexes: None,
            source: None,
            is_passing: false,
        }))
    }

    /// An application's error, so that `?` and [`Database::transaction`](crate::Database::transaction) carry it through.
    ///
    /// ```
    /// let error = odm::Error::other("not enough credits");
    /// assert_eq!(error.kind(), odm::ErrorKind::Other);
    /// ```
    pub fn other(error: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        let source = error.into();
        Self::new(ErrorKind::Other, source.to_string()).with_source(source)
    }

    /// What kind of error it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether a document that must be there is not.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }

    /// Whether a unique index, or `_id`, has the value already.
    #[must_use]
    pub fn is_duplicate_key(&self) -> bool {
        self.kind() == ErrorKind::DuplicateKey
    }

    /// Whether another write came first: nothing was kept, and it may be tried again from the beginning.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.kind() == ErrorKind::Conflict
    }

    /// Whether a read or a transaction took longer than its time limit.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.kind() == ErrorKind::Timeout
    }

    /// Whether a stored document does not fit the model.
    #[must_use]
    pub fn is_decode(&self) -> bool {
        self.kind() == ErrorKind::Decode
    }

    /// Whether the backend does not have this operation or option.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        self.kind() == ErrorKind::Unsupported
    }

    /// Whether values break the rules of the model.
    #[must_use]
    pub fn is_validation(&self) -> bool {
        self.kind() == ErrorKind::Validation
    }

    /// Whether the write was carried out, and only a hook behind it failed.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        self.kind() == ErrorKind::Committed
    }

    /// Whether a page token is none, or is one of another query: begin with the first page.
    #[must_use]
    pub fn is_invalid_page_token(&self) -> bool {
        self.kind() == ErrorKind::InvalidPageToken
    }

    /// Whether the changes behind a resume token are not known any more: read the documents again, and watch from then on.
    #[must_use]
    pub fn is_history_lost(&self) -> bool {
        self.kind() == ErrorKind::HistoryLost
    }

    /// Whether there is no room on the disk. Deletes make some.
    #[must_use]
    pub fn is_storage_full(&self) -> bool {
        self.kind() == ErrorKind::StorageFull
    }

    /// Whether the database was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.kind() == ErrorKind::Closed
    }

    /// What has gone wrong, without where.
    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// The model that the operation was about.
    #[must_use]
    pub fn model(&self) -> Option<&'static str> {
        self.0.model
    }

    /// The collection that the operation was about.
    #[must_use]
    pub fn collection(&self) -> Option<&str> {
        self.0.collection.as_deref()
    }

    /// The `_id` of the document that the error is about.
    #[must_use]
    pub fn id(&self) -> Option<&Bson> {
        self.0.id.as_ref()
    }

    /// The dotted path, with stored names, that the error is about.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.0.path.as_deref()
    }

    /// The name of the index that refused a value.
    #[must_use]
    pub fn index(&self) -> Option<&str> {
        self.0.index.as_deref()
    }

    /// The refused key of a duplicate-key error: a document of the index's paths and their values.
    #[must_use]
    pub fn value(&self) -> Option<&Bson> {
        self.0.value.as_ref()
    }

    /// MongoDB's number for the error, where there is one.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.0.code
    }

    /// The operation of the typed language that ran out of time, as the log names it: `find`, `get`, `transaction`.
    #[must_use]
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// The time limit that was exceeded.
    #[must_use]
    pub fn limit(&self) -> Option<Duration> {
        self.0.limit
    }

    /// How many documents an insert of many stored: in order, those before the one that failed.
    #[must_use]
    pub fn inserted(&self) -> Option<usize> {
        self.0.inserted
    }

    /// The documents of an insert of many that were refused: the position of each among all, from 0, and why.
    ///
    /// An insert in order has one at most, because it stops there.
    pub fn failures(&self) -> impl ExactSizeIterator<Item = (usize, &Self)> {
        let failures = self.0.failures.iter();
        failures.map(|(position, error)| (*position, error))
    }

    /// The values that break the rules of the model: the path of each, with stored names, and what its rule says of it.
    pub fn violations(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        let violations = self.0.violations.iter();
        violations.map(|(path, message)| (path.as_str(), message.as_str()))
    }

    /// The report of [`sync_indexes`](crate::Database::sync_indexes), if an index could not be made as declared.
    #[must_use]
    pub fn index_report(&self) -> Option<&IndexReport> {
        self.0.indexes.as_deref()
    }

    /// The backend's or the application's own error that this one was made from, to be downcast.
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn error::Error + Send + Sync + 'static)> {
        self.0.source.as_deref()
    }

    /// The same error with the model named.
    #[must_use]
    pub fn with_model(self, model: &'static str) -> Self {
        self.with(|e| e.model = Some(model))
    }

    /// The same error with the collection named.
    #[must_use]
    pub fn with_collection(self, collection: impl Into<String>) -> Self {
        self.with(|e| e.collection = Some(collection.into()))
    }

    /// The same error with the document named.
    #[must_use]
    pub fn with_id(self, id: impl Into<Bson>) -> Self {
        self.with(|e| e.id = Some(id.into()))
    }

    /// The same error with the `_id` of a stored document.
    #[must_use]
    pub(crate) fn with_id_of(self, document: &RawDocument) -> Self {
        match crate::decode::id(document).map(Bson::try_from) {
            Some(Ok(id)) => self.with_id(id),
            _ => self,
        }
    }

    /// The same error with the path named.
    #[must_use]
    pub fn with_path(self, path: impl Into<String>) -> Self {
        self.with(|e| e.path = Some(path.into()))
    }

    /// The same error with the index named, and the key that it refused.
    #[must_use]
    pub fn with_index(self, index: impl Into<String>, key: impl Into<Bson>) -> Self {
        self.with(|e| {
            e.index = Some(index.into());
            e.value = Some(key.into());
        })
    }

    /// The same error with MongoDB's number for it.
    #[must_use]
    pub fn with_code(self, code: i32) -> Self {
        self.with(|e| e.code = Some(code))
    }

    /// The same error with the operation that ran out of time, and its time limit.
    #[must_use]
    pub fn with_limit(self, operation: &'static str, limit: Duration) -> Self {
        self.with(|e| {
            e.operation = Some(operation);
            e.limit = Some(limit);
        })
    }

    /// The same error, which is over as soon as others are done with something that takes them a while.
    pub(crate) fn passing(self) -> Self {
        self.with(|e| e.is_passing = true)
    }

    pub(crate) fn is_passing(&self) -> bool {
        self.0.is_passing
    }

    /// Whether a backend found it, and not the typed language: it has the backend's own error then, or its code.
    pub(crate) fn is_of_backend(&self) -> bool {
        self.0.code.is_some() || self.0.source.is_some()
    }

    /// The same error with the number of documents that were stored before it.
    #[must_use]
    pub fn with_inserted(self, inserted: usize) -> Self {
        self.with(|e| e.inserted = Some(inserted))
    }

    /// The same error with the documents that were refused, by their positions.
    #[must_use]
    pub fn with_failures(self, failures: impl IntoIterator<Item = (usize, Self)>) -> Self {
        self.with(|e| e.failures = failures.into_iter().collect())
    }

    /// The same error with the values that break rules: the path of each, and what its rule says of it.
    #[must_use]
    pub fn with_violations(self, violations: impl IntoIterator<Item = (String, String)>) -> Self {
        self.with(|e| e.violations = violations.into_iter().collect())
    }

    /// An insert of one has no part that succeeded.
    pub(crate) fn with_index_report(self, report: IndexReport) -> Self {
        self.with(|e| e.indexes = Some(Arc::new(report)))
    }

    pub(crate) fn without_inserted(self) -> Self {
        self.with(|e| {
            e.inserted = None;
            e.failures.clear();
        })
    }

    /// The same error, of reading what a write gave back: the write itself was carried out.
    pub(crate) fn behind_a_write(self) -> Self {
        self.with(|e| {
            e.message = format!(
                "the write was carried out, but what it gave back cannot be read: {}",
                e.message
            );
        })
    }

    /// The error of a hook behind a write that cannot be taken back.
    pub(crate) fn of_hook_behind(self) -> Self {
        let message = format!("the write was carried out, but a hook behind it failed: {self}");
        Self::new(ErrorKind::Committed, message).with_source(self)
    }

    /// The same error with what caused it.
    #[must_use]
    pub fn with_source(self, source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        self.with(|e| e.source = Some(Arc::from(source.into())))
    }

    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = &*self.0;
        f.write_str(&e.message)?;
        let mut open = false;
        let mut part = |f: &mut fmt::Formatter<'_>, name: &str, value: &dyn fmt::Display| {
            let before = if open { ", " } else { " (" };
            open = true;
            write!(f, "{before}{name} {value}")
        };
        if let Some(model) = e.model {
            part(f, "model", &model)?;
        }
        if let Some(collection) = &e.collection {
            part(f, "collection", collection)?;
        }
        if let Some(id) = &e.id {
            part(f, "_id", id)?;
        }
        if let Some(path) = &e.path {
            part(f, "path", path)?;
        }
        if let Some(index) = &e.index {
            part(f, "index", index)?;
        }
        if let Some(value) = &e.value {
            part(f, "key", value)?;
        }
        if let Some(operation) = e.operation {
            part(f, "operation", &operation)?;
        }
        if let Some(limit) = e.limit {
            part(f, "limit", &format_args!("{limit:?}"))?;
        }
        if let Some(inserted) = e.inserted {
            part(f, "documents stored", &inserted)?;
        }
        if e.failures.len() > 1 {
            part(f, "documents refused", &e.failures.len())?;
        }
        if open { f.write_str(")") } else { Ok(()) }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind())
    }
}

impl error::Error for Error {
    /// What is behind the backend's or the application's own error, whose text this error has in its own;
    /// [`cause`](Self::cause) gives that one.
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.source.as_deref()?.source()
    }
}

/// Serialising fails on a value that BSON cannot hold.
pub(crate) fn encode(error: bson::error::Error) -> Error {
    Error::new(
        ErrorKind::Encode,
        format!("a value cannot be stored as BSON: {error}"),
    )
    .with_source(error)
}

/// The error of a read that has exceeded its time limit.
pub(crate) fn timed_out() -> Error {
    let message = "the read took longer than its time limit and was ended: let an index serve it, ask for less, or raise the limit";
    Error::new(ErrorKind::Timeout, message)
}

/// There is no document with this id.
pub(crate) fn not_found<T: Document>(id: &T::Id) -> Error {
    let id = encode_value(id).ok().map(Bson::try_from);
    no_such(&T::MODEL, id.and_then(Result::ok))
}

/// The same with the id, if it is known, as it is stored.
pub(crate) fn no_such(model: &Model, id: Option<Bson>) -> Error {
    let message = "there is no document with this id";
    let error = of(model)(Error::new(ErrorKind::NotFound, message));
    match id {
        Some(id) => error.with_id(id),
        None => error,
    }
}

/// The same error with the model and its collection named.
pub(crate) fn of_model<T: Document>(error: Error) -> Error {
    of(&T::MODEL)(error)
}

/// Names the model and collection in an error without a model.
pub(crate) fn of(model: &Model) -> impl Fn(Error) -> Error + Copy + use<> {
    let (name, collection) = (model.name, model.collection);
    move |error| match error.model() {
        None => error.with_model(name).with_collection(collection),
        Some(_) => error,
    }
}

/// The array of a stored document has no room for what was to be appended.
pub(crate) fn full(max: usize, document: &RawDocument) -> Error {
    let error = Error::new(
        ErrorKind::TooManyElements,
        format!(
            "the array holds at most {max} elements and has no room for more; nothing was written"
        ),
    );
    error.with_id_of(document)
}

/// An array would hold more than it may.
pub(crate) fn too_many(max: usize, found: usize) -> Error {
    Error::new(
        ErrorKind::TooManyElements,
        format!("the array holds at most {max} elements, not {found}; nothing was written"),
    )
}
