//! MongoDB's error numbers and their names.

use std::borrow::Cow;

pub(crate) const INTERNAL_ERROR: i32 = 1;
pub(crate) const BAD_VALUE: i32 = 2;
pub(crate) const FAILED_TO_PARSE: i32 = 9;
pub(crate) const UNSUPPORTED_FORMAT: i32 = 12;
pub(crate) const UNAUTHORIZED: i32 = 13;
pub(crate) const TYPE_MISMATCH: i32 = 14;
pub(crate) const INVALID_LENGTH: i32 = 16;
pub(crate) const PROTOCOL_ERROR: i32 = 17;
pub(crate) const AUTHENTICATION_FAILED: i32 = 18;
pub(crate) const ILLEGAL_OPERATION: i32 = 20;
pub(crate) const INVALID_BSON: i32 = 22;
pub(crate) const NAMESPACE_NOT_FOUND: i32 = 26;
pub(crate) const INDEX_NOT_FOUND: i32 = 27;
pub(crate) const CURSOR_NOT_FOUND: i32 = 43;
pub(crate) const NAMESPACE_EXISTS: i32 = 48;
pub(crate) const MAX_TIME_EXPIRED: i32 = 50;
pub(crate) const COMMAND_NOT_FOUND: i32 = 59;
pub(crate) const INVALID_OPTIONS: i32 = 72;
pub(crate) const INVALID_NAMESPACE: i32 = 73;
pub(crate) const UNKNOWN_REPL_WRITE_CONCERN: i32 = 79;
pub(crate) const SHUTDOWN_IN_PROGRESS: i32 = 91;
pub(crate) const UNSATISFIABLE_WRITE_CONCERN: i32 = 100;
pub(crate) const WRITE_CONFLICT: i32 = 112;
pub(crate) const COMMAND_NOT_SUPPORTED: i32 = 115;
pub(crate) const CONFLICTING_OPERATION_IN_PROGRESS: i32 = 117;
pub(crate) const EXCEEDED_MEMORY_LIMIT: i32 = 146;
pub(crate) const TRANSACTION_TOO_OLD: i32 = 225;
pub(crate) const NO_SUCH_TRANSACTION: i32 = 251;
pub(crate) const TRANSACTION_COMMITTED: i32 = 256;
pub(crate) const OPERATION_NOT_SUPPORTED_IN_TRANSACTION: i32 = 263;
pub(crate) const SNAPSHOT_TOO_OLD: i32 = 239;
pub(crate) const CHANGE_STREAM_FATAL_ERROR: i32 = 280;
pub(crate) const MECHANISM_UNAVAILABLE: i32 = 334;
pub(crate) const UNSUPPORTED_OP_QUERY_COMMAND: i32 = 352;
pub(crate) const BSON_OBJECT_TOO_LARGE: i32 = 10334;
pub(crate) const INTERRUPTED: i32 = 11601;
pub(crate) const CURSOR_IN_USE: i32 = 12051;
pub(crate) const MISSING_FIELD: i32 = 40414;
pub(crate) const UNKNOWN_FIELD: i32 = 40415;

/// The numbers with a name, sorted by number.
const NAMES: &[(i32, &str)] = &[
    (1, "InternalError"),
    (2, "BadValue"),
    (8, "UnknownError"),
    (9, "FailedToParse"),
    (12, "UnsupportedFormat"),
    (13, "Unauthorized"),
    (14, "TypeMismatch"),
    (15, "Overflow"),
    (16, "InvalidLength"),
    (17, "ProtocolError"),
    (18, "AuthenticationFailed"),
    (20, "IllegalOperation"),
    (22, "InvalidBSON"),
    (26, "NamespaceNotFound"),
    (27, "IndexNotFound"),
    (28, "PathNotViable"),
    (34, "CannotBackfillArray"),
    (40, "ConflictingUpdateOperators"),
    (43, "CursorNotFound"),
    (48, "NamespaceExists"),
    (50, "MaxTimeMSExpired"),
    (52, "DollarPrefixedFieldName"),
    (53, "InvalidIdField"),
    (54, "NotSingleValueField"),
    (56, "EmptyFieldName"),
    (57, "DottedFieldName"),
    (59, "CommandNotFound"),
    (66, "ImmutableField"),
    (67, "CannotCreateIndex"),
    (68, "IndexAlreadyExists"),
    (72, "InvalidOptions"),
    (73, "InvalidNamespace"),
    (79, "UnknownReplWriteConcern"),
    (85, "IndexOptionsConflict"),
    (86, "IndexKeySpecsConflict"),
    (91, "ShutdownInProgress"),
    (96, "OperationFailed"),
    (100, "UnsatisfiableWriteConcern"),
    (112, "WriteConflict"),
    (115, "CommandNotSupported"),
    (117, "ConflictingOperationInProgress"),
    (146, "ExceededMemoryLimit"),
    (159, "DurationOverflow"),
    (161, "IncompatibleCollationVersion"),
    (168, "InvalidPipelineOperator"),
    (171, "CannotIndexParallelArrays"),
    (181, "AmbiguousIndexKeyPattern"),
    (197, "InvalidIndexSpecificationOption"),
    (201, "CannotBuildIndexKeys"),
    (216, "ElectionInProgress"),
    (222, "CloseChangeStream"),
    (224, "QueryFeatureNotAllowed"),
    (225, "TransactionTooOld"),
    (232, "MaxSubPipelineDepthExceeded"),
    (238, "NotImplemented"),
    (239, "SnapshotTooOld"),
    (241, "ConversionFailure"),
    (251, "NoSuchTransaction"),
    (256, "TransactionCommitted"),
    (257, "TransactionTooLarge"),
    (263, "OperationNotSupportedInTransaction"),
    (280, "ChangeStreamFatalError"),
    (286, "ChangeStreamHistoryLost"),
    (291, "NoQueryExecutionPlans"),
    (292, "QueryExceededMemoryLimitNoDiskUseAllowed"),
    (334, "MechanismUnavailable"),
    (352, "UnsupportedOpQueryCommand"),
    (10334, "BSONObjectTooLarge"),
    (11000, "DuplicateKey"),
    (11601, "Interrupted"),
    (13113, "MergeStageNoMatchingDocument"),
    (13388, "StaleConfig"),
    (14031, "OutOfDiskSpace"),
];

/// Returns the name of an error number, as MongoDB's field `codeName`.
pub(crate) fn name(code: i32) -> Cow<'static, str> {
    let position = NAMES.binary_search_by_key(&code, |(number, _)| *number);
    match position.ok().and_then(|position| NAMES.get(position)) {
        Some((_, name)) => Cow::Borrowed(name),
        None => Cow::Owned(format!("Location{code}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_name() {
        assert!(NAMES.is_sorted_by(|(a, _), (b, _)| a < b));
        assert_eq!(name(COMMAND_NOT_FOUND), "CommandNotFound");
        assert_eq!(name(UNKNOWN_FIELD), "Location40415");
    }
}
