//! Distinct values.

use ::mongodb::{Database, action::Action, bson::Document};
use bson::RawBson;

use super::{Session, decode, error};
use crate::{Result, backend::operation::Distinct};

/// See [`Executor::distinct`](crate::backend::Executor::distinct).
pub(super) async fn distinct(
    database: &Database,
    distinct: Distinct,
    session: Session<'_>,
) -> Result<Vec<RawBson>> {
    let collection = database.collection::<Document>(&distinct.collection);
    let action = collection
        .distinct(&distinct.path, decode(&distinct.filter)?)
        .optional(session, |action, session| action.session(session));
    let values = action
        .await
        .map_err(|failure| error::from_driver(failure).with_collection(distinct.collection))?;
    let values = values.into_iter().map(RawBson::try_from);
    values
        .collect::<Result<_, _>>()
        .map_err(crate::error::encode)
}
