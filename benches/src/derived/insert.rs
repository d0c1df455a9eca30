//! The insert of a document that is counted nowhere and copied from nothing.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use odm::Database;

use super::{
    Sizes,
    hand::Hand,
    model::{self, Derived, Entry},
};
use crate::{contender::Result, measure};

/// Measures inserts of one document.
pub(super) async fn compare(db: &Database<Derived>, hand: &impl Hand, sizes: Sizes) -> Result<()> {
    let ids = |round: usize| -> Result<Range<i64>> {
        let first = i64::try_from(round)? * sizes.inserts;
        Ok(first..first + sizes.inserts)
    };
    let count = u32::try_from(sizes.inserts)?;
    measure::turns(
        "plain insert",
        sizes.rounds,
        async |round| {
            let insert = |db: Database<Derived>, entry| async move {
                db.insert(entry).await?;
                Ok(())
            };
            Ok(all(db, ids(round)?, insert).await? / count)
        },
        async |round| {
            let insert = |hand, entry| async move { Hand::insert(&hand, entry).await };
            Ok(all(hand, ids(round)?, insert).await? / count)
        },
    )
    .await
}

/// Inserts one after the other, in a task as those of a server are.
async fn all<T, W, F>(on: &T, ids: Range<i64>, insert: W) -> Result<Duration>
where
    T: Clone + Send + Sync + 'static,
    W: Fn(T, Entry) -> F + Send + 'static,
    F: Future<Output = Result<()>> + Send,
{
    let on = on.clone();
    let task = tokio::spawn(async move {
        let start = Instant::now();
        for id in ids {
            insert(on.clone(), model::entry(id)).await?;
        }
        Ok(start.elapsed())
    });
    task.await?
}
