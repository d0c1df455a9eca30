//! Copies and counts, and inserts that have neither, beside what an application would write by hand.
//!
//! Both of a pair have the same documents, in databases of their own: one with what the models declare, the other with what the
//! application keeps itself.

mod fan_out;
pub(crate) mod hand;
mod hot_parent;
mod insert;
mod large;
mod model;

use std::time::Duration;

use odm::Database;

use crate::contender::Result;
use hand::Hand;
use model::Derived;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// How many documents copy from one.
    pub(crate) dependents: i64,
    /// How many do in the large fan-out.
    pub(crate) many: i64,
    /// How many documents each task of the hot parent inserts in a round.
    pub(crate) comments: i64,
    /// How many inserts a round has.
    pub(crate) inserts: i64,
    /// How many writes are measured while nothing else is done.
    pub(crate) alone: usize,
    pub(crate) rounds: usize,
}

/// How long may be waited for what is owed.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// What is measured, by which `--only` names it.
const TASKS: [&str; 4] = ["fan-out to", "plain insert", "hot parent", "large fan-out"];

/// Measures each task with `only` in its name, on the database at `url` and by hand.
pub(crate) async fn compare(
    name: &str,
    url: &str,
    hand: &impl Hand,
    sizes: Sizes,
    only: &str,
) -> Result<()> {
    let is_wanted = |task: usize| TASKS[task].contains(only);
    if !(0..TASKS.len()).any(is_wanted) {
        return Ok(());
    }
    let db: Database<Derived> = Database::open(url).await?;
    db.sync_indexes().await?;
    for collection in ["lines", "ports"] {
        hand.index(collection, "host").await?;
    }
    hand.index("comments", "post").await?;
    crate::measure::head(name, hand.name());
    if is_wanted(0) {
        fan_out::compare(&db, hand, sizes).await?;
    }
    if is_wanted(1) {
        insert::compare(&db, hand, sizes).await?;
    }
    if is_wanted(2) {
        hot_parent::compare(&db, hand, sizes).await?;
    }
    if is_wanted(3) {
        large::compare(&db, hand, sizes).await?;
    }
    Ok(())
}
