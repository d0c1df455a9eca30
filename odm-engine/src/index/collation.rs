//! Indexes with a collation.

mod keyed;

use bson::RawDocument;

pub(super) use keyed::{compares_strings, keyed_document, keyed_filter};

use super::Index;
use crate::error::{Error, Result, code};
use crate::value;

/// Refuses an index that cannot have a collation.
pub(super) fn check_index(index: &Index) -> Result<()> {
    if index.collation.is_none() {
        return Ok(());
    }
    if matches!(index.keys.as_slice(), [(path, _)] if path == "_id") && index.hashed.is_none() {
        return Err(Error::bad_value("the index of _id cannot have a collation"));
    }
    if index.partial.as_deref().is_some_and(keyed::has_patterns) {
        let message = "a regular expression in the filter of a partial index with a collation is not supported";
        return Err(Error::not_supported(message));
    }
    Ok(())
}

/// Refuses index kinds and versions that do not support collations.
pub(super) fn check_index_kind(specification: &RawDocument, index: &Index) -> Result<()> {
    let creation_error =
        |message: String| Err(Error::with_server_code(code::CANNOT_CREATE_INDEX, message));
    if index.version() < 2 {
        return creation_error("an index with a collation must have version 2; leave out v".into());
    }
    if index.collation.is_none() {
        return Ok(());
    }
    let key = value::get(specification, "key").and_then(|key| key.as_document());
    let kinds = key.into_iter().flat_map(value::fields);
    let mut kinds = kinds.filter_map(|(_, kind)| kind.as_str());
    match kinds.find(|kind| matches!(*kind, "2d" | "geoHaystack" | "text")) {
        Some(kind) => creation_error(format!("a {kind} index cannot have a collation")),
        None => Ok(()),
    }
}
