//! Many tasks that insert what is counted at one document.

use std::time::{Duration, Instant};

use odm::{
    Database,
    bson::{doc, serialize_to_raw_document_buf},
};
use tokio::task::JoinSet;

use super::{
    Sizes,
    hand::Hand,
    model::{self, Comment, Derived, NewPost, Post},
};
use crate::{contender::Result, measure};

/// How many tasks there are.
const TASKS: i64 = 16;

/// The post that all comment by the mapper, and by hand one after the other and in transactions.
const POST: i64 = 1;
const TOGETHER: i64 = 2;

/// Measures the time of one insert while all tasks insert, beside an insert and an increment, and beside both in a transaction.
pub(super) async fn compare(db: &Database<Derived>, hand: &impl Hand, sizes: Sizes) -> Result<()> {
    for id in [POST, TOGETHER] {
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
        all(db, round, post, sizes, insert).await
    };
    measure::turns(
        "hot parent, insert and $inc",
        sizes.rounds,
        async |round| by_odm(round, POST).await,
        async |round| {
            let insert = |hand, comment| async move { Hand::comment(&hand, comment).await };
            all(hand, round, POST, sizes, insert).await
        },
    )
    .await?;
    measure::turns(
        "hot parent, transactions",
        sizes.rounds,
        async |round| by_odm(round, TOGETHER).await,
        async |round| {
            let insert =
                |hand, comment| async move { Hand::comment_together(&hand, comment).await };
            all(hand, round, TOGETHER, sizes, insert).await
        },
    )
    .await?;
    agree(db, hand, sizes).await
}

/// Lets all tasks insert comments of a post, and gives how long one takes.
async fn all<T, W, F>(on: &T, round: usize, post: i64, sizes: Sizes, insert: W) -> Result<Duration>
where
    T: Clone + Send + 'static,
    W: Fn(T, Comment) -> F + Copy + Send + 'static,
    F: Future<Output = Result<()>> + Send,
{
    let inserts = TASKS * sizes.comments;
    let first = (i64::try_from(round)? * 10 + post) * inserts;
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let on = on.clone();
        let own = first + task * sizes.comments;
        tasks.spawn(async move {
            for id in own..own + sizes.comments {
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

/// Nothing was lost, or nothing was worth measuring.
async fn agree(db: &Database<Derived>, hand: &impl Hand, sizes: Sizes) -> Result<()> {
    let all = TASKS * sizes.comments * i64::try_from(sizes.rounds + 1)?;
    for post in [POST, TOGETHER] {
        let counted = db.get::<Post>(post).await?.comments;
        if (counted, hand.comments(post).await?) != (all, all) {
            return Err("not all comments are counted".into());
        }
    }
    Ok(())
}
