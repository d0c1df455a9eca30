//! Reads by one filter: find and count.

use ::mongodb::{ClientSession, Database, action::Action, bson::Document, options::Hint};

use super::{
    cursor::{BatchSize, OpenedRead},
    error,
    read_options::with_read_options,
    to_driver_document, to_driver_limit,
};
use crate::{
    Result,
    backend::operation::{CountOperation, FindOperation},
};

/// Opens the cursor of a query: [`Executor::find`](crate::backend::Executor::find).
pub(super) async fn open_find(
    database: &Database,
    find: FindOperation,
    batches: BatchSize,
    session: &mut ClientSession,
) -> Result<OpenedRead> {
    if find.limit == Some(0) {
        return Ok(OpenedRead::empty());
    }
    let collection = database.collection::<Document>(&find.collection);
    let projection = find
        .projection
        .as_deref()
        .map(to_driver_document)
        .transpose()?;
    let sort = find.sort.as_deref().map(to_driver_document).transpose()?;
    let action = collection
        .find(to_driver_document(&find.filter)?)
        .optional(projection, |action, projection| {
            action.projection(projection)
        })
        .optional(sort, |action, sort| action.sort(sort))
        .optional(find.limit, |action, n| action.limit(to_driver_limit(n)))
        .optional(batches.to_driver_size(find.limit), |action, size| {
            action.batch_size(size)
        });
    let action = with_read_options!(action, find.options)
        .optional(find.options.hint, |action, name| {
            action.hint(Hint::Name(name))
        });
    let opened = match action.session(&mut *session).batch().await {
        Ok(rest) => OpenedRead::new(rest, session).await,
        Err(failure) => Err(error::from_driver(failure)),
    };
    opened.map_err(|error| error.with_collection(find.collection))
}

/// Counts the documents that match a filter: [`Executor::count`](crate::backend::Executor::count).
pub(super) async fn count_documents(
    database: &Database,
    count: CountOperation,
    session: &mut ClientSession,
) -> Result<u64> {
    if count.limit == Some(0) {
        return Ok(0);
    }
    let collection = database.collection::<Document>(&count.collection);
    let action = collection
        .count_documents(to_driver_document(&count.filter)?)
        .optional(count.limit, |action, n| {
            action.limit(to_driver_limit(n).unsigned_abs())
        });
    let action = with_read_options!(action, count.options)
        .optional(count.options.hint, |action, name| {
            action.hint(Hint::Name(name))
        });
    action
        .session(session)
        .await
        .map_err(|failure| error::from_driver(failure).with_collection(count.collection))
}
