//! Many tasks that link, unlink, move and delete.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use odm_tests::{
    office::Db,
    storm::{self, Links, Size},
};

use crate::Fixture;

/// 8 tasks with 40 operations each; with `ODM_STORM=full` 32 with 3,125.
pub(crate) async fn at_rest_and_at_every_moment_all_sides_agree(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let size = Size::of(3_125);
    storm::begin::<Links>(&db, size).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let watcher = tokio::spawn(watch(db.clone(), is_over.clone()));
    storm::run::<Links>(&db, size).await;
    is_over.store(true, Ordering::Relaxed);
    println!("{} checks meanwhile", watcher.await.unwrap());
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
