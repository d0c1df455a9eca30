//! Sets in overflow arrays: elements that are added if absent, and the condition `has_more` on spilled elements.

use std::collections::BTreeSet;

use odm::{ErrorKind, prelude::*};
use odm_tests::assert_clean;

use super::overflow::{Book, book, customers, open_shop, user, users};
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

async fn insert_series(fixture: &Fixture, series: i64) -> Db {
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

async fn points(db: &Db, id: i64) -> Vec<f64> {
    let all = db.get::<Series>(id).elements(|s| s.points()).all().await;
    all.unwrap()
}

/// In resident elements, in spilled elements and in the tail, all NaN values are equal, and both zeros are equal.
pub async fn sets_compare_elements_like_the_server(fixture: Fixture) {
    let db = insert_series(&fixture, 2).await;
    let add = async |id, points: Vec<f64>| {
        let add = db
            .update::<Series>(id)
            .add_each_to_set(|s| s.points(), points);
        assert_eq!(add.await.unwrap().matched, 1);
    };
    let numbers: Vec<_> = (1..=30).map(f64::from).collect();
    for first in [0.0, f64::NAN] {
        for id in [1, 2] {
            let begin = [first]
                .into_iter()
                .chain(if id == 1 { vec![] } else { numbers.clone() });
            db.update::<Series>(id)
                .set(|s| s.points(), begin.collect::<Vec<_>>())
                .await
                .unwrap();
            let before = points(&db, id).await.len();
            add(id, vec![first, -first]).await;
            add(id, vec![-first]).await;
            assert_eq!(points(&db, id).await.len(), before, "{first}");
            // The equal element is now outside the resident elements: spilled, or in the tail.
            let far = [f64::MAX, -first, f64::MAX];
            let late: Vec<_> = numbers.iter().copied().chain(far).collect();
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
    assert_clean(&db).await;
}

/// A set receives more elements than a request holds, and stores each element once.
pub async fn large_additions_to_sets_add_once(fixture: Fixture) {
    let db = insert_series(&fixture, 1).await;
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
    assert_clean(&db).await;
}

/// `!has_more` selects a document until an element is spilled, and a selected document receives the whole update.
pub async fn has_more_filter_selects_until_the_spill(fixture: Fixture) {
    let db = insert_series(&fixture, 3).await;
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
    assert_clean(&db).await;
}

pub async fn sets_include_resident_and_spilled_elements(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    db.insert_many([book(1, []), book(2, 0..80)]).await.unwrap();
    for id in [1, 2] {
        for round in 0..2 {
            for number in [0, 1, 2, 3, 4, 70, 200, 201] {
                let add = db
                    .update::<Book>(id)
                    .add_to_set(|b| b.customers_purchased(), user(number));
                add.inc(|b| b.copies(), 1).await.unwrap();
            }
            let mut names = customers(&db, id).await;
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count, "round {round}: {names:?}");
            assert_eq!(count, if id == 1 { 8 } else { 82 });
        }
        assert_eq!(db.get::<Book>(id).await.unwrap().copies, 16);
        let add = db.update::<Book>(id);
        add.add_each_to_set(|b| b.customers_purchased(), users([3, 300, 301, 300]))
            .await
            .unwrap();
        assert_eq!(
            customers(&db, id).await[if id == 1 { 8 } else { 82 }..],
            users([300, 301])
        );
    }
    assert_clean(&db).await;
}

/// Adds more elements than a single push sends. Existing elements stay in place, and each new element is appended once.
pub async fn large_additions_append_new_elements(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    db.insert_many([book(1, []), book(2, 0..2), book(3, 0..80)])
        .await
        .unwrap();
    // An element in the tail.
    db.update::<Book>(3)
        .push(|b| b.customers_purchased(), "u500")
        .await
        .unwrap();
    for id in [1, 2, 3] {
        let mut expected = customers(&db, id).await;
        for numbers in [40..140, 500..620, 0..700, 0..700] {
            let twice = numbers.clone().chain(numbers.clone().rev());
            let add = db
                .update::<Book>(id)
                .add_each_to_set(|b| b.customers_purchased(), users(twice));
            assert!(add.inc(|b| b.copies(), 1).await.unwrap().is_applied());
            for new in users(numbers) {
                if !expected.contains(&new) {
                    expected.push(new);
                }
            }
            let all = customers(&db, id).await;
            assert_eq!(all, expected);
            let read = db.get::<Book>(id).await.unwrap();
            assert_eq!(read.customers_purchased.len(), all.len() as u64);
        }
        assert_eq!(db.get::<Book>(id).await.unwrap().copies, 4);
        assert_clean(&db).await;
    }
    let nobody = db
        .update::<Book>(9)
        .add_each_to_set(|b| b.customers_purchased(), users(0..300));
    assert_eq!(nobody.await.unwrap_err().kind(), ErrorKind::NotFound);
    // No document has the title, so no document changes.
    let other = db.update_many::<Book>(|b| b.title().eq("another"));
    let added = other
        .add_each_to_set(|b| b.customers_purchased(), users(2_000..2_300))
        .await;
    assert_eq!(added.unwrap().matched, 0);
    assert_clean(&db).await;
}

/// Eight tasks add overlapping ranges of 100 elements, in requests of 100 and of 3 elements. No element is duplicated or missing.
pub async fn concurrent_additions_store_elements_once(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    db.insert_many([book(1, []), book(2, 1_000..1_080)])
        .await
        .unwrap();
    for id in [1, 2] {
        let tasks = (0..8_usize).map(|task| {
            let db = db.clone();
            tokio::spawn(async move {
                let from = task * 25;
                let all = users(from..from + 100);
                let size = if task % 2 == 0 { 100 } else { 3 };
                for some in all.chunks(size) {
                    loop {
                        let add = db.update::<Book>(id);
                        match add
                            .add_each_to_set(|b| b.customers_purchased(), some.to_vec())
                            .await
                        {
                            Ok(added) => break assert!(added.matched == 1, "{added:?}"),
                            Err(error) => assert!(error.is_conflict(), "{error}"),
                        }
                    }
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let all = customers(&db, id).await;
        let distinct: BTreeSet<_> = all.iter().cloned().collect();
        assert_eq!(distinct.len(), all.len());
        let expected = users(0..275)
            .into_iter()
            .chain(users(1_000..if id == 1 { 1_000 } else { 1_080 }));
        assert_eq!(distinct, expected.collect());
    }
    assert_clean(&db).await;
}
