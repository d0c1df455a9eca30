//! A storm of concurrent tasks that push into and pull from the same arrays, fold arrays, and delete and insert the owner
//! documents.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use odm::{ErrorKind, prelude::*};
use odm_tests::storm::{Size, is_full};
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;

use crate::Fixture;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "sales")]
struct Book {
    #[serde(rename = "_id")]
    id: i64,
    /// The number of the insert that created this document. Ids are used again.
    life: i64,
    #[embed(overflow(after = 50, into = "extra_sales", owner = "book_id"))]
    customers: Overflow<i64>,
}

#[derive(Schema)]
#[schema(models(Book))]
struct Shop;
type Db = odm::Database<Shop>;

/// Every tenth document is deleted sometimes, and inserted again.
const DELETED_ID_STEP: i64 = 10;

/// The first element of a task is the task number times this constant.
const ELEMENTS_PER_TASK: i64 = 10_000_000;

/// A logical clock that orders events.
#[derive(Debug, Default)]
struct LogicalClock(AtomicU64);

impl LogicalClock {
    fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// Elements of a push or an insert.
#[derive(Debug)]
struct WrittenElements {
    owner: i64,
    elements: Vec<i64>,
    began: u64,
    ended: u64,
}

/// An inserted document.
#[derive(Debug)]
struct InsertedBook {
    given: WrittenElements,
    life: i64,
}

/// The record of the writes of a task.
#[derive(Debug, Default)]
struct TaskRecord {
    pushed: Vec<WrittenElements>,
    inserted: Vec<InsertedBook>,
    pulled: BTreeSet<i64>,
}

struct StormTask {
    db: Db,
    clock: Arc<LogicalClock>,
    lives: Arc<AtomicI64>,
    random: ChaCha8Rng,
    owners: i64,
    next: i64,
    record: TaskRecord,
}

impl StormTask {
    async fn run_random_operation(&mut self) -> odm::Result<()> {
        let owner = self.random.random_range(0..self.owners);
        match self.random.random_range(0..1_000) {
            0..8 => {
                self.delete_and_insert(owner / DELETED_ID_STEP * DELETED_ID_STEP)
                    .await
            }
            8..12 => self.fold(owner).await,
            12..60 => self.pull().await,
            60..200 => {
                let count = self.random.random_range(2..60);
                self.push(owner, count).await
            }
            _ => self.push(owner, 1).await,
        }
    }

    fn next_elements(&mut self, count: i64) -> Vec<i64> {
        let from = self.next;
        self.next += count;
        (from..self.next).collect()
    }

    async fn push(&mut self, owner: i64, count: i64) -> odm::Result<()> {
        let elements = self.next_elements(count);
        let began = self.clock.tick();
        let update = self.db.update::<Book>(owner);
        let pushed = match elements.as_slice() {
            [one] if self.random.random_bool(0.1) => {
                retry_conflicts(update.add_to_set(|b| b.customers(), *one)).await?
            }
            [one] => retry_conflicts(update.push(|b| b.customers(), *one)).await?,
            all => retry_conflicts(update.push_each(|b| b.customers(), all.to_vec())).await?,
        };
        if pushed {
            self.record.pushed.push(WrittenElements {
                owner,
                elements,
                began,
                ended: self.clock.tick(),
            });
        }
        Ok(())
    }

    /// Pulls a random element that this task has pushed.
    async fn pull(&mut self) -> odm::Result<()> {
        let Some(given) = self.record.pushed.choose(&mut self.random) else {
            return Ok(());
        };
        let element = *given.elements.choose(&mut self.random).expect("elements");
        let update = self.db.update::<Book>(given.owner);
        retry_conflicts(update.pull(|b| b.customers(), element)).await?;
        self.record.pulled.insert(element);
        Ok(())
    }

    async fn fold(&self, owner: i64) -> odm::Result<()> {
        match self.db.arrays::<Book>().fold_one(owner).await {
            Err(error) if error.kind() != ErrorKind::Conflict => Err(error),
            _ => Ok(()),
        }
    }

    async fn delete_and_insert(&mut self, id: i64) -> odm::Result<()> {
        while let Err(error) = self.db.delete::<Book>(id).await {
            accept_conflict(error)?;
        }
        let count = self.random.random_range(0..120);
        self.insert(id, count).await
    }

    async fn insert(&mut self, id: i64, count: i64) -> odm::Result<()> {
        let elements = self.next_elements(count);
        let life = self.lives.fetch_add(1, Ordering::SeqCst);
        let book = Book {
            id,
            life,
            customers: elements.iter().copied().collect(),
        };
        let began = self.clock.tick();
        match self.db.insert(book).await {
            // A concurrent task has inserted the document.
            Err(error) if error.kind() == ErrorKind::DuplicateKey => return Ok(()),
            done => done?,
        };
        let given = WrittenElements {
            owner: id,
            elements,
            began,
            ended: self.clock.tick(),
        };
        self.record.inserted.push(InsertedBook { given, life });
        Ok(())
    }
}

/// Accepts a conflict, which means that the write changed no document.
fn accept_conflict(error: odm::Error) -> odm::Result<()> {
    match error.kind() {
        ErrorKind::Conflict => Ok(()),
        _ => Err(error),
    }
}

/// Repeats a write while the write has conflicts. Returns whether the document exists.
async fn retry_conflicts<W, D>(write: W) -> odm::Result<bool>
where
    W: Clone + IntoFuture<Output = odm::Result<D>>,
{
    loop {
        match write.clone().await {
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => accept_conflict(error)?,
        }
    }
}

/// Runs 8 tasks with 40 operations each. `ODM_STORM=full` runs 32 tasks with 6,250 operations, which push more than 1,000,000
/// elements into 100 arrays.
pub(crate) async fn no_element_is_lost_after_pending_work(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let size = Size::of(6_250);
    let owners = if is_full() { 100 } else { 11 };
    let (clock, lives) = (
        Arc::new(LogicalClock::default()),
        Arc::new(AtomicI64::new(0)),
    );
    let task = |number: i64| StormTask {
        db: db.clone(),
        clock: clock.clone(),
        lives: lives.clone(),
        random: ChaCha8Rng::seed_from_u64(number.unsigned_abs()),
        owners,
        next: number * ELEMENTS_PER_TASK,
        record: TaskRecord::default(),
    };
    let mut first = task(0);
    for id in 0..owners {
        first.insert(id, 0).await.unwrap();
    }
    let mut all = vec![first.record];
    let began = Instant::now();
    let running = (1..=i64::try_from(size.tasks).unwrap()).map(|number| {
        let mut task = task(number);
        tokio::spawn(async move {
            for _ in 0..size.operations {
                task.run_random_operation().await.unwrap();
            }
            task.record
        })
    });
    for task in running.collect::<Vec<_>>() {
        all.push(task.await.unwrap());
    }
    let took = began.elapsed();
    db.wait_for_pending()
        .timeout(Duration::from_secs(120))
        .await
        .unwrap();
    let pushed: usize = all
        .iter()
        .flat_map(|record| &record.pushed)
        .map(|p| p.elements.len())
        .sum();
    println!("{size:?}: {pushed} elements pushed in {took:?}");
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
    assert_elements(&db, &all, owners).await;
}

async fn assert_elements(db: &Db, all: &[TaskRecord], owners: i64) {
    let pulled: BTreeSet<i64> = all
        .iter()
        .flat_map(|record| &record.pulled)
        .copied()
        .collect();
    let mut pushed: BTreeMap<i64, Vec<&WrittenElements>> = BTreeMap::new();
    for given in all.iter().flat_map(|record| &record.pushed) {
        pushed.entry(given.owner).or_default().push(given);
    }
    for id in 0..owners {
        let book = db.get::<Book>(id).await.unwrap();
        let elements = db.get::<Book>(id).elements(|b| b.customers());
        let elements = elements.all().await.unwrap();
        assert_eq!(elements.len() as u64, book.customers.len(), "{id}");
        let found: BTreeSet<i64> = elements.iter().copied().collect();
        assert_eq!(found.len(), elements.len(), "{id}: one is there twice");
        let mut inserted = all.iter().flat_map(|record| &record.inserted);
        let born = inserted.find(|inserted| inserted.life == book.life);
        let born = &born.expect("who inserted it").given;
        let (mut must, mut may) = (BTreeSet::new(), BTreeSet::new());
        for given in pushed.get(&id).into_iter().flatten().copied().chain([born]) {
            let remaining = given
                .elements
                .iter()
                .filter(|element| !pulled.contains(element));
            let is_born_with = std::ptr::eq(given, born);
            if is_born_with || given.began > born.ended {
                must.extend(remaining.clone());
            }
            if is_born_with || given.ended > born.began {
                may.extend(remaining);
            }
        }
        let lost: Vec<_> = must.difference(&found).take(9).collect();
        assert!(lost.is_empty(), "{id}: lost {lost:?}");
        let unexpected: Vec<_> = found.difference(&may).take(9).collect();
        assert!(unexpected.is_empty(), "{id}: unexpected {unexpected:?}");
        // The elements of a task keep the order of the pushes.
        let mut last = BTreeMap::new();
        for element in elements {
            let before = last.insert(element / ELEMENTS_PER_TASK, element);
            assert!(before < Some(element), "{id}: {element} after {before:?}");
        }
    }
}
