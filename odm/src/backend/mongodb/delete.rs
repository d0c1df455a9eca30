//! Deletes.

use ::mongodb::{Database, action::Action, bson::Document};

use super::{Session, decode, error};
use crate::{
    Result,
    backend::operation::{Delete, Deleted},
};

/// See [`Executor::delete`](crate::backend::Executor::delete).
pub(super) async fn delete(
    database: &Database,
    delete: Delete,
    session: Session<'_>,
) -> Result<Deleted> {
    let collection = database.collection::<Document>(&delete.collection);
    let filter = decode(&delete.filter)?;
    let action = match delete.multi {
        true => collection.delete_many(filter),
        false => collection.delete_one(filter),
    };
    match action
        .optional(session, |action, session| action.session(session))
        .await
    {
        Ok(result) => Ok(Deleted {
            deleted: result.deleted_count,
        }),
        Err(failure) => Err(error::from_driver(failure).with_collection(delete.collection)),
    }
}
