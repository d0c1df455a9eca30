//! The error of the engine.

pub(crate) mod code;
mod duplicate_key;

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

pub use duplicate_key::DuplicateKey;

/// The result of an engine operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of an engine operation: why the operation failed, and how to recover.
///
/// A program branches on [`kind`](Error::kind). [`code`](Error::code) is MongoDB's error number, where MongoDB defines a number
/// for the failure. The message is for people.
#[derive(Clone)]
pub struct Error(Arc<ErrorInner>);

/// The kinds of failure that a program may need to distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A unique index already holds the key: change the document, or update the existing document.
    DuplicateKey,
    /// Another writer changed the same data first: run the whole transaction again.
    WriteConflict,
    /// No operator has this name: correct the spelling.
    UnknownOperator,
    /// MongoDB has the feature and this engine does not: express the request differently.
    NotSupported,
    /// The input is not valid. The message names the valid input.
    BadValue,
    /// The change log no longer has the events after a resume token: read the documents again and start a new watch.
    HistoryLost,
    /// The file is open elsewhere: close it there, or share that `Database`.
    InUse,
    /// The file was not created by this engine: use a different path.
    ForeignFile,
    /// The file was created by a newer version of this engine: upgrade the program.
    NewerFormat,
    /// The file is truncated or its content is inconsistent: restore a backup.
    Damaged,
    /// The transaction is already committed or aborted: begin a new transaction.
    TransactionOver,
    /// The changes of a write or transaction do not fit into memory: split the write.
    WriteTooLarge,
    /// The disk is full and no data was written: free space or delete documents, then write again.
    StorageFull,
    /// The file system failed: repair it, then write again. The next write reopens the file.
    Io,
    /// The database was opened only for reads: open it with `Database::open` for writes.
    ReadOnly,
    /// The database was closed: open it again.
    Closed,
    /// The caller cancelled the operation.
    Cancelled,
    /// The operation exceeded the caller's time limit.
    TimedOut,
    /// The operation has to wait, and the thread must not: call the operation again on a thread that may wait. Only within
    /// [`run_briefly`](crate::run_briefly).
    WouldBlock,
}

struct ErrorInner {
    kind: ErrorKind,
    code: Option<i32>,
    message: String,
    duplicate: Option<DuplicateKey>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// Returns the kind of this failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns MongoDB's number for this error, if MongoDB has a number for it.
    pub fn code(&self) -> Option<i32> {
        self.0.code
    }

    /// Returns the message, without the kind.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the duplicate key, if a unique index refused a key.
    pub fn duplicate_key(&self) -> Option<&DuplicateKey> {
        self.0.duplicate.as_ref()
    }

    /// Returns whether a unique index refused a key.
    pub fn is_duplicate_key(&self) -> bool {
        self.kind() == ErrorKind::DuplicateKey
    }

    /// Returns whether another writer changed the same data first. Running the whole transaction again may succeed.
    pub fn is_write_conflict(&self) -> bool {
        self.kind() == ErrorKind::WriteConflict
    }

    /// Returns whether the name of an operator is unknown.
    pub fn is_unknown_operator(&self) -> bool {
        self.kind() == ErrorKind::UnknownOperator
    }

    /// Returns whether MongoDB supports the request and this engine does not.
    pub fn is_not_supported(&self) -> bool {
        self.kind() == ErrorKind::NotSupported
    }

    /// Returns whether the input was refused as invalid.
    pub fn is_bad_value(&self) -> bool {
        self.kind() == ErrorKind::BadValue
    }

    /// Returns whether the change log no longer has the events after a resume token.
    pub fn is_history_lost(&self) -> bool {
        self.kind() == ErrorKind::HistoryLost
    }

    /// Returns whether the file is open elsewhere.
    pub fn is_in_use(&self) -> bool {
        self.kind() == ErrorKind::InUse
    }

    /// Returns whether the file was not created by this engine.
    pub fn is_foreign_file(&self) -> bool {
        self.kind() == ErrorKind::ForeignFile
    }

    /// Returns whether the file was created by a newer version of this engine.
    pub fn is_newer_format(&self) -> bool {
        self.kind() == ErrorKind::NewerFormat
    }

    /// Returns whether the file is truncated or inconsistent.
    pub fn is_damaged(&self) -> bool {
        self.kind() == ErrorKind::Damaged
    }

    /// Returns whether the transaction had already ended.
    pub fn is_transaction_over(&self) -> bool {
        self.kind() == ErrorKind::TransactionOver
    }

    /// Returns whether the changes of a write or transaction do not fit into memory.
    pub fn is_write_too_large(&self) -> bool {
        self.kind() == ErrorKind::WriteTooLarge
    }

    /// Returns whether the disk is full.
    pub fn is_storage_full(&self) -> bool {
        self.kind() == ErrorKind::StorageFull
    }

    /// Returns whether the file system failed.
    pub fn is_io(&self) -> bool {
        self.kind() == ErrorKind::Io
    }

    /// Returns whether a write was refused because the database was opened only for reads.
    pub fn is_read_only(&self) -> bool {
        self.kind() == ErrorKind::ReadOnly
    }

    /// Returns whether the database was closed.
    pub fn is_closed(&self) -> bool {
        self.kind() == ErrorKind::Closed
    }

    /// Returns whether the caller cancelled the operation.
    pub fn is_cancelled(&self) -> bool {
        self.kind() == ErrorKind::Cancelled
    }

    /// Returns whether the operation exceeded the caller's time limit.
    pub fn is_timed_out(&self) -> bool {
        self.kind() == ErrorKind::TimedOut
    }

    /// Returns whether a [brief](crate::run_briefly) operation has to wait.
    pub fn is_would_block(&self) -> bool {
        self.kind() == ErrorKind::WouldBlock
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, code: Option<i32>, message: impl Into<String>) -> Error {
        Error(Arc::new(ErrorInner {
            kind,
            code,
            message: message.into(),
            duplicate: None,
            source: None,
        }))
    }

    /// An error for input that MongoDB refuses with the error number `code` (see [`mod@code`]).
    pub(crate) fn with_server_code(code: i32, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::BadValue, Some(code), message)
    }

    /// An error for input that MongoDB refuses with its general number for bad values.
    pub(crate) fn bad_value(message: impl Into<String>) -> Error {
        Error::with_server_code(code::BAD_VALUE, message)
    }

    /// An error for an unknown operator name. MongoDB's number depends on the place of the operator.
    pub(crate) fn unknown_operator(code: i32, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::UnknownOperator, Some(code), message)
    }

    /// An error for a MongoDB feature that the engine does not support.
    pub(crate) fn not_supported(message: impl Into<String>) -> Error {
        let code = Some(code::COMMAND_NOT_SUPPORTED);
        Error::new(ErrorKind::NotSupported, code, message)
    }

    pub(crate) fn from_duplicate_key(duplicate: DuplicateKey) -> Error {
        Error(Arc::new(ErrorInner {
            kind: ErrorKind::DuplicateKey,
            code: Some(code::DUPLICATE_KEY),
            message: duplicate.to_string(),
            duplicate: Some(duplicate),
            source: None,
        }))
    }

    pub(crate) fn write_conflict() -> Error {
        let message = "another writer changed the same data first; run the whole transaction again";
        Error::new(
            ErrorKind::WriteConflict,
            Some(code::WRITE_CONFLICT),
            message,
        )
    }

    pub(crate) fn transaction_over(code: i32, outcome: &str) -> Error {
        let message = format!("the transaction has been {outcome}; begin a new transaction");
        Error::new(ErrorKind::TransactionOver, Some(code), message)
    }

    pub(crate) fn write_too_large(max_bytes: usize) -> Error {
        let message = format!(
            "the changes of this write or transaction take more than {} MiB of memory; nothing was written; write in parts, for example by ranges of `_id`",
            max_bytes >> 20
        );
        Error::new(
            ErrorKind::WriteTooLarge,
            Some(code::TRANSACTION_TOO_LARGE),
            message,
        )
    }

    /// Whether the error concerns the whole operation rather than a single document.
    pub(crate) fn ends_operation(&self) -> bool {
        match self.kind() {
            ErrorKind::WriteConflict
            | ErrorKind::WriteTooLarge
            | ErrorKind::Cancelled
            | ErrorKind::TimedOut
            | ErrorKind::WouldBlock
            | ErrorKind::Damaged
            | ErrorKind::StorageFull
            | ErrorKind::Io
            | ErrorKind::ReadOnly
            | ErrorKind::Closed => true,
            ErrorKind::DuplicateKey
            | ErrorKind::UnknownOperator
            | ErrorKind::NotSupported
            | ErrorKind::BadValue
            | ErrorKind::HistoryLost
            | ErrorKind::InUse
            | ErrorKind::ForeignFile
            | ErrorKind::NewerFormat
            | ErrorKind::TransactionOver => false,
        }
    }

    /// An error for a resume point that lies before the first retained event, or before the log was switched off.
    pub(crate) fn history_lost(is_kept: bool) -> Error {
        let reason = if is_kept {
            "the log no longer has the events after this point (raise the limits with `Database::set_change_log`)"
        } else {
            "the log was switched off after this point"
        };
        let code = code::CHANGE_STREAM_HISTORY_LOST;
        Error::history_error(code, reason)
    }

    /// An error for a resume point that is not in the history of this database.
    pub(crate) fn history_unknown(reason: &str) -> Error {
        Error::history_error(code::CHANGE_STREAM_FATAL_ERROR, reason)
    }

    fn history_error(code: i32, reason: &str) -> Error {
        let message = format!(
            "the change stream cannot start at this point: {reason}; read the documents \
             again and start a new stream"
        );
        Error::new(ErrorKind::HistoryLost, Some(code), message)
    }

    pub(crate) fn damaged(reason: impl fmt::Display) -> Error {
        let message = format!("the database file is damaged ({reason}); restore it from a backup");
        Error::new(ErrorKind::Damaged, None, message)
    }

    /// An error for a failure of the file system.
    pub(crate) fn io(
        action: &str,
        file: &str,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Error {
        let source = source.into();
        Error(Arc::new(ErrorInner {
            kind: ErrorKind::Io,
            code: None,
            message: format!("{action} {file}: {source}"),
            duplicate: None,
            source: Some(source),
        }))
    }

    /// An error for a full disk.
    pub(crate) fn storage_full(file: &str, source: impl fmt::Display) -> Error {
        let message = format!("no room to write to {file}: {source}");
        let code = Some(code::OUT_OF_DISK_SPACE);
        Error::new(ErrorKind::StorageFull, code, message)
    }

    pub(crate) fn read_only() -> Error {
        let message =
            "the database was opened only for reads; open it with `Database::open` to write";
        Error::new(ErrorKind::ReadOnly, None, message)
    }

    /// An error for indexes that a read-only open would have to rebuild.
    pub(crate) fn outdated_collation() -> Error {
        let message = "the collation rules of an index have changed with this version of the program; open the file once \
             with `Database::open` or compact it, which rebuilds the index";
        Error::new(ErrorKind::ReadOnly, None, message)
    }

    pub(crate) fn closed() -> Error {
        let message = "the database was closed; open it again";
        Error::new(ErrorKind::Closed, None, message)
    }

    pub(crate) fn cancelled() -> Error {
        let code = Some(code::INTERRUPTED);
        Error::new(ErrorKind::Cancelled, code, "the operation was cancelled")
    }

    pub(crate) fn timed_out() -> Error {
        let code = Some(code::MAX_TIME_EXPIRED);
        let message = "the operation exceeded its time limit; allow more time, or let it read less";
        Error::new(ErrorKind::TimedOut, code, message)
    }

    pub(crate) fn would_block() -> Error {
        let message = "the operation has to wait; call it again on a thread that may wait";
        Error::new(ErrorKind::WouldBlock, None, message)
    }

    /// Adds to a storage error that the write was rolled back.
    pub(crate) fn into_rolled_back(self) -> Error {
        let message = match self.kind() {
            ErrorKind::StorageFull => {
                "nothing was written; free space or delete documents, and try again"
            }
            ErrorKind::Io => "nothing was written; remove the cause and try again",
            _ => return self,
        };
        self.with_explanation(message)
    }

    /// Adds to a storage error that the outcome of the write is unknown.
    pub(crate) fn into_outcome_unknown(self) -> Error {
        match self.kind() {
            ErrorKind::StorageFull | ErrorKind::Io => self.with_explanation(
                "the outcome of this write is unknown; later writes and `Database::reopen` try to reopen the file",
            ),
            _ => self,
        }
    }

    /// Returns the error with an addition to its message.
    fn with_explanation(self, addition: &str) -> Error {
        let message = format!("{}; {addition}", self.message());
        let (kind, code) = (self.kind(), self.code());
        Error(Arc::new(ErrorInner {
            kind,
            code,
            message,
            duplicate: None,
            source: Some(Box::new(self)),
        }))
    }
}

impl From<bson::error::Error> for Error {
    /// Converts an error about bytes that are not BSON.
    fn from(error: bson::error::Error) -> Error {
        Error::with_server_code(code::INVALID_BSON, format!("malformed BSON: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Error");
        debug.field("kind", &self.0.kind);
        if let Some(code) = self.0.code {
            debug.field("code", &code);
        }
        debug.field("message", &self.0.message).finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0
            .source
            .as_deref()
            .map(|source| source as &(dyn StdError + 'static))
    }
}
