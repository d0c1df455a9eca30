use bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use odm_engine::{Database, Direction, Find, Index, Stage};
use proptest::prelude::*;

use crate::find;

fn indexed(indexes: &[Index], documents: impl IntoIterator<Item = RawDocumentBuf>) -> Database {
    let database = Database::memory();
    database.create_indexes("c", indexes).unwrap();
    let documents = documents.into_iter().collect();
    database.insert("c", documents).unwrap().all().unwrap();
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
    assert_eq!(explain.stage, Stage::IdLookup);
    assert_eq!((explain.documents_examined, explain.returned), (2, 2));
}

#[test]
fn long_lists_of_values_are_looked_up_too() {
    let documents = (0..200).map(|n| rawdoc! { "_id": n, "a": n, "b": n });
    let database = indexed(&[index(&[("a", 1), ("b", 1)])], documents);
    let values = || (-15_000..15_000_i32).collect::<bson::RawArrayBuf>();
    for (filter, stage) in [
        (rawdoc! { "_id": { "$in": values() } }, Stage::IdLookup),
        (rawdoc! { "a": { "$in": values() } }, Stage::IndexScan),
        (
            rawdoc! { "a": { "$in": values() }, "b": { "$in": values() } },
            Stage::IndexScan,
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
    let whens: Vec<i32> = database
        .find("c", &query)
        .unwrap()
        .map(|document| document.unwrap().get_i32("when").unwrap())
        .collect();
    assert!(whens.is_sorted());
}

#[test]
fn ranges_and_prefixes_read_only_what_they_need() {
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
        assert_ne!(explain.stage, Stage::CollectionScan, "{query:?}");
        assert_eq!(explain.returned, count, "{query:?}");
        assert_eq!(explain.documents_examined, count, "{query:?}");
    }
}

#[test]
fn sparse_and_partial_indexes_serve_only_what_they_hold() {
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
    assert_eq!(stage(rawdoc! { "a": 3 }), Stage::IndexScan);
    assert_eq!(
        stage(rawdoc! { "a": bson::RawBson::Null }),
        Stage::CollectionScan
    );
    assert_eq!(stage(rawdoc! { "b": 8 }), Stage::IndexScan);
    assert_eq!(stage(rawdoc! { "b": 6 }), Stage::CollectionScan);
    assert_eq!(
        find(&database, "c", rawdoc! { "a": bson::RawBson::Null }).len(),
        5
    );
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

/// Values that are few enough to meet often.
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
    let some = |value: BoxedStrategy<Bson>| prop::option::weighted(0.7, value);
    (some(inner.clone()), some(inner)).prop_map(|(x, y)| {
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
    let some = |value: BoxedStrategy<Bson>| prop::option::weighted(0.8, value);
    (some(value()), some(value()), some(inner.boxed())).prop_map(|(a, b, c)| {
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
    let one = (comparison, operand).prop_map(|(operator, value)| doc! { operator: value });
    let two = (0..4_i32, 0..4_i32).prop_map(|(low, high)| doc! { "$gte": low, "$lte": high });
    let set = prop::collection::vec(value(), 0..3).prop_map(|values| doc! { "$in": values });
    let exists = any::<bool>().prop_map(|exists| doc! { "$exists": exists });
    let prefix = "[ab]{0,1}".prop_map(|prefix| doc! { "$regex": format!("^{prefix}") });
    let simple = prop_oneof![6 => one, 4 => two, 3 => set, 1 => exists, 1 => prefix].boxed();
    let element = (simple.clone(), simple.clone())
        .prop_map(|(x, y)| doc! { "$elemMatch": { "x": x, "y": y } });
    let element_value = (0..4_i32, 0..4_i32)
        .prop_map(|(low, high)| doc! { "$elemMatch": { "$gte": low, "$lte": high } });
    prop_oneof![6 => simple, 2 => element, 1 => element_value]
        .prop_map(Bson::Document)
        .boxed()
}

fn filter() -> impl Strategy<Value = Document> {
    let field = (prop::sample::select(PATHS.to_vec()), condition())
        .prop_map(|(path, condition)| doc! { path: condition });
    // Two fields of the documents in one array, where elements could be mixed up.
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
        let keys = paths.into_iter().zip(signs).map(|(path, up)| {
            let direction = if up {
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

/// A total order, so that there is one right answer.
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
    // A range of what is sorted by, where an array has elements outside of it.
    let sorted_range = (condition(), sort()).prop_map(|(condition, sort)| {
        let path = sort.keys().next().cloned().unwrap_or_default();
        (doc! { path: condition }, Some(sort))
    });
    prop_oneof![4 => (filter(), prop::option::of(sort())), 1 => sorted_range]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn indexes_change_no_answer(
        documents in prop::collection::vec(document(), 5..20),
        indexes in prop::collection::vec(any_index(), 1..4),
        filters in prop::collection::vec(query(), 10..20),
    ) {
        let plain = Database::memory();
        let other = Database::memory();
        let mut created = Vec::new();
        for index in indexes {
            if other.create_indexes("c", std::slice::from_ref(&index)).is_ok() {
                created.push(index);
            }
        }
        for (id, mut document) in documents.into_iter().enumerate() {
            document.insert("_id", id as i32);
            let document = RawDocumentBuf::try_from(&document).unwrap();
            // A document that an index refuses is in neither.
            if other.insert("c", vec![document.clone()]).unwrap().all().is_ok() {
                plain.insert("c", vec![document]).unwrap().all().unwrap();
            }
        }
        for (filter, sort) in filters {
            let query = Find {
                filter: RawDocumentBuf::try_from(&filter).unwrap(),
                sort: sort.as_ref().map(|sort| RawDocumentBuf::try_from(sort).unwrap()),
                ..Find::default()
            };
            let ids = |database: &Database| -> Result<Vec<i32>, String> {
                let found = database.find("c", &query).map_err(|error| error.to_string())?;
                Ok(found.map(|document| document.unwrap().get_i32("_id").unwrap()).collect())
            };
            // Parallel arrays cannot be sorted by in memory; an index may know that there are none.
            let (Ok(mut expected), Ok(mut found)) = (ids(&plain), ids(&other)) else { continue };
            if sort.is_none() {
                expected.sort_unstable();
                found.sort_unstable();
            }
            prop_assert_eq!(found, expected, "{:?} {:?} {:?}", query, created, other.explain("c", &query));
        }
    }
}
