//! Where an index gives a MongoDB another answer than a scan of the same collection does.
//!
//! The engine answers with and without an index alike, so it cannot follow.

use bson::{Bson, Document};

use super::step::Step;

/// Whether an operation asks what MongoDB 6.0 answers wrongly by this index.
///
/// An index on a position (`a.0`) has the element as its key where the element is a document, while a filter for null also means
/// that this document has no field of the name `0`. And a wildcard index that leaves a field out has the key of an empty document
/// where nothing else is in it, by which a filter for the empty document finds it.
pub(super) fn is_misled(step: &Step, index: &Document) -> bool {
    let Ok(key) = index.get_document("key") else {
        return false;
    };
    let mut positions = key.keys().filter(|path| has_position(path));
    let by_position = positions.any(|path| compares(&step.args, path, &means_missing));
    by_position || index.contains_key("wildcardProjection") && holds(&step.args, &is_empty_document)
}

fn has_position(path: &str) -> bool {
    let is_position = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    path.split('.').any(is_position)
}

/// Whether the field at a path is compared with something of a kind, at any depth.
fn compares(document: &Document, path: &str, kind: &impl Fn(&str, &Bson) -> bool) -> bool {
    document.iter().any(|(name, value)| {
        let is_it = name == path && (kind(name, value) || holds_in(value, kind));
        is_it
            || match value {
                Bson::Document(inner) => compares(inner, path, kind),
                Bson::Array(values) => {
                    let mut inner = values.iter().filter_map(Bson::as_document);
                    inner.any(|inner| compares(inner, path, kind))
                }
                _ => false,
            }
    })
}

fn holds(document: &Document, kind: &impl Fn(&str, &Bson) -> bool) -> bool {
    let mut fields = document.iter();
    fields.any(|(name, value)| kind(name, value) || holds_in(value, kind))
}

fn holds_in(value: &Bson, kind: &impl Fn(&str, &Bson) -> bool) -> bool {
    match value {
        Bson::Document(inner) => holds(inner, kind),
        Bson::Array(values) => values
            .iter()
            .any(|value| kind("", value) || holds_in(value, kind)),
        _ => false,
    }
}

fn means_missing(name: &str, value: &Bson) -> bool {
    name == "$exists" || *value == Bson::Null
}

fn is_empty_document(name: &str, value: &Bson) -> bool {
    name != "filter" && value.as_document().is_some_and(Document::is_empty)
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn find(filter: Document) -> Step {
        Step::new("c", "find", doc! { "filter": filter })
    }

    #[test]
    fn null_at_a_position_is_answered_wrongly_by_an_index_on_it() {
        let by_position = doc! { "key": { "d.0": 1 } };
        assert!(is_misled(&find(doc! { "d.0": null }), &by_position));
        let among = doc! { "$or": [{ "d.0": { "$in": [1, null] } }] };
        assert!(is_misled(&find(among), &by_position));
        assert!(!is_misled(&find(doc! { "d.0": 1 }), &by_position));
        assert!(!is_misled(&find(doc! { "d": null }), &by_position));
        let by_field = doc! { "key": { "d": 1 } };
        assert!(!is_misled(&find(doc! { "d.0": null }), &by_field));
    }

    #[test]
    fn an_empty_document_is_answered_wrongly_by_a_wildcard_index_that_leaves_fields_out() {
        let narrowed = doc! { "key": { "$**": 1 }, "wildcardProjection": { "b.y": 0 } };
        assert!(is_misled(&find(doc! { "b": {} }), &narrowed));
        assert!(!is_misled(&find(doc! { "b": 1 }), &narrowed));
        assert!(!is_misled(&find(doc! {}), &narrowed));
        let whole = doc! { "key": { "$**": 1 } };
        assert!(!is_misled(&find(doc! { "b": {} }), &whole));
    }
}
