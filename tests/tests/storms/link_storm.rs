//! A storm of concurrent tasks that link, unlink, move and delete documents.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use odm_tests::{
    office::Db,
    storm::{self, Links, Size},
};

use crate::Fixture;

/// Runs 8 tasks with 40 operations each. `ODM_STORM=full` runs 32 tasks with 3,125 operations.
pub(crate) async fn inverses_agree_during_and_after_the_storm(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let size = Size::of(3_125);
    storm::begin::<Links>(&db, size).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let watcher = tokio::spawn(check_continuously(db.clone(), is_over.clone()));
    storm::run::<Links>(&db, size).await;
    is_over.store(true, Ordering::Relaxed);
    println!("{} checks meanwhile", watcher.await.unwrap());
}

/// With transactions, the check finds no fault at any time.
async fn check_continuously(db: Db, is_over: Arc<AtomicBool>) -> usize {
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
