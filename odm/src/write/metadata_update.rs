//! Updates of metadata: fields that the framework keeps in documents.

use bson::{Bson, Document, RawBson, RawDocumentBuf, doc};

pub(crate) use crate::model::stored::{
    field_names_of, is_position, parse_document, paths_overlap, set_at, to_raw_document,
    to_raw_value, value_at,
};

use super::{
    computed::{expression_error, try_as_one_update},
    narrow_filter,
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{
        BulkItem, BulkItemOutcome, BulkOperation, BulkWrite, BulkWriteResult, DocumentChange,
        OperationOrigin, Stage, Unmatched, UpdateOperation,
    },
    error,
    pending::{blocked::is_rejection, record::PendingKind},
    session::access::ModelAccess,
};

/// An update of metadata in documents.
#[derive(Debug, Clone)]
pub(crate) struct MetadataUpdate {
    pub(crate) origin: OperationOrigin,
    /// The filter of the documents. All matching documents are updated.
    pub(crate) filter: RawDocumentBuf,
    pub(crate) update: Document,
    pub(crate) array_filters: Vec<Document>,
}

impl MetadataUpdate {
    pub(crate) fn new(origin: OperationOrigin, filter: RawDocumentBuf, update: Document) -> Self {
        Self {
            origin,
            filter,
            update,
            array_filters: Vec::new(),
        }
    }

    async fn into_update(mut self, access: ModelAccess<'_>) -> Result<UpdateOperation> {
        narrow_filter(access, &mut self.filter).await?;
        let array_filters = self.array_filters.iter().map(to_raw_document);
        let mut change = DocumentChange::Operators {
            update: to_raw_document(&self.update)?,
            array_filters: array_filters.collect::<Result<_>>()?,
        };
        // Rollups are inputs of computed fields. An update of a rollup always has the form of a pipeline.
        if !try_as_one_update(access.model, &mut change)? {
            let message =
                "an update of metadata and the computed fields do not fit into one update";
            let error = Error::new(ErrorKind::Backend, message);
            return Err(error::naming_model(access.model)(error));
        }
        Ok(UpdateOperation {
            collection: access.model.collection.into(),
            filter: self.filter,
            change,
            multi: true,
            upsert: false,
            origin: self.origin,
        })
    }
}

/// Applies updates of metadata in one command. Returns the number of matched documents. The version and the modification time of
/// the documents stay the same.
pub(crate) async fn apply_updates(
    access: ModelAccess<'_>,
    mut changes: Vec<MetadataUpdate>,
) -> Result<u64> {
    if changes.len() < 2 {
        return match changes.pop() {
            Some(single) => apply_update(access, single).await,
            None => Ok(0),
        };
    }
    let updates = into_updates(access, changes).await?;
    let outcome = write_in_bulk(access, updates, false).await?;
    for result in outcome.results {
        if let BulkItemOutcome::Failed(error) = result {
            let error = expression_error(error);
            return Err(error::naming_model(access.model)(error));
        }
    }
    Ok(outcome.matched)
}

/// Applies updates of metadata to one document each, in one command and in this order. Returns the number of documents that were found.
///
/// # Errors
///
/// The first error, with the `_id` of the document if only one update has failed.
pub(crate) async fn apply_in_order(
    access: ModelAccess<'_>,
    changes: Vec<(Bson, MetadataUpdate)>,
) -> Result<u64> {
    let (mut ids, mut updates) = (Vec::new(), Vec::new());
    for (id, change) in changes {
        let update = change.into_update(access).await;
        updates.push(update.map_err(|error| error.with_id(id.clone()))?);
        ids.push(id);
    }
    let to_error = |error| error::naming_model(access.model)(expression_error(error));
    if updates.len() < 2 {
        let (Some(update), Some(id)) = (updates.pop(), ids.pop()) else {
            return Ok(0);
        };
        let result = access.update(update).await;
        return Ok(result.map_err(|error| to_error(error).with_id(id))?.matched);
    }
    let outcome = write_in_bulk(access, updates, true).await?;
    let failures = ids.into_iter().zip(outcome.results);
    let mut failures = failures.filter_map(|(id, result)| match result {
        BulkItemOutcome::Failed(error) => Some((id, to_error(error))),
        _ => None,
    });
    match (failures.next(), failures.next()) {
        (None, _) => Ok(outcome.matched),
        (Some((id, error)), None) => Err(error.with_id(id)),
        (Some((_, error)), Some(_)) => Err(error),
    }
}

async fn into_updates(
    access: ModelAccess<'_>,
    changes: Vec<MetadataUpdate>,
) -> Result<Vec<UpdateOperation>> {
    let mut updates = Vec::with_capacity(changes.len());
    for change in changes {
        updates.push(change.into_update(access).await?);
    }
    Ok(updates)
}

/// Writes updates of metadata in one bulk.
async fn write_in_bulk(
    access: ModelAccess<'_>,
    updates: Vec<UpdateOperation>,
    ordered: bool,
) -> Result<BulkWriteResult> {
    let origin = updates.first().map(|update| update.origin);
    let origin = origin.unwrap_or_default();
    let writes = updates.into_iter().map(|update| BulkItem {
        write: BulkOperation::Update(update),
        unmatched: Unmatched::Ignore,
    });
    let bulk = BulkWrite {
        writes: writes.collect(),
        ordered,
        origin,
    };
    access
        .bulk_write(bulk)
        .await
        .map_err(error::naming_model(access.model))
}

/// Applies updates of metadata to one document each. Returns the rejecting documents with the errors.
pub(crate) async fn apply_each(
    access: ModelAccess<'_>,
    changes: Vec<(RawBson, MetadataUpdate)>,
) -> Result<Vec<(RawBson, Error)>> {
    let (ids, changes): (Vec<_>, Vec<_>) = changes.into_iter().unzip();
    let updates = into_updates(access, changes).await?;
    let outcome = write_in_bulk(access, updates, false).await?;
    let mut rejected = Vec::new();
    for (id, result) in ids.into_iter().zip(outcome.results) {
        match result {
            BulkItemOutcome::Failed(error) if is_rejection(&error) => rejected.push((id, error)),
            BulkItemOutcome::Failed(error) => return Err(error::naming_model(access.model)(error)),
            BulkItemOutcome::Applied
            | BulkItemOutcome::NotApplied
            | BulkItemOutcome::NotAttempted => {}
        }
    }
    Ok(rejected)
}

/// Applies an update of metadata. Returns the number of matched documents.
pub(crate) async fn apply_update(access: ModelAccess<'_>, change: MetadataUpdate) -> Result<u64> {
    let update = change.into_update(access).await?;
    let result = access.update(update).await;
    let result = result.map_err(|error| error::naming_model(access.model)(expression_error(error)));
    Ok(result?.matched)
}

/// Removes the records of a kind of pending work from the documents that a filter matches. Returns the number of documents.
pub(crate) async fn remove_records(
    access: ModelAccess<'_>,
    stage: Stage,
    kind: PendingKind,
    filter: RawDocumentBuf,
) -> Result<u64> {
    let update = doc! { "$unset": { kind.record_path(): "" } };
    let origin = stage.step("remove the pending record");
    apply_update(access, MetadataUpdate::new(origin, filter, update)).await
}
