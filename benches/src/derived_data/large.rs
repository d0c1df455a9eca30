//! A benchmark of a large fan-out, and of the effect on concurrent reads and writes.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use odm::Database;
use odm_benches::figures::peak_memory_mib;

use super::{
    DerivedSizes, fan_out,
    handwritten::HandwrittenDatabase,
    model::{self, Derived, Line},
};
use crate::{contender::Result, measure};

/// The id of the source of all lines.
const SOURCE_ID: i64 = 2;

/// Measures a fan-out compared with handwritten code, concurrent writes and reads during both and alone, and the memory of this
/// process.
pub(super) async fn compare(
    db: &Database<Derived>,
    hand: &impl HandwrittenDatabase,
    sizes: DerivedSizes,
) -> Result<()> {
    fan_out::load_lines(db, SOURCE_ID, sizes.many).await?;
    fan_out::load_lines_by_hand(hand, SOURCE_ID, sizes.many).await?;
    let mut alone = UnrelatedWork::start(db, sizes.many)
        .run_until_writes(sizes.alone)
        .await?;

    let before = reset_peak_memory_mib();
    let others = UnrelatedWork::start(db, sizes.many);
    let took = fan_out::change(db, SOURCE_ID, 1).await?;
    let mut during = others.stop().await?;
    let peak = peak_memory_mib();

    let others = UnrelatedWork::start(db, sizes.many);
    let took_by_hand = fan_out::change_by_hand(hand, SOURCE_ID, 1, sizes.many).await?;
    let mut during_by_hand = others.stop().await?;

    alone.add(
        UnrelatedWork::start(db, sizes.many)
            .run_until_writes(sizes.alone)
            .await?,
    );
    fan_out::assert_copies_current(db, SOURCE_ID, 1, sizes.many).await?;

    let (took, by_hand) = (took.as_secs_f64(), took_by_hand.as_secs_f64());
    let name = format!("large fan-out, {}", sizes.many);
    measure::print_line(&name, &[took], &[by_hand], &[took / by_hand]);
    measure::print_head("during the fan-out", "alone");
    let line = |name: &str, during: &mut [f64], alone: &mut [f64]| {
        let (during, alone) = (percentile_99(during), percentile_99(alone));
        measure::print_line(name, &[during], &[alone], &[during / alone]);
    };
    line("write, p99", &mut during.writes, &mut alone.writes);
    line("read, p99", &mut during.reads, &mut alone.reads);
    let by_hand = &mut during_by_hand;
    line(
        "by hand: write, p99",
        &mut by_hand.writes,
        &mut alone.writes,
    );
    line("by hand: read, p99", &mut by_hand.reads, &mut alone.reads);
    match before.zip(peak) {
        Some((before, peak)) => {
            println!(
                "memory of this process: {before} MiB before the fan-out, {peak} MiB at most during it"
            );
        }
        None => println!("memory of this process: not known on this system"),
    }
    Ok(())
}

/// Unrelated work during a fan-out: a task that inserts and a task that reads, each at most a thousand times per second.
struct UnrelatedWork {
    writer: tokio::task::JoinHandle<odm::Result<Vec<f64>>>,
    reader: tokio::task::JoinHandle<odm::Result<Vec<f64>>>,
    is_over: Arc<AtomicBool>,
    written: Arc<AtomicI64>,
}

/// The durations of the operations in seconds.
struct OperationTimes {
    writes: Vec<f64>,
    reads: Vec<f64>,
}

impl OperationTimes {
    fn add(&mut self, others: Self) {
        self.writes.extend(others.writes);
        self.reads.extend(others.reads);
    }
}

/// The pause between two operations of a task.
const OPERATION_PAUSE: Duration = Duration::from_millis(1);

impl UnrelatedWork {
    fn start(db: &Database<Derived>, lines: i64) -> Self {
        /// Ids above the ids of the remaining benchmarks.
        static NEXT: AtomicI64 = AtomicI64::new(1_000_000_000);
        let (is_over, written) = (Arc::<AtomicBool>::default(), Arc::<AtomicI64>::default());
        let writer = {
            let (db, is_over, written) = (db.clone(), is_over.clone(), written.clone());
            tokio::spawn(async move {
                let mut times = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let entry = model::entry(NEXT.fetch_add(1, Ordering::Relaxed));
                    let start = Instant::now();
                    db.insert(entry).await?;
                    times.push(start.elapsed().as_secs_f64());
                    written.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(OPERATION_PAUSE).await;
                }
                Ok(times)
            })
        };
        let reader = {
            let (db, is_over) = (db.clone(), is_over.clone());
            tokio::spawn(async move {
                let mut times = Vec::new();
                for n in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let id = fan_out::line_id(SOURCE_ID, n * 104_729 % lines);
                    let start = Instant::now();
                    db.get::<Line>(id).await?;
                    times.push(start.elapsed().as_secs_f64());
                    tokio::time::sleep(OPERATION_PAUSE).await;
                }
                Ok(times)
            })
        };
        Self {
            writer,
            reader,
            is_over,
            written,
        }
    }

    /// Runs until the writer has done this number of writes.
    async fn run_until_writes(self, writes: usize) -> Result<OperationTimes> {
        let writes = i64::try_from(writes)?;
        while self.written.load(Ordering::Relaxed) < writes && !self.writer.is_finished() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.stop().await
    }

    async fn stop(self) -> Result<OperationTimes> {
        self.is_over.store(true, Ordering::Relaxed);
        Ok(OperationTimes {
            writes: self.writer.await??,
            reads: self.reader.await??,
        })
    }
}

/// Returns the 99th percentile.
fn percentile_99(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let position = values.len() * 99 / 100;
    values.get(position).copied().unwrap_or(f64::NAN)
}

/// Resets the peak memory of this process and returns it, which works on Linux only.
fn reset_peak_memory_mib() -> Option<u64> {
    fs::write("/proc/self/clear_refs", "5").ok()?;
    peak_memory_mib()
}
