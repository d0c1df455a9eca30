use std::collections::BTreeSet;

use bson::{RawBson, RawDocumentBuf, rawdoc};
use odm::backend::{Executor, operation::Distinct};

use super::{THINGS, insert};
use crate::Fixture;

async fn distinct(
    db: &(impl Executor + ?Sized),
    path: &str,
    filter: RawDocumentBuf,
) -> BTreeSet<String> {
    let distinct = Distinct {
        collection: THINGS.into(),
        path: path.to_owned(),
        filter,
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

pub async fn elements_of_arrays_count(db: Fixture) {
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

pub async fn nothing_has_no_values(db: Fixture) {
    let db = db.backend();
    assert!(distinct(&*db, "a", rawdoc! {}).await.is_empty());
    db.insert(insert([rawdoc! { "_id": 1 }])).await.unwrap();
    assert!(distinct(&*db, "a", rawdoc! {}).await.is_empty());
}

pub async fn numbers_are_one_across_types(db: Fixture) {
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
