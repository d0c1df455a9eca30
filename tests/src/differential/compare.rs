//! How far MongoDB determines the answer to an operation, and whether two answers agree to that extent.
//!
//! MongoDB does not determine results that depend on the order in which a plan reads documents. Without a total sort, MongoDB may
//! return any order, and a limit may select any documents. Only a full collection scan reads documents in insertion order.
//! Without indexes, every plan is such a scan.

mod loose;

use bson::{Bson, Document, doc};

use super::failure;
use super::step::Step;
use crate::corpus::compare::{ResultOrder, same_answer, sort_arrays};
use loose::{remove_nulls, same_by_value, sort_fields};

/// How two answers to an operation are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ComparisonMode {
    /// Compares complete answers, lists in order.
    Exactly,
    /// Compares documents in any order.
    AsBag,
    /// Compares documents in any order, with arrays in any order.
    AsBagOfSets,
    /// Compares documents in any order, with arrays and fields in any order.
    AsBagOfMaps,
    /// Compares documents in any order. A null may be missing, and fields have no order: an index that covers the query returns
    /// fields in the order of the index.
    AsBagWithoutNulls,
    /// Compares the number of documents.
    ByNumber,
    /// Compares values in any order, and numbers without the type. A plan that reads values from an index returns null for
    /// missing fields and undefined for empty arrays, and flattens nested arrays. A plan without an index does not. The
    /// comparison therefore drops null and undefined and flattens arrays.
    ByValue,
    /// Compares a write that ends at the first failure. The order of the documents decides which document fails first. After a
    /// failure, the engine may have changed no document, while MongoDB keeps the earlier changes.
    UpToFailure,
}

/// Whether two answers agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Agreement {
    /// The answers agree as far as MongoDB determines them.
    Same,
    /// Both answers may be right, and the stored documents may differ from now on.
    Unlike,
    Different,
}

/// Returns how to compare the answers to an operation, or `None` if MongoDB does not determine the answer.
pub(super) fn comparison_mode(step: &Step, is_indexed: bool) -> Option<ComparisonMode> {
    let empty = Document::new();
    let filter = step.document("filter").unwrap_or(&empty);
    // Each side would generate different ids.
    if step.name == "insertMany" && !all_have_ids(step) {
        return None;
    }
    // MongoDB may answer the range from a sparse index, which lacks missing values. A missing value lies between MinKey and
    // MaxKey. An index on array elements lacks whole arrays.
    if is_indexed && ranges_over_null_or_arrays(&step.args) {
        return None;
    }
    // With an index, the plan may decide the order.
    let is_scan = !is_indexed && !mentions_id(filter);
    let is_page = ["skip", "limit"]
        .iter()
        .any(|name| step.args.contains_key(name));
    let is_sorted =
        step.document("sort").is_some_and(is_total) && !sort_depends_on_projection(step);
    if adds_removed_fields_again(stages_of(step, "update")) {
        return None;
    }
    match step.name.as_str() {
        "find" if is_indexed && may_be_covered(step) && (is_sorted || !is_page) => {
            Some(ComparisonMode::AsBagWithoutNulls)
        }
        "find" => Some(if is_sorted {
            ComparisonMode::Exactly
        } else if step.args.contains_key("sort") {
            if is_page {
                ComparisonMode::ByNumber
            } else {
                ComparisonMode::AsBag
            }
        } else if is_scan {
            ComparisonMode::Exactly
        } else if is_page {
            ComparisonMode::ByNumber
        } else {
            ComparisonMode::AsBag
        }),
        "distinct" => Some(if is_scan {
            ComparisonMode::Exactly
        } else {
            ComparisonMode::ByValue
        }),
        "aggregate" => pipeline_comparison_mode(step),
        "updateOne" | "replaceOne" | "deleteOne" => {
            (is_scan || pins_id(filter)).then_some(ComparisonMode::Exactly)
        }
        "findOneAndUpdate" | "findOneAndReplace" | "findOneAndDelete" => {
            let is_first = !step.args.contains_key("sort") && is_scan;
            let mode = if failure::evaluates_expressions(step) {
                ComparisonMode::UpToFailure
            } else {
                ComparisonMode::Exactly
            };
            (is_first || is_sorted || pins_id(filter)).then_some(mode)
        }
        "deleteMany" if failure::evaluates_expressions(step) => Some(ComparisonMode::UpToFailure),
        "updateMany" if !is_scan && !pins_id(filter) => Some(ComparisonMode::UpToFailure),
        "updateMany" if failure::depends_on_plan(step, is_indexed) => {
            Some(ComparisonMode::UpToFailure)
        }
        _ => Some(ComparisonMode::Exactly),
    }
}

/// Returns how to compare the stored documents of both sides, which have no order.
pub(super) fn stored_comparison_mode() -> ComparisonMode {
    ComparisonMode::AsBag
}

/// Removes the parts of an answer that depend on the form of the request. MongoDB takes a list of writes and reports the index of
/// the failed write. For `insertMany`, the index is part of the answer.
///
/// Also removes `modified` for a `$push` of an empty list in an indexed collection: MongoDB counts updates that could change the
/// index as modifications.
pub(super) fn trim_request_details(step: &Step, is_indexed: bool, answer: &mut Document) {
    if step.name == "insertMany" {
        return;
    }
    if is_indexed && pushes_nothing(step) {
        answer.remove("modified");
    }
    if let Some(Bson::Document(mut error)) = answer.remove("error") {
        error.remove("index");
        *answer = doc! { "error": error };
    }
}

impl ComparisonMode {
    pub(super) fn compare(self, mongodb: &Document, engine: &Document) -> Agreement {
        let have = |name: &str| (mongodb.get(name), engine.get(name));
        if let (Some(Bson::ObjectId(one)), Some(Bson::ObjectId(other))) = have("upsertedId")
            && one != other
        {
            // Both sides have generated an id.
            return Agreement::Unlike;
        }
        if let (Some(_), Some(_)) = have("error")
            && self == ComparisonMode::UpToFailure
        {
            return Agreement::Unlike;
        }
        let is_same = match self {
            ComparisonMode::Exactly | ComparisonMode::UpToFailure => {
                same_answer(mongodb, engine, ResultOrder::Total)
            }
            ComparisonMode::AsBag => same_answer(mongodb, engine, ResultOrder::Any),
            ComparisonMode::AsBagOfSets
            | ComparisonMode::AsBagOfMaps
            | ComparisonMode::AsBagWithoutNulls => {
                let (mut one, mut other) = (mongodb.clone(), engine.clone());
                let answers = [&mut one, &mut other].into_iter();
                for documents in answers.filter_map(|answer| answer.get_mut("docs")) {
                    match self {
                        ComparisonMode::AsBagWithoutNulls => {
                            remove_nulls(documents);
                            sort_fields(documents);
                        }
                        ComparisonMode::AsBagOfMaps => sort_fields(documents),
                        _ => {}
                    }
                    if self != ComparisonMode::AsBagWithoutNulls {
                        sort_arrays(documents);
                    }
                }
                same_answer(&one, &other, ResultOrder::Any)
            }
            ComparisonMode::ByNumber => match have("docs") {
                (Some(Bson::Array(one)), Some(Bson::Array(other))) => one.len() == other.len(),
                _ => same_answer(mongodb, engine, ResultOrder::Any),
            },
            ComparisonMode::ByValue => match have("values") {
                (Some(Bson::Array(one)), Some(Bson::Array(other))) => same_by_value(one, other),
                _ => same_answer(mongodb, engine, ResultOrder::Any),
            },
        };
        if is_same {
            Agreement::Same
        } else {
            Agreement::Different
        }
    }
}

/// Returns whether an index may contain all fields that a query reads.
fn may_be_covered(step: &Step) -> bool {
    step.document("projection").is_some_and(|projection| {
        let mut fields = projection.iter().filter(|(name, _)| *name != "_id");
        fields.all(|(_, value)| matches!(value, Bson::Int32(1) | Bson::Boolean(true)))
    })
}

fn all_have_ids(step: &Step) -> bool {
    let documents = step.args.get_array("documents");
    let documents = documents.map_or(&[][..], Vec::as_slice);
    let mut documents = documents.iter().filter_map(Bson::as_document);
    documents.all(|document| document.contains_key("_id"))
}

fn pushes_nothing(step: &Step) -> bool {
    let update = step.document("update");
    let pushes = update.and_then(|update| update.get_document("$push").ok());
    let is_nothing = |push: &Bson| {
        let push = push.as_document();
        push.is_some_and(|push| push.get_array("$each").is_ok_and(Vec::is_empty))
    };
    pushes.is_some_and(|pushes| pushes.values().any(is_nothing))
}

/// Returns whether MongoDB cannot answer at the moment. The cause is a transaction that began during an index build, perhaps in a
/// different database.
pub(super) fn is_snapshot_unavailable(mongodb: &Document) -> bool {
    const SNAPSHOT_UNAVAILABLE: i32 = 246;
    let error = mongodb.get_document("error");
    error.is_ok_and(|error| error.get("code") == Some(&Bson::Int32(SNAPSHOT_UNAVAILABLE)))
}

/// Returns whether a filter matches a single `_id` only.
pub(super) fn pins_id(filter: &Document) -> bool {
    match filter.get("_id") {
        None | Some(Bson::RegularExpression(_)) => false,
        Some(Bson::Document(conditions)) => {
            let mut names = conditions.keys();
            match names.next() {
                Some(name) if name.starts_with('$') => name == "$eq",
                _ => true,
            }
        }
        Some(_) => true,
    }
}

/// Returns whether a plan may use the index on `_id`, also for an expression.
fn mentions_id(filter: &Document) -> bool {
    fn value_mentions_id(value: &Bson) -> bool {
        match value {
            Bson::Document(inner) => mentions_id(inner),
            Bson::Array(values) => values.iter().any(value_mentions_id),
            Bson::String(text) => text.starts_with("$_id"),
            _ => false,
        }
    }
    filter
        .iter()
        .any(|(name, value)| name.starts_with("_id") || value_mentions_id(value))
}

fn ranges_over_null_or_arrays(filter: &Document) -> bool {
    filter.iter().any(|(name, value)| match value {
        Bson::Null => matches!(name.as_str(), "$gte" | "$lte"),
        Bson::Array(_) | Bson::MinKey | Bson::MaxKey
            if matches!(name.as_str(), "$gt" | "$gte" | "$lt" | "$lte") =>
        {
            true
        }
        Bson::Document(inner) => ranges_over_null_or_arrays(inner),
        Bson::Array(values) => values
            .iter()
            .filter_map(Bson::as_document)
            .any(ranges_over_null_or_arrays),
        _ => false,
    })
}

/// Returns whether a sort by position could run after the projection. MongoDB may project before the sort. In a projection `a.0`
/// names a field `0`; in a sort `a.0` also names the element at position 0.
fn sort_depends_on_projection(step: &Step) -> bool {
    let is_position = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let by_position = |sort: &Document| sort.keys().any(|path| path.split('.').any(is_position));
    step.args.contains_key("projection") && step.document("sort").is_some_and(by_position)
}

fn is_total(sort: &Document) -> bool {
    sort.contains_key("_id")
}

/// Returns how to compare the answer to a pipeline. Order is determined only if a total sort of whole documents comes last,
/// except for stages that keep order. Groups can have arrays as `_id`, and a sort compares a single element of an array.
/// `$unwind` repeats an `_id`. In both cases a sort leaves ties, so the result of a later stage that depends on order is not
/// determined.
fn pipeline_comparison_mode(step: &Step) -> Option<ComparisonMode> {
    const ORDER_PRESERVING_STAGES: [&str; 7] = [
        "$limit",
        "$skip",
        "$match",
        "$project",
        "$set",
        "$addFields",
        "$unset",
    ];
    let stages = stages_of(step, "pipeline");
    if adds_removed_fields_again(stages) {
        return Some(ComparisonMode::AsBagOfMaps);
    }
    let (mut is_list, mut has_ties, mut has_sets, mut are_stored) = (false, false, false, true);
    for stage in stages.iter().filter_map(Bson::as_document) {
        let text = format!("{stage}");
        // The branches of `$facet` are arrays of documents, and groups have no order.
        has_sets |= [
            "$addToSet",
            "$facet",
            "$setUnion",
            "$setIntersection",
            "$setDifference",
        ]
        .iter()
        .any(|name| text.contains(name));
        let name = stage.keys().next().map_or("", String::as_str);
        let groups = ["$group", "$sortByCount", "$bucket", "$bucketAuto"].contains(&name);
        if has_ties && (groups || ["$limit", "$skip", "$facet"].contains(&name)) {
            return None;
        }
        // MongoDB may treat sets with a different element order as different. The executors of MongoDB do not agree on MinKey and
        // missing fields.
        if groups && (has_sets || text.contains("minKey")) {
            return None;
        }
        match name {
            "$sort" => {
                let is_by_id = stage.get_document("$sort").is_ok_and(is_total);
                is_list = is_by_id && are_stored;
                has_ties = !is_list;
            }
            "$count" => is_list = true,
            name if ORDER_PRESERVING_STAGES.contains(&name) => {}
            name => {
                is_list = false;
                are_stored &= name == "$lookup" || name == "$replaceWith";
            }
        }
    }
    Some(match (has_sets, is_list) {
        (true, _) => ComparisonMode::AsBagOfSets,
        (false, true) => ComparisonMode::Exactly,
        (false, false) => ComparisonMode::AsBag,
    })
}

/// Returns whether a stage may add a field that an earlier stage has removed. On MongoDB, the field takes the old position if
/// both stages work on the document in memory.
fn adds_removed_fields_again(stages: &[Bson]) -> bool {
    let mut removes = false;
    for stage in stages.iter().filter_map(Bson::as_document) {
        let (name, operand) = stage.iter().next().unzip();
        match name.map_or("", String::as_str) {
            "$set" | "$addFields" | "$unwind" | "$lookup" if removes => return true,
            // With `preserveNullAndEmptyArrays`, an empty array becomes a missing field.
            "$unwind" => {
                let options = operand.and_then(Bson::as_document);
                removes |= options.is_some_and(|options| {
                    options
                        .get_bool("preserveNullAndEmptyArrays")
                        .unwrap_or_default()
                });
            }
            "$unset" => removes = true,
            "$project" => removes |= operand.is_some_and(excludes),
            _ => {}
        }
        removes |= format!("{stage}").contains("$$REMOVE");
    }
    false
}

fn excludes(projection: &Bson) -> bool {
    match projection {
        Bson::Boolean(included) => !included,
        Bson::Document(fields) => fields.values().any(excludes),
        number => number.as_i32() == Some(0),
    }
}

fn stages_of<'s>(step: &'s Step, name: &str) -> &'s [Bson] {
    step.args.get_array(name).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_of(name: &str, args: Document, is_indexed: bool) -> Option<ComparisonMode> {
        comparison_mode(&Step::new("c", name, args), is_indexed)
    }

    #[test]
    fn an_indexed_query_without_total_sort_is_unordered() {
        let limited = || doc! { "filter": { "a": 1 }, "limit": 1 };
        assert_eq!(
            mode_of("find", limited(), false),
            Some(ComparisonMode::Exactly)
        );
        assert_eq!(
            mode_of("find", limited(), true),
            Some(ComparisonMode::ByNumber)
        );
        let by_id = doc! { "filter": { "$or": [{ "_id": 1 }] } };
        assert_eq!(mode_of("find", by_id, false), Some(ComparisonMode::AsBag));
        let by_expression = doc! { "filter": { "$expr": { "$gt": ["$_id", 3] } } };
        assert_eq!(
            mode_of("find", by_expression, false),
            Some(ComparisonMode::AsBag)
        );
        let sorted = doc! { "sort": { "a": 1, "_id": -1 }, "limit": 1 };
        assert_eq!(mode_of("find", sorted, true), Some(ComparisonMode::Exactly));
    }

    #[test]
    fn null_ranges_are_skipped_for_indexed_collections() {
        let filter = || doc! { "filter": { "$or": [{ "a": { "$lte": null } }] } };
        assert_eq!(mode_of("find", filter(), true), None);
        assert_eq!(
            mode_of("find", filter(), false),
            Some(ComparisonMode::Exactly)
        );
    }

    #[test]
    fn a_sort_of_groups_leaves_ties() {
        let mode = |stages: &[Document]| mode_of("aggregate", doc! { "pipeline": stages }, false);
        let sort = || doc! { "$sort": { "_id": 1 } };
        let group = || doc! { "$sortByCount": "$a" };
        let limit = || doc! { "$limit": 1 };
        assert_eq!(mode(&[sort(), limit()]), Some(ComparisonMode::Exactly));
        assert_eq!(mode(&[sort(), group()]), Some(ComparisonMode::AsBag));
        assert_eq!(mode(&[group(), sort()]), Some(ComparisonMode::AsBag));
        assert_eq!(mode(&[group(), sort(), limit()]), None);
        let by_set = doc! { "$sortByCount": { "$setUnion": ["$a"] } };
        assert_eq!(mode(&[by_set]), None);
    }

    #[test]
    fn null_may_be_missing_where_an_index_covers_the_query() {
        let find = || doc! { "filter": { "a": 1 }, "projection": { "_id": 0, "b": 1 } };
        assert_eq!(
            mode_of("find", find(), true),
            Some(ComparisonMode::AsBagWithoutNulls)
        );
        assert_eq!(
            mode_of("find", find(), false),
            Some(ComparisonMode::Exactly)
        );
        let documents = |document: Document| doc! { "docs": [document] };
        let (one, other) = (documents(doc! { "b": null }), documents(doc! {}));
        assert_eq!(
            ComparisonMode::AsBagWithoutNulls.compare(&one, &other),
            Agreement::Same
        );
        assert_eq!(
            ComparisonMode::AsBag.compare(&one, &other),
            Agreement::Different
        );
    }

    #[test]
    fn a_field_added_again_has_no_position() {
        let mode = |stages: &[Document]| mode_of("aggregate", doc! { "pipeline": stages }, false);
        let (unset, set) = (|| doc! { "$unset": "a" }, || doc! { "$set": { "a": 1 } });
        let without = || doc! { "$project": { "b": { "c": 0 } } };
        assert_eq!(mode(&[set(), unset()]), Some(ComparisonMode::AsBag));
        assert_eq!(mode(&[unset(), set()]), Some(ComparisonMode::AsBagOfMaps));
        assert_eq!(mode(&[without(), set()]), Some(ComparisonMode::AsBagOfMaps));
        let unwind =
            |kept: bool| doc! { "$unwind": { "path": "$b", "preserveNullAndEmptyArrays": kept } };
        assert_eq!(
            mode(&[unwind(true), set()]),
            Some(ComparisonMode::AsBagOfMaps)
        );
        assert_eq!(mode(&[unwind(false), set()]), Some(ComparisonMode::AsBag));
        let documents = |document: Document| doc! { "docs": [document] };
        let (one, other) = (
            doc! { "a": [{ "b": 1, "c": 2 }] },
            doc! { "a": [{ "c": 2, "b": 1 }] },
        );
        let (one, other) = (documents(one), documents(other));
        assert_eq!(
            ComparisonMode::AsBagOfMaps.compare(&one, &other),
            Agreement::Same
        );
        assert_eq!(
            ComparisonMode::AsBagOfSets.compare(&one, &other),
            Agreement::Different
        );
        let update = doc! { "filter": { "_id": 1 }, "update": [unset(), set()] };
        assert_eq!(mode_of("updateOne", update, false), None);
    }

    #[test]
    fn a_positional_sort_with_projection_is_unordered() {
        let find = || doc! { "sort": { "a.0": 1, "_id": 1 } };
        assert_eq!(
            mode_of("find", find(), false),
            Some(ComparisonMode::Exactly)
        );
        let mut projected = find();
        projected.insert("projection", doc! { "a.0": 1 });
        assert_eq!(
            mode_of("find", projected, false),
            Some(ComparisonMode::AsBag)
        );
    }

    #[test]
    fn single_document_writes_need_an_id() {
        let mode = |filter: Document, is_indexed| {
            mode_of("deleteOne", doc! { "filter": filter }, is_indexed)
        };
        assert_eq!(mode(doc! { "a": 1 }, true), None);
        assert_eq!(
            mode(doc! { "_id": 1, "a": 1 }, true),
            Some(ComparisonMode::Exactly)
        );
        assert_eq!(mode(doc! { "_id": { "$gt": 1 } }, false), None);
        assert_eq!(mode(doc! { "a": 1 }, false), Some(ComparisonMode::Exactly));
    }

    #[test]
    fn equal_numbers_of_different_types_are_equal() {
        let values = |values: Bson| doc! { "values": values };
        let (one, other) = (
            values(bson::bson!([1, "a"])),
            values(bson::bson!(["a", 1.0])),
        );
        assert_eq!(
            ComparisonMode::ByValue.compare(&one, &other),
            Agreement::Same
        );
        assert_eq!(
            ComparisonMode::Exactly.compare(&one, &other),
            Agreement::Different
        );
    }
}
