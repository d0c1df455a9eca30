//! Bulks: several writes in few round trips.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use odm::{
    ErrorKind, Filter,
    action::{BulkReport, BulkResult},
    backend::{Recorder, operation::Operation},
    bson::doc,
};

use crate::{
    Fixture,
    models::{Db, Maker, NewTask, Post, Product, Shop, Task},
};

fn maker(id: &str) -> Maker {
    Maker {
        id: id.into(),
        country: "de".into(),
    }
}

fn product(id: i64, catalog_number: i64) -> Product {
    Product {
        id,
        name: "wheel".into(),
        catalog_number,
        parts: Vec::new(),
        main_part: None,
        spares: Vec::new(),
    }
}

/// Returns a sign for each result: `+` applied, `-` not applied, `!` failed, `.` not attempted.
fn results(report: &BulkReport) -> String {
    let sign = |result: &BulkResult| match result {
        BulkResult::Applied => '+',
        BulkResult::NotApplied => '-',
        BulkResult::Failed(_) => '!',
        BulkResult::NotAttempted => '.',
    };
    report.results.iter().map(sign).collect()
}

async fn blog(fixture: &Fixture) -> (Db, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.sync_indexes().await.unwrap();
    let posts = (1..=5).map(|id| Post {
        votes: id,
        ..Post::new(id, "alex", &[])
    });
    db.insert_many(posts).await.unwrap();
    recorder.clear();
    (db, recorder)
}

pub async fn mixed_writes_in_order(fixture: Fixture) {
    let (db, recorder) = blog(&fixture).await;
    let report = db
        .bulk()
        .add(db.insert(Post::new(6, "kim", &[])))
        .add(db.insert(maker("acme")))
        .add(db.update::<Post>(6).inc(|p| p.votes(), 1))
        .add(db.update::<Post>(6).inc(|p| p.votes(), 2))
        .add(
            db.update_many::<Post>(|p| p.author().eq("alex"))
                .set(|p| p.title(), "x"),
        )
        .add(
            db.update_many::<Post>(|p| p.author().eq("nobody"))
                .set(|p| p.title(), "y"),
        )
        .add(db.delete::<Post>(1))
        .add(db.delete::<Post>(99))
        .add(db.delete_many::<Post>(|p| p.votes().gte(4)))
        .add(db.update::<Maker>("acme").set(|m| m.country(), "fr"))
        .await
        .unwrap()
        .into_result()
        .unwrap();
    assert_eq!(results(&report), "++++++++++");
    assert_eq!((report.inserted, report.matched, report.deleted), (2, 8, 3));
    assert_eq!(report.modified, 8);
    assert_eq!(recorder.operations().len(), 1);
    let votes = db
        .find::<Post>()
        .sort(|p| p.id().asc())
        .all()
        .await
        .unwrap();
    let votes: Vec<_> = votes.iter().map(|p| (p.id, p.votes, &*p.title)).collect();
    assert_eq!(votes, [(2, 2, "x"), (3, 3, "x"), (6, 3, "post 6")]);
    assert_eq!(db.get::<Maker>("acme").await.unwrap().country, "fr");

    let none = db.bulk().await.unwrap();
    assert!(none.is_ok() && none.results.is_empty());
}

/// A bulk of 150 writes is one operation. A unit test of the MongoDB adapter shows that the operation takes three commands.
pub async fn many_writes_are_one_operation(fixture: Fixture) {
    let (db, recorder) = blog(&fixture).await;
    let posts = (100..150).map(|id| db.insert(Post::new(id, "kim", &[])));
    let makers = (0..50).map(|n| db.insert(maker(&format!("maker {n}"))));
    let votes = (0..50).map(|n| db.update::<Post>(n % 5 + 1).inc(|p| p.votes(), 1));
    let report = db.bulk().add_all(posts).add_all(makers).add_all(votes);
    let report = report.await.unwrap().into_result().unwrap();
    assert_eq!(
        (report.inserted, report.matched, report.modified),
        (100, 50, 50)
    );
    assert_eq!((recorder.writes(), recorder.operations().len()), (1, 1));
    for id in 1..=5 {
        assert_eq!(db.get::<Post>(id).await.unwrap().votes, id + 10);
    }
}

pub async fn a_failure_ends_an_ordered_bulk(fixture: Fixture) {
    let (db, _) = blog(&fixture).await;
    let report = db
        .bulk()
        .add(db.insert(product(1, 1)))
        .add(db.insert(product(2, 2)))
        .add(db.insert(product(3, 1)))
        .add(db.insert(product(4, 4)))
        .add(db.update::<Post>(1).inc(|p| p.votes(), 1))
        .await
        .unwrap();
    assert_eq!(results(&report), "++!..");
    assert_eq!((report.inserted, report.matched), (2, 0));
    let error = report.into_result().unwrap_err();
    assert!(error.is_duplicate_key());
    assert_eq!(
        (error.model(), error.index(), error.value()),
        (
            Some("Product"),
            Some("catalogNumber_1"),
            Some(&doc! { "catalogNumber": 1_i64 }.into())
        )
    );
    assert_eq!(error.failures().map(|(at, _)| at).collect::<Vec<_>>(), [2]);
    assert_eq!(db.find::<Product>().count().await.unwrap(), 2);

    // An update by id of a missing document is a failure, without a condition and with a condition.
    let up = |id: i64| db.update::<Post>(id).inc(|p| p.votes(), 1);
    let report = db
        .bulk()
        .add_all([up(1), up(2), up(77), up(3)])
        .await
        .unwrap();
    assert_eq!(results(&report), "++!.");
    let error = report.into_result().unwrap_err();
    assert!(error.is_not_found(), "{error:?}");
    assert_eq!(
        (error.id(), error.model()),
        (Some(&77_i64.into()), Some("Post"))
    );
    assert_eq!(db.get::<Post>(3).await.unwrap().votes, 3);
}

pub async fn an_unordered_bulk_continues_after_failures(fixture: Fixture) {
    let (db, _) = blog(&fixture).await;
    let report = db
        .bulk()
        .add(db.insert(product(1, 1)))
        .add(db.update::<Post>(77).inc(|p| p.votes(), 1))
        .add(db.insert(product(3, 1)))
        .add(db.insert(maker("acme")))
        .add(db.update::<Post>(1).inc(|p| p.votes(), 1))
        .add(db.insert(product(4, 4)))
        .add(db.update::<Post>(2).set(|p| p.scores().key("a.b"), 1))
        .add(
            db.update::<Post>(3)
                .when(|p| p.votes().gt(100))
                .inc(|p| p.votes(), 1),
        )
        .add(db.insert(product(1, 9)))
        .unordered()
        .await
        .unwrap();
    assert_eq!(results(&report), "+!!+++!-!");
    assert_eq!(
        (report.inserted, report.matched, report.modified),
        (3, 1, 1)
    );
    let kinds: Vec<_> = report
        .failures()
        .map(|(at, error)| (at, error.kind()))
        .collect();
    assert_eq!(
        kinds,
        [
            (1, ErrorKind::NotFound),
            (2, ErrorKind::DuplicateKey),
            (6, ErrorKind::Invalid),
            (8, ErrorKind::DuplicateKey),
        ]
    );
    let error = report.results[8].error().unwrap();
    assert_eq!(
        (error.index(), error.id()),
        (Some("_id_"), Some(&1_i64.into()))
    );
}

/// An unmet condition is no failure, so the next writes run.
pub async fn unmet_conditions_are_reported_per_write(fixture: Fixture) {
    let (db, _) = blog(&fixture).await;
    let spend = |id: i64| {
        let update = db.update::<Post>(id).when(|p| p.votes().gte(3));
        update.inc(|p| p.votes(), -3)
    };
    let report = db
        .bulk()
        .add_all([1, 5, 2, 3, 99, 4, 4].map(spend))
        .await
        .unwrap();
    assert!(report.is_ok());
    assert_eq!(results(&report), "-+-+-+-");
    assert_eq!((report.matched, report.modified), (3, 3));
    let posts = db
        .find::<Post>()
        .sort(|p| p.id().asc())
        .all()
        .await
        .unwrap();
    assert_eq!(
        posts.iter().map(|p| p.votes).collect::<Vec<_>>(),
        [1, 2, 0, 1, 2]
    );

    let gone = |id: i64| db.delete::<Post>(id).when(|p| p.votes().lt(2));
    let report = db
        .bulk()
        .add_all([1, 2, 3, 99].map(gone))
        .unordered()
        .await
        .unwrap();
    assert_eq!(results(&report), "+-+-");
    assert_eq!(
        (report.deleted, db.find::<Post>().count().await.unwrap()),
        (2, 3)
    );
}

pub async fn a_full_array_fails_only_its_write(fixture: Fixture) {
    let (db, _) = blog(&fixture).await;
    let vote = |id: i64, who: &'static str| {
        let update = db.update::<Post>(id).when(|p| p.voters().excludes(who));
        update.push(|p| p.voters(), who)
    };
    let votes = || [(1, "a"), (1, "a"), (1, "b"), (1, "c"), (1, "d"), (2, "d")];
    let report = db.bulk().add_all(votes().map(|(id, who)| vote(id, who)));
    let report = report.await.unwrap();
    assert_eq!(results(&report), "+-++!.");
    let (at, error) = report.failures().next().unwrap();
    assert_eq!(
        (at, error.kind(), error.path(), error.id()),
        (
            4,
            ErrorKind::TooManyElements,
            Some("voters"),
            Some(&1_i64.into())
        )
    );
    let report = db.bulk().add_all(votes().map(|(id, who)| vote(id, who)));
    let report = report.unordered().await.unwrap();
    assert_eq!(results(&report), "----!+");
    // An update of many documents changes no document if one array is full. Earlier writes of the bulk are applied.
    let report = db
        .bulk()
        .add(db.update::<Post>(1).pop_last(|p| p.voters()))
        .add(
            db.update_many::<Post>(|_| Filter::all())
                .push(|p| p.voters(), "x"),
        )
        .add(
            db.update_many::<Post>(|_| Filter::all())
                .push(|p| p.voters(), "y"),
        )
        .await
        .unwrap();
    assert_eq!(results(&report), "++!");
    assert_eq!(db.get::<Post>(5).await.unwrap().voters, ["x"]);
}

pub async fn managed_fields_are_set(fixture: Fixture) {
    let (db, _) = blog(&fixture).await;
    let new = |id| NewTask {
        id,
        description: "paint".into(),
        done: false,
    };
    let report = db
        .bulk()
        .add(db.insert(new(1)))
        .add(db.insert(new(2)))
        .add(db.update::<Task>(1).set(|t| t.done(), true))
        .add(
            db.update_many::<Task>(|_| Filter::all())
                .set(|t| t.description(), "x"),
        )
        .await
        .unwrap();
    assert!(report.is_ok());
    let tasks = db
        .find::<Task>()
        .sort(|t| t.id().asc())
        .all()
        .await
        .unwrap();
    let revisions: Vec<_> = tasks.iter().map(|task| task.revision).collect();
    assert_eq!(revisions, [3, 2]);
    assert!(tasks[0].updated_at >= tasks[0].created_at);
}

pub async fn a_bulk_in_a_transaction_is_atomic(fixture: Fixture) {
    let (db, _) = blog(&fixture).await;
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let work = |tx: odm::Transaction<Shop>| async move {
        let up = |id: i64| tx.update::<Post>(id).inc(|p| p.votes(), 1);
        let report = tx
            .bulk()
            .add(tx.insert(product(1, 1)))
            .add_all([up(1), up(2)])
            .add(up(3).when(|p| p.votes().gt(100)))
            .add(tx.delete::<Post>(5))
            .await?
            .into_result()?;
        assert_eq!(results(&report), "+++-+");
        Ok::<_, odm::Error>(())
    };
    db.transaction(work).await.unwrap();
    assert_eq!(db.get::<Post>(1).await.unwrap().votes, 2);
    assert_eq!(db.find::<Post>().count().await.unwrap(), 4);

    let work = |tx: odm::Transaction<Shop>| async move {
        let report = tx
            .bulk()
            .add(tx.update::<Post>(1).inc(|p| p.votes(), 1))
            .add(tx.insert(product(2, 2)))
            .add(tx.insert(product(3, 1)))
            .add(tx.insert(product(4, 4)))
            .unordered();
        let report = report.await?;
        // The first failure ended the transaction.
        assert!(tx.get::<Post>(1).await.is_err());
        assert!(matches!(report.results[3], BulkResult::NotAttempted));
        report.into_result().map(drop)
    };
    let error = db.transaction(work).await.unwrap_err();
    assert!(error.is_duplicate_key(), "{error:?}");
    assert_eq!(error.failures().map(|(at, _)| at).collect::<Vec<_>>(), [2]);
    assert_eq!(db.get::<Post>(1).await.unwrap().votes, 2);
    assert_eq!(db.find::<Product>().count().await.unwrap(), 1);
}

pub async fn an_invalid_write_fails_in_its_place(fixture: Fixture) {
    let (db, _) = blog(&fixture).await;
    let long = Post {
        voters: ["a", "b", "c", "d"].map(Into::into).into(),
        ..Post::new(8, "kim", &[])
    };
    let report = db
        .bulk()
        .add(db.insert(Post::new(7, "kim", &[])))
        .add(db.insert(long))
        .add(db.insert(Post::new(9, "kim", &[])))
        .await
        .unwrap();
    assert_eq!(results(&report), "+!.");
    let error = report.into_result().unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::TooManyElements, Some("voters"))
    );

    let elsewhere = Db::open("memory:").await.unwrap();
    let report = db.bulk().add(elsewhere.delete::<Post>(7)).await.unwrap();
    let error = report.into_result().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(db.find_by_id::<Post>(7).await.unwrap().is_some());
}

pub async fn upserts_run_in_order(fixture: Fixture) {
    let (db, _) = blog(&fixture).await;
    let vote = |id: i64| {
        db.update::<Post>(id)
            .inc(|p| p.votes(), 10)
            .or_insert(Post::new(id, "kim", &[]))
    };
    let other = db.update::<Post>(2).inc(|p| p.votes(), 10);
    let unmet = db.update::<Post>(1).when(|p| p.votes().gt(100));
    let report = db
        .bulk()
        .add(vote(1))
        .add(vote(6))
        .add(vote(6))
        .add(
            unmet
                .inc(|p| p.votes(), 1)
                .or_insert(Post::new(1, "kim", &[])),
        )
        .add(other.or_insert(Post::new(3, "kim", &[])))
        .add(vote(4))
        .await
        .unwrap();
    assert_eq!(results(&report), "+++-!.");
    assert_eq!(
        (report.inserted, report.matched, report.modified),
        (1, 2, 2)
    );
    let (_, error) = report.failures().next().unwrap();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("_id"))
    );
    let votes = |id| {
        let post = db.get::<Post>(id).into_future();
        async { post.await.unwrap().votes }
    };
    assert_eq!(
        (
            votes(1).await,
            votes(6).await,
            votes(2).await,
            votes(4).await
        ),
        (11, 10, 2, 4)
    );
    assert_eq!(db.get::<Post>(1).await.unwrap().author, "alex");
}

/// Takes the amounts from the votes of the posts 1, 2, …, and inserts a product, in one transaction.
async fn place_order(db: &Db, order: i64, amounts: &[i64]) -> odm::Result<()> {
    db.transaction(async |tx| {
        let take = |(id, amount): (i64, &i64)| {
            let update = tx.update::<Post>(id).when(|p| p.votes().gte(*amount));
            update.inc(|p| p.votes(), -amount)
        };
        let takes = (1..).zip(amounts).map(take);
        tx.bulk().add_all(takes).all_or_nothing().await?;
        tx.insert(product(order, order)).await.map(drop)
    })
    .await
}

/// Returns a database with ten posts, each with ten votes. A standalone server must refuse the transaction of an order.
async fn ten_posts(fixture: &Fixture) -> Option<(Db, Arc<Recorder>)> {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.sync_indexes().await.unwrap();
    let posts = (1..=10).map(|id| Post {
        votes: 10,
        ..Post::new(id, "alex", &[])
    });
    db.insert_many(posts).await.unwrap();
    recorder.clear();
    if fixture.backend().capabilities().transactions {
        return Some((db, recorder));
    }
    let error = place_order(&db, 1, &[1]).await.unwrap_err();
    assert!(error.is_unsupported(), "{error:?}");
    assert_eq!(votes(&db).await, [10; 10]);
    None
}

async fn votes(db: &Db) -> Vec<i64> {
    let posts = db.find::<Post>().sort(|p| p.id().asc()).all().await;
    posts.unwrap().iter().map(|post| post.votes).collect()
}

/// Returns the positions of the writes that did not apply.
fn positions(error: &odm::Error) -> Vec<usize> {
    error.failures().map(|(position, _)| position).collect()
}

pub async fn an_order_of_ten_lines_is_few_operations(fixture: Fixture) {
    let Some((db, recorder)) = ten_posts(&fixture).await else {
        return;
    };
    place_order(&db, 1, &[3; 10]).await.unwrap();
    let operations = recorder.operations();
    assert!(operations.len() <= 6, "{operations:?}");
    let bulks = operations.iter().filter_map(|operation| match operation {
        Operation::BulkWrite(bulk) => Some(bulk.writes.len()),
        _ => None,
    });
    assert_eq!(bulks.collect::<Vec<_>>(), [10]);
    assert_eq!(votes(&db).await, [7; 10]);

    // The fourth line does not apply: the transaction ends there, and writes nothing.
    recorder.clear();
    let error = place_order(&db, 2, &[1, 1, 1, 8, 9, 1]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotApplied);
    assert_eq!(positions(&error), [3]);
    assert_eq!(error.collection(), Some("posts"));
    assert_eq!(error.id(), Some(&4_i64.into()));
    assert!(
        recorder.operations().len() <= 3,
        "{:?}",
        recorder.operations()
    );
    assert_eq!(votes(&db).await, [7; 10]);
    assert_eq!(db.find::<Product>().count().await.unwrap(), 1);
}

pub async fn all_or_nothing_ends_the_transaction(fixture: Fixture) {
    let Some((db, recorder)) = ten_posts(&fixture).await else {
        return;
    };
    // Outside of a transaction, the earlier writes would stay.
    recorder.clear();
    let bulk = db.bulk().add(db.update::<Post>(1).inc(|p| p.votes(), 1));
    let error = bulk.all_or_nothing().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(recorder.operations().is_empty());

    // An ignored error does not commit the earlier writes.
    let ignored = db.transaction(async |tx| -> odm::Result<()> {
        let unmet = tx.delete::<Post>(2).when(|p| p.votes().eq(0));
        let bulk = tx.bulk().add(tx.update::<Post>(1).inc(|p| p.votes(), 1));
        let error = bulk.add(unmet).all_or_nothing().await.unwrap_err();
        assert_eq!(positions(&error), [1]);
        Ok(())
    });
    assert_eq!(ignored.await.unwrap_err().kind(), ErrorKind::NotApplied);

    // After the error, a later read of the transaction fails, and the transaction does not run again.
    let runs = AtomicUsize::new(0);
    let read = db.transaction(async |tx| {
        runs.fetch_add(1, Ordering::Relaxed);
        let unmet = tx
            .update::<Post>(2)
            .when(|p| p.votes().eq(0))
            .inc(|p| p.votes(), 1);
        let bulk = tx.bulk().add(tx.update::<Post>(1).inc(|p| p.votes(), 1));
        let error = bulk.add(unmet).all_or_nothing().await.unwrap_err();
        let _ = tx.find::<Post>().count().await;
        odm::Result::<()>::Err(error)
    });
    assert_eq!(read.await.unwrap_err().kind(), ErrorKind::NotApplied);
    assert_eq!(runs.into_inner(), 1);

    // Each write keeps its own error.
    let full = |tx: &odm::Transaction<Shop>| {
        let push = tx.update::<Post>(3).when(|p| p.votes().gte(0));
        push.push_each(|p| p.voters(), ["a", "b", "c", "d"])
    };
    for (kind, write) in [
        (ErrorKind::NotFound, 0),
        (ErrorKind::TooManyElements, 1),
        (ErrorKind::DuplicateKey, 2),
        (ErrorKind::NotApplied, 3),
    ] {
        let failed = db.transaction(async |tx| -> odm::Result<()> {
            let bulk = tx.bulk().add(tx.update::<Post>(1).inc(|p| p.votes(), 1));
            let bulk = match write {
                0 => bulk.add(tx.update::<Post>(99).inc(|p| p.votes(), 1)),
                1 => bulk.add(full(&tx)),
                2 => bulk.add(tx.insert(Post::new(1, "alex", &[]))),
                _ => bulk.add(
                    tx.update::<Post>(99)
                        .when(|p| p.votes().gt(0))
                        .inc(|p| p.votes(), 1),
                ),
            };
            let bulk = bulk.add(tx.update::<Post>(2).inc(|p| p.votes(), 1));
            bulk.all_or_nothing().await
        });
        let error = failed.await.unwrap_err();
        assert_eq!(
            (error.kind(), positions(&error)),
            (kind, vec![1]),
            "{error:?}"
        );
    }
    assert_eq!(votes(&db).await, [10; 10]);

    // A write of many documents always applies.
    let written = db.transaction(async |tx| -> odm::Result<()> {
        let many = tx
            .update_many::<Post>(|p| p.votes().lt(0))
            .inc(|p| p.votes(), 1);
        let one = tx.update::<Post>(1).when(|p| p.votes().eq(10));
        let bulk = tx.bulk().add(many).add(one.set(|p| p.votes(), 9));
        bulk.unordered().all_or_nothing().await
    });
    written.await.unwrap();
    assert_eq!(db.get::<Post>(1).await.unwrap().votes, 9);
}

pub async fn concurrent_orders_never_oversell(fixture: Fixture) {
    let Some((db, _)) = ten_posts(&fixture).await else {
        return;
    };
    let orders = (1..=6).map(|order| {
        let db = db.clone();
        tokio::spawn(async move { place_order(&db, order, &[3; 10]).await })
    });
    let mut placed = 0;
    for order in orders.collect::<Vec<_>>() {
        match order.await.unwrap() {
            Ok(()) => placed += 1,
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotApplied, "{error:?}"),
        }
    }
    assert_eq!(placed, 3);
    assert_eq!(votes(&db).await, [1; 10]);
    assert_eq!(db.find::<Product>().count().await.unwrap(), 3);
}
