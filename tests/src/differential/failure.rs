//! Expression failures that MongoDB does not specify, so that the engine may differ.
//!
//! An expression that fails for a document fails the whole operation, if MongoDB evaluates the expression for that document. The
//! query plan decides about the evaluation:
//! - The planner orders the conditions, and a deciding condition skips the conditions after it.
//! - An index leaves documents out.
//! - Filters and limits move in front of the stages that compute values.
//!
//! So two results are unspecified: whether `$expr` fails beside further conditions, and which of several failures MongoDB
//! reports. The two executors of MongoDB also use different codes for the same failure.
//!
//! An invalid operation is specified: MongoDB rejects the operation before planning.

use bson::{Bson, Document};

use super::step::Step;

/// The codes of errors in the operation itself: `BadValue`, `FailedToParse` and `ConflictingUpdateOperators`.
const REQUEST_ERROR_CODES: [i32; 3] = [2, 9, 40];

/// Returns whether the difference between a MongoDB result and an engine result is unspecified by MongoDB.
pub(super) fn is_unspecified(
    step: &Step,
    is_indexed: bool,
    mongodb: &Document,
    engine: &Document,
) -> bool {
    let error = |answer: &Document| answer.get_document("error").ok().cloned();
    let either = error(mongodb).xor(error(engine));
    match (error(mongodb), error(engine)) {
        _ if is_mongodb_grouping_bug(mongodb) || is_mongodb_positional_bug(step, mongodb) => true,
        _ if either.is_some_and(|error| is_sort_error(&error)) => has_movable_sort(step),
        (None, None) => false,
        (Some(mongodb), Some(engine)) if is_update_path_error(step, [&mongodb, &engine]) => true,
        (Some(mongodb), Some(_)) => {
            evaluates_expressions(step)
                && (is_execution_error(step, &mongodb) || is_optimizer_error(&mongodb))
        }
        (Some(mongodb), None) => {
            depends_on_plan(step, is_indexed) && is_execution_error(step, &mongodb)
        }
        (None, Some(engine)) => {
            let code = engine.get_i32("code").unwrap_or_default();
            let message = engine.get_str("message").unwrap_or_default();
            let is_of_document =
                !REQUEST_ERROR_CODES.contains(&code) || message.contains("divide by zero");
            depends_on_plan(step, is_indexed) && is_of_document
        }
    }
}

/// Returns whether a write conflicts with a write of a concurrent transaction on a key of a unique index. MongoDB detects the
/// conflict before it detects a duplicate key, even if the index leaves the document out.
pub(super) fn is_key_write_conflict(step: &Step, mongodb: &Document) -> bool {
    const WRITE_CONFLICT: i32 = 112;
    let error = mongodb.get_document("error");
    step.session.is_some()
        && step.is_write()
        && error.is_ok_and(|error| error.get("code") == Some(&Bson::Int32(WRITE_CONFLICT)))
}

/// Returns whether a result shows a defect of MongoDB 6.0 in an aggregation.
///
/// - A `$cond` in a grouping that reads a field twice fails with an internal error code.
/// - A grouping wraps `MinKey` and `MaxKey` into a document with an empty field name.
/// - The optimizer moves a filter in front of a stage, with an operator that the parser rejects at that position.
fn is_mongodb_grouping_bug(mongodb: &Document) -> bool {
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

/// Returns whether an error shows a defect of MongoDB 6.0 in a positional projection. If a field on the projected path is
/// missing, MongoDB looks up the next field of the path in the same document. The array there has no matching element.
fn is_mongodb_positional_bug(step: &Step, mongodb: &Document) -> bool {
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

/// Returns whether an update has several path errors: a path that cannot change, and two paths that are equal after `$` is
/// replaced by a position. MongoDB reports the first error in document order.
fn is_update_path_error(step: &Step, errors: [&Document; 2]) -> bool {
    let codes = errors.map(|error| error.get_i32("code").unwrap_or_default());
    let update = step.document("update").map(ToString::to_string);
    (codes == [40, 2] || codes == [2, 40]) && update.is_some_and(|update| update.contains(".$"))
}

/// Returns whether a value contains `MinKey` or `MaxKey` in a document with an empty field name.
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

/// Returns whether MongoDB failed while reading documents. The message says so for reads; for writes the code decides.
fn is_execution_error(step: &Step, error: &Document) -> bool {
    let code = error.get_i32("code").unwrap_or_default();
    // Codes of the slot-based executor.
    if code >= 4_000_000 {
        return true;
    }
    match step.name.as_str() {
        "find" | "aggregate" | "distinct" => {
            let message = error.get_str("errmsg").unwrap_or_default();
            let prefixes = ["xecutor error during", "while multiplanner"];
            prefixes.iter().any(|part| message.contains(part))
        }
        _ => depends_on_plan(step, false) || !REQUEST_ERROR_CODES.contains(&code),
    }
}

/// Returns whether MongoDB failed on a constant expression. MongoDB optimizes the fields of a stage in the order of a hash table,
/// so the first failure is unspecified.
fn is_optimizer_error(error: &Document) -> bool {
    let message = error.get_str("errmsg").unwrap_or_default();
    message.starts_with("Failed to optimize")
}

/// Returns whether a result is the error of a sort by parallel arrays.
fn is_sort_error(error: &Document) -> bool {
    const POSITION_OR_NAME: i32 = 16746;
    let message = ["errmsg", "message"].map(|name| error.get_str(name).unwrap_or_default());
    error.get("code") == Some(&Bson::Int32(POSITION_OR_NAME))
        || message
            .iter()
            .any(|text| text.contains("with keys that are parallel arrays"))
}

/// Returns whether a pipeline has further stages beside a sort. MongoDB may move stages across the sort, or drop the sort before
/// a later sort.
fn has_movable_sort(step: &Step) -> bool {
    let stages = step.args.get_array("pipeline");
    let stages = stages.map_or(&[][..], Vec::as_slice);
    let mut documents = stages.iter().filter_map(Bson::as_document);
    stages.len() > 1 && documents.any(|stage| stage.contains_key("$sort"))
}

/// Returns whether a step evaluates expressions, or a positional projection, which can also fail for a single document.
pub(super) fn evaluates_expressions(step: &Step) -> bool {
    let is_pipeline = matches!(step.args.get("update"), Some(Bson::Array(_)));
    step.name == "aggregate"
        || is_pipeline
        || mentions_expr(&step.args)
        || evaluates_projection(step)
}

fn evaluates_projection(step: &Step) -> bool {
    let computes = |projection: &Document| {
        projection.iter().any(|(name, value)| {
            name.ends_with(".$") || !matches!(value, Bson::Int32(_) | Bson::Boolean(_))
        })
    };
    step.document("projection").is_some_and(computes)
}

/// Returns whether the query plan decides for which documents MongoDB evaluates an expression.
pub(super) fn depends_on_plan(step: &Step, is_indexed: bool) -> bool {
    let is_mixed = |filter: &Document| {
        let is_alone = filter.len() == 1 && filter.contains_key("$expr") && !is_indexed;
        mentions_expr(filter) && !is_alone
    };
    // MongoDB may project before it sorts, and so before it skips.
    if step.name == "find" && step.args.contains_key("sort") && evaluates_projection(step) {
        return true;
    }
    // A page of an index scan contains different documents than a page of a collection scan.
    let is_page = ["limit", "skip"]
        .iter()
        .any(|name| step.args.contains_key(*name));
    if step.name == "find" && is_indexed && is_page && evaluates_projection(step) {
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
    // Grouping stages run in the slot-based executor, together with the grouped expressions. This executor checks for null before
    // it checks types.
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

    fn is_unspecified_for(filter: Document, mongodb: &Document, engine: &Document) -> bool {
        let step = Step::new("c", "find", doc! { "filter": filter });
        is_unspecified(&step, false, mongodb, engine)
    }

    #[test]
    fn failure_is_unspecified_beside_other_conditions() {
        let found = doc! { "docs": [] };
        let failed = doc! { "error": { "code": 16554, "errmsg": "Executor error during find" } };
        let mixed = || doc! { "a": 1, "$expr": "$b" };
        assert!(is_unspecified_for(mixed(), &failed, &found));
        assert!(is_unspecified_for(mixed(), &found, &failed));
        assert!(!is_unspecified_for(mixed(), &found, &found));
        assert!(!is_unspecified_for(doc! { "$expr": "$b" }, &failed, &found));
        assert!(!is_unspecified_for(doc! { "a": 1 }, &failed, &found));
    }

    #[test]
    fn request_errors_are_specified() {
        let refused = doc! { "error": { "code": 2, "errmsg": "unknown operator" } };
        let failed = doc! { "error": { "code": 16554, "errmsg": "$add" } };
        let mixed = || doc! { "a": 1, "$expr": "$b" };
        assert!(!is_unspecified_for(mixed(), &refused, &failed));
        assert!(!is_unspecified_for(mixed(), &doc! { "docs": [] }, &refused));
    }

    #[test]
    fn stages_beside_a_sort_are_reordered() {
        let found = doc! { "docs": [] };
        let message = "cannot sort with keys that are parallel arrays: 'a' and 'b'";
        let failed = doc! { "error": { "code": 2, "message": message } };
        let (sort, unwind) = (
            doc! { "$sort": { "a": 1, "b": 1 } },
            doc! { "$unwind": "$c" },
        );
        let is_open_of = |stages: &[Document]| {
            let step = Step::new("c", "aggregate", doc! { "pipeline": stages });
            is_unspecified(&step, false, &found, &failed)
        };
        assert!(is_open_of(&[sort.clone(), unwind.clone()]));
        assert!(is_open_of(&[unwind, sort.clone()]));
        assert!(!is_open_of(&[sort]));
    }

    #[test]
    fn an_indexed_page_may_skip_failing_documents() {
        let found = doc! { "docs": [] };
        let failed = doc! { "error": { "code": 51246 } };
        let find =
            doc! { "filter": { "b": { "$nin": [] } }, "projection": { "b.$": 1 }, "limit": 2 };
        let step = Step::new("c", "find", find);
        assert!(is_unspecified(&step, true, &found, &failed));
        assert!(!is_unspecified(&step, false, &found, &failed));
        let all = doc! { "filter": {}, "projection": { "b.$": 1 } };
        assert!(!is_unspecified(
            &Step::new("c", "find", all),
            true,
            &found,
            &failed
        ));
    }

    #[test]
    fn write_conflict_precedes_duplicate_key() {
        let conflict = doc! { "error": { "code": 112 } };
        let insert = Step::new("c", "insertMany", doc! { "documents": [{ "_id": 1 }] });
        assert!(!is_key_write_conflict(&insert, &conflict));
        let in_transaction = Step {
            session: Some("s1".into()),
            ..insert
        };
        assert!(is_key_write_conflict(&in_transaction, &conflict));
        assert!(!is_key_write_conflict(
            &in_transaction,
            &doc! { "error": { "code": 11000 } }
        ));
        let find = Step {
            session: Some("s1".into()),
            ..Step::new("c", "find", doc! {})
        };
        assert!(!is_key_write_conflict(&find, &conflict));
    }

    #[test]
    fn optimizer_errors_are_unspecified() {
        let found = doc! { "docs": [] };
        let step = Step::new("c", "aggregate", doc! { "pipeline": [{ "$match": {} }] });
        let with = |message: &str| doc! { "error": { "code": 2, "errmsg": message } };
        let is_unspecified_for =
            |message: &str| is_unspecified(&step, false, &with(message), &found);
        assert!(is_unspecified_for(
            "Failed to optimize pipeline :: caused by :: unknown operator: $and"
        ));
        assert!(!is_unspecified_for("unknown operator: $and"));
    }

    #[test]
    fn filtering_stages_are_reordered() {
        let found = doc! { "docs": [] };
        let failed = doc! { "error": { "code": 16554 } };
        let is_open_with = |last: Document| {
            let stages = [
                doc! { "$match": {} },
                doc! { "$set": { "a": { "$add": "x" } } },
                last,
            ];
            let step = Step::new("c", "aggregate", doc! { "pipeline": stages.to_vec() });
            is_unspecified(&step, false, &found, &failed)
        };
        assert!(is_open_with(doc! { "$match": { "b": 1 } }));
        assert!(!is_open_with(doc! { "$sort": { "b": 1 } }));
    }
}
