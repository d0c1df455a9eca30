//! Several writes in one commit.

use std::sync::Arc;

use bson::{Bson, RawDocument};
use odm_engine as engine;

use super::{EngineTarget, blocking::Call, convert, error, update_bytes};
use crate::{
    Error, Result,
    backend::operation::{
        BulkItem, BulkItemOutcome, BulkOperation, BulkWrite, BulkWriteResult, Unmatched,
        ensure_no_upsert,
    },
};

/// Runs a bulk write: [`Executor::bulk_write`](crate::backend::Executor::bulk_write).
pub(super) async fn bulk_write<T: EngineTarget>(
    target: Arc<T>,
    bulk: BulkWrite,
) -> Result<BulkWriteResult> {
    let BulkWrite {
        writes, ordered, ..
    } = bulk;
    let mut totals = BulkWriteResult::not_attempted(writes.len());
    // A write that the engine cannot express fails at its position. In an ordered bulk write, only the writes before the failure
    // are sent.
    let mut sent = Vec::new();
    let mut positions = Vec::new();
    let mut rejection = None;
    for (position, item) in writes.iter().enumerate() {
        match item_to_engine(item) {
            Ok(write) => {
                sent.push(write);
                positions.push(position);
            }
            Err(error) if ordered => {
                rejection = Some((position, error));
                break;
            }
            Err(error) => totals.record_outcome(position, BulkItemOutcome::Failed(error)),
        }
    }
    let sent_count = sent.len();
    let input_bytes = sent.iter().map(|write| write_bytes(&write.write)).sum();
    let call = Call::new(move || target.bulk_write(&sent, ordered)).with_input(input_bytes);
    let report = call.run(error::from_engine).await?;
    let mut ended = report.len() < sent_count;
    for (result, position) in report.into_iter().zip(positions) {
        let Some(item) = writes.get(position) else {
            continue;
        };
        let written = match result {
            Ok(written) => add_to_totals(&mut totals, item, &written),
            Err(failure) => BulkItemOutcome::Failed(failure_error(failure, &item.write)),
        };
        ended |= match written {
            BulkItemOutcome::Failed(_) => true,
            BulkItemOutcome::NotApplied => item.unmatched.stops(),
            _ => false,
        };
        totals.record_outcome(position, written);
    }
    if let Some((position, error)) = rejection.filter(|_| !ended) {
        totals.record_outcome(position, BulkItemOutcome::Failed(error));
    }
    Ok(totals)
}

fn write_bytes(write: &engine::WriteOperation) -> usize {
    match write {
        engine::WriteOperation::Insert(document) => document.as_bytes().len(),
        engine::WriteOperation::Update(update) => update_bytes(update),
        engine::WriteOperation::Delete(delete) => delete.filter.as_bytes().len(),
    }
}

fn item_to_engine(item: &BulkItem) -> Result<engine::CollectionWrite> {
    ensure_no_upsert(&item.write)?;
    Ok(engine::CollectionWrite {
        collection: item.write.collection().to_string(),
        stop_if_unmatched: item.unmatched.stops(),
        write: match item.write.clone() {
            BulkOperation::Insert { document, .. } => engine::WriteOperation::Insert(document),
            BulkOperation::Update(update) => {
                engine::WriteOperation::Update(convert::update_to_engine(update)?)
            }
            BulkOperation::Delete(delete) => {
                engine::WriteOperation::Delete(convert::delete_to_engine(delete))
            }
        },
    })
}

/// Adds the effect of a write to the totals, and returns the outcome of the write.
fn add_to_totals(
    totals: &mut BulkWriteResult,
    item: &BulkItem,
    written: &engine::WriteReport,
) -> BulkItemOutcome {
    let affected = match written {
        engine::WriteReport::Inserted => {
            totals.inserted += 1;
            1
        }
        engine::WriteReport::Updated(report) => {
            totals.matched += report.matched;
            totals.modified += report.modified;
            report.matched
        }
        engine::WriteReport::Deleted(report) => {
            totals.deleted += report.deleted;
            report.deleted
        }
    };
    match affected == 0 && item.unmatched != Unmatched::Ignore {
        true => BulkItemOutcome::NotApplied,
        false => BulkItemOutcome::Applied,
    }
}

fn failure_error(failure: engine::Error, write: &BulkOperation) -> Error {
    let error = error::in_collection(failure, write.collection());
    let id = match write {
        BulkOperation::Insert { document, .. } => document_id(document),
        _ => None,
    };
    match id {
        Some(id) => error.with_id(id),
        None => error,
    }
}

fn document_id(document: &RawDocument) -> Option<Bson> {
    let id = document.get("_id").ok().flatten()?;
    Bson::try_from(id).ok()
}
