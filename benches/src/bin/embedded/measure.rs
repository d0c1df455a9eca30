//! Loads the contenders, checks their answers, and measures a row for all contenders in turns.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use cpu_time::ProcessTime;
use odm_benches::figures::median;

use crate::{
    contender::{AnyContender, CommitMode, Contender, Kind, Result, Unsupported, with_contender},
    data::{Catalog, KITS_PER_SHELF, PRODUCTS_PER_CATEGORY},
    row::{Row, Work},
};

/// The number of documents in a single call during the load.
const LOAD_BATCH: i64 = 5_000;

/// The wait after relaxed writes. A thread of the engine syncs the writes, which would slow down the next contender.
const RELAXED_SYNC_WAIT: Duration = Duration::from_millis(150);

/// An open contender with its folder.
pub(crate) struct Entrant {
    pub(crate) kind: Kind,
    pub(crate) folder: PathBuf,
    contender: AnyContender,
    /// Whether the contender took part in all rows that change products.
    has_current_products: bool,
}

/// The times of all operations of a round, in seconds.
#[derive(Debug, Clone, Copy)]
struct RoundTimes {
    wall: f64,
    cpu: f64,
}

impl Entrant {
    pub(crate) async fn create(kind: Kind, folder: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&folder)?;
        Ok(Self {
            kind,
            contender: kind.create(&folder).await?,
            folder,
            has_current_products: true,
        })
    }

    /// Inserts the products, and the kits if a row reads kits.
    pub(crate) async fn load(&mut self, catalog: &Catalog, needs_kits: bool) -> Result<()> {
        with_contender!(&mut self.contender, contender => {
            for ids in batches(catalog.products) {
                let products = ids.map(|id| catalog.product(id));
                contender.insert_many(products.collect()).await?;
            }
            if needs_kits {
                unless_unsupported(load_kits(contender, catalog).await)?;
            }
        });
        Ok(())
    }

    /// Closes the database.
    pub(crate) async fn close(self) -> Result<(Kind, PathBuf)> {
        with_contender!(self.contender, contender => contender.close().await?);
        Ok((self.kind, self.folder))
    }

    /// Runs the work of a row. Returns `None` if the contender does not support the row.
    async fn run(&mut self, row: Row, work: Work) -> Result<Option<RoundTimes>> {
        with_contender!(&mut self.contender, contender => {
            unless_unsupported(run_timed(contender, row, work).await)
        })
    }

    async fn prepare(&mut self, row: Row, catalog: &Catalog) -> Result<Option<()>> {
        with_contender!(&mut self.contender, contender => {
            unless_unsupported(row.load(contender, catalog).await)
        })
    }

    async fn verify(&mut self, row: Row, catalog: &Catalog, last_round: i64) -> Result<()> {
        with_contender!(&mut self.contender, contender => {
            row.verify(contender, catalog, last_round).await
        })
    }
}

/// Returns ranges of ids, each for a single call.
fn batches(count: i64) -> impl Iterator<Item = std::ops::Range<i64>> {
    let starts = (0..count).step_by(usize::try_from(LOAD_BATCH).unwrap_or(1));
    starts.map(move |start| start..count.min(start + LOAD_BATCH))
}

async fn load_kits(contender: &mut impl Contender, catalog: &Catalog) -> Result<()> {
    for ids in batches(catalog.kits) {
        let parts = ids.clone().map(|id| catalog.part(id)).collect();
        let kits = ids.map(|id| catalog.kit(id)).collect();
        contender.load_kits(parts, kits).await?;
    }
    Ok(())
}

/// Returns `None` if the contender does not support the row.
fn unless_unsupported<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is::<Unsupported>() => Ok(None),
        Err(error) => Err(error),
    }
}

async fn run_timed(contender: &mut impl Contender, row: Row, work: Work) -> Result<RoundTimes> {
    let is_relaxed = row.commit_mode() == CommitMode::Relaxed;
    if is_relaxed {
        contender.set_commit_mode(CommitMode::Relaxed).await?;
    }
    let (wall, cpu) = (Instant::now(), ProcessTime::now());
    work.run(contender).await?;
    let times = RoundTimes {
        wall: wall.elapsed().as_secs_f64(),
        cpu: cpu.elapsed().as_secs_f64(),
    };
    if is_relaxed {
        contender.set_commit_mode(CommitMode::Durable).await?;
        tokio::time::sleep(RELAXED_SYNC_WAIT).await;
    }
    Ok(times)
}

/// Fails the benchmark if the answers of two contenders differ. A contender without some of the writes is left out.
pub(crate) async fn ensure_equal_answers(
    entrants: &mut [Entrant],
    catalog: &Catalog,
    reads_kits: bool,
) -> Result<()> {
    let mut expected = (None, None);
    for entrant in entrants.iter_mut().filter(|e| e.has_current_products) {
        let kind = entrant.kind;
        with_contender!(&mut entrant.contender, contender => {
            let of_products = product_answers(contender, catalog).await?;
            ensure_equal(&mut expected.0, of_products, kind)?;
            if reads_kits {
                let of_kits = unless_unsupported(kit_answers(contender, catalog).await)?;
                if let Some(of_kits) = of_kits {
                    ensure_equal(&mut expected.1, of_kits, kind)?;
                }
            }
        });
    }
    Ok(())
}

fn ensure_equal(expected: &mut Option<String>, answers: String, kind: Kind) -> Result<()> {
    let expected = expected.get_or_insert_with(|| answers.clone());
    match *expected == answers {
        true => Ok(()),
        false => {
            let name = kind.name();
            Err(format!("the answers of {name} differ: {answers} instead of {expected}").into())
        }
    }
}

/// Reads some products in each way. Returns the answers as text.
async fn product_answers(contender: &mut impl Contender, catalog: &Catalog) -> Result<String> {
    let mut answers = Vec::new();
    for id in [0, catalog.products / 2, catalog.products - 1] {
        answers.push(contender.get(id).await?);
        answers.push(contender.find_by_sku(crate::data::sku(id)).await?);
        let category = id / PRODUCTS_PER_CATEGORY;
        answers.extend(contender.find_by_category(category).await?);
    }
    Ok(format!("{answers:?}"))
}

/// Reads some kits with their parts. Returns the answers as text.
async fn kit_answers(contender: &mut impl Contender, catalog: &Catalog) -> Result<String> {
    let id = catalog.kits / 2;
    let one = contender.kit_with_parts(id).await?;
    let mut shelf = contender.shelf_with_parts(id / KITS_PER_SHELF).await?;
    shelf.sort_by_key(|(kit, _)| kit.id);
    Ok(format!("{one:?} {shelf:?}"))
}

/// The times of a contender in a row, in seconds for one operation.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    pub(crate) kind: Kind,
    pub(crate) median_wall: f64,
    pub(crate) mean_wall: f64,
    pub(crate) median_cpu: f64,
    /// The median of the ratios to SQLite, if SQLite takes part.
    pub(crate) ratio: Option<f64>,
}

/// The number of rounds and the size of a round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) is_quick: bool,
}

/// The times of all rounds of a contender, or `None` if the contender does not support the row.
type Series = Option<Vec<RoundTimes>>;

/// Measures a row. All contenders take turns in each round, and each round begins with a different contender.
///
/// `None` means that a contender does not support the row.
pub(crate) async fn measure_row(
    entrants: &mut [Entrant],
    row: Row,
    catalog: &Catalog,
    plan: Plan,
    next_id: &mut i64,
) -> Result<Vec<Option<Times>>> {
    let operations = row.operations(plan.is_quick);
    let mut all_series: Vec<Series> = Vec::new();
    for entrant in &mut *entrants {
        let prepared = entrant.prepare(row, catalog).await?;
        all_series.push(prepared.map(|()| Vec::new()));
    }
    for round in 0..=plan.rounds {
        let work = Work::new(row, i64::try_from(round)?, operations, catalog, *next_id);
        *next_id += operations;
        run_round(entrants, row, &work, round, &mut all_series).await?;
    }
    for (entrant, series) in entrants.iter_mut().zip(&all_series) {
        if series.is_some() {
            let last_round = i64::try_from(plan.rounds)?;
            entrant.verify(row, catalog, last_round).await?;
        } else if row.changes_products() {
            entrant.has_current_products = false;
        }
    }
    Ok(summarize_all(entrants, &all_series, operations as f64))
}

/// Runs the work for each contender. The first round is a warm-up and does not count.
async fn run_round(
    entrants: &mut [Entrant],
    row: Row,
    work: &Work,
    round: usize,
    all_series: &mut [Series],
) -> Result<()> {
    for turn in 0..entrants.len() {
        let place = (round + turn) % entrants.len();
        let Some(series) = &mut all_series[place] else {
            continue;
        };
        match entrants[place].run(row, work.clone()).await? {
            Some(times) if round > 0 => series.push(times),
            Some(_) => {}
            None => all_series[place] = None,
        }
    }
    Ok(())
}

fn summarize_all(
    entrants: &[Entrant],
    all_series: &[Series],
    operations: f64,
) -> Vec<Option<Times>> {
    let mut both = entrants.iter().zip(all_series);
    let reference = both.find(|(entrant, _)| entrant.kind == Kind::Sqlite);
    let reference = reference.and_then(|(_, series)| series.as_deref());
    let summarize = |(entrant, series): (&Entrant, &Series)| {
        summarize(entrant.kind, series.as_deref()?, reference, operations)
    };
    entrants.iter().zip(all_series).map(summarize).collect()
}

fn summarize(
    kind: Kind,
    rounds: &[RoundTimes],
    reference: Option<&[RoundTimes]>,
    operations: f64,
) -> Option<Times> {
    let ratios = rounds.iter().zip(reference.unwrap_or_default());
    let all_wall: f64 = rounds.iter().map(|round| round.wall).sum();
    Some(Times {
        kind,
        median_wall: median(rounds.iter().map(|round| round.wall / operations))?,
        mean_wall: all_wall / rounds.len() as f64 / operations,
        median_cpu: median(rounds.iter().map(|round| round.cpu / operations))?,
        ratio: median(ratios.map(|(own, other)| own.wall / other.wall)),
    })
}

/// The size of a database on disk, and the median time to open the database and to read a document.
#[derive(Debug)]
pub(crate) struct FileResult {
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    pub(crate) open: f64,
}

/// Closes the database. Then opens the database a few times.
pub(crate) async fn measure_file(entrant: Entrant) -> Result<Option<FileResult>> {
    let (kind, folder) = entrant.close().await?;
    if kind == Kind::Memory {
        return Ok(None);
    }
    let files = std::fs::read_dir(&folder)?;
    let lengths = files.map(|file| Ok(file?.metadata()?.len()));
    let bytes = lengths.sum::<Result<u64>>()?;
    let mut times = Vec::new();
    for _ in 0..3 {
        let start = Instant::now();
        let mut contender = kind.open(&folder).await?;
        with_contender!(&mut contender, contender => contender.get(0).await?);
        times.push(start.elapsed().as_secs_f64());
        with_contender!(contender, contender => contender.close().await?);
    }
    let open = median(times).ok_or("the file was not opened")?;
    Ok(Some(FileResult { kind, bytes, open }))
}
