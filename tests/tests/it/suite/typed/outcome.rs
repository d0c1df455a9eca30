//! Conditional writes that return the document in the same operation.

use std::sync::Arc;

use odm::{
    ErrorKind, Filter,
    backend::{Recorder, operation::InsertOperation},
    bson::rawdoc,
    prelude::*,
};

use crate::{
    Fixture,
    models::{Db, NewTask, Post, Task},
};

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Post)]
struct Votes {
    votes: i64,
}

async fn insert_blog(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    let posts = (1..=3).map(|id| Post {
        votes: id,
        ..Post::new(id, "alex", &[])
    });
    db.insert_many(posts).await.unwrap();
    db
}

pub async fn update_returns_the_document_before_or_after(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    insert_blog(&fixture).await;
    let db = Db::with_backend(recorder.clone());
    let inc = |id: i64| db.update::<Post>(id).inc(|p| p.votes(), 10);

    let after: Post = inc(1).returning_after().await.unwrap();
    assert_eq!(after.votes, 11);
    let before: Post = inc(1).returning_before().await.unwrap();
    assert_eq!(before.votes, 11);
    assert_eq!(db.get::<Post>(1).await.unwrap().votes, 21);
    let part = inc(2).returning_after().select::<Votes>().await.unwrap();
    assert_eq!(part, Votes { votes: 12 });
    let missing = inc(9).returning_after().await.unwrap_err();
    assert_eq!(
        (missing.kind(), missing.id(), missing.model()),
        (ErrorKind::NotFound, Some(&9_i64.into()), Some("Post"))
    );
    // Each write is a single operation. The query is the read.
    assert_eq!((recorder.writes(), recorder.queries()), (4, 1));
}

pub async fn a_condition_gives_an_outcome(fixture: Fixture) {
    let db = insert_blog(&fixture).await;
    let spend = |id: i64| {
        let update = db.update::<Post>(id).when(|p| p.votes().gte(3));
        update.inc(|p| p.votes(), -3).returning_after()
    };
    let Applied(post) = spend(3).await.unwrap() else {
        panic!("there were three");
    };
    assert_eq!(post.votes, 0);
    assert_eq!(spend(3).await.unwrap(), NotApplied);
    // A missing document does not match the condition.
    assert_eq!(spend(9).await.unwrap().applied(), None);
    let refused = spend(3).await.unwrap().expect_applied().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotApplied);
    let votes = db
        .update::<Post>(2)
        .when(|p| p.votes().eq(2))
        .set(|p| p.votes(), 7)
        .returning_before()
        .select::<Votes>()
        .await
        .unwrap();
    assert_eq!(votes.map(|post| post.votes), Applied(2));
}

pub async fn a_push_to_a_full_array_fails(fixture: Fixture) {
    let db = insert_blog(&fixture).await;
    let push = |id: i64| db.update::<Post>(id).push(|p| p.voters(), "x");
    for _ in 0..3 {
        let _ = push(1).returning_after().await.unwrap();
    }
    let full = push(1).returning_after().await.unwrap_err();
    assert_eq!(
        (full.kind(), full.path()),
        (ErrorKind::TooManyElements, Some("voters"))
    );
    let full = push(1).when(|p| p.votes().eq(1)).returning_after().await;
    assert_eq!(full.unwrap_err().kind(), ErrorKind::TooManyElements);
    // `update_first` skips a full array, if a second document matches.
    let first = || {
        db.update_first::<Post>(|p| p.id().lte(2))
            .sort(|p| p.id().asc())
            .push(|p| p.voters(), "y")
    };
    for _ in 0..3 {
        assert_eq!(first().await.unwrap(), Applied(Ref::new(2_i64)));
    }
    assert_eq!(
        first().await.unwrap_err().kind(),
        ErrorKind::TooManyElements
    );
}

pub async fn update_first_follows_the_sort_order(fixture: Fixture) {
    let db = insert_blog(&fixture).await;
    let first = db
        .update_first::<Post>(|p| p.votes().lt(3))
        .sort(|p| p.votes().desc())
        .set(|p| p.title(), "taken")
        .await
        .unwrap();
    assert_eq!(first, Applied(Ref::new(2_i64)));
    let next = db
        .update_first::<Post>(|p| p.votes().lt(3))
        .when(|p| p.title().ne("taken"))
        .sort(|p| p.votes().desc())
        .inc(|p| p.votes(), 100)
        .returning_after()
        .await
        .unwrap();
    assert_eq!(next.applied().map(|p| (p.id, p.votes)), Some((1, 101)));
    let none = db
        .update_first::<Post>(|p| p.votes().gt(1_000))
        .set(|p| p.votes(), 0);
    assert_eq!(none.await.unwrap(), NotApplied);

    let last = db
        .delete_first::<Post>(|_| Filter::all())
        .sort(|p| p.id().desc());
    assert_eq!(last.await.unwrap().applied(), Some(Ref::new(3_i64)));
    let next = db
        .delete_first::<Post>(|_| Filter::all())
        .sort(|p| p.id().desc())
        .returning()
        .await
        .unwrap();
    assert_eq!(next.applied().map(|post| post.title), Some("taken".into()));
    assert_eq!(db.find::<Post>().count().await.unwrap(), 1);
}

/// A queue: workers take each job once, and take the most urgent jobs first.
pub async fn concurrent_workers_take_different_jobs(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let jobs = (0..60).map(|id| Post {
        votes: id % 3,
        ..Post::new(id, "ready", &[])
    });
    db.insert_many(jobs).await.unwrap();
    let worker = |db: Db| async move {
        let mut jobs = Vec::new();
        loop {
            let next = db
                .update_first::<Post>(|j| j.author().eq("ready"))
                .sort(|j| j.votes().desc())
                .set(|j| j.author(), "running")
                .returning_after();
            let Applied(job) = next.await.unwrap() else {
                return jobs;
            };
            jobs.push(job);
        }
    };
    let workers: Vec<_> = (0..8).map(|_| tokio::spawn(worker(db.clone()))).collect();
    let mut all = Vec::new();
    for worker in workers {
        let jobs = worker.await.unwrap();
        assert!(jobs.iter().rev().map(|job| job.votes).is_sorted());
        all.extend(jobs.into_iter().map(|job| job.id));
    }
    all.sort_unstable();
    assert_eq!(all, (0..60).collect::<Vec<_>>());
}

pub async fn delete_returns_the_document(fixture: Fixture) {
    let db = insert_blog(&fixture).await;
    let refused = db.delete::<Post>(1).when(|p| p.votes().gt(5));
    assert_eq!(refused.returning().await.unwrap(), NotApplied);
    let refused = db
        .delete::<Post>(1)
        .when(|p| p.votes().gt(5))
        .await
        .unwrap();
    assert!(!refused.is_applied());
    let refused = refused.expect_applied().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotApplied);
    let delete = db.delete::<Post>(1).when(|p| p.votes().eq(1)).returning();
    assert_eq!(delete.await.unwrap().applied().map(|p| p.id), Some(1));
    let delete = db.delete::<Post>(2).returning().select::<Votes>().await;
    assert_eq!(delete.unwrap(), Applied(Votes { votes: 2 }));
    assert!(!db.delete::<Post>(2).returning().await.unwrap().is_applied());
    assert!(db.delete::<Post>(3).await.unwrap().is_applied());
}

pub async fn managed_fields_are_updated(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let task = NewTask {
        id: 1,
        description: "paint".into(),
        done: false,
    };
    let inserted = db.insert(task).await.unwrap();
    let after = db
        .update::<Task>(1)
        .set(|t| t.done(), true)
        .returning_after()
        .await
        .unwrap();
    assert_eq!((after.revision, after.done), (2, true));
    assert!(after.updated_at >= inserted.updated_at);
    let _ = db
        .update_first::<Task>(|t| t.done().eq(true))
        .set(|t| t.done(), false)
        .await
        .unwrap();
    assert_eq!(db.get::<Task>(1).await.unwrap().revision, 3);
}

/// The write is complete before the decode fails, so the error says that the write succeeded.
pub async fn an_undecodable_result_reports_the_write(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let insert = InsertOperation {
        collection: "makers".into(),
        documents: vec![rawdoc! { "_id": "acme", "country": 7 }],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    let error = db
        .delete::<crate::models::Maker>("acme")
        .returning()
        .await
        .unwrap_err();
    assert!(error.is_decode());
    assert_eq!(error.path(), Some("country"));
    let text = error.to_string();
    assert!(text.starts_with("the write succeeded"), "{text}");
    let remaining = db.find::<crate::models::Maker>().count().await.unwrap();
    assert_eq!(remaining, 0);
}

pub async fn outcomes_in_a_transaction(fixture: Fixture) {
    let db = insert_blog(&fixture).await;
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let work = |tx: odm::Transaction<crate::models::Shop>| async move {
        let first = tx
            .update_first::<Post>(|p| p.votes().gt(1))
            .sort(|p| p.votes().asc())
            .inc(|p| p.votes(), 5)
            .returning_after();
        let post = first.await?.expect_applied()?;
        tx.delete::<Post>(3).returning().await?.expect_applied()?;
        tx.update::<Post>(1)
            .when(|p| p.votes().gt(9))
            .set(|p| p.votes(), post.votes)
            .returning_after()
            .await?
            .expect_applied()
    };
    let error = db.transaction(work).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotApplied);
    let posts = db.find::<Post>().sort(|p| p.id().asc()).all();
    let votes: Vec<_> = posts.await.unwrap().iter().map(|p| p.votes).collect();
    assert_eq!(votes, [1, 2, 3]);
}

/// Concurrent writers spend from a single account, and never overdraw the account.
pub async fn concurrent_spenders_never_overdraw(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let account = Post {
        votes: 100,
        flags: 0,
        ..Post::new(1, "jane", &[])
    };
    db.insert(account).await.unwrap();
    let spender = |db: Db| async move {
        let mut spent = 0;
        for _ in 0..5 {
            let spend = db
                .update::<Post>(1)
                .when(|a| a.votes().gte(7))
                .inc(|a| a.votes(), -7)
                .inc(|a| a.flags(), 7);
            spent += 7 * i64::from(spend.await.unwrap().is_applied());
        }
        spent
    };
    let spenders: Vec<_> = (0..16).map(|_| tokio::spawn(spender(db.clone()))).collect();
    let mut spent = 0;
    for spender in spenders {
        spent += spender.await.unwrap();
    }
    let account = db.get::<Post>(1).await.unwrap();
    assert_eq!((spent, account.votes, account.flags), (98, 2, 98));
}

/// Each voter is counted once, for any number of voters and attempts.
pub async fn concurrent_voters_count_once(fixture: Fixture) {
    #[derive(Debug, Clone, Serialize, Deserialize, Document)]
    #[document(collection = "ballots")]
    struct Ballot {
        #[serde(rename = "_id")]
        id: i64,
        votes: i64,
        #[embed(max = 1_000)]
        voters: Vec<String>,
    }
    #[derive(Schema)]
    #[schema(models(Ballot))]
    struct Election;

    let db = odm::Database::<Election>::with_backend(fixture.backend());
    let ballot = Ballot {
        id: 1,
        votes: 0,
        voters: Vec::new(),
    };
    db.insert(ballot).await.unwrap();
    let vote = |db: odm::Database<Election>, voter: String| async move {
        db.update::<Ballot>(1)
            .when(|b| b.voters().excludes(&voter))
            .push(|b| b.voters(), &voter)
            .inc(|b| b.votes(), 1)
            .await
            .unwrap()
            .is_applied()
    };
    let votes = (0..90).map(|n| tokio::spawn(vote(db.clone(), format!("voter {}", n % 30))));
    let mut counted = 0;
    for vote in votes.collect::<Vec<_>>() {
        counted += i64::from(vote.await.unwrap());
    }
    let mut ballot = db.get::<Ballot>(1).await.unwrap();
    assert_eq!((counted, ballot.votes, ballot.voters.len()), (30, 30, 30));
    ballot.voters.sort();
    ballot.voters.dedup();
    assert_eq!(ballot.voters.len(), 30);
}
