use bson::{Document, RawDocumentBuf, bson, doc, rawdoc};
use odm::{
    ErrorKind,
    backend::{
        Executor,
        operation::{Direction, DocumentChange, FindAndModify, FindAndModifyKind, Index},
    },
};

use super::{TEST_COLLECTION, decoded, find_sorted, insert, unique};
use crate::Fixture;

fn modify(filter: RawDocumentBuf, modification: FindAndModifyKind) -> FindAndModify {
    FindAndModify {
        collection: TEST_COLLECTION.into(),
        filter,
        sort: None,
        projection: None,
        modification,
        origin: Default::default(),
    }
}

/// Changes the matching document with the largest `n`.
fn change(filter: RawDocumentBuf, change: DocumentChange, return_new: bool) -> FindAndModify {
    let update = FindAndModifyKind::Update {
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
    if let FindAndModifyKind::Update { upsert, .. } = &mut modify.modification {
        *upsert = true;
    }
    modify
}

fn set(value: i32) -> DocumentChange {
    DocumentChange::operators(rawdoc! { "$set": { "n": value } })
}

async fn modified(db: &(impl Executor + ?Sized), modify: FindAndModify) -> Option<Document> {
    let found = db.find_and_modify(modify).await.expect("a modification");
    decoded(found.into_iter().collect()).pop()
}

async fn insert_three_things(db: &(impl Executor + ?Sized)) {
    let documents = [1, 2, 3].map(|id| rawdoc! { "_id": id, "n": id, "tags": [id, 10] });
    db.insert(insert(documents)).await.expect("an insert");
}

pub async fn before_or_after(db: Fixture) {
    let db = db.backend();
    insert_three_things(&*db).await;
    let n = |projected: FindAndModify| FindAndModify {
        projection: Some(rawdoc! { "n": 1 }),
        ..projected
    };
    let old = modified(&*db, n(change(rawdoc! {}, set(0), false))).await;
    assert_eq!(old, Some(doc! { "_id": 3, "n": 3 }));
    let new = modified(&*db, n(change(rawdoc! {}, set(-1), true))).await;
    assert_eq!(new, Some(doc! { "_id": 2, "n": -1 }));
    let put = DocumentChange::Replacement(rawdoc! { "n": 5, "x": 1 });
    let replaced = modified(&*db, change(rawdoc! { "_id": 1 }, put, true)).await;
    assert_eq!(replaced, Some(doc! { "_id": 1, "n": 5, "x": 1 }));
    let ns: Vec<_> = find_sorted(&*db, rawdoc! {}).await;
    let ns: Vec<_> = ns.iter().map(|found| found.get_i32("n").unwrap()).collect();
    assert_eq!(ns, [5, -1, 0]);
}

pub async fn deletes_in_order(db: Fixture) {
    let db = db.backend();
    insert_three_things(&*db).await;
    let delete = FindAndModify {
        sort: Some(rawdoc! { "n": -1 }),
        projection: Some(rawdoc! { "_id": 1 }),
        ..modify(rawdoc! { "n": { "$lt": 3 } }, FindAndModifyKind::Delete)
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
    assert_eq!(find_sorted(&*db, rawdoc! {}).await.len(), 1);
}

pub async fn array_filters_and_positions(db: Fixture) {
    let db = db.backend();
    insert_three_things(&*db).await;
    let named = DocumentChange::Operators {
        update: rawdoc! { "$set": { "tags.$[big]": 11 } },
        array_filters: vec![rawdoc! { "big": { "$gt": 9 } }],
    };
    let new = modified(&*db, change(rawdoc! { "_id": 1 }, named, true)).await;
    assert_eq!(new, Some(doc! { "_id": 1, "n": 1, "tags": [1, 11] }));
    let position = DocumentChange::operators(rawdoc! { "$set": { "tags.$": 0 } });
    let new = modified(&*db, change(rawdoc! { "tags": 11 }, position, true)).await;
    assert_eq!(new, Some(doc! { "_id": 1, "n": 1, "tags": [1, 0] }));
}

pub async fn no_match_gives_nothing_or_inserts(db: Fixture) {
    let db = db.backend();
    let filter = |id: i32| rawdoc! { "_id": id };
    assert_eq!(modified(&*db, change(filter(1), set(1), true)).await, None);
    assert!(find_sorted(&*db, rawdoc! {}).await.is_empty());
    let before = upsert(change(filter(1), set(1), false));
    assert_eq!(modified(&*db, before).await, None);
    let after = upsert(change(filter(2), set(1), true));
    let new = doc! { "_id": 2, "n": 1 };
    assert_eq!(modified(&*db, after.clone()).await, Some(new.clone()));
    assert_eq!(modified(&*db, after).await, Some(new.clone()));
    let put = DocumentChange::Replacement(rawdoc! { "x": 1 });
    let replaced = upsert(change(filter(3), put, true));
    let replaced = modified(&*db, replaced).await;
    assert_eq!(replaced, Some(doc! { "_id": 3, "x": 1 }));
    assert_eq!(
        find_sorted(&*db, rawdoc! {}).await,
        [doc! { "_id": 1, "n": 1 }, new, doc! { "_id": 3, "x": 1 }]
    );
}

pub async fn an_error_changes_nothing(db: Fixture) {
    let db = db.backend();
    let index = Index::new(vec![("n".to_owned(), Direction::Ascending)]);
    db.create_indexes(TEST_COLLECTION, vec![unique(index)])
        .await
        .unwrap();
    insert_three_things(&*db).await;
    let before = find_sorted(&*db, rawdoc! {}).await;
    let error = db.find_and_modify(change(rawdoc! {}, set(1), false)).await;
    let error = error.unwrap_err();
    assert!(error.is_duplicate_key());
    assert_eq!(error.index(), Some("n_1"));
    assert_eq!(error.value(), Some(&bson!({ "n": 1 })));
    assert_eq!(error.collection(), Some(TEST_COLLECTION));
    let kind = |change: DocumentChange| {
        let db = db.clone();
        async move {
            let modify = self::change(rawdoc! {}, change, true);
            db.find_and_modify(modify).await.unwrap_err().kind()
        }
    };
    let id = DocumentChange::operators(rawdoc! { "$set": { "_id": 9 } });
    assert_eq!(kind(id).await, ErrorKind::Invalid);
    let nonsense = DocumentChange::operators(rawdoc! { "$nonsense": { "a": 1 } });
    assert_eq!(kind(nonsense).await, ErrorKind::Unsupported);
    let operators = DocumentChange::Replacement(rawdoc! { "$set": { "n": 1 } });
    assert_eq!(kind(operators).await, ErrorKind::Invalid);
    let plain = DocumentChange::operators(rawdoc! { "n": 1 });
    assert_eq!(kind(plain).await, ErrorKind::Invalid);
    assert_eq!(find_sorted(&*db, rawdoc! {}).await, before);
}

/// Each of several concurrent operations takes a different document.
pub async fn concurrent_takes_get_different_documents(db: Fixture) {
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
                .map(|document| document.get_i32("_id").unwrap())
        })
    });
    let mut ids = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        ids.push(task.await.unwrap().expect("there is one for everybody"));
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..20).collect::<Vec<_>>());
}

pub async fn changes_in_a_transaction_are_invisible_outside(db: Fixture) {
    let db = db.backend();
    if !db.capabilities().transactions {
        return;
    }
    insert_three_things(&*db).await;
    let tx = db.begin().await.unwrap();
    for value in [7, 8] {
        let new = modified(&*tx, change(rawdoc! { "_id": 1 }, set(value), true)).await;
        assert_eq!(new.unwrap().get_i32("n").unwrap(), value);
    }
    assert_eq!(find_sorted(&*db, rawdoc! { "n": 8 }).await.len(), 0);
    tx.commit().await.unwrap();
    assert_eq!(find_sorted(&*db, rawdoc! { "n": 8 }).await.len(), 1);

    let tx = db.begin().await.unwrap();
    let id = DocumentChange::operators(rawdoc! { "$set": { "_id": 9 } });
    let error = tx.find_and_modify(change(rawdoc! {}, id, true)).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(
        tx.commit().await.unwrap_err().kind(),
        ErrorKind::TransactionOver
    );
}
