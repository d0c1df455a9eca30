use bson::RawDocumentBuf;

use super::{Delete, DeleteReport, Update, UpdateReport, delete, update};
use crate::document;
use crate::error::Result;
use crate::interrupt;
use crate::overlay::WriteOverlay;

/// One write of [`Session::bulk_write`](crate::Session::bulk_write), with its collection.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectionWrite {
    /// The collection to write to.
    pub collection: String,
    /// The write.
    pub write: WriteOperation,
    /// Whether an ordered bulk write stops after this update or deletion if no document matches.
    pub stop_if_unmatched: bool,
}

/// A write to a collection.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteOperation {
    /// Inserts a document. A document without an `_id` gets an ObjectId.
    Insert(RawDocumentBuf),
    /// Updates documents.
    Update(Update),
    /// Deletes documents.
    Delete(Delete),
}

/// The report of one write of a bulk write.
#[derive(Clone, Debug)]
pub enum WriteReport {
    /// The document was inserted.
    Inserted,
    /// The report of the update.
    Updated(UpdateReport),
    /// The report of the deletion.
    Deleted(DeleteReport),
}

impl WriteReport {
    fn is_unmatched(&self) -> bool {
        match self {
            WriteReport::Inserted => false,
            WriteReport::Updated(report) => report.matched == 0 && report.upserted_id.is_none(),
            WriteReport::Deleted(report) => report.deleted == 0,
        }
    }
}

/// Runs the writes, and returns the results of the attempted writes in order.
pub(crate) fn run_bulk_write(
    overlay: &mut WriteOverlay,
    writes: &[CollectionWrite],
    ordered: bool,
) -> Result<Vec<Result<WriteReport>>> {
    let mut results = Vec::with_capacity(writes.len());
    for write in writes {
        interrupt::check()?;
        let before = overlay.savepoint();
        let result = match run_one(overlay, write) {
            // As on MongoDB, an update of several documents is not atomic.
            Ok(WriteReport::Updated(UpdateReport {
                failure: Some(failure),
                ..
            })) => Err(failure),
            Err(error) if error.ends_operation() => return Err(error),
            Err(error) => {
                overlay.restore_savepoint(before);
                Err(error)
            }
            outcome => outcome,
        };
        let stops = match &result {
            Ok(outcome) => write.stop_if_unmatched && outcome.is_unmatched(),
            Err(_) => true,
        };
        results.push(result);
        if ordered && stops {
            break;
        }
    }
    Ok(results)
}

fn run_one(overlay: &mut WriteOverlay, write: &CollectionWrite) -> Result<WriteReport> {
    let name = &write.collection;
    Ok(match &write.write {
        WriteOperation::Insert(document) => {
            let collection = overlay.collection_or_create(name)?;
            overlay.insert(&collection, &document::prepare_for_storage(document)?)?;
            WriteReport::Inserted
        }
        WriteOperation::Update(update) => {
            WriteReport::Updated(update::run_update(overlay, name, update)?)
        }
        WriteOperation::Delete(delete) => {
            WriteReport::Deleted(delete::run_delete(overlay, name, delete)?)
        }
    })
}
