use bson::{RawBson, RawDocumentBuf, rawdoc};
use odm_engine::{Count, Database, Delete, Direction, ExplainStage, Find, Index, Update};

use crate::find;

fn database() -> Database {
    let database = Database::memory();
    let ascending = |path: &str| Index::new([(path, Direction::Ascending)]);
    let indexes = [
        ascending("a"),
        ascending("b").sparse(),
        ascending("c").partial(rawdoc! { "c": { "$gt": 5 } }),
    ];
    database.create_indexes("n", &indexes).unwrap();
    let documents = (0..10).map(|n| match n {
        0..4 => rawdoc! { "_id": n, "a": n % 3, "b": n, "c": n },
        _ => rawdoc! { "_id": n, "a": n % 3, "c": n },
    });
    database
        .insert("n", documents.collect())
        .unwrap()
        .into_result()
        .unwrap();
    database
}

fn hinted(filter: RawDocumentBuf, hint: impl Into<RawBson>) -> Find {
    Find {
        filter,
        hint: Some(hint.into()),
        ..Find::default()
    }
}

fn ids(database: &Database, find: &Find) -> Vec<i32> {
    let documents = database.find("n", find).unwrap();
    documents
        .map(|document| document.unwrap().get_i32("_id").unwrap())
        .collect()
}

#[test]
fn the_hinted_index_is_used() {
    let database = database();
    for hint in [
        RawBson::from("a_1"),
        rawdoc! { "a": 1 }.into(),
        rawdoc! { "a": 1.0 }.into(),
    ] {
        let find = hinted(rawdoc! { "_id": 4 }, hint);
        let explain = database.explain("n", &find).unwrap();
        assert_eq!(
            (explain.stage, explain.indexes.as_slice()),
            (ExplainStage::IndexScan, &["a_1".to_owned()][..])
        );
        assert_eq!(explain.keys_examined, 10);
        assert_eq!(ids(&database, &find), [4]);
    }
}

#[test]
fn natural_is_the_order_of_insertion() {
    let database = database();
    let backwards = hinted(rawdoc! { "a": 0 }, rawdoc! { "$natural": -1 });
    assert_eq!(
        database.explain("n", &backwards).unwrap().stage,
        ExplainStage::CollectionScan
    );
    assert_eq!(ids(&database, &backwards), [9, 6, 3, 0]);
    let sorted = Find {
        sort: Some(rawdoc! { "$natural": -1 }),
        limit: Some(2),
        ..Find::default()
    };
    assert_eq!(ids(&database, &sorted), [9, 8]);
    let mixed = Find {
        sort: Some(rawdoc! { "$natural": 1, "a": 1 }),
        ..Find::default()
    };
    assert_eq!(database.find("n", &mixed).unwrap_err().code(), Some(2));
}

#[test]
fn a_hinted_sparse_index_hides_unindexed_documents() {
    let database = database();
    let count = |hint: &str| {
        let count = Count {
            hint: Some(hint.into()),
            ..Count::default()
        };
        database.count("n", &count).unwrap()
    };
    assert_eq!((count("a_1"), count("b_1"), count("c_1")), (10, 4, 4));
}

#[test]
fn a_hint_without_an_index_is_rejected_everywhere() {
    let database = database();
    let hint = || Some(RawBson::from("nobody"));
    let find = Find {
        hint: hint(),
        ..Find::default()
    };
    let count = Count {
        hint: hint(),
        ..Count::default()
    };
    let update = Update {
        update: rawdoc! { "$set": { "x": 1 } },
        hint: hint(),
        ..Update::default()
    };
    let delete = Delete {
        hint: hint(),
        ..Delete::default()
    };
    assert_eq!(database.find("n", &find).unwrap_err().code(), Some(2));
    assert_eq!(database.count("n", &count).unwrap_err().code(), Some(2));
    assert_eq!(database.update("n", &update).unwrap_err().code(), Some(2));
    assert_eq!(database.delete("n", &delete).unwrap_err().code(), Some(2));
    let number = hinted(rawdoc! {}, 5);
    assert_eq!(database.find("n", &number).unwrap_err().code(), Some(9));
}

#[test]
fn writes_use_the_hinted_index() {
    let database = database();
    let update = Update {
        update: rawdoc! { "$set": { "seen": true } },
        multi: true,
        hint: Some("c_1".into()),
        ..Update::default()
    };
    assert_eq!(database.update("n", &update).unwrap().modified, 4);
    let delete = Delete {
        multi: true,
        hint: Some(rawdoc! { "b": 1 }.into()),
        ..Delete::default()
    };
    assert_eq!(database.delete("n", &delete).unwrap().deleted, 4);
    assert_eq!(find(&database, "n", rawdoc! { "seen": true }).len(), 4);
}

#[test]
fn a_hidden_index_is_maintained_but_not_used() {
    let database = Database::memory();
    let index = Index::new([("a", Direction::Ascending)]).unique().hidden();
    database.create_indexes("n", &[index]).unwrap();
    let documents = vec![rawdoc! { "_id": 1, "a": 1 }, rawdoc! { "_id": 2, "a": 2 }];
    database
        .insert("n", documents)
        .unwrap()
        .into_result()
        .unwrap();
    let hinted_a = Find {
        filter: rawdoc! { "a": 2 },
        ..Find::default()
    };
    let stage = || database.explain("n", &hinted_a).unwrap().stage;
    assert_eq!(stage(), ExplainStage::CollectionScan);
    let hint = hinted(rawdoc! {}, "a_1");
    assert_eq!(database.find("n", &hint).unwrap_err().code(), Some(2));
    let indexes = database.list_indexes("n").unwrap();
    assert!(indexes[1].hidden && indexes[1].to_document().get_bool("hidden").unwrap());
    let report = database
        .insert("n", vec![rawdoc! { "_id": 3, "a": 2 }])
        .unwrap();
    assert!(report.failures[0].error.is_duplicate_key());

    database.set_index_hidden("n", "a_1", false).unwrap();
    assert_eq!(stage(), ExplainStage::IndexScan);
    assert_eq!(ids(&database, &hinted_a), [2]);
    assert!(!database.list_indexes("n").unwrap()[1].hidden);
    database.set_index_hidden("n", "a_1", true).unwrap();
    assert_eq!(stage(), ExplainStage::CollectionScan);
    let rejection = |name: &str| {
        database
            .set_index_hidden("n", name, true)
            .unwrap_err()
            .code()
    };
    assert_eq!((rejection("_id_"), rejection("b_1")), (Some(2), Some(27)));
}

#[test]
fn collection_scans_can_be_rejected() {
    let database = database();
    database.set_notablescan(true);
    let find_by = |filter: RawDocumentBuf| Find {
        filter,
        ..Find::default()
    };
    let rejection = database
        .find("n", &find_by(rawdoc! { "x": 1, "y": { "$gt": 2 } }))
        .unwrap_err();
    assert_eq!(rejection.code(), Some(291));
    assert!(
        rejection.message().contains("{ x: 1, y: 1 }"),
        "{rejection}"
    );
    let sorted = Find {
        sort: Some(rawdoc! { "when": -1 }),
        ..find_by(rawdoc! { "y": { "$gt": 2 }, "x": 1 })
    };
    let rejection = database.find("n", &sorted).unwrap_err();
    assert!(
        rejection.message().contains("{ x: 1, when: -1, y: 1 }"),
        "{rejection}"
    );
    let code = |result: odm_engine::Result<()>| result.unwrap_err().code();
    let update = Update {
        filter: rawdoc! { "x": 1 },
        update: rawdoc! { "$set": { "x": 2 } },
        ..Update::default()
    };
    let delete = Delete::default();
    assert_eq!(code(database.update("n", &update).map(|_| ())), Some(291));
    assert_eq!(code(database.delete("n", &delete).map(|_| ())), Some(291));
    assert_eq!(
        code(
            database
                .count(
                    "n",
                    &Count {
                        filter: rawdoc! { "x": 1 },
                        ..Count::default()
                    }
                )
                .map(|_| ())
        ),
        Some(291)
    );
    assert_eq!(
        code(database.find("n", &find_by(rawdoc! {})).map(|_| ())),
        Some(291)
    );
    let natural = hinted(rawdoc! { "a": 1 }, rawdoc! { "$natural": 1 });
    assert_eq!(code(database.find("n", &natural).map(|_| ())), Some(291));

    // Operations with an index still work, and a count of all documents needs no index.
    assert_eq!(find(&database, "n", rawdoc! { "a": 1 }).len(), 3);
    assert_eq!(
        database
            .count(
                "n",
                &Count {
                    filter: rawdoc! {},
                    ..Count::default()
                }
            )
            .unwrap(),
        10
    );
    assert_eq!(find(&database, "none", rawdoc! {}).len(), 0);
    database.set_notablescan(false);
    assert_eq!(find(&database, "n", rawdoc! { "c": 1 }).len(), 1);
}
