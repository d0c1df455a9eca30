//! Changes that return the document.

use ::mongodb::{Database, action::Action, options::ReturnDocument};
use bson::RawDocumentBuf;

use super::{Session, aggregate, decode, error, update};
use crate::{
    Result,
    backend::operation::{Change, FindAndModify, Modification},
};

/// See [`Executor::find_and_modify`](crate::backend::Executor::find_and_modify).
pub(super) async fn find_and_modify(
    database: &Database,
    modify: FindAndModify,
    session: Session<'_>,
) -> Result<Option<RawDocumentBuf>> {
    let collection = database.collection::<RawDocumentBuf>(&modify.collection);
    let filter = decode(&modify.filter)?;
    let projection = modify.projection.as_deref().map(decode).transpose()?;
    let sort = modify.sort.as_deref().map(decode).transpose()?;
    let returned = |new| match new {
        true => ReturnDocument::After,
        false => ReturnDocument::Before,
    };
    // The driver has a type for each form, and none for what they share.
    let found = match modify.modification {
        Modification::Delete => {
            collection
                .find_one_and_delete(filter)
                .optional(projection, |action, fields| action.projection(fields))
                .optional(sort, |action, sort| action.sort(sort))
                .optional(session, |action, session| action.session(session))
                .await
        }
        Modification::Update {
            change,
            upsert,
            return_new,
        } => {
            change.check()?;
            match change {
                Change::Operators {
                    update,
                    array_filters,
                } => {
                    let array_filters = update::array_filters(&array_filters)?;
                    collection
                        .find_one_and_update(filter, decode(&update)?)
                        .upsert(upsert)
                        .return_document(returned(return_new))
                        .optional(array_filters, |action, all| action.array_filters(all))
                        .optional(projection, |action, fields| action.projection(fields))
                        .optional(sort, |action, sort| action.sort(sort))
                        .optional(session, |action, session| action.session(session))
                        .await
                }
                Change::Pipeline(stages) => {
                    collection
                        .find_one_and_update(filter, aggregate::stages(&stages)?)
                        .upsert(upsert)
                        .return_document(returned(return_new))
                        .optional(projection, |action, fields| action.projection(fields))
                        .optional(sort, |action, sort| action.sort(sort))
                        .optional(session, |action, session| action.session(session))
                        .await
                }
                Change::Replacement(document) => {
                    collection
                        .find_one_and_replace(filter, document)
                        .upsert(upsert)
                        .return_document(returned(return_new))
                        .optional(projection, |action, fields| action.projection(fields))
                        .optional(sort, |action, sort| action.sort(sort))
                        .optional(session, |action, session| action.session(session))
                        .await
                }
            }
        }
    };
    found.map_err(|failure| error::from_driver(failure).with_collection(modify.collection))
}
