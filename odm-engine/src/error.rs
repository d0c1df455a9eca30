//! The error of the engine.

pub(crate) mod code;
mod duplicate_key;

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

pub use duplicate_key::DuplicateKey;

/// The result of an operation of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed, and what to do about it.
///
/// [`kind`](Error::kind) is what a program decides on, [`code`](Error::code) is MongoDB's number for
/// it where MongoDB has one, and the message is for people.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

/// The kinds of failure that a program may want to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A unique index already holds the key: change the document, or update the one that is there.
    DuplicateKey,
    /// Another writer changed the same data first: run the whole transaction again.
    WriteConflict,
    /// No operator has this name: correct the spelling.
    UnknownOperator,
    /// MongoDB has it and this engine does not: express it differently.
    NotSupported,
    /// The input is not valid; the message says what is.
    BadValue,
    /// The change log does not have what comes behind a resume token: read the documents again, and watch from then on.
    HistoryLost,
    /// The file is open elsewhere: close it there, or share that `Database`.
    InUse,
    /// The file was not made by this engine: give another path.
    ForeignFile,
    /// The file was made by a newer version of this engine: upgrade the program.
    NewerFormat,
    /// The file is truncated or its content is inconsistent: restore a backup.
    Damaged,
    /// The transaction has already been committed or aborted: begin another.
    TransactionOver,
    /// The write, or the transaction, changes more than fits into memory: write in parts.
    WriteTooLarge,
    /// There is no room on the disk: nothing was written. Free space or delete documents, and write again.
    StorageFull,
    /// The file system failed: repair it and write again, which opens the file anew.
    Io,
    /// The database was closed: open it again.
    Closed,
    /// The caller cancelled the operation.
    Cancelled,
    /// The operation took longer than its caller allowed.
    TimedOut,
}

struct Inner {
    kind: ErrorKind,
    code: Option<i32>,
    message: String,
    duplicate: Option<DuplicateKey>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// MongoDB's number for this error, where it has one.
    pub fn code(&self) -> Option<i32> {
        self.0.code
    }

    /// The explanation, without the kind.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What was duplicated, if a unique index refused a key.
    pub fn duplicate_key(&self) -> Option<&DuplicateKey> {
        self.0.duplicate.as_ref()
    }

    /// Whether a unique index refused a key.
    pub fn is_duplicate_key(&self) -> bool {
        self.kind() == ErrorKind::DuplicateKey
    }

    /// Whether another writer was first; running the whole transaction again may succeed.
    pub fn is_write_conflict(&self) -> bool {
        self.kind() == ErrorKind::WriteConflict
    }

    /// Whether an operator has a name that nobody knows.
    pub fn is_unknown_operator(&self) -> bool {
        self.kind() == ErrorKind::UnknownOperator
    }

    /// Whether MongoDB has this and the engine does not.
    pub fn is_not_supported(&self) -> bool {
        self.kind() == ErrorKind::NotSupported
    }

    /// Whether the input was refused.
    pub fn is_bad_value(&self) -> bool {
        self.kind() == ErrorKind::BadValue
    }

    /// Whether the change log does not have what comes behind a resume token.
    pub fn is_history_lost(&self) -> bool {
        self.kind() == ErrorKind::HistoryLost
    }

    /// Whether the file is open elsewhere.
    pub fn is_in_use(&self) -> bool {
        self.kind() == ErrorKind::InUse
    }

    /// Whether the file was not made by this engine.
    pub fn is_foreign_file(&self) -> bool {
        self.kind() == ErrorKind::ForeignFile
    }

    /// Whether the file was made by a newer version of this engine.
    pub fn is_newer_format(&self) -> bool {
        self.kind() == ErrorKind::NewerFormat
    }

    /// Whether the file is truncated or inconsistent.
    pub fn is_damaged(&self) -> bool {
        self.kind() == ErrorKind::Damaged
    }

    /// Whether the transaction had already ended.
    pub fn is_transaction_over(&self) -> bool {
        self.kind() == ErrorKind::TransactionOver
    }

    /// Whether a write or a transaction changes more than fits into memory.
    pub fn is_write_too_large(&self) -> bool {
        self.kind() == ErrorKind::WriteTooLarge
    }

    /// Whether there is no room on the disk.
    pub fn is_storage_full(&self) -> bool {
        self.kind() == ErrorKind::StorageFull
    }

    /// Whether the file system failed.
    pub fn is_io(&self) -> bool {
        self.kind() == ErrorKind::Io
    }

    /// Whether the database was closed.
    pub fn is_closed(&self) -> bool {
        self.kind() == ErrorKind::Closed
    }

    /// Whether the caller cancelled the operation.
    pub fn is_cancelled(&self) -> bool {
        self.kind() == ErrorKind::Cancelled
    }

    /// Whether the operation took longer than its caller allowed.
    pub fn is_timed_out(&self) -> bool {
        self.kind() == ErrorKind::TimedOut
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, code: Option<i32>, message: impl Into<String>) -> Error {
        Error(Arc::new(Inner {
            kind,
            code,
            message: message.into(),
            duplicate: None,
            source: None,
        }))
    }

    /// Input that MongoDB refuses under the number `code` (see [`mod@code`]).
    pub(crate) fn server(code: i32, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::BadValue, Some(code), message)
    }

    /// Input that MongoDB refuses under its general number for bad values.
    pub(crate) fn bad_value(message: impl Into<String>) -> Error {
        Error::server(code::BAD_VALUE, message)
    }

    /// A name that is no operator; MongoDB's number depends on the place.
    pub(crate) fn unknown_operator(code: i32, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::UnknownOperator, Some(code), message)
    }

    /// Something that MongoDB has and the engine refuses.
    pub(crate) fn not_supported(message: impl Into<String>) -> Error {
        let code = Some(code::COMMAND_NOT_SUPPORTED);
        Error::new(ErrorKind::NotSupported, code, message)
    }

    pub(crate) fn duplicate(duplicate: DuplicateKey) -> Error {
        Error(Arc::new(Inner {
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

    pub(crate) fn transaction_over(code: i32, how: &str) -> Error {
        let message = format!("the transaction has been {how}; begin another one");
        Error::new(ErrorKind::TransactionOver, Some(code), message)
    }

    pub(crate) fn write_too_large(max_bytes: usize) -> Error {
        let message = format!(
            "the changes of this write or transaction take more than {} MiB of memory; nothing was written: write in \
             parts, for example of ranges of _id",
            max_bytes >> 20
        );
        Error::new(
            ErrorKind::WriteTooLarge,
            Some(code::TRANSACTION_TOO_LARGE),
            message,
        )
    }

    /// Whether it is about the whole operation, and not about one of its documents.
    pub(crate) fn ends_operation(&self) -> bool {
        match self.kind() {
            ErrorKind::WriteConflict
            | ErrorKind::WriteTooLarge
            | ErrorKind::Cancelled
            | ErrorKind::TimedOut
            | ErrorKind::Damaged
            | ErrorKind::StorageFull
            | ErrorKind::Io
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

    /// Events behind a place have been dropped, or all of them with the log.
    pub(crate) fn history_lost(is_kept: bool) -> Error {
        let why = if is_kept {
            "it is older than what the log keeps (`Database::set_change_log` lets it keep more)"
        } else {
            "the log has been switched off since"
        };
        let code = code::CHANGE_STREAM_HISTORY_LOST;
        Error::no_history(code, why)
    }

    /// A place is of no history of this database.
    pub(crate) fn history_unknown(why: &str) -> Error {
        Error::no_history(code::CHANGE_STREAM_FATAL_ERROR, why)
    }

    fn no_history(code: i32, why: &str) -> Error {
        let message = format!(
            "the change log does not go back to the place to resume at: {why}; read the documents \
             again and watch from then on"
        );
        Error::new(ErrorKind::HistoryLost, Some(code), message)
    }

    pub(crate) fn damaged(what: impl fmt::Display) -> Error {
        let message = format!("the database file is damaged ({what}); restore it from a backup");
        Error::new(ErrorKind::Damaged, None, message)
    }

    /// A failure of the file system.
    pub(crate) fn io(
        what: &str,
        file: &str,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Error {
        let source = source.into();
        Error(Arc::new(Inner {
            kind: ErrorKind::Io,
            code: None,
            message: format!("{what} {file}: {source}"),
            duplicate: None,
            source: Some(source),
        }))
    }

    /// There is no room on the disk.
    pub(crate) fn storage_full(file: &str, source: impl fmt::Display) -> Error {
        let message = format!("no room to write to {file}: {source}");
        let code = Some(code::OUT_OF_DISK_SPACE);
        Error::new(ErrorKind::StorageFull, code, message)
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

    /// The same of a write that has left nothing behind.
    pub(crate) fn undone(self) -> Error {
        let message = match self.kind() {
            ErrorKind::StorageFull => {
                "nothing was written; free space or delete documents, and try again"
            }
            ErrorKind::Io => "nothing was written; remove the cause and try again",
            _ => return self,
        };
        self.explained(message)
    }

    /// The same of a write that may have taken place.
    pub(crate) fn unknown(self) -> Error {
        match self.kind() {
            ErrorKind::StorageFull | ErrorKind::Io => self.explained(
                "whether this was written is not known until the file can be opened anew, which every later write and \
                 `Database::reopen` try",
            ),
            _ => self,
        }
    }

    /// The same with more to say.
    fn explained(self, more: &str) -> Error {
        let message = format!("{}; {more}", self.message());
        let (kind, code) = (self.kind(), self.code());
        Error(Arc::new(Inner {
            kind,
            code,
            message,
            duplicate: None,
            source: Some(Box::new(self)),
        }))
    }
}

impl From<bson::error::Error> for Error {
    /// Bytes that are not BSON, wherever they are met.
    fn from(error: bson::error::Error) -> Error {
        Error::server(code::INVALID_BSON, format!("malformed BSON: {error}"))
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
