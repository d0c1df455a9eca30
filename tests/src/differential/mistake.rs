//! Known faults of MongoDB 6.0. An index can give a different answer than a collection scan, and stages of a pipeline can give a
//! different answer together than separately.
//!
//! The engine gives the same answer in both cases, and therefore cannot reproduce the faults.

use bson::{Bson, Document};

use super::step::Step;

/// Returns whether MongoDB answers an operation wrongly because of this index.
///
/// An index on a position (`a.0`) has the element as key where the element is a document. A filter for null also matches such a
/// document without a field named `0`. A wildcard index with an excluded field has the key of an empty document if the document
/// has no further field. A filter for the empty document finds that key.
pub(super) fn is_index_bug(step: &Step, index: &Document) -> bool {
    let Ok(key) = index.get_document("key") else {
        return false;
    };
    let mut positions = key.keys().filter(|path| has_position(path));
    let by_position = positions.any(|path| compares(&step.args, path, &means_missing));
    by_position
        || index.contains_key("wildcardProjection")
            && contains_value(&step.args, &is_empty_document)
}

/// Returns whether MongoDB runs the stages of a pipeline wrongly because of an optimization.
///
/// MongoDB moves a `$match` in front of a stage that nests a field in the field itself (`{a.z: "$a"}`), as if the stage only
/// renamed the field. MongoDB also returns a document without the array from an `$unwind` after a `$project` of subfields that
/// leaves the array empty, if the `$project` computes a further field.
pub(super) fn is_pipeline_bug(step: &Step) -> bool {
    let stages = step.args.get_array("pipeline");
    let stages = stages.map_or(&[][..], Vec::as_slice);
    let stages: Vec<_> = stages.iter().filter_map(Bson::as_document).collect();
    stages.iter().enumerate().any(|(position, stage)| {
        let mut suffix = stages[position + 1..].iter();
        nests_field_in_own_source(stage) && suffix.clone().any(|later| later.contains_key("$match"))
            || suffix.any(|later| leaves_array_empty(stage, later))
    })
}

fn nests_field_in_own_source(stage: &Document) -> bool {
    let mut operands = ["$addFields", "$set", "$project"].into_iter();
    operands.any(|name| {
        let fields = stage.get_document(name).into_iter().flatten();
        fields.into_iter().any(|(path, value)| {
            let source = value.as_str().and_then(|text| text.strip_prefix('$'));
            source.is_some_and(|source| is_inside(path, source))
        })
    })
}

fn leaves_array_empty(project: &Document, unwind: &Document) -> bool {
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

/// Returns whether a document compares the field at a path with a value of a kind, at any depth.
fn compares(document: &Document, path: &str, kind: &impl Fn(&str, &Bson) -> bool) -> bool {
    document.iter().any(|(name, value)| {
        let is_it = name == path && (kind(name, value) || contains_value_within(value, kind));
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

fn contains_value(document: &Document, kind: &impl Fn(&str, &Bson) -> bool) -> bool {
    let mut fields = document.iter();
    fields.any(|(name, value)| kind(name, value) || contains_value_within(value, kind))
}

fn contains_value_within(value: &Bson, kind: &impl Fn(&str, &Bson) -> bool) -> bool {
    match value {
        Bson::Document(inner) => contains_value(inner, kind),
        Bson::Array(values) => values
            .iter()
            .any(|value| kind("", value) || contains_value_within(value, kind)),
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
    fn null_at_an_indexed_position_is_a_bug() {
        let by_position = doc! { "key": { "d.0": 1 } };
        assert!(is_index_bug(&find(doc! { "d.0": null }), &by_position));
        let among = doc! { "$or": [{ "d.0": { "$in": [1, null] } }] };
        assert!(is_index_bug(&find(among), &by_position));
        assert!(!is_index_bug(&find(doc! { "d.0": 1 }), &by_position));
        assert!(!is_index_bug(&find(doc! { "d": null }), &by_position));
        let by_field = doc! { "key": { "d": 1 } };
        assert!(!is_index_bug(&find(doc! { "d.0": null }), &by_field));
    }

    #[test]
    fn an_excluding_wildcard_index_has_a_bug() {
        let narrowed = doc! { "key": { "$**": 1 }, "wildcardProjection": { "b.y": 0 } };
        assert!(is_index_bug(&find(doc! { "b": {} }), &narrowed));
        assert!(!is_index_bug(&find(doc! { "b": 1 }), &narrowed));
        assert!(!is_index_bug(&find(doc! {}), &narrowed));
        let wildcard = doc! { "key": { "$**": 1 } };
        assert!(!is_index_bug(&find(doc! { "b": {} }), &wildcard));
    }

    fn aggregate(stages: &[Document]) -> Step {
        Step::new("c", "aggregate", doc! { "pipeline": stages })
    }

    #[test]
    fn match_after_a_self_nesting_stage_is_a_bug() {
        let matched = || doc! { "$match": { "a": { "$ne": 5 } } };
        let set = |path: &str, value: &str| doc! { "$addFields": { path: value } };
        assert!(is_pipeline_bug(&aggregate(&[set("a.z", "$a"), matched()])));
        assert!(!is_pipeline_bug(&aggregate(&[set("a.z", "$b"), matched()])));
        assert!(!is_pipeline_bug(&aggregate(&[set("a.z", "$a")])));
        assert!(!is_pipeline_bug(&aggregate(&[matched(), set("a.z", "$a")])));
    }

    #[test]
    fn unwind_after_a_computing_projection_is_a_bug() {
        let unwind = || doc! { "$unwind": { "path": "$a" } };
        let project = |fields: Document| doc! { "$project": fields };
        let is_wrong = |fields| is_pipeline_bug(&aggregate(&[project(fields), unwind()]));
        assert!(is_wrong(doc! { "a.z": 1, "b": "a" }));
        assert!(is_wrong(doc! { "a": { "z": 1 }, "b": "$a" }));
        assert!(!is_wrong(doc! { "a.z": 1 }));
        assert!(!is_wrong(doc! { "a": 1, "b": "a" }));
    }
}
