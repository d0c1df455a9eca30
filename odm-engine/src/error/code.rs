//! MongoDB's error numbers, under MongoDB's names for them.

pub(crate) const BAD_VALUE: i32 = 2;
pub(crate) const FAILED_TO_PARSE: i32 = 9;
pub(crate) const TYPE_MISMATCH: i32 = 14;
pub(crate) const OVERFLOW: i32 = 15;
pub(crate) const INVALID_BSON: i32 = 22;
pub(crate) const INDEX_NOT_FOUND: i32 = 27;
pub(crate) const ID_NOT_STORABLE: i32 = 52;
pub(crate) const INVALID_ID_FIELD: i32 = 53;
pub(crate) const CANNOT_CREATE_INDEX: i32 = 67;
pub(crate) const INDEX_ALREADY_EXISTS: i32 = 68;
pub(crate) const INVALID_OPTIONS: i32 = 72;
pub(crate) const INVALID_NAMESPACE: i32 = 73;
pub(crate) const INDEX_OPTIONS_CONFLICT: i32 = 85;
pub(crate) const INDEX_KEY_SPECS_CONFLICT: i32 = 86;
pub(crate) const WRITE_CONFLICT: i32 = 112;
pub(crate) const COMMAND_NOT_SUPPORTED: i32 = 115;
pub(crate) const CANNOT_INDEX_PARALLEL_ARRAYS: i32 = 171;
pub(crate) const INVALID_INDEX_SPECIFICATION_OPTION: i32 = 197;
pub(crate) const NO_SUCH_TRANSACTION: i32 = 251;
pub(crate) const TRANSACTION_COMMITTED: i32 = 256;
pub(crate) const SORT_MEMORY_LIMIT: i32 = 292;
pub(crate) const DOCUMENT_TOO_LARGE: i32 = 10334;
pub(crate) const DUPLICATE_KEY: i32 = 11000;
pub(crate) const TOO_MANY_COMPOUND_KEYS: i32 = 13103;
pub(crate) const AMBIGUOUS_INDEX_KEY: i32 = 16746;
