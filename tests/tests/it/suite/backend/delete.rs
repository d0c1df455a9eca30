use bson::rawdoc;
use odm::backend::operation::DeleteOperation;

use super::{delete, insert, matching_ids};
use crate::Fixture;

pub async fn deletes_one_or_all(db: Fixture) {
    let db = db.backend();
    let documents = (0..5).map(|i| rawdoc! { "_id": i, "even": i % 2 == 0 });
    db.insert(insert(documents)).await.unwrap();

    let deleted = db.delete(delete(rawdoc! { "even": true })).await.unwrap();
    assert_eq!(deleted.deleted, 1);
    assert_eq!(matching_ids(&*db, rawdoc! { "even": true }).await.len(), 2);

    let all = DeleteOperation {
        multi: true,
        ..delete(rawdoc! { "even": true })
    };
    assert_eq!(db.delete(all).await.unwrap().deleted, 2);
    assert_eq!(matching_ids(&*db, rawdoc! {}).await, [1, 3]);
}

pub async fn no_match_deletes_nothing(db: Fixture) {
    let db = db.backend();
    assert_eq!(db.delete(delete(rawdoc! {})).await.unwrap().deleted, 0);
    db.insert(insert([rawdoc! { "_id": 1 }])).await.unwrap();
    let all = DeleteOperation {
        multi: true,
        ..delete(rawdoc! { "_id": 2 })
    };
    assert_eq!(db.delete(all).await.unwrap().deleted, 0);
    assert_eq!(matching_ids(&*db, rawdoc! {}).await, [1]);
}
