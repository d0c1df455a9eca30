use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use odm::{Error, ErrorKind, backend::BoxFuture};

use crate::{
    Fixture,
    models::{Db, Post},
};

/// A database with transactions and two posts; none on a standalone server, which must say so.
async fn bank(fixture: &Fixture) -> Option<Db> {
    let db = Db::with_backend(fixture.backend());
    db.insert_many([Post::new(1, "from", &[]), Post::new(2, "to", &[])])
        .await
        .unwrap();
    db.update::<Post>(1).set(|p| p.votes(), 100).await.unwrap();
    if db.backend().capabilities().transactions {
        return Some(db);
    }
    let refused = db.transaction(|_| async { Ok(()) }).await.unwrap_err();
    assert!(refused.is_unsupported(), "{refused:?}");
    None
}

async fn votes(db: &odm::Session<crate::models::Shop>, id: i64) -> i64 {
    db.get::<Post>(id).await.unwrap().votes
}

pub async fn all_or_nothing(fixture: Fixture) {
    let Some(db) = bank(&fixture).await else {
        return;
    };
    let moved = db
        .transaction(|tx| async move {
            let from = tx
                .update::<Post>(1)
                .when(|p| p.votes().gte(30))
                .inc(|p| p.votes(), -30);
            from.await?.expect_applied()?;
            tx.update::<Post>(2).inc(|p| p.votes(), 30).await?;
            // It sees its own writes.
            Ok(votes(&tx, 2).await)
        })
        .await
        .unwrap();
    assert_eq!(moved, 30);
    assert_eq!((votes(&db, 1).await, votes(&db, 2).await), (70, 30));

    let error = db
        .transaction(|tx| async move {
            tx.update::<Post>(2).inc(|p| p.votes(), 1_000).await?;
            tx.insert(Post::new(3, "new", &[])).await?;
            let from = tx
                .update::<Post>(1)
                .when(|p| p.votes().gte(1_000))
                .inc(|p| p.votes(), -1_000);
            from.await?.expect_applied()?;
            Ok(())
        })
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotApplied);
    assert_eq!((votes(&db, 1).await, votes(&db, 2).await), (70, 30));
    assert_eq!(db.find_by_id::<Post>(3).await.unwrap(), None);
}

pub async fn an_own_error_aborts(fixture: Fixture) {
    let Some(db) = bank(&fixture).await else {
        return;
    };
    let error = db
        .transaction(|tx| async move {
            tx.delete_many::<Post>(|_| odm::Filter::all()).await?;
            Err::<(), _>(Error::other("changed my mind"))
        })
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Other, "changed my mind")
    );
    assert_eq!(db.find::<Post>().count().await.unwrap(), 2);
}

/// Every attempt reads, waits and writes: without retries and snapshots, updates would be lost.
pub async fn conflicts_are_tried_again(fixture: Fixture) {
    let Some(db) = bank(&fixture).await else {
        return;
    };
    let attempts = Arc::new(AtomicU32::new(0));
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (db, attempts) = (db.clone(), attempts.clone());
            tokio::spawn(async move {
                db.transaction(|tx| {
                    attempts.fetch_add(1, Ordering::Relaxed);
                    async move {
                        let before = tx.get::<Post>(1).await?.votes;
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        tx.update::<Post>(1).set(|p| p.votes(), before + 1).await?;
                        Ok(())
                    }
                })
                .await
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(()) => done += 1,
            Err(error) => assert!(error.is_conflict(), "{error:?}"),
        }
    }
    assert_eq!(votes(&db, 1).await, 100 + done);
    assert!(done >= 1);
    assert!(attempts.load(Ordering::Relaxed) >= 4);
}

pub async fn others_see_nothing_before_the_commit(fixture: Fixture) {
    let Some(db) = bank(&fixture).await else {
        return;
    };
    db.transaction(|tx| {
        let db = db.clone();
        async move {
            tx.update::<Post>(1).set(|p| p.votes(), 1).await?;
            assert_eq!((votes(&tx, 1).await, votes(&db, 1).await), (1, 100));
            assert_eq!(
                tx.find::<Post>()
                    .filter(|p| p.votes().eq(1))
                    .count()
                    .await?,
                1
            );
            Ok(())
        }
    })
    .await
    .unwrap();
    assert_eq!(votes(&db, 1).await, 1);
}

/// What is written through the database would be no part of it, and stay though it is aborted.
pub async fn a_write_beside_it_is_refused(fixture: Fixture) {
    let Some(db) = bank(&fixture).await else {
        return;
    };
    let aside = async |write: for<'d> fn(&'d Db) -> BoxFuture<'d, odm::Result<()>>| {
        let refused = db.transaction(|tx| {
            let db = db.clone();
            async move {
                tx.update::<Post>(1).set(|p| p.votes(), 1).await?;
                write(&db).await
            }
        });
        let error = refused.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutsideTransaction, "{error}");
        assert!(error.to_string().contains("`tx`"), "{error}");
    };
    aside(|db| Box::pin(async { db.insert(Post::new(3, "new", &[])).await.map(drop) })).await;
    aside(|db| {
        Box::pin(async {
            let update = db.update::<Post>(1).set(|p| p.votes(), 2);
            update.await.map(drop)
        })
    })
    .await;
    aside(|db| Box::pin(async { db.delete::<Post>(2).await.map(drop) })).await;
    aside(|db| {
        Box::pin(async {
            let bulk = db.bulk().add(db.delete::<Post>(2));
            bulk.await.map(drop)
        })
    })
    .await;
    aside(|db| Box::pin(db.transaction(|_| async { Ok(()) }))).await;
    assert_eq!((votes(&db, 1).await, votes(&db, 2).await), (100, 0));
    assert_eq!(db.find_by_id::<Post>(3).await.unwrap(), None);

    // What says that it is apart is; and so is another database.
    let other = Db::open("memory:").await.unwrap();
    db.transaction(|tx| {
        let (db, other) = (db.clone(), other.clone());
        async move {
            tx.update::<Post>(1).set(|p| p.votes(), 1).await?;
            other.insert(Post::new(9, "other", &[])).await?;
            let apart = tokio::spawn(async move { db.insert(Post::new(4, "apart", &[])).await });
            apart.await.map_err(Error::other)??;
            Ok(())
        }
    })
    .await
    .unwrap();
    assert_eq!(votes(&db, 1).await, 1);
    assert!(db.find_by_id::<Post>(4).await.unwrap().is_some());
}

/// A caller that gives up leaves nothing behind, and nothing locked.
pub async fn a_dropped_transaction_is_aborted(fixture: Fixture) {
    let Some(db) = bank(&fixture).await else {
        return;
    };
    let gave_up = tokio::time::timeout(
        Duration::from_millis(300),
        db.transaction(|tx| async move {
            tx.update::<Post>(1).set(|p| p.votes(), 1).await?;
            std::future::pending::<()>().await;
            Ok(())
        }),
    );
    assert!(gave_up.await.is_err());
    // The abort runs on its own; a plain write waits for it on MongoDB, and conflicts with nothing on the engine.
    db.update::<Post>(1).inc(|p| p.votes(), 5).await.unwrap();
    assert_eq!(votes(&db, 1).await, 105);
}

pub async fn a_kept_handle_is_over(fixture: Fixture) {
    let Some(db) = bank(&fixture).await else {
        return;
    };
    let mut kept = None;
    db.transaction(|tx| {
        kept = Some((*tx).clone());
        async move { tx.update::<Post>(1).inc(|p| p.votes(), 1).await.map(|_| ()) }
    })
    .await
    .unwrap();
    let error = kept.unwrap().get::<Post>(1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TransactionOver);
}

/// Each reads, waits and writes: of those that overlap one wins, and the others come in their turn.
async fn contend(db: &Db, tasks: u32, hold: Duration, limit: Option<Duration>) {
    let before = votes(db, 1).await;
    let running: Vec<_> = (0..tasks)
        .map(|_| {
            let db = db.clone();
            tokio::spawn(async move {
                let vote = db.transaction(|tx| async move {
                    let votes = tx.get::<Post>(1).await?.votes;
                    tokio::time::sleep(hold).await;
                    tx.update::<Post>(1).set(|p| p.votes(), votes + 1).await?;
                    Ok(())
                });
                match limit {
                    None => vote.await,
                    Some(limit) => vote.timeout(limit).await,
                }
            })
        })
        .collect();
    for task in running {
        task.await.unwrap().unwrap();
    }
    assert_eq!(votes(db, 1).await, before + i64::from(tasks));
}

pub async fn all_of_32_on_one_document_succeed(fixture: Fixture) {
    let Some(db) = bank(&fixture).await else {
        return;
    };
    contend(&db, 32, Duration::from_millis(5), None).await;
}

pub async fn all_of_300_on_one_document_succeed(fixture: Fixture) {
    let Some(db) = bank(&fixture).await else {
        return;
    };
    // As much as a busy machine takes for 300 commits.
    contend(&db, 300, Duration::ZERO, Some(Duration::from_secs(300))).await;
}

pub async fn a_time_limit_aborts(fixture: Fixture) {
    let Some(db) = bank(&fixture).await else {
        return;
    };
    let limit = Duration::from_millis(300);
    let begun = std::time::Instant::now();
    let stuck = db.transaction(|tx| async move {
        tx.update::<Post>(1).set(|p| p.votes(), 1).await?;
        std::future::pending::<()>().await;
        Ok(())
    });
    let error = stuck.timeout(limit).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(
        (error.operation(), error.limit()),
        (Some("transaction"), Some(limit))
    );
    assert!(begun.elapsed() < Duration::from_secs(10));
    // Nothing is kept of it, and nothing locked.
    db.update::<Post>(1).inc(|p| p.votes(), 5).await.unwrap();
    assert_eq!(votes(&db, 1).await, 105);

    // One that keeps to its limit does not notice it.
    let quick = db.transaction(|tx| async move {
        tx.update::<Post>(1).inc(|p| p.votes(), 1).await?;
        Ok(())
    });
    quick.timeout(Duration::from_secs(60)).await.unwrap();
    assert_eq!(votes(&db, 1).await, 106);
}

/// It always conflicts: the limit ends the attempts, and the error says why there was more than one.
pub async fn a_time_limit_ends_the_attempts(fixture: Fixture) {
    let Some(db) = bank(&fixture).await else {
        return;
    };
    let attempts = AtomicU32::new(0);
    let losing = db.transaction(|tx| {
        let db = db.clone();
        attempts.fetch_add(1, Ordering::Relaxed);
        async move {
            let before = tx.get::<Post>(1).await?.votes;
            // Another one comes first, each time.
            let first =
                tokio::spawn(async move { db.update::<Post>(1).inc(|p| p.votes(), 1).await });
            first.await.map_err(Error::other)??;
            tx.update::<Post>(1).set(|p| p.votes(), before + 9).await?;
            Ok(())
        }
    });
    let error = losing
        .timeout(Duration::from_millis(1_500))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    let attempts = attempts.load(Ordering::Relaxed);
    assert!(attempts > 2, "{attempts}");
    assert!(votes(&db, 1).await >= 100 + i64::from(attempts) - 1);
}

/// What was read elsewhere, and is not so any more, is not so in the next attempt either: a minute of attempts would be lost.
pub async fn a_conflict_that_stays_is_told_soon(fixture: Fixture) {
    let Some(db) = bank(&fixture).await else {
        return;
    };
    let mut stale = db.edit::<Post>(1).await.unwrap();
    stale.votes += 1;
    let stale = Arc::new(tokio::sync::Mutex::new(stale));
    db.update::<Post>(1).inc(|p| p.votes(), 7).await.unwrap();
    let begun = std::time::Instant::now();
    let saved = db.transaction(|tx| {
        let stale = stale.clone();
        async move { tx.save(&mut *stale.lock().await).await }
    });
    assert!(saved.await.unwrap_err().is_conflict());
    assert!(begun.elapsed() < Duration::from_secs(30));
}
