//! Upgrades of documents that an older version of the application has written.
//!
//! A model with a `schema_version` stores the version of each inserted document in `_odm.schema_version`. A document without this
//! field has version 1. A read upgrades the document in memory. A write evaluates its filter in the database, so the write first
//! upgrades the stored documents that it may match. The write itself requires the current version: an update for the new form
//! never changes an old document.

use std::{borrow::Cow, pin::Pin};

use bson::{Bson, Document as BsonDocument, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::{
    Error, ErrorKind, Result,
    backend::operation::{DocumentChange, FindOperation, Stage, UpdateOperation},
    error,
    language::query::{append_field, id_filter, same_bytes, single_field_document},
    metadata::{Metadata, ParsedMetadata, SCHEMA_VERSION, overflow::OVERFLOW},
    model::{
        caseless::replace_caseless_texts,
        decode,
        document::Document,
        stored::{set_at, to_raw_value},
    },
    overflow::manifest::Manifest,
    schema::{Model, computed::evaluate::compute_document},
    session::{
        access::{Access, add_condition, find_matching},
        soft_delete::Visibility,
    },
    write,
};

/// Upgrades a document from an older schema version; see [`Document`](derive@crate::Document).
pub type UpgradeFn = fn(from: u32, document: &mut BsonDocument) -> Result<()>;

/// The number of outdated documents that are read at once.
const UPGRADE_BATCH_DOCUMENTS: u64 = 100;

/// The maximum number of attempts to upgrade a document under concurrent writes.
const MAX_UPGRADE_ATTEMPTS: u32 = 100;

/// Adds the schema version to a document before its insert.
pub(crate) fn add_version(model: &Model, document: &mut RawDocumentBuf) -> Result<()> {
    let mut metadata = BsonDocument::new();
    set_version(model, &mut metadata);
    for (field, value) in &metadata {
        append_field(document, field, to_raw_value(value)?)?;
    }
    Ok(())
}

/// Stores the current schema version in a document, if the model has an upgrade.
pub(crate) fn set_version(model: &Model, document: &mut BsonDocument) {
    if model.upgrade.is_some() {
        set_at(document, SCHEMA_VERSION, i64::from(model.schema_version));
    }
}

/// Returns the condition that a document has the current schema version.
pub(crate) fn current_version_condition(
    model: &Model,
) -> Result<Option<(&'static str, RawDocumentBuf)>> {
    if model.upgrade.is_none() {
        return Ok(None);
    }
    let current = single_field_document("$eq", i64::from(model.schema_version))?;
    Ok(Some((SCHEMA_VERSION, current)))
}

/// Returns a document in the form of the current schema version.
pub(crate) fn upgrade_for_read<'d>(
    model: &Model,
    raw: &'d RawDocument,
) -> Result<Cow<'d, RawDocument>> {
    Ok(match upgrade_document(model, raw)? {
        None => Cow::Borrowed(raw),
        Some(upgraded) => Cow::Owned(upgraded),
    })
}

/// Returns the upgraded form of an outdated document, or `None` if the document has the current version.
pub(crate) fn upgrade_document(model: &Model, raw: &RawDocument) -> Result<Option<RawDocumentBuf>> {
    let Some(upgrade) = model.upgrade else {
        return Ok(None);
    };
    let naming_document = |error: Error| {
        let error = error::naming_model(model)(error);
        match decode::stored_id(raw).map(Bson::try_from) {
            Some(Ok(id)) => error.with_id(id),
            _ => error,
        }
    };
    let from = stored_version(raw).map_err(naming_document)?;
    if from == model.schema_version {
        return Ok(None);
    }
    if from > model.schema_version {
        let message = format!(
            "the document has schema version {from}, but this program only knows versions up to {}: a newer program has written the document, so upgrade this program",
            model.schema_version
        );
        return Err(naming_document(Error::new(ErrorKind::Decode, message)));
    }
    let mut document = BsonDocument::try_from(raw).map_err(|error| {
        let message = format!("the stored document is not valid BSON: {error}");
        naming_document(Error::new(ErrorKind::Decode, message).with_source(error))
    })?;
    let immutable_fields = |document: &BsonDocument| {
        let fields = std::iter::once(&"_id").chain(model.shard_key);
        let fields = fields.map(|field| (*field, document.get(field).cloned()));
        fields.collect::<Vec<_>>()
    };
    let fields_before = immutable_fields(&document);
    // An older version may lack a field of the `_id`. The upgrade may derive such a field from the `_id`.
    let keys = model.id_parts.iter().copied().chain(model.sequence_keys());
    let keys = keys.filter_map(|field| Some((field, document.get(field)?.clone())));
    // An upgrade may assign missing numbers.
    let numbers = model.sequences.iter().map(|sequence| sequence.stored);
    let numbers = numbers.filter_map(|field| Some((field, document.get(field)?.clone())));
    let numbers = numbers.filter(|(_, number)| *number != Bson::Null);
    let kept: Vec<_> = keys.chain(numbers).collect();
    let arrays = spilled_arrays(model, &document);
    upgrade(from, &mut document).map_err(naming_document)?;
    compute_document(model, &mut document).map_err(naming_document)?;
    replace_caseless_texts(model, &mut document);
    ensure_arrays_kept(model, &arrays, &document).map_err(naming_document)?;
    let mut kept = kept.iter();
    if let Some((field, _)) = kept.find(|(field, value)| document.get(*field) != Some(value)) {
        let role = match model.id_parts.contains(field) {
            true => "is part of the document's `_id`",
            false if model.sequence_keys().any(|key| key == *field) => {
                "selects the sequence of the document's number"
            }
            false => "is a sequence number",
        };
        let message = format!(
            "the upgrade has changed a field that {role}, which never changes: keep the field in the `upgrade` function"
        );
        let error = Error::new(ErrorKind::Invalid, message).with_path(*field);
        return Err(naming_document(error));
    }
    if let Some((field, _)) = fields_before
        .iter()
        .zip(immutable_fields(&document))
        .find(|(a, b)| *a != b)
        .map(|(a, _)| a)
    {
        let message = match *field {
            "_id" => {
                "the upgrade has changed the `_id` of the document, which never changes: keep the `_id` in the `upgrade` function"
            }
            _ => {
                "the upgrade has changed the shard key of the document, and the shard key must never change: first upgrade all \
                 documents with a version of the model without `shard_key`"
            }
        };
        let error = Error::new(ErrorKind::Invalid, message).with_path(*field);
        return Err(naming_document(error));
    }
    set_version(model, &mut document);
    let upgraded = RawDocumentBuf::try_from(&document).map_err(error::from_bson);
    upgraded.map(Some).map_err(naming_document)
}

/// Reads documents, upgraded to the current version of the model.
pub(crate) async fn read_upgraded(
    access: &Access,
    model: &Model,
    find: FindOperation,
) -> Result<Vec<RawDocumentBuf>> {
    let mut found = access.find_all(model, find).await?;
    for raw in &mut found {
        if let Some(upgraded) = upgrade_document(model, raw)? {
            *raw = upgraded;
        }
    }
    Ok(found)
}

/// Returns the manifests of a document's overflow arrays, by the names of the arrays.
fn overflow_manifests(document: &BsonDocument) -> BsonDocument {
    let manifests = ParsedMetadata::of(document).manifests();
    manifests.cloned().unwrap_or_default()
}

/// An overflow array with a manifest.
struct SpilledArray {
    name: String,
    manifest: Bson,
    /// The resident elements if other elements are spilled, otherwise `None`.
    resident: Option<Option<Bson>>,
}

fn spilled_arrays(model: &Model, document: &BsonDocument) -> Vec<SpilledArray> {
    let arrays = overflow_manifests(document)
        .into_iter()
        .map(|(name, manifest)| {
            let is_partial = model.overflow_on(&name).is_some()
                && manifest
                    .as_document()
                    .is_none_or(|manifest| !Manifest::from_document(manifest).is_idle());
            SpilledArray {
                resident: is_partial.then(|| document.get(&name).cloned()),
                name,
                manifest,
            }
        });
    arrays.collect()
}

/// Whether two values are stored as the same bytes. NaN equals itself.
fn is_same_stored(a: Option<&Bson>, b: Option<&Bson>) -> bool {
    let raw = |value: Option<&Bson>| value.map(to_raw_value).transpose().ok().flatten();
    match (raw(a), raw(b)) {
        (Some(a), Some(b)) => same_bytes(a.as_raw_bson_ref(), b.as_raw_bson_ref()),
        _ => a.is_none() && b.is_none(),
    }
}

/// Checks that an upgrade keeps the manifests and the partial arrays of a document.
///
/// Spilled elements are found by the manifest under the name of their array. The upgrade only sees the resident elements: a
/// change of these would not reach the spilled elements.
fn ensure_arrays_kept(
    model: &Model,
    before: &[SpilledArray],
    document: &BsonDocument,
) -> Result<()> {
    let after = overflow_manifests(document);
    let is_lost = |array: &&SpilledArray| {
        model.overflow_on(&array.name).is_none()
            || !is_same_stored(after.get(&array.name), Some(&array.manifest))
    };
    let is_changed = |array: &&SpilledArray| {
        let before = array.resident.as_ref();
        before.is_some_and(|before| !is_same_stored(document.get(&array.name), before.as_ref()))
    };
    let (array, message) = if let Some(lost_field) = before.iter().find(is_lost) {
        let message = format!(
            "the array has spilled elements, which are found by its stored name and by `{OVERFLOW}`: the upgrade must not change \
             `{OVERFLOW}`, and the stored name must stay, by `#[serde(rename = \"…\")]`. Or move all elements back first, by \
             `inline` and `fold`, or remove them, by `set` to an empty array"
        );
        (lost_field, message)
    } else if let Some(changed) = before.iter().find(is_changed) {
        let message = "the array has spilled elements, which the upgrade does not see: the upgrade must not change the elements \
                       in the document either. Change all elements by an update of `all()`, or write the new values into a \
                       separate field. Or move all elements back first, by `inline` and `fold`";
        (changed, message.to_owned())
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Invalid, message).with_path(array.name.as_str()))
}

/// Returns the stored schema version of a document.
fn stored_version(raw: &RawDocument) -> Result<u32> {
    let Some(version) = Metadata::of(raw).schema_version() else {
        return Ok(1);
    };
    let number = version.as_i64().or_else(|| version.as_i32().map(i64::from));
    number
        .and_then(|number| u32::try_from(number).ok())
        .filter(|number| *number > 0)
        .ok_or_else(|| {
            Error::new(
                ErrorKind::Decode,
                "the stored schema version is not a positive integer: repair the field",
            )
            .with_path(SCHEMA_VERSION)
        })
}

/// Upgrades the outdated documents that a write may match.
///
/// If the filter names an `_id`, only the document with this `_id` is upgraded. Otherwise all outdated documents are upgraded,
/// because only the upgraded form shows whether a document matches.
pub(crate) async fn upgrade_before_write(
    access: &Access,
    model: &'static Model,
    filter: &RawDocument,
) -> Result<()> {
    if model.upgrade.is_none() {
        return Ok(());
    }
    let id = id_condition(filter).map(RawBson::from);
    let mut outdated = OutdatedDocuments::new(model, id);
    while let Some(batch) = outdated.next_batch(access).await? {
        for raw in batch {
            store_upgrade(access, model, raw).await?;
        }
    }
    Ok(())
}

/// Returns the condition of a filter on the `_id`, if the filter has one.
fn id_condition(filter: &RawDocument) -> Option<RawBsonRef<'_>> {
    let top_level = decode::stored_id(filter);
    top_level.or_else(|| {
        let parts = filter.get_array("$and").ok()?.into_iter().flatten();
        parts
            .filter_map(RawBsonRef::as_document)
            .find_map(id_condition)
    })
}

/// Stores the upgraded form of an outdated document, unless a concurrent process has upgraded the document.
async fn store_upgrade(
    access: &Access,
    model: &'static Model,
    mut raw: RawDocumentBuf,
) -> Result<bool> {
    for _ in 0..MAX_UPGRADE_ATTEMPTS {
        let Some(upgraded) = upgrade_document(model, &raw)? else {
            return Ok(false);
        };
        let Some(id) = decode::stored_id(&raw).map(RawBson::from) else {
            return Ok(false);
        };
        let mut by_id = id_filter(&id);
        // Name the shard, because the write addresses a single document.
        for (field, value) in model.shard_key_in(&raw) {
            append_field(
                &mut by_id,
                field,
                single_field_document("$eq", RawBson::from(value))?,
            )?;
        }
        let mut filter = by_id.clone();
        let mut comparison = bson::RawArrayBuf::new();
        comparison.push("$$ROOT");
        comparison.push(single_field_document("$literal", raw.clone())?);
        append_field(
            &mut filter,
            "$expr",
            single_field_document("$eq", comparison)?,
        )?;
        let update = UpdateOperation {
            collection: model.collection.into(),
            filter,
            change: DocumentChange::Replacement(upgraded),
            multi: false,
            upsert: false,
            origin: Stage::UPGRADES.step("store the upgraded document"),
        };
        // The references of the upgraded form may be new: the targets must exist, and the inverses must contain the document.
        if write::upgrade_document(access.to(model), &raw, update).await? {
            return Ok(true);
        }
        // A concurrent write has changed or deleted the document.
        let find = find_matching(model.collection, &by_id)
            .with_origin(Stage::UPGRADES.step("read the document again"));
        match access.find_all(model, find).await?.pop() {
            None => return Ok(false),
            Some(current) => raw = current,
        }
    }
    let message = "too much contention on an outdated document: the upgrade conflicted with other writes during every attempt; retry the operation";
    Err(error::naming_model(model)(Error::new(
        ErrorKind::Conflict,
        message,
    )))
}

/// The outdated documents of a model, in the order of their ids.
struct OutdatedDocuments<'m> {
    model: &'m Model,
    /// The condition on the `_id`, if the write has one.
    id: Option<RawBson>,
    last_id: Option<RawBson>,
    is_over: bool,
}

impl<'m> OutdatedDocuments<'m> {
    fn new(model: &'m Model, id: Option<RawBson>) -> Self {
        Self {
            model,
            id,
            last_id: None,
            is_over: false,
        }
    }

    async fn next_batch(&mut self, access: &Access) -> Result<Option<Vec<RawDocumentBuf>>> {
        if self.is_over {
            return Ok(None);
        }
        let mut filter = outdated_filter(self.model)?;
        if let Some(id) = &self.id {
            append_field(&mut filter, "_id", id.clone())?;
        }
        if let Some(last_id) = self.last_id.take() {
            add_condition(&mut filter, "_id", single_field_document("$gt", last_id)?)?;
        }
        let find = FindOperation {
            sort: Some(single_field_document("_id", 1)?),
            limit: Some(UPGRADE_BATCH_DOCUMENTS),
            options: Stage::UPGRADES.step("read the outdated documents").into(),
            ..find_matching(self.model.collection, &filter)
        };
        let batch = access.find_all(self.model, find).await?;
        self.last_id = batch
            .last()
            .and_then(|last| decode::stored_id(last))
            .map(RawBson::from);
        self.is_over = (batch.len() as u64) < UPGRADE_BATCH_DOCUMENTS;
        Ok(Some(batch))
    }
}

/// Upgrades the outdated documents of a model. [`Session::upgrade`](crate::Session::upgrade) creates this action.
#[must_use = "nothing is upgraded until it is awaited"]
pub struct UpgradeAll<T> {
    access: Access,
    of: std::marker::PhantomData<fn() -> T>,
}

/// The result of [`UpgradeAll`].
#[derive(Debug, Default)]
pub struct UpgradeReport {
    /// The number of upgraded documents.
    pub upgraded: u64,
    /// The errors of documents that could not be upgraded, with their ids.
    pub failed: Vec<Error>,
}

impl<T: Document> UpgradeAll<T> {
    pub(crate) fn new(access: Access) -> Self {
        Self {
            // Soft-deleted documents can be restored, so upgrade them too.
            access: access.with_visibility(Visibility::All),
            of: std::marker::PhantomData,
        }
    }
}

impl<T: Document> IntoFuture for UpgradeAll<T> {
    type Output = Result<UpgradeReport>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { upgrade_model(&self.access, &T::MODEL).await })
    }
}

/// Upgrades all outdated documents of a model.
pub(crate) async fn upgrade_model(access: &Access, model: &'static Model) -> Result<UpgradeReport> {
    let mut report = UpgradeReport::default();
    if model.upgrade.is_none() {
        return Ok(report);
    }
    let mut outdated = OutdatedDocuments::new(model, None);
    while let Some(batch) = outdated.next_batch(access).await? {
        for raw in batch {
            match store_upgrade(access, model, raw).await {
                Ok(is_upgraded) => report.upgraded += u64::from(is_upgraded),
                // An error without an id is one of the database or of a transaction: the remaining documents cannot be read
                // either.
                Err(error) if error.id().is_none() && !error.is_conflict() => return Err(error),
                Err(error) => report.failed.push(error),
            }
        }
    }
    Ok(report)
}

/// Returns the condition of outdated documents.
pub(crate) fn outdated_filter(model: &Model) -> Result<RawDocumentBuf> {
    let current = i64::from(model.schema_version);
    single_field_document(SCHEMA_VERSION, single_field_document("$ne", current)?)
}
