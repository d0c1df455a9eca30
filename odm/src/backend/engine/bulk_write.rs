//! Several writes in one commit.

use bson::{Bson, RawDocument};
use odm_engine as engine;

use super::{convert, error};
use crate::{
    Error, Result,
    backend::operation::{
        BulkItem, BulkWrite, BulkWritten, Unmatched, Write, Written, refuse_upsert,
    },
};

/// See [`Executor::bulk_write`](crate::backend::Executor::bulk_write).
pub(super) fn bulk_write(session: &engine::Session, bulk: BulkWrite) -> Result<BulkWritten> {
    let BulkWrite { writes, ordered } = bulk;
    let mut done = BulkWritten::none_of(writes.len());
    // What cannot be said to the engine fails in its place, and in order ends what comes before it.
    let mut sent = Vec::new();
    let mut positions = Vec::new();
    let mut refused = None;
    for (position, item) in writes.iter().enumerate() {
        match convert(item) {
            Ok(write) => {
                sent.push(write);
                positions.push(position);
            }
            Err(error) if ordered => {
                refused = Some((position, error));
                break;
            }
            Err(error) => done.note(position, Written::Failed(error)),
        }
    }
    let report = session.bulk_write(&sent, ordered);
    let report = report.map_err(error::from_engine)?;
    let mut ended = report.len() < sent.len();
    for (result, position) in report.into_iter().zip(positions) {
        let Some(item) = writes.get(position) else {
            continue;
        };
        let written = match result {
            Ok(written) => count(&mut done, item, &written),
            Err(failure) => Written::Failed(describe(failure, &item.write)),
        };
        ended |= match written {
            Written::Failed(_) => true,
            Written::NotApplied => item.unmatched == Unmatched::Stops,
            _ => false,
        };
        done.note(position, written);
    }
    if let Some((position, error)) = refused.filter(|_| !ended) {
        done.note(position, Written::Failed(error));
    }
    Ok(done)
}

fn convert(item: &BulkItem) -> Result<engine::BulkWrite> {
    refuse_upsert(&item.write)?;
    Ok(engine::BulkWrite {
        collection: item.write.collection().to_string(),
        stops_if_unmatched: item.unmatched == Unmatched::Stops,
        write: match item.write.clone() {
            Write::Insert { document, .. } => engine::Write::Insert(document),
            Write::Update(update) => engine::Write::Update(convert::update(update)?),
            Write::Delete(delete) => engine::Write::Delete(convert::delete(delete)),
        },
    })
}

/// Adds what a write did, and says what that means for it.
fn count(done: &mut BulkWritten, item: &BulkItem, written: &engine::Written) -> Written {
    let touched = match written {
        engine::Written::Inserted => {
            done.inserted += 1;
            1
        }
        engine::Written::Updated(report) => {
            done.matched += report.matched;
            done.modified += report.modified;
            report.matched
        }
        engine::Written::Deleted(report) => {
            done.deleted += report.deleted;
            report.deleted
        }
    };
    match item.unmatched {
        Unmatched::Told | Unmatched::Stops if touched == 0 => Written::NotApplied,
        _ => Written::Applied,
    }
}

fn describe(failure: engine::Error, write: &Write) -> Error {
    let error = error::in_collection(failure, write.collection());
    let id = match write {
        Write::Insert { document, .. } => id(document),
        _ => None,
    };
    match id {
        Some(id) => error.with_id(id),
        None => error,
    }
}

fn id(document: &RawDocument) -> Option<Bson> {
    let id = document.get("_id").ok().flatten()?;
    Bson::try_from(id).ok()
}
