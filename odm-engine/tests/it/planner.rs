use bson::raw::{CStr, cstr};
use bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use odm_engine::{Database, Direction, ExplainStage, Find, Index};
use proptest::prelude::*;

use crate::find;

fn indexed(indexes: &[Index], documents: impl IntoIterator<Item = RawDocumentBuf>) -> Database {
    let database = Database::memory();
    database.create_indexes("c", indexes).unwrap();
    let documents = documents.into_iter().collect();
    database
        .insert("c", documents)
        .unwrap()
        .into_result()
        .unwrap();
    database
}

fn index(keys: &[(&str, i32)]) -> Index {
    Index::new(keys.iter().map(|(path, sign)| {
        let direction = if *sign > 0 {
            Direction::Ascending
        } else {
            Direction::Descending
        };
        (*path, direction)
    }))
}

fn sorted(filter: RawDocumentBuf, sort: RawDocumentBuf) -> Find {
    Find {
        filter,
        sort: Some(sort),
        ..Find::default()
    }
}

#[test]
fn ids_are_looked_up() {
    let database = indexed(&[], (0..100).map(|n| rawdoc! { "_id": n }));
    let query = Find {
        filter: rawdoc! { "_id": { "$in": [7, 3, 1000] } },
        ..Find::default()
    };
    let explain = database.explain("c", &query).unwrap();
    assert_eq!(explain.stage, ExplainStage::IdLookup);
    assert_eq!((explain.documents_examined, explain.returned), (2, 2));
}

#[test]
fn long_lists_of_values_are_looked_up() {
    let documents = (0..200).map(|n| rawdoc! { "_id": n, "a": n, "b": n });
    let database = indexed(&[index(&[("a", 1), ("b", 1)])], documents);
    let values = || (-15_000..15_000_i32).collect::<bson::RawArrayBuf>();
    for (filter, stage) in [
        (
            rawdoc! { "_id": { "$in": values() } },
            ExplainStage::IdLookup,
        ),
        (
            rawdoc! { "a": { "$in": values() } },
            ExplainStage::IndexScan,
        ),
        (
            rawdoc! { "a": { "$in": values() }, "b": { "$in": values() } },
            ExplainStage::IndexScan,
        ),
    ] {
        let query = sorted(filter, rawdoc! { "_id": -1 });
        let explain = database.explain("c", &query).unwrap();
        assert_eq!((explain.stage, explain.returned), (stage, 200));
        let first = database.find("c", &query).unwrap().next().unwrap().unwrap();
        assert_eq!(first.get_i32("_id").unwrap(), 199);
    }
}

#[test]
fn equality_then_sort_needs_no_sorting() {
    let documents =
        (0..100).map(|n| rawdoc! { "_id": n, "status": n % 4, "when": (n * 31) % 100, "x": n });
    let indexes = [
        index(&[("status", 1)]),
        index(&[("status", 1), ("when", -1)]),
    ];
    let database = indexed(&indexes, documents);
    let query = sorted(rawdoc! { "status": 2 }, rawdoc! { "when": 1 });
    let explain = database.explain("c", &query).unwrap();
    assert_eq!(explain.indexes, ["status_1_when_-1"]);
    assert!(explain.sorted_by_index);
    assert_eq!(
        (
            explain.keys_examined,
            explain.documents_examined,
            explain.returned
        ),
        (25, 25, 25)
    );
    let dates: Vec<i32> = database
        .find("c", &query)
        .unwrap()
        .map(|document| document.unwrap().get_i32("when").unwrap())
        .collect();
    assert!(dates.is_sorted());
}

#[test]
fn ranges_and_prefixes_read_only_matching_keys() {
    let documents = (0..1000).map(|n| rawdoc! { "_id": n, "n": n, "name": format!("{n:03}") });
    let database = indexed(&[index(&[("n", -1)]), index(&[("name", 1)])], documents);
    for (filter, count) in [
        (rawdoc! { "n": { "$gte": 10, "$lt": 20 } }, 10),
        (rawdoc! { "name": { "$regex": "^12" } }, 10),
        (rawdoc! { "n": { "$in": [1, 5, 9] } }, 3),
        (
            rawdoc! { "$or": [{ "n": 5 }, { "name": "700" }, { "n": { "$lte": 5 } }] },
            7,
        ),
    ] {
        let query = Find {
            filter,
            ..Find::default()
        };
        let explain = database.explain("c", &query).unwrap();
        assert_ne!(explain.stage, ExplainStage::CollectionScan, "{query:?}");
        assert_eq!(explain.returned, count, "{query:?}");
        assert_eq!(explain.documents_examined, count, "{query:?}");
    }
}

#[test]
fn sparse_and_partial_indexes_serve_only_complete_results() {
    let documents = (0..10).map(|n| match n {
        0..5 => rawdoc! { "_id": n, "a": n },
        _ => rawdoc! { "_id": n, "b": n },
    });
    let partial = index(&[("b", 1)]).partial(rawdoc! { "b": { "$gt": 6 } });
    let database = indexed(&[index(&[("a", 1)]).sparse(), partial], documents);
    let stage = |filter: RawDocumentBuf| {
        let query = Find {
            filter,
            ..Find::default()
        };
        database.explain("c", &query).unwrap().stage
    };
    assert_eq!(stage(rawdoc! { "a": 3 }), ExplainStage::IndexScan);
    assert_eq!(
        stage(rawdoc! { "a": bson::RawBson::Null }),
        ExplainStage::CollectionScan
    );
    assert_eq!(stage(rawdoc! { "b": 8 }), ExplainStage::IndexScan);
    assert_eq!(stage(rawdoc! { "b": 6 }), ExplainStage::CollectionScan);
    assert_eq!(
        find(&database, "c", rawdoc! { "a": bson::RawBson::Null }).len(),
        5
    );
}

/// As on MongoDB, a query for documents with the field can use a sparse index, and skips documents without the field.
#[test]
fn a_sparse_index_finds_documents_with_the_field() {
    let documents = (0..100).map(|n| match n % 10 {
        0 => rawdoc! { "_id": n, "a": n, "b": [n, n + 1] },
        5 => rawdoc! { "_id": n, "a": bson::RawBson::Null },
        _ => rawdoc! { "_id": n },
    });
    let indexes = [
        index(&[("a", 1)]).sparse(),
        index(&[("b", 1)]).sparse(),
        index(&[("c", 1)]),
    ];
    let database = indexed(&indexes, documents);
    let explain = |filter: RawDocumentBuf| {
        let query = Find {
            filter,
            ..Find::default()
        };
        let explain = database.explain("c", &query).unwrap();
        let keys = explain.keys_examined;
        (explain.stage, keys, explain.returned)
    };
    let has = |field: &'static CStr| rawdoc! { field: { "$exists": true } };
    assert_eq!(explain(has(cstr!("a"))), (ExplainStage::IndexScan, 20, 20));
    assert_eq!(explain(has(cstr!("b"))), (ExplainStage::IndexScan, 20, 10));
    let number = rawdoc! { "a": { "$type": "number" } };
    assert_eq!(explain(number), (ExplainStage::IndexScan, 20, 10));
    // The index is scanned once, not once for each branch.
    let existing = rawdoc! { "a": { "$exists": true }, "$or": [{ "x": 1 }, { "y": 2 }] };
    assert_eq!(explain(existing), (ExplainStage::IndexScan, 20, 0));
    // The sparse index lacks documents without the field, and the ordinary index cannot exclude the rest.
    let missing = rawdoc! { "a": { "$exists": false } };
    assert_eq!(explain(missing).0, ExplainStage::CollectionScan);
    assert_eq!(explain(has(cstr!("c"))).0, ExplainStage::CollectionScan);
    // Any bounded scan is better.
    let both = rawdoc! { "a": { "$exists": true }, "b": 50 };
    assert_eq!(explain(both), (ExplainStage::IndexScan, 1, 1));
}

#[test]
fn conditions_on_one_array_do_not_narrow_each_other() {
    let documents = [
        rawdoc! { "_id": 1, "a": [1, 9] },
        rawdoc! { "_id": 2, "a": [[5], 5] },
    ];
    let database = indexed(&[index(&[("a", 1)])], documents);
    let both = rawdoc! { "a": { "$gt": 5, "$lt": 5 } };
    assert_eq!(find(&database, "c", both).len(), 1);
    assert_eq!(find(&database, "c", rawdoc! { "a": [1, 9] }).len(), 1);
    assert_eq!(find(&database, "c", rawdoc! { "a": [5] }).len(), 1);
}

#[test]
fn equal_documents_are_returned_in_index_order() {
    let documents = || (0..9).map(|n| rawdoc! { "_id": n, "a": n % 3 });
    let ids = |database: &Database, query: &Find| -> Vec<i32> {
        let results = database.find("c", query).unwrap();
        results
            .map(|document| document.unwrap().get_i32("_id").unwrap())
            .collect()
    };
    let (plain, other) = (
        indexed(&[], documents()),
        indexed(&[index(&[("a", 1)])], documents()),
    );
    let ascending = sorted(rawdoc! {}, rawdoc! { "a": 1 });
    let descending = sorted(rawdoc! {}, rawdoc! { "a": -1 });
    assert_eq!(ids(&plain, &ascending), [0, 3, 6, 1, 4, 7, 2, 5, 8]);
    assert_eq!(ids(&other, &ascending), [0, 3, 6, 1, 4, 7, 2, 5, 8]);
    assert_eq!(ids(&plain, &descending), [2, 5, 8, 1, 4, 7, 0, 3, 6]);
    // A backward scan also reverses documents with equal keys.
    assert_eq!(ids(&other, &descending), [8, 5, 2, 7, 4, 1, 6, 3, 0]);
}

#[test]
fn several_values_and_an_order_are_merged() {
    let documents = (0..60).map(|n| rawdoc! { "_id": n, "a": n % 6, "b": (n * 7) % 10, "c": [n] });
    let indexes = [
        index(&[("a", 1), ("b", 1), ("_id", 1)]),
        index(&[("c", 1), ("b", 1)]),
    ];
    let database = indexed(&indexes, documents);
    for (sort, step) in [
        (rawdoc! { "b": 1, "_id": 1 }, 1),
        (rawdoc! { "b": -1, "_id": -1 }, -1),
    ] {
        let query = Find {
            limit: Some(7),
            ..sorted(rawdoc! { "a": { "$in": [1, 2, 5] } }, sort)
        };
        let explain = database.explain("c", &query).unwrap();
        assert_eq!(
            (explain.indexes[0].as_str(), explain.sorted_by_index),
            ("a_1_b_1__id_1", true)
        );
        assert_eq!(explain.bounds[0], "a: [1, 1], [2, 2], [5, 5]");
        let mut expected: Vec<_> = (0..60).filter(|n| [1, 2, 5].contains(&(n % 6))).collect();
        expected.sort_by_key(|n| (step * ((n * 7) % 10), step * n));
        expected.truncate(7);
        let results = database.find("c", &query).unwrap();
        let results: Vec<_> = results
            .map(|document| document.unwrap().get_i32("_id").unwrap())
            .collect();
        assert_eq!(results, expected);
    }
    // The conditions match several elements of one array, and the document is returned once.
    let arrays = sorted(rawdoc! { "c": { "$in": [1, 2, 3] } }, rawdoc! { "b": 1 });
    assert!(database.explain("c", &arrays).unwrap().sorted_by_index);
    assert_eq!(database.find("c", &arrays).unwrap().count(), 3);
}

#[test]
fn explain_names_chosen_and_rejected_indexes() {
    let documents = (0..100).map(|n| rawdoc! { "_id": n, "age": n % 10, "name": format!("{n}") });
    let indexes = [index(&[("age", 1)]), index(&[("age", -1), ("name", 1)])];
    let database = indexed(&indexes, documents);
    let query = Find {
        filter: rawdoc! { "age": { "$gte": 3, "$lt": 7 }, "name": { "$gt": "5" } },
        ..Find::default()
    };
    let explain = database.explain("c", &query).unwrap();
    assert_eq!(explain.stage, ExplainStage::IndexScan);
    assert_eq!(explain.rejected.len(), 1);
    assert_eq!(explain.bounds[0], "age: [3, 7)");
    assert_eq!(explain.keys_examined, 40);
    assert!(!explain.covered);
}

fn explained(database: &Database, filter: RawDocumentBuf) -> odm_engine::Explain {
    let query = Find {
        filter,
        ..Find::default()
    };
    database.explain("c", &query).unwrap()
}

#[test]
fn a_hashed_index_serves_equal_values_only() {
    let documents = (0..100).map(|n| rawdoc! { "_id": n, "a": n % 10, "b": n });
    let compound = index(&[("b", 1), ("a", 1)]).hashed("a");
    let indexes = [index(&[("a", 1)]).hashed("a"), compound];
    let database = indexed(&indexes, documents);
    let explain = explained(&database, rawdoc! { "a": 3.0 });
    assert_eq!(explain.indexes, ["a_hashed"]);
    assert_eq!(
        (
            explain.keys_examined,
            explain.documents_examined,
            explain.returned
        ),
        (10, 10, 10)
    );
    let explain = explained(&database, rawdoc! { "a": { "$in": [3, 4, "x"] } });
    assert_eq!((explain.keys_examined, explain.returned), (20, 20));
    let explain = explained(&database, rawdoc! { "a": { "$gt": 3 } });
    assert_eq!(explain.stage, ExplainStage::CollectionScan);
    let explain = explained(
        &database,
        rawdoc! { "b": { "$gte": 95 }, "a": { "$gt": 7 } },
    );
    assert_eq!(
        (&*explain.indexes[0], explain.keys_examined),
        ("b_1_a_hashed", 5)
    );
    let explain = explained(&database, rawdoc! { "b": 13, "a": 3 });
    assert_eq!(
        (&*explain.indexes[0], explain.keys_examined),
        ("b_1_a_hashed", 1)
    );
    let by_hash = sorted(rawdoc! {}, rawdoc! { "a": 1 });
    let explain = database.explain("c", &by_hash).unwrap();
    assert!(!explain.sorted_by_index && !explain.covered);
    let sorted_by_b = sorted(rawdoc! { "b": { "$gt": 90 } }, rawdoc! { "b": -1 });
    assert!(database.explain("c", &sorted_by_b).unwrap().sorted_by_index);
}

#[test]
fn a_wildcard_index_serves_one_path_of_a_query() {
    let documents = (0..100).map(|n| {
        rawdoc! { "_id": n, "a": { "b": n, "c": format!("{n:02}") }, "d": [n % 10, { "e": n % 7 }] }
    });
    let database = indexed(&[index(&[("a.$**", 1)]), index(&[("$**", 1)])], documents);
    let counts = |filter: RawDocumentBuf| {
        let explain = explained(&database, filter);
        assert_eq!(explain.stage, ExplainStage::IndexScan);
        (
            explain.keys_examined,
            explain.documents_examined,
            explain.returned,
        )
    };
    assert_eq!(counts(rawdoc! { "a.b": 5 }), (1, 1, 1));
    assert_eq!(
        counts(rawdoc! { "a.b": { "$gte": 10, "$lt": 20 } }),
        (10, 10, 10)
    );
    assert_eq!(counts(rawdoc! { "a.c": { "$regex": "^7" } }), (10, 10, 10));
    assert_eq!(counts(rawdoc! { "d": { "$in": [3, 4] } }), (20, 20, 20));
    assert_eq!(counts(rawdoc! { "d.e": 6 }), (14, 14, 14));
    assert_eq!(counts(rawdoc! { "d.1.e": 6 }), (14, 14, 14));
    // The document is returned once, although the index has two entries for it.
    assert_eq!(
        counts(rawdoc! { "a": { "$exists": true } }),
        (200, 100, 100)
    );
    let disjunction = explained(&database, rawdoc! { "$or": [{ "a.b": 5 }, { "d.e": 6 }] });
    assert_eq!(
        (disjunction.stage, disjunction.documents_examined),
        (ExplainStage::Union, 15)
    );
    for filter in [
        rawdoc! { "x": bson::RawBson::Null },
        rawdoc! { "x": { "$exists": false } },
        rawdoc! { "a": { "b": 5, "c": "05" } },
        rawdoc! { "a.b": { "$ne": 5 } },
    ] {
        assert_eq!(
            explained(&database, filter).stage,
            ExplainStage::CollectionScan
        );
    }
    let ascending = sorted(rawdoc! { "a.b": { "$gt": 3 } }, rawdoc! { "a.b": -1 });
    let explain = database.explain("c", &ascending).unwrap();
    // This index has no arrays.
    assert_eq!(
        (&*explain.indexes[0], explain.sorted_by_index),
        ("a.$**_1", true)
    );
    let by_id = explained(&database, rawdoc! { "_id": 5, "a.b": 5 });
    assert_eq!(by_id.stage, ExplainStage::IdLookup);
}

#[test]
fn a_wildcard_index_can_be_hinted() {
    let documents = (0..10).map(|n| rawdoc! { "_id": n, "a": n, "b": [n] });
    let database = indexed(&[index(&[("$**", 1)])], documents);
    let results = |filter: RawDocumentBuf| {
        let query = Find {
            filter,
            hint: Some("$**_1".into()),
            ..Find::default()
        };
        let results = database.find("c", &query);
        results.map(Iterator::count).map_err(|error| error.code())
    };
    assert_eq!(results(rawdoc! { "a": { "$gt": 7 } }), Ok(2));
    assert_eq!(results(rawdoc! { "$or": [{ "a": 1 }, { "b": 2 }] }), Ok(2));
    assert_eq!(results(rawdoc! {}), Err(Some(291)));
    assert_eq!(results(rawdoc! { "_id": 1 }), Err(Some(291)));
    assert_eq!(
        results(rawdoc! { "a": bson::RawBson::Null }),
        Err(Some(291))
    );
    assert_eq!(
        results(rawdoc! { "$or": [{ "a": 1 }, { "_id": 2 }] }),
        Err(Some(291))
    );
}

/// Few different values, so that conditions often match.
fn value() -> BoxedStrategy<Bson> {
    let number = (0..5_i32).prop_map(Bson::from).boxed();
    let scalar = prop_oneof![
        8 => number.clone(),
        1 => Just(Bson::from(2.0)),
        1 => Just(Bson::from(f64::NAN)),
        1 => Just(Bson::Null),
        1 => "[ab]{0,2}".prop_map(Bson::from),
        1 => any::<bool>().prop_map(Bson::from),
    ];
    let numbers = prop::collection::vec(number, 0..4).prop_map(Bson::Array);
    let nested = scalar.clone().prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            2 => prop::collection::vec(inner.clone(), 0..3).prop_map(Bson::Array),
            1 => fields(inner.boxed()).prop_map(Bson::Document),
        ]
    });
    prop_oneof![3 => scalar, 3 => numbers, 1 => nested].boxed()
}

fn fields(inner: BoxedStrategy<Bson>) -> impl Strategy<Value = Document> {
    let optional = |value: BoxedStrategy<Bson>| prop::option::weighted(0.7, value);
    (optional(inner.clone()), optional(inner)).prop_map(|(x, y)| {
        let fields = [("x", x), ("y", y)].into_iter();
        fields
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
    })
}

fn document() -> impl Strategy<Value = Document> {
    let inner = prop_oneof![
        1 => fields(value()).prop_map(Bson::Document),
        2 => prop::collection::vec(fields(value()).prop_map(Bson::Document), 0..3).prop_map(Bson::Array),
        1 => value(),
    ];
    let optional = |value: BoxedStrategy<Bson>| prop::option::weighted(0.8, value);
    (
        optional(value()),
        optional(value()),
        optional(inner.boxed()),
    )
        .prop_map(|(a, b, c)| {
            let fields = [("a", a), ("b", b), ("c", c)].into_iter();
            fields
                .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                .collect()
        })
}

const PATHS: [&str; 5] = ["a", "b", "c", "c.x", "c.y"];

fn condition() -> BoxedStrategy<Bson> {
    let comparison = prop::sample::select(vec!["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"]);
    let operand = prop_oneof![4 => (0..5_i32).prop_map(Bson::from), 1 => value()];
    let single = (comparison, operand).prop_map(|(operator, value)| doc! { operator: value });
    let range = (0..4_i32, 0..4_i32).prop_map(|(low, high)| doc! { "$gte": low, "$lte": high });
    let set = prop::collection::vec(value(), 0..3).prop_map(|values| doc! { "$in": values });
    let exists = any::<bool>().prop_map(|exists| doc! { "$exists": exists });
    let prefix = "[ab]{0,1}".prop_map(|prefix| doc! { "$regex": format!("^{prefix}") });
    let simple = prop_oneof![6 => single, 4 => range, 3 => set, 1 => exists, 1 => prefix].boxed();
    let element = (simple.clone(), simple.clone())
        .prop_map(|(x, y)| doc! { "$elemMatch": { "x": x, "y": y } });
    let element_value = (0..4_i32, 0..4_i32)
        .prop_map(|(low, high)| doc! { "$elemMatch": { "$gte": low, "$lte": high } });
    prop_oneof![6 => simple, 2 => element, 1 => element_value]
        .prop_map(Bson::Document)
        .boxed()
}

fn filter(paths: &[&'static str]) -> impl Strategy<Value = Document> + use<> {
    let field = (prop::sample::select(paths.to_vec()), condition())
        .prop_map(|(path, condition)| doc! { path: condition });
    // Two fields of the documents in one array, for which a planner could mix up elements.
    let elements =
        (0..5_i32, condition()).prop_map(|(x, condition)| doc! { "c.x": x, "c.y": condition });
    let recursive = field.prop_recursive(2, 6, 3, |inner| {
        let several = prop::collection::vec(inner, 1..4);
        let operators = vec!["$and", "$and", "$and", "$or", "$nor"];
        (prop::sample::select(operators), several)
            .prop_map(|(operator, all)| doc! { operator: all })
    });
    prop_oneof![3 => recursive, 1 => elements]
}

fn any_index() -> impl Strategy<Value = Index> {
    let shuffled = prop::sample::subsequence(PATHS.to_vec(), 1..4).prop_shuffle();
    let paths =
        prop_oneof![3 => shuffled, 1 => Just(vec!["c.x", "c.y"]), 2 => Just(vec!["a", "_id"])];
    (paths, any::<[bool; 3]>(), any::<bool>(), 0..6).prop_map(|(mut paths, signs, ids, kind)| {
        if ids && paths.len() < signs.len() && !paths.contains(&"_id") {
            paths.push("_id");
        }
        let keys = paths.into_iter().zip(signs).map(|(path, ascending)| {
            let direction = if ascending {
                Direction::Ascending
            } else {
                Direction::Descending
            };
            (path, direction)
        });
        let index = Index::new(keys);
        match kind {
            0 => index.sparse(),
            1 => index.partial(rawdoc! { "a": { "$gte": 1 } }),
            _ => index,
        }
    })
}

/// Hashed and wildcard indexes.
fn any_special_index() -> impl Strategy<Value = Index> {
    let hashed = (any_index(), 0..3_usize).prop_map(|(index, at)| {
        let path = index.keys[at % index.keys.len()].0.clone();
        index.hashed(path)
    });
    let path = prop::sample::select(vec!["$**", "$**", "c.$**", "a.$**", "c.x.$**", "_id.$**"]);
    let projections = prop::sample::select(vec![
        rawdoc! { "a": 1 },
        rawdoc! { "c.x": 1, "a": 1 },
        rawdoc! { "c.x": 0 },
        rawdoc! { "c": 0, "_id": 1 },
        rawdoc! { "a.0": 1, "c.0": 1 },
        rawdoc! { "c.0": 0 },
    ]);
    let wildcard =
        (path, prop::option::of(projections), 0..4).prop_map(|(path, projection, kind)| {
            let mut index = Index::new([(path, Direction::Ascending)]);
            index.wildcard_projection = projection.filter(|_| path == "$**");
            match kind {
                0 => index.partial(rawdoc! { "a": { "$gte": 1 } }),
                _ => index,
            }
        });
    prop_oneof![1 => hashed, 2 => wildcard]
}

/// Replaces each array by its first element, because a hashed index accepts no arrays.
fn without_arrays(value: &Bson) -> Bson {
    match value {
        Bson::Array(items) => items.first().map_or(Bson::Null, without_arrays),
        Bson::Document(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| (name.clone(), without_arrays(value)));
            Bson::Document(fields.collect())
        }
        value => value.clone(),
    }
}

/// A total order, so that there is only one right answer.
fn sort() -> impl Strategy<Value = Document> {
    let sign = || prop::sample::select(vec![1, -1]);
    let field = (prop::sample::select(vec!["a", "a", "b", "c.x"]), sign());
    let fields = prop::collection::vec(field, 1..3);
    (fields, sign()).prop_map(|(fields, last)| {
        let fields = fields.into_iter().chain([("_id", last)]);
        fields
            .map(|(path, sign)| (path.to_owned(), Bson::from(sign)))
            .collect()
    })
}

fn query() -> impl Strategy<Value = (Document, Option<Document>)> {
    // A range on the sorted field. Arrays may have elements outside of the range.
    let sorted_range = (condition(), sort()).prop_map(|(condition, sort)| {
        let path = sort.keys().next().cloned().unwrap_or_default();
        (doc! { path: condition }, Some(sort))
    });
    prop_oneof![4 => (filter(&PATHS), prop::option::of(sort())), 1 => sorted_range]
}

/// Queries for wildcard indexes: paths with positions, and conditions that only a wildcard index can serve.
fn query_of_wildcard() -> impl Strategy<Value = (Document, Option<Document>)> {
    let paths = [
        "a", "b", "c", "c.x", "c.y", "a.0", "c.0", "c.0.x", "c.x.1", "c.1.0", "c.0.x.0", "_id",
    ];
    let conditions = vec![
        doc! { "$type": "number" },
        doc! { "$type": "object" },
        doc! { "$type": "array" },
        doc! { "$mod": [2, 1] },
        doc! { "$size": 1 },
        doc! { "$exists": true },
        doc! { "$in": [{}, [], 3] },
        doc! { "$elemMatch": { "$eq": Bson::Null } },
    ];
    let other = (
        prop::sample::select(paths.to_vec()),
        prop::sample::select(conditions),
    )
        .prop_map(|(path, condition)| doc! { path: condition });
    let disjunction = prop_oneof![
        2 => filter(&paths),
        1 => other.clone(),
        1 => (other, filter(&paths)).prop_map(|(a, b)| doc! { "$and": [a, b] }),
    ];
    prop_oneof![1 => query(), 2 => (disjunction, prop::option::of(sort()))]
}

/// One or more paths, with or without the `_id`.
fn projection() -> impl Strategy<Value = Document> {
    let paths = prop::sample::subsequence(vec!["a", "b", "c.x", "c.y"], 1..4);
    (paths, any::<bool>()).prop_map(|(paths, id)| {
        let included = paths
            .into_iter()
            .map(|path| (path.to_owned(), Bson::from(1)));
        included
            .chain([("_id".to_owned(), Bson::from(i32::from(id)))])
            .collect()
    })
}

type Query = ((Document, Option<Document>), Option<Document>);

/// Compares the results with indexes and without indexes.
fn check_answers(
    documents: Vec<Document>,
    indexes: Vec<Index>,
    queries: Vec<Query>,
) -> Result<(), TestCaseError> {
    let plain = Database::memory();
    let other = Database::memory();
    let mut created = Vec::new();
    for index in indexes {
        if other
            .create_indexes("c", std::slice::from_ref(&index))
            .is_ok()
        {
            created.push(index);
        }
    }
    for (id, mut document) in documents.into_iter().enumerate() {
        document.insert("_id", id as i32);
        let document = RawDocumentBuf::try_from(&document).unwrap();
        // Both collections leave out a document that an index refuses.
        if other
            .insert("c", vec![document.clone()])
            .unwrap()
            .into_result()
            .is_ok()
        {
            plain
                .insert("c", vec![document])
                .unwrap()
                .into_result()
                .unwrap();
        }
    }
    other.validate().unwrap();
    for ((filter, sort), projection) in queries {
        let raw = |document: &Document| RawDocumentBuf::try_from(document).unwrap();
        let query = Find {
            filter: raw(&filter),
            sort: sort.as_ref().map(raw),
            // Some indexes cover some of these projections.
            projection: projection.as_ref().map(raw),
            ..Find::default()
        };
        let results = |database: &Database, query: &Find| -> Result<Vec<Vec<u8>>, String> {
            let results = database
                .find("c", query)
                .map_err(|error| error.to_string())?;
            let mut results: Vec<_> = results
                .map(|document| document.unwrap().into_bytes())
                .collect();
            if sort.is_none() {
                results.sort_unstable();
            }
            Ok(results)
        };
        // Sorting by parallel arrays fails in memory. An index may prove that there are no parallel arrays.
        let Ok(expected) = results(&plain, &query) else {
            continue;
        };
        let complete = created
            .iter()
            .filter(|index| !index.sparse && index.partial.is_none());
        let hints = complete.map(|index| Some(index.name.as_str().into()));
        for hint in [None].into_iter().chain(hints) {
            let query = Find {
                hint,
                ..query.clone()
            };
            if let Ok(results) = results(&other, &query) {
                prop_assert_eq!(
                    results,
                    expected.clone(),
                    "{:?} {:?} {:?}",
                    query,
                    created,
                    other.explain("c", &query)
                );
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn indexes_change_no_answer(
        documents in prop::collection::vec(document(), 5..20),
        indexes in prop::collection::vec(any_index(), 1..4),
        queries in prop::collection::vec((query(), prop::option::of(projection())), 10..20),
    ) {
        check_answers(documents, indexes, queries)?;
    }

    #[test]
    fn hashed_and_wildcard_indexes_change_no_answer(
        documents in prop::collection::vec(document(), 5..20),
        are_plain in any::<bool>(),
        indexes in prop::collection::vec(any_special_index(), 1..4),
        queries in prop::collection::vec((query_of_wildcard(), prop::option::of(projection())), 10..20),
    ) {
        let plain = |document: Document| match without_arrays(&Bson::Document(document.clone())) {
            Bson::Document(plain) if are_plain => plain,
            _ => document,
        };
        check_answers(documents.into_iter().map(plain).collect(), indexes, queries)?;
    }
}

/// A value with several BSON types for one key.
fn any_key() -> impl Strategy<Value = Bson> {
    prop_oneof![
        (-3..3).prop_map(Bson::Int32),
        (-3..3_i64).prop_map(Bson::Int64),
        (-4..4).prop_map(|half| Bson::Double(f64::from(half) / 2.0)),
        "[ab]{0,2}".prop_map(Bson::String),
        "[ab]{0,1}".prop_map(Bson::Symbol),
        Just(Bson::Null),
        Just(Bson::Double(f64::NAN)),
        prop::collection::vec((-2..2).prop_map(Bson::Int32), 0..3).prop_map(Bson::Array),
        Just(Bson::Document(doc! { "x": 1 })),
    ]
}

proptest! {
    /// Look-ups of keys in a unique index find the documents of a scan, in the requested order. A document without the field, or with
    /// a key that exists, is not inserted.
    #[test]
    fn look_ups_in_unique_indexes_equal_scans(
        stored in prop::collection::vec(prop::option::of(any_key()), 0..16),
        wanted in prop::collection::vec(any_key(), 1..6),
        is_descending in any::<bool>(),
        is_sparse in any::<bool>(),
        sign in prop::sample::select(vec![1, -1]),
    ) {
        let unique = index(&[("u", if is_descending { -1 } else { 1 })]).unique();
        let unique = if is_sparse { unique.sparse() } else { unique };
        let database = indexed(&[unique], []);
        let documents = (0..).zip(&stored).map(|(id, key)| {
            let mut document = doc! { "_id": id };
            if let Some(key) = key {
                document.insert("u", key.clone());
            }
            RawDocumentBuf::try_from(&document).unwrap()
        });
        let _ = database.insert_unordered("c", documents.collect()).unwrap();
        let found = |filter: &Document, hint: Option<RawDocumentBuf>| {
            let query = Find {
                hint: hint.map(Into::into),
                ..sorted(RawDocumentBuf::try_from(filter).unwrap(), rawdoc! { "u": sign, "_id": 1 })
            };
            let documents = database.find("c", &query).unwrap();
            documents.map(Result::unwrap).collect::<Vec<_>>()
        };
        let mut filters = vec![doc! { "u": { "$in": wanted.clone() } }];
        filters.extend(wanted.into_iter().map(|key| doc! { "u": { "$eq": key } }));
        for filter in filters {
            let scanned = found(&filter, Some(rawdoc! { "$natural": 1 }));
            prop_assert_eq!(found(&filter, None), scanned, "{}", filter);
        }
    }
}
