//! Two contenders, in turns.

use std::time::{Duration, Instant};

use crate::{
    contender::{Contender, Result},
    data::{self, IN_CATEGORY},
};

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) products: i64,
    pub(crate) rounds: usize,
}

/// What is measured, with how many operations each round has.
const TASKS: [(&str, i64); 5] = [
    ("insert one, durable", 20),
    ("insert 1,000 in one call", 1),
    ("get by id", 500),
    ("find 50 by an index", 20),
    ("join 50 with 250 parts", 10),
];

/// Loads both, measures each task in turns, and prints medians and ratios.
pub(crate) async fn pair(mut a: impl Contender, mut b: impl Contender, sizes: Sizes) -> Result<()> {
    load(&mut a, sizes).await?;
    load(&mut b, sizes).await?;
    agree(&mut a, &mut b, sizes).await?;
    println!(
        "\n{:<26} {:>22} {:>22} {:>8}",
        "",
        a.name(),
        b.name(),
        "ratio"
    );
    for (task, (name, operations)) in TASKS.into_iter().enumerate() {
        let (mut times_a, mut times_b, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        // The first round warms up and is left out.
        for round in 0..=sizes.rounds {
            // Who goes first changes with every round.
            let (time_a, time_b) = if round % 2 == 0 {
                let time_a = run(&mut a, task, operations, round, sizes).await?;
                (time_a, run(&mut b, task, operations, round, sizes).await?)
            } else {
                let time_b = run(&mut b, task, operations, round, sizes).await?;
                (run(&mut a, task, operations, round, sizes).await?, time_b)
            };
            if round > 0 {
                ratios.push(time_a.as_secs_f64() / time_b.as_secs_f64());
                times_a.push(time_a.as_secs_f64());
                times_b.push(time_b.as_secs_f64());
            }
        }
        println!(
            "{name:<26} {:>22} {:>22} {:>8.2}",
            show(median(&mut times_a)),
            show(median(&mut times_b)),
            median(&mut ratios)
        );
    }
    Ok(())
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
    if of_a != of_b || of_a.len() != usize::try_from(IN_CATEGORY)? || of_a[0].1.len() != 5 {
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
            _ => drop(contender.join(some(n) / IN_CATEGORY).await?),
        }
    }
    Ok(start.elapsed() / u32::try_from(operations)?)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn show(seconds: f64) -> String {
    if seconds < 0.001 {
        format!("{:.1} µs", seconds * 1e6)
    } else {
        format!("{:.2} ms", seconds * 1e3)
    }
}
