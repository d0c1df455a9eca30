//! Benchmarks of inserts without rollups and copies.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use odm::Database;

use super::{
    DerivedSizes,
    handwritten::HandwrittenDatabase,
    model::{self, Derived, Entry},
};
use crate::{contender::Result, measure};

/// Measures the insert of a single document.
pub(super) async fn compare(
    db: &Database<Derived>,
    hand: &impl HandwrittenDatabase,
    sizes: DerivedSizes,
) -> Result<()> {
    let ids = |round: usize| -> Result<Range<i64>> {
        let first = i64::try_from(round)? * sizes.inserts;
        Ok(first..first + sizes.inserts)
    };
    let count = u32::try_from(sizes.inserts)?;
    measure::measure_in_turns(
        "plain insert",
        sizes.rounds,
        async |round| {
            let insert = |db: Database<Derived>, entry| async move {
                db.insert(entry).await?;
                Ok(())
            };
            Ok(insert_sequentially(db, ids(round)?, insert).await? / count)
        },
        async |round| {
            let insert =
                |hand, entry| async move { HandwrittenDatabase::insert(&hand, entry).await };
            Ok(insert_sequentially(hand, ids(round)?, insert).await? / count)
        },
    )
    .await
}

/// Inserts documents sequentially in a spawned task, like a server.
async fn insert_sequentially<T, W, F>(on: &T, ids: Range<i64>, insert: W) -> Result<Duration>
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
