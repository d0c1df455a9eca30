//! References between scopes, which every session rejects.

use bson::RawBsonRef;

use super::{Footprint, footprint::PathChange, maintainer::MAINTAINERS};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::DocumentChange,
    error,
    schema::{Model, SharedScope},
    session::access::ModelAccess,
};

/// Returns an error if a session across all scopes may add references to documents of a scope.
///
/// A reference must point to a document of the referrer's scope. A session of one scope sees no other document, so the references
/// are valid. A session across all scopes sees every target, and an update of many documents does not know their scopes.
pub(super) fn ensure_references_in_scope(
    access: ModelAccess<'_>,
    footprint: &Footprint<'_>,
) -> Result<()> {
    let model = access.model;
    let Footprint::Changes(DocumentChange::Operators { update, .. }) = footprint else {
        return Ok(());
    };
    if !access.scope().is_all() || model.scope.is_none() {
        return Ok(());
    }
    let mut kinds = MAINTAINERS.iter();
    let Some(path) = kinds.find_map(|kind| kind.path_of_new_reference(model, update)) else {
        return Ok(());
    };
    let message = format!(
        "`{path}` has references to documents with a scope, and this session works across all scopes: set it through \
         `db.scope(…)`, the session of the document's scope"
    );
    Err(error::naming_model(model)(
        Error::new(ErrorKind::Invalid, message).with_path(path),
    ))
}

/// Whether a change can add a reference from `model` to `target`, where both models have a scope in common.
pub(super) fn can_add_reference(model: &Model, target: &Model, change: &PathChange<'_>) -> bool {
    let stores_value = !change.operator.only_removes() && change.operand != RawBsonRef::Null;
    stores_value && SharedScope::of_models(model, target).is_some()
}
