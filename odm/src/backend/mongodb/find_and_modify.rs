//! Changes that return the document.

use ::mongodb::{Database, action::Action, options::ReturnDocument};
use bson::RawDocumentBuf;

use super::{WriteSession, aggregate, error, to_driver_document, update};
use crate::{
    Result,
    backend::operation::{DocumentChange, FindAndModify, FindAndModifyKind},
};

/// Changes a document, and returns the document: [`Executor::find_and_modify`](crate::backend::Executor::find_and_modify).
pub(super) async fn find_and_modify(
    database: &Database,
    modify: FindAndModify,
    session: WriteSession<'_>,
) -> Result<Option<RawDocumentBuf>> {
    let collection = database.collection::<RawDocumentBuf>(&modify.collection);
    let filter = to_driver_document(&modify.filter)?;
    let projection = modify
        .projection
        .as_deref()
        .map(to_driver_document)
        .transpose()?;
    let sort = modify.sort.as_deref().map(to_driver_document).transpose()?;
    let return_document = |new| match new {
        true => ReturnDocument::After,
        false => ReturnDocument::Before,
    };
    // The driver has a separate type for each form, without a common trait for their options.
    let result = match modify.modification {
        FindAndModifyKind::Delete => {
            collection
                .find_one_and_delete(filter)
                .optional(projection, |action, fields| action.projection(fields))
                .optional(sort, |action, sort| action.sort(sort))
                .optional(session, |action, session| action.session(session))
                .await
        }
        FindAndModifyKind::Update {
            change,
            upsert,
            return_new,
        } => {
            change.ensure_operators_match()?;
            match change {
                DocumentChange::Operators {
                    update,
                    array_filters,
                } => {
                    let array_filters = update::to_driver_array_filters(&array_filters)?;
                    collection
                        .find_one_and_update(filter, to_driver_document(&update)?)
                        .upsert(upsert)
                        .return_document(return_document(return_new))
                        .optional(array_filters, |action, filters| {
                            action.array_filters(filters)
                        })
                        .optional(projection, |action, fields| action.projection(fields))
                        .optional(sort, |action, sort| action.sort(sort))
                        .optional(session, |action, session| action.session(session))
                        .await
                }
                DocumentChange::Pipeline(stages) => {
                    collection
                        .find_one_and_update(filter, aggregate::to_driver_stages(&stages)?)
                        .upsert(upsert)
                        .return_document(return_document(return_new))
                        .optional(projection, |action, fields| action.projection(fields))
                        .optional(sort, |action, sort| action.sort(sort))
                        .optional(session, |action, session| action.session(session))
                        .await
                }
                DocumentChange::Replacement(document) => {
                    collection
                        .find_one_and_replace(filter, document)
                        .upsert(upsert)
                        .return_document(return_document(return_new))
                        .optional(projection, |action, fields| action.projection(fields))
                        .optional(sort, |action, sort| action.sort(sort))
                        .optional(session, |action, session| action.session(session))
                        .await
                }
            }
        }
    };
    result.map_err(|failure| error::from_driver(failure).with_collection(modify.collection))
}
