//! The engine's errors as this crate's.

use std::path::Path;

use bson::{Bson, Document};
use odm_engine::{Error as EngineError, ErrorKind as EngineErrorKind};

use crate::{Error, ErrorKind};

/// MongoDB's number for an index that does not exist, and for a collection.
const NOT_FOUND: [i32; 2] = [26, 27];

/// MongoDB's number for a collection that exists already.
pub(super) const NAMESPACE_EXISTS: i32 = 48;

/// Translates an error of the engine, which stays as the source.
pub(super) fn from_engine(failure: EngineError) -> Error {
    let kind = match failure.kind() {
        EngineErrorKind::DuplicateKey => ErrorKind::DuplicateKey,
        EngineErrorKind::WriteConflict => ErrorKind::Conflict,
        EngineErrorKind::UnknownOperator | EngineErrorKind::NotSupported => ErrorKind::Unsupported,
        EngineErrorKind::BadValue => match failure.code() {
            Some(code) if NOT_FOUND.contains(&code) => ErrorKind::NotFound,
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

/// The same, of an operation on a collection.
pub(super) fn in_collection(failure: EngineError, collection: &str) -> Error {
    let over = failure.is_transaction_over();
    let error = from_engine(failure);
    if over {
        error
    } else {
        error.with_collection(collection)
    }
}

/// The same, of opening a file.
pub(super) fn opening(failure: EngineError, path: &Path) -> Error {
    let error = from_engine(failure.clone());
    let message = format!("cannot open {}: {}", path.display(), failure.message());
    Error::new(error.kind(), message).with_source(failure)
}
