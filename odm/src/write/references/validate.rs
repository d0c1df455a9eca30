//! Errors of references and deletes, and the checks that return them.

use bson::{Bson, RawBson, RawDocument};

use super::{
    delete_rule::{DeleteRule, rules_targeting},
    linked_document::LinkedDocument,
};
use crate::{
    Error, ErrorKind, Result, error,
    metadata::references::TombstoneState,
    model::decode,
    schema::{InverseLink, Model, ReferenceLink},
    session::access::ModelAccess,
    write::maintainer::MAX_TRANSACTION_DELETES,
};

/// The error of a reference to a missing document.
pub(super) fn missing_target(link: &ReferenceLink, target: &RawBson) -> Error {
    let model = (link.link_field.model)();
    let message = format!(
        "`{}` references a {} that does not exist, and nothing was written: insert the {} first",
        link.link_field.field, model.name, model.name
    );
    let error = Error::new(ErrorKind::Dangling, message).with_path(link.link_field.stored);
    at_document(error, model, target)
}

/// The error of a restore of a document below a document that stays deleted.
pub(super) fn target_is_deleted(
    link: &ReferenceLink,
    referrer_model: &Model,
    referrer: &RawBson,
    target: &RawBson,
) -> Error {
    let model = (link.link_field.model)();
    let target = Bson::try_from(target.clone()).unwrap_or(Bson::Null);
    let message = format!(
        "`{}` references the {} {target}, which is soft-deleted, and nothing was restored: restore the {} first, which restores the \
         documents that were deleted with it",
        link.link_field.field, model.name, model.name
    );
    let error = Error::new(ErrorKind::Dangling, message).with_path(link.link_field.stored);
    at_document(error, referrer_model, referrer)
}

/// The error of a soft delete that cascades, on a standalone server.
pub(super) fn soft_cascade_needs_transaction(model: &Model) -> Error {
    let message = "a soft delete or restore with `soft_delete(cascade)` needs a transaction, a standalone server has no transactions, and \
         nothing was written: use a replica set, which can be a single server";
    error::naming_model(model)(Error::new(ErrorKind::Unsupported, message))
}

/// The error of a soft delete or a restore with too many documents.
pub(super) fn soft_cascade_too_large(model: &Model) -> Error {
    let message = format!(
        "the soft delete or restore reaches more than {MAX_TRANSACTION_DELETES} documents, and nothing was written: run it in a \
         transaction of the application, which has no limit, or first delete or restore a part of the cascaded documents"
    );
    error::naming_model(model)(Error::new(ErrorKind::Unsupported, message))
}

/// The error of an inverse without room for another referrer.
pub(super) fn inverse_full(link: &ReferenceLink, inverse: &InverseLink, target: &RawBson) -> Error {
    let max = inverse.max.unwrap_or(1);
    let message = format!(
        "the inverse has no room for another reference (max {max}), and nothing was written: remove a reference to the document first, \
         or raise `max`"
    );
    let error =
        Error::new(ErrorKind::TooManyElements, message).with_path(inverse.link_field.stored);
    at_document(error, (link.link_field.model)(), target)
}

/// The error of a single inverse that already has a referrer.
pub(super) fn inverse_taken(
    link: &ReferenceLink,
    inverse: &InverseLink,
    target: &RawBson,
) -> Error {
    let message = format!(
        "another document already references this document by `{}`, and at most one may; nothing was written: change the other document \
         first",
        link.link_field.field
    );
    let error = Error::new(ErrorKind::AlreadyLinked, message).with_path(inverse.link_field.stored);
    at_document(error, (link.link_field.model)(), target)
}

/// The error of a delete that a `restrict` rule forbids.
pub(super) fn delete_restricted(rule: &DeleteRule, document: &RawBson, referrers: u64) -> Error {
    let (documents, verb) = match referrers {
        1 => ("document", "references"),
        _ => ("documents", "reference"),
    };
    let message = format!(
        "{referrers} {documents} in `{}` {verb} the document by `{}`, and nothing was deleted: delete or change the {documents} first, or \
         declare another `on_delete`",
        rule.model.collection, rule.link.link_field.field
    );
    let error = Error::new(ErrorKind::Restricted, message);
    at_document(error, (rule.link.link_field.model)(), document)
}

/// The error of a write that meets an undecided delete.
pub(super) fn delete_undecided(model: &Model, id: &RawBson) -> Error {
    let message =
        "a concurrent delete of the document is undecided, and nothing was written: retry";
    at_document(Error::new(ErrorKind::Conflict, message), model, id)
}

/// Returns an error if a delete of a document is undecided. The delete may still be rolled back.
pub(super) fn ensure_decided(model: &Model, documents: &[LinkedDocument]) -> Result<()> {
    let mut undecided = documents
        .iter()
        .filter(|document| document.tombstone == TombstoneState::Provisional);
    match undecided.next() {
        Some(document) => Err(delete_undecided(model, &document.id)),
        None => Ok(()),
    }
}

/// The error of an insert that took longer than the lease, if the document is gone. Recovery rolls an insert back whose target is
/// missing. A third process may also have deleted the document after recovery had completed the insert.
pub(super) fn insert_abandoned(model: &Model, id: &RawBson) -> Error {
    let message = "the insert took longer than the lease of pending work, and the document was rolled back or deleted meanwhile: \
                   check the references, and insert the document again";
    at_document(Error::new(ErrorKind::Conflict, message), model, id)
}

/// The error of an upgrade that changes a reference on a standalone server. Without a transaction, the inverse cannot change
/// together with the reference.
pub(super) fn upgrade_needs_transaction(
    model: &Model,
    link: &ReferenceLink,
    id: &RawBson,
) -> Error {
    let message = format!(
        "the upgrade of the model changes the reference `{}`, which needs a transaction, and a standalone server has no transactions: \
         upgrade on a replica set, or change the reference by an update of the application",
        link.link_field.field
    );
    at_document(Error::new(ErrorKind::Unsupported, message), model, id)
}

/// The error of a write that gave up after too many conflicts.
pub(super) fn too_much_contention(model: &Model, id: &RawBson) -> Error {
    let message = "too much contention on the document: the outcome of this write is unknown; read the document and retry";
    at_document(Error::new(ErrorKind::Conflict, message), model, id)
}

/// Returns an error if a document would become another variant although references with delete rules point to the current
/// variant. These references would dangle.
pub(crate) fn ensure_same_variant(
    access: ModelAccess<'_>,
    stored: &RawDocument,
) -> Result<(), Error> {
    let model = access.model;
    let rule = rules_targeting(access).find(|rule| {
        let tag = (rule.link.link_field.model)().tag;
        let is_stored = |(field, value)| stored.get_str(field).is_ok_and(|tag| tag == value);
        rule.link.on_delete.requires_target() && tag.is_some_and(is_stored)
    });
    let Some(rule) = rule else {
        return Ok(());
    };
    let message = format!(
        "`{}` of {} references documents of the variant {} with a delete rule, so the document cannot become another variant: insert a \
         new document and delete this document, or let the reference point to the enum",
        rule.link.link_field.field,
        rule.model.name,
        (rule.link.link_field.model)().name,
    );
    let error = Error::new(ErrorKind::Unsupported, message);
    Err(match decode::owned_id(stored) {
        Some(id) => at_document(error, model, &id),
        None => error::naming_model(model)(error),
    })
}

/// Whether an error rejects a reference: missing target, full inverse or inverse in use.
pub(super) fn is_reference_error(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Dangling | ErrorKind::TooManyElements | ErrorKind::AlreadyLinked
    )
}

fn at_document(error: Error, model: &Model, id: &RawBson) -> Error {
    let error = error::naming_model(model)(error);
    match Bson::try_from(id.clone()) {
        Ok(id) => error.with_id(id),
        Err(_) => error,
    }
}
