//! Hard and soft deletes.

use bson::{DateTime, RawDocumentBuf};

use super::{Footprint, WriteOperation};
use crate::{
    Result,
    access::Access,
    backend::operation::{
        self, DeleteOperation, DeleteResult, DocumentChange, FindAndModify, FindAndModifyKind,
        UpdateOperation,
    },
    query::single_field_document,
    schema::Model,
};

/// A delete as a backend operation: hard as a delete, soft as an update. Every delete passes through this type, so no delete of a model with `soft_delete` removes the
/// document by accident.
#[derive(Debug, Clone)]
pub(crate) enum HardOrSoftDelete {
    Hard(DeleteOperation),
    Soft(UpdateOperation),
}

/// The mode of a delete in a model with `soft_delete`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum DeleteMode {
    /// A soft delete if the model declares `soft_delete`, else a hard delete.
    #[default]
    ModelDefault,
    /// A hard delete.
    Hard,
}

impl HardOrSoftDelete {
    /// Creates the operation of a delete.
    ///
    /// # Errors
    ///
    /// [`Encode`](crate::ErrorKind::Encode), which a valid field name never causes.
    pub(crate) fn new(model: &Model, delete: DeleteOperation, mode: DeleteMode) -> Result<Self> {
        Ok(match soft_delete_change(model, mode)? {
            None => Self::Hard(delete),
            Some(change) => Self::Soft(soft_delete_update(delete, change)),
        })
    }
}

impl WriteOperation for HardOrSoftDelete {
    type Outcome = DeleteResult;

    fn with_managed_fields(self, model: &Model) -> Result<Self> {
        Ok(match self {
            Self::Hard(_) => self,
            Self::Soft(update) => Self::Soft(update.with_managed_fields(model)?),
        })
    }

    fn matched_count(outcome: &DeleteResult) -> u64 {
        outcome.deleted
    }

    fn affects_at_most_one(&self) -> bool {
        match self {
            Self::Hard(delete) => !delete.multi,
            Self::Soft(update) => !update.multi,
        }
    }

    fn filter_mut(&mut self) -> Option<&mut RawDocumentBuf> {
        Some(match self {
            Self::Hard(delete) => &mut delete.filter,
            Self::Soft(update) => &mut update.filter,
        })
    }

    fn footprint(&self) -> Footprint<'_> {
        match self {
            Self::Hard(_) => Footprint::Removes,
            Self::Soft(update) => Footprint::Changes(&update.change),
        }
    }

    fn change_mut(&mut self) -> Option<&mut DocumentChange> {
        match self {
            Self::Hard(_) => None,
            Self::Soft(update) => Some(&mut update.change),
        }
    }

    fn outcome_of(deleted: u64) -> DeleteResult {
        DeleteResult { deleted }
    }

    fn add_outcome(total: &mut DeleteResult, outcome: DeleteResult) {
        total.deleted += outcome.deleted;
    }

    async fn run_on(self, access: &Access, model: &Model) -> Result<DeleteResult> {
        match self {
            Self::Hard(delete) => access.delete(model, delete).await,
            Self::Soft(update) => {
                let updated = access.update(model, update).await?;
                Ok(DeleteResult {
                    deleted: updated.matched,
                })
            }
        }
    }
}

impl From<HardOrSoftDelete> for operation::BulkOperation {
    fn from(delete: HardOrSoftDelete) -> Self {
        match delete {
            HardOrSoftDelete::Hard(delete) => Self::Delete(delete),
            HardOrSoftDelete::Soft(update) => Self::Update(update),
        }
    }
}

/// Turns a delete that returns the document into a soft delete, if the model and the mode ask for a soft delete.
///
/// # Errors
///
/// As [`DeleteOperation::new`].
pub(crate) fn apply_delete_mode(
    model: &Model,
    write: &mut FindAndModify,
    mode: DeleteMode,
) -> Result<()> {
    if let Some(change) = soft_delete_change(model, mode)? {
        write.modification = FindAndModifyKind::Update {
            change,
            upsert: false,
            return_new: false,
        };
    }
    Ok(())
}

/// Returns the change of a soft delete. `None` for a hard delete.
fn soft_delete_change(model: &Model, mode: DeleteMode) -> Result<Option<DocumentChange>> {
    let (Some(field), DeleteMode::ModelDefault) = (model.soft_delete, mode) else {
        return Ok(None);
    };
    let set = single_field_document("$set", single_field_document(field, DateTime::now())?)?;
    Ok(Some(DocumentChange::operators(set)))
}

fn soft_delete_update(delete: DeleteOperation, change: DocumentChange) -> UpdateOperation {
    UpdateOperation {
        collection: delete.collection,
        filter: delete.filter,
        change,
        multi: delete.multi,
        upsert: false,
        origin: delete.origin,
    }
}
