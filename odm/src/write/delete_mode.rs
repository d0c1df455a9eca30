//! Hard and soft deletes.

use bson::DateTime;

use super::WriteOperation;
use crate::{
    Result,
    backend::operation::{
        DeleteOperation, DocumentChange, FindAndModify, FindAndModifyKind, UpdateOperation,
    },
    language::query::single_field_document,
    schema::Model,
};

/// The mode of a delete in a model with `soft_delete`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum DeleteMode {
    /// A soft delete if the model declares `soft_delete`, else a hard delete.
    #[default]
    ModelDefault,
    /// A hard delete.
    Hard,
}

/// Returns the operation of a delete: a hard delete, or the update of a soft delete.
///
/// # Errors
///
/// [`Encode`](crate::ErrorKind::Encode), which a valid field name never causes.
pub(crate) fn delete_operation(
    model: &Model,
    delete: DeleteOperation,
    mode: DeleteMode,
) -> Result<WriteOperation> {
    Ok(match soft_delete(model, &delete, mode)? {
        None => WriteOperation::Delete(delete),
        Some(update) => WriteOperation::Update(update),
    })
}

/// Returns the update of a soft delete. `None` for a hard delete.
///
/// # Errors
///
/// As [`delete_operation`].
pub(super) fn soft_delete(
    model: &Model,
    delete: &DeleteOperation,
    mode: DeleteMode,
) -> Result<Option<UpdateOperation>> {
    let change = soft_delete_change(model, mode)?;
    Ok(change.map(|change| UpdateOperation {
        collection: delete.collection.clone(),
        filter: delete.filter.clone(),
        change,
        multi: delete.multi,
        upsert: false,
        origin: delete.origin,
    }))
}

/// Turns a delete that returns the document into a soft delete, if the model and the mode ask for a soft delete.
///
/// # Errors
///
/// As [`delete_operation`].
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
