//! Reads by one filter: find and count.

use ::mongodb::{Database, action::Action, bson::Document};

use super::{
    Session,
    cursor::{Batches, Opened, Rest},
    decode, error, limit,
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
    mut session: Session<'_>,
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
        });
    let opened = match session.as_deref_mut() {
        None => action.batch().await.map(Rest::Outside),
        Some(session) => action.session(session).batch().await.map(Rest::Inside),
    };
    let opened = match opened {
        Ok(rest) => Opened::new(rest, session).await,
        Err(failure) => Err(error::from_driver(failure)),
    };
    opened.map_err(|error| error.with_collection(find.collection))
}

/// See [`Executor::count`](crate::backend::Executor::count).
pub(super) async fn count(database: &Database, count: Count, session: Session<'_>) -> Result<u64> {
    if count.limit == Some(0) {
        return Ok(0);
    }
    let collection = database.collection::<Document>(&count.collection);
    let action = collection
        .count_documents(decode(&count.filter)?)
        .optional(count.limit, |action, n| {
            action.limit(limit(n).unsigned_abs())
        })
        .optional(session, |action, session| action.session(session));
    action
        .await
        .map_err(|failure| error::from_driver(failure).with_collection(count.collection))
}
