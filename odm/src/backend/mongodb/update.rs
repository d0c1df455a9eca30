//! Updates by operators, and replacements.

use ::mongodb::{Database, action::Action, bson::Document};
use bson::{RawBson, RawDocumentBuf};

use super::{WriteSession, aggregate, error, to_driver_document};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{DocumentChange, UpdateOperation, UpdateResult},
};

/// Updates one or all documents that match a filter: [`Executor::update`](crate::backend::Executor::update).
pub(super) async fn update_documents(
    database: &Database,
    update: UpdateOperation,
    session: WriteSession<'_>,
) -> Result<UpdateResult> {
    let collection = database.collection::<RawDocumentBuf>(&update.collection);
    let filter = to_driver_document(&update.filter)?;
    update.change.ensure_operators_match()?;
    let updated = match update.change {
        DocumentChange::Operators {
            update: operators,
            array_filters: filters,
        } => {
            let operators = to_driver_document(&operators)?;
            let action = match update.multi {
                true => collection.update_many(filter, operators),
                false => collection.update_one(filter, operators),
            };
            action
                .upsert(update.upsert)
                .optional(to_driver_array_filters(&filters)?, |action, filters| {
                    action.array_filters(filters)
                })
                .optional(session, |action, session| action.session(session))
                .await
        }
        DocumentChange::Pipeline(stages) => {
            let stages = aggregate::to_driver_stages(&stages)?;
            let action = match update.multi {
                true => collection.update_many(filter, stages),
                false => collection.update_one(filter, stages),
            };
            action
                .upsert(update.upsert)
                .optional(session, |action, session| action.session(session))
                .await
        }
        DocumentChange::Replacement(_) if update.multi => {
            return Err(Error::new(
                ErrorKind::Invalid,
                "a replacement can only change one document: use update operators for several documents",
            )
            .with_collection(update.collection));
        }
        DocumentChange::Replacement(document) => {
            collection
                .replace_one(filter, document)
                .upsert(update.upsert)
                .optional(session, |action, session| action.session(session))
                .await
        }
    };
    let updated = updated
        .map_err(|failure| error::from_driver(failure).with_collection(update.collection))?;
    let upserted_id = updated.upserted_id.map(RawBson::try_from).transpose();
    Ok(UpdateResult {
        matched: updated.matched_count,
        modified: updated.modified_count,
        upserted_id: upserted_id.map_err(crate::error::from_bson)?,
    })
}

/// Converts array filters to the driver's type. An empty list becomes `None`.
pub(super) fn to_driver_array_filters(filters: &[RawDocumentBuf]) -> Result<Option<Vec<Document>>> {
    let filters = filters.iter().map(|filter| to_driver_document(filter));
    let filters = filters.collect::<Result<Vec<_>>>()?;
    Ok(Some(filters).filter(|filters| !filters.is_empty()))
}
