//! The error type: kinds, context, and conversions.

mod problem;

use std::{error, fmt, sync::Arc, time::Duration};

use bson::{Bson, RawDocument};

pub use problem::{Problem, Violation};

use crate::{
    language::query::encode_value,
    metadata::text_of_caseless,
    model::document::Document,
    schema::{IndexReport, Model},
};

/// A result with the error type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of every operation.
///
/// [`kind`](Self::kind) and the predicates tell the errors apart. The accessors return the context. The text contains the known
/// context (model, collection, document, path, index) and the remedy.
///
/// Cloning is cheap: if several operations wait for the same failed read, each gets a clone.
#[derive(Clone)]
pub struct Error(Arc<ErrorInner>);

#[derive(Clone)]
struct ErrorInner {
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
    is_transient: bool,
}

/// The kinds of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A required document does not exist.
    NotFound,
    /// More than one document matches where at most one is allowed.
    NotUnique,
    /// A unique index, or `_id`, has the value already. Use another value, or change the document with the value.
    DuplicateKey,
    /// Another write came first, and nothing was written. Run the operation again from the beginning.
    Conflict,
    /// A required reference has no target document. Insert the target first, or change the reference.
    Dangling,
    /// The target of an exclusive reference is linked to another document already. Change that document first.
    AlreadyLinked,
    /// Referrers prevented a delete, and nothing was deleted. Change or delete the referrers first.
    Restricted,
    /// The condition of a required update was false.
    NotApplied,
    /// A declared index is missing in the database. Run [`sync_indexes`](crate::Database::sync_indexes).
    MissingIndex,
    /// An array would exceed its `max`. Nothing was written.
    TooManyElements,
    /// A stored document does not fit the model. Repair the document, or extend the model.
    Decode,
    /// A value cannot be stored as BSON.
    Encode,
    /// Values break the rules of the model, and nothing was written. [`violations`](Error::violations) lists every violation.
    Validation,
    /// The write is committed, but a hook after the commit failed. Do not write again.
    Committed,
    /// A page token is invalid, or belongs to another query. Start with the first page.
    InvalidPageToken,
    /// The operation is invalid: a wrong regular expression, a map key with a dot, …
    Invalid,
    /// The backend does not support the operation or the option.
    Unsupported,
    /// The URL names no backend of this build.
    InvalidUrl,
    /// The server is unreachable, or the connection was lost. The outcome of a write is unknown.
    Connection,
    /// Another process has the files open. Close that process, or use a server.
    InUse,
    /// The files are not a database of this engine, are damaged, or have a newer format.
    Damaged,
    /// The database has discarded the changes after a resume token. Read the documents again, and watch from then on.
    HistoryLost,
    /// The target of a [copy](crate::copy) has collections already. Drop the collections, or choose an empty database.
    TargetNotEmpty,
    /// The target of a [copy](crate::copy) differs from the source. Stop all writers of the target, and copy
    /// again.
    CopyDiffers,
    /// Pending work was not completed in time, or was rejected. Wait longer, or inspect the pending work with `pending`.
    StillPending,
    /// A read or a transaction exceeded its time limit and was cancelled. [`limit`](Error::limit) returns the limit.
    Timeout,
    /// The server aborted a transaction that was open for longer than `transactionLifetimeLimitSeconds`. Do less in one
    /// transaction, or raise the limit of the server.
    TransactionExpired,
    /// The transaction is committed or aborted already.
    TransactionOver,
    /// A write in the closure of a transaction goes through the database. Use `tx`, so that the write is part of the transaction.
    OutsideTransaction,
    /// The write exceeds the memory limit of the engine, or the size limit of a server transaction. Split the write.
    WriteTooLarge,
    /// The disk is full, and nothing was written. Free space, or delete documents.
    StorageFull,
    /// Reading or writing a file failed.
    Io,
    /// The database was [closed](crate::Database::close).
    Closed,
    /// The backend rejected the operation for another reason. [`code`](Error::code) returns the MongoDB error code.
    Backend,
    /// An error of the application, created by [`Error::other`].
    Other,
}

impl Error {
    /// Creates an error. For implementations of [`Backend`](crate::backend::Backend).
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(ErrorInner {
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
            is_transient: false,
        }))
    }

    /// Creates an error of the application, so that `?` and [`Database::transaction`](crate::Database::transaction) can pass it
    /// on.
    ///
    /// ```
    /// let error = odm::Error::other("not enough credits");
    /// assert_eq!(error.kind(), odm::ErrorKind::Other);
    /// ```
    pub fn other(error: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        let source = error.into();
        Self::new(ErrorKind::Other, source.to_string()).with_source(source)
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns whether a required document does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }

    /// Returns whether a unique index, or `_id`, has the value already.
    #[must_use]
    pub fn is_duplicate_key(&self) -> bool {
        self.kind() == ErrorKind::DuplicateKey
    }

    /// Returns whether another write came first. Nothing was written, and the operation can run again from the beginning.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.kind() == ErrorKind::Conflict
    }

    /// Returns whether a read or a transaction exceeded its time limit.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.kind() == ErrorKind::Timeout
    }

    /// Returns whether a stored document does not fit the model.
    #[must_use]
    pub fn is_decode(&self) -> bool {
        self.kind() == ErrorKind::Decode
    }

    /// Returns whether the backend does not support the operation or the option.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        self.kind() == ErrorKind::Unsupported
    }

    /// Returns whether values break the rules of the model.
    #[must_use]
    pub fn is_validation(&self) -> bool {
        self.kind() == ErrorKind::Validation
    }

    /// Returns whether the write is committed, and only a hook after the commit failed.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        self.kind() == ErrorKind::Committed
    }

    /// Returns whether a page token is invalid, or belongs to another query.
    #[must_use]
    pub fn is_invalid_page_token(&self) -> bool {
        self.kind() == ErrorKind::InvalidPageToken
    }

    /// Returns whether the database has discarded the changes after a resume token.
    #[must_use]
    pub fn is_history_lost(&self) -> bool {
        self.kind() == ErrorKind::HistoryLost
    }

    /// Returns whether the disk is full. Deletes free space.
    #[must_use]
    pub fn is_storage_full(&self) -> bool {
        self.kind() == ErrorKind::StorageFull
    }

    /// Returns whether the database is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.kind() == ErrorKind::Closed
    }

    /// Returns the message without the context.
    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the model of the operation.
    #[must_use]
    pub fn model(&self) -> Option<&'static str> {
        self.0.model
    }

    /// Returns the collection of the operation.
    #[must_use]
    pub fn collection(&self) -> Option<&str> {
        self.0.collection.as_deref()
    }

    /// Returns the `_id` of the document.
    #[must_use]
    pub fn id(&self) -> Option<&Bson> {
        self.0.id.as_ref()
    }

    /// Returns the dotted path, with stored field names.
    ///
    /// For [`DuplicateKey`](ErrorKind::DuplicateKey) the path of the index, if the index has a single path apart from the
    /// field of the [scope](crate::Session::scope). For [`Dangling`](ErrorKind::Dangling) the path of the reference, in the
    /// document with the reference.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.0.path.as_deref()
    }

    /// Returns the name of the index that rejected a value.
    #[must_use]
    pub fn index(&self) -> Option<&str> {
        self.0.index.as_deref()
    }

    /// Returns the rejected key of a duplicate-key error: a document with the paths of the index and the values.
    #[must_use]
    pub fn value(&self) -> Option<&Bson> {
        self.0.value.as_ref()
    }

    /// Returns the MongoDB error code, if there is a code.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.0.code
    }

    /// Returns the typed operation that exceeded its time limit, as in the log: `find`, `get`, `transaction`.
    #[must_use]
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// Returns the exceeded time limit.
    #[must_use]
    pub fn limit(&self) -> Option<Duration> {
        self.0.limit
    }

    /// Returns the number of documents that an insert of many stored: in order, all documents before the failed document.
    #[must_use]
    pub fn inserted(&self) -> Option<usize> {
        self.0.inserted
    }

    /// Returns the rejected documents of an insert of many: the position of each, counted from 0, and the error.
    ///
    /// An ordered insert stops at the first rejected document, and reports at most one error.
    pub fn failures(&self) -> impl ExactSizeIterator<Item = (usize, &Self)> {
        let failures = self.0.failures.iter();
        failures.map(|(position, error)| (*position, error))
    }

    /// Returns the values that break the rules of the model: the path of each, with stored field names, and the message of its
    /// rule.
    pub fn violations(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        let violations = self.0.violations.iter();
        violations.map(|(path, message)| (path.as_str(), message.as_str()))
    }

    /// Returns the report of [`sync_indexes`](crate::Database::sync_indexes), if an index could not be created as declared.
    #[must_use]
    pub fn index_report(&self) -> Option<&IndexReport> {
        self.0.indexes.as_deref()
    }

    /// Returns the original error of the backend or the application, for a downcast.
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn error::Error + Send + Sync + 'static)> {
        self.0.source.as_deref()
    }

    /// Adds the model.
    #[must_use]
    pub fn with_model(self, model: &'static str) -> Self {
        self.with_inner(|e| e.model = Some(model))
    }

    /// Adds the collection.
    #[must_use]
    pub fn with_collection(self, collection: impl Into<String>) -> Self {
        self.with_inner(|e| e.collection = Some(collection.into()))
    }

    /// Adds the `_id` of the document.
    #[must_use]
    pub fn with_id(self, id: impl Into<Bson>) -> Self {
        self.with_inner(|e| e.id = Some(id.into()))
    }

    /// Adds the `_id` of a stored document.
    #[must_use]
    pub(crate) fn with_id_of(self, document: &RawDocument) -> Self {
        match crate::model::decode::stored_id(document).map(Bson::try_from) {
            Some(Ok(id)) => self.with_id(id),
            _ => self,
        }
    }

    /// Adds the path.
    #[must_use]
    pub fn with_path(self, path: impl Into<String>) -> Self {
        self.with_inner(|e| e.path = Some(path.into()))
    }

    /// Adds the index, and the rejected key.
    #[must_use]
    pub fn with_index(self, index: impl Into<String>, key: impl Into<Bson>) -> Self {
        self.with_inner(|e| {
            e.index = Some(index.into());
            e.value = Some(key.into());
        })
    }

    /// Adds the MongoDB error code.
    #[must_use]
    pub fn with_code(self, code: i32) -> Self {
        self.with_inner(|e| e.code = Some(code))
    }

    /// Adds the operation that exceeded its time limit, and the limit.
    #[must_use]
    pub fn with_limit(self, operation: &'static str, limit: Duration) -> Self {
        self.with_inner(|e| {
            e.operation = Some(operation);
            e.limit = Some(limit);
        })
    }

    /// Marks the error as transient: another writer works on a step that takes a while, and a later attempt can succeed.
    pub(crate) fn into_transient(self) -> Self {
        self.with_inner(|e| e.is_transient = true)
    }

    pub(crate) fn is_transient(&self) -> bool {
        self.0.is_transient
    }

    /// Returns whether the backend reported the error, and not the typed language. Such an error has the backend's error or code.
    pub(crate) fn is_from_backend(&self) -> bool {
        self.0.code.is_some() || self.0.source.is_some()
    }

    /// Adds the number of documents that were stored before the error.
    #[must_use]
    pub fn with_inserted(self, inserted: usize) -> Self {
        self.with_inner(|e| e.inserted = Some(inserted))
    }

    /// Counts `earlier` stored documents of the same insert, in the number of stored documents and in the positions of failures.
    pub(crate) fn after_stored(self, earlier: usize) -> Self {
        self.with_inner(|e| {
            e.inserted = Some(earlier + e.inserted.unwrap_or_default());
            for (position, _) in &mut e.failures {
                *position += earlier;
            }
        })
    }

    /// Adds the rejected documents, by position.
    #[must_use]
    pub fn with_failures(self, failures: impl IntoIterator<Item = (usize, Self)>) -> Self {
        self.with_inner(|e| e.failures = failures.into_iter().collect())
    }

    /// Adds the values that break rules: the path of each, and the message of its rule.
    #[must_use]
    pub fn with_violations(self, violations: impl IntoIterator<Item = (String, String)>) -> Self {
        self.with_inner(|e| e.violations = violations.into_iter().collect())
    }

    /// Adds the report of an index synchronization.
    pub(crate) fn with_index_report(self, report: IndexReport) -> Self {
        self.with_inner(|e| e.indexes = Some(Arc::new(report)))
    }

    /// Removes the number of inserted documents: an insert of a single document has no partial success.
    pub(crate) fn without_inserted(self) -> Self {
        self.with_inner(|e| {
            e.inserted = None;
            e.failures.clear();
        })
    }

    /// Changes the message for a failed read of a write's result: the write itself is committed.
    pub(crate) fn after_committed_write(self) -> Self {
        self.with_inner(|e| {
            e.message = format!(
                "the write succeeded, but the returned document cannot be read: {}",
                e.message
            );
        })
    }

    /// Creates the error for a failed hook after a committed write.
    pub(crate) fn of_post_commit_hook(self) -> Self {
        let message = format!("the write succeeded, but a hook after the commit failed: {self}");
        Self::new(ErrorKind::Committed, message).with_source(self)
    }

    /// Adds the original error.
    #[must_use]
    pub fn with_source(self, source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        self.with_inner(|e| e.source = Some(Arc::from(source.into())))
    }

    fn with_inner(mut self, change: impl FnOnce(&mut ErrorInner)) -> Self {
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
    /// Returns the source of the original error. The text of this error contains the original text already, and
    /// [`cause`](Self::cause) returns the original error.
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.source.as_deref()?.source()
    }
}

/// Creates the error for a value that BSON cannot represent.
pub(crate) fn from_bson(error: bson::error::Error) -> Error {
    Error::new(
        ErrorKind::Encode,
        format!("a value cannot be stored as BSON: {error}"),
    )
    .with_source(error)
}

/// Creates the error of a read that exceeded its time limit.
pub(crate) fn read_timed_out() -> Error {
    let message = "the read exceeded its time limit and was cancelled: add an index, read less, or raise the limit";
    Error::new(ErrorKind::Timeout, message)
}

/// Creates the error for an id without a document.
pub(crate) fn not_found<T: Document>(id: &T::Id) -> Error {
    let id = encode_value(id).ok().map(Bson::try_from);
    not_found_stored(&T::MODEL, id.and_then(Result::ok))
}

/// Creates the error for a stored id without a document. The id may be unknown.
pub(crate) fn not_found_stored(model: &Model, id: Option<Bson>) -> Error {
    let message = "there is no document with this id: insert the document first, or correct the id";
    let error = naming_model(model)(Error::new(ErrorKind::NotFound, message));
    match id {
        Some(id) => error.with_id(id),
        None => error,
    }
}

/// Adds the model and the collection of `T`, unless the error names a model already.
pub(crate) fn of_model<T: Document>(error: Error) -> Error {
    naming_model(&T::MODEL)(error)
}

/// Returns a function that adds the model and the collection, unless the error names a model already.
pub(crate) fn naming_model(model: &Model) -> impl Fn(Error) -> Error + Copy + use<> {
    let (name, collection) = (model.name, model.collection);
    let scope = model.scope.as_ref().map(|scope| scope.stored);
    move |error| match error.model() {
        None => with_unique_path(error, scope)
            .with_model(name)
            .with_collection(collection),
        Some(_) => error,
    }
}

/// Adds the path of the index to a duplicate-key error without a path, if the index has a single path apart from the scope.
fn with_unique_path(error: Error, scope: Option<&str>) -> Error {
    if !error.is_duplicate_key() || error.path().is_some() {
        return error;
    }
    let key = error.value().and_then(Bson::as_document);
    let mut paths = key
        .into_iter()
        .flat_map(bson::Document::keys)
        .filter(|path| scope != Some(path));
    match (paths.next().cloned(), paths.next()) {
        // An index that ignores case contains caseless texts.
        (Some(path), None) => error.with_path(text_of_caseless(&path)),
        _ => error,
    }
}

/// Creates the error for a stored array without room for the appended elements.
pub(crate) fn array_full(max: usize, document: &RawDocument) -> Error {
    let error = Error::new(
        ErrorKind::TooManyElements,
        format!(
            "the array holds at most {max} elements and has no room for more; nothing was written. Remove elements, or raise `max`"
        ),
    );
    error.with_id_of(document)
}

/// Creates the error for an array with more elements than its maximum.
pub(crate) fn too_many_elements(max: usize, length: usize) -> Error {
    Error::new(
        ErrorKind::TooManyElements,
        format!(
            "the array holds at most {max} elements, not {length}; nothing was written. Pass fewer elements, or raise `max`"
        ),
    )
}
