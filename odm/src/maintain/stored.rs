//! Changes of what the framework keeps in documents.

use bson::{Document, RawBson, RawDocumentBuf};

use super::{blocked::is_rejection, narrow};
pub(super) use crate::stored::{close, get, is_position, names, open, overlap, raw, set, touches};
use crate::{
    Error, Result,
    access::Access,
    backend::operation::{
        BulkItem, BulkWrite, BulkWritten, Change, Unmatched, Update, Write, Written,
    },
    error,
    schema::Model,
};

/// A change of what the framework keeps in documents.
#[derive(Debug, Clone)]
pub(super) struct Amendment {
    /// Which documents it is about: all that match.
    pub(super) filter: RawDocumentBuf,
    pub(super) update: Document,
    pub(super) array_filters: Vec<Document>,
}

impl Amendment {
    pub(super) fn new(filter: RawDocumentBuf, update: Document) -> Self {
        Self {
            filter,
            update,
            array_filters: Vec::new(),
        }
    }

    async fn into_update(mut self, access: &Access, model: &'static Model) -> Result<Update> {
        narrow(access, model, &mut self.filter, false).await?;
        let array_filters = self.array_filters.iter().map(close);
        Ok(Update {
            collection: model.collection.into(),
            filter: self.filter,
            change: Change::Operators {
                update: close(&self.update)?,
                array_filters: array_filters.collect::<Result<_>>()?,
            },
            multi: true,
            upsert: false,
        })
    }
}

/// Makes such changes in one go; gives how many documents they were about. Neither the version nor the time of change of a document
/// tells of that.
pub(super) async fn change_all(
    access: &Access,
    model: &'static Model,
    mut changes: Vec<Amendment>,
) -> Result<u64> {
    if changes.len() < 2 {
        return match changes.pop() {
            Some(only) => change(access, model, only).await,
            None => Ok(0),
        };
    }
    let done = write_unordered(access, model, changes).await?;
    for result in done.results {
        if let Written::Failed(error) = result {
            return Err(error::of(model)(error));
        }
    }
    Ok(done.matched)
}

/// Makes changes in one unordered bulk.
async fn write_unordered(
    access: &Access,
    model: &'static Model,
    changes: Vec<Amendment>,
) -> Result<BulkWritten> {
    let mut writes = Vec::with_capacity(changes.len());
    for change in changes {
        writes.push(BulkItem {
            write: Write::Update(change.into_update(access, model).await?),
            unmatched: Unmatched::Fine,
        });
    }
    access.told().writes();
    let ordered = false;
    let done = access.executor().bulk_write(BulkWrite { writes, ordered });
    done.await.map_err(error::of(model))
}

/// Makes changes of one document each. Returns the rejecting documents with the errors.
pub(super) async fn change_each(
    access: &Access,
    model: &'static Model,
    changes: Vec<(RawBson, Amendment)>,
) -> Result<Vec<(RawBson, Error)>> {
    let (ids, changes): (Vec<_>, Vec<_>) = changes.into_iter().unzip();
    let done = write_unordered(access, model, changes).await?;
    let mut rejected = Vec::new();
    for (id, result) in ids.into_iter().zip(done.results) {
        match result {
            Written::Failed(error) if is_rejection(&error) => rejected.push((id, error)),
            Written::Failed(error) => return Err(error::of(model)(error)),
            Written::Applied | Written::NotApplied | Written::NotAttempted => {}
        }
    }
    Ok(rejected)
}

/// Makes one such change.
pub(super) async fn change(
    access: &Access,
    model: &'static Model,
    change: Amendment,
) -> Result<u64> {
    let update = change.into_update(access, model).await?;
    access.told().writes();
    let done = access.executor().update(update).await;
    Ok(done.map_err(error::of(model))?.matched)
}
