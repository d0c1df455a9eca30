//! What a MongoDB 6.0 gets wrong: where an index gives it another answer than a scan of the same collection does, and where stages
//! of a pipeline give another one together than one after the other.
//!
//! The engine answers in one way, so it cannot follow.

use bson::{Bson, Document};

use super::step::Step;

/// Whether an operation asks what is answered wrongly by this index.
///
/// An index on a position (`a.0`) has the element as its key where the element is a document, while a filter for null also means
/// that this document has no field of the name `0`. And a wildcard index that leaves a field out has the key of an empty document
/// where nothing else is in it, by which a filter for the empty document finds it.
pub(super) fn is_of_index(step: &Step, index: &Document) -> bool {
    let Ok(key) = index.get_document("key") else {
        return false;
    };
    let mut positions = key.keys().filter(|path| has_position(path));
    let by_position = positions.any(|path| compares(&step.args, path, &means_missing));
    by_position || index.contains_key("wildcardProjection") && holds(&step.args, &is_empty_document)
}

/// Whether a pipeline has stages that are carried out wrongly together.
///
/// A `$match` is moved in front of a stage that puts a field into itself (`{a.z: "$a"}`), as if that had only renamed it. And an
/// `$unwind` gives a document without the array that is left empty by a `$project` of what is inside of it, if that computes
/// another field as well.
pub(super) fn is_of_pipeline(step: &Step) -> bool {
    let stages = step.args.get_array("pipeline");
    let stages = stages.map_or(&[][..], Vec::as_slice);
    let stages: Vec<_> = stages.iter().filter_map(Bson::as_document).collect();
    stages.iter().enumerate().any(|(position, stage)| {
        let mut behind = stages[position + 1..].iter();
        puts_into_itself(stage) && behind.clone().any(|later| later.contains_key("$match"))
            || behind.any(|later| empties(stage, later))
    })
}

fn puts_into_itself(stage: &Document) -> bool {
    let mut operands = ["$addFields", "$set", "$project"].into_iter();
    operands.any(|name| {
        let fields = stage.get_document(name).into_iter().flatten();
        fields.into_iter().any(|(path, value)| {
            let source = value.as_str().and_then(|text| text.strip_prefix('$'));
            source.is_some_and(|source| is_inside(path, source))
        })
    })
}

fn empties(project: &Document, unwind: &Document) -> bool {
    let path = unwind.get("$unwind").and_then(|operand| match operand {
        Bson::Document(options) => options.get_str("path").ok(),
        operand => operand.as_str(),
    });
    let path = path.and_then(|path| path.strip_prefix('$'));
    let (Some(path), Ok(fields)) = (path, project.get_document("$project")) else {
        return false;
    };
    let is_part = |(name, value): (&String, &Bson)| {
        is_inside(name, path) || name == path && value.as_document().is_some()
    };
    let computes = |value: &Bson| !matches!(value, Bson::Int32(_) | Bson::Boolean(_));
    fields.iter().any(is_part) && fields.values().any(computes)
}

fn is_inside(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer)
        .is_some_and(|rest| rest.starts_with('.'))
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
        assert!(is_of_index(&find(doc! { "d.0": null }), &by_position));
        let among = doc! { "$or": [{ "d.0": { "$in": [1, null] } }] };
        assert!(is_of_index(&find(among), &by_position));
        assert!(!is_of_index(&find(doc! { "d.0": 1 }), &by_position));
        assert!(!is_of_index(&find(doc! { "d": null }), &by_position));
        let by_field = doc! { "key": { "d": 1 } };
        assert!(!is_of_index(&find(doc! { "d.0": null }), &by_field));
    }

    #[test]
    fn an_empty_document_is_answered_wrongly_by_a_wildcard_index_that_leaves_fields_out() {
        let narrowed = doc! { "key": { "$**": 1 }, "wildcardProjection": { "b.y": 0 } };
        assert!(is_of_index(&find(doc! { "b": {} }), &narrowed));
        assert!(!is_of_index(&find(doc! { "b": 1 }), &narrowed));
        assert!(!is_of_index(&find(doc! {}), &narrowed));
        let whole = doc! { "key": { "$**": 1 } };
        assert!(!is_of_index(&find(doc! { "b": {} }), &whole));
    }

    fn aggregate(stages: &[Document]) -> Step {
        Step::new("c", "aggregate", doc! { "pipeline": stages })
    }

    #[test]
    fn a_match_is_moved_in_front_of_what_puts_a_field_into_itself() {
        let matched = || doc! { "$match": { "a": { "$ne": 5 } } };
        let set = |path: &str, value: &str| doc! { "$addFields": { path: value } };
        assert!(is_of_pipeline(&aggregate(&[set("a.z", "$a"), matched()])));
        assert!(!is_of_pipeline(&aggregate(&[set("a.z", "$b"), matched()])));
        assert!(!is_of_pipeline(&aggregate(&[set("a.z", "$a")])));
        assert!(!is_of_pipeline(&aggregate(&[matched(), set("a.z", "$a")])));
    }

    #[test]
    fn what_is_unwound_is_lost_behind_a_projection_that_computes() {
        let unwind = || doc! { "$unwind": { "path": "$a" } };
        let project = |fields: Document| doc! { "$project": fields };
        let is_wrong = |fields| is_of_pipeline(&aggregate(&[project(fields), unwind()]));
        assert!(is_wrong(doc! { "a.z": 1, "b": "a" }));
        assert!(is_wrong(doc! { "a": { "z": 1 }, "b": "$a" }));
        assert!(!is_wrong(doc! { "a.z": 1 }));
        assert!(!is_wrong(doc! { "a": 1, "b": "a" }));
    }
}
