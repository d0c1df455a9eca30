//! References between scopes, which no session writes.

use super::{Effect, copy, link};
use crate::{
    Error, ErrorKind, Result,
    access::Access,
    backend::operation::Change,
    error,
    schema::{Model, SharedScope},
};

/// Refuses an update that may let documents of a scope refer to others, where the session sees all scopes.
///
/// A reference leads to a document of the referrer's scope. A session of one scope sees no other document, so its references are right.
/// A session across all scopes sees every target, and an update of many documents does not know their scopes.
pub(super) fn refuse_references(
    access: &Access,
    model: &'static Model,
    effect: &Effect<'_>,
) -> Result<()> {
    let Effect::Changes(Change::Operators { update, .. }) = effect else {
        return Ok(());
    };
    if !access.scope().is_all() || model.scope.is_none() {
        return Ok(());
    }
    let Some(path) =
        link::new_reference(model, update).or_else(|| copy::new_reference(model, update))
    else {
        return Ok(());
    };
    let message = format!(
        "`{path}` has references to documents with a scope, and this session works across all scopes: set it through \
         `db.scope(…)`, the session of the document's scope"
    );
    Err(error::of(model)(
        Error::new(ErrorKind::Invalid, message).with_path(path),
    ))
}

/// Whether an operator can put a reference to `target` where there was another one.
pub(super) fn can_refer(model: &Model, target: &Model, operator: &str, is_null: bool) -> bool {
    let only_removes = matches!(operator, "$unset" | "$pull" | "$pullAll" | "$pop");
    SharedScope::between(model, target).is_some() && !only_removes && !is_null
}
