use bson::{RawArrayBuf, RawBson, RawDocumentBuf};

use super::{Find, ReadState, find};
use crate::document::append_field;
use crate::error::{Error, Result, code};

/// The same query for each of several keys, on one state of the database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FindEach {
    /// The dotted path that must equal the key.
    pub path: String,
    /// The keys.
    pub keys: Vec<RawBson>,
    /// An additional filter of the documents; an empty filter matches all.
    pub filter: RawDocumentBuf,
    /// The fields to return; all fields if `None`.
    pub projection: Option<RawDocumentBuf>,
    /// The order of the documents of one key; unspecified if `None`.
    pub sort: Option<RawDocumentBuf>,
    /// The maximum number of documents to return for each key; unlimited if `None`.
    pub limit: Option<u64>,
}

/// Returns the documents of each key, in the order of the keys.
pub(crate) fn run_find_each(
    reading: ReadState<'_>,
    name: &str,
    each: &FindEach,
) -> Result<Vec<Vec<RawDocumentBuf>>> {
    if each.path.contains('\0') {
        let message = "a path cannot contain a null byte";
        return Err(Error::with_server_code(code::NULL_BYTE_IN_PATH, message));
    }
    each.keys
        .iter()
        .map(|key| find::run_find(reading, name, &each.find_for_key(key))?.collect())
        .collect()
}

impl FindEach {
    fn find_for_key(&self, key: &RawBson) -> Find {
        let mut equals = RawDocumentBuf::new();
        append_field(&mut equals, "$eq", key.as_raw_bson_ref());
        let mut has_key = RawDocumentBuf::new();
        append_field(&mut has_key, &self.path, equals);
        let both: RawArrayBuf = [has_key, self.filter.clone()].into_iter().collect();
        let mut filter = RawDocumentBuf::new();
        append_field(&mut filter, "$and", both);
        Find {
            filter,
            projection: self.projection.clone(),
            sort: self.sort.clone(),
            limit: self.limit,
            ..Find::default()
        }
    }
}
