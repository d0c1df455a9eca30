//! Copies of a whole database while the application writes references, copies, rollups and large arrays.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use odm::{
    Database, ErrorKind,
    backend::{
        Backend, Fault, Faults,
        operation::{FindOperation, Operation},
        read_to_end,
    },
    bson::{RawDocumentBuf, rawdoc},
    prelude::*,
};
use odm_tests::{
    aftermath::recover_and_check,
    assert_clean,
    storm::{Copies, Links, Rollups, Storm},
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::sync::oneshot;

use crate::Fixture;

/// A sale with a number from a sequence, and with more customers than fit into the document.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "sales", id = "{shop}/{#number}")]
struct Sale {
    #[serde(rename = "_id")]
    id: String,
    shop: String,
    number: i64,
    #[embed(overflow(after = 3, into = "extra_sales", owner = "sale"))]
    customers: Overflow<i64>,
}

#[derive(Schema)]
#[schema(models(Sale))]
struct Shop;

/// A storm of pushes into overflow arrays, and of inserts with numbers.
struct LargeArrays;

impl Storm for LargeArrays {
    type Schema = Shop;

    async fn fill(db: &Database<Shop>, ids: i64) -> odm::Result<()> {
        for _ in 0..ids {
            db.insert(new_sale(0)).await?;
        }
        Ok(())
    }

    async fn run_random_operation(
        db: &Database<Shop>,
        random: &mut ChaCha8Rng,
        ids: i64,
    ) -> odm::Result<()> {
        let id = format!("a/{}", random.random_range(1..=ids));
        match random.random_range(0..10) {
            0 => db
                .insert(new_sale(random.random_range(0..10)))
                .await
                .map(drop),
            1 => db.delete::<Sale>(id).await.map(drop),
            2 => {
                let pull = db.update::<Sale>(id);
                pull.pull(|s| s.customers(), random.random_range(0..50))
                    .await
                    .map(drop)
            }
            _ => {
                let push = db.update::<Sale>(id);
                push.push(|s| s.customers(), random.random_range(0..50))
                    .await
                    .map(drop)
            }
        }
    }

    fn is_expected(error: &odm::Error) -> bool {
        matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Conflict)
    }
}

fn new_sale(customers: i64) -> NewSale {
    NewSale {
        shop: "a".into(),
        customers: (0..customers).collect(),
    }
}

/// Returns an empty database of each kind.
async fn targets() -> Vec<Fixture> {
    vec![
        Fixture::engine_memory().await,
        Fixture::engine_disk().await,
        #[cfg(feature = "mongodb")]
        Fixture::mongodb_standalone().await,
        #[cfg(feature = "mongodb")]
        Fixture::mongodb_replica_set().await,
    ]
}

const IDS: i64 = 20;

/// More operations than the background work of one process has.
const MAX_BACKGROUND_OPERATIONS: usize = 1_000;

/// The number of documents that writers change during a copy.
const MIN_CHANGES: u64 = 60;

/// Copies a database twice while two tasks write: once in the middle of the writes, and once until the end of the writes.
async fn copy_during_a_storm<S: Storm>(db: Fixture) {
    let from = db.backend();
    let source = Database::<S::Schema>::with_backend(from.clone());
    source.sync_indexes().await.unwrap();
    S::fill(&source, IDS).await.unwrap();
    if !from.capabilities().change_streams {
        return copy_after_a_storm::<S>(&source).await;
    }
    for target in targets().await {
        let to = target.backend();
        let ends = Arc::new(AtomicBool::new(false));
        let writers =
            [1, 2].map(|seed| tokio::spawn(write::<S>(source.clone(), ends.clone(), seed)));

        // The pending work of writes in progress is in this copy.
        let middle = Fixture::engine_memory().await.backend();
        odm::copy(&source, &middle).await.unwrap();
        recover_and_check::<S::Schema>(middle, S::may_find)
            .await
            .unwrap();

        let (stopped, end) = oneshot::channel::<()>();
        let changes = AtomicU64::new(0);
        let copy = odm::copy(&source, &to)
            .follow_until(async { drop(end.await) })
            .on_progress(|progress| changes.store(progress.changes, Ordering::Relaxed));
        let stop = async {
            while changes.load(Ordering::Relaxed) < MIN_CHANGES {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            ends.store(true, Ordering::Relaxed);
            for writer in writers {
                writer.await.unwrap();
            }
            source.wait_for_pending().await.unwrap();
            stopped.send(()).unwrap();
        };
        let (report, ()) = tokio::join!(copy.into_future(), stop);
        report.unwrap();
        assert_same_documents(&from, &to).await;
        let copied = Database::<S::Schema>::with_backend(to);
        check_copy::<S>(&copied).await;
        target.cleanup().await;
    }
}

/// Checks the copied documents, and writes with the framework into the copy.
async fn check_copy<S: Storm>(copied: &Database<S::Schema>) {
    copied.wait_for_pending().await.unwrap();
    let mut report = copied.check().await.unwrap();
    report.findings.retain(|found| !S::may_find(&found.kind));
    assert!(report.is_clean() && report.documents > 0, "{report}");
    assert!(copied.sync_indexes().await.unwrap().created.is_empty());
    let mut random = ChaCha8Rng::seed_from_u64(9);
    for _ in 0..20 {
        if let Err(error) = S::run_random_operation(copied, &mut random, IDS).await {
            assert!(S::is_expected(&error), "{error:?}");
        }
    }
}

/// Copies a database without change streams after the writes, of which one has died.
async fn copy_after_a_storm<S: Storm>(source: &Database<S::Schema>) {
    let from = source.backend();
    for seed in 1..4 {
        let ends = Arc::new(AtomicBool::new(false));
        let faults = Faults::new(from.clone());
        faults.inject(40, Operation::is_write, Fault::HangAfter);
        let dying = Database::<S::Schema>::with_backend(Arc::new(faults.clone()));
        let dies = async {
            while faults.pending() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            // Background work of a dead process does not go on either.
            for nth in 1..=MAX_BACKGROUND_OPERATIONS {
                faults.inject(nth, |_| true, Fault::HangBefore);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        tokio::select! {
            () = write::<S>(dying, ends, seed) => {}
            () = dies => {}
        }
    }
    wait_for_background_work(from).await;
    for target in targets().await {
        let to = target.backend();
        // A program has opened the empty target, which records the declarations of the models.
        let opened = Database::<S::Schema>::with_backend(to.clone());
        opened.backfills().await.unwrap();
        odm::copy(source, &opened).quiescent().await.unwrap();
        assert_same_documents(from, &to).await;
        recover_and_check::<S::Schema>(to, S::may_find)
            .await
            .unwrap();
        target.cleanup().await;
    }
}

/// Waits until the background work of the dropped databases has ended: until the documents no longer change.
async fn wait_for_background_work(db: &Arc<dyn Backend>) {
    let mut last = Vec::new();
    loop {
        let mut documents = Vec::new();
        for name in db.list_collections().await.unwrap() {
            documents.extend(content(db, &name).await);
        }
        if documents == last {
            return;
        }
        last = documents;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn write<S: Storm>(db: Database<S::Schema>, ends: Arc<AtomicBool>, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    while !ends.load(Ordering::Relaxed) {
        if let Err(error) = S::run_random_operation(&db, &mut random, IDS).await {
            assert!(S::is_expected(&error), "{error:?}");
        }
        // A write into memory does not wait, so the other tasks would never run.
        tokio::task::yield_now().await;
    }
}

async fn assert_same_documents(from: &Arc<dyn Backend>, to: &Arc<dyn Backend>) {
    let names = from.list_collections().await.unwrap();
    assert_eq!(names, to.list_collections().await.unwrap());
    for name in names {
        let (expected, actual) = (content(from, &name).await, content(to, &name).await);
        assert!(expected == actual, "{name}: {expected:?} is not {actual:?}");
    }
}

async fn content(db: &Arc<dyn Backend>, collection: &str) -> Vec<RawDocumentBuf> {
    let find = FindOperation {
        collection: collection.to_owned().into(),
        filter: RawDocumentBuf::new(),
        projection: None,
        sort: Some(rawdoc! { "_id": 1 }),
        limit: None,
        options: Default::default(),
    };
    read_to_end(db.find(find).await.unwrap()).await.unwrap()
}

pub async fn a_copy_keeps_references_and_inverses(db: Fixture) {
    copy_during_a_storm::<Links>(db).await;
}

pub async fn a_copy_keeps_copies_of_fields(db: Fixture) {
    copy_during_a_storm::<Copies>(db).await;
}

pub async fn a_copy_keeps_rollups(db: Fixture) {
    copy_during_a_storm::<Rollups>(db).await;
}

pub async fn a_copy_keeps_large_arrays_and_sequences(db: Fixture) {
    copy_during_a_storm::<LargeArrays>(db).await;
}

/// A number that the source has assigned is not assigned again in the copy.
pub async fn sequences_continue_in_the_copy(db: Fixture) {
    let source = Database::<Shop>::with_backend(db.backend());
    let last = source
        .insert_many((0..5).map(new_sale))
        .await
        .unwrap()
        .pop()
        .unwrap();
    source.delete::<Sale>(last.id.clone()).await.unwrap();
    for target in targets().await {
        let to = target.backend();
        let copy = odm::copy(&source, &to);
        let copy = match source.backend().capabilities().change_streams {
            true => copy,
            false => copy.quiescent(),
        };
        copy.await.unwrap();
        let copied = Database::<Shop>::with_backend(to);
        assert_eq!(
            copied.insert(new_sale(9)).await.unwrap().number,
            last.number + 1
        );
        assert_clean(&copied).await;
        target.cleanup().await;
    }
}
