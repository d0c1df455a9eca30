use bson::{RawArrayBuf, RawBson, RawDocumentBuf};

use super::{Find, Reading, find};
use crate::document::append;
use crate::error::Result;

/// One query for each of several keys, on one state of the database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FindEach {
    /// The dotted path that must equal the key.
    pub path: String,
    /// The keys.
    pub keys: Vec<RawBson>,
    /// What the documents must match besides; empty for all.
    pub filter: RawDocumentBuf,
    /// Which fields to return; all if `None`.
    pub projection: Option<RawDocumentBuf>,
    /// The order within a key; unspecified if `None`.
    pub sort: Option<RawDocumentBuf>,
    /// How many documents to return at most for each key; all if `None`.
    pub limit: Option<u64>,
}

/// The documents of each key, in the order of the keys.
pub(crate) fn run(
    reading: Reading<'_>,
    name: &str,
    each: &FindEach,
) -> Result<Vec<Vec<RawDocumentBuf>>> {
    each.keys
        .iter()
        .map(|key| find::run(reading, name, &each.find(key))?.collect())
        .collect()
}

impl FindEach {
    fn find(&self, key: &RawBson) -> Find {
        let mut equals = RawDocumentBuf::new();
        append(&mut equals, "$eq", key.as_raw_bson_ref());
        let mut has_key = RawDocumentBuf::new();
        append(&mut has_key, &self.path, equals);
        let both: RawArrayBuf = [has_key, self.filter.clone()].into_iter().collect();
        let mut filter = RawDocumentBuf::new();
        append(&mut filter, "$and", both);
        Find {
            filter,
            projection: self.projection.clone(),
            sort: self.sort.clone(),
            skip: 0,
            limit: self.limit,
            variables: RawDocumentBuf::new(),
        }
    }
}
