//! Reads by one filter: find and count.

use ::mongodb::{ClientSession, Database, action::Action, bson::Document};

use super::{
    cursor::{Batches, Opened},
    decode, error, limit, milliseconds,
};
use crate::{
    Result,
    backend::operation::{Count, Find},
};

/// See [`Executor::find`](crate::backend::Executor::find).
pub(super) async fn find(
    database: &Database,
    find: Find,
    batches: Batches,
    session: &mut ClientSession,
) -> Result<Opened> {
    if find.limit == Some(0) {
        return Ok(Opened::empty());
    }
    let collection = database.collection::<Document>(&find.collection);
    let projection = find.projection.as_deref().map(decode).transpose()?;
    let sort = find.sort.as_deref().map(decode).transpose()?;
    let action = collection
        .find(decode(&find.filter)?)
        .optional(projection, |action, projection| {
            action.projection(projection)
        })
        .optional(sort, |action, sort| action.sort(sort))
        .optional(find.limit, |action, n| action.limit(limit(n)))
        .optional(batches.size(find.limit), |action, size| {
            action.batch_size(size)
        })
        .optional(find.max_time, |action, max_time| {
            action.max_time(milliseconds(max_time))
        });
    let opened = match action.session(&mut *session).batch().await {
        Ok(rest) => Opened::new(rest, session).await,
        Err(failure) => Err(error::from_driver(failure)),
    };
    opened.map_err(|error| error.with_collection(find.collection))
}

/// See [`Executor::count`](crate::backend::Executor::count).
pub(super) async fn count(
    database: &Database,
    count: Count,
    session: &mut ClientSession,
) -> Result<u64> {
    if count.limit == Some(0) {
        return Ok(0);
    }
    let collection = database.collection::<Document>(&count.collection);
    let action = collection
        .count_documents(decode(&count.filter)?)
        .optional(count.limit, |action, n| {
            action.limit(limit(n).unsigned_abs())
        })
        .optional(count.max_time, |action, max_time| {
            action.max_time(milliseconds(max_time))
        });
    action
        .session(session)
        .await
        .map_err(|failure| error::from_driver(failure).with_collection(count.collection))
}
