//! Interleavings: several processes, whose operations happen one at a time in an order that a seed picks, where any of them may die at
//! any moment, or stop to wait for what it has begun; or in every order up to a bound.
//!
//! The clock stands still while something can run, so that the next operation is only picked when all that could go on has.

mod anew;
mod clears;
mod copies;
mod counts;
mod follows;
mod lines;
mod listings;
mod members;
mod order;
mod outliers;
mod overflow;
mod twins;

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use odm::{
    Result,
    backend::{
        Backend, BoxFuture, Capabilities, Executor, Transaction, Wrapper,
        operation::{Insert, Operation, Update},
    },
    bson::{Document, RawDocumentBuf},
};
use order::{Late, Next, Order, Random, Walk};
use tokio::{sync::oneshot, task::JoinHandle};

pub use anew::Anew;
pub use clears::Clears;
pub use copies::{Copies, FewCopies};
pub use counts::{Counts, FewCounts, Reborn, Returns};
pub use follows::{FewFollows, Follows};
pub use lines::{FewLines, Lines};
pub use listings::{FewListings, Listings};
pub use members::{FewMembers, Members};
pub use outliers::{
    Adopts, BriefInsert, FewOverflows, Gathers, LateDeletion, LateInsert, LateInserts, LateReading,
    Looks, Sets, Spills,
};
pub use overflow::{OrderedOverflows, Overflows};
pub use twins::{FewTwins, Twins};

/// Something that several processes do at once, and what must be so behind it.
pub trait Case: Send + Sync + 'static {
    /// Fills an empty database.
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()>;

    /// What each process does, by itself.
    fn processes(&self) -> Vec<Process>;

    /// Carries out what is owed, and looks.
    ///
    /// # Errors
    ///
    /// What is not as it must be.
    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>>;
}

/// What a process does on a database of its own; it may fail.
pub type Process = fn(Arc<dyn Backend>) -> BoxFuture<'static, ()>;

/// A guard that is taken away, to see that its loss is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// A copy is written over a newer one.
    Revision,
    /// What another write owes is taken for carried out.
    Token,
    /// New references are not looked at again.
    Verification,
    /// New documents are counted at their source, and their copies taken for right, though it has changed since it was read.
    Source,
    /// A write does not say that copies are to follow, but only lets them.
    FanOut,
    /// What an owner is made of is written though others have written it meanwhile.
    Fence,
    /// An owner does not note as what a member is counted.
    Notes,
    /// A write does not say that its documents are to be counted, but only counts them.
    Counting,
    /// What a member is counted as is remembered though it has changed meanwhile.
    Remembering,
    /// New owners do not say that they may have members.
    NewOwners,
    /// An inverse is written though others have written it since the reference was read.
    SideFence,
    /// A write of references does not say what may be new.
    Wanted,
    /// A write of references does not say which there may be no more.
    Unwanted,
    /// What is finished late is finished though something else is being done by then.
    WorkKey,
    /// A change of elements is made again where it was made.
    DoneOnce,
    /// A write does not say that elements elsewhere are to change.
    Promise,
    /// A write begins with an array while something is being done to it.
    AtRest,
    /// Documents of elements do not say that they may be nobody's.
    Collector,
    /// Documents that are filled are read before they are published.
    Publishing,
}

/// How a schedule is run.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// Which one.
    pub seed: u64,
    /// Whether the backend has transactions.
    pub transactions: bool,
    /// What is broken on purpose.
    pub sabotage: Option<Sabotage>,
}

impl Schedule {
    /// Runs it on the engine in memory.
    ///
    /// # Errors
    ///
    /// What is not as it must be, with the operations in their order.
    ///
    /// # Panics
    ///
    /// If a process does, or nothing comes to an end.
    pub fn run(self, case: &dyn Case) -> Result<(), String> {
        self.run_as(case, &mut Random::new(self.seed))
    }

    /// Runs every order in which a process that could go on is interrupted `switches` times at most, and in which nobody dies. The
    /// seed is none of its business. Gives how many there are.
    ///
    /// # Errors
    ///
    /// What is not as it must be in the first of them.
    ///
    /// # Panics
    ///
    /// As [`run`](Self::run).
    pub fn run_all(self, case: &dyn Case, switches: usize) -> Result<u64, String> {
        let (mut walk, mut orders) = (Walk::new(switches), 0);
        loop {
            self.run_as(case, &mut walk)?;
            orders += 1;
            if !walk.advance() {
                return Ok(orders);
            }
        }
    }

    /// Runs every order in which the first process pauses once, until the others have come to their end. Gives how many there are.
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
            let mut late = Late::new(usize::try_from(orders).unwrap_or(usize::MAX));
            self.run_as(case, &mut late)?;
            if !late.has_paused() {
                return Ok(orders);
            }
            orders += 1;
        }
    }

    fn run_as(self, case: &dyn Case, order: &mut dyn Order) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let done = runtime.block_on(self.run_in(case, order));
        runtime.shutdown_background();
        done
    }

    async fn run_in(self, case: &dyn Case, order: &mut dyn Order) -> Result<(), String> {
        let backend = odm::backend::Engine::memory();
        let backend: Arc<dyn Backend> = Arc::new(backend);
        let turns = Arc::new(Turns::default());
        // What is there before is right, whatever is broken.
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
            let own: Arc<dyn Backend> = Arc::new(Scheduled {
                inner: backend.clone(),
                process,
                turns: Some(turns.clone()),
                schedule: self,
            });
            (tokio::spawn(run(own.clone())), own)
        });
        // Background work of a process ends when its database is dropped, so each is kept.
        let (processes, _open): (Vec<_>, Vec<_>) = processes.unzip();
        self.drive(&turns, processes, order).await;
        case.end(plain).await.map_err(|wrong| {
            let mut text = format!("{self:?}: {wrong}\n");
            for line in turns.with(|state| std::mem::take(&mut state.told)) {
                let _ = writeln!(text, "  {line}");
            }
            text
        })
    }

    /// Lets one operation after the other happen, until every process has come to its end or died.
    async fn drive(self, turns: &Turns, processes: Vec<JoinHandle<()>>, order: &mut dyn Order) {
        for _ in 0..100_000 {
            // It ends when nothing else can run.
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
            if let Some(process) = order.stops(processes.len()) {
                let told = format!("{process} stops to wait");
                turns.with(|state| state.told.push(told));
                if let Some(process) = processes.get(process) {
                    process.abort();
                }
            }
            turns.with(|state| {
                // Whoever has stopped waiting for it has dropped it.
                state.waiting.retain(|waiting| !waiting.go.is_closed());
                let waiting: Vec<_> = state.waiting.iter().map(|of| of.process).collect();
                if waiting.is_empty() {
                    return;
                }
                match order.next(&waiting) {
                    Next::Nothing => {}
                    Next::Goes(next) => {
                        let next = state.waiting.remove(next);
                        state.told.push(format!("{} {}", next.process, next.name));
                        let _ = next.go.send(());
                    }
                    Next::Dies(next) => {
                        let next = state.waiting.remove(next);
                        let process = next.process;
                        state
                            .told
                            .push(format!("{process} dies before {}", next.name));
                        state.dead.insert(process);
                        // A server ends what nobody goes on with.
                        for (_, left) in state.begun.extract_if(.., |(of, _)| *of == process) {
                            tokio::spawn(async move { left.abort().await });
                        }
                        state.waiting.retain(|other| other.process != process);
                    }
                }
            });
        }
        let told = turns.with(|state| std::mem::take(&mut state.told));
        let last = told.iter().rev().take(40).rev();
        let last: Vec<_> = last.map(String::as_str).collect();
        panic!("{self:?} does not end:\n  {}", last.join("\n  "));
    }
}

/// Whose turn it is.
#[derive(Debug, Default)]
struct Turns(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Waiting>,
    dead: BTreeSet<usize>,
    /// The transactions that were begun, with who did.
    begun: Vec<(usize, Arc<dyn Transaction>)>,
    told: Vec<String>,
}

#[derive(Debug)]
struct Waiting {
    process: usize,
    name: String,
    go: oneshot::Sender<()>,
}

impl Turns {
    fn with<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A backend whose operations wait for their turn.
#[derive(Debug)]
struct Scheduled<T: ?Sized = dyn Backend> {
    inner: Arc<T>,
    process: usize,
    /// None if nothing waits.
    turns: Option<Arc<Turns>>,
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
                state.waiting.push(Waiting {
                    process: self.process,
                    name: format!("{operation:?}"),
                    go,
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

    fn around(&self, transaction: Arc<dyn Transaction>) -> Arc<dyn Transaction> {
        if let Some(turns) = &self.turns {
            turns.with(|state| state.begun.push((self.process, transaction.clone())));
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

    fn amend_insert(&self, insert: &mut Insert) {
        if let Some(sabotage) = self.schedule.sabotage {
            copies::spoil_insert(sabotage, insert);
            counts::spoil_insert(sabotage, insert);
            overflow::spoil_insert(sabotage, insert);
        }
    }

    fn amend_update(&self, update: &mut Update) {
        if let Some(sabotage) = self.schedule.sabotage {
            copies::spoil_update(sabotage, update);
            counts::spoil_update(sabotage, update);
            listings::spoil_update(sabotage, update);
            overflow::spoil_update(sabotage, update);
        }
    }
}

/// Changes what is about to be written.
fn change(raw: &mut RawDocumentBuf, change: impl FnOnce(&mut Document)) {
    let mut document = Document::try_from(&**raw).expect("what was encoded can be decoded");
    change(&mut document);
    *raw = RawDocumentBuf::try_from(&document).expect("what was decoded can be encoded");
}
