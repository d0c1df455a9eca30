//! Conversion of errors of the driver and of the server to this crate's errors.

use ::mongodb::{
    bson::{Bson, Document},
    error::{
        Error as DriverError, ErrorKind as DriverErrorKind, TRANSIENT_TRANSACTION_ERROR,
        WriteConcernError, WriteFailure,
    },
};

use crate::{Error, ErrorKind};

/// Converts an error of the driver. The driver's error stays as the source.
pub(super) fn from_driver(failure: DriverError) -> Error {
    translate_driver_error(&failure).with_source(failure)
}

/// A write that the server rejected.
pub(super) struct RejectedWrite {
    /// The position of the document in the command. `None` if all documents were written, but the write concern failed.
    pub(super) position: Option<usize>,
    pub(super) error: Error,
}

/// Returns the first failure in the answer to a write command.
pub(super) fn first_in_answer(answer: &Document) -> Option<RejectedWrite> {
    all_in_answer(answer).into_iter().next()
}

/// Returns the failures in the answer to a write command: failures of documents, or else of the write concern.
pub(super) fn all_in_answer(answer: &Document) -> Vec<RejectedWrite> {
    let rejections: Vec<_> = write_errors(answer).map(rejected_document).collect();
    if rejections.is_empty() {
        return write_concern_failure(answer).into_iter().collect();
    }
    rejections
}

fn rejected_document(rejection: &Document) -> RejectedWrite {
    let code = rejection.get_i32("code").unwrap_or_default();
    let message = rejection.get_str("errmsg").unwrap_or_default();
    let position = rejection.get_i32("index").ok();
    RejectedWrite {
        position: position.and_then(|position| usize::try_from(position).ok()),
        error: from_server_code(code, message, Some(rejection)),
    }
}

fn write_concern_failure(answer: &Document) -> Option<RejectedWrite> {
    let concern = answer.get_document("writeConcernError").ok()?;
    Some(RejectedWrite {
        position: None,
        error: unacknowledged_error(
            concern.get_i32("code").unwrap_or_default(),
            concern.get_str("errmsg").unwrap_or_default(),
        ),
    })
}

/// Converts an error code of the server. The details of the error supply the key of a duplicate.
pub(super) fn from_server_code(code: i32, message: &str, details: Option<&Document>) -> Error {
    let kind = error_kind(code, message);
    let error = match kind {
        ErrorKind::DuplicateKey => Error::new(kind, "another document has the same key"),
        ErrorKind::Conflict => conflict_error(),
        ErrorKind::Timeout => crate::error::read_timed_out(),
        ErrorKind::Connection => Error::new(
            kind,
            format!(
                "MongoDB interrupted the operation, and the outcome of a write is unknown: {message}"
            ),
        ),
        _ => match details.and_then(|details| details.get_document("errInfo").ok()) {
            Some(info) => Error::new(
                kind,
                format!("MongoDB rejected the operation: {message}: {info}"),
            ),
            None => Error::new(kind, format!("MongoDB rejected the operation: {message}")),
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

fn translate_driver_error(failure: &DriverError) -> Error {
    if failure.contains_label(TRANSIENT_TRANSACTION_ERROR) {
        let error = conflict_error();
        return match &*failure.kind {
            DriverErrorKind::Command(command) => error.with_code(command.code),
            _ => error,
        };
    }
    let answer = failure.server_response();
    let answer = answer.and_then(|answer| Document::try_from(answer).ok());
    match &*failure.kind {
        DriverErrorKind::Command(command) => {
            from_server_code(command.code, &command.message, answer.as_ref())
        }
        DriverErrorKind::Write(WriteFailure::WriteError(write)) => {
            let details = answer
                .as_ref()
                .and_then(|answer| write_errors(answer).next());
            from_server_code(write.code, &write.message, details)
        }
        DriverErrorKind::Write(WriteFailure::WriteConcernError(concern)) => {
            unacknowledged_write(concern)
        }
        DriverErrorKind::InsertMany(insert) => match &insert.write_concern_error {
            Some(concern) => unacknowledged_write(concern),
            None => Error::new(ErrorKind::Backend, "MongoDB rejected the insert"),
        },
        DriverErrorKind::Io(reason) => Error::new(
            ErrorKind::Connection,
            format!(
                "the connection to MongoDB was lost, and the outcome of a write is unknown: {reason}"
            ),
        ),
        DriverErrorKind::DnsResolve { message, .. } => Error::new(
            ErrorKind::Connection,
            format!("cannot resolve the address of the MongoDB server: {message}"),
        ),
        DriverErrorKind::ServerSelection { message, .. }
        | DriverErrorKind::ConnectionPoolCleared { message, .. } => Error::new(
            ErrorKind::Connection,
            format!("cannot reach MongoDB: {message}"),
        ),
        DriverErrorKind::Shutdown => {
            Error::new(ErrorKind::Closed, "the database was closed; open it again")
        }
        DriverErrorKind::Authentication { message, .. } => Error::new(
            ErrorKind::Backend,
            format!("MongoDB rejected the user name or the password in the URL: {message}"),
        ),
        DriverErrorKind::InvalidArgument { message, .. } => {
            Error::new(ErrorKind::Invalid, message.clone())
        }
        DriverErrorKind::Bson(reason) => Error::new(
            ErrorKind::Encode,
            format!("cannot encode a value for MongoDB: {reason}"),
        ),
        DriverErrorKind::IncompatibleServer { message, .. } => Error::new(
            ErrorKind::Unsupported,
            format!("this MongoDB version does not support the operation: {message}"),
        ),
        DriverErrorKind::SessionsNotSupported => Error::new(
            ErrorKind::Unsupported,
            "this MongoDB server supports no sessions: use MongoDB 5.0 or later",
        ),
        other => Error::new(
            ErrorKind::Backend,
            format!("MongoDB's driver failed: {other}"),
        ),
    }
}

fn conflict_error() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "another write came first, and this write was rolled back: retry from the beginning",
    )
}

fn unacknowledged_write(concern: &WriteConcernError) -> Error {
    unacknowledged_error(concern.code, &concern.message)
}

/// The error of a write that the primary has stored, but may lose after an election.
fn unacknowledged_error(code: i32, message: &str) -> Error {
    Error::new(
        ErrorKind::Connection,
        format!("too few members of the replica set confirmed the write, so the write may be lost: {message}"),
    )
    .with_code(code)
}

fn write_errors(answer: &Document) -> impl Iterator<Item = &Document> {
    let errors = answer
        .get_array("writeErrors")
        .map_or(&[][..], Vec::as_slice);
    errors.iter().filter_map(Bson::as_document)
}

/// Returns the error kind of a code in MongoDB's `error_codes.yml`.
fn error_kind(code: i32, message: &str) -> ErrorKind {
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
        // BadValue, FailedToParse: the server also uses these codes for every unknown operator.
        2 | 9 if message.to_ascii_lowercase().starts_with("unknown") => ErrorKind::Unsupported,
        // BadValue, FailedToParse, TypeMismatch, Overflow, InvalidLength, PathNotViable, ConflictingUpdateOperators,
        // DollarPrefixedFieldName, EmptyFieldName, DottedFieldName, ImmutableField, CannotCreateIndex, InvalidNamespace,
        // DocumentValidationFailure, IndexOptionsConflict, IndexKeySpecsConflict, BSONObjectTooLarge.
        //
        // Then codes without a name: an update with a result that is too large, a malformed projection, a malformed regular
        // expression (before and since 6.1), a positional operator without an element, a resume token without data, a resume
        // token without a type.
        2 | 9 | 14 | 15 | 16 | 28 | 40 | 52 | 56 | 57 | 66 | 67 | 73 | 85 | 86 | 121 | 10334
        | 17419 | 17420 | 31249 | 31250 | 31253 | 31254 | 40647 | 40649 | 50811 | 51091 | 51108
        | 51246 => ErrorKind::Invalid,
        _ => ErrorKind::Backend,
    }
}

/// Returns the name of the index from the message of a duplicate key, the only place that has the name: `E11000 duplicate key
/// error collection: shop.users index: email_1 dup key: { email: "a" }`.
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
        let collated = "E11000 duplicate key error collection: s.u index: by name collation: { locale: \"de\" } dup key: { name: \
                        \"0x2a\" }";
        assert_eq!(index_name(collated), Some("by name"));
        assert_eq!(index_name("something else"), None);
    }

    #[test]
    fn a_refused_document_is_found_in_an_answer() {
        let answer = bson::doc! { "ok": 1, "n": 1, "writeErrors": [{
            "index": 1, "code": 11000, "keyPattern": { "email": 1 }, "keyValue": { "email": "a" },
            "errmsg": "E11000 duplicate key error collection: shop.users index: email_1 dup key: { email: \"a\" }",
        }] };
        let rejection = first_in_answer(&answer).expect("the answer has a write error");
        assert_eq!(rejection.position, Some(1));
        assert!(rejection.error.is_duplicate_key());
        assert_eq!(rejection.error.index(), Some("email_1"));
        assert_eq!(
            rejection.error.value(),
            Some(&bson::bson!({ "email": "a" }))
        );
        assert!(first_in_answer(&bson::doc! { "ok": 1, "n": 2 }).is_none());
    }
}
