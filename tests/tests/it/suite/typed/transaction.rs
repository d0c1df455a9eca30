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

/// Returns a database with two posts, or `None` without transactions. A standalone server must refuse a transaction.
async fn database_with_two_posts(fixture: &Fixture) -> Option<Db> {
    let db = Db::with_backend(fixture.backend());
    db.insert_many([Post::new(1, "from", &[]), Post::new(2, "to", &[])])
        .await
        .unwrap();
    db.update::<Post>(1).set(|p| p.votes(), 100).await.unwrap();
    if db.backend().capabilities().transactions {
        return Some(db);
    }
    let refused = db
        .transaction(async |_| odm::Result::<()>::Ok(()))
        .await
        .unwrap_err();
    assert!(refused.is_unsupported(), "{refused:?}");
    None
}

async fn votes(db: &odm::Session<crate::models::Shop>, id: i64) -> i64 {
    db.get::<Post>(id).await.unwrap().votes
}

pub async fn a_transaction_is_atomic(fixture: Fixture) {
    let Some(db) = database_with_two_posts(&fixture).await else {
        return;
    };
    let moved = db
        .transaction(async |tx| -> odm::Result<_> {
            let from = tx
                .update::<Post>(1)
                .when(|p| p.votes().gte(30))
                .inc(|p| p.votes(), -30);
            from.await?.expect_applied()?;
            tx.update::<Post>(2).inc(|p| p.votes(), 30).await?;
            // The transaction sees its own writes.
            Ok(votes(&tx, 2).await)
        })
        .await
        .unwrap();
    assert_eq!(moved, 30);
    assert_eq!((votes(&db, 1).await, votes(&db, 2).await), (70, 30));

    let error = db
        .transaction(async |tx| -> odm::Result<()> {
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

pub async fn an_application_error_aborts(fixture: Fixture) {
    let Some(db) = database_with_two_posts(&fixture).await else {
        return;
    };
    let error = db
        .transaction(async |tx| -> odm::Result<_> {
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

/// Every attempt reads, waits and writes. Without snapshots and retries, updates would be lost.
pub async fn conflicts_are_retried(fixture: Fixture) {
    let Some(db) = database_with_two_posts(&fixture).await else {
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
                        Ok::<_, Error>(())
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

pub async fn writes_are_invisible_before_the_commit(fixture: Fixture) {
    let Some(db) = database_with_two_posts(&fixture).await else {
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
            Ok::<_, Error>(())
        }
    })
    .await
    .unwrap();
    assert_eq!(votes(&db, 1).await, 1);
}

/// Inside a transaction, a write through `db` is refused, because the write would survive an abort.
pub async fn a_write_outside_the_transaction_is_refused(fixture: Fixture) {
    let Some(db) = database_with_two_posts(&fixture).await else {
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

    // A write in a spawned task is independent of the transaction, and so is a write to a different database.
    let other = Db::open("memory:").await.unwrap();
    db.transaction(|tx| {
        let (db, other) = (db.clone(), other.clone());
        async move {
            tx.update::<Post>(1).set(|p| p.votes(), 1).await?;
            other.insert(Post::new(9, "other", &[])).await?;
            let apart = tokio::spawn(async move { db.insert(Post::new(4, "apart", &[])).await });
            apart.await.map_err(Error::other)??;
            Ok::<_, Error>(())
        }
    })
    .await
    .unwrap();
    assert_eq!(votes(&db, 1).await, 1);
    assert!(db.find_by_id::<Post>(4).await.unwrap().is_some());
}

/// A dropped transaction leaves no writes and no locks.
pub async fn a_dropped_transaction_is_aborted(fixture: Fixture) {
    let Some(db) = database_with_two_posts(&fixture).await else {
        return;
    };
    let gave_up = tokio::time::timeout(
        Duration::from_millis(300),
        db.transaction(async |tx| -> odm::Result<_> {
            tx.update::<Post>(1).set(|p| p.votes(), 1).await?;
            std::future::pending::<()>().await;
            Ok(())
        }),
    );
    assert!(gave_up.await.is_err());
    // The abort runs in the background. On MongoDB a plain write waits for the abort, on the engine the write has no conflict.
    db.update::<Post>(1).inc(|p| p.votes(), 5).await.unwrap();
    assert_eq!(votes(&db, 1).await, 105);
}

pub async fn a_handle_kept_after_the_end_is_unusable(fixture: Fixture) {
    let Some(db) = database_with_two_posts(&fixture).await else {
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

/// Runs tasks that read, wait and write the same document. Of overlapping transactions one commits and the rest retry.
async fn contend(db: &Db, tasks: u32, hold: Duration, limit: Option<Duration>) {
    let before = votes(db, 1).await;
    let running: Vec<_> = (0..tasks)
        .map(|_| {
            let db = db.clone();
            tokio::spawn(async move {
                let vote = db.transaction(async |tx| -> odm::Result<_> {
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
    let Some(db) = database_with_two_posts(&fixture).await else {
        return;
    };
    contend(&db, 32, Duration::from_millis(5), None).await;
}

pub async fn all_of_300_on_one_document_succeed(fixture: Fixture) {
    let Some(db) = database_with_two_posts(&fixture).await else {
        return;
    };
    // The limit allows for 300 commits on a busy machine.
    contend(&db, 300, Duration::ZERO, Some(Duration::from_secs(300))).await;
}

pub async fn a_time_limit_aborts(fixture: Fixture) {
    let Some(db) = database_with_two_posts(&fixture).await else {
        return;
    };
    let limit = Duration::from_millis(300);
    let begun = std::time::Instant::now();
    let stuck = db.transaction(async |tx| -> odm::Result<_> {
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
    // The transaction left no writes and no locks.
    db.update::<Post>(1).inc(|p| p.votes(), 5).await.unwrap();
    assert_eq!(votes(&db, 1).await, 105);

    // A transaction within its time limit is unaffected.
    let quick = db.transaction(async |tx| -> odm::Result<_> {
        tx.update::<Post>(1).inc(|p| p.votes(), 1).await?;
        Ok(())
    });
    quick.timeout(Duration::from_secs(60)).await.unwrap();
    assert_eq!(votes(&db, 1).await, 106);
}

/// A transaction that always conflicts ends at the time limit. The error names the conflict as the reason of the attempts.
pub async fn a_time_limit_ends_the_attempts(fixture: Fixture) {
    let Some(db) = database_with_two_posts(&fixture).await else {
        return;
    };
    let attempts = AtomicU32::new(0);
    let losing = db.transaction(|tx| {
        let db = db.clone();
        attempts.fetch_add(1, Ordering::Relaxed);
        async move {
            let before = tx.get::<Post>(1).await?.votes;
            // Before each write, a concurrent update changes the document.
            let first =
                tokio::spawn(async move { db.update::<Post>(1).inc(|p| p.votes(), 1).await });
            first.await.map_err(Error::other)??;
            tx.update::<Post>(1).set(|p| p.votes(), before + 9).await?;
            Ok::<_, Error>(())
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

/// A stale document that was read outside the transaction conflicts in every attempt. The transaction must fail early instead of
/// retrying for a minute.
pub async fn a_permanent_conflict_fails_early(fixture: Fixture) {
    let Some(db) = database_with_two_posts(&fixture).await else {
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

/// The error of an application: a decision of its own, or the text of an error of the database.
#[derive(Debug, PartialEq)]
enum ApiError {
    TooFewVotes(i64),
    Database(ErrorKind),
}

/// Keeps only the kind, so that nothing can read a conflict out of the error again.
impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self::Database(error.kind())
    }
}

pub async fn an_error_type_of_the_application(fixture: Fixture) {
    let Some(db) = database_with_two_posts(&fixture).await else {
        let db = Db::with_backend(fixture.backend());
        let refused = db.transaction(async |_| Ok(())).await;
        assert_eq!(refused, Err(ApiError::Database(ErrorKind::Unsupported)));
        return;
    };
    let take = async |title: &str, count: i64| {
        db.transaction(async |tx| -> Result<i64, ApiError> {
            tx.update::<Post>(2).set(|p| p.title(), title).await?;
            let left = tx.get::<Post>(1).await?.votes - count;
            if left < 0 {
                return Err(ApiError::TooFewVotes(left));
            }
            tx.update::<Post>(1).set(|p| p.votes(), left).await?;
            Ok(left)
        })
        .await
    };
    assert_eq!(take("first", 70).await, Ok(30));
    assert_eq!(take("second", 70).await, Err(ApiError::TooFewVotes(-40)));
    assert_eq!(votes(&db, 1).await, 30);
    assert_eq!(db.get::<Post>(2).await.unwrap().title, "first");

    let missing = db.transaction(async |tx| -> Result<(), ApiError> {
        tx.update::<Post>(9).set(|p| p.votes(), 1).await?;
        Ok(())
    });
    assert_eq!(missing.await, Err(ApiError::Database(ErrorKind::NotFound)));
    let late = db.transaction(async |tx| -> Result<(), ApiError> {
        tx.get::<Post>(1).await?;
        std::future::pending().await
    });
    let late = late.timeout(Duration::from_millis(50)).await;
    assert_eq!(late, Err(ApiError::Database(ErrorKind::Timeout)));
}

/// Increments a counter in each of 8 concurrent transactions. `rewrite` changes the result of the work.
async fn increments_of_eight<E>(db: &Db, rewrite: fn(odm::Result<()>) -> Result<(), E>) -> u32
where
    E: From<Error> + std::fmt::Debug + Send + 'static,
{
    let attempts = Arc::new(AtomicU32::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (db, attempts) = (db.clone(), attempts.clone());
            tokio::spawn(async move {
                let vote = db.transaction(async |tx| {
                    attempts.fetch_add(1, Ordering::Relaxed);
                    let work = async {
                        let votes = tx.get::<Post>(1).await?.votes;
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        tx.update::<Post>(1).set(|p| p.votes(), votes + 1).await?;
                        Ok(())
                    };
                    rewrite(work.await)
                });
                vote.await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    attempts.load(Ordering::Relaxed)
}

pub async fn conflicts_with_an_error_type_of_the_application_are_retried(fixture: Fixture) {
    let Some(db) = database_with_two_posts(&fixture).await else {
        return;
    };
    let attempts = increments_of_eight(&db, |result| result.map_err(ApiError::from)).await;
    assert_eq!(votes(&db, 1).await, 108);
    assert!(attempts > 8, "{attempts}");
    // The conflict is hidden behind a decision of the application.
    let hide = |result: odm::Result<()>| result.map_err(|_| ApiError::TooFewVotes(0));
    increments_of_eight(&db, hide).await;
    assert_eq!(votes(&db, 1).await, 116);
}

pub async fn a_stale_save_with_an_error_type_of_the_application(fixture: Fixture) {
    let Some(db) = database_with_two_posts(&fixture).await else {
        return;
    };
    let mut stale = db.edit::<Post>(1).await.unwrap();
    db.update::<Post>(1).inc(|p| p.votes(), 1).await.unwrap();
    stale.votes = 5;
    let attempts = AtomicU32::new(0);
    let save = db.transaction(async |tx| -> Result<(), ApiError> {
        // Every attempt saves the document that was read outside of the transaction.
        attempts.fetch_add(1, Ordering::Relaxed);
        let mut stale = stale.clone();
        tx.save(&mut stale).await?;
        Ok(())
    });
    assert_eq!(save.await, Err(ApiError::Database(ErrorKind::Conflict)));
    assert_eq!(attempts.load(Ordering::Relaxed), 10);
    assert_eq!(votes(&db, 1).await, 101);

    // Without a conflict, an error is final.
    let attempts = AtomicU32::new(0);
    let refused = db.transaction(async |_| -> Result<(), ApiError> {
        attempts.fetch_add(1, Ordering::Relaxed);
        Err(ApiError::TooFewVotes(1))
    });
    assert_eq!(refused.await, Err(ApiError::TooFewVotes(1)));
    assert_eq!(attempts.load(Ordering::Relaxed), 1);
}
