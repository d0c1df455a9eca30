//! Updates by operators, and replacements.

use ::mongodb::{Database, action::Action, bson::Document};
use bson::{RawBson, RawDocumentBuf};

use super::{Session, aggregate, decode, error};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{Change, Update, Updated},
};

/// See [`Executor::update`](crate::backend::Executor::update).
pub(super) async fn update(
    database: &Database,
    update: Update,
    session: Session<'_>,
) -> Result<Updated> {
    let collection = database.collection::<RawDocumentBuf>(&update.collection);
    let filter = decode(&update.filter)?;
    update.change.check()?;
    let updated = match update.change {
        Change::Operators {
            update: operators,
            array_filters: filters,
        } => {
            let operators = decode(&operators)?;
            let action = match update.multi {
                true => collection.update_many(filter, operators),
                false => collection.update_one(filter, operators),
            };
            action
                .upsert(update.upsert)
                .optional(array_filters(&filters)?, |action, filters| {
                    action.array_filters(filters)
                })
                .optional(session, |action, session| action.session(session))
                .await
        }
        Change::Pipeline(stages) => {
            let stages = aggregate::stages(&stages)?;
            let action = match update.multi {
                true => collection.update_many(filter, stages),
                false => collection.update_one(filter, stages),
            };
            action
                .upsert(update.upsert)
                .optional(session, |action, session| action.session(session))
                .await
        }
        Change::Replacement(_) if update.multi => {
            return Err(Error::new(
                ErrorKind::Invalid,
                "a replacement is for one document; use update operators for several",
            )
            .with_collection(update.collection));
        }
        Change::Replacement(document) => {
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
    Ok(Updated {
        matched: updated.matched_count,
        modified: updated.modified_count,
        upserted_id: upserted_id.map_err(crate::error::encode)?,
    })
}

/// Array filters as the driver wants them: rather none at all than an empty list.
pub(super) fn array_filters(filters: &[RawDocumentBuf]) -> Result<Option<Vec<Document>>> {
    let filters = filters.iter().map(|filter| decode(filter));
    let filters = filters.collect::<Result<Vec<_>>>()?;
    Ok(Some(filters).filter(|filters| !filters.is_empty()))
}
