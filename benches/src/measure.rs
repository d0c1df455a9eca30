//! Two contenders, in turns.

use std::time::{Duration, Instant};

use crate::{
    contender::{Contender, Result},
    data::{self, IN_CATEGORY, PERSONS},
};

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) products: i64,
    pub(crate) rounds: usize,
}

/// What is measured, with how many operations each round has.
const TASKS: [(&str, i64); 6] = [
    ("insert one, durable", 20),
    ("insert 1,000 in one call", 1),
    ("get by id", 500),
    ("find 100 by an index", 20),
    (JOIN, 10),
    ("move a link, both sides", 20),
];

/// The name of the join.
pub(crate) const JOIN: &str = "join 100 with 1,000 parts";

/// Loads both, measures each task with `only` in its name in turns, and prints medians and ratios.
pub(crate) async fn pair(
    a: &mut impl Contender,
    b: &mut impl Contender,
    sizes: Sizes,
    only: &str,
) -> Result<()> {
    let tasks = TASKS.into_iter().enumerate();
    let tasks: Vec<_> = tasks.filter(|(_, (name, _))| name.contains(only)).collect();
    if tasks.is_empty() {
        return Ok(());
    }
    load(a, sizes).await?;
    load(b, sizes).await?;
    agree(a, b, sizes).await?;
    head(a.name(), b.name());
    for (task, (name, operations)) in tasks {
        turns(
            name,
            sizes.rounds,
            async |round| run(a, task, operations, round, sizes).await,
            async |round| run(b, task, operations, round, sizes).await,
        )
        .await?;
    }
    Ok(())
}

/// Measures two in turns, each of which does its part of a round and tells how long it took, and prints a line.
pub(crate) async fn turns(
    name: &str,
    rounds: usize,
    mut a: impl AsyncFnMut(usize) -> Result<Duration>,
    mut b: impl AsyncFnMut(usize) -> Result<Duration>,
) -> Result<()> {
    let (mut times_a, mut times_b, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    // The first round warms up and is left out.
    for round in 0..=rounds {
        // Who goes first changes with every round.
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
    line(name, &mut times_a, &mut times_b, &mut ratios);
    Ok(())
}

/// Begins a table.
pub(crate) fn head(a: &str, b: &str) {
    println!("\n{:<30} {a:>24} {b:>24} {:>8}", "", "ratio");
}

/// A line of it: medians, and that of the ratios.
pub(crate) fn line(name: &str, a: &mut [f64], b: &mut [f64], ratios: &mut [f64]) {
    let (a, b) = (show(median(a)), show(median(b)));
    println!("{name:<30} {a:>24} {b:>24} {:>8.3}", median(ratios));
}

async fn load(contender: &mut impl Contender, sizes: Sizes) -> Result<()> {
    contender.load(data::parts()).await?;
    for start in (0..sizes.products).step_by(5_000) {
        let end = sizes.products.min(start + 5_000);
        contender
            .insert_many((start..end).map(data::product).collect())
            .await?;
    }
    Ok(())
}

/// Both give the same answers, or nothing is worth comparing.
async fn agree(a: &mut impl Contender, b: &mut impl Contender, sizes: Sizes) -> Result<()> {
    let category = sizes.products / IN_CATEGORY / 2;
    let (mut of_a, mut of_b) = (a.join(category).await?, b.join(category).await?);
    of_a.sort_by_key(|(product, _)| product.id);
    of_b.sort_by_key(|(product, _)| product.id);
    if of_a != of_b || of_a.len() != usize::try_from(IN_CATEGORY)? || of_a[0].1.len() != 10 {
        return Err("the contenders do not agree".into());
    }
    Ok(())
}

/// The time of one operation, as the mean of a round.
async fn run(
    contender: &mut impl Contender,
    task: usize,
    operations: i64,
    round: usize,
    sizes: Sizes,
) -> Result<Duration> {
    // New ids for each task and round; the same for both contenders.
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
            3 => drop(contender.find(some(n) / IN_CATEGORY).await?),
            4 => drop(contender.join(some(n) / IN_CATEGORY).await?),
            _ => contender.give(n % PERSONS, (n + round) % PERSONS).await?,
        }
    }
    Ok(start.elapsed() / u32::try_from(operations)?)
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

pub(crate) fn show(seconds: f64) -> String {
    if seconds < 0.001 {
        format!("{:.1} µs", seconds * 1e6)
    } else {
        format!("{:.2} ms", seconds * 1e3)
    }
}
