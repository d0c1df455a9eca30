//! Many tasks that insert, change, move and delete documents, and those at which they are counted.

use odm::Database;
use odm_tests::storm::{self, Counts, Size};

use crate::Fixture;

/// 8 tasks with 40 operations each; with `ODM_STORM=full` 32 with 6,250.
pub(crate) async fn at_rest_every_count_is_exact(fixture: Fixture) {
    let db = Database::with_backend(fixture.backend());
    let size = Size::of(6_250);
    storm::begin::<Counts>(&db, size).await;
    storm::run::<Counts>(&db, size).await;
}
