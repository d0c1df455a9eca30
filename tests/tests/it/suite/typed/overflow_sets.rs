//! Elements that are added to arrays that overflow if they are not there, and documents that are asked whether they have any outside.

use odm::prelude::*;

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "series")]
struct Series {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 10, into = "more_points", flag = "more_points"))]
    points: Overflow<f64>,
    #[embed(overflow(after = 10, into = "more_notes", flag = "more_notes"))]
    notes: Overflow<String>,
}

#[derive(Schema)]
#[schema(models(Series))]
struct Lab;
type Db = odm::Database<Lab>;

async fn fresh(fixture: &Fixture, series: i64) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let empty = (1..=series).map(|id| Series {
        id,
        points: Overflow::default(),
        notes: Overflow::default(),
    });
    db.insert_many(empty).await.unwrap();
    db
}

async fn is_clean(db: &Db) {
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}

async fn points(db: &Db, id: i64) -> Vec<f64> {
    let all = db.get::<Series>(id).elements(|s| s.points()).all().await;
    all.unwrap()
}

/// In the document, outside of it and on the way there, what is no number is one, and so are both zeros.
pub async fn elements_are_the_same_as_the_server_compares_them(fixture: Fixture) {
    let db = fresh(&fixture, 2).await;
    let add = async |id, points: Vec<f64>| {
        let add = db
            .update::<Series>(id)
            .add_each_to_set(|s| s.points(), points);
        assert_eq!(add.await.unwrap().matched, 1);
    };
    let whole: Vec<_> = (1..=30).map(f64::from).collect();
    for first in [0.0, f64::NAN] {
        for id in [1, 2] {
            let begin = [first]
                .into_iter()
                .chain(if id == 1 { vec![] } else { whole.clone() });
            db.update::<Series>(id)
                .set(|s| s.points(), begin.collect::<Vec<_>>())
                .await
                .unwrap();
            let before = points(&db, id).await.len();
            add(id, vec![first, -first]).await;
            add(id, vec![-first]).await;
            assert_eq!(points(&db, id).await.len(), before, "{first}");
            // It is outside now, and in the tail then.
            let far = [f64::MAX, -first, f64::MAX];
            let late: Vec<_> = whole.iter().copied().chain(far).collect();
            db.update::<Series>(id)
                .set(|s| s.points(), late.clone())
                .await
                .unwrap();
            add(id, vec![first]).await;
            assert_eq!(points(&db, id).await.len(), late.len(), "{first}");
            add(id, vec![f64::MIN]).await;
            add(id, vec![f64::MIN, first, 1.0]).await;
            assert_eq!(points(&db, id).await.len(), late.len() + 1, "{first}");
            let contains = db.get::<Series>(id).elements(|s| s.points());
            assert!(contains.contains(-first).await.unwrap());
        }
    }
    is_clean(&db).await;
}

/// A set gets more than a request holds, and once only.
pub async fn more_than_a_request_holds_is_added_once(fixture: Fixture) {
    let db = fresh(&fixture, 1).await;
    let note = |n: usize| format!("{n:05}{}", "x".repeat(60_000));
    let notes: Vec<_> = (0..320).map(note).collect();
    let total: usize = notes.iter().map(String::len).sum();
    assert!(total > 16 * 1024 * 1024, "{total}");
    let len = async || db.get::<Series>(1).await.unwrap().notes.len();
    for (added, expected) in [(&notes[..4], 4), (&notes[..], 320), (&notes[..], 320)] {
        let add = db
            .update::<Series>(1)
            .add_each_to_set(|s| s.notes(), added.to_vec());
        assert_eq!(add.await.unwrap().matched, 1);
        assert_eq!(len().await, expected);
    }
    let all = db
        .get::<Series>(1)
        .elements(|s| s.notes())
        .all()
        .await
        .unwrap();
    assert!(all == notes, "they are in the order in which they came");
    is_clean(&db).await;
}

/// The condition holds until there is something outside, whatever was begun before.
pub async fn what_has_nothing_outside_yet_gets_more_than_a_tail(fixture: Fixture) {
    let db = fresh(&fixture, 3).await;
    let many = |from: i32| (from..from + 40).map(f64::from).collect::<Vec<_>>();
    let push = |from| {
        let without = db.update_many::<Series>(|s| !s.points().has_more());
        without.push_each(|s| s.points(), many(from))
    };
    db.update::<Series>(3)
        .push_each(|s| s.points(), many(100))
        .await
        .unwrap();
    assert_eq!(push(0).await.unwrap().matched, 2);
    assert_eq!(push(50).await.unwrap().matched, 0);
    for (id, from) in [(1, 0), (2, 0), (3, 100)] {
        assert_eq!(points(&db, id).await, many(from));
    }
    let set = db.update_many::<Series>(|s| s.points().has_more());
    assert_eq!(set.set(|s| s.points(), many(7)).await.unwrap().matched, 3);
    let with = db.find::<Series>().filter(|s| s.points().has_more());
    assert_eq!(with.count().await.unwrap(), 3);
    db.update::<Series>(1)
        .set(|s| s.points(), [1.0])
        .await
        .unwrap();
    let without = db.find::<Series>().filter(|s| !s.points().has_more());
    assert_eq!(
        without
            .all()
            .await
            .unwrap()
            .iter()
            .map(|s| s.id)
            .collect::<Vec<_>>(),
        [1]
    );
    is_clean(&db).await;
}
