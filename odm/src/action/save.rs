//! `edit` and `save`: write the changes of a document that was read before.

mod difference;

use crate::model::hook::{self, Changes, Committed, HookedWrite, RunHooks, Selection};
use std::pin::Pin;

use bson::{RawDocument, RawDocumentBuf};

use difference::SaveDifference;

use super::get::stored_by_key;
use crate::{
    Edited, Error, ErrorKind, Result,
    action::{UpdateOperators, explain::ExplainWrite},
    backend::{
        BoxFuture,
        operation::{DocumentChange, OperationOrigin, UpdateOperation},
    },
    error,
    language::{
        field::{Path, VariantMap},
        query::{Filter, FilterNode, Key, check_changed_paths, encode_unchecked},
    },
    model::{decode, document::Document},
    schema::{computed::evaluate::compute_fields, upgrade},
    session::{access::Access, transaction_scope::TransactionAttempts},
    write::{self, WriteOutcome, WriteRequest, prepare_save},
};

/// Reads a document to change and save; made by [`Session::edit`](crate::Session::edit).
#[must_use = "a read runs when awaited"]
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
        Box::pin(async move { read_edited(&self.access, &self.key).await })
    }
}

/// Saves the changes of a document; made by [`Session::save`](crate::Session::save).
#[must_use = "a write runs when awaited"]
pub struct Save<'e, T> {
    access: Access,
    edited: &'e mut Edited<T>,
}

impl<'e, T: Document> Save<'e, T> {
    pub(crate) fn new(access: Access, edited: &'e mut Edited<T>) -> Self {
        Self { access, edited }
    }

    /// Returns the plan of the save, without saving anything: see [`ExplainWrite`].
    pub fn explain(self) -> ExplainWrite<'e> {
        let edited = self.edited;
        ExplainWrite::new::<T, _>(self.access, |access| async move {
            write_changes(access, edited, None).await.map(drop)
        })
    }
}

impl<'e, T: Document> IntoFuture for Save<'e, T> {
    type Output = Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'e>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let result = save_edited(self.access.clone(), self.edited).await;
            result.map_err(|error| self.access.note_conflict(error))
        })
    }
}

pub(super) async fn read_edited<T: Document>(access: &Access, key: &Key<T>) -> Result<Edited<T>> {
    let stored = stored_by_key::<T>(access, key).await?;
    let stored = match stored {
        // The save compares with the stored document. Upgrade the stored document first, so that both have the current version of
        // the model.
        Some(stored) if upgrade::upgrade_document(&T::MODEL, &stored)?.is_some() => {
            upgrade::upgrade_before_write(access, &T::MODEL, &key.to_raw()?).await?;
            stored_by_key::<T>(access, key).await?
        }
        stored => stored,
    };
    Edited::new(stored.ok_or_else(|| error::not_found::<T>(key.id()))?)
}

/// Saves the changes in one update. The filter of the update requires that each written path is unchanged since the read or, in a
/// model with a version, that the version is unchanged.
pub(super) async fn save_edited<T: Document>(access: Access, edited: &mut Edited<T>) -> Result<()> {
    let stored = match T::HAS_HOOKS {
        true => save_with_hooks(access, edited).await?,
        false => write_changes(access, edited, None).await?,
    };
    // Take over the stored document only after the commit.
    stored.map_or(Ok(()), |stored| edited.record_saved(stored))
}

/// Boxed as a trait object, so that models without hooks do not compile this code.
fn save_with_hooks<T: Document>(
    access: Access,
    edited: &mut Edited<T>,
) -> BoxFuture<'_, Result<Option<RawDocumentBuf>>> {
    Box::pin(async move {
        match T::hooks() {
            None => write_changes(access, edited, None).await,
            Some(_) if encode_unchecked(&**edited).is_ok_and(|now| now == edited.original) => {
                Ok(None)
            }
            Some(hooks) => {
                // Allow only one attempt: after a conflict the document must be read again, which only the caller can do.
                let mut only_attempt = Some(edited);
                let work = |access: Access| {
                    let edited = only_attempt.take();
                    async move {
                        match edited {
                            Some(edited) => run_hooked_save(hooks, access, edited).await,
                            None => Err(Error::new(
                                ErrorKind::Conflict,
                                "the transaction of a save conflicted with another write, and nothing was written: read the document again with `edit`, or use `modify`, which retries",
                            )),
                        }
                    }
                };
                access
                    .run_with_attempts(TransactionAttempts::Single, work)
                    .await
            }
        }
    })
}

async fn run_hooked_save<T: Document>(
    hooks: &'static dyn RunHooks<T>,
    access: Access,
    edited: &mut Edited<T>,
) -> Result<Option<RawDocumentBuf>> {
    let fail = |error| access.fail_transaction(error);
    let hook_result = hooks.before_validate(&mut **edited, &access).await;
    hook_result.map_err(fail)?;
    let mut after = encode_unchecked(&**edited).map_err(error::of_model::<T>)?;
    let key = unchanged_key::<T>(edited, &after)?;
    let mut variants = VariantMap::default();
    T::variants(edited, &mut variants);
    let difference =
        SaveDifference::from_states(&edited.stored, &edited.original, &after, &variants);
    if difference.is_empty() {
        return Ok(None);
    }
    let mut changes = Changes {
        selection: Selection {
            condition: key.condition().map_err(error::of_model::<T>)?,
            visibility: access.visibility(),
            id: Some(key.into_id()),
            is_many: false,
            sort: Vec::new(),
            ids: None,
            is_restricted: false,
        },
        operators: UpdateOperators::from_save(
            &difference.to_update().map_err(error::of_model::<T>)?,
        ),
        is_save: true,
    };
    let hook_result = hooks.before_update(&mut changes, &access).await;
    hook_result.map_err(fail)?;
    let added = changes
        .operators
        .hook_changes()
        .map_err(error::of_model::<T>)?;
    for (path, value) in added {
        after = difference::with_value_at(&after, path, value.as_ref())
            .map_err(error::of_model::<T>)?;
    }
    if !added.is_empty() {
        let stored = decode::with_manifests(&T::MODEL, after.clone(), &edited.stored)?;
        **edited = T::from_stored(&stored)?;
    }
    let written = write_changes(access.clone(), edited, Some((hooks, changes))).await;
    written.map_err(|error| match error.is_validation() {
        true => access.fail_transaction(error),
        false => error,
    })
}

/// Boxed as a trait object, so that models without hooks do not compile this code.
fn write_with_hooks<'e, T: Document>(
    access: Access,
    edited: &'e Edited<T>,
    request: WriteRequest,
    (hooks, changes): (&'static dyn RunHooks<T>, Changes<T>),
) -> BoxFuture<'e, Result<WriteOutcome>> {
    Box::pin(async move {
        let hook_result = hooks.after_validate(edited, &access).await;
        hook_result.map_err(|error| access.fail_transaction(error))?;
        let write = |access: Access| async move {
            let outcome = request.run(access.clone()).await?;
            if outcome.matched == 0 {
                return Ok(HookedWrite::without_match(outcome));
            }
            Ok(HookedWrite {
                done: outcome,
                after_hooks: hooks.after_update(&changes, &access).await,
                events: vec![Committed::Updated(changes)],
            })
        };
        hook::run_with_after_hooks(access, hooks, write).await
    })
}

/// Writes the changes. Returns the stored document after the write, or `None` if nothing had changed.
async fn write_changes<T: Document>(
    access: Access,
    edited: &Edited<T>,
    hooks: Option<(&'static dyn RunHooks<T>, Changes<T>)>,
) -> Result<Option<RawDocumentBuf>> {
    let after = encode_unchecked(&**edited);
    // A map key with a null byte cannot be encoded. The check returns a better error, with the path of the map.
    let after = after.or_else(|error| edited.check_bounds().and(Err(error)));
    let after = after.map_err(error::of_model::<T>)?;
    let key = unchanged_key::<T>(edited, &after)?;
    let mut variants = VariantMap::default();
    T::variants(edited, &mut variants);
    let difference =
        SaveDifference::from_states(&edited.stored, &edited.original, &after, &variants);
    let written = difference.written_paths();
    check_changed_paths(&**edited, &written).map_err(error::of_model::<T>)?;
    if difference.is_empty() {
        return Ok(None);
    }
    if difference.is_variant_change() {
        write::ensure_same_variant(access.to(&T::MODEL), &edited.stored)?;
    }
    let update = difference.to_update().map_err(error::of_model::<T>)?;
    let update = prepare_save(&T::MODEL, &edited.stored, update)?;
    let key_condition = key.condition().map_err(error::of_model::<T>)?;
    let unchanged = version_condition(edited).unwrap_or_else(|| difference.unchanged_since_read());
    let filter = Filter::<T>::from_node(key_condition.and(unchanged));
    let mut change = DocumentChange::operators(update);
    write::add_managed_fields(&mut change, &T::MODEL)?;
    let write = UpdateOperation {
        collection: T::COLLECTION.into(),
        filter: filter.to_raw().map_err(error::of_model::<T>)?,
        change: change.clone(),
        multi: false,
        upsert: false,
        origin: OperationOrigin::default(),
    };
    let request = WriteRequest::exact(&T::MODEL, write);
    let outcome = match hooks {
        Some(hooks) if T::HAS_HOOKS => {
            write_with_hooks(access.clone(), edited, request, hooks).await?
        }
        _ => request.run(access.clone()).await?,
    };
    if outcome.matched == 0 {
        return Err(match stored_by_key::<T>(&access, &key).await? {
            None => error::not_found::<T>(key.id()),
            Some(stored) => save_conflict::<T>(&difference, &edited.stored, &stored),
        });
    }
    if write::writes_copied_reference(&T::MODEL, &change)
        && let Some(stored) = stored_by_key::<T>(&access, &key).await?
    {
        return Ok(Some(stored));
    }
    let mut stored =
        difference::with_managed_fields(difference.apply_to(&edited.stored), &change, &T::MODEL);
    compute_fields(&T::MODEL, &mut stored)?;
    Ok(Some(stored))
}

/// Returns the condition that the version of the document is the version that was read, if the model has a version.
fn version_condition<T: Document>(edited: &Edited<T>) -> Option<FilterNode> {
    let name = T::MODEL.version?;
    let path = Path::ROOT.subfield(name);
    Some(match edited.stored.get(name) {
        Ok(Some(version)) => FilterNode::Test(path, "$eq", version.into()),
        _ => FilterNode::Test(path, "$exists", false.into()),
    })
}

/// Returns the key of the stored document. Fails if the save changes the id, the shard key or a managed field.
fn unchanged_key<T: Document>(edited: &Edited<T>, after: &RawDocument) -> Result<Key<T>> {
    let reject = |path, message| {
        let error = Error::new(ErrorKind::Invalid, message).with_path(path);
        Err(error::of_model::<T>(error))
    };
    if decode::stored_id(&edited.original) != decode::stored_id(after) {
        return reject(
            "_id",
            "the `_id` of a document cannot change: insert another document, and delete this document",
        );
    }
    for name in T::MODEL.managed {
        if edited.original.get(name).ok() != after.get(name).ok() {
            return reject(
                name,
                "the framework manages this field, and a save cannot change the field: keep the value that was read",
            );
        }
    }
    for name in T::MODEL.id_parts {
        if edited.original.get(name).ok() != after.get(name).ok() {
            return reject(
                name,
                "the field is part of the `_id`, which cannot change: insert another document, and delete this document",
            );
        }
    }
    for name in T::MODEL.sequence_keys() {
        if edited.original.get(name).ok() != after.get(name).ok() {
            return reject(
                name,
                "the field selects the sequence of the document's number, which cannot change: insert another document, and delete this document",
            );
        }
    }
    for name in T::MODEL.shard_key {
        if edited.original.get(name).ok() != after.get(name).ok() {
            return reject(
                name,
                "the shard key of a document cannot change: insert another document, and delete this document",
            );
        }
    }
    Ok(Key::of_stored(edited.id().clone(), &edited.stored))
}

/// Returns the error for a document that another write has changed since the read.
fn save_conflict<T: Document>(
    difference: &SaveDifference,
    read: &RawDocument,
    stored: &RawDocument,
) -> Error {
    let message = "another write has changed the document since the read; nothing was written: \
                   read the document again with `edit`, or use `modify`, which retries";
    let error = error::of_model::<T>(Error::new(ErrorKind::Conflict, message));
    let error = match decode::stored_id(stored).map(bson::Bson::try_from) {
        Some(Ok(id)) => error.with_id(id),
        _ => error,
    };
    match T::MODEL
        .version
        .or_else(|| difference.first_changed_path(read, stored))
    {
        Some(path) => error.with_path(path),
        None => error,
    }
}
