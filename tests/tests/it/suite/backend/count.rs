use bson::rawdoc;
use odm::backend::operation::CountOperation;

use super::{count, insert};
use crate::Fixture;

pub async fn counts_all_or_what_matches(db: Fixture) {
    let db = db.backend();
    assert_eq!(db.count(count(rawdoc! {})).await.unwrap(), 0);
    let documents = (0..10).map(|i| rawdoc! { "_id": i, "even": i % 2 == 0 });
    db.insert(insert(documents)).await.unwrap();
    assert_eq!(db.count(count(rawdoc! {})).await.unwrap(), 10);
    assert_eq!(db.count(count(rawdoc! { "even": true })).await.unwrap(), 5);
    assert_eq!(
        db.count(count(rawdoc! { "_id": { "$gt": 100 } }))
            .await
            .unwrap(),
        0
    );
}

pub async fn stops_at_the_limit(db: Fixture) {
    let db = db.backend();
    db.insert(insert((0..10).map(|i| rawdoc! { "_id": i })))
        .await
        .unwrap();
    for (limit, counted) in [(0, 0), (1, 1), (10, 10), (11, 10), (u64::MAX, 10)] {
        let count = CountOperation {
            limit: Some(limit),
            ..count(rawdoc! {})
        };
        assert_eq!(db.count(count).await.unwrap(), counted);
    }
}
