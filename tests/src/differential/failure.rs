//! Which failures of expressions MongoDB leaves open.
//!
//! An expression that fails for a document fails the whole operation, if it is computed for that document at all. That
//! depends on the plan: conditions are met in the order that the planner gives them and those behind one that
//! decides are not computed; an index leaves documents out; filters and limits move in front of the stages that compute.
//! So whether `$expr` beside other conditions fails is open, and so is which of several failures comes first. Besides,
//! the two executors that MongoDB has number the same failure differently.
//!
//! What is wrong with the question itself is not open: that is found before there is a plan.

use bson::{Bson, Document};

use super::step::Step;

/// The numbers of what is wrong with a question rather than with a document.
const OF_QUESTIONS: [i32; 3] = [2, 9, 40];

/// Whether MongoDB leaves open if the operation fails as one of these answers does.
pub(super) fn is_open(
    step: &Step,
    is_indexed: bool,
    mongodb: &Document,
    engine: &Document,
) -> bool {
    let error = |answer: &Document| answer.get_document("error").ok().cloned();
    let either = error(mongodb).xor(error(engine));
    match (error(mongodb), error(engine)) {
        _ if is_mistaken(mongodb) || is_mistaken_place(step, mongodb) => true,
        _ if either.is_some_and(|error| is_of_sort(&error)) => sorts_on_the_way(step),
        (None, None) => false,
        (Some(mongodb), Some(engine)) if is_of_places(step, [&mongodb, &engine]) => true,
        (Some(mongodb), Some(_)) => {
            computes(step) && (is_of_execution(step, &mongodb) || is_of_optimizer(&mongodb))
        }
        (Some(mongodb), None) => {
            depends_on_plan(step, is_indexed) && is_of_execution(step, &mongodb)
        }
        (None, Some(engine)) => {
            let code = engine.get_i32("code").unwrap_or_default();
            let message = engine.get_str("message").unwrap_or_default();
            let is_of_document =
                !OF_QUESTIONS.contains(&code) || message.contains("divide by zero");
            depends_on_plan(step, is_indexed) && is_of_document
        }
    }
}

/// Whether a write conflicts with another transaction's on a key of a unique index. MongoDB looks for that before it looks whether
/// the key is there already, and even for the key of a document that the index leaves out.
pub(super) fn is_conflict_of_keys(step: &Step, mongodb: &Document) -> bool {
    const WRITE_CONFLICT: i32 = 112;
    let error = mongodb.get_document("error");
    step.session.is_some()
        && step.is_write()
        && error.is_ok_and(|error| error.get("code") == Some(&Bson::Int32(WRITE_CONFLICT)))
}

/// Whether this is a mistake of MongoDB 6.0 in what groups: it fails with the number of a fault of its own on an `$cond` that
/// reads a field twice, and puts the least and the greatest key into a document under no name. A filter that it moves in front
/// of a stage can get an operator that it does not know itself, or has not at that place.
fn is_mistaken(mongodb: &Document) -> bool {
    const DUPLICATE_FIELD: i32 = 4_822_806;
    if let Ok(error) = mongodb.get_document("error") {
        let message = error.get_str("errmsg").unwrap_or_default();
        return error.get("code") == Some(&Bson::Int32(DUPLICATE_FIELD))
            || message.ends_with("unknown operator: $alwaysFalse")
            || message.contains("Failed to optimize pipeline")
                && ["unknown top level operator", "unknown operator: $"]
                    .iter()
                    .any(|part| message.contains(part));
    }
    mongodb.get("docs").is_some_and(has_wrapped_key)
}

/// Whether this is a mistake of MongoDB 6.0 in a positional projection: where a field on its path is missing, it looks for the next
/// one in the same document, and finds no element in the array that it meets there.
fn is_mistaken_place(step: &Step, mongodb: &Document) -> bool {
    const NO_ELEMENT: i32 = 51246;
    let is_nested = |path: &String| {
        path.strip_suffix(".$")
            .is_some_and(|path| path.contains('.'))
    };
    let projection = step.document("projection");
    mongodb
        .get_document("error")
        .is_ok_and(|error| error.get("code") == Some(&Bson::Int32(NO_ELEMENT)))
        && projection
            .is_some_and(|projection| projection.len() > 1 && projection.keys().any(is_nested))
}

/// Whether an update fails with a place that cannot be changed, or with two that are the same once `$` has its number. MongoDB
/// meets them in the order of a walk through the document.
fn is_of_places(step: &Step, errors: [&Document; 2]) -> bool {
    let codes = errors.map(|error| error.get_i32("code").unwrap_or_default());
    let update = step.document("update").map(ToString::to_string);
    (codes == [40, 2] || codes == [2, 40]) && update.is_some_and(|update| update.contains(".$"))
}

/// Whether there is a least or a greatest key in a document under no name.
fn has_wrapped_key(value: &Bson) -> bool {
    match value {
        Bson::Array(values) => values.iter().any(has_wrapped_key),
        Bson::Document(document) => {
            matches!(document.get(""), Some(Bson::MinKey | Bson::MaxKey))
                || document.values().any(has_wrapped_key)
        }
        _ => false,
    }
}

/// Whether MongoDB has failed while it read documents. Only of queries it says so; of the others the number tells.
fn is_of_execution(step: &Step, error: &Document) -> bool {
    let code = error.get_i32("code").unwrap_or_default();
    // The numbers of one of the executors.
    if code >= 4_000_000 {
        return true;
    }
    match step.name.as_str() {
        "find" | "aggregate" | "distinct" => {
            let message = error.get_str("errmsg").unwrap_or_default();
            let told = ["xecutor error during", "while multiplanner"];
            told.iter().any(|part| message.contains(part))
        }
        _ => depends_on_plan(step, false) || !OF_QUESTIONS.contains(&code),
    }
}

/// Whether MongoDB has failed with what is constant. It meets the fields that a stage computes in the order of a hash table.
fn is_of_optimizer(error: &Document) -> bool {
    let message = error.get_str("errmsg").unwrap_or_default();
    message.starts_with("Failed to optimize")
}

/// Whether a document could not be sorted.
fn is_of_sort(error: &Document) -> bool {
    const POSITION_OR_NAME: i32 = 16746;
    let message = ["errmsg", "message"].map(|name| error.get_str(name).unwrap_or_default());
    error.get("code") == Some(&Bson::Int32(POSITION_OR_NAME))
        || message
            .iter()
            .any(|text| text.contains("with keys that are parallel arrays"))
}

/// Whether there are stages beside a sort: MongoDB may move them before it or behind it, or leave it out for a later one.
fn sorts_on_the_way(step: &Step) -> bool {
    let stages = step.args.get_array("pipeline");
    let stages = stages.map_or(&[][..], Vec::as_slice);
    let mut documents = stages.iter().filter_map(Bson::as_document);
    stages.len() > 1 && documents.any(|stage| stage.contains_key("$sort"))
}

/// Whether there are expressions in it, or a positional projection, which fails for documents as well.
pub(super) fn computes(step: &Step) -> bool {
    let is_pipeline = matches!(step.args.get("update"), Some(Bson::Array(_)));
    step.name == "aggregate"
        || is_pipeline
        || mentions_expr(&step.args)
        || computes_projection(step)
}

fn computes_projection(step: &Step) -> bool {
    let computes = |projection: &Document| {
        projection.iter().any(|(name, value)| {
            name.ends_with(".$") || !matches!(value, Bson::Int32(_) | Bson::Boolean(_))
        })
    };
    step.document("projection").is_some_and(computes)
}

/// Whether it depends on the plan for which documents an expression is computed.
pub(super) fn depends_on_plan(step: &Step, is_indexed: bool) -> bool {
    let is_mixed = |filter: &Document| {
        let is_alone = filter.len() == 1 && filter.contains_key("$expr") && !is_indexed;
        mentions_expr(filter) && !is_alone
    };
    // MongoDB may project before it sorts, and so before it skips.
    if step.name == "find" && step.args.contains_key("sort") && computes_projection(step) {
        return true;
    }
    // Of an index's documents, others come first.
    let is_page = ["limit", "skip"]
        .iter()
        .any(|name| step.args.contains_key(*name));
    if step.name == "find" && is_indexed && is_page && computes_projection(step) {
        return true;
    }
    if step.name != "aggregate" {
        return step.document("filter").is_some_and(is_mixed);
    }
    let stages = step.args.get_array("pipeline");
    let stages = stages.map_or(&[][..], Vec::as_slice);
    let mut stages = stages.iter().filter_map(Bson::as_document);
    let first = stages
        .next()
        .and_then(|stage| stage.get_document("$match").ok());
    // What groups runs in the other executor, together with the expressions that it groups by: that one looks at nulls
    // before types.
    let leaves_out = |stage: &Document| {
        let names = [
            "$match",
            "$limit",
            "$skip",
            "$unwind",
            "$group",
            "$sortByCount",
            "$bucket",
        ];
        names.iter().any(|name| stage.contains_key(name))
    };
    first.is_some_and(is_mixed) || stages.any(leaves_out)
}

fn mentions_expr(document: &Document) -> bool {
    document.iter().any(|(name, value)| {
        name == "$expr"
            || match value {
                Bson::Document(inner) => mentions_expr(inner),
                Bson::Array(values) => {
                    let mut inner = values.iter().filter_map(Bson::as_document);
                    inner.any(mentions_expr)
                }
                _ => false,
            }
    })
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn is_open_for(filter: Document, mongodb: &Document, engine: &Document) -> bool {
        let step = Step::new("c", "find", doc! { "filter": filter });
        is_open(&step, false, mongodb, engine)
    }

    #[test]
    fn only_an_expression_beside_others_may_fail_or_not() {
        let found = doc! { "docs": [] };
        let failed = doc! { "error": { "code": 16554, "errmsg": "Executor error during find" } };
        let mixed = || doc! { "a": 1, "$expr": "$b" };
        assert!(is_open_for(mixed(), &failed, &found));
        assert!(is_open_for(mixed(), &found, &failed));
        assert!(!is_open_for(mixed(), &found, &found));
        assert!(!is_open_for(doc! { "$expr": "$b" }, &failed, &found));
        assert!(!is_open_for(doc! { "a": 1 }, &failed, &found));
    }

    #[test]
    fn what_is_wrong_with_the_question_is_not_open() {
        let refused = doc! { "error": { "code": 2, "errmsg": "unknown operator" } };
        let failed = doc! { "error": { "code": 16554, "errmsg": "$add" } };
        let mixed = || doc! { "a": 1, "$expr": "$b" };
        assert!(!is_open_for(mixed(), &refused, &failed));
        assert!(!is_open_for(mixed(), &doc! { "docs": [] }, &refused));
    }

    #[test]
    fn what_stands_beside_a_sort_may_come_first() {
        let found = doc! { "docs": [] };
        let message = "cannot sort with keys that are parallel arrays: 'a' and 'b'";
        let failed = doc! { "error": { "code": 2, "message": message } };
        let (sort, unwind) = (
            doc! { "$sort": { "a": 1, "b": 1 } },
            doc! { "$unwind": "$c" },
        );
        let is_open_of = |stages: &[Document]| {
            let step = Step::new("c", "aggregate", doc! { "pipeline": stages });
            is_open(&step, false, &found, &failed)
        };
        assert!(is_open_of(&[sort.clone(), unwind.clone()]));
        assert!(is_open_of(&[unwind, sort.clone()]));
        assert!(!is_open_of(&[sort]));
    }

    #[test]
    fn a_page_by_an_index_may_leave_out_what_fails() {
        let found = doc! { "docs": [] };
        let failed = doc! { "error": { "code": 51246 } };
        let find =
            doc! { "filter": { "b": { "$nin": [] } }, "projection": { "b.$": 1 }, "limit": 2 };
        let step = Step::new("c", "find", find);
        assert!(is_open(&step, true, &found, &failed));
        assert!(!is_open(&step, false, &found, &failed));
        let all = doc! { "filter": {}, "projection": { "b.$": 1 } };
        assert!(!is_open(
            &Step::new("c", "find", all),
            true,
            &found,
            &failed
        ));
    }

    #[test]
    fn a_key_may_conflict_before_it_is_looked_for() {
        let conflict = doc! { "error": { "code": 112 } };
        let insert = Step::new("c", "insertMany", doc! { "documents": [{ "_id": 1 }] });
        assert!(!is_conflict_of_keys(&insert, &conflict));
        let inside = Step {
            session: Some("s1".into()),
            ..insert
        };
        assert!(is_conflict_of_keys(&inside, &conflict));
        assert!(!is_conflict_of_keys(
            &inside,
            &doc! { "error": { "code": 11000 } }
        ));
        let find = Step {
            session: Some("s1".into()),
            ..Step::new("c", "find", doc! {})
        };
        assert!(!is_conflict_of_keys(&find, &conflict));
    }

    #[test]
    fn a_filter_that_mongodb_made_up_is_no_question() {
        let found = doc! { "docs": [] };
        let step = Step::new("c", "aggregate", doc! { "pipeline": [{ "$match": {} }] });
        let with = |message: &str| doc! { "error": { "code": 2, "errmsg": message } };
        let is_open_for = |message: &str| is_open(&step, false, &with(message), &found);
        assert!(is_open_for(
            "Failed to optimize pipeline :: caused by :: unknown operator: $and"
        ));
        assert!(!is_open_for("unknown operator: $and"));
    }

    #[test]
    fn stages_that_leave_documents_out_may_come_first() {
        let found = doc! { "docs": [] };
        let failed = doc! { "error": { "code": 16554 } };
        let is_open_with = |last: Document| {
            let stages = [
                doc! { "$match": {} },
                doc! { "$set": { "a": { "$add": "x" } } },
                last,
            ];
            let step = Step::new("c", "aggregate", doc! { "pipeline": stages.to_vec() });
            is_open(&step, false, &found, &failed)
        };
        assert!(is_open_with(doc! { "$match": { "b": 1 } }));
        assert!(!is_open_with(doc! { "$sort": { "b": 1 } }));
    }
}
