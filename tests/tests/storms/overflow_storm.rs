//! Many tasks that push into the same arrays, pull from them again, bring elements back, and delete and insert their documents.

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
    /// Which of those that had this id.
    life: i64,
    #[embed(overflow(after = 50, into = "extra_sales", owner = "book_id"))]
    customers: Overflow<i64>,
}

#[derive(Schema)]
#[schema(models(Book))]
struct Shop;
type Db = odm::Database<Shop>;

/// Of ten documents one is deleted now and then, and inserted anew.
const MORTAL: i64 = 10;

/// The elements of a task begin with its number so often.
const OF_A_TASK: i64 = 10_000_000;

/// What tells what was before what.
#[derive(Debug, Default)]
struct Clock(AtomicU64);

impl Clock {
    fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// Elements that were pushed to a document, or inserted with it.
#[derive(Debug)]
struct Given {
    owner: i64,
    elements: Vec<i64>,
    began: u64,
    ended: u64,
}

/// A document that was inserted.
#[derive(Debug)]
struct Inserted {
    given: Given,
    life: i64,
}

/// What one task has done.
#[derive(Debug, Default)]
struct Told {
    pushed: Vec<Given>,
    inserted: Vec<Inserted>,
    pulled: BTreeSet<i64>,
}

struct Task {
    db: Db,
    clock: Arc<Clock>,
    lives: Arc<AtomicI64>,
    random: ChaCha8Rng,
    owners: i64,
    next: i64,
    told: Told,
}

impl Task {
    async fn act(&mut self) -> odm::Result<()> {
        let owner = self.random.random_range(0..self.owners);
        match self.random.random_range(0..1_000) {
            0..8 => self.insert_anew(owner / MORTAL * MORTAL).await,
            8..12 => self.fold(owner).await,
            12..60 => self.pull().await,
            60..200 => {
                let count = self.random.random_range(2..60);
                self.push(owner, count).await
            }
            _ => self.push(owner, 1).await,
        }
    }

    fn elements(&mut self, count: i64) -> Vec<i64> {
        let from = self.next;
        self.next += count;
        (from..self.next).collect()
    }

    async fn push(&mut self, owner: i64, count: i64) -> odm::Result<()> {
        let elements = self.elements(count);
        let began = self.clock.tick();
        let update = self.db.update::<Book>(owner);
        let pushed = match elements.as_slice() {
            [one] if self.random.random_bool(0.1) => {
                patiently(update.add_to_set(|b| b.customers(), *one)).await?
            }
            [one] => patiently(update.push(|b| b.customers(), *one)).await?,
            all => patiently(update.push_each(|b| b.customers(), all.to_vec())).await?,
        };
        if pushed {
            self.told.pushed.push(Given {
                owner,
                elements,
                began,
                ended: self.clock.tick(),
            });
        }
        Ok(())
    }

    /// One of those that this task has pushed.
    async fn pull(&mut self) -> odm::Result<()> {
        let Some(given) = self.told.pushed.choose(&mut self.random) else {
            return Ok(());
        };
        let element = *given.elements.choose(&mut self.random).expect("elements");
        let update = self.db.update::<Book>(given.owner);
        patiently(update.pull(|b| b.customers(), element)).await?;
        self.told.pulled.insert(element);
        Ok(())
    }

    async fn fold(&self, owner: i64) -> odm::Result<()> {
        match self.db.arrays::<Book>().fold_one(owner).await {
            Err(error) if error.kind() != ErrorKind::Conflict => Err(error),
            _ => Ok(()),
        }
    }

    async fn insert_anew(&mut self, id: i64) -> odm::Result<()> {
        while let Err(error) = self.db.delete::<Book>(id).await {
            is_conflict(error)?;
        }
        let count = self.random.random_range(0..120);
        self.insert(id, count).await
    }

    async fn insert(&mut self, id: i64, count: i64) -> odm::Result<()> {
        let elements = self.elements(count);
        let life = self.lives.fetch_add(1, Ordering::SeqCst);
        let book = Book {
            id,
            life,
            customers: elements.iter().copied().collect(),
        };
        let began = self.clock.tick();
        match self.db.insert(book).await {
            // Another task was faster.
            Err(error) if error.kind() == ErrorKind::DuplicateKey => return Ok(()),
            done => done?,
        };
        let given = Given {
            owner: id,
            elements,
            began,
            ended: self.clock.tick(),
        };
        self.told.inserted.push(Inserted { given, life });
        Ok(())
    }
}

/// Nothing was written by it.
fn is_conflict(error: odm::Error) -> odm::Result<()> {
    match error.kind() {
        ErrorKind::Conflict => Ok(()),
        _ => Err(error),
    }
}

/// Again and again, if others write to the array; tells whether there is a document.
async fn patiently<W, D>(write: W) -> odm::Result<bool>
where
    W: Clone + IntoFuture<Output = odm::Result<D>>,
{
    loop {
        match write.clone().await {
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => is_conflict(error)?,
        }
    }
}

/// 8 tasks with 40 operations each; with `ODM_STORM=full` 32 with 6,250, which push more than 1,000,000 elements into 100 arrays.
pub(crate) async fn at_rest_every_element_is_where_it_was_pushed(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let size = Size::of(6_250);
    let owners = if is_full() { 100 } else { 11 };
    let (clock, lives) = (Arc::new(Clock::default()), Arc::new(AtomicI64::new(0)));
    let task = |number: i64| Task {
        db: db.clone(),
        clock: clock.clone(),
        lives: lives.clone(),
        random: ChaCha8Rng::seed_from_u64(number.unsigned_abs()),
        owners,
        next: number * OF_A_TASK,
        told: Told::default(),
    };
    let mut first = task(0);
    for id in 0..owners {
        first.insert(id, 0).await.unwrap();
    }
    let mut all = vec![first.told];
    let began = Instant::now();
    let running = (1..=i64::try_from(size.tasks).unwrap()).map(|number| {
        let mut task = task(number);
        tokio::spawn(async move {
            for _ in 0..size.operations {
                task.act().await.unwrap();
            }
            task.told
        })
    });
    for task in running.collect::<Vec<_>>() {
        all.push(task.await.unwrap());
    }
    let took = began.elapsed();
    db.settled().within(Duration::from_secs(120)).await.unwrap();
    let pushed: usize = all
        .iter()
        .flat_map(|told| &told.pushed)
        .map(|p| p.elements.len())
        .sum();
    println!("{size:?}: {pushed} elements pushed in {took:?}");
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
    is_exact(&db, &all, owners).await;
}

async fn is_exact(db: &Db, all: &[Told], owners: i64) {
    let pulled: BTreeSet<i64> = all.iter().flat_map(|told| &told.pulled).copied().collect();
    let mut pushed: BTreeMap<i64, Vec<&Given>> = BTreeMap::new();
    for given in all.iter().flat_map(|told| &told.pushed) {
        pushed.entry(given.owner).or_default().push(given);
    }
    for id in 0..owners {
        let book = db.get::<Book>(id).await.unwrap();
        let elements = db.get::<Book>(id).elements(|b| b.customers());
        let elements = elements.all().await.unwrap();
        assert_eq!(elements.len() as u64, book.customers.len(), "{id}");
        let found: BTreeSet<i64> = elements.iter().copied().collect();
        assert_eq!(found.len(), elements.len(), "{id}: one is there twice");
        let mut inserted = all.iter().flat_map(|told| &told.inserted);
        let born = inserted.find(|inserted| inserted.life == book.life);
        let born = &born.expect("who inserted it").given;
        let (mut must, mut may) = (BTreeSet::new(), BTreeSet::new());
        for given in pushed.get(&id).into_iter().flatten().copied().chain([born]) {
            let left = given
                .elements
                .iter()
                .filter(|element| !pulled.contains(element));
            let is_born_with = std::ptr::eq(given, born);
            if is_born_with || given.began > born.ended {
                must.extend(left.clone());
            }
            if is_born_with || given.ended > born.began {
                may.extend(left);
            }
        }
        let lost: Vec<_> = must.difference(&found).take(9).collect();
        assert!(lost.is_empty(), "{id}: lost {lost:?}");
        let left: Vec<_> = found.difference(&may).take(9).collect();
        assert!(left.is_empty(), "{id}: {left:?} should be gone");
        // What one task has pushed is in its order.
        let mut last = BTreeMap::new();
        for element in elements {
            let before = last.insert(element / OF_A_TASK, element);
            assert!(before < Some(element), "{id}: {element} behind {before:?}");
        }
    }
}
