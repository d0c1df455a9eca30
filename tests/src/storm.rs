//! Storms: many tasks with random writes, and the checks after the last write.
//!
//! Storms are short unless `ODM_STORM=full` is set. Each task repeats the same operations in every run. The order among the tasks
//! is not fixed.

#[expect(missing_docs, reason = "the models are as good as any")]
pub mod copies;
#[expect(missing_docs, reason = "the models are as good as any")]
pub mod rollups;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use odm::{Database, Schema, check::FindingKind};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

pub use copies::Copies;
pub use rollups::Rollups;

use crate::office::{self, Office};

/// A kind of storm: a schema and its random operations.
pub trait Storm: 'static {
    /// The schema of the documents.
    type Schema: Schema;

    /// Fills an empty database for operations on `ids` documents of each model.
    fn fill(db: &Database<Self::Schema>, ids: i64) -> impl Future<Output = odm::Result<()>> + Send;

    /// Runs a random operation.
    fn run_random_operation(
        db: &Database<Self::Schema>,
        random: &mut ChaCha8Rng,
        ids: i64,
    ) -> impl Future<Output = odm::Result<()>> + Send;

    /// Returns whether the request caused the error, not the database.
    fn is_expected(error: &odm::Error) -> bool;

    /// Returns whether the check may find this fault in a correct database.
    fn may_find(_: &FindingKind) -> bool {
        false
    }
}

/// A storm on references with delete rules and inverses.
#[derive(Debug)]
pub struct Links;

impl Storm for Links {
    type Schema = Office;

    async fn fill(db: &office::Db, ids: i64) -> odm::Result<()> {
        office::fill(db, ids).await
    }

    async fn run_random_operation(
        db: &office::Db,
        random: &mut ChaCha8Rng,
        ids: i64,
    ) -> odm::Result<()> {
        office::run_random_operation(db, random, ids).await
    }

    fn is_expected(error: &odm::Error) -> bool {
        office::is_expected(error)
    }
}

/// The size of a storm.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// The number of tasks.
    pub tasks: u64,
    /// The number of operations of each task.
    pub operations: u64,
    /// The maximum number of documents of a model.
    pub ids: i64,
    /// The seed of the random operations.
    pub seed: u64,
}

impl Size {
    /// Returns 8 tasks with 40 operations each, or 32 tasks with `full` operations each if `ODM_STORM=full` is set.
    #[must_use]
    pub fn of(full: u64) -> Self {
        let (tasks, operations, ids) = match is_full() {
            true => (32, full, 60),
            false => (8, 40, 12),
        };
        Self {
            tasks,
            operations,
            ids,
            seed: 0,
        }
    }

    /// Returns the number of operations of all tasks.
    #[must_use]
    pub fn all(self) -> u64 {
        self.tasks * self.operations
    }
}

/// Returns whether `ODM_STORM=full` is set.
#[must_use]
pub fn is_full() -> bool {
    std::env::var("ODM_STORM").is_ok_and(|value| value == "full")
}

/// The outcomes of the operations so far: the number of successes and the number of errors of each kind.
#[derive(Debug, Clone, Default)]
pub struct OutcomeCounts(Arc<Mutex<BTreeMap<String, u64>>>);

impl OutcomeCounts {
    /// Returns the number of operations with an outcome.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.with(|counts| counts.values().sum())
    }

    /// Returns the number of successful operations.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.with(|counts| counts.get("done").copied().unwrap_or_default())
    }

    fn record_outcome(&self, done: &odm::Result<()>) {
        let kind = match done {
            Ok(()) => "done".to_owned(),
            Err(error) => format!("{:?}", error.kind()),
        };
        self.with(|counts| *counts.entry(kind).or_default() += 1);
    }

    fn with<R>(&self, look: impl FnOnce(&mut BTreeMap<String, u64>) -> R) -> R {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Display for OutcomeCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|counts| write!(f, "{counts:?}"))
    }
}

/// Creates the indexes and fills an empty database with the first documents of a storm.
///
/// # Panics
///
/// If the database returns an error.
pub async fn begin<S: Storm>(db: &Database<S::Schema>, size: Size) {
    db.sync_indexes().await.expect("indexes");
    S::fill(db, size.ids).await.expect("documents");
}

/// Runs all tasks of a storm and waits for the end of each task.
///
/// A task that loses the server does not know the outcome of an operation. `may_be_lost` accepts the errors of that case.
///
/// # Panics
///
/// If an operation fails with an unexpected error.
pub async fn run_tasks<S: Storm>(
    db: &Database<S::Schema>,
    size: Size,
    outcomes: &OutcomeCounts,
    may_be_lost: fn(&odm::Error) -> bool,
) {
    let tasks = (0..size.tasks).map(|task| {
        let (db, outcomes) = (db.clone(), outcomes.clone());
        tokio::spawn(async move {
            let mut random = ChaCha8Rng::seed_from_u64(size.seed * size.tasks + task);
            for _ in 0..size.operations {
                let done = S::run_random_operation(&db, &mut random, size.ids).await;
                outcomes.record_outcome(&done);
                if let Err(error) = done {
                    assert!(S::is_expected(&error) || may_be_lost(&error), "{error:?}");
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("a task whose operations are as expected");
    }
}

/// Waits until no pending work is left, then checks that the database is consistent with the schema.
///
/// # Panics
///
/// If pending work remains or the check has findings.
pub async fn check_after_storm<S: Storm>(db: &Database<S::Schema>) {
    let began = Instant::now();
    let drained = db
        .wait_for_pending()
        .timeout(Duration::from_secs(120))
        .await;
    drained.expect("no pending work");
    let took = began.elapsed();
    let mut report = db.check().await.expect("a report");
    report.findings.retain(|found| !S::may_find(&found.kind));
    println!(
        "pending work completed after {took:?}; {} documents, {} references",
        report.documents, report.references
    );
    assert!(report.is_clean(), "{report}");
}

/// Runs a whole storm on the documents of [`begin`]. More than a third of the operations must succeed.
///
/// # Panics
///
/// If an operation fails unexpectedly, or the database is inconsistent after the storm.
pub async fn run<S: Storm>(db: &Database<S::Schema>, size: Size) {
    let outcomes = OutcomeCounts::default();
    let began = Instant::now();
    run_tasks::<S>(db, size, &outcomes, |_| false).await;
    println!("{size:?}: {outcomes} in {:?}", began.elapsed());
    check_after_storm::<S>(db).await;
    assert!(outcomes.done() > size.all() / 3, "{outcomes}");
}
