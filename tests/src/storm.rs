//! Storms: many tasks that write at random, and what must be so when they are over.
//!
//! They are short unless `ODM_STORM=full` asks for all of it. Each task does the same operations every time, in an order among the
//! tasks that nobody picks.

#[expect(missing_docs, reason = "the models are as good as any")]
pub mod copies;
#[expect(missing_docs, reason = "the models are as good as any")]
pub mod counts;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use odm::{Database, Schema, check::Fault};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

pub use copies::Copies;
pub use counts::Counts;

use crate::office::{self, Office};

/// What is written at random.
pub trait Storm: 'static {
    /// The schema of its documents.
    type Schema: Schema;

    /// Fills an empty database for operations on so many documents of a model.
    fn fill(db: &Database<Self::Schema>, ids: i64) -> impl Future<Output = odm::Result<()>> + Send;

    /// One operation of any kind.
    fn act(
        db: &Database<Self::Schema>,
        random: &mut ChaCha8Rng,
        ids: i64,
    ) -> impl Future<Output = odm::Result<()>> + Send;

    /// Whether it is an error of what was asked for, and not of the database.
    fn is_expected(error: &odm::Error) -> bool;

    /// What the check may find all the same.
    fn may_find(_: &Fault) -> bool {
        false
    }
}

/// References with rules, and both sides of links.
#[derive(Debug)]
pub struct Links;

impl Storm for Links {
    type Schema = Office;

    async fn fill(db: &office::Db, ids: i64) -> odm::Result<()> {
        office::fill(db, ids).await
    }

    async fn act(db: &office::Db, random: &mut ChaCha8Rng, ids: i64) -> odm::Result<()> {
        office::act(db, random, ids).await
    }

    fn is_expected(error: &odm::Error) -> bool {
        office::is_expected(error)
    }
}

/// How large a storm is.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// How many tasks there are.
    pub tasks: u64,
    /// How many operations each does.
    pub operations: u64,
    /// How many documents there can be of a model.
    pub ids: i64,
    /// Which operations: others do others.
    pub seed: u64,
}

impl Size {
    /// 8 tasks with 40 operations each; with `ODM_STORM=full` 32 with so many.
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

    /// How many operations there are in all.
    #[must_use]
    pub fn all(self) -> u64 {
        self.tasks * self.operations
    }
}

/// Whether all of a storm is asked for.
#[must_use]
pub fn is_full() -> bool {
    std::env::var("ODM_STORM").is_ok_and(|asked| asked == "full")
}

/// What has come of the operations so far: how many were done, and how many had each kind of error.
#[derive(Debug, Clone, Default)]
pub struct Told(Arc<Mutex<BTreeMap<String, u64>>>);

impl Told {
    /// Of how many something has come.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.with(|told| told.values().sum())
    }

    /// How many were done.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.with(|told| told.get("done").copied().unwrap_or_default())
    }

    fn tell(&self, done: &odm::Result<()>) {
        let kind = match done {
            Ok(()) => "done".to_owned(),
            Err(error) => format!("{:?}", error.kind()),
        };
        self.with(|told| *told.entry(kind).or_default() += 1);
    }

    fn with<R>(&self, look: impl FnOnce(&mut BTreeMap<String, u64>) -> R) -> R {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|told| write!(f, "{told:?}"))
    }
}

/// Fills an empty database with what a storm begins with.
///
/// # Panics
///
/// If that fails.
pub async fn begin<S: Storm>(db: &Database<S::Schema>, size: Size) {
    db.sync_indexes().await.expect("indexes");
    S::fill(db, size.ids).await.expect("documents");
}

/// Lets all tasks write, and waits until they have.
///
/// Whoever loses a server does not know what has come of an operation: `may_be_lost` says which errors tell that.
///
/// # Panics
///
/// If an operation fails as none should.
pub async fn blow<S: Storm>(
    db: &Database<S::Schema>,
    size: Size,
    told: &Told,
    may_be_lost: fn(&odm::Error) -> bool,
) {
    let tasks = (0..size.tasks).map(|task| {
        let (db, told) = (db.clone(), told.clone());
        tokio::spawn(async move {
            let mut random = ChaCha8Rng::seed_from_u64(size.seed * size.tasks + task);
            for _ in 0..size.operations {
                let done = S::act(&db, &mut random, size.ids).await;
                told.tell(&done);
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

/// Waits until nothing is owed any more, and looks at everything: all must be as the schema says.
///
/// # Panics
///
/// If it is not.
pub async fn rest<S: Storm>(db: &Database<S::Schema>) {
    let began = Instant::now();
    let settled = db.settled().within(Duration::from_secs(120)).await;
    settled.expect("nothing is owed");
    let took = began.elapsed();
    let mut report = db.check().await.expect("a report");
    report.findings.retain(|found| !S::may_find(&found.fault));
    println!(
        "settled after {took:?}; {} documents, {} references",
        report.documents, report.references
    );
    assert!(report.is_clean(), "{report}");
}

/// A whole storm on what it [begins](begin) with. Every third operation at least is done.
///
/// # Panics
///
/// If something is not as it must be.
pub async fn run<S: Storm>(db: &Database<S::Schema>, size: Size) {
    let told = Told::default();
    let began = Instant::now();
    blow::<S>(db, size, &told, |_| false).await;
    println!("{size:?}: {told} in {:?}", began.elapsed());
    rest::<S>(db).await;
    assert!(told.done() > size.all() / 3, "{told}");
}
