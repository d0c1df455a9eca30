use bson::{RawBson, RawDocumentBuf, bson, doc, rawdoc};
use odm::{
    ErrorKind,
    backend::operation::{Direction, DocumentChange, Index, UpdateOperation, UpdateResult},
};

use super::{TEST_COLLECTION, find_sorted, insert, unique, update};
use crate::Fixture;

fn updated_counts(matched: u64, modified: u64) -> UpdateResult {
    UpdateResult {
        matched,
        modified,
        upserted_id: None,
    }
}

fn replace(filter: RawDocumentBuf, replacement: RawDocumentBuf) -> UpdateOperation {
    UpdateOperation {
        change: DocumentChange::Replacement(replacement),
        ..update(filter, rawdoc! {})
    }
}

pub async fn a_duplicate_key_is_named(db: Fixture) {
    let db = db.backend();
    let index = Index::new(vec![("email".to_owned(), Direction::Ascending)]);
    db.create_indexes(TEST_COLLECTION, vec![unique(index)])
        .await
        .unwrap();
    db.insert(insert([
        rawdoc! { "_id": 1, "email": "a" },
        rawdoc! { "_id": 2, "email": "b" },
    ]))
    .await
    .unwrap();
    let same = update(rawdoc! { "_id": 2 }, rawdoc! { "$set": { "email": "a" } });
    let error = db.update(same).await.unwrap_err();
    assert!(error.is_duplicate_key());
    assert_eq!(error.index(), Some("email_1"));
    assert_eq!(error.value(), Some(&bson!({ "email": "a" })));
    assert_eq!(error.collection(), Some(TEST_COLLECTION));
    assert_eq!(
        find_sorted(&*db, rawdoc! { "_id": 2 }).await,
        [doc! { "_id": 2, "email": "b" }]
    );
}

/// An update of several documents is not a transaction: a failure stops the update, and earlier changes stay.
pub async fn a_failure_keeps_earlier_changes(db: Fixture) {
    let db = db.backend();
    let index = Index::new(vec![("email".to_owned(), Direction::Ascending)]);
    db.create_indexes(TEST_COLLECTION, vec![unique(index)])
        .await
        .unwrap();
    let documents = [1, 2, 3].map(|id| rawdoc! { "_id": id, "email": id });
    db.insert(insert(documents)).await.unwrap();
    let same = UpdateOperation {
        multi: true,
        ..update(rawdoc! {}, rawdoc! { "$set": { "email": "same" } })
    };
    assert!(db.update(same).await.unwrap_err().is_duplicate_key());
    let changed = find_sorted(&*db, rawdoc! { "email": "same" }).await;
    assert_eq!(changed, [doc! { "_id": 1, "email": "same" }]);
    assert_eq!(find_sorted(&*db, rawdoc! {}).await.len(), 3);
}

pub async fn an_unknown_operator_is_unsupported(db: Fixture) {
    let db = db.backend();
    db.insert(insert([rawdoc! { "_id": 1, "a": 1 }]))
        .await
        .unwrap();
    let nonsense = update(rawdoc! {}, rawdoc! { "$nonsense": { "a": 1 } });
    let error = db.update(nonsense).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("$nonsense"), "{error}");
}

pub async fn array_filters_choose_elements(db: Fixture) {
    let db = db.backend();
    let lines = rawdoc! { "_id": 1, "lines": [{ "n": 1, "open": true }, { "n": 5, "open": true }] };
    db.insert(insert([lines])).await.unwrap();
    let change = DocumentChange::Operators {
        update: rawdoc! { "$set": { "lines.$[line].open": false } },
        array_filters: vec![rawdoc! { "line.n": { "$gt": 3 } }],
    };
    let close = UpdateOperation {
        change,
        ..update(rawdoc! { "_id": 1 }, rawdoc! {})
    };
    assert_eq!(db.update(close).await.unwrap().modified, 1);
    let lines = bson!([{ "n": 1, "open": true }, { "n": 5, "open": false }]);
    assert_eq!(
        find_sorted(&*db, rawdoc! {}).await,
        [doc! { "_id": 1, "lines": lines }]
    );
}

pub async fn matched_is_not_modified(db: Fixture) {
    let db = db.backend();
    db.insert(insert((0..3).map(|i| rawdoc! { "_id": i, "a": i })))
        .await
        .unwrap();
    let set = update(rawdoc! {}, rawdoc! { "$set": { "a": 1 } });
    let updated = db
        .update(UpdateOperation { multi: true, ..set })
        .await
        .unwrap();
    assert_eq!(updated, updated_counts(3, 2));
}

pub async fn no_match_changes_nothing(db: Fixture) {
    let db = db.backend();
    let set = update(rawdoc! { "_id": 1 }, rawdoc! { "$set": { "a": 1 } });
    assert_eq!(db.update(set).await.unwrap(), UpdateResult::default());
    assert!(find_sorted(&*db, rawdoc! {}).await.is_empty());
}

pub async fn updates_one_or_all(db: Fixture) {
    let db = db.backend();
    db.insert(insert((0..3).map(|i| rawdoc! { "_id": i, "a": 0 })))
        .await
        .unwrap();
    let inc = update(rawdoc! { "a": 0 }, rawdoc! { "$inc": { "a": 1 } });
    assert_eq!(db.update(inc.clone()).await.unwrap(), updated_counts(1, 1));
    let all = UpdateOperation { multi: true, ..inc };
    assert_eq!(db.update(all).await.unwrap(), updated_counts(2, 2));
    assert_eq!(find_sorted(&*db, rawdoc! { "a": 1 }).await.len(), 3);
}

pub async fn the_id_cannot_change(db: Fixture) {
    let db = db.backend();
    db.insert(insert([rawdoc! { "_id": 1 }])).await.unwrap();
    let error = db
        .update(update(rawdoc! {}, rawdoc! { "$set": { "_id": 2 } }))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(find_sorted(&*db, rawdoc! {}).await, [doc! { "_id": 1 }]);
}

pub async fn a_replacement_keeps_only_the_id(db: Fixture) {
    let db = db.backend();
    let documents = [1, 2].map(|id| rawdoc! { "_id": id, "a": 1, "b": 1 });
    db.insert(insert(documents)).await.unwrap();
    let put = replace(rawdoc! { "a": 1 }, rawdoc! { "c": { "$d": 1 } });
    assert_eq!(db.update(put.clone()).await.unwrap(), updated_counts(1, 1));
    assert_eq!(
        find_sorted(&*db, rawdoc! { "a": { "$exists": false } }).await,
        [doc! { "_id": 1, "c": { "$d": 1 } }]
    );
    let other_id = replace(rawdoc! { "_id": 2 }, rawdoc! { "_id": 3 });
    assert_eq!(
        db.update(other_id).await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
    let several = UpdateOperation { multi: true, ..put };
    assert_eq!(
        db.update(several).await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
    assert_eq!(find_sorted(&*db, rawdoc! { "a": 1 }).await.len(), 1);
}

/// A replacement never runs as operators, and operators are never stored as a document.
pub async fn replacements_and_operators_are_separate(db: Fixture) {
    let db = db.backend();
    db.insert(insert([rawdoc! { "_id": 1, "a": 1 }]))
        .await
        .unwrap();
    let (all, set) = (rawdoc! {}, rawdoc! { "$set": { "a": 2 } });
    for change in [
        replace(all.clone(), set.clone()),
        replace(all.clone(), rawdoc! { "b": 1, "$set": 2 }),
        update(all.clone(), rawdoc! { "a": 2 }),
        update(all.clone(), rawdoc! {}),
    ] {
        let error = db.update(change).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(
        find_sorted(&*db, rawdoc! {}).await,
        [doc! { "_id": 1, "a": 1 }]
    );
}

pub async fn an_upsert_inserts_where_nothing_matches(db: Fixture) {
    let db = db.backend();
    let upsert = |update: UpdateOperation| UpdateOperation {
        upsert: true,
        ..update
    };
    let on_insert = rawdoc! { "$inc": { "n": 1 }, "$setOnInsert": { "new": true } };
    let count = upsert(update(rawdoc! { "_id": 1, "a": "x" }, on_insert));
    let inserted = UpdateResult {
        upserted_id: Some(RawBson::Int32(1)),
        ..UpdateResult::default()
    };
    assert_eq!(db.update(count.clone()).await.unwrap(), inserted);
    assert_eq!(db.update(count).await.unwrap(), updated_counts(1, 1));
    let made = upsert(replace(rawdoc! { "a": "y" }, rawdoc! { "b": 1 }));
    let made = db.update(made).await.unwrap();
    assert!(matches!(made.upserted_id, Some(RawBson::ObjectId(_))));
    let all = find_sorted(&*db, rawdoc! {}).await;
    assert_eq!(all[0], doc! { "_id": 1, "a": "x", "n": 2, "new": true });
    assert_eq!(all[1].keys().collect::<Vec<_>>(), ["_id", "b"]);
    let many = upsert(update(rawdoc! { "_id": 2 }, rawdoc! { "$set": { "a": 1 } }));
    let many = UpdateOperation {
        multi: true,
        ..many
    };
    let inserted = db.update(many).await.unwrap();
    assert_eq!(inserted.upserted_id, Some(RawBson::Int32(2)));
}
