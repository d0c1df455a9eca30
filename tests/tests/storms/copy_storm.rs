//! Many tasks that insert, change, move and delete sources and dependents.

use odm::Database;
use odm_tests::storm::{self, Copies, Size};

use crate::Fixture;

/// 8 tasks with 40 operations each; with `ODM_STORM=full` 32 with 6,250.
pub(crate) async fn at_rest_every_copy_is_as_its_source(fixture: Fixture) {
    let db = Database::with_backend(fixture.backend());
    let size = Size::of(6_250);
    storm::begin::<Copies>(&db, size).await;
    storm::run::<Copies>(&db, size).await;
}
