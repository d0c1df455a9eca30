//! Interleavings of several processes on one backend. One operation runs at a time, in an order that a seed or an enumeration
//! picks. Before any operation, a process can crash. A process can also be cancelled while the background work continues.
//!
//! The clock stands still while a task can run. So the next operation is picked only after every task waits.

mod averages;
mod cleared_copies;
mod copies;
mod copies_and_rollups;
mod joint_inserts;
mod late_reference_insert;
mod order;
mod overflow;
mod overflow_delete_rules;
mod overflow_inverses;
mod overflow_many_to_many;
mod overflow_races;
mod reinsert_after_delete;
mod rollups;
mod trees;
mod two_overflow_arrays;

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use odm::{
    Database, Result, Schema,
    backend::{
        Backend, BackendTransaction, BoxFuture, Capabilities, Executor, Wrapper,
        operation::{InsertOperation, Operation, UpdateOperation},
    },
    bson::{Document, RawDocumentBuf},
};
use order::{AllOrders, NextEvent, PausedFirst, RandomOrder, ScheduleOrder};
use tokio::{sync::oneshot, task::JoinHandle};

pub use averages::{Averages, SmallAverages};
pub use cleared_copies::ClearedCopies;
pub use copies::{Copies, SmallCopies};
pub use copies_and_rollups::{CopiesAndRollups, SmallCopiesAndRollups};
pub use joint_inserts::{JointInserts, LateJointInsert, TimelyJointInserts};
pub use late_reference_insert::LateReferenceInsert;
pub use overflow::{OrderedOverflows, Overflows};
pub use overflow_delete_rules::{OverflowDeleteRules, SmallOverflowDeleteRules};
pub use overflow_inverses::{FewOverflowInverses, OverflowInverses};
pub use overflow_many_to_many::{ManyToManyOverflows, SmallManyToManyOverflows};
pub use overflow_races::{
    BriefInsert, ConcurrentSets, ConcurrentSpills, ExistingArraySpill, InlinesArray, LateDeletion,
    LateInsert, LateInserts, LateReading, LateSpill, SearchesDuringFold, SmallOverflows,
};
pub use reinsert_after_delete::ReinsertedAfterDelete;
pub use rollups::{ReinsertedChild, ReturningParent, Rollups, SmallRollups};
pub use trees::{SmallTrees, Trees, WideTrees};
pub use two_overflow_arrays::{SmallTwoOverflowArrays, TwoOverflowArrays};

use crate::aftermath::expire_leases;

/// A scenario with several concurrent processes, and the invariants that hold afterwards.
pub trait Case: Send + Sync + 'static {
    /// Fills an empty database.
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()>;

    /// Returns the processes, each with its own database.
    fn processes(&self) -> Vec<Process>;

    /// Runs the pending work, and checks the invariants.
    ///
    /// # Errors
    ///
    /// Returns a description of the first violated invariant.
    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>>;
}

/// The work of a process on its own database. The operations of the work may fail.
pub type Process = fn(Arc<dyn Backend>) -> BoxFuture<'static, ()>;

/// A process that recovers the pending work of all processes, twice.
fn recover_pending<S: Schema>(backend: Arc<dyn Backend>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        for _ in 0..2 {
            let _ = expire_leases::<S>(&backend).await;
            let database = Database::<S>::with_backend(backend.clone());
            let _ = database.run_pending().await;
        }
    })
}

/// A guard that a schedule removes, to test that the invariants detect the loss. The description of each guard is the effect of
/// the removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// A copy is written without the check that the stored source version is older.
    SourceVersion,
    /// A process clears a pending fan-out or revalidation without comparing the token.
    PendingToken,
    /// A write of references does not record the pending revalidation.
    PendingRevalidation,
    /// Derived data is written without the check that the source is unchanged since the read.
    UnchangedSource,
    /// A change of a source does not record the pending fan-out.
    PendingFanOut,
    /// The rollups of a parent are written without the version guard.
    RollupVersion,
    /// A parent does not record the applied contribution of a child.
    AppliedContribution,
    /// A write of children does not record the pending rollup.
    PendingRollup,
    /// The contribution of a child is recorded without comparing the token of the pending rollup.
    RollupToken,
    /// An insert of parents does not record the pending recompute.
    PendingRecompute,
    /// An inverse is written without the version guard.
    InverseVersion,
    /// The intent record of a reference write lacks the new references.
    IntentNew,
    /// The intent record of a reference write lacks the old references.
    IntentOld,
    /// A move in a tree does not change the documents above the new parent.
    ChainLock,
    /// Array work is finished without comparing the key of the work.
    ArrayWorkKey,
    /// A chunk accepts the same element change twice.
    AppliedVersion,
    /// A write does not record the pending change of spilled elements.
    PendingArrayWork,
    /// A write starts on an array that has unfinished work.
    IdleArray,
    /// New chunk documents lack the provisional mark.
    ProvisionalMark,
    /// New chunk documents lack the work key, so readers see the chunks before the publishing write.
    PublishKey,
}

/// The settings of a run.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// The seed of the order and of the crashes.
    pub seed: u64,
    /// Whether the backend has transactions.
    pub transactions: bool,
    /// The guard to remove, if any.
    pub sabotage: Option<Sabotage>,
}

impl Schedule {
    /// Runs the case on the in-memory engine, in the order of the seed.
    ///
    /// # Errors
    ///
    /// Returns the violated invariant, with the operations in their order.
    ///
    /// # Panics
    ///
    /// Panics if a process panics, or if the run does not end.
    pub fn run(self, case: &dyn Case) -> Result<(), String> {
        self.run_as(case, &mut RandomOrder::new(self.seed))
    }

    /// Runs every order with at most `switches` preemptions and without crashes, and returns the number of orders. The seed has
    /// no effect.
    ///
    /// # Errors
    ///
    /// Returns the violated invariant of the first order that fails.
    ///
    /// # Panics
    ///
    /// As [`run`](Self::run).
    pub fn run_all(self, case: &dyn Case, switches: usize) -> Result<u64, String> {
        let (mut walk, mut orders) = (AllOrders::new(switches), 0);
        loop {
            self.run_as(case, &mut walk)?;
            orders += 1;
            if !walk.advance() {
                return Ok(orders);
            }
        }
    }

    /// Runs every order with a single pause of the first process that lasts until all processes after the first have ended.
    /// Returns the number of orders.
    ///
    /// # Errors
    ///
    /// As [`run_all`](Self::run_all).
    ///
    /// # Panics
    ///
    /// As [`run`](Self::run).
    pub fn run_late(self, case: &dyn Case) -> Result<u64, String> {
        let mut orders = 0;
        loop {
            let mut late = PausedFirst::new(usize::try_from(orders).unwrap_or(usize::MAX));
            self.run_as(case, &mut late)?;
            if !late.has_paused() {
                return Ok(orders);
            }
            orders += 1;
        }
    }

    fn run_as(self, case: &dyn Case, order: &mut dyn ScheduleOrder) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let done = runtime.block_on(self.run_in(case, order));
        runtime.shutdown_background();
        done
    }

    async fn run_in(self, case: &dyn Case, order: &mut dyn ScheduleOrder) -> Result<(), String> {
        let backend = odm::backend::Engine::memory();
        let backend: Arc<dyn Backend> = Arc::new(backend);
        let turns = Arc::new(TurnQueue::default());
        // The case fills the database with all guards in place.
        let plain = Scheduled {
            inner: backend.clone(),
            process: 0,
            turns: None,
            schedule: Self {
                sabotage: None,
                ..self
            },
        };
        let plain: Arc<dyn Backend> = Arc::new(plain);
        case.begin(plain.clone()).await;
        let processes = case.processes().into_iter().enumerate();
        let processes = processes.map(|(process, run)| {
            let process_backend: Arc<dyn Backend> = Arc::new(Scheduled {
                inner: backend.clone(),
                process,
                turns: Some(turns.clone()),
                schedule: self,
            });
            (tokio::spawn(run(process_backend.clone())), process_backend)
        });
        // Background work of a process ends when its database is dropped, so each is kept.
        let (processes, _open): (Vec<_>, Vec<_>) = processes.unzip();
        self.drive(&turns, processes, order).await;
        case.end(plain).await.map_err(|wrong| {
            let mut text = format!("{self:?}: {wrong}\n");
            for line in turns.with(|state| std::mem::take(&mut state.steps)) {
                let _ = writeln!(text, "  {line}");
            }
            text
        })
    }

    /// Runs one operation at a time, until every process has ended or crashed.
    async fn drive(
        self,
        turns: &TurnQueue,
        processes: Vec<JoinHandle<()>>,
        order: &mut dyn ScheduleOrder,
    ) {
        for _ in 0..100_000 {
            // The clock is paused, so this sleep ends only when no task can run.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let is_over = turns.with(|state| {
                let mut all = processes.iter().enumerate();
                let is_over =
                    all.all(|(process, task)| task.is_finished() || state.dead.contains(&process));
                is_over && state.waiting.is_empty()
            });
            if is_over {
                for task in processes {
                    if task.is_finished()
                        && let Err(error) = task.await
                    {
                        assert!(error.is_cancelled(), "{self:?}: {error}");
                    }
                }
                return;
            }
            if let Some(process) = order.next_cancelled(processes.len()) {
                let run_log = format!("{process} stops to wait");
                turns.with(|state| state.steps.push(run_log));
                if let Some(process) = processes.get(process) {
                    process.abort();
                }
            }
            turns.with(|state| {
                // Drop operations that the caller has cancelled.
                state.waiting.retain(|waiting| !waiting.permit.is_closed());
                let waiting: Vec<_> = state
                    .waiting
                    .iter()
                    .map(|waiting| waiting.process)
                    .collect();
                if waiting.is_empty() {
                    return;
                }
                match order.next(&waiting) {
                    NextEvent::Nothing => {}
                    NextEvent::Runs(next) => {
                        let next = state.waiting.remove(next);
                        state.steps.push(format!("{} {}", next.process, next.name));
                        let _ = next.permit.send(());
                    }
                    NextEvent::Dies(next) => {
                        let next = state.waiting.remove(next);
                        let process = next.process;
                        state
                            .steps
                            .push(format!("{process} dies before {}", next.name));
                        state.dead.insert(process);
                        // A server aborts the open transactions of a lost client.
                        for (_, transaction) in state
                            .open_transactions
                            .extract_if(.., |(owner, _)| *owner == process)
                        {
                            tokio::spawn(async move { transaction.abort().await });
                        }
                        state.waiting.retain(|other| other.process != process);
                    }
                }
            });
        }
        let recorded = turns.with(|state| std::mem::take(&mut state.steps));
        let last = recorded.iter().rev().take(40).rev();
        let last: Vec<_> = last.map(String::as_str).collect();
        panic!("{self:?} does not end:\n  {}", last.join("\n  "));
    }
}

/// The operations that wait for their turn, and the log of the run.
#[derive(Debug, Default)]
struct TurnQueue(Mutex<ScheduleState>);

#[derive(Debug, Default)]
struct ScheduleState {
    waiting: Vec<WaitingOperation>,
    dead: BTreeSet<usize>,
    /// The started transactions, each with its process.
    open_transactions: Vec<(usize, Arc<dyn BackendTransaction>)>,
    steps: Vec<String>,
}

#[derive(Debug)]
struct WaitingOperation {
    process: usize,
    name: String,
    permit: oneshot::Sender<()>,
}

impl TurnQueue {
    fn with<R>(&self, change: impl FnOnce(&mut ScheduleState) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A backend that delays each operation until the schedule picks that operation.
#[derive(Debug)]
struct Scheduled<T: ?Sized = dyn Backend> {
    inner: Arc<T>,
    process: usize,
    /// `None` if operations run at once.
    turns: Option<Arc<TurnQueue>>,
    schedule: Schedule,
}

impl<T: Executor + ?Sized> Wrapper for Scheduled<T> {
    type Inner = T;

    fn inner(&self) -> &T {
        &self.inner
    }

    fn perform<'a, R: Send + 'a>(
        &'a self,
        operation: Operation,
        run: BoxFuture<'a, Result<R>>,
    ) -> BoxFuture<'a, Result<R>> {
        Box::pin(async move {
            let Some(turns) = &self.turns else {
                return run.await;
            };
            let (go, goes) = oneshot::channel();
            let is_dead = turns.with(|state| {
                state.waiting.push(WaitingOperation {
                    process: self.process,
                    name: format!("{operation:?}"),
                    permit: go,
                });
                if state.dead.contains(&self.process) {
                    state.waiting.pop();
                }
                state.dead.contains(&self.process)
            });
            if is_dead || goes.await.is_err() {
                return std::future::pending().await;
            }
            run.await
        })
    }

    fn wrap_transaction(
        &self,
        transaction: Arc<dyn BackendTransaction>,
    ) -> Arc<dyn BackendTransaction> {
        if let Some(turns) = &self.turns {
            turns.with(|state| {
                state
                    .open_transactions
                    .push((self.process, transaction.clone()))
            });
        }
        Arc::new(Scheduled {
            inner: transaction,
            process: self.process,
            turns: self.turns.clone(),
            schedule: self.schedule,
        })
    }

    fn capabilities(&self, inner: Capabilities) -> Capabilities {
        match self.schedule.transactions {
            true => inner,
            false => Capabilities::new(false),
        }
    }

    fn amend_insert(&self, insert: &mut InsertOperation) {
        if let Some(sabotage) = self.schedule.sabotage {
            copies::remove_guard_from_insert(sabotage, insert);
            rollups::sabotage_insert(sabotage, insert);
            overflow::sabotage_insert(sabotage, insert);
        }
    }

    fn amend_update(&self, update: &mut UpdateOperation) {
        if let Some(sabotage) = self.schedule.sabotage {
            copies::remove_guard(sabotage, update);
            rollups::sabotage_update(sabotage, update);
            overflow_inverses::remove_guard(sabotage, update);
            trees::remove_guard(sabotage, update);
            overflow::sabotage_update(sabotage, update);
        }
    }
}

/// Applies a change to the decoded form of an encoded document.
fn change_document(raw: &mut RawDocumentBuf, change: impl FnOnce(&mut Document)) {
    let mut document = Document::try_from(&**raw).expect("an encoded document can be decoded");
    change(&mut document);
    *raw = RawDocumentBuf::try_from(&document).expect("a decoded document can be encoded");
}
