//! Deletes.

use ::mongodb::{Database, action::Action, bson::Document};

use super::{WriteSession, error, to_driver_document};
use crate::{
    Result,
    backend::operation::{DeleteOperation, DeleteResult},
};

/// Deletes one or all documents that match a filter: [`Executor::delete`](crate::backend::Executor::delete).
pub(super) async fn delete_documents(
    database: &Database,
    delete: DeleteOperation,
    session: WriteSession<'_>,
) -> Result<DeleteResult> {
    let collection = database.collection::<Document>(&delete.collection);
    let filter = to_driver_document(&delete.filter)?;
    let action = match delete.multi {
        true => collection.delete_many(filter),
        false => collection.delete_one(filter),
    };
    match action
        .optional(session, |action, session| action.session(session))
        .await
    {
        Ok(result) => Ok(DeleteResult {
            deleted: result.deleted_count,
        }),
        Err(failure) => Err(error::from_driver(failure).with_collection(delete.collection)),
    }
}
