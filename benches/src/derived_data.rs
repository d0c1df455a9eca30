//! Benchmarks of copies, of rollups, and of inserts without either, compared with handwritten code.
//!
//! Both contenders of a pair store the same documents in separate databases. The models of odm declare the derived data, and the
//! handwritten code updates the derived data in the application.

mod fan_out;
pub(crate) mod handwritten;
mod hot_parent;
mod insert;
mod large;
mod model;

use std::time::Duration;

use odm::Database;

use crate::contender::Result;
use handwritten::HandwrittenDatabase;
use model::Derived;

/// The sizes of the benchmarks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DerivedSizes {
    /// The number of dependents of a source.
    pub(crate) dependents: i64,
    /// The number of dependents in the large fan-out.
    pub(crate) many: i64,
    /// The number of documents that each task of the hot parent inserts in a round.
    pub(crate) comments: i64,
    /// The number of inserts in a round.
    pub(crate) inserts: i64,
    /// The number of measured writes without a concurrent fan-out.
    pub(crate) alone: usize,
    pub(crate) rounds: usize,
}

/// The maximum wait for pending work.
const MAX_PENDING_WAIT: Duration = Duration::from_secs(3_600);

/// The task names that `--only` selects.
const TASK_NAMES: [&str; 4] = ["fan-out to", "plain insert", "hot parent", "large fan-out"];

/// Measures each task with `only` in the name, on the database at `url` and with handwritten code.
pub(crate) async fn compare(
    name: &str,
    url: &str,
    hand: &impl HandwrittenDatabase,
    sizes: DerivedSizes,
    only: &str,
) -> Result<()> {
    let is_wanted = |task: usize| TASK_NAMES[task].contains(only);
    if !(0..TASK_NAMES.len()).any(is_wanted) {
        return Ok(());
    }
    let db: Database<Derived> = Database::open(url).await?;
    db.sync_indexes().await?;
    for collection in ["lines", "ports"] {
        hand.index(collection, "host").await?;
    }
    hand.index("comments", "post").await?;
    crate::measure::print_head(name, hand.name());
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
