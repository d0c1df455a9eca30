//! Saving what has changed in a document that was read.

mod difference;

use std::pin::Pin;

use bson::RawDocument;
use difference::Difference;

use super::get::stored_by_id;
use crate::{
    Edited, Error, ErrorKind, Result,
    access::Access,
    backend::operation::{Change, Update},
    decode,
    document::Document,
    error,
    field::{Path, Variants},
    maintain::Plan,
    query::{Filter, Node, document, encode, encode_document},
    schema::upgrade,
};

/// Reads a document to change it; made by [`Session::edit`](crate::Session::edit).
#[must_use = "a read happens when it is awaited"]
pub struct Edit<T: Document> {
    access: Access,
    id: T::Id,
}

impl<T: Document> Edit<T> {
    pub(crate) fn new(access: Access, id: T::Id) -> Self {
        Self { access, id }
    }
}

impl<T: Document> IntoFuture for Edit<T> {
    type Output = Result<Edited<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { edit(&self.access, &self.id).await })
    }
}

/// Saves what has changed in a document; made by [`Session::save`](crate::Session::save).
#[must_use = "a write happens when it is awaited"]
pub struct Save<'e, T> {
    access: Access,
    edited: &'e mut Edited<T>,
}

impl<'e, T: Document> Save<'e, T> {
    pub(crate) fn new(access: Access, edited: &'e mut Edited<T>) -> Self {
        Self { access, edited }
    }
}

impl<'e, T: Document> IntoFuture for Save<'e, T> {
    type Output = Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'e>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(save(self.access, self.edited))
    }
}

pub(super) async fn edit<T: Document>(access: &Access, id: &T::Id) -> Result<Edited<T>> {
    let stored = stored_by_id::<T>(access, id).await?;
    let stored = match stored {
        // What is saved is compared with what was read, so that has to be there.
        Some(stored) if upgrade::upgraded(&T::MODEL, &stored)?.is_some() => {
            let by_id = document("_id", document("$eq", encode(id)?)?)?;
            upgrade::before_write(access, &T::MODEL, &by_id).await?;
            stored_by_id::<T>(access, id).await?
        }
        stored => stored,
    };
    Edited::new(stored.ok_or_else(|| error::not_found::<T>(id))?)
}

/// One update, on the condition that every place that it writes is still as it was read.
pub(super) async fn save<T: Document>(access: Access, edited: &mut Edited<T>) -> Result<()> {
    let after = encode_document(&**edited).map_err(error::of_model::<T>)?;
    let id = stored_id::<T>(edited, &after)?;
    let mut variants = Variants::default();
    T::variants(edited, &mut variants);
    let mut difference = Difference::of(&edited.stored, &edited.before, &after, &variants);
    if <T as crate::Projection>::rewritten(edited).is_some() {
        difference.replace_aliases(&edited.stored, &edited.before, |stored| {
            let document: T = T::from_stored(stored).ok()?;
            crate::query::encode_unchecked(&document).ok()
        });
    }
    if difference.is_empty() {
        return Ok(());
    }
    let by_id = Node::Test(
        Path::ROOT.then("_id"),
        "$eq",
        encode(&id).map_err(error::of_model::<T>)?,
    );
    let as_read = version(edited).unwrap_or_else(|| difference.untouched());
    let filter = Filter::<T>::from_node(by_id.and(as_read));
    let write = Update {
        collection: T::COLLECTION.into(),
        filter: filter.to_raw().map_err(error::of_model::<T>)?,
        change: Change::operators(difference.update().map_err(error::of_model::<T>)?),
        multi: false,
        upsert: false,
    };
    let plan = Plan::new(&T::MODEL, write)?;
    let change = plan.write().change.clone();
    let done = plan.run(access.clone()).await?;
    if done.matched == 0 {
        return Err(match stored_by_id::<T>(&access, &id).await? {
            None => error::not_found::<T>(&id),
            Some(stored) => conflict::<T>(&difference, &edited.stored, &stored),
        });
    }
    let stored = difference::filled(difference.applied(&edited.stored), &change, &T::MODEL);
    edited.saved(stored)
}

/// The condition that the document has not been written since it was read, if its model has a version.
fn version<T: Document>(edited: &Edited<T>) -> Option<Node> {
    let name = T::MODEL.version?;
    let path = Path::ROOT.then(name);
    Some(match edited.stored.get(name) {
        Ok(Some(version)) => Node::Test(path, "$eq", version.into()),
        _ => Node::Test(path, "$exists", false.into()),
    })
}

/// The id. It never changes, and what the framework fills is not changed by the application.
fn stored_id<T: Document>(edited: &Edited<T>, after: &RawDocument) -> Result<T::Id> {
    let refuse = |path, message| {
        let error = Error::new(ErrorKind::Invalid, message).with_path(path);
        Err(error::of_model::<T>(error))
    };
    if decode::id(&edited.before) != decode::id(after) {
        return refuse(
            "_id",
            "the `_id` of a document never changes: insert another document, and delete this one",
        );
    }
    for name in T::MODEL.filled {
        if edited.before.get(name).ok() != after.get(name).ok() {
            return refuse(
                name,
                "the framework fills this field: leave it as it was read",
            );
        }
    }
    Ok(edited.id().clone())
}

/// Somebody else has changed what was to be saved.
fn conflict<T: Document>(
    difference: &Difference,
    read: &RawDocument,
    stored: &RawDocument,
) -> Error {
    let message = "the document was changed by another write since it was read, where it was to be saved; \
                   nothing was written: read it again with `edit`, or let `modify` do that";
    let error = error::of_model::<T>(Error::new(ErrorKind::Conflict, message));
    let error = match decode::id(stored).map(bson::Bson::try_from) {
        Some(Ok(id)) => error.with_id(id),
        _ => error,
    };
    match T::MODEL
        .version
        .or_else(|| difference.first_changed(read, stored))
    {
        Some(path) => error.with_path(path),
        None => error,
    }
}
