//! A storm of tasks that insert, update, move and delete children and parents.

use odm::Database;
use odm_tests::storm::{self, Rollups, Size};

use crate::Fixture;

/// Runs 8 tasks with 40 operations each. With `ODM_STORM=full`, runs 32 tasks with 6,250 operations each.
pub(crate) async fn rollups_are_exact_after_pending_work(fixture: Fixture) {
    let db = Database::with_backend(fixture.backend());
    let size = Size::of(6_250);
    storm::begin::<Rollups>(&db, size).await;
    storm::run::<Rollups>(&db, size).await;
}
