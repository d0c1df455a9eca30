//! Operations with a collation.

use bson::{RawArrayBuf, RawBson, RawDocumentBuf, rawbson, rawdoc};
use odm_engine::{
    Aggregate, Collation, Count, Database, Delete, Direction, Distinct, ExplainStage, Find,
    FindAndModify, Index, Modification, Update,
};
use proptest::prelude::*;

use crate::all;

fn collation(specification: RawDocumentBuf) -> Option<Collation> {
    Collation::from_document(&specification).unwrap()
}

/// A collation that ignores case, but not accents.
fn caseless() -> Option<Collation> {
    collation(rawdoc! { "locale": "en", "strength": 2 })
}

fn ascending(path: &str) -> Index {
    Index::new([(path, Direction::Ascending)])
}

fn insert(database: &Database, collection: &str, documents: Vec<RawDocumentBuf>) {
    let report = database.insert(collection, documents).unwrap();
    report.into_result().unwrap();
}

fn ids(database: &Database, find: &Find) -> Vec<i32> {
    let found = database.find("c", find).unwrap();
    found
        .map(|document| document.unwrap().get_i32("_id").unwrap())
        .collect()
}

/// A database with texts in upper and lower case.
fn texts(indexes: &[Index]) -> Database {
    let database = Database::memory();
    if !indexes.is_empty() {
        database.create_indexes("c", indexes).unwrap();
    }
    let texts = ["b", "A", "a", "B", "c", "á"];
    let texts = texts.into_iter().zip(1..).map(|(text, id)| {
        rawdoc! { "_id": id, "a": text, "n": id, "list": [text, id], "inner": { "a": text } }
    });
    insert(&database, "c", texts.collect());
    database
}

fn by(filter: RawDocumentBuf) -> Find {
    Find {
        filter,
        sort: Some(rawdoc! { "_id": 1 }),
        collation: caseless(),
        ..Find::default()
    }
}

#[test]
fn a_filter_compares_strings_by_the_collation() {
    let database = texts(&[]);
    for (filter, expected) in [
        (rawdoc! { "a": "a" }, vec![2, 3]),
        (rawdoc! { "a": { "$ne": "a" } }, vec![1, 4, 5, 6]),
        (rawdoc! { "a": { "$gt": "a", "$lt": "c" } }, vec![1, 4, 6]),
        (rawdoc! { "a": { "$gte": "C" } }, vec![5]),
        (rawdoc! { "a": { "$in": ["A", "C", 7] } }, vec![2, 3, 5]),
        (rawdoc! { "a": { "$nin": ["A", "C"] } }, vec![1, 4, 6]),
        (rawdoc! { "list": "A" }, vec![2, 3]),
        (rawdoc! { "list": { "$all": ["A", 3] } }, vec![3]),
        (
            rawdoc! { "list": { "$elemMatch": { "$eq": "B" } } },
            vec![1, 4],
        ),
        (rawdoc! { "list": ["B", 1] }, vec![1]),
        (rawdoc! { "inner": { "a": "A" } }, vec![2, 3]),
        (rawdoc! { "inner": { "A": "a" } }, vec![]),
        (rawdoc! { "a": { "$not": { "$lte": "B" } } }, vec![5]),
        (
            rawdoc! { "$or": [{ "a": "C" }, { "a": "B" }] },
            vec![1, 4, 5],
        ),
        (rawdoc! { "$expr": { "$eq": ["$a", "A"] } }, vec![2, 3]),
        (
            rawdoc! { "$expr": { "$in": ["$a", ["A", "C"]] } },
            vec![2, 3, 5],
        ),
        // A pattern compares byte by byte.
        (rawdoc! { "a": { "$regex": "^a" } }, vec![3]),
        (rawdoc! { "n": { "$gt": 4 } }, vec![5, 6]),
    ] {
        assert_eq!(ids(&database, &by(filter.clone())), expected, "{filter:?}");
        let count = Count {
            filter: filter.clone(),
            collation: caseless(),
            ..Count::default()
        };
        let counted = database.count("c", &count).unwrap();
        assert_eq!(counted, expected.len() as u64, "{filter:?}");
    }
}

#[test]
fn an_id_matches_by_the_collation() {
    let database = Database::memory();
    let texts = ["x", "X", "y"].map(|id| rawdoc! { "_id": id, "n": 1 });
    insert(&database, "c", texts.to_vec());
    let find = Find {
        filter: rawdoc! { "_id": "X" },
        sort: Some(rawdoc! { "_id": -1 }),
        collation: caseless(),
        ..Find::default()
    };
    let found = database.find("c", &find).unwrap();
    assert_eq!(found.count(), 2);
    let simple = Find {
        collation: None,
        ..find
    };
    assert_eq!(database.find("c", &simple).unwrap().count(), 1);
}

#[test]
fn sorts_groups_and_distinct_values_follow_the_collation() {
    let database = texts(&[]);
    let sorted = Find {
        sort: Some(rawdoc! { "a": 1, "_id": 1 }),
        collation: caseless(),
        ..Find::default()
    };
    assert_eq!(ids(&database, &sorted), [2, 3, 6, 1, 4, 5]);
    let distinct = Distinct {
        path: "a".into(),
        collation: caseless(),
        ..Distinct::default()
    };
    let distinct = database.distinct_values("c", &distinct).unwrap();
    let expected: [RawBson; 4] = ["A".into(), "á".into(), "b".into(), "c".into()];
    assert_eq!(distinct, expected);
    let aggregate = |pipeline: Vec<RawDocumentBuf>| {
        let aggregate = Aggregate {
            pipeline,
            collation: caseless(),
            ..Aggregate::default()
        };
        let documents = database.aggregate("c", &aggregate).unwrap();
        documents.collect::<Result<Vec<_>, _>>().unwrap()
    };
    let by_letter = rawdoc! { "$group": {
        "_id": "$a", "n": { "$sum": 1 }, "set": { "$addToSet": "$a" }, "max": { "$max": "$inner.a" },
    } };
    assert_eq!(
        aggregate(vec![
            by_letter,
            rawdoc! { "$sort": { "_id": 1 } },
            rawdoc! { "$limit": 1 }
        ]),
        [rawdoc! { "_id": "A", "n": 2_i32, "set": ["A"], "max": "A" }]
    );
    let sets = rawdoc! { "$project": {
        "union": { "$size": { "$setUnion": [["a", "b"], ["A", "$a"]] } },
        "common": { "$setIntersection": [["c"], ["C", "$a"]] },
        "same": { "$setEquals": [["X"], ["x", "X"]] },
        "order": { "$cmp": ["$a", "A"] },
        "at": { "$indexOfArray": ["$list", "A"] },
        "sorted": { "$sortArray": { "input": ["b", "A", "a", "B"], "sortBy": 1 } },
        // The comparison of code points has no collation.
        "codes": { "$strcasecmp": ["á", "a"] },
    } };
    assert_eq!(
        aggregate(vec![rawdoc! { "$match": { "_id": 3 } }, sets]),
        [rawdoc! {
            "_id": 3, "union": 2, "common": ["c"], "same": true, "order": 0, "at": 0,
            "sorted": ["A", "a", "b", "B"], "codes": 1,
        }]
    );
    let joined = rawdoc! { "$lookup": { "from": "c", "localField": "a", "foreignField": "inner.a", "as": "same" } };
    let sizes = rawdoc! { "$project": { "n": { "$size": "$same" } } };
    let joined = aggregate(vec![joined, sizes, rawdoc! { "$sort": { "_id": 1 } }]);
    let sizes: Vec<_> = joined
        .iter()
        .map(|joined| joined.get_i32("n").unwrap())
        .collect();
    assert_eq!(sizes, [2, 2, 2, 2, 1, 1]);
}

#[test]
fn writes_match_and_compare_by_the_collation() {
    let database = texts(&[ascending("a")]);
    let update = |update: RawDocumentBuf| Update {
        filter: rawdoc! { "_id": 1 },
        update,
        collation: caseless(),
        ..Update::default()
    };
    for (change, expected) in [
        (
            rawdoc! { "$addToSet": { "list": { "$each": ["B", "x", "X"] } } },
            rawbson!(["b", 1, "x"]),
        ),
        (
            rawdoc! { "$push": { "list": { "$each": ["a", "C"], "$sort": 1 } } },
            rawbson!([1, "a", "b", "C", "x"]),
        ),
        (
            rawdoc! { "$pull": { "list": "X" } },
            rawbson!([1, "a", "b", "C"]),
        ),
        (
            rawdoc! { "$pull": { "list": { "$gte": "c" } } },
            rawbson!([1, "a", "b"]),
        ),
        (
            rawdoc! { "$pullAll": { "list": ["A", 1] } },
            rawbson!(["b"]),
        ),
        (rawdoc! { "$min": { "list.0": "B" } }, rawbson!(["b"])),
        (rawdoc! { "$max": { "list.0": "BB" } }, rawbson!(["BB"])),
    ] {
        let report = database.update("c", &update(change.clone())).unwrap();
        assert_eq!(report.matched, 1);
        let document = &all(&database, "c")[0];
        assert_eq!(
            document.get("list").unwrap(),
            Some(expected.as_raw_bson_ref()),
            "{change:?}"
        );
    }
    let filtered = Update {
        array_filters: vec![rawdoc! { "e": "bb" }],
        ..update(rawdoc! { "$set": { "list.$[e]": "found" } })
    };
    assert_eq!(database.update("c", &filtered).unwrap().modified, 1);
    let pipeline = Update {
        pipeline: Some(vec![rawdoc! { "$set": { "is": { "$eq": ["$a", "B"] } } }]),
        ..update(RawDocumentBuf::new())
    };
    assert_eq!(database.update("c", &pipeline).unwrap().modified, 1);
    assert!(all(&database, "c")[0].get_bool("is").unwrap());

    let all_b = Update {
        filter: rawdoc! { "a": "B" },
        update: rawdoc! { "$set": { "b": true } },
        multi: true,
        collation: caseless(),
        ..Update::default()
    };
    assert_eq!(database.update("c", &all_b).unwrap().matched, 2);
    let taken = database
        .find_and_modify(
            "c",
            &FindAndModify {
                sort: Some(rawdoc! { "a": -1 }),
                collation: caseless(),
                ..FindAndModify::new(rawdoc! { "a": { "$lte": "C" } }, Modification::Delete)
            },
        )
        .unwrap();
    assert_eq!(taken.document.unwrap().get_i32("_id").unwrap(), 5);
    let upsert = Update {
        filter: rawdoc! { "a": { "$in": ["New"] }, "n": 9 },
        update: rawdoc! { "$set": { "b": 1 } },
        upsert: true,
        collation: caseless(),
        ..Update::default()
    };
    assert!(database.update("c", &upsert).unwrap().upserted_id.is_some());
    let again = Update {
        filter: rawdoc! { "a": "nEW" },
        ..upsert
    };
    let report = database.update("c", &again).unwrap();
    assert_eq!((report.matched, report.upserted_id), (1, None));
    let delete = Delete {
        filter: rawdoc! { "a": { "$in": ["A", "NEW"] } },
        multi: true,
        collation: caseless(),
        ..Delete::default()
    };
    assert_eq!(database.delete("c", &delete).unwrap().deleted, 3);
    database.validate().unwrap();
}

/// An index serves strings only for operations with the same collation.
#[test]
fn an_index_serves_its_own_collation() {
    let other = collation(rawdoc! { "locale": "en", "strength": 1 });
    let database = texts(&[
        ascending("a").named("simple"),
        ascending("a").collation(caseless()).named("caseless"),
        ascending("n").named("numbers"),
    ]);
    let explain =
        |filter: RawDocumentBuf, sort: Option<RawDocumentBuf>, collation: &Option<Collation>| {
            let find = Find {
                filter,
                sort,
                collation: collation.clone(),
                ..Find::default()
            };
            database.explain("c", &find).unwrap()
        };
    let is_a = || rawdoc! { "a": "a" };
    let by_a = || Some(rawdoc! { "a": 1 });
    for (filter, sort) in [
        (is_a(), None),
        (rawdoc! { "a": { "$gt": "a", "$lte": "B" } }, None),
        (rawdoc! { "a": { "$in": ["a", "B"] } }, by_a()),
        (rawdoc! {}, by_a()),
        (rawdoc! { "$or": [{ "a": "a" }, { "n": 4 }] }, None),
    ] {
        for (collation, index) in [(None, "simple"), (caseless(), "caseless")] {
            let explain = explain(filter.clone(), sort.clone(), &collation);
            assert!(
                explain.indexes.contains(&index.to_owned()),
                "{filter:?} {explain:?}"
            );
            assert!(
                explain
                    .indexes
                    .iter()
                    .all(|name| *name == index || name == "numbers")
            );
            assert!(explain.sorted_by_index, "{explain:?}");
        }
        let scan = explain(filter.clone(), sort.clone(), &other);
        assert_eq!(
            scan.stage,
            ExplainStage::CollectionScan,
            "{filter:?} {scan:?}"
        );
        assert_eq!(scan.sorted_by_index, sort.is_none());
    }
    // Numbers have no collation.
    let numbers = explain(rawdoc! { "n": { "$gt": 4 } }, None, &other);
    assert_eq!(numbers.indexes, ["numbers"]);
    let id = explain(rawdoc! { "_id": 3 }, None, &other);
    assert_eq!(id.keys_examined, 1);
    // An index on strings gives no order of an operation with a collation.
    let numbers = explain(rawdoc! {}, Some(rawdoc! { "n": 1 }), &other);
    assert!(!numbers.sorted_by_index);
    assert_eq!(explain(is_a(), None, &caseless()).keys_examined, 2);
}

fn value() -> impl Strategy<Value = RawBson> {
    let text = "[aAbBá]{0,2}";
    prop_oneof![
        6 => text.prop_map(RawBson::from),
        1 => (0..3).prop_map(RawBson::Int32),
        1 => Just(RawBson::Null),
        1 => prop::collection::vec(text, 0..3).prop_map(|texts| {
            RawBson::Array(texts.into_iter().collect::<RawArrayBuf>())
        }),
        1 => text.prop_map(|text| rawbson!({ "x": text })),
    ]
}

fn condition() -> impl Strategy<Value = RawDocumentBuf> {
    let comparison = |operator: &'static str| {
        value().prop_map(move |value| {
            let mut condition = RawDocumentBuf::new();
            let operator: &bson::raw::CStr = operator.try_into().unwrap();
            condition.append(operator, value);
            rawdoc! { "a": condition }
        })
    };
    let single = prop_oneof![
        comparison("$eq"),
        comparison("$gt"),
        comparison("$lte"),
        comparison("$ne"),
        prop::collection::vec(value(), 0..4).prop_map(|values| {
            rawdoc! { "a": { "$in": values.into_iter().collect::<RawArrayBuf>() } }
        }),
    ];
    prop::collection::vec(single, 1..3).prop_flat_map(|conditions| {
        let conditions: RawArrayBuf = conditions.into_iter().collect();
        prop_oneof![
            Just(rawdoc! { "$and": conditions.clone() }),
            Just(rawdoc! { "$or": conditions }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every index gives the same documents in the same order as no index.
    #[test]
    fn indexes_do_not_change_the_answer(values in prop::collection::vec(value(), 1..12), filter in condition(), descends in any::<bool>()) {
        let databases = [vec![], vec![
            ascending("a").named("simple"),
            ascending("a").collation(caseless()).named("caseless"),
            ascending("a").collation(collation(rawdoc! { "locale": "en" })).named("other"),
            Index::new([("$**", Direction::Ascending)]).collation(caseless()).named("wildcard"),
        ]].map(|indexes| {
            let database = Database::memory();
            if !indexes.is_empty() {
                database.create_indexes("c", &indexes).unwrap();
            }
            let documents = values.iter().zip(0..).map(|(value, id)| rawdoc! { "_id": id, "a": value.clone() });
            insert(&database, "c", documents.collect());
            database
        });
        let direction = if descends { -1 } else { 1 };
        for collation in [None, caseless(), collation(rawdoc! { "locale": "en", "strength": 1 })] {
            for hint in [None, Some("simple"), Some("caseless"), Some("other")] {
                let find = |hint: Option<&str>| Find {
                    filter: filter.clone(),
                    sort: Some(rawdoc! { "a": direction, "_id": 1 }),
                    collation: collation.clone(),
                    hint: hint.map(RawBson::from),
                    ..Find::default()
                };
                let expected = ids(&databases[0], &find(None));
                prop_assert_eq!(ids(&databases[1], &find(hint)), expected);
            }
        }
    }
}
