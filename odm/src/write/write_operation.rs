//! The operation of a write: an insert, an update, a find-and-modify or a delete, and its outcome.

use bson::{RawDocument, RawDocumentBuf};

use super::{Footprint, add_insert_metadata, add_managed_fields};
use crate::{
    Result,
    backend::operation::{
        DeleteOperation, DocumentChange, FindAndModify, FindAndModifyKind, FindOperation,
        InsertOperation, UpdateOperation,
    },
    schema::Model,
    session::access::{ModelAccess, add_condition, find_matching},
};

/// A single backend operation that writes documents of one model.
///
/// An enum and not a type parameter: the stages are compiled once, and not once for each kind of operation.
#[derive(Debug, Clone)]
pub(crate) enum WriteOperation {
    Insert(InsertOperation),
    /// An update, a replacement or a soft delete.
    Update(UpdateOperation),
    FindAndModify(FindAndModify),
    /// A hard delete. [`delete_operation`](super::delete_operation) decides between a hard and a soft delete.
    Delete(DeleteOperation),
}

/// The outcome of a write.
#[derive(Debug, Default)]
pub(crate) struct WriteOutcome {
    /// The number of documents that the write matched, inserted or deleted.
    pub(crate) matched: u64,
    /// The number of documents that an update changed.
    pub(crate) modified: u64,
    /// The document that a find-and-modify returned.
    pub(crate) document: Option<RawDocumentBuf>,
    /// Whether a stage has shown that the copied sources did not change, and has removed the records of the revalidation.
    pub(super) confirms_sources: bool,
}

impl WriteOutcome {
    /// Returns the outcome of a write that matched and changed the given number of documents.
    pub(super) fn of(documents: u64) -> Self {
        Self {
            matched: documents,
            modified: documents,
            ..Self::default()
        }
    }

    /// Returns the outcome of an update that matched one document.
    pub(super) fn of_one(is_modified: bool) -> Self {
        Self {
            modified: is_modified.into(),
            ..Self::of(1)
        }
    }

    /// Adds the outcome for further documents.
    pub(super) fn add(&mut self, further: Self) {
        self.matched += further.matched;
        self.modified += further.modified;
        self.document = self.document.take().or(further.document);
    }
}

impl WriteOperation {
    /// Returns the operation with managed fields such as the version and the modification time.
    ///
    /// The other managed fields of an insert are set earlier, when the document is built.
    pub(super) fn with_managed_fields(mut self, model: &Model) -> Result<Self> {
        for document in self.documents_to_insert().into_iter().flatten() {
            add_insert_metadata(document, model)?;
        }
        if let Some(change) = self.change_mut() {
            add_managed_fields(change, model)?;
        }
        Ok(self)
    }

    /// Whether the operation can insert a document: an insert or an upsert.
    pub(super) fn may_insert(&self) -> bool {
        match self {
            Self::Insert(_) => true,
            Self::Update(update) => update.upsert,
            Self::FindAndModify(modify) => matches!(
                modify.modification,
                FindAndModifyKind::Update { upsert: true, .. }
            ),
            Self::Delete(_) => false,
        }
    }

    /// Whether the operation affects at most one stored document.
    pub(super) fn affects_at_most_one(&self) -> bool {
        match self {
            Self::Insert(_) => false,
            Self::Update(update) => !update.multi,
            Self::FindAndModify(_) => true,
            Self::Delete(delete) => !delete.multi,
        }
    }

    /// Returns the filter of the operation. `None` for an insert.
    pub(super) fn filter(&self) -> Option<&RawDocumentBuf> {
        match self {
            Self::Insert(_) => None,
            Self::Update(update) => Some(&update.filter),
            Self::FindAndModify(modify) => Some(&modify.filter),
            Self::Delete(delete) => Some(&delete.filter),
        }
    }

    /// Returns the filter of the operation. `None` for an insert.
    pub(super) fn filter_mut(&mut self) -> Option<&mut RawDocumentBuf> {
        match self {
            Self::Insert(_) => None,
            Self::Update(update) => Some(&mut update.filter),
            Self::FindAndModify(modify) => Some(&mut modify.filter),
            Self::Delete(delete) => Some(&mut delete.filter),
        }
    }

    /// Adds a condition on a field to the filter of the operation.
    pub(super) fn add_condition(&mut self, field: &str, condition: RawDocumentBuf) -> Result<()> {
        match self.filter_mut() {
            Some(filter) => add_condition(filter, field, condition),
            None => Ok(()),
        }
    }

    /// Returns the query for the documents that the operation affects. `limit` is the maximum number of documents for an operation
    /// on many documents.
    pub(super) fn find_affected(&self, model: &Model, limit: Option<usize>) -> FindOperation {
        let limit = if self.affects_at_most_one() {
            Some(1)
        } else {
            limit
        };
        let filter = self.filter().cloned().unwrap_or_default();
        find_matching(model.collection, &filter)
            .with_sort(self.sort_order().map(RawDocument::to_owned))
            .with_limit(limit.map(|limit| limit as u64))
    }

    /// Returns the order that selects a document among several matches. `None` if any match will do.
    pub(super) fn sort_order(&self) -> Option<&RawDocument> {
        match self {
            Self::FindAndModify(modify) => modify.sort.as_deref(),
            Self::Insert(_) | Self::Update(_) | Self::Delete(_) => None,
        }
    }

    /// Returns the footprint of the operation on references and derived data.
    pub(super) fn footprint(&self) -> Footprint<'_> {
        match self {
            Self::Insert(insert) => Footprint::Inserts(&insert.documents),
            Self::Update(update) => Footprint::Changes(&update.change),
            Self::FindAndModify(modify) => match &modify.modification {
                FindAndModifyKind::Delete => Footprint::Removes,
                FindAndModifyKind::Update { change, .. } => Footprint::Changes(change),
            },
            Self::Delete(_) => Footprint::Removes,
        }
    }

    /// Returns the documents of an insert. `None` for updates and deletes.
    pub(super) fn documents_to_insert(&mut self) -> Option<&mut [RawDocumentBuf]> {
        match self {
            Self::Insert(insert) => Some(&mut insert.documents),
            Self::Update(_) | Self::FindAndModify(_) | Self::Delete(_) => None,
        }
    }

    /// Returns the change of an update. `None` for inserts and deletes.
    pub(super) fn change(&self) -> Option<&DocumentChange> {
        match self.footprint() {
            Footprint::Changes(change) => Some(change),
            Footprint::Inserts(_) | Footprint::Removes => None,
        }
    }

    /// Returns the change of an update. `None` for inserts and deletes.
    pub(super) fn change_mut(&mut self) -> Option<&mut DocumentChange> {
        match self {
            Self::Update(update) => Some(&mut update.change),
            Self::FindAndModify(modify) => match &mut modify.modification {
                FindAndModifyKind::Update { change, .. } => Some(change),
                FindAndModifyKind::Delete => None,
            },
            Self::Insert(_) | Self::Delete(_) => None,
        }
    }

    /// Returns the same operation as a command that returns the old document. `Some` only for an update of a single document by
    /// operators, without upsert.
    pub(super) fn as_find_and_modify(&self) -> Option<FindAndModify> {
        let Self::Update(update) = self else {
            return None;
        };
        let is_plain = matches!(update.change, DocumentChange::Operators { .. });
        (is_plain && !update.multi && !update.upsert).then(|| FindAndModify {
            collection: update.collection.clone(),
            filter: update.filter.clone(),
            sort: None,
            projection: None,
            modification: FindAndModifyKind::Update {
                change: update.change.clone(),
                upsert: false,
                return_new: false,
            },
            origin: update.origin,
        })
    }

    /// Whether the operation returns the document in its new state.
    pub(super) fn returns_new_document(&self) -> bool {
        matches!(
            self,
            Self::FindAndModify(FindAndModify {
                modification: FindAndModifyKind::Update {
                    return_new: true,
                    ..
                },
                ..
            })
        )
    }

    /// Sends the operation to the backend.
    pub(super) async fn send(self, access: ModelAccess<'_>) -> Result<WriteOutcome> {
        let (matched, modified, document) = match self {
            Self::Insert(insert) => {
                let inserted = insert.documents.len() as u64;
                access.insert(insert).await?;
                (inserted, 0, None)
            }
            Self::Update(update) => {
                let updated = access.update(update).await?;
                (updated.matched, updated.modified, None)
            }
            Self::FindAndModify(modify) => {
                let document = access.find_and_modify(access.model, modify).await?;
                (document.is_some().into(), 0, document)
            }
            Self::Delete(delete) => (access.delete(delete).await?.deleted, 0, None),
        };
        Ok(WriteOutcome {
            matched,
            modified,
            document,
            confirms_sources: false,
        })
    }

    /// Sends the operation, and then a second update of the same documents. The caller provides the transaction.
    pub(super) async fn send_before(
        mut self,
        second: UpdateOperation,
        access: ModelAccess<'_>,
    ) -> Result<WriteOutcome> {
        if !self.returns_new_document() {
            let outcome = self.send(access).await?;
            access.update(second).await?;
            return Ok(outcome);
        }
        // The returned document must show both updates.
        if let Self::FindAndModify(modify) = &mut self
            && let FindAndModifyKind::Update { change, .. } = &mut modify.modification
        {
            let first = UpdateOperation {
                collection: modify.collection.clone(),
                filter: std::mem::replace(&mut modify.filter, second.filter),
                change: std::mem::replace(change, second.change),
                multi: false,
                upsert: false,
                origin: modify.origin,
            };
            if access.update(first).await?.matched == 0 {
                return Ok(WriteOutcome::default());
            }
        }
        self.send(access).await
    }
}

impl From<InsertOperation> for WriteOperation {
    fn from(insert: InsertOperation) -> Self {
        Self::Insert(insert)
    }
}

impl From<UpdateOperation> for WriteOperation {
    fn from(update: UpdateOperation) -> Self {
        Self::Update(update)
    }
}

impl From<FindAndModify> for WriteOperation {
    fn from(modify: FindAndModify) -> Self {
        Self::FindAndModify(modify)
    }
}
