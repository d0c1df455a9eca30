use bson::{Document, RawDocumentBuf, bson, doc, rawdoc};
use odm::{
    ErrorKind,
    backend::{
        Executor,
        operation::{Change, Direction, FindAndModify, Index, Modification},
    },
};

use super::{THINGS, decoded, found, insert, unique};
use crate::Fixture;

fn modify(filter: RawDocumentBuf, modification: Modification) -> FindAndModify {
    FindAndModify {
        collection: THINGS.into(),
        filter,
        sort: None,
        projection: None,
        modification,
    }
}

/// A change of the first document by `n`, the largest first.
fn change(filter: RawDocumentBuf, change: Change, return_new: bool) -> FindAndModify {
    let update = Modification::Update {
        change,
        upsert: false,
        return_new,
    };
    FindAndModify {
        sort: Some(rawdoc! { "n": -1 }),
        ..modify(filter, update)
    }
}

fn upsert(mut modify: FindAndModify) -> FindAndModify {
    if let Modification::Update { upsert, .. } = &mut modify.modification {
        *upsert = true;
    }
    modify
}

fn set(value: i32) -> Change {
    Change::operators(rawdoc! { "$set": { "n": value } })
}

async fn modified(db: &(impl Executor + ?Sized), modify: FindAndModify) -> Option<Document> {
    let found = db.find_and_modify(modify).await.expect("a modification");
    decoded(found.into_iter().collect()).pop()
}

async fn three(db: &(impl Executor + ?Sized)) {
    let documents = [1, 2, 3].map(|id| rawdoc! { "_id": id, "n": id, "tags": [id, 10] });
    db.insert(insert(documents)).await.expect("an insert");
}

pub async fn before_or_after(db: Fixture) {
    let db = db.backend();
    three(&*db).await;
    let n = |projected: FindAndModify| FindAndModify {
        projection: Some(rawdoc! { "n": 1 }),
        ..projected
    };
    let old = modified(&*db, n(change(rawdoc! {}, set(0), false))).await;
    assert_eq!(old, Some(doc! { "_id": 3, "n": 3 }));
    let new = modified(&*db, n(change(rawdoc! {}, set(-1), true))).await;
    assert_eq!(new, Some(doc! { "_id": 2, "n": -1 }));
    let put = Change::Replacement(rawdoc! { "n": 5, "x": 1 });
    let replaced = modified(&*db, change(rawdoc! { "_id": 1 }, put, true)).await;
    assert_eq!(replaced, Some(doc! { "_id": 1, "n": 5, "x": 1 }));
    let ns: Vec<_> = found(&*db, rawdoc! {}).await;
    let ns: Vec<_> = ns.iter().map(|found| found.get_i32("n").unwrap()).collect();
    assert_eq!(ns, [5, -1, 0]);
}

pub async fn deletes_in_order(db: Fixture) {
    let db = db.backend();
    three(&*db).await;
    let delete = FindAndModify {
        sort: Some(rawdoc! { "n": -1 }),
        projection: Some(rawdoc! { "_id": 1 }),
        ..modify(rawdoc! { "n": { "$lt": 3 } }, Modification::Delete)
    };
    assert_eq!(
        modified(&*db, delete.clone()).await,
        Some(doc! { "_id": 2 })
    );
    assert_eq!(
        modified(&*db, delete.clone()).await,
        Some(doc! { "_id": 1 })
    );
    assert_eq!(modified(&*db, delete).await, None);
    assert_eq!(found(&*db, rawdoc! {}).await.len(), 1);
}

pub async fn array_filters_and_positions(db: Fixture) {
    let db = db.backend();
    three(&*db).await;
    let named = Change::Operators {
        update: rawdoc! { "$set": { "tags.$[big]": 11 } },
        array_filters: vec![rawdoc! { "big": { "$gt": 9 } }],
    };
    let new = modified(&*db, change(rawdoc! { "_id": 1 }, named, true)).await;
    assert_eq!(new, Some(doc! { "_id": 1, "n": 1, "tags": [1, 11] }));
    let position = Change::operators(rawdoc! { "$set": { "tags.$": 0 } });
    let new = modified(&*db, change(rawdoc! { "tags": 11 }, position, true)).await;
    assert_eq!(new, Some(doc! { "_id": 1, "n": 1, "tags": [1, 0] }));
}

pub async fn no_match_gives_nothing_or_inserts(db: Fixture) {
    let db = db.backend();
    let filter = |id: i32| rawdoc! { "_id": id };
    assert_eq!(modified(&*db, change(filter(1), set(1), true)).await, None);
    assert!(found(&*db, rawdoc! {}).await.is_empty());
    let before = upsert(change(filter(1), set(1), false));
    assert_eq!(modified(&*db, before).await, None);
    let after = upsert(change(filter(2), set(1), true));
    let new = doc! { "_id": 2, "n": 1 };
    assert_eq!(modified(&*db, after.clone()).await, Some(new.clone()));
    assert_eq!(modified(&*db, after).await, Some(new.clone()));
    let put = Change::Replacement(rawdoc! { "x": 1 });
    let replaced = upsert(change(filter(3), put, true));
    let replaced = modified(&*db, replaced).await;
    assert_eq!(replaced, Some(doc! { "_id": 3, "x": 1 }));
    assert_eq!(
        found(&*db, rawdoc! {}).await,
        [doc! { "_id": 1, "n": 1 }, new, doc! { "_id": 3, "x": 1 }]
    );
}

pub async fn an_error_changes_nothing(db: Fixture) {
    let db = db.backend();
    let index = Index::new(vec![("n".to_owned(), Direction::Ascending)]);
    db.create_indexes(THINGS, vec![unique(index)])
        .await
        .unwrap();
    three(&*db).await;
    let before = found(&*db, rawdoc! {}).await;
    let error = db.find_and_modify(change(rawdoc! {}, set(1), false)).await;
    let error = error.unwrap_err();
    assert!(error.is_duplicate_key());
    assert_eq!(error.index(), Some("n_1"));
    assert_eq!(error.value(), Some(&bson!({ "n": 1 })));
    assert_eq!(error.collection(), Some(THINGS));
    let kind = |change: Change| {
        let db = db.clone();
        async move {
            let modify = self::change(rawdoc! {}, change, true);
            db.find_and_modify(modify).await.unwrap_err().kind()
        }
    };
    let id = Change::operators(rawdoc! { "$set": { "_id": 9 } });
    assert_eq!(kind(id).await, ErrorKind::Invalid);
    let nonsense = Change::operators(rawdoc! { "$nonsense": { "a": 1 } });
    assert_eq!(kind(nonsense).await, ErrorKind::Unsupported);
    let operators = Change::Replacement(rawdoc! { "$set": { "n": 1 } });
    assert_eq!(kind(operators).await, ErrorKind::Invalid);
    let plain = Change::operators(rawdoc! { "n": 1 });
    assert_eq!(kind(plain).await, ErrorKind::Invalid);
    assert_eq!(found(&*db, rawdoc! {}).await, before);
}

/// Each of several that take at once gets another one.
pub async fn nobody_takes_the_same(db: Fixture) {
    let db = db.backend();
    db.insert(insert((0..20).map(|id| rawdoc! { "_id": id, "n": 0 })))
        .await
        .unwrap();
    let tasks = (0..20).map(|taker| {
        let db = db.clone();
        tokio::spawn(async move {
            let take = change(rawdoc! { "n": 0 }, set(taker + 1), false);
            modified(&*db, take)
                .await
                .map(|taken| taken.get_i32("_id").unwrap())
        })
    });
    let mut taken = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        taken.push(task.await.unwrap().expect("there is one for everybody"));
    }
    taken.sort_unstable();
    assert_eq!(taken, (0..20).collect::<Vec<_>>());
}

pub async fn a_transaction_keeps_it_to_itself(db: Fixture) {
    let db = db.backend();
    if !db.capabilities().transactions {
        return;
    }
    three(&*db).await;
    let tx = db.begin().await.unwrap();
    for value in [7, 8] {
        let new = modified(&*tx, change(rawdoc! { "_id": 1 }, set(value), true)).await;
        assert_eq!(new.unwrap().get_i32("n").unwrap(), value);
    }
    assert_eq!(found(&*db, rawdoc! { "n": 8 }).await.len(), 0);
    tx.commit().await.unwrap();
    assert_eq!(found(&*db, rawdoc! { "n": 8 }).await.len(), 1);

    let tx = db.begin().await.unwrap();
    let id = Change::operators(rawdoc! { "$set": { "_id": 9 } });
    let error = tx.find_and_modify(change(rawdoc! {}, id, true)).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(
        tx.commit().await.unwrap_err().kind(),
        ErrorKind::TransactionOver
    );
}
