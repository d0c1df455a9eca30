//! What an upsert starts from: the fields that the filter says are equal to something.

use bson::{RawBson, RawDocumentBuf};

use super::node::{Edit, Node, Outcome};
use super::target::Name;
use crate::filter::Filter;
use crate::path::Path;
use crate::{Error, Result, value};

/// The filter's equalities as a document.
///
/// # Errors
/// Two of them speak of one path, or of a path and something inside it (code 54).
pub(super) fn document(filter: &Filter) -> Result<RawDocumentBuf> {
    let mut equalities = filter.equalities();
    check_distinct(equalities.iter().map(|(path, _)| *path))?;
    if equalities.iter().any(|(path, _)| path.as_str().is_empty()) {
        let message =
            "an upsert cannot make the field with the empty name that its filter asks for";
        return Err(Error::server(20, message));
    }
    // The order of the fields is that of the paths, not that of the filter.
    equalities.sort_by_key(|(path, _)| path.as_str());
    let empty = RawDocumentBuf::new();
    let mut root = Node::document(&empty);
    for (path, equal) in equalities {
        if path.parts().len() > value::MAX_DEPTH {
            let message = format!("documents can nest {} levels deep", value::MAX_DEPTH);
            return Err(Error::server(15, message));
        }
        let names = path.parts().iter().map(|part| Name::new(part.name()));
        root.edit(&names.collect::<Result<Vec<_>>>()?, &Put(equal))?;
    }
    Ok(root.into_document())
}

/// The filter's equality for `_id`, if there is one.
///
/// # Errors
/// The filter only says something about a part of `_id` (code 111).
pub(super) fn id_only(filter: &Filter) -> Result<RawDocumentBuf> {
    let id = Path::new("_id");
    let equalities = filter.equalities();
    let about_id = || equalities.iter().filter(|(path, _)| path.starts_with(&id));
    check_distinct(
        about_id()
            .map(|(path, _)| *path)
            .filter(|path| **path == id),
    )?;
    if about_id().any(|(path, _)| **path != id) {
        return Err(Error::server(
            111,
            "an upsert needs the whole '_id', not a part of it",
        ));
    }
    let mut document = RawDocumentBuf::new();
    if let Some((_, value)) = about_id().next() {
        document.append(bson::raw::cstr!("_id"), value.as_raw_bson_ref());
    }
    Ok(document)
}

fn check_distinct<'p>(paths: impl Iterator<Item = &'p Path>) -> Result<()> {
    let mut paths: Vec<_> = paths.collect();
    let names = |path: &'p Path| path.parts().iter().map(|part| part.name());
    paths.sort_by(|a, b| names(a).cmp(names(b)));
    for pair in paths.windows(2) {
        if let [one, other] = pair
            && other.starts_with(one)
        {
            let message = format!(
                "the filter says twice what '{}' is, so an upsert cannot know it",
                one.as_str()
            );
            return Err(Error::server(54, message));
        }
    }
    Ok(())
}

struct Put<'v>(&'v RawBson);

impl Edit for Put<'_> {
    fn existing(&self, value: &mut Node<'_>) -> Result<Outcome> {
        *value = Node::New(self.0.clone());
        Ok(Outcome::Modified)
    }

    fn missing(&self) -> Result<Option<RawBson>> {
        Ok(Some(self.0.clone()))
    }

    fn needs_path(&self) -> bool {
        true
    }

    /// The filter itself is no larger.
    fn spend(&self, _: usize) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn equalities_become_fields() {
        let seed = |filter: RawDocumentBuf| document(&Filter::parse(&filter).unwrap());
        let nested = seed(rawdoc! { "a.b": 1, "$and": [{ "a.c": 2 }, { "d": { "$gt": 3 } }] });
        assert_eq!(nested.unwrap(), rawdoc! { "a": { "b": 1, "c": 2 } });
        let twice = seed(rawdoc! { "a": 1, "$and": [{ "a.b": 2 }] });
        assert_eq!(twice.unwrap_err().code(), Some(54));
    }
}
