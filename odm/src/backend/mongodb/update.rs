//! Updates by operators.

use ::mongodb::{Database, action::Action, bson::Document};

use super::{Session, decode, error};
use crate::{
    Result,
    backend::operation::{Update, Updated},
};

/// See [`Executor::update`](crate::backend::Executor::update).
pub(super) async fn update(
    database: &Database,
    update: Update,
    session: Session<'_>,
) -> Result<Updated> {
    let collection = database.collection::<Document>(&update.collection);
    let (filter, changes) = (decode(&update.filter)?, decode(&update.update)?);
    let array_filters = update.array_filters.iter().map(|filter| decode(filter));
    let array_filters = array_filters.collect::<Result<Vec<_>>>()?;

    let action = match update.multi {
        true => collection.update_many(filter, changes),
        false => collection.update_one(filter, changes),
    };
    let action = action
        .optional(
            Some(array_filters).filter(|filters| !filters.is_empty()),
            |action, filters| action.array_filters(filters),
        )
        .optional(session, |action, session| action.session(session));
    match action.await {
        Ok(result) => Ok(Updated {
            matched: result.matched_count,
            modified: result.modified_count,
        }),
        Err(failure) => Err(error::from_driver(failure).with_collection(update.collection)),
    }
}
