//! Many tasks that link, unlink, move and delete.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use odm_tests::office::{self, Db, act, fill};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::Fixture;

/// How many tasks there are, how many operations each does, and how many documents there can be of a model.
fn size() -> (u64, usize, i64) {
    match std::env::var("ODM_STORM").as_deref() {
        Ok("full") => (32, 3_125, 60),
        _ => (8, 40, 12),
    }
}

/// 8 tasks with 40 operations each; with `ODM_STORM=full` 32 with 3,125.
pub async fn at_rest_and_at_every_moment_all_sides_agree(fixture: Fixture) {
    let (tasks, operations, ids) = size();
    let db = Db::with_backend(fixture.backend());
    fill(&db, ids).await.unwrap();
    let told = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
    let workers = (0..tasks).map(|worker| {
        let (db, told) = (db.clone(), told.clone());
        tokio::spawn(async move {
            let mut random = ChaCha8Rng::seed_from_u64(worker);
            for _ in 0..operations {
                let done = act(&db, &mut random, ids).await;
                let kind = match &done {
                    Ok(()) => "done".to_owned(),
                    Err(error) => format!("{:?}", error.kind()),
                };
                *told.lock().unwrap().entry(kind).or_default() += 1;
                if let Err(error) = done {
                    assert!(office::is_expected(&error), "{error}");
                }
            }
        })
    });
    let workers: Vec<_> = workers.collect();
    let is_over = Arc::new(AtomicBool::new(false));
    let watcher = tokio::spawn(watch(db.clone(), is_over.clone()));
    for worker in workers {
        worker.await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    let checked = watcher.await.unwrap();
    db.settle().await.unwrap();
    let report = db.check().await.unwrap();
    let told = told.lock().unwrap().clone();
    println!(
        "{tasks} x {operations} operations: {told:?}; {} documents, {} references, {checked} checks meanwhile",
        report.documents, report.references
    );
    assert!(report.is_clean(), "{report}");
    assert!(
        told["done"] > usize::try_from(tasks).unwrap() * operations / 3,
        "{told:?}"
    );
}

/// Where there are transactions, nothing is wrong at any moment.
async fn watch(db: Db, is_over: Arc<AtomicBool>) -> usize {
    let mut checked = 0;
    if !db.backend().capabilities().transactions {
        return checked;
    }
    while !is_over.load(Ordering::Relaxed) {
        let report = db.transaction(|tx| async move { tx.check().await });
        let report = report.await.unwrap();
        assert!(report.is_clean(), "{report}");
        checked += 1;
    }
    checked
}
