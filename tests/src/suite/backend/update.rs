use bson::{bson, doc, rawdoc};
use odm::{
    ErrorKind,
    backend::operation::{Direction, Index, Update, Updated},
};

use super::{THINGS, found, insert, unique, update};
use crate::Fixture;

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
    let close = Update {
        array_filters: vec![rawdoc! { "line.n": { "$gt": 3 } }],
        ..update(
            rawdoc! { "_id": 1 },
            rawdoc! { "$set": { "lines.$[line].open": false } },
        )
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
    assert_eq!(
        updated,
        Updated {
            matched: 3,
            modified: 2
        }
    );
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
    assert_eq!(
        db.update(inc.clone()).await.unwrap(),
        Updated {
            matched: 1,
            modified: 1
        }
    );
    let all = Update { multi: true, ..inc };
    assert_eq!(
        db.update(all).await.unwrap(),
        Updated {
            matched: 2,
            modified: 2
        }
    );
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
