use bson::RawDocumentBuf;

use super::{Delete, DeleteReport, Update, UpdateReport, delete, update};
use crate::document;
use crate::error::Result;
use crate::overlay::Overlay;

/// One of several writes.
#[derive(Clone, Debug, PartialEq)]
pub struct BulkWrite {
    /// The collection that it is about.
    pub collection: String,
    /// What to do there.
    pub write: Write,
    /// Whether writes in order stop behind an update or a deletion for which no document matches.
    pub stops_if_unmatched: bool,
}

/// A write to a collection.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Inserts a document; without an `_id` it gets an ObjectId.
    Insert(RawDocumentBuf),
    /// Changes documents.
    Update(Update),
    /// Deletes documents.
    Delete(Delete),
}

/// What one of several writes did.
#[derive(Clone, Debug)]
pub enum Written {
    /// The document was inserted.
    Inserted,
    /// What the update did.
    Updated(UpdateReport),
    /// What the deletion did.
    Deleted(DeleteReport),
}

impl Written {
    fn is_unmatched(&self) -> bool {
        match self {
            Written::Inserted => false,
            Written::Updated(report) => report.matched == 0 && report.upserted_id.is_none(),
            Written::Deleted(report) => report.deleted == 0,
        }
    }
}

/// What became of the writes that were attempted, in their order.
pub(crate) fn run(
    overlay: &mut Overlay,
    writes: &[BulkWrite],
    ordered: bool,
) -> Result<Vec<Result<Written>>> {
    let mut results = Vec::with_capacity(writes.len());
    for write in writes {
        let before = overlay.savepoint();
        let result = match one(overlay, write) {
            // As on MongoDB, an update of several documents is no transaction.
            Ok(Written::Updated(UpdateReport {
                failure: Some(failure),
                ..
            })) => Err(failure),
            Err(error) if error.ends_operation() => return Err(error),
            Err(error) => {
                overlay.restore(before);
                Err(error)
            }
            done => done,
        };
        let stops = match &result {
            Ok(done) => write.stops_if_unmatched && done.is_unmatched(),
            Err(_) => true,
        };
        results.push(result);
        if ordered && stops {
            break;
        }
    }
    Ok(results)
}

fn one(overlay: &mut Overlay, write: &BulkWrite) -> Result<Written> {
    let name = &write.collection;
    Ok(match &write.write {
        Write::Insert(document) => {
            let collection = overlay.collection_or_create(name)?;
            overlay.insert(&collection, &document::prepare(document.clone())?)?;
            Written::Inserted
        }
        Write::Update(update) => Written::Updated(update::run(overlay, name, update)?),
        Write::Delete(delete) => Written::Deleted(delete::run(overlay, name, delete)?),
    })
}
