//! Saving what has changed in a document that was read.

mod difference;

use std::pin::Pin;

use bson::{RawDocument, RawDocumentBuf};
use difference::Difference;

use super::get::stored_by_key;
use crate::{
    Edited, Error, ErrorKind, Result,
    access::Access,
    action::Operators,
    backend::{
        BoxFuture,
        operation::{Change, Update, Updated},
    },
    decode,
    document::Document,
    error,
    field::{Path, Variants},
    hook::{self, Changes, Committed, RunHooks, Selection, Written},
    maintain::{self, Plan, of_a_save},
    query::{Filter, Key, Node, check_written, encode_unchecked},
    schema::upgrade,
    unit::Attempts,
};

/// Reads a document to change it; made by [`Session::edit`](crate::Session::edit).
#[must_use = "a read happens when it is awaited"]
pub struct Edit<T: Document> {
    access: Access,
    key: Key<T>,
}

impl<T: Document> Edit<T> {
    pub(crate) fn new(access: Access, key: Key<T>) -> Self {
        Self { access, key }
    }
}

impl<T: Document> IntoFuture for Edit<T> {
    type Output = Result<Edited<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { edit(&self.access, &self.key).await })
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

pub(super) async fn edit<T: Document>(access: &Access, key: &Key<T>) -> Result<Edited<T>> {
    let stored = stored_by_key::<T>(access, key).await?;
    let stored = match stored {
        // What is saved is compared with what was read, so that has to be there.
        Some(stored) if upgrade::upgraded(&T::MODEL, &stored)?.is_some() => {
            upgrade::before_write(access, &T::MODEL, &key.to_raw()?).await?;
            stored_by_key::<T>(access, key).await?
        }
        stored => stored,
    };
    Edited::new(stored.ok_or_else(|| error::not_found::<T>(key.id()))?)
}

/// One update, on the condition that every place that it writes is still as it was read.
pub(super) async fn save<T: Document>(access: Access, edited: &mut Edited<T>) -> Result<()> {
    let stored = match T::HAS_HOOKS {
        true => with_hooks(access, edited).await?,
        false => write(access, edited, None).await?,
    };
    // Not before it is committed.
    stored.map_or(Ok(()), |stored| edited.saved(stored))
}

/// An object, so that of a model without hooks nothing of it is compiled.
fn with_hooks<T: Document>(
    access: Access,
    edited: &mut Edited<T>,
) -> BoxFuture<'_, Result<Option<RawDocumentBuf>>> {
    Box::pin(async move {
        match T::hooks() {
            None => write(access, edited, None).await,
            Some(_) if encode_unchecked(&**edited).is_ok_and(|now| now == edited.before) => {
                Ok(None)
            }
            Some(hooks) => {
                // What was read is read again after a conflict, not written again: it is run once.
                let mut once = Some(edited);
                let work = |access: Access| {
                    let edited = once.take();
                    async move {
                        match edited {
                            Some(edited) => hooked(hooks, access, edited).await,
                            None => Err(Error::new(ErrorKind::Conflict, "read it again")),
                        }
                    }
                };
                access.together(Attempts::One, work).await
            }
        }
    })
}

async fn hooked<T: Document>(
    hooks: &'static dyn RunHooks<T>,
    access: Access,
    edited: &mut Edited<T>,
) -> Result<Option<RawDocumentBuf>> {
    let fail = |error| access.fail(error);
    let before = hooks.before_validate(&mut **edited, &access).await;
    before.map_err(fail)?;
    let mut after = encode_unchecked(&**edited).map_err(error::of_model::<T>)?;
    let key = stored_key::<T>(edited, &after)?;
    let mut variants = Variants::default();
    T::variants(edited, &mut variants);
    let difference = Difference::of(&edited.stored, &edited.before, &after, &variants);
    if difference.is_empty() {
        return Ok(None);
    }
    let mut changes = Changes {
        selection: Selection {
            condition: key.node().map_err(error::of_model::<T>)?,
            sight: access.sight(),
            id: Some(key.into_id()),
            is_many: false,
            sort: Vec::new(),
            ids: None,
            is_pinned: false,
        },
        operators: Operators::of_a_save(&difference.update().map_err(error::of_model::<T>)?),
        is_save: true,
    };
    let before = hooks.before_update(&mut changes, &access).await;
    before.map_err(fail)?;
    let added = changes.operators.added().map_err(error::of_model::<T>)?;
    for (path, value) in added {
        after = difference::with(&after, path, value.as_ref()).map_err(error::of_model::<T>)?;
    }
    if !added.is_empty() {
        let stored = decode::with_outside(&T::MODEL, after.clone(), &edited.stored)?;
        **edited = T::from_stored(&stored)?;
    }
    let written = write(access.clone(), edited, Some((hooks, changes))).await;
    written.map_err(|error| match error.is_validation() {
        true => access.fail(error),
        false => error,
    })
}

/// An object, as above.
fn write_with_hooks<'e, T: Document>(
    access: Access,
    edited: &'e Edited<T>,
    plan: Plan<Update>,
    (hooks, changes): (&'static dyn RunHooks<T>, Changes<T>),
) -> BoxFuture<'e, Result<Updated>> {
    Box::pin(async move {
        let after = hooks.after_validate(edited, &access).await;
        after.map_err(|error| access.fail(error))?;
        let write = |access: Access| async move {
            let done = plan.run(access.clone()).await?;
            if done.matched == 0 {
                return Ok(Written::nothing(done));
            }
            Ok(Written {
                done,
                after: hooks.after_update(&changes, &access).await,
                events: vec![Committed::Updated(changes)],
            })
        };
        hook::written(access, hooks, write).await
    })
}

/// Gives what is stored then, if something had changed.
async fn write<T: Document>(
    access: Access,
    edited: &Edited<T>,
    hooks: Option<(&'static dyn RunHooks<T>, Changes<T>)>,
) -> Result<Option<RawDocumentBuf>> {
    let after = encode_unchecked(&**edited);
    // A map key with a null byte cannot be encoded, and the check names the map.
    let after = after.or_else(|error| edited.check_bounds().and(Err(error)));
    let after = after.map_err(error::of_model::<T>)?;
    let key = stored_key::<T>(edited, &after)?;
    let mut variants = Variants::default();
    T::variants(edited, &mut variants);
    let difference = Difference::of(&edited.stored, &edited.before, &after, &variants);
    let written = difference.paths();
    check_written(&**edited, &written).map_err(error::of_model::<T>)?;
    if difference.is_empty() {
        return Ok(None);
    }
    if difference.is_another() {
        maintain::refuse_another(&access, &T::MODEL, &edited.stored)?;
    }
    let update = difference.update().map_err(error::of_model::<T>)?;
    let update = of_a_save(&T::MODEL, &edited.stored, update)?;
    let by_key = key.node().map_err(error::of_model::<T>)?;
    let as_read = version(edited).unwrap_or_else(|| difference.untouched());
    let filter = Filter::<T>::from_node(by_key.and(as_read));
    let write = Update {
        collection: T::COLLECTION.into(),
        filter: filter.to_raw().map_err(error::of_model::<T>)?,
        change: Change::operators(update),
        multi: false,
        upsert: false,
    };
    let plan = Plan::new(&T::MODEL, write)?;
    let change = plan.write().change.clone();
    let done = match hooks {
        Some(hooks) if T::HAS_HOOKS => {
            write_with_hooks(access.clone(), edited, plan, hooks).await?
        }
        _ => plan.run(access.clone()).await?,
    };
    if done.matched == 0 {
        return Err(match stored_by_key::<T>(&access, &key).await? {
            None => error::not_found::<T>(key.id()),
            Some(stored) => conflict::<T>(&difference, &edited.stored, &stored),
        });
    }
    if maintain::brings_copies(&T::MODEL, &change)
        && let Some(stored) = stored_by_key::<T>(&access, &key).await?
    {
        return Ok(Some(stored));
    }
    let mut stored = difference::filled(difference.applied(&edited.stored), &change, &T::MODEL);
    maintain::compute(&T::MODEL, &mut stored)?;
    Ok(Some(stored))
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

/// The id and the shard key. They never change, and what the framework fills is not changed by the application.
fn stored_key<T: Document>(edited: &Edited<T>, after: &RawDocument) -> Result<Key<T>> {
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
    for name in T::MODEL.id_parts {
        if edited.before.get(name).ok() != after.get(name).ok() {
            return refuse(
                name,
                "the `_id` of a document is made of this field, so it never changes: insert another document, and delete this one",
            );
        }
    }
    for name in T::MODEL.shard_key {
        if edited.before.get(name).ok() != after.get(name).ok() {
            return refuse(
                name,
                "the shard key of a document never changes: insert another document, and delete this one",
            );
        }
    }
    Ok(Key::of_stored(edited.id().clone(), &edited.stored))
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
