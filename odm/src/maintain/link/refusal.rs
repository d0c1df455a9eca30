//! Why a reference, or a deletion, cannot be.

use bson::{Bson, RawBson, RawDocument};

use super::deletion::{Rule, rules};
use crate::{
    Error, ErrorKind,
    access::Access,
    decode, error,
    schema::{InverseLink, Model, OnDelete, OwnLink},
};

/// What a reference is to lead to is not there.
pub(super) fn dangling(link: &OwnLink, target: &RawBson) -> Error {
    let model = (link.side.model)();
    let message = format!(
        "`{}` leads to a {} that is not there, and nothing was written: insert it first",
        link.side.field, model.name
    );
    at(Error::new(ErrorKind::Dangling, message), model, target)
}

/// An inverse has no room.
pub(super) fn full(link: &OwnLink, inverse: &InverseLink, target: &RawBson) -> Error {
    let max = inverse.max.unwrap_or(1);
    let message = format!(
        "the document that is referred to lists at most {max} documents that do so, and nothing was written"
    );
    let error = Error::new(ErrorKind::TooManyElements, message).with_path(inverse.side.stored);
    at(error, (link.side.model)(), target)
}

/// An inverse for one has one.
pub(super) fn taken(link: &OwnLink, inverse: &InverseLink, target: &RawBson) -> Error {
    let message = format!(
        "another document refers to this one by `{}` already, and only one may; nothing was written: change that one first",
        link.side.field
    );
    let error = Error::new(ErrorKind::AlreadyLinked, message).with_path(inverse.side.stored);
    at(error, (link.side.model)(), target)
}

/// Others refer to what is to be deleted.
pub(super) fn restricted(rule: &Rule, document: &RawBson, owners: u64) -> Error {
    let documents = if owners == 1 { "document" } else { "documents" };
    let message = format!(
        "{owners} {documents} of {} refer to it by `{}`, and nothing was deleted: delete or change them first, or say another `on_delete`",
        rule.model.collection, rule.link.side.field
    );
    let error = Error::new(ErrorKind::Restricted, message);
    at(error, (rule.link.side.model)(), document)
}

/// Another deletion has marked a document, and not decided yet.
pub(super) fn deciding(model: &Model, id: &RawBson) -> Error {
    let message =
        "whether the document is deleted is being decided, and nothing was written: try again";
    at(Error::new(ErrorKind::Conflict, message), model, id)
}

/// An upgrade gives a reference a value where nothing can be entered together with it.
pub(super) fn unentered(model: &Model, link: &OwnLink, id: &RawBson) -> Error {
    let message = format!(
        "the upgrade of the model changes what `{}` leads to, which takes a transaction, and the server has none: upgrade where there are \
         some, or leave the reference to an update of the application",
        link.side.field
    );
    at(Error::new(ErrorKind::Unsupported, message), model, id)
}

/// Nobody comes to an end.
pub(super) fn busy(model: &Model, id: &RawBson) -> Error {
    let message = "others are writing to the document and to what it refers to all the time, and nobody knows what became of this write: \
                   look, and try again";
    at(Error::new(ErrorKind::Conflict, message), model, id)
}

/// A document of one variant is not made one of another where references with rules lead to that variant alone: to those, it would be gone.
pub(crate) fn refuse_another(
    access: &Access,
    model: &'static Model,
    stored: &RawDocument,
) -> Result<(), Error> {
    let rule = rules(access, model).find(|rule| {
        let tag = (rule.link.side.model)().tag;
        let is_of = |(field, value)| stored.get_str(field).is_ok_and(|tag| tag == value);
        rule.link.on_delete != OnDelete::Keep && tag.is_some_and(is_of)
    });
    let Some(rule) = rule else {
        return Ok(());
    };
    let message = format!(
        "`{}` of {} leads to documents that are a {}, by a rule, so none of these becomes another variant: insert another document, and \
         delete this one, or let the reference lead to the enum",
        rule.link.side.field,
        rule.model.name,
        (rule.link.side.model)().name,
    );
    let error = Error::new(ErrorKind::Unsupported, message);
    Err(match decode::id(stored).map(RawBson::from) {
        Some(id) => at(error, model, &id),
        None => error::of(model)(error),
    })
}

/// Whether a reference could not be entered.
pub(super) fn is_refusal(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Dangling | ErrorKind::TooManyElements | ErrorKind::AlreadyLinked
    )
}

fn at(error: Error, model: &Model, id: &RawBson) -> Error {
    let error = error::of(model)(error);
    match Bson::try_from(id.clone()) {
        Ok(id) => error.with_id(id),
        Err(_) => error,
    }
}
