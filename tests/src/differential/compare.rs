//! How far MongoDB determines what an operation answers, and whether two answers agree as far as that.
//!
//! What depends on the order in which a plan meets the documents is not determined: without a sort by all that
//! distinguishes documents, MongoDB gives any order, and takes any documents for a limit. Only a scan of the whole
//! collection, which is all there is without indexes, meets them in the order in which they came.

mod loose;

use bson::{Bson, Document, doc};

use super::failure;
use super::step::Step;
use crate::corpus::compare::{Order, same_answer, sort_arrays};
use loose::{same_by_value, sort_fields, take_nulls};

/// How two answers to an operation are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// All of it, lists in their order.
    Exactly,
    /// Documents in any order.
    AsBag,
    /// Documents in any order, and the arrays in them as well.
    AsBagOfSets,
    /// Documents in any order, with their arrays and fields in any order too.
    AsBagOfMaps,
    /// Documents in any order, where what is null may be missing and fields have no order: an index that covers the query
    /// gives them in its own.
    AsBagWithoutNulls,
    /// How many documents there are.
    ByNumber,
    /// Values in any order, and of equal numbers the type does not matter. Where MongoDB reads the values from an index,
    /// it gives null for what is missing, undefined for empty arrays and takes arrays in arrays apart; otherwise it does
    /// not. So the former two are left out, and arrays taken apart.
    ByValue,
    /// A write that ends at the first failure. Of several documents, it depends on the order which one that is; and
    /// where the engine then has done nothing at all, MongoDB keeps what came before.
    UpToFailure,
}

/// Whether two answers agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Agreement {
    /// As far as MongoDB determines them.
    Same,
    /// They may both be right, and what the sides hold now may be unlike.
    Unlike,
    Different,
}

/// How the answers to an operation are compared; none if MongoDB does not determine what it does.
pub(super) fn way(step: &Step, is_indexed: bool) -> Option<Way> {
    let empty = Document::new();
    let filter = step.document("filter").unwrap_or(&empty);
    // Each side would make up ids of its own.
    if step.name == "insertMany" && !all_have_ids(step) {
        return None;
    }
    // A sparse index answers these on MongoDB, and does not have what is missing, which stands between the least key and the
    // greatest; nor has an index on the elements of
    // arrays what is to be compared with whole ones.
    if is_indexed && ranges_over_null_or_arrays(&step.args) {
        return None;
    }
    // Otherwise an index may decide what comes first.
    let is_scan = !is_indexed && !mentions_id(filter);
    let is_page = ["skip", "limit"]
        .iter()
        .any(|name| step.args.contains_key(name));
    let is_sorted = step.document("sort").is_some_and(is_total) && !sorts_what_is_projected(step);
    if brings_fields_back(stages_of(step, "update")) {
        return None;
    }
    match step.name.as_str() {
        "find" if is_indexed && may_be_covered(step) && (is_sorted || !is_page) => {
            Some(Way::AsBagWithoutNulls)
        }
        "find" => Some(if is_sorted {
            Way::Exactly
        } else if step.args.contains_key("sort") {
            if is_page { Way::ByNumber } else { Way::AsBag }
        } else if is_scan {
            Way::Exactly
        } else if is_page {
            Way::ByNumber
        } else {
            Way::AsBag
        }),
        "distinct" => Some(if is_scan { Way::Exactly } else { Way::ByValue }),
        "aggregate" => of_pipeline(step),
        "updateOne" | "replaceOne" | "deleteOne" => {
            (is_scan || pins_id(filter)).then_some(Way::Exactly)
        }
        "findOneAndUpdate" | "findOneAndReplace" | "findOneAndDelete" => {
            let is_first = !step.args.contains_key("sort") && is_scan;
            let way = if failure::computes(step) {
                Way::UpToFailure
            } else {
                Way::Exactly
            };
            (is_first || is_sorted || pins_id(filter)).then_some(way)
        }
        "deleteMany" if failure::computes(step) => Some(Way::UpToFailure),
        "updateMany" if !is_scan && !pins_id(filter) => Some(Way::UpToFailure),
        "updateMany" if failure::depends_on_plan(step, is_indexed) => Some(Way::UpToFailure),
        _ => Some(Way::Exactly),
    }
}

/// How the lists of what the sides hold are compared: the documents have no order.
pub(super) fn held() -> Way {
    Way::AsBag
}

/// Takes out of an answer what is about the form of the question: MongoDB takes a list of writes and says which of
/// them failed. Of an insertion that is a part of the answer.
///
/// Nor does it say whether `$push` of nothing counts as a modification where an index is: MongoDB counts what could
/// change the index.
pub(super) fn trim(step: &Step, is_indexed: bool, answer: &mut Document) {
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

impl Way {
    pub(super) fn compare(self, mongodb: &Document, engine: &Document) -> Agreement {
        let have = |name: &str| (mongodb.get(name), engine.get(name));
        if let (Some(Bson::ObjectId(one)), Some(Bson::ObjectId(other))) = have("upsertedId")
            && one != other
        {
            // Both have made one up.
            return Agreement::Unlike;
        }
        if let (Some(_), Some(_)) = have("error")
            && self == Way::UpToFailure
        {
            return Agreement::Unlike;
        }
        let is_same = match self {
            Way::Exactly | Way::UpToFailure => same_answer(mongodb, engine, Order::Total),
            Way::AsBag => same_answer(mongodb, engine, Order::Any),
            Way::AsBagOfSets | Way::AsBagOfMaps | Way::AsBagWithoutNulls => {
                let (mut one, mut other) = (mongodb.clone(), engine.clone());
                let answers = [&mut one, &mut other].into_iter();
                for documents in answers.filter_map(|answer| answer.get_mut("docs")) {
                    match self {
                        Way::AsBagWithoutNulls => {
                            take_nulls(documents);
                            sort_fields(documents);
                        }
                        Way::AsBagOfMaps => sort_fields(documents),
                        _ => {}
                    }
                    if self != Way::AsBagWithoutNulls {
                        sort_arrays(documents);
                    }
                }
                same_answer(&one, &other, Order::Any)
            }
            Way::ByNumber => match have("docs") {
                (Some(Bson::Array(one)), Some(Bson::Array(other))) => one.len() == other.len(),
                _ => same_answer(mongodb, engine, Order::Any),
            },
            Way::ByValue => match have("values") {
                (Some(Bson::Array(one)), Some(Bson::Array(other))) => same_by_value(one, other),
                _ => same_answer(mongodb, engine, Order::Any),
            },
        };
        if is_same {
            Agreement::Same
        } else {
            Agreement::Different
        }
    }
}

/// Whether the fields that a query reads may all be in an index.
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

/// Whether MongoDB says that it cannot answer just now: a transaction has begun while indexes were made, maybe in
/// another database.
pub(super) fn is_not_now(mongodb: &Document) -> bool {
    const SNAPSHOT_UNAVAILABLE: i32 = 246;
    let error = mongodb.get_document("error");
    error.is_ok_and(|error| error.get("code") == Some(&Bson::Int32(SNAPSHOT_UNAVAILABLE)))
}

/// Whether a filter can only be met by the document with one `_id`.
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

/// Whether the index of `_id` may be of use, for an expression too.
fn mentions_id(filter: &Document) -> bool {
    fn value_does(value: &Bson) -> bool {
        match value {
            Bson::Document(inner) => mentions_id(inner),
            Bson::Array(values) => values.iter().any(value_does),
            Bson::String(text) => text.starts_with("$_id"),
            _ => false,
        }
    }
    filter
        .iter()
        .any(|(name, value)| name.starts_with("_id") || value_does(value))
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

/// MongoDB may project before it sorts, and a projection of `a.0` means fields of that name, while a sort by it means the
/// elements at that position as well.
fn sorts_what_is_projected(step: &Step) -> bool {
    let is_position = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let by_position = |sort: &Document| sort.keys().any(|path| path.split('.').any(is_position));
    step.args.contains_key("projection") && step.document("sort").is_some_and(by_position)
}

fn is_total(sort: &Document) -> bool {
    sort.contains_key("_id")
}

/// A pipeline gives a list only if a total sort of whole documents comes last but for stages that keep the order. What
/// groups gives arrays as `_id`s, of which a sort looks at one element, and what unwinds gives an `_id` several times: then
/// a sort leaves ties, and it is not determined what a stage does that depends on the order.
fn of_pipeline(step: &Step) -> Option<Way> {
    const KEEPS: [&str; 7] = [
        "$limit",
        "$skip",
        "$match",
        "$project",
        "$set",
        "$addFields",
        "$unset",
    ];
    let stages = stages_of(step, "pipeline");
    if brings_fields_back(stages) {
        return Some(Way::AsBagOfMaps);
    }
    let (mut is_list, mut has_ties, mut has_sets, mut are_stored) = (false, false, false, true);
    for stage in stages.iter().filter_map(Bson::as_document) {
        let text = format!("{stage}");
        // The branches of `$facet` are arrays of documents, of which groups have no order.
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
        // MongoDB may take two sets for different ones that have their elements in another order.
        // Nor do its executors agree on the least key and a field that is missing.
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
            name if KEEPS.contains(&name) => {}
            name => {
                is_list = false;
                are_stored &= name == "$lookup" || name == "$replaceWith";
            }
        }
    }
    Some(match (has_sets, is_list) {
        (true, _) => Way::AsBagOfSets,
        (false, true) => Way::Exactly,
        (false, false) => Way::AsBag,
    })
}

/// Whether a stage may add a field that one before has removed. On MongoDB the field then takes its old place, if both
/// stages see the document in memory.
fn brings_fields_back(stages: &[Bson]) -> bool {
    let mut removes = false;
    for stage in stages.iter().filter_map(Bson::as_document) {
        let (name, operand) = stage.iter().next().unzip();
        match name.map_or("", String::as_str) {
            "$set" | "$addFields" | "$unwind" | "$lookup" if removes => return true,
            // An empty array that is kept is a field that is gone.
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

    fn way_of(name: &str, args: Document, is_indexed: bool) -> Option<Way> {
        way(&Step::new("c", name, args), is_indexed)
    }

    #[test]
    fn without_a_total_sort_an_index_leaves_the_order_open() {
        let limited = || doc! { "filter": { "a": 1 }, "limit": 1 };
        assert_eq!(way_of("find", limited(), false), Some(Way::Exactly));
        assert_eq!(way_of("find", limited(), true), Some(Way::ByNumber));
        let by_id = doc! { "filter": { "$or": [{ "_id": 1 }] } };
        assert_eq!(way_of("find", by_id, false), Some(Way::AsBag));
        let by_expression = doc! { "filter": { "$expr": { "$gt": ["$_id", 3] } } };
        assert_eq!(way_of("find", by_expression, false), Some(Way::AsBag));
        let sorted = doc! { "sort": { "a": 1, "_id": -1 }, "limit": 1 };
        assert_eq!(way_of("find", sorted, true), Some(Way::Exactly));
    }

    #[test]
    fn a_range_over_null_is_not_asked_where_an_index_could_be_sparse() {
        let filter = || doc! { "filter": { "$or": [{ "a": { "$lte": null } }] } };
        assert_eq!(way_of("find", filter(), true), None);
        assert_eq!(way_of("find", filter(), false), Some(Way::Exactly));
    }

    #[test]
    fn a_sort_of_groups_leaves_ties() {
        let of = |stages: &[Document]| way_of("aggregate", doc! { "pipeline": stages }, false);
        let sort = || doc! { "$sort": { "_id": 1 } };
        let group = || doc! { "$sortByCount": "$a" };
        let limit = || doc! { "$limit": 1 };
        assert_eq!(of(&[sort(), limit()]), Some(Way::Exactly));
        assert_eq!(of(&[sort(), group()]), Some(Way::AsBag));
        assert_eq!(of(&[group(), sort()]), Some(Way::AsBag));
        assert_eq!(of(&[group(), sort(), limit()]), None);
        let by_set = doc! { "$sortByCount": { "$setUnion": ["$a"] } };
        assert_eq!(of(&[by_set]), None);
    }

    #[test]
    fn null_may_be_missing_where_an_index_covers_the_query() {
        let find = || doc! { "filter": { "a": 1 }, "projection": { "_id": 0, "b": 1 } };
        assert_eq!(way_of("find", find(), true), Some(Way::AsBagWithoutNulls));
        assert_eq!(way_of("find", find(), false), Some(Way::Exactly));
        let documents = |document: Document| doc! { "docs": [document] };
        let (one, other) = (documents(doc! { "b": null }), documents(doc! {}));
        assert_eq!(
            Way::AsBagWithoutNulls.compare(&one, &other),
            Agreement::Same
        );
        assert_eq!(Way::AsBag.compare(&one, &other), Agreement::Different);
    }

    #[test]
    fn a_field_that_comes_back_has_no_place() {
        let of = |stages: &[Document]| way_of("aggregate", doc! { "pipeline": stages }, false);
        let (unset, set) = (|| doc! { "$unset": "a" }, || doc! { "$set": { "a": 1 } });
        let without = || doc! { "$project": { "b": { "c": 0 } } };
        assert_eq!(of(&[set(), unset()]), Some(Way::AsBag));
        assert_eq!(of(&[unset(), set()]), Some(Way::AsBagOfMaps));
        assert_eq!(of(&[without(), set()]), Some(Way::AsBagOfMaps));
        let unwind =
            |kept: bool| doc! { "$unwind": { "path": "$b", "preserveNullAndEmptyArrays": kept } };
        assert_eq!(of(&[unwind(true), set()]), Some(Way::AsBagOfMaps));
        assert_eq!(of(&[unwind(false), set()]), Some(Way::AsBag));
        let documents = |document: Document| doc! { "docs": [document] };
        let (one, other) = (
            doc! { "a": [{ "b": 1, "c": 2 }] },
            doc! { "a": [{ "c": 2, "b": 1 }] },
        );
        let (one, other) = (documents(one), documents(other));
        assert_eq!(Way::AsBagOfMaps.compare(&one, &other), Agreement::Same);
        assert_eq!(Way::AsBagOfSets.compare(&one, &other), Agreement::Different);
        let update = doc! { "filter": { "_id": 1 }, "update": [unset(), set()] };
        assert_eq!(way_of("updateOne", update, false), None);
    }

    #[test]
    fn a_sort_by_positions_is_not_one_of_what_a_projection_leaves() {
        let find = || doc! { "sort": { "a.0": 1, "_id": 1 } };
        assert_eq!(way_of("find", find(), false), Some(Way::Exactly));
        let mut projected = find();
        projected.insert("projection", doc! { "a.0": 1 });
        assert_eq!(way_of("find", projected, false), Some(Way::AsBag));
    }

    #[test]
    fn a_write_of_one_document_must_say_which() {
        let of = |filter: Document, is_indexed| {
            way_of("deleteOne", doc! { "filter": filter }, is_indexed)
        };
        assert_eq!(of(doc! { "a": 1 }, true), None);
        assert_eq!(of(doc! { "_id": 1, "a": 1 }, true), Some(Way::Exactly));
        assert_eq!(of(doc! { "_id": { "$gt": 1 } }, false), None);
        assert_eq!(of(doc! { "a": 1 }, false), Some(Way::Exactly));
    }

    #[test]
    fn equal_numbers_of_other_types_are_the_same_value() {
        let values = |values: Bson| doc! { "values": values };
        let (one, other) = (
            values(bson::bson!([1, "a"])),
            values(bson::bson!(["a", 1.0])),
        );
        assert_eq!(Way::ByValue.compare(&one, &other), Agreement::Same);
        assert_eq!(Way::Exactly.compare(&one, &other), Agreement::Different);
    }
}
