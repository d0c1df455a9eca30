use std::collections::BTreeSet;

use bson::{RawBson, RawDocumentBuf, rawdoc};
use odm::backend::{Executor, operation::DistinctOperation};

use super::{TEST_COLLECTION, insert};
use crate::Fixture;

async fn distinct(
    db: &(impl Executor + ?Sized),
    path: &str,
    filter: RawDocumentBuf,
) -> BTreeSet<String> {
    let distinct = DistinctOperation {
        collection: TEST_COLLECTION.into(),
        path: path.to_owned(),
        filter,
        options: Default::default(),
    };
    let values = db.distinct(distinct).await.expect("distinct values");
    let (all, values): (_, BTreeSet<_>) = (
        values.len(),
        values
            .into_iter()
            .map(|value| match value {
                RawBson::Int32(number) => number.to_string(),
                RawBson::String(text) => text,
                other => format!("{other:?}"),
            })
            .collect(),
    );
    assert_eq!(all, values.len(), "each value is there once");
    values
}

fn set(values: &[&str]) -> BTreeSet<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

pub async fn each_value_once(db: Fixture) {
    let db = db.backend();
    let documents = (0..10).map(|id| rawdoc! { "_id": id, "a": { "b": id % 3 } });
    db.insert(insert(documents)).await.unwrap();
    assert_eq!(
        distinct(&*db, "a.b", rawdoc! {}).await,
        set(&["0", "1", "2"])
    );
    assert_eq!(
        distinct(&*db, "a.b", rawdoc! { "_id": { "$lt": 2 } }).await,
        set(&["0", "1"])
    );
}

pub async fn distinct_includes_array_elements(db: Fixture) {
    let db = db.backend();
    db.insert(insert([
        rawdoc! { "_id": 1, "tags": ["x", "y", "x"] },
        rawdoc! { "_id": 2, "tags": "z" },
        rawdoc! { "_id": 3 },
    ]))
    .await
    .unwrap();
    assert_eq!(
        distinct(&*db, "tags", rawdoc! {}).await,
        set(&["x", "y", "z"])
    );
}

pub async fn an_empty_collection_has_no_values(db: Fixture) {
    let db = db.backend();
    assert!(distinct(&*db, "a", rawdoc! {}).await.is_empty());
    db.insert(insert([rawdoc! { "_id": 1 }])).await.unwrap();
    assert!(distinct(&*db, "a", rawdoc! {}).await.is_empty());
}

pub async fn equal_numbers_of_different_types_merge(db: Fixture) {
    let db = db.backend();
    db.insert(insert([
        rawdoc! { "_id": 1, "a": 1 },
        rawdoc! { "_id": 2, "a": 1.0 },
        rawdoc! { "_id": 3, "a": 1_i64 },
    ]))
    .await
    .unwrap();
    assert_eq!(distinct(&*db, "a", rawdoc! {}).await.len(), 1);
}

pub async fn a_transaction_sees_its_own_writes(db: Fixture) {
    let db = db.backend();
    if !db.capabilities().transactions {
        return;
    }
    db.insert(insert([rawdoc! { "_id": 1, "a": "x" }]))
        .await
        .unwrap();
    let tx = db.begin().await.unwrap();
    tx.insert(insert([rawdoc! { "_id": 2, "a": "y" }]))
        .await
        .unwrap();
    assert_eq!(distinct(&*tx, "a", rawdoc! {}).await, set(&["x", "y"]));
    assert_eq!(distinct(&*db, "a", rawdoc! {}).await, set(&["x"]));
}

/// The `distinct` command of MongoDB returns at most 16 MB. The backend reads more values with a pipeline, with the same result.
pub async fn more_values_than_fit_in_a_reply(db: Fixture) {
    let db = db.backend();
    let long = |n: i32| format!("{n:05}{}", "x".repeat(20_000));
    let documents = (0..1_000).map(|id| {
        let values =
            bson::bson!([{ "b": long(id) }, { "b": [long(id + 1), id % 3] }, { "c": 1 }, "none"]);
        rawdoc! { "_id": id, "a": RawBson::try_from(values).expect("values") }
    });
    db.insert(insert(documents)).await.unwrap();
    db.insert(insert([
        rawdoc! { "_id": 5_000, "a": { "b": RawBson::Null } },
        rawdoc! { "_id": 5_001, "a": { "b": [] } },
        rawdoc! { "_id": 5_002, "a": "none" },
        rawdoc! { "_id": 5_003 },
        // A path does not enter an array in an array. At the end of the path, the inner array is a value.
        rawdoc! { "_id": 5_004, "a": [[{ "b": "hidden" }]] },
        rawdoc! { "_id": 5_005, "a": { "b": [["inner"]] } },
        rawdoc! { "_id": 5_006, "a": { "b": 1.0 } },
    ]))
    .await
    .unwrap();
    let values = distinct(&*db, "a.b", rawdoc! {}).await;
    let mut expected: BTreeSet<_> = (0..=1_000).map(long).collect();
    expected.extend(["0", "1", "2"].map(str::to_owned));
    let others: Vec<_> = values.difference(&expected).cloned().collect();
    assert_eq!(others.len(), 2, "{others:?}");
    assert!(others.iter().any(|value| value == "Null"), "{others:?}");
    assert!(
        others.iter().any(|value| value.starts_with("Array")),
        "{others:?}"
    );
    assert!(expected.is_subset(&values));
    let few = distinct(&*db, "a.b", rawdoc! { "_id": { "$lt": 900 } }).await;
    assert_eq!(few.len(), 901 + 3);

    if !db.capabilities().transactions {
        return;
    }
    // A failed command ends a MongoDB transaction, so the backend cannot fall back to the pipeline.
    let tx = db.begin().await.unwrap();
    let all = DistinctOperation {
        collection: TEST_COLLECTION.into(),
        path: "a.b".to_owned(),
        filter: rawdoc! {},
        options: Default::default(),
    };
    match tx.distinct(all).await {
        Ok(values) => assert_eq!(values.len(), 1_001 + 3 + 2),
        Err(error) => assert!(
            error.is_unsupported() && error.to_string().contains("16 MB"),
            "{error}"
        ),
    }
    tx.abort().await;
}
