use bson::{RawBson, RawDocumentBuf, bson, doc, rawdoc};
use odm::{
    ErrorKind,
    backend::operation::{Change, Direction, Index, Update, Updated},
};

use super::{THINGS, found, insert, unique, update};
use crate::Fixture;

fn counted(matched: u64, modified: u64) -> Updated {
    Updated {
        matched,
        modified,
        upserted_id: None,
    }
}

fn replace(filter: RawDocumentBuf, replacement: RawDocumentBuf) -> Update {
    Update {
        change: Change::Replacement(replacement),
        ..update(filter, rawdoc! {})
    }
}

pub async fn a_duplicate_key_is_named(db: Fixture) {
    let db = db.backend();
    let index = Index::new(vec![("email".to_owned(), Direction::Ascending)]);
    db.create_indexes(THINGS, vec![unique(index)])
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
    assert_eq!(error.collection(), Some(THINGS));
    assert_eq!(
        found(&*db, rawdoc! { "_id": 2 }).await,
        [doc! { "_id": 2, "email": "b" }]
    );
}

/// An update of several documents is no transaction: it stops, and what it did stays.
pub async fn a_failure_keeps_what_came_before(db: Fixture) {
    let db = db.backend();
    let index = Index::new(vec![("email".to_owned(), Direction::Ascending)]);
    db.create_indexes(THINGS, vec![unique(index)])
        .await
        .unwrap();
    let documents = [1, 2, 3].map(|id| rawdoc! { "_id": id, "email": id });
    db.insert(insert(documents)).await.unwrap();
    let same = Update {
        multi: true,
        ..update(rawdoc! {}, rawdoc! { "$set": { "email": "same" } })
    };
    assert!(db.update(same).await.unwrap_err().is_duplicate_key());
    let changed = found(&*db, rawdoc! { "email": "same" }).await;
    assert_eq!(changed, [doc! { "_id": 1, "email": "same" }]);
    assert_eq!(found(&*db, rawdoc! {}).await.len(), 3);
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
    let change = Change::Operators {
        update: rawdoc! { "$set": { "lines.$[line].open": false } },
        array_filters: vec![rawdoc! { "line.n": { "$gt": 3 } }],
    };
    let close = Update {
        change,
        ..update(rawdoc! { "_id": 1 }, rawdoc! {})
    };
    assert_eq!(db.update(close).await.unwrap().modified, 1);
    let lines = bson!([{ "n": 1, "open": true }, { "n": 5, "open": false }]);
    assert_eq!(
        found(&*db, rawdoc! {}).await,
        [doc! { "_id": 1, "lines": lines }]
    );
}

pub async fn matched_is_not_modified(db: Fixture) {
    let db = db.backend();
    db.insert(insert((0..3).map(|i| rawdoc! { "_id": i, "a": i })))
        .await
        .unwrap();
    let set = update(rawdoc! {}, rawdoc! { "$set": { "a": 1 } });
    let updated = db.update(Update { multi: true, ..set }).await.unwrap();
    assert_eq!(updated, counted(3, 2));
}

pub async fn no_match_changes_nothing(db: Fixture) {
    let db = db.backend();
    let set = update(rawdoc! { "_id": 1 }, rawdoc! { "$set": { "a": 1 } });
    assert_eq!(db.update(set).await.unwrap(), Updated::default());
    assert!(found(&*db, rawdoc! {}).await.is_empty());
}

pub async fn one_or_all(db: Fixture) {
    let db = db.backend();
    db.insert(insert((0..3).map(|i| rawdoc! { "_id": i, "a": 0 })))
        .await
        .unwrap();
    let inc = update(rawdoc! { "a": 0 }, rawdoc! { "$inc": { "a": 1 } });
    assert_eq!(db.update(inc.clone()).await.unwrap(), counted(1, 1));
    let all = Update { multi: true, ..inc };
    assert_eq!(db.update(all).await.unwrap(), counted(2, 2));
    assert_eq!(found(&*db, rawdoc! { "a": 1 }).await.len(), 3);
}

pub async fn the_id_cannot_change(db: Fixture) {
    let db = db.backend();
    db.insert(insert([rawdoc! { "_id": 1 }])).await.unwrap();
    let error = db
        .update(update(rawdoc! {}, rawdoc! { "$set": { "_id": 2 } }))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(found(&*db, rawdoc! {}).await, [doc! { "_id": 1 }]);
}

pub async fn a_replacement_keeps_the_id_alone(db: Fixture) {
    let db = db.backend();
    let documents = [1, 2].map(|id| rawdoc! { "_id": id, "a": 1, "b": 1 });
    db.insert(insert(documents)).await.unwrap();
    let put = replace(rawdoc! { "a": 1 }, rawdoc! { "c": { "$d": 1 } });
    assert_eq!(db.update(put.clone()).await.unwrap(), counted(1, 1));
    assert_eq!(
        found(&*db, rawdoc! { "a": { "$exists": false } }).await,
        [doc! { "_id": 1, "c": { "$d": 1 } }]
    );
    let other_id = replace(rawdoc! { "_id": 2 }, rawdoc! { "_id": 3 });
    assert_eq!(
        db.update(other_id).await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
    let several = Update { multi: true, ..put };
    assert_eq!(
        db.update(several).await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
    assert_eq!(found(&*db, rawdoc! { "a": 1 }).await.len(), 1);
}

/// A document from a user never is carried out, and operators never are stored.
pub async fn a_replacement_is_no_operator(db: Fixture) {
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
    assert_eq!(found(&*db, rawdoc! {}).await, [doc! { "_id": 1, "a": 1 }]);
}

pub async fn an_upsert_inserts_where_nothing_matches(db: Fixture) {
    let db = db.backend();
    let upsert = |update: Update| Update {
        upsert: true,
        ..update
    };
    let on_insert = rawdoc! { "$inc": { "n": 1 }, "$setOnInsert": { "new": true } };
    let count = upsert(update(rawdoc! { "_id": 1, "a": "x" }, on_insert));
    let inserted = Updated {
        upserted_id: Some(RawBson::Int32(1)),
        ..Updated::default()
    };
    assert_eq!(db.update(count.clone()).await.unwrap(), inserted);
    assert_eq!(db.update(count).await.unwrap(), counted(1, 1));
    let made = upsert(replace(rawdoc! { "a": "y" }, rawdoc! { "b": 1 }));
    let made = db.update(made).await.unwrap();
    assert!(matches!(made.upserted_id, Some(RawBson::ObjectId(_))));
    let all = found(&*db, rawdoc! {}).await;
    assert_eq!(all[0], doc! { "_id": 1, "a": "x", "n": 2, "new": true });
    assert_eq!(all[1].keys().collect::<Vec<_>>(), ["_id", "b"]);
    let many = upsert(update(rawdoc! { "_id": 2 }, rawdoc! { "$set": { "a": 1 } }));
    let many = Update {
        multi: true,
        ..many
    };
    let inserted = db.update(many).await.unwrap();
    assert_eq!(inserted.upserted_id, Some(RawBson::Int32(2)));
}
