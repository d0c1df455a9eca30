//! The differential test: the engine and a real MongoDB run the same random operations.
//!
//! The module `generate` makes worlds: a few collections with indexes and documents, and operations. Module `pair` runs each
//! operation on both sides, and compares the answers and the stored documents. Modules `compare` and `failure` decide how far
//! MongoDB determines the result. Module `mistake` knows the wrong answers of MongoDB. Module `shrink` reduces a difference, and
//! `report` prints the difference as a case for the corpus runner.
//!
//! A world depends only on the seed and the world number, so a run can be repeated on any number of threads.

mod compare;
mod failure;
mod generate;
mod mistake;
mod pair;
mod report;
mod shrink;
mod step;

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::corpus::backend::BackendKind;
use generate::StepGenerator;
use pair::{AskOutcome, Difference, Pair};
use report::Report;
use step::Step;

/// The number of operations in a world.
const OPERATIONS_PER_WORLD: u64 = 150;

/// The options of a run.
#[derive(Debug, Clone, clap::Parser)]
#[command(about = "Asks the engine and a real MongoDB the same random operations")]
pub struct Options {
    /// The seed of the random operations.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of operations to compare.
    #[arg(long, default_value_t = 10_000)]
    ops: u64,
    /// Runs only the world with this number, as printed with a difference.
    #[arg(long)]
    world: Option<u64>,
    /// Where the engine keeps the database.
    #[arg(long, value_enum, default_value_t = Store::Memory)]
    store: Store,
    /// The number of worlds to run at once, each on a separate server.
    #[arg(long, default_value_t = worker_threads())]
    jobs: usize,
    /// The number of differences that end the run.
    #[arg(long, default_value_t = 10)]
    differences: usize,
    /// The time to shrink a difference, in seconds.
    #[arg(long, default_value_t = 20)]
    shrink: u64,
    /// Prints the features that the engine does not offer, with the number of requests for each.
    #[arg(long)]
    reasons: bool,
}

/// Where the engine keeps the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Store {
    /// In memory.
    Memory,
    /// In a file.
    Disk,
}

/// The state that all threads share.
struct SharedRun<'o> {
    options: &'o Options,
    next_world: AtomicU64,
    is_over: AtomicBool,
    report: Mutex<Report>,
    /// The printed cases. A single mistake appears in many worlds.
    printed: Mutex<BTreeMap<String, usize>>,
    progress: ProgressBar,
}

/// Runs the operations, prints the differences, and returns whether the run found no difference.
///
/// # Errors
///
/// No server is available, or a side can no longer be used.
pub fn run(options: &Options) -> Result<bool, String> {
    let started = Instant::now();
    let shared = SharedRun {
        options,
        next_world: AtomicU64::new(options.world.unwrap_or(0)),
        is_over: AtomicBool::new(false),
        report: Mutex::default(),
        printed: Mutex::default(),
        progress: progress_bar(options.ops),
    };
    let ended: Vec<Result<(), String>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs)
            .map(|job| {
                scope.spawn({
                    let shared = &shared;
                    move || shared.run_worlds(job == 0)
                })
            })
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .map(|ended| ended.unwrap_or_else(|_| Err("a panic, see above".to_owned())))
            .collect()
    });
    shared.progress.finish_and_clear();
    let report = shared
        .report
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    if options.reasons {
        print!("{}", report.not_offered_reasons());
    }
    ended.into_iter().collect::<Result<(), _>>()?;
    println!("{}", report.summary(options.seed, started.elapsed()));
    Ok(report.differences == 0)
}

impl SharedRun<'_> {
    fn run_worlds(&self, is_first: bool) -> Result<(), String> {
        let kind = match self.options.store {
            Store::Memory => BackendKind::Memory,
            Store::Disk => BackendKind::Engine,
        };
        let mut pair = Pair::open(kind, is_first).inspect_err(|_| self.request_stop())?;
        while !self.is_over.load(Ordering::Relaxed) {
            let number = self.next_world.fetch_add(1, Ordering::Relaxed);
            let (first, last) = match self.options.world {
                Some(only) => (only, only + 1),
                None => (0, self.options.ops.div_ceil(OPERATIONS_PER_WORLD)),
            };
            if number >= last {
                break;
            }
            let operations =
                self.options.ops - ((number - first) * OPERATIONS_PER_WORLD).min(self.options.ops);
            self.run_world(number, operations.min(OPERATIONS_PER_WORLD), &mut pair)
                .inspect_err(|_| self.request_stop())?;
        }
        Ok(())
    }

    /// Runs the operations of a world. If an operation leaves a state that MongoDB does not determine, the world begins again
    /// with new documents.
    fn run_world(&self, number: u64, operations: u64, pair: &mut Pair) -> Result<(), String> {
        let mut world = StepGenerator::new(self.options.seed, number);
        let mut compared = 0;
        // Operations that the engine does not offer are not counted. The limit on attempts ends a world of rejected operations.
        let mut attempts = operations * 4;
        while compared < operations && attempts > 0 {
            pair.reset()?;
            let mut history: Vec<Step> = Vec::new();
            let mut planned = world
                .new_schema()
                .into_iter()
                .collect::<std::collections::VecDeque<_>>();
            while compared < operations && attempts > 0 {
                let step = match planned.pop_front() {
                    Some(step) => step,
                    None => {
                        planned.extend(world.next_steps(pair.state()));
                        continue;
                    }
                };
                attempts -= 1;
                history.push(step.clone());
                match pair.ask(&step)? {
                    AskOutcome::Same => compared += 1,
                    AskOutcome::Open => {
                        compared += 1;
                        self.report().differing_failures += 1;
                    }
                    AskOutcome::Last => {
                        compared += 1;
                        break;
                    }
                    AskOutcome::NotOffered(reason) => {
                        history.pop();
                        self.report().not_offered(reason);
                        if step.session.is_some() {
                            // The engine has aborted the transaction.
                            break;
                        }
                    }
                    AskOutcome::Undetermined => {
                        history.pop();
                        self.report().undetermined += 1;
                    }
                    AskOutcome::Different(difference) => {
                        compared += 1;
                        self.record_difference(number, &history, difference, pair)?;
                        break;
                    }
                }
                if self.is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
        }
        let (errors, nothing) = pair.take_answer_counts();
        let mut report = self.report();
        report.operations += compared;
        report.errors += errors;
        report.empty_results += nothing;
        drop(report);
        self.progress.inc(compared);
        Ok(())
    }

    fn record_difference(
        &self,
        world: u64,
        history: &[Step],
        difference: Difference,
        pair: &mut Pair,
    ) -> Result<(), String> {
        let patience = Duration::from_secs(self.options.shrink);
        let small = shrink::shrink(history, difference, patience, pair)?;
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        let times = printed.entry(small.similarity_key()).or_default();
        *times += 1;
        let is_new = *times <= 3;
        drop(printed);
        let mut report = self.report();
        report.differences += 1;
        let is_enough = report.differences >= self.options.differences;
        drop(report);
        if is_new {
            let text = report::difference_text(self.options.seed, world, &small);
            self.progress.suspend(|| println!("{text}"));
        }
        if is_enough {
            self.request_stop();
        }
        Ok(())
    }

    fn report(&self) -> std::sync::MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request_stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Returns the number of cores, limited to `MAX_SERVERS`.
fn worker_threads() -> usize {
    const MAX_SERVERS: usize = 4;
    thread::available_parallelism().map_or(1, |cores| cores.get().min(MAX_SERVERS))
}

fn progress_bar(operations: u64) -> ProgressBar {
    let bar = ProgressBar::new(operations);
    let style =
        ProgressStyle::with_template("{pos}/{len} operations, {per_sec}, {elapsed} {bar:30}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}
