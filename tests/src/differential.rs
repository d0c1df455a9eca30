//! The differential test: random operations, carried out by the engine and by a real MongoDB side by side.
//!
//! `generate` makes worlds, each a few collections with indexes and documents, and operations on them. `pair` asks both
//! sides and compares what they answer and what they hold afterwards; `compare` and `failure` say how far MongoDB itself
//! determines that, `mistake` what it gets wrong. A difference is made small by `shrink` and printed by `report` as a case that the corpus runner can read.
//!
//! A world depends on nothing but the seed and its number, so that a run can be repeated, on any number of threads.

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

use crate::corpus::backend::Kind;
use generate::World;
use pair::{Asked, Difference, Pair};
use report::Report;
use step::Step;

/// How many operations a world gets.
const WORLD: u64 = 150;

/// What to run.
#[derive(Debug, Clone, clap::Parser)]
#[command(about = "Asks the engine and a real MongoDB the same random operations")]
pub struct Options {
    /// What the operations depend on.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many operations are compared.
    #[arg(long, default_value_t = 10_000)]
    ops: u64,
    /// Only the world with this number, as a difference names it.
    #[arg(long)]
    world: Option<u64>,
    /// Where the engine keeps its database.
    #[arg(long, value_enum, default_value_t = Store::Memory)]
    store: Store,
    /// How many worlds are run at once, each on a server of its own.
    #[arg(long, default_value_t = cores())]
    jobs: usize,
    /// How many differences end the run.
    #[arg(long, default_value_t = 10)]
    differences: usize,
    /// How many seconds are spent to make a difference small.
    #[arg(long, default_value_t = 20)]
    shrink: u64,
    /// Prints what the engine does not offer, and how often it was asked for.
    #[arg(long)]
    reasons: bool,
}

/// Where the engine keeps its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Store {
    /// In memory.
    Memory,
    /// In a file.
    Disk,
}

/// What the threads share.
struct Shared<'o> {
    options: &'o Options,
    next_world: AtomicU64,
    is_over: AtomicBool,
    report: Mutex<Report>,
    /// The cases that were printed: one mistake shows in many worlds.
    printed: Mutex<BTreeMap<String, usize>>,
    progress: ProgressBar,
}

/// Runs the operations, prints what differs, and returns whether nothing did.
///
/// # Errors
///
/// There is no server, or one of the sides cannot be used any longer.
pub fn run(options: &Options) -> Result<bool, String> {
    let started = Instant::now();
    let shared = Shared {
        options,
        next_world: AtomicU64::new(options.world.unwrap_or(0)),
        is_over: AtomicBool::new(false),
        report: Mutex::default(),
        printed: Mutex::default(),
        progress: progress(options.ops),
    };
    let ended: Vec<Result<(), String>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs)
            .map(|job| {
                scope.spawn({
                    let shared = &shared;
                    move || shared.work(job == 0)
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
        print!("{}", report.reasons());
    }
    ended.into_iter().collect::<Result<(), _>>()?;
    println!("{}", report.summary(options.seed, started.elapsed()));
    Ok(report.differences == 0)
}

impl Shared<'_> {
    fn work(&self, is_first: bool) -> Result<(), String> {
        let kind = match self.options.store {
            Store::Memory => Kind::Memory,
            Store::Disk => Kind::Engine,
        };
        let mut pair = Pair::open(kind, is_first).inspect_err(|_| self.stop())?;
        while !self.is_over.load(Ordering::Relaxed) {
            let number = self.next_world.fetch_add(1, Ordering::Relaxed);
            let (first, last) = match self.options.world {
                Some(only) => (only, only + 1),
                None => (0, self.options.ops.div_ceil(WORLD)),
            };
            if number >= last {
                break;
            }
            let left = self.options.ops - ((number - first) * WORLD).min(self.options.ops);
            self.run_world(number, left.min(WORLD), &mut pair)
                .inspect_err(|_| self.stop())?;
        }
        Ok(())
    }

    /// Runs the operations of a world. If one of them leaves a state that MongoDB does not determine, the
    /// world begins anew, with other documents.
    fn run_world(&self, number: u64, operations: u64, pair: &mut Pair) -> Result<(), String> {
        let mut world = World::new(self.options.seed, number);
        let mut compared = 0;
        // What is not offered counts as nothing, and must not go on for ever.
        let mut attempts = operations * 4;
        while compared < operations && attempts > 0 {
            pair.reset()?;
            let mut history: Vec<Step> = Vec::new();
            let mut planned = world
                .begin()
                .into_iter()
                .collect::<std::collections::VecDeque<_>>();
            while compared < operations && attempts > 0 {
                let step = match planned.pop_front() {
                    Some(step) => step,
                    None => {
                        planned.extend(world.next(pair.state()));
                        continue;
                    }
                };
                attempts -= 1;
                history.push(step.clone());
                match pair.ask(&step)? {
                    Asked::Same => compared += 1,
                    Asked::Open => {
                        compared += 1;
                        self.report().open += 1;
                    }
                    Asked::Last => {
                        compared += 1;
                        break;
                    }
                    Asked::NotOffered(reason) => {
                        history.pop();
                        self.report().not_offered(reason);
                        if step.session.is_some() {
                            // The engine has aborted the transaction.
                            break;
                        }
                    }
                    Asked::Undetermined => {
                        history.pop();
                        self.report().undetermined += 1;
                    }
                    Asked::Different(difference) => {
                        compared += 1;
                        self.different(number, &history, difference, pair)?;
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
        let (errors, nothing) = pair.take_tally();
        let mut report = self.report();
        report.operations += compared;
        report.errors += errors;
        report.nothing += nothing;
        drop(report);
        self.progress.inc(compared);
        Ok(())
    }

    fn different(
        &self,
        world: u64,
        history: &[Step],
        difference: Difference,
        pair: &mut Pair,
    ) -> Result<(), String> {
        let patience = Duration::from_secs(self.options.shrink);
        let small = shrink::shrink(history, difference, patience, pair)?;
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        let times = printed.entry(small.kind()).or_default();
        *times += 1;
        let is_new = *times <= 3;
        drop(printed);
        let mut report = self.report();
        report.differences += 1;
        let is_enough = report.differences >= self.options.differences;
        drop(report);
        if is_new {
            let text = report::print(self.options.seed, world, &small);
            self.progress.suspend(|| println!("{text}"));
        }
        if is_enough {
            self.stop();
        }
        Ok(())
    }

    fn report(&self) -> std::sync::MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// As many jobs as there are cores, but no more than so many servers.
fn cores() -> usize {
    const SERVERS: usize = 4;
    thread::available_parallelism().map_or(1, |cores| cores.get().min(SERVERS))
}

fn progress(operations: u64) -> ProgressBar {
    let bar = ProgressBar::new(operations);
    let style =
        ProgressStyle::with_template("{pos}/{len} operations, {per_sec}, {elapsed} {bar:30}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}
