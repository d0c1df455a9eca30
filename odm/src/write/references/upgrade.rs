//! Upgrades of outdated documents that change references: inverses change as in any other write.

use bson::RawDocument;

use super::{
    ReferenceWrite, linked_document::LinkedDocument, update_inverses,
    validate::upgrade_needs_transaction,
};
use crate::{
    Result,
    backend::{
        BoxFuture,
        operation::{DocumentChange, UpdateOperation},
    },
    session::access::{Access, ModelAccess},
};

/// Writes the upgraded form of an outdated document, unless a concurrent write changed the document. Guards new targets and
/// updates inverses in the same transaction.
///
/// # Errors
///
/// [`Unsupported`](crate::ErrorKind::Unsupported) if references change on a standalone server.
pub(crate) fn upgrade_document<'a>(
    access: ModelAccess<'a>,
    raw: &'a RawDocument,
    update: UpdateOperation,
) -> BoxFuture<'a, Result<bool>> {
    // Boxed because the write can recurse: an inverse may be in an outdated document of another model.
    Box::pin(write_upgraded(access, raw, update))
}

async fn write_upgraded(
    access: ModelAccess<'_>,
    raw: &RawDocument,
    update: UpdateOperation,
) -> Result<bool> {
    let model = access.model;
    let DocumentChange::Replacement(upgraded) = &update.change else {
        return Ok(false);
    };
    let before = LinkedDocument::from_stored(model, raw)?;
    let after = LinkedDocument::from_stored(model, upgraded)?;
    let mut links = model.links().iter().enumerate();
    let Some((_, link)) =
        links.find(|(link, _)| before.targets_of(*link) != after.targets_of(*link))
    else {
        return Ok(access.update(update).await?.matched > 0);
    };
    if !access.has_transactions() {
        return Err(upgrade_needs_transaction(model, link, &before.id));
    }
    let run_transaction = |access: Access| {
        let (update, before, after) = (update.clone(), before.clone(), after.clone());
        async move {
            if access.update(model, update).await?.matched == 0 {
                return Ok(false);
            }
            let in_scope = access.in_scope_of(model, before.scope.as_ref());
            let (before, after) = ([before], [after]);
            let kind = ReferenceWrite::Upgrade;
            update_inverses(in_scope.to(model), &before, &after, kind)
                .await
                .map_err(|error| access.fail_transaction(error))?;
            Ok(true)
        }
    };
    access.run_transactional(run_transaction).await
}
