//! Conversion of the engine's errors to this crate's errors.

use std::path::Path;

use bson::{Bson, Document};
use odm_engine::{Error as EngineError, ErrorKind as EngineErrorKind};

use crate::{Error, ErrorKind};

/// MongoDB's codes for a missing collection and a missing index.
const NOT_FOUND_CODES: [i32; 2] = [26, 27];

/// MongoDB's code for a collection that exists already.
pub(super) const NAMESPACE_EXISTS_CODE: i32 = 48;

/// Converts an error of the engine. The engine's error stays as the source.
pub(super) fn from_engine(failure: EngineError) -> Error {
    let kind = match failure.kind() {
        EngineErrorKind::DuplicateKey => ErrorKind::DuplicateKey,
        EngineErrorKind::WriteConflict => ErrorKind::Conflict,
        EngineErrorKind::UnknownOperator | EngineErrorKind::NotSupported => ErrorKind::Unsupported,
        EngineErrorKind::BadValue => match failure.code() {
            Some(code) if NOT_FOUND_CODES.contains(&code) => ErrorKind::NotFound,
            _ => ErrorKind::Invalid,
        },
        EngineErrorKind::InUse => ErrorKind::InUse,
        EngineErrorKind::ForeignFile | EngineErrorKind::NewerFormat | EngineErrorKind::Damaged => {
            ErrorKind::Damaged
        }
        EngineErrorKind::HistoryLost => ErrorKind::HistoryLost,
        EngineErrorKind::TransactionOver => ErrorKind::TransactionOver,
        EngineErrorKind::Io => ErrorKind::Io,
        EngineErrorKind::StorageFull => ErrorKind::StorageFull,
        EngineErrorKind::WriteTooLarge => ErrorKind::WriteTooLarge,
        EngineErrorKind::Closed => ErrorKind::Closed,
        _ => ErrorKind::Backend,
    };
    let message = match kind {
        ErrorKind::DuplicateKey => "another document has the same key",
        _ => failure.message(),
    };
    let mut error = Error::new(kind, message);
    if let Some(code) = failure.code() {
        error = error.with_code(code);
    }
    if let Some(duplicate) = failure.duplicate_key() {
        let key = Document::try_from(duplicate.key_value()).map_or(Bson::Null, Bson::Document);
        error = error.with_index(duplicate.index(), key);
    }
    error.with_source(failure)
}

/// Converts an error of an operation on a collection, and adds the name of the collection.
pub(super) fn in_collection(failure: EngineError, collection: &str) -> Error {
    let is_transaction_over = failure.is_transaction_over();
    let error = from_engine(failure);
    if is_transaction_over {
        error
    } else {
        error.with_collection(collection)
    }
}

/// Converts an error of opening a file, and adds the path unless the message contains the path.
pub(super) fn from_open_failure(failure: EngineError, path: &Path) -> Error {
    let path = path.display().to_string();
    if failure.message().contains(&path) {
        return from_engine(failure);
    }
    let message = format!("cannot open {path}: {}", failure.message());
    Error::new(from_engine(failure.clone()).kind(), message).with_source(failure)
}
