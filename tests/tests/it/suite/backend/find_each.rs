use bson::{RawBson, RawDocumentBuf, rawdoc};
use odm::backend::{
    Backend,
    operation::{Direction, FindEach, Index},
    read_to_end,
};

use super::{TEST_COLLECTION, insert};
use crate::Fixture;

fn find_each(path: &str, keys: impl IntoIterator<Item = impl Into<RawBson>>) -> FindEach {
    FindEach {
        collection: TEST_COLLECTION.into(),
        path: path.to_owned(),
        keys: keys.into_iter().map(Into::into).collect(),
        filter: RawDocumentBuf::new(),
        projection: None,
        sort: None,
        limit: None,
        options: Default::default(),
    }
}

/// Returns the position of the key and the `_id` of each document, in the order of the keys. Documents of a key keep the order of
/// the cursor.
async fn key_and_id_pairs(db: &dyn Backend, find: FindEach) -> Vec<(i32, i32)> {
    let documents = read_to_end(db.find_each(find).await.expect("a read"))
        .await
        .expect("its documents");
    let pair = |document: &RawDocumentBuf| {
        let names: Vec<_> = document
            .iter()
            .map(|field| field.unwrap().0.to_string())
            .collect();
        assert_eq!(names, ["key", "document"]);
        let inner = document.get_document("document").unwrap();
        (
            document.get_i32("key").unwrap(),
            inner.get_i32("_id").unwrap(),
        )
    };
    let mut pairs: Vec<_> = documents.iter().map(pair).collect();
    pairs.sort_by_key(|(key, _)| *key);
    pairs
}

pub async fn a_filter_narrows_every_key(db: Fixture) {
    let db = db.backend();
    let documents = (0..6).map(|i| rawdoc! { "_id": i, "host": i % 2, "open": i < 3 });
    db.insert(insert(documents)).await.unwrap();
    let find = FindEach {
        filter: rawdoc! { "open": true },
        sort: Some(rawdoc! { "_id": 1 }),
        ..find_each("host", [0, 1])
    };
    assert_eq!(key_and_id_pairs(&*db, find).await, [(0, 0), (0, 2), (1, 1)]);
}

pub async fn a_key_with_a_dollar_is_a_value(db: Fixture) {
    let db = db.backend();
    db.insert(insert([
        rawdoc! { "_id": 1, "host": "$key" },
        rawdoc! { "_id": 2, "host": { "$gt": 0 } },
        rawdoc! { "_id": 3, "host": "other" },
    ]))
    .await
    .unwrap();
    assert_eq!(
        key_and_id_pairs(&*db, find_each("host", ["$key"])).await,
        [(0, 1)]
    );
    assert_eq!(
        key_and_id_pairs(&*db, find_each("host", [rawdoc! { "$gt": 0 }])).await,
        [(0, 2)]
    );
}

pub async fn arrays_match_by_element(db: Fixture) {
    let db = db.backend();
    db.insert(insert([
        rawdoc! { "_id": 1, "parts": ["a", "b"] },
        rawdoc! { "_id": 2, "parts": ["b", "b"] },
        rawdoc! { "_id": 3, "parts": [] },
        rawdoc! { "_id": 4 },
        rawdoc! { "_id": 5, "in": [{ "part": "a" }, { "part": "c" }] },
    ]))
    .await
    .unwrap();
    let sort = Some(rawdoc! { "_id": 1 });
    let find = FindEach {
        sort: sort.clone(),
        ..find_each("parts", ["b", "a", "x"])
    };
    assert_eq!(key_and_id_pairs(&*db, find).await, [(0, 1), (0, 2), (1, 1)]);
    let find = FindEach {
        sort,
        ..find_each("in.part", ["c", "a"])
    };
    assert_eq!(key_and_id_pairs(&*db, find).await, [(0, 5), (1, 5)]);
}

pub async fn keys_match_across_number_types(db: Fixture) {
    let db = db.backend();
    db.insert(insert([
        rawdoc! { "_id": 1, "host": 7_i64 },
        rawdoc! { "_id": 2, "host": 7.0 },
    ]))
    .await
    .unwrap();
    let find = FindEach {
        sort: Some(rawdoc! { "_id": 1 }),
        ..find_each("host", [7])
    };
    assert_eq!(key_and_id_pairs(&*db, find).await, [(0, 1), (0, 2)]);
}

pub async fn results_can_exceed_a_batch(db: Fixture) {
    let db = db.backend();
    db.insert(insert(
        (0..2_000).map(|i| rawdoc! { "_id": i, "host": i % 7 }),
    ))
    .await
    .unwrap();
    let find = FindEach {
        sort: Some(rawdoc! { "_id": -1 }),
        ..find_each("host", 0..7)
    };
    let pairs = key_and_id_pairs(&*db, find).await;
    assert_eq!(pairs.len(), 2_000);
    assert!(pairs.is_sorted_by(|a, b| a.0 < b.0 || (a.0 == b.0 && a.1 > b.1)));
}

pub async fn no_keys_find_nothing(db: Fixture) {
    let db = db.backend();
    db.insert(insert([rawdoc! { "_id": 1, "host": 1 }]))
        .await
        .unwrap();
    assert!(
        key_and_id_pairs(&*db, find_each("host", [0_i32; 0]))
            .await
            .is_empty()
    );
    assert!(
        key_and_id_pairs(&*db, find_each("host", [2]))
            .await
            .is_empty()
    );
    let find = FindEach {
        limit: Some(0),
        ..find_each("host", [1])
    };
    assert!(key_and_id_pairs(&*db, find).await.is_empty());
}

pub async fn sort_and_limit_are_per_key(db: Fixture) {
    let db = db.backend();
    let keys = vec![
        ("host".to_owned(), Direction::Ascending),
        ("time".to_owned(), Direction::Descending),
    ];
    let documents = (0..60).map(|i| rawdoc! { "_id": i, "host": i % 3, "time": i });
    db.insert(insert(documents)).await.unwrap();
    for indexed in [false, true] {
        if indexed {
            db.create_indexes(TEST_COLLECTION, vec![Index::new(keys.clone())])
                .await
                .unwrap();
        }
        let find = FindEach {
            sort: Some(rawdoc! { "time": -1 }),
            limit: Some(2),
            ..find_each("host", [2, 0])
        };
        assert_eq!(
            key_and_id_pairs(&*db, find).await,
            [(0, 59), (0, 56), (1, 57), (1, 54)]
        );
    }
}
