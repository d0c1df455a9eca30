//! Upgrades of outdated documents that change references: inverses change as in any other write.

use std::sync::atomic::AtomicBool;

use bson::RawDocument;

use super::{
    ReferenceWrite, TransactionalWrite, linked_document::LinkedDocument,
    validate::upgrade_needs_transaction,
};
use crate::{
    Result,
    access::Access,
    backend::{
        BoxFuture,
        operation::{DocumentChange, UpdateOperation},
    },
    schema::Model,
    transaction_scope,
};

/// Writes the upgraded form of an outdated document, unless a concurrent write changed the document. Guards new targets and
/// updates inverses in the same transaction.
///
/// # Errors
///
/// [`Unsupported`](crate::ErrorKind::Unsupported) if references change on a standalone server.
pub(crate) fn upgrade_document<'a>(
    access: &'a Access,
    model: &'static Model,
    raw: &'a RawDocument,
    update: UpdateOperation,
) -> BoxFuture<'a, Result<bool>> {
    // Boxed because the write can recurse: an inverse may be in an outdated document of another model.
    Box::pin(write_upgraded(access, model, raw, update))
}

async fn write_upgraded(
    access: &Access,
    model: &'static Model,
    raw: &RawDocument,
    update: UpdateOperation,
) -> Result<bool> {
    let DocumentChange::Replacement(upgraded) = &update.change else {
        return Ok(false);
    };
    let before = LinkedDocument::from_stored(model, raw)?;
    let after = LinkedDocument::from_stored(model, upgraded)?;
    let mut links = model.links().iter().enumerate();
    let Some((_, link)) =
        links.find(|(link, _)| before.targets_of(*link) != after.targets_of(*link))
    else {
        return Ok(access.update(model, update).await?.matched > 0);
    };
    if !access.has_transactions() {
        return Err(upgrade_needs_transaction(model, link, &before.id));
    }
    let is_too_large = AtomicBool::new(false);
    let run_transaction = |access: Access| {
        let transaction = TransactionalWrite {
            full_access: access.with_full_visibility(),
            access,
            max_documents: None,
            exceeds_limit: &is_too_large,
        };
        let (update, before, after) = (update.clone(), before.clone(), after.clone());
        async move {
            if transaction.access.update(model, update).await?.matched == 0 {
                return Ok(false);
            }
            let (before, after) = ([before], [after]);
            let access = transaction
                .access
                .in_scope_of(model, before[0].scope.as_ref());
            let inverses_written = transaction.update_inverses(
                &access,
                model,
                &before,
                &after,
                ReferenceWrite::Upgrade,
            );
            let inverses_written = inverses_written.await;
            inverses_written.map_err(|error| transaction.access.fail_transaction(error))?;
            Ok(true)
        }
    };
    access
        .run_transactional(
            transaction_scope::DEFAULT_TRANSACTION_ATTEMPTS,
            run_transaction,
        )
        .await
}
