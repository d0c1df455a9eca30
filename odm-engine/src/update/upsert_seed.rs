//! The initial document of an upsert: the fields that the filter compares for equality.

use bson::{RawBson, RawDocumentBuf};

use super::node::{EditOutcome, PathEdit, UpdateNode};
use super::target::PathName;
use crate::filter::Filter;
use crate::path::Path;
use crate::{Error, Result, value};

/// Returns the filter's equalities as a document.
///
/// # Errors
/// Two equalities concern the same path, or a path and a path inside it (code 54).
pub(super) fn equalities_document(filter: &Filter) -> Result<RawDocumentBuf> {
    let mut equalities = filter.equalities();
    ensure_distinct_paths(equalities.iter().map(|(path, _)| *path))?;
    if equalities.iter().any(|(path, _)| path.as_str().is_empty()) {
        let message =
            "an upsert cannot create a field with an empty name, which the filter demands";
        return Err(Error::with_server_code(20, message));
    }
    // The fields are ordered by path, not by their order in the filter.
    equalities.sort_by_key(|(path, _)| path.as_str());
    let empty = RawDocumentBuf::new();
    let mut root = UpdateNode::from_document(&empty);
    for (path, equal) in equalities {
        if path.parts().len() > value::MAX_NESTING_DEPTH {
            let message = format!(
                "documents can nest {} levels deep",
                value::MAX_NESTING_DEPTH
            );
            return Err(Error::with_server_code(15, message));
        }
        let names = path.parts().iter().map(|part| PathName::new(part.name()));
        root.edit_path(&names.collect::<Result<Vec<_>>>()?, &PutValue(equal))?;
    }
    Ok(root.into_document())
}

/// Returns the filter's equality for `_id`, or an empty document.
///
/// # Errors
/// The filter only has a condition on a part of `_id` (code 111).
pub(super) fn id_document(filter: &Filter) -> Result<RawDocumentBuf> {
    let id = Path::new("_id");
    let equalities = filter.equalities();
    let id_equalities = || equalities.iter().filter(|(path, _)| path.starts_with(&id));
    ensure_distinct_paths(
        id_equalities()
            .map(|(path, _)| *path)
            .filter(|path| **path == id),
    )?;
    if id_equalities().any(|(path, _)| **path != id) {
        return Err(Error::with_server_code(
            111,
            "an upsert needs the whole '_id', not a part of it",
        ));
    }
    let mut document = RawDocumentBuf::new();
    if let Some((_, value)) = id_equalities().next() {
        document.append(bson::raw::cstr!("_id"), value.as_raw_bson_ref());
    }
    Ok(document)
}

fn ensure_distinct_paths<'p>(paths: impl Iterator<Item = &'p Path>) -> Result<()> {
    let mut paths: Vec<_> = paths.collect();
    let names = |path: &'p Path| path.parts().iter().map(|part| part.name());
    paths.sort_by(|a, b| names(a).cmp(names(b)));
    for pair in paths.windows(2) {
        if let [first, other] = pair
            && other.starts_with(first)
        {
            let message = format!(
                "the filter has two equalities for '{}', so an upsert cannot choose a value",
                first.as_str()
            );
            return Err(Error::with_server_code(54, message));
        }
    }
    Ok(())
}

struct PutValue<'v>(&'v RawBson);

impl PathEdit for PutValue<'_> {
    fn edit_existing(&self, value: &mut UpdateNode<'_>) -> Result<EditOutcome> {
        *value = UpdateNode::New(self.0.clone());
        Ok(EditOutcome::Modified)
    }

    fn missing_value(&self) -> Result<Option<RawBson>> {
        Ok(Some(self.0.clone()))
    }

    fn needs_path(&self) -> bool {
        true
    }

    /// The filter limits the size already.
    fn spend_bytes(&self, _: usize) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn equalities_become_fields() {
        let seed = |filter: RawDocumentBuf| equalities_document(&Filter::parse(&filter).unwrap());
        let nested = seed(rawdoc! { "a.b": 1, "$and": [{ "a.c": 2 }, { "d": { "$gt": 3 } }] });
        assert_eq!(nested.unwrap(), rawdoc! { "a": { "b": 1, "c": 2 } });
        let conflict = seed(rawdoc! { "a": 1, "$and": [{ "a.b": 2 }] });
        assert_eq!(conflict.unwrap_err().code(), Some(54));
    }
}
