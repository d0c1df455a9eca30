use bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use odm_engine::{Count, Database, Direction, Find, Index, Update};

fn database(indexes: &[Index], documents: impl IntoIterator<Item = Document>) -> Database {
    let database = Database::memory();
    database.create_indexes("c", indexes).unwrap();
    let documents = documents
        .into_iter()
        .map(|document| RawDocumentBuf::try_from(&document).unwrap())
        .collect();
    database
        .insert("c", documents)
        .unwrap()
        .into_result()
        .unwrap();
    database
}

fn index(paths: &[&str]) -> Index {
    Index::new(paths.iter().map(|path| (*path, Direction::Ascending)))
}

fn query(filter: RawDocumentBuf, projection: RawDocumentBuf) -> Find {
    Find {
        filter,
        projection: Some(projection),
        ..Find::default()
    }
}

fn found(database: &Database, find: &Find) -> Vec<RawDocumentBuf> {
    database
        .find("c", find)
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

#[test]
fn an_index_with_all_requested_fields_covers_a_query() {
    let documents = (0..50).map(|n| doc! { "_id": n, "a": n % 5, "b": format!("{n}"), "c": n });
    let database = database(&[index(&["a", "b"])], documents);
    let covered = query(
        rawdoc! { "a": 3, "b": { "$ne": "8" } },
        rawdoc! { "b": 1, "_id": 0 },
    );
    let explain = database.explain("c", &covered).unwrap();
    assert!(explain.covered);
    assert_eq!(explain.bounds, ["a: [3, 3]", "b: [MinKey, MaxKey]"]);
    assert_eq!(
        (
            explain.keys_examined,
            explain.documents_examined,
            explain.returned
        ),
        (10, 0, 9)
    );
    assert_eq!(found(&database, &covered)[0], rawdoc! { "b": "13" });
    for wider in [
        query(rawdoc! { "a": 3 }, rawdoc! { "b": 1 }),
        query(rawdoc! { "a": 3 }, rawdoc! { "b": 1, "c": 1, "_id": 0 }),
        query(
            rawdoc! { "a": 3, "c": { "$gt": 1 } },
            rawdoc! { "b": 1, "_id": 0 },
        ),
        query(rawdoc! { "a": 3 }, rawdoc! { "c": 0 }),
    ] {
        let explain = database.explain("c", &wider).unwrap();
        assert!(
            !explain.covered && explain.documents_examined > 0,
            "{wider:?}"
        );
    }
}

#[test]
fn the_id_is_covered_by_its_own_index() {
    let database = database(&[], (0..10).map(|n| doc! { "_id": n, "a": n }));
    let ids = query(
        rawdoc! { "_id": { "$gte": 4, "$lt": 6 } },
        rawdoc! { "_id": 1 },
    );
    let explain = database.explain("c", &ids).unwrap();
    assert_eq!((explain.covered, explain.documents_examined), (true, 0));
    assert_eq!(explain.bounds, ["_id: [4, 6)"]);
    assert_eq!(
        found(&database, &ids),
        [rawdoc! { "_id": 4 }, rawdoc! { "_id": 5 }]
    );
    let by_id = query(rawdoc! { "_id": 4 }, rawdoc! { "_id": 1 });
    assert!(database.explain("c", &by_id).unwrap().covered);
    assert_eq!(found(&database, &by_id), [rawdoc! { "_id": 4 }]);
}

#[test]
fn a_covering_index_returns_the_stored_values() {
    let documents = [
        doc! { "_id": 0, "a": 1, "b": 1.0 },
        doc! { "_id": 1, "a": 1_i64, "b": Bson::Null },
        doc! { "_id": 2, "a": 1.0 },
        doc! { "_id": 3, "b": 2, "a": 1 },
        doc! { "_id": 4, "a": Bson::Decimal128("1.00".parse().unwrap()), "b": -0.0 },
        doc! { "_id": 5, "a": 1, "b": Bson::Symbol("s".into()) },
        doc! { "_id": 6, "a": 1, "b": { "x": [1, 2_i64], "y": Bson::Null } },
    ];
    let database = database(&[index(&["a", "b"])], documents.clone());
    let covered = query(rawdoc! { "a": 1 }, rawdoc! { "a": 1, "b": 1, "_id": 0 });
    assert!(database.explain("c", &covered).unwrap().covered);
    let expected: Vec<_> = documents
        .into_iter()
        .map(|mut document| {
            document.remove("_id");
            RawDocumentBuf::try_from(&document).unwrap()
        })
        .collect();
    let mut results = found(&database, &covered);
    for document in &expected {
        let place = results
            .iter()
            .position(|other| other.as_bytes() == document.as_bytes());
        results.remove(place.unwrap_or_else(|| panic!("{document:?} is not among {results:?}")));
    }
    assert!(results.is_empty());
    // A missing field is different from null.
    let missing = query(
        rawdoc! { "b": { "$exists": false }, "a": 1 },
        rawdoc! { "b": 1, "_id": 0 },
    );
    assert!(database.explain("c", &missing).unwrap().covered);
    assert_eq!(found(&database, &missing), [rawdoc! {}]);
}

#[test]
fn a_change_of_only_the_type_is_stored() {
    let database = database(&[index(&["a"])], [doc! { "_id": 1, "a": 1 }]);
    let covered = query(rawdoc! { "a": 1 }, rawdoc! { "a": 1, "_id": 0 });
    let update = Update {
        update: rawdoc! { "$set": { "a": 1.0 } },
        ..Update::default()
    };
    assert_eq!(database.update("c", &update).unwrap().modified, 1);
    assert!(database.explain("c", &covered).unwrap().covered);
    assert_eq!(found(&database, &covered), [rawdoc! { "a": 1.0 }]);
}

#[test]
fn a_change_of_only_the_order_of_fields_is_stored() {
    let database = database(&[index(&["a", "b"])], [doc! { "_id": 1, "a": 1, "b": 2 }]);
    let covered = query(rawdoc! { "a": 1 }, rawdoc! { "a": 1, "b": 1, "_id": 0 });
    let update = Update {
        update: rawdoc! { "b": 2, "a": 1 },
        ..Update::default()
    };
    assert_eq!(database.update("c", &update).unwrap().modified, 1);
    assert!(database.explain("c", &covered).unwrap().covered);
    assert_eq!(found(&database, &covered), [rawdoc! { "b": 2, "a": 1 }]);
}

#[test]
fn an_index_of_arrays_covers_nothing() {
    let database = database(
        &[index(&["a"])],
        [doc! { "_id": 1, "a": 1 }, doc! { "_id": 2, "a": [1, 2] }],
    );
    let query = query(rawdoc! { "a": 1 }, rawdoc! { "a": 1, "_id": 0 });
    assert!(!database.explain("c", &query).unwrap().covered);
    assert_eq!(
        found(&database, &query),
        [rawdoc! { "a": 1 }, rawdoc! { "a": [1, 2] }]
    );
}

#[test]
fn counts_and_distinct_values_are_covered() {
    let database = database(
        &[index(&["a", "b"])],
        (0..20).map(|n| doc! { "_id": n, "a": n % 2, "b": n % 3 }),
    );
    assert_eq!(
        database
            .count(
                "c",
                &Count {
                    filter: rawdoc! { "a": 1, "b": { "$ne": 0 } },
                    ..Count::default()
                }
            )
            .unwrap(),
        7
    );
    let values = database.distinct("c", "b", &rawdoc! { "a": 1 }).unwrap();
    assert_eq!(values.len(), 3);
}
