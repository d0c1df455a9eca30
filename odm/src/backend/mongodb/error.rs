//! The driver's errors and the server's as this crate's.

use ::mongodb::{
    bson::{Bson, Document},
    error::{
        Error as DriverError, ErrorKind as DriverErrorKind, TRANSIENT_TRANSACTION_ERROR,
        WriteConcernError, WriteFailure,
    },
};

use crate::{Error, ErrorKind};

/// Translates an error of the driver, which stays as the source.
pub(super) fn from_driver(failure: DriverError) -> Error {
    translate(&failure).with_source(failure)
}

/// A document that the server refused.
pub(super) struct Refused {
    /// Its position among the documents of the command; none if all were written, but not as safely as was asked for.
    pub(super) position: Option<usize>,
    pub(super) error: Error,
}

/// The first failure in the answer to a command that writes.
pub(super) fn in_answer(answer: &Document) -> Option<Refused> {
    all_in_answer(answer).into_iter().next()
}

/// The failures in the answer to a command that writes: those of documents, or else that of all.
pub(super) fn all_in_answer(answer: &Document) -> Vec<Refused> {
    let refused: Vec<_> = write_errors(answer).map(refused_document).collect();
    if refused.is_empty() {
        return not_safe(answer).into_iter().collect();
    }
    refused
}

fn refused_document(refused: &Document) -> Refused {
    let code = refused.get_i32("code").unwrap_or_default();
    let message = refused.get_str("errmsg").unwrap_or_default();
    let position = refused.get_i32("index").ok();
    Refused {
        position: position.and_then(|position| usize::try_from(position).ok()),
        error: server(code, message, Some(refused)),
    }
}

fn not_safe(answer: &Document) -> Option<Refused> {
    let concern = answer.get_document("writeConcernError").ok()?;
    Some(Refused {
        position: None,
        error: not_acknowledged(
            concern.get_i32("code").unwrap_or_default(),
            concern.get_str("errmsg").unwrap_or_default(),
        ),
    })
}

/// The error for a code of the server, with what the document that came with it says of a duplicate key.
pub(super) fn server(code: i32, message: &str, details: Option<&Document>) -> Error {
    let kind = kind(code, message);
    let error = match kind {
        ErrorKind::DuplicateKey => Error::new(kind, "another document has the same key"),
        ErrorKind::Conflict => conflict(),
        ErrorKind::Timeout => crate::error::timed_out(),
        ErrorKind::Connection => Error::new(
            kind,
            format!("the server broke off, and whether a write took effect is unknown: {message}"),
        ),
        _ => match details.and_then(|details| details.get_document("errInfo").ok()) {
            Some(info) => Error::new(kind, format!("MongoDB refused it: {message}: {info}")),
            None => Error::new(kind, format!("MongoDB refused it: {message}")),
        },
    };
    let error = error.with_code(code);
    let failing = details.and_then(|details| details.get_document("errInfo").ok());
    let error = match failing.and_then(|info| info.get("failingDocumentId")) {
        Some(id) => error.with_id(id.clone()),
        None => error,
    };
    match index_name(message) {
        Some(index) if kind == ErrorKind::DuplicateKey => {
            let key = details.and_then(|details| details.get("keyValue"));
            error.with_index(index, key.cloned().unwrap_or(Bson::Null))
        }
        _ => error,
    }
}

fn translate(failure: &DriverError) -> Error {
    if failure.contains_label(TRANSIENT_TRANSACTION_ERROR) {
        let error = conflict();
        return match &*failure.kind {
            DriverErrorKind::Command(command) => error.with_code(command.code),
            _ => error,
        };
    }
    let answer = failure.server_response();
    let answer = answer.and_then(|answer| Document::try_from(answer).ok());
    match &*failure.kind {
        DriverErrorKind::Command(command) => {
            server(command.code, &command.message, answer.as_ref())
        }
        DriverErrorKind::Write(WriteFailure::WriteError(write)) => {
            let details = answer
                .as_ref()
                .and_then(|answer| write_errors(answer).next());
            server(write.code, &write.message, details)
        }
        DriverErrorKind::Write(WriteFailure::WriteConcernError(concern)) => unsafe_write(concern),
        DriverErrorKind::InsertMany(insert) => match &insert.write_concern_error {
            Some(concern) => unsafe_write(concern),
            None => Error::new(ErrorKind::Backend, "MongoDB refused the insert"),
        },
        DriverErrorKind::Io(reason) => Error::new(
            ErrorKind::Connection,
            format!("the connection to MongoDB was lost: {reason}"),
        ),
        DriverErrorKind::DnsResolve { message, .. } => Error::new(
            ErrorKind::Connection,
            format!("no address for the server: {message}"),
        ),
        DriverErrorKind::ServerSelection { message, .. }
        | DriverErrorKind::ConnectionPoolCleared { message, .. } => Error::new(
            ErrorKind::Connection,
            format!("MongoDB cannot be reached: {message}"),
        ),
        DriverErrorKind::Shutdown => {
            Error::new(ErrorKind::Closed, "the database was closed; open it again")
        }
        DriverErrorKind::Authentication { message, .. } => Error::new(
            ErrorKind::Backend,
            format!("MongoDB does not accept the user and password of the URL: {message}"),
        ),
        DriverErrorKind::InvalidArgument { message, .. } => {
            Error::new(ErrorKind::Invalid, message.clone())
        }
        DriverErrorKind::Bson(reason) => Error::new(
            ErrorKind::Encode,
            format!("a value cannot be sent to MongoDB: {reason}"),
        ),
        DriverErrorKind::IncompatibleServer { message, .. } => Error::new(
            ErrorKind::Unsupported,
            format!("this version of MongoDB does not have it: {message}"),
        ),
        DriverErrorKind::SessionsNotSupported => Error::new(
            ErrorKind::Unsupported,
            "this MongoDB server has no sessions, and so no transactions",
        ),
        other => Error::new(
            ErrorKind::Backend,
            format!("MongoDB's driver failed: {other}"),
        ),
    }
}

fn conflict() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "another write came first, and nothing of this one was kept: try again from the beginning",
    )
}

fn unsafe_write(concern: &WriteConcernError) -> Error {
    not_acknowledged(concern.code, &concern.message)
}

/// The primary has the write, but may lose it.
fn not_acknowledged(code: i32, message: &str) -> Error {
    Error::new(
        ErrorKind::Connection,
        format!("not enough members of the replica set confirmed a write, so it may be lost again: {message}"),
    )
    .with_code(code)
}

fn write_errors(answer: &Document) -> impl Iterator<Item = &Document> {
    let errors = answer
        .get_array("writeErrors")
        .map_or(&[][..], Vec::as_slice);
    errors.iter().filter_map(Bson::as_document)
}

/// The codes are those of MongoDB's `error_codes.yml`.
fn kind(code: i32, message: &str) -> ErrorKind {
    match code {
        11000 | 11001 | 12582 => ErrorKind::DuplicateKey,
        112 => ErrorKind::Conflict,
        // MaxTimeMSExpired
        50 => ErrorKind::Timeout,
        // NamespaceNotFound, IndexNotFound
        26 | 27 => ErrorKind::NotFound,
        // ChangeStreamFatalError, ChangeStreamHistoryLost
        280 | 286 => ErrorKind::HistoryLost,
        // HostUnreachable, HostNotFound, NetworkTimeout, ShutdownInProgress, PrimarySteppedDown, ExceededTimeLimit,
        // SocketException, NotWritablePrimary, InterruptedAtShutdown, InterruptedDueToReplStateChange,
        // NotPrimaryNoSecondaryOk, NotPrimaryOrSecondary
        6 | 7 | 89 | 91 | 189 | 262 | 9001 | 10107 | 11600 | 11602 | 13435 | 13436 => {
            ErrorKind::Connection
        }
        // OutOfDiskSpace
        14031 => ErrorKind::StorageFull,
        // TransactionTooLarge, TransactionTooLargeForCache
        257 | 388 => ErrorKind::WriteTooLarge,
        // CommandNotFound, CommandNotSupported, InvalidPipelineOperator, an unknown stage, an unknown expression
        59 | 115 | 168 | 40324 | 31325 => ErrorKind::Unsupported,
        // BadValue, FailedToParse: also for every operator that the server does not know
        2 | 9 if message.to_ascii_lowercase().starts_with("unknown") => ErrorKind::Unsupported,
        // BadValue, FailedToParse, TypeMismatch, Overflow, InvalidLength, PathNotViable, ConflictingUpdateOperators,
        // DollarPrefixedFieldName, EmptyFieldName, DottedFieldName, ImmutableField, CannotCreateIndex,
        // InvalidNamespace, DocumentValidationFailure, IndexOptionsConflict, IndexKeySpecsConflict, BSONObjectTooLarge, the same of an update, a
        // malformed projection, a malformed regular expression (before and since 6.1), a position without an element, a
        // resume token without data, one without a type
        2 | 9 | 14 | 15 | 16 | 28 | 40 | 52 | 56 | 57 | 66 | 67 | 73 | 85 | 86 | 121 | 10334
        | 17419 | 17420 | 31249 | 31250 | 31253 | 31254 | 40647 | 40649 | 50811 | 51091 | 51108
        | 51246 => ErrorKind::Invalid,
        _ => ErrorKind::Backend,
    }
}

/// The name of the index in the message of a duplicate key, the only place that has it:
/// `E11000 duplicate key error collection: shop.users index: email_1 dup key: { email: "a" }`.
fn index_name(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once(" index: ")?;
    let (name, _) = rest.split_once(" dup key")?;
    Some(
        name.split_once(" collation: ")
            .map_or(name, |(name, _)| name),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_index_is_found() {
        let plain = "E11000 duplicate key error collection: shop.users index: email_1 dup key: { email: \"a\" }";
        assert_eq!(index_name(plain), Some("email_1"));
        let collated = "E11000 duplicate key error collection: s.u index: by name collation: { locale: \"de\" } dup key: { name: \"0x2a\" }";
        assert_eq!(index_name(collated), Some("by name"));
        assert_eq!(index_name("something else"), None);
    }

    #[test]
    fn a_refused_document_is_found_in_an_answer() {
        let answer = bson::doc! { "ok": 1, "n": 1, "writeErrors": [{
            "index": 1, "code": 11000, "keyPattern": { "email": 1 }, "keyValue": { "email": "a" },
            "errmsg": "E11000 duplicate key error collection: shop.users index: email_1 dup key: { email: \"a\" }",
        }] };
        let refused = in_answer(&answer).expect("there is one");
        assert_eq!(refused.position, Some(1));
        assert!(refused.error.is_duplicate_key());
        assert_eq!(refused.error.index(), Some("email_1"));
        assert_eq!(refused.error.value(), Some(&bson::bson!({ "email": "a" })));
        assert!(in_answer(&bson::doc! { "ok": 1, "n": 2 }).is_none());
    }
}
