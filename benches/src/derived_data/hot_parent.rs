//! Benchmarks of concurrent inserts of children with the same parent.

use std::time::{Duration, Instant};

use odm::{
    Database,
    bson::{doc, serialize_to_raw_document_buf},
};
use tokio::task::JoinSet;

use super::{
    DerivedSizes,
    handwritten::HandwrittenDatabase,
    model::{self, Comment, Derived, NewPost, Post},
};
use crate::{contender::Result, measure};

/// The number of concurrent tasks.
const TASK_COUNT: i64 = 16;

/// The post for plain inserts, and the post for handwritten transactions. The tasks of odm insert into both.
const PLAIN_POST_ID: i64 = 1;
const TRANSACTION_POST_ID: i64 = 2;

/// Measures a single insert while all tasks insert, compared with an insert and an increment, without and with a transaction.
pub(super) async fn compare(
    db: &Database<Derived>,
    hand: &impl HandwrittenDatabase,
    sizes: DerivedSizes,
) -> Result<()> {
    for id in [PLAIN_POST_ID, TRANSACTION_POST_ID] {
        let title = "a post".to_owned();
        let post = doc! { "_id": id, "title": &title, "comments": 0_i64 };
        hand.load("posts", vec![serialize_to_raw_document_buf(&post)?])
            .await?;
        db.insert(NewPost { id, title }).await?;
    }
    let by_odm = async |round: usize, post: i64| {
        let insert = |db: Database<Derived>, comment: Comment| async move {
            db.insert(comment).await?;
            Ok(())
        };
        run_all_tasks(db, round, post, sizes, insert).await
    };
    measure::measure_in_turns(
        "hot parent, insert and $inc",
        sizes.rounds,
        async |round| by_odm(round, PLAIN_POST_ID).await,
        async |round| {
            let insert =
                |hand, comment| async move { HandwrittenDatabase::comment(&hand, comment).await };
            run_all_tasks(hand, round, PLAIN_POST_ID, sizes, insert).await
        },
    )
    .await?;
    measure::measure_in_turns(
        "hot parent, transactions",
        sizes.rounds,
        async |round| by_odm(round, TRANSACTION_POST_ID).await,
        async |round| {
            let insert = |hand, comment| async move {
                HandwrittenDatabase::comment_in_transaction(&hand, comment).await
            };
            run_all_tasks(hand, round, TRANSACTION_POST_ID, sizes, insert).await
        },
    )
    .await?;
    assert_all_counted(db, hand, sizes).await
}

/// Lets all tasks insert comments of a post, and returns the time of a single insert.
async fn run_all_tasks<T, W, F>(
    on: &T,
    round: usize,
    post: i64,
    sizes: DerivedSizes,
    insert: W,
) -> Result<Duration>
where
    T: Clone + Send + 'static,
    W: Fn(T, Comment) -> F + Copy + Send + 'static,
    F: Future<Output = Result<()>> + Send,
{
    let inserts = TASK_COUNT * sizes.comments;
    let first = (i64::try_from(round)? * 10 + post) * inserts;
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..TASK_COUNT {
        let on = on.clone();
        let first_id = first + task * sizes.comments;
        tasks.spawn(async move {
            for id in first_id..first_id + sizes.comments {
                insert(on.clone(), model::comment(id, post)).await?;
            }
            Result::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(start.elapsed() / u32::try_from(inserts)?)
}

/// Fails the benchmark if a comment is not counted.
async fn assert_all_counted(
    db: &Database<Derived>,
    hand: &impl HandwrittenDatabase,
    sizes: DerivedSizes,
) -> Result<()> {
    let all = TASK_COUNT * sizes.comments * i64::try_from(sizes.rounds + 1)?;
    for post in [PLAIN_POST_ID, TRANSACTION_POST_ID] {
        let counted = db.get::<Post>(post).await?.comments;
        if (counted, hand.comments(post).await?) != (all, all) {
            return Err("not all comments are counted".into());
        }
    }
    Ok(())
}
