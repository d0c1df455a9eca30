//! Measures two contenders in turns.

use std::time::{Duration, Instant};

use odm_benches::{
    figures::{format_seconds, median},
    tasks::PERSON_COUNT,
};

use crate::{
    contender::{Contender, Result},
    data::{self, PRODUCTS_PER_CATEGORY},
};

/// The sizes of the benchmarks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MeasureSizes {
    pub(crate) products: i64,
    pub(crate) rounds: usize,
}

/// The tasks with the number of operations in a round.
const TASKS_WITH_OPERATIONS: [(&str, i64); 6] = [
    (INSERT_TASK, 20),
    ("insert 1,000 in one call", 1),
    ("get by id", 500),
    ("find 100 by an index", 20),
    (JOIN_TASK, 10),
    ("move a link, both sides", 20),
];

/// The name of the task that inserts single products.
pub(crate) const INSERT_TASK: &str = "insert one";

/// The name of the join task.
pub(crate) const JOIN_TASK: &str = "join 100 with 1,000 parts";

/// Loads both contenders, measures the tasks with `only` in the name in turns, and prints medians and ratios.
pub(crate) async fn compare_contenders(
    a: &mut impl Contender,
    b: &mut impl Contender,
    sizes: MeasureSizes,
    only: &str,
) -> Result<()> {
    let tasks = TASKS_WITH_OPERATIONS.into_iter().enumerate();
    let tasks: Vec<_> = tasks.filter(|(_, (name, _))| name.contains(only)).collect();
    if tasks.is_empty() {
        return Ok(());
    }
    load(a, sizes).await?;
    load(b, sizes).await?;
    assert_equal_answers(a, b, sizes).await?;
    print_head(a.name(), b.name());
    for (task, (name, operations)) in tasks {
        measure_in_turns(
            name,
            sizes.rounds,
            async |round| run(a, task, operations, round, sizes).await,
            async |round| run(b, task, operations, round, sizes).await,
        )
        .await?;
    }
    Ok(())
}

/// Measures two contenders in turns and prints a line. Each closure runs a part of a round and returns the duration.
pub(crate) async fn measure_in_turns(
    name: &str,
    rounds: usize,
    mut a: impl AsyncFnMut(usize) -> Result<Duration>,
    mut b: impl AsyncFnMut(usize) -> Result<Duration>,
) -> Result<()> {
    let (mut times_a, mut times_b, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    // The first round is a warm-up and does not count.
    for round in 0..=rounds {
        // The contenders alternate in going first.
        let (time_a, time_b) = if round % 2 == 0 {
            let time_a = a(round).await?;
            (time_a, b(round).await?)
        } else {
            let time_b = b(round).await?;
            (a(round).await?, time_b)
        };
        if round > 0 {
            ratios.push(time_a.as_secs_f64() / time_b.as_secs_f64());
            times_a.push(time_a.as_secs_f64());
            times_b.push(time_b.as_secs_f64());
        }
    }
    print_line(name, &times_a, &times_b, &ratios);
    Ok(())
}

/// Prints the head of a table.
pub(crate) fn print_head(a: &str, b: &str) {
    println!("\n{:<30} {a:>24} {b:>24} {:>8}", "", "ratio");
}

/// Prints a line of a table: the medians of the durations and of the ratios.
pub(crate) fn print_line(name: &str, a: &[f64], b: &[f64], ratios: &[f64]) {
    let of = |values: &[f64]| median(values.iter().copied()).unwrap_or(f64::NAN);
    let (a, b) = (format_seconds(of(a)), format_seconds(of(b)));
    println!("{name:<30} {a:>24} {b:>24} {:>8.3}", of(ratios));
}

async fn load(contender: &mut impl Contender, sizes: MeasureSizes) -> Result<()> {
    contender.load(data::parts()).await?;
    for start in (0..sizes.products).step_by(5_000) {
        let end = sizes.products.min(start + 5_000);
        contender
            .insert_many((start..end).map(data::product).collect())
            .await?;
    }
    Ok(())
}

/// Fails the benchmark if the answers of the contenders differ.
async fn assert_equal_answers(
    a: &mut impl Contender,
    b: &mut impl Contender,
    sizes: MeasureSizes,
) -> Result<()> {
    let category = sizes.products / PRODUCTS_PER_CATEGORY / 2;
    let (mut of_a, mut of_b) = (a.join(category).await?, b.join(category).await?);
    of_a.sort_by_key(|(product, _)| product.id);
    of_b.sort_by_key(|(product, _)| product.id);
    if of_a != of_b
        || of_a.len() != usize::try_from(PRODUCTS_PER_CATEGORY)?
        || of_a[0].1.len() != 10
    {
        return Err("the contenders do not agree".into());
    }
    Ok(())
}

/// Returns the mean duration of an operation in a round.
async fn run(
    contender: &mut impl Contender,
    task: usize,
    operations: i64,
    round: usize,
    sizes: MeasureSizes,
) -> Result<Duration> {
    // New ids for each task and round, and the same ids for both contenders.
    let round = i64::try_from(round)?;
    let new = 1_000_000 * (i64::try_from(task)? + 1) + round * 1_000;
    let some = |n: i64| (round * 7_919 + n * 104_729) % sizes.products;
    let start = Instant::now();
    for n in 0..operations {
        match task {
            0 => contender.insert(data::product(new + n)).await?,
            1 => {
                contender
                    .insert_many((new..new + 1_000).map(data::product).collect())
                    .await?
            }
            2 => drop(contender.get(some(n)).await?),
            3 => drop(contender.find(some(n) / PRODUCTS_PER_CATEGORY).await?),
            4 => drop(contender.join(some(n) / PRODUCTS_PER_CATEGORY).await?),
            _ => {
                contender
                    .move_task(n % PERSON_COUNT, (n + round) % PERSON_COUNT)
                    .await?
            }
        }
    }
    Ok(start.elapsed() / u32::try_from(operations)?)
}
