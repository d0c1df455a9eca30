//! Tests of upserts: an update of a document, or an insert if the document is missing.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use odm::{
    ErrorKind,
    action::Upserted,
    backend::{Fault, Faults, Recorder, operation::Operation},
    bson::doc,
};

use crate::{
    Fixture,
    models::{Db, NewTask, Post, Product, Shop, Task},
};

fn post(votes: i64) -> Post {
    Post {
        votes,
        ..Post::new(1, "alex", &["new"])
    }
}

pub async fn an_upsert_inserts_or_updates(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    let visit = || {
        db.update::<Post>(1)
            .inc(|p| p.votes(), 1)
            .push(
                |p| p.comments(),
                crate::models::Comment {
                    who: "jane".into(),
                    votes: 0,
                    hidden: None,
                },
            )
            .or_insert(post(1))
    };
    let Upserted::Inserted(first) = visit().await.unwrap() else {
        panic!("there was none");
    };
    // The insert stores the given document without the changes of the update.
    assert_eq!(first, post(1));
    assert_eq!(db.get::<Post>(1).await.unwrap(), post(1));
    recorder.clear();
    let Upserted::Updated(done) = visit().await.unwrap() else {
        panic!("there was one");
    };
    assert_eq!((done.matched, done.modified), (1, 1));
    assert_eq!(recorder.operations().len(), 1);
    let stored = db.get::<Post>(1).await.unwrap();
    assert_eq!((stored.votes, stored.comments.len()), (2, 1));
}

pub async fn an_upsert_returns_the_document(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let next = || {
        db.update::<Post>(1)
            .inc(|p| p.votes(), 1)
            .or_insert(post(1))
    };
    for expected in 1..=3 {
        let post = next().returning_after().await.unwrap();
        assert_eq!(post.is_inserted(), expected == 1);
        assert_eq!(post.into_inner().votes, expected);
    }
    let before = next().returning_before().await.unwrap();
    assert_eq!(before.into_inner().votes, 3);
}

pub async fn an_unmet_condition_does_not_insert(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let spend = || {
        let update = db.update::<Post>(1).when(|p| p.votes().gte(5));
        update.inc(|p| p.votes(), -5).or_insert(post(7))
    };
    let done = spend().await.unwrap().expect_applied().unwrap();
    assert!(done.is_inserted());
    let done = spend().await.unwrap().expect_applied().unwrap();
    assert!(!done.is_inserted());
    assert!(!spend().await.unwrap().is_applied());
    assert!(!spend().returning_after().await.unwrap().is_applied());
    assert_eq!(db.get::<Post>(1).await.unwrap().votes, 2);
    // A condition of `None` is no condition.
    let any = db.update::<Post>(1).when(|_| None).inc(|p| p.votes(), 1);
    let done = any.or_insert(post(0)).await.unwrap();
    assert!(done.is_applied());
}

pub async fn invalid_upserts_are_rejected(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    let other = db
        .update::<Post>(2)
        .inc(|p| p.votes(), 1)
        .or_insert(post(1));
    let error = other.await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path(), error.model()),
        (ErrorKind::Invalid, Some("_id"), Some("Post"))
    );
    let mut long = post(1);
    long.voters = ["a", "b", "c", "d"].map(Into::into).into();
    let long = db.update::<Post>(1).inc(|p| p.votes(), 1).or_insert(long);
    let error = long.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooManyElements);
    let nothing = db.update::<Post>(1).or_insert(post(1)).await;
    assert_eq!(nothing.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(recorder.operations().len(), 0, "nothing was asked");

    // A full array does not count as a missing document.
    db.insert(post(1)).await.unwrap();
    let push = || {
        db.update::<Post>(1)
            .push(|p| p.voters(), "x")
            .or_insert(post(1))
    };
    for _ in 0..3 {
        assert!(!push().await.unwrap().is_inserted());
    }
    let error = push().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::TooManyElements, Some("voters"))
    );
}

pub async fn a_duplicate_of_another_key_is_an_error(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let product = |id: i64| Product {
        id,
        name: "left wheel".into(),
        catalog_number: 5,
        parts: Vec::new(),
        main_part: None,
        spares: Vec::new(),
    };
    db.insert(product(1)).await.unwrap();
    let update = db.update::<Product>(2).set(|p| p.name(), "right wheel");
    let error = update.or_insert(product(2)).await.unwrap_err();
    assert!(error.is_duplicate_key(), "{error:?}");
    assert_eq!(
        (error.model(), error.index(), error.value()),
        (
            Some("Product"),
            Some("catalogNumber_1"),
            Some(&doc! { "catalogNumber": 5_i64 }.into())
        )
    );
    assert_eq!(db.find::<Product>().count().await.unwrap(), 1);
}

pub async fn managed_fields_are_set(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let done = || {
        let new = NewTask {
            id: 1,
            description: "paint".into(),
            done: false,
        };
        let update = db.update::<Task>(1).set(|t| t.done(), true);
        update.or_insert(new).returning_after()
    };
    let first = done().await.unwrap().into_inner();
    assert_eq!((first.revision, first.done), (1, false));
    assert_eq!(first.created_at, first.updated_at);
    let second = done().await.unwrap().into_inner();
    assert_eq!((second.revision, second.done), (2, true));
    assert_eq!(second.created_at, first.created_at);
}

/// A single caller inserts, the remaining callers update, and no update is lost.
pub async fn concurrent_upserts_have_one_insert(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let count = |db: Db| async move {
        let product = Product {
            id: 1,
            name: "wheel".into(),
            // The id and the unique key collide together, so that the server may report either of both.
            catalog_number: 1,
            parts: Vec::new(),
            main_part: None,
            spares: Vec::new(),
        };
        let update = db.update::<Product>(1).inc(|p| p.catalog_number(), 1);
        update.or_insert(product).await.unwrap().is_inserted()
    };
    let callers: Vec<_> = (0..64).map(|_| tokio::spawn(count(db.clone()))).collect();
    let mut inserted = 0;
    for caller in callers {
        inserted += i32::from(caller.await.unwrap());
    }
    assert_eq!(inserted, 1);
    assert_eq!(db.get::<Product>(1).await.unwrap().catalog_number, 64);
}

pub async fn concurrent_upserts_in_transactions(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    if !fixture.backend().capabilities().transactions {
        return;
    }
    // Creates the collection outside of the transaction, so that the document is the only conflict.
    db.sync_indexes().await.unwrap();
    let runs = Arc::new(AtomicU32::new(0));
    let work = |tx: odm::Transaction<Shop>| {
        let other = Db::with_backend(fixture.backend());
        let runs = Arc::clone(&runs);
        async move {
            // The transaction takes a snapshot before the concurrent insert.
            tx.find::<Post>().count().await?;
            if runs.fetch_add(1, Ordering::Relaxed) == 0 {
                other.insert(post(5)).await?;
            }
            let update = tx.update::<Post>(1).inc(|p| p.votes(), 1);
            update.or_insert(post(1)).await
        }
    };
    let done = db.transaction(work).await.unwrap();
    assert!(!done.is_inserted());
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert_eq!(db.get::<Post>(1).await.unwrap().votes, 6);

    // A condition that does not match does not end the transaction.
    let work = |tx: odm::Transaction<Shop>| async move {
        let update = tx.update::<Post>(1).when(|p| p.votes().gt(100));
        let done = update.inc(|p| p.votes(), 1).or_insert(post(1)).await?;
        assert!(!done.is_applied());
        tx.update::<Post>(1).inc(|p| p.votes(), 1).await
    };
    db.transaction(work).await.unwrap();
    assert_eq!(db.get::<Post>(1).await.unwrap().votes, 7);
}

/// A duplicate key in a transaction is a concurrent insert, so that odm restarts the transaction.
pub async fn a_duplicate_in_a_transaction_is_a_conflict(fixture: Fixture) {
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let faults = Arc::new(Faults::new(fixture.backend()));
    let db = Db::with_backend(faults.clone());
    db.sync_indexes().await.unwrap();
    let duplicate = odm::Error::new(ErrorKind::DuplicateKey, "injected");
    faults.inject(
        1,
        |operation| matches!(operation, Operation::Insert(_)),
        Fault::FailBefore(duplicate.with_index("_id_", doc! { "_id": 1 })),
    );
    let runs = AtomicU32::new(0);
    let work = |tx: odm::Transaction<Shop>| {
        runs.fetch_add(1, Ordering::Relaxed);
        async move {
            let update = tx.update::<Post>(1).inc(|p| p.votes(), 1);
            update.or_insert(post(1)).await
        }
    };
    assert!(db.transaction(work).await.unwrap().is_inserted());
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}
