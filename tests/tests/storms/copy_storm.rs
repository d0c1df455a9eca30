//! Many tasks that insert, change, move and delete sources and dependents.

use odm::Database;
use odm_tests::storm::{self, Copies, Size};

use crate::Fixture;

/// Runs 8 tasks with 40 operations each; with `ODM_STORM=full`, 32 tasks with 6,250 operations each.
pub(crate) async fn copies_equal_their_sources_after_pending_work(fixture: Fixture) {
    let db = Database::with_backend(fixture.backend());
    let size = Size::of(6_250);
    storm::begin::<Copies>(&db, size).await;
    storm::run::<Copies>(&db, size).await;
}
