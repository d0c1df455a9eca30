//! Documents that an older version of the application has written.
//!
//! A model with a `schema_version` marks what it inserts with `_odm.schema_version`; a document without a mark is of version 1.
//! Reads upgrade what they get in memory. A write looks at the database, so it brings what it is about up to date first, and is
//! itself conditional on the mark: an update made for the new form never meets the old one.

use std::{borrow::Cow, pin::Pin};

use bson::{Bson, Document as BsonDocument, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::{
    Error, ErrorKind, Result,
    access::{Access, also, found_by},
    backend::operation::{Change, Find, Update},
    decode,
    document::Document,
    error, maintain,
    overflow::header::Header,
    query::{append, by_id, document, same},
    schema::Model,
    soft_delete::Sight,
    stored::raw,
};

/// Makes a document of an older version one of today's; see [`Document`](derive@crate::Document).
pub type Upgrade = fn(from: u32, document: &mut BsonDocument) -> Result<()>;

/// Where a document says which version it is of.
pub(crate) const MARK: &str = "_odm.schema_version";

/// How many outdated documents are read at once.
const BATCH: u64 = 100;

/// How often one document is tried while others write to it.
const ATTEMPTS: u32 = 100;

/// Marks a document that is inserted.
pub(crate) fn mark(model: &Model, document: &mut RawDocumentBuf) -> Result<()> {
    match model.upgrade {
        None => Ok(()),
        Some(_) => append(document, "_odm", own(model)?),
    }
}

fn own(model: &Model) -> Result<RawDocumentBuf> {
    document(
        "schema_version",
        RawBson::from(i64::from(model.schema_version)),
    )
}

/// The condition that a document is of today's version.
pub(crate) fn is_current(model: &Model) -> Result<Option<(&'static str, RawDocumentBuf)>> {
    if model.upgrade.is_none() {
        return Ok(None);
    }
    let current = document("$eq", i64::from(model.schema_version))?;
    Ok(Some((MARK, current)))
}

/// The document as today's model reads it.
pub(crate) fn current<'d>(model: &Model, raw: &'d RawDocument) -> Result<Cow<'d, RawDocument>> {
    Ok(match upgraded(model, raw)? {
        None => Cow::Borrowed(raw),
        Some(upgraded) => Cow::Owned(upgraded),
    })
}

/// What an outdated document becomes; none if it is of today's version.
pub(crate) fn upgraded(model: &Model, raw: &RawDocument) -> Result<Option<RawDocumentBuf>> {
    let Some(upgrade) = model.upgrade else {
        return Ok(None);
    };
    let of_document = |error: Error| {
        let error = error::of(model)(error);
        match decode::id(raw).map(Bson::try_from) {
            Some(Ok(id)) => error.with_id(id),
            _ => error,
        }
    };
    let from = version(raw).map_err(of_document)?;
    if from == model.schema_version {
        return Ok(None);
    }
    if from > model.schema_version {
        let message = format!(
            "the document is of schema version {from}, and this program knows {} versions: a newer one has written it",
            model.schema_version
        );
        return Err(of_document(Error::new(ErrorKind::Decode, message)));
    }
    let mut document = BsonDocument::try_from(raw).map_err(|error| {
        let message = format!("a stored document is broken: {error}");
        of_document(Error::new(ErrorKind::Decode, message).with_source(error))
    })?;
    let key = |document: &BsonDocument| {
        let fields = std::iter::once(&"_id").chain(model.shard_key);
        let fields = fields.map(|field| (*field, document.get(field).cloned()));
        fields.collect::<Vec<_>>()
    };
    let before = key(&document);
    // One that an older version did not have may be taken from the `_id`.
    let parts = model.id_parts.iter();
    let parts = parts.filter_map(|field| Some((*field, document.get(*field)?.clone())));
    let parts: Vec<_> = parts.collect();
    let arrays = arrays(model, &document);
    upgrade(from, &mut document).map_err(of_document)?;
    maintain::fill_open(model, &mut document).map_err(of_document)?;
    keeps_arrays(model, &arrays, &document).map_err(of_document)?;
    let mut parts = parts.iter();
    if let Some((field, _)) = parts.find(|(field, value)| document.get(field) != Some(value)) {
        let message = "the upgrade of the model has changed a field of which the `_id` of a document is made, which never changes";
        let error = Error::new(ErrorKind::Invalid, message).with_path(*field);
        return Err(of_document(error));
    }
    if let Some((field, _)) = before
        .iter()
        .zip(key(&document))
        .find(|(a, b)| *a != b)
        .map(|(a, _)| a)
    {
        let message = match *field {
            "_id" => {
                "the upgrade of the model has changed the `_id` of a document, which never changes"
            }
            _ => {
                "the upgrade of the model has changed the shard key of a document, which never changes: upgrade all documents in a \
                 version without `shard_key` before"
            }
        };
        let error = Error::new(ErrorKind::Invalid, message).with_path(*field);
        return Err(of_document(error));
    }
    let own = document
        .entry("_odm".to_owned())
        .or_insert_with(|| BsonDocument::new().into());
    if let Bson::Document(own) = own {
        own.insert("schema_version", i64::from(model.schema_version));
    }
    let upgraded = RawDocumentBuf::try_from(&document).map_err(error::encode);
    upgraded.map(Some).map_err(of_document)
}

/// What a document says of elements outside of it, by the names of their arrays.
fn headers(document: &BsonDocument) -> BsonDocument {
    let own = document.get_document("_odm").ok();
    let headers = own.and_then(|own| own.get_document("overflow").ok());
    headers.cloned().unwrap_or_default()
}

/// An array of which some documents of the extras are a document's.
struct Array {
    name: String,
    header: Bson,
    /// What there is of it in the document, if it is not all.
    partial: Option<Option<Bson>>,
}

fn arrays(model: &Model, document: &BsonDocument) -> Vec<Array> {
    let all = headers(document).into_iter().map(|(name, header)| {
        let is_partial = model.overflow_on(&name).is_some()
            && header
                .as_document()
                .is_none_or(|header| !Header::of(header).is_idle());
        Array {
            partial: is_partial.then(|| document.get(&name).cloned()),
            name,
            header,
        }
    });
    all.collect()
}

/// Whether two values are stored as the same bytes; NaN is the same as itself.
fn is_same(a: Option<&Bson>, b: Option<&Bson>) -> bool {
    let raw = |value: Option<&Bson>| value.map(raw).transpose().ok().flatten();
    match (raw(a), raw(b)) {
        (Some(a), Some(b)) => same(a.as_raw_bson_ref(), b.as_raw_bson_ref()),
        _ => a.is_none() && b.is_none(),
    }
}

/// Elements outside of a document are found by what it says of them, under the name of their array; and what happens to those in it
/// does not happen to them.
fn keeps_arrays(model: &Model, before: &[Array], document: &BsonDocument) -> Result<()> {
    let after = headers(document);
    let is_lost = |array: &&Array| {
        model.overflow_on(&array.name).is_none()
            || !is_same(after.get(&array.name), Some(&array.header))
    };
    let is_changed = |array: &&Array| {
        let before = array.partial.as_ref();
        before.is_some_and(|before| !is_same(document.get(&array.name), before.as_ref()))
    };
    let (array, message) = if let Some(lost) = before.iter().find(is_lost) {
        let message = "elements of this array are in documents of their own, which are found by its name and by what the document has under \
                       `_odm.overflow`: the upgrade leaves that as it is, and the stored name stays, by `#[serde(rename = \"…\")]`; or all \
                       elements come back before, by `gather` and `fold`, or go, by `set` to none";
        (lost, message)
    } else if let Some(changed) = before.iter().find(is_changed) {
        let message = "some elements of this array are in documents of their own, which the upgrade does not see: it leaves those in the \
                       document as they are too. Change all of them by an update of `all()`, or write what is new into a field of its own; or \
                       all elements come back before, by `gather` and `fold`";
        (changed, message)
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Invalid, message).with_path(array.name.as_str()))
}

/// The version that a document says it is of.
fn version(raw: &RawDocument) -> Result<u32> {
    let own = raw.get_document("_odm").ok();
    let version = own.and_then(|own| own.get("schema_version").ok().flatten());
    let Some(version) = version else {
        return Ok(1);
    };
    let number = version.as_i64().or_else(|| version.as_i32().map(i64::from));
    number
        .and_then(|number| u32::try_from(number).ok())
        .filter(|number| *number > 0)
        .ok_or_else(|| Error::new(ErrorKind::Decode, "the mark is no version").with_path(MARK))
}

/// Brings the outdated documents up to date that a write may be about: the one with its `_id`, or else all, as which of them meet its
/// condition is only known then.
pub(crate) async fn before_write(
    access: &Access,
    model: &'static Model,
    filter: &RawDocument,
) -> Result<()> {
    if model.upgrade.is_none() {
        return Ok(());
    }
    let id = id_condition(filter).map(RawBson::from);
    let mut outdated = Outdated::new(model, id);
    while let Some(batch) = outdated.next(access).await? {
        for raw in batch {
            bring_up(access, model, raw).await?;
        }
    }
    Ok(())
}

/// What a filter asks of the `_id`, whatever else it asks.
fn id_condition(filter: &RawDocument) -> Option<RawBsonRef<'_>> {
    let own = decode::id(filter);
    own.or_else(|| {
        let parts = filter.get_array("$and").ok()?.into_iter().flatten();
        parts
            .filter_map(RawBsonRef::as_document)
            .find_map(id_condition)
    })
}

/// Writes what an outdated document becomes, unless somebody else has done so.
async fn bring_up(access: &Access, model: &'static Model, mut raw: RawDocumentBuf) -> Result<bool> {
    for _ in 0..ATTEMPTS {
        let Some(upgraded) = upgraded(model, &raw)? else {
            return Ok(false);
        };
        let Some(id) = decode::id(&raw).map(RawBson::from) else {
            return Ok(false);
        };
        let mut by_id = by_id(&id)?;
        // It is written to by itself, so it says on which shard it is.
        for (field, value) in model.shard_key_in(&raw) {
            append(&mut by_id, field, document("$eq", RawBson::from(value))?)?;
        }
        let mut filter = by_id.clone();
        let mut whole = bson::RawArrayBuf::new();
        whole.push("$$ROOT");
        whole.push(document("$literal", raw.clone())?);
        append(&mut filter, "$expr", document("$eq", whole)?)?;
        let update = Update {
            collection: model.collection.into(),
            filter,
            change: Change::Replacement(upgraded),
            multi: false,
            upsert: false,
        };
        // What it refers to from now on is to be there, and to know of it.
        if maintain::bring_up(access, model, &raw, update).await? {
            return Ok(true);
        }
        // Somebody has changed it, or deleted it.
        let find = found_by(&model.collection.into(), &by_id);
        match access.find_all(model, find).await?.pop() {
            None => return Ok(false),
            Some(now) => raw = now,
        }
    }
    let message = "an outdated document was changed by others again and again while it was upgraded: try again";
    Err(error::of(model)(Error::new(ErrorKind::Conflict, message)))
}

/// The outdated documents of a model, in the order of their ids.
struct Outdated<'m> {
    model: &'m Model,
    /// The condition on the `_id`, if the write has one.
    id: Option<RawBson>,
    behind: Option<RawBson>,
    is_over: bool,
}

impl<'m> Outdated<'m> {
    fn new(model: &'m Model, id: Option<RawBson>) -> Self {
        Self {
            model,
            id,
            behind: None,
            is_over: false,
        }
    }

    async fn next(&mut self, access: &Access) -> Result<Option<Vec<RawDocumentBuf>>> {
        if self.is_over {
            return Ok(None);
        }
        let current = i64::from(self.model.schema_version);
        let mut filter = document(MARK, document("$ne", current)?)?;
        if let Some(id) = &self.id {
            append(&mut filter, "_id", id.clone())?;
        }
        if let Some(behind) = self.behind.take() {
            also(&mut filter, "_id", document("$gt", behind)?)?;
        }
        let find = Find {
            sort: Some(document("_id", 1)?),
            limit: Some(BATCH),
            ..found_by(&self.model.collection.into(), &filter)
        };
        let batch = access.find_all(self.model, find).await?;
        self.behind = batch
            .last()
            .and_then(|last| decode::id(last))
            .map(RawBson::from);
        self.is_over = (batch.len() as u64) < BATCH;
        Ok(Some(batch))
    }
}

/// Upgrades the outdated documents of a model; made by [`Session::upgrade`](crate::Session::upgrade).
#[must_use = "nothing is upgraded until it is awaited"]
pub struct UpgradeAll<T> {
    access: Access,
    of: std::marker::PhantomData<fn() -> T>,
}

/// What became of outdated documents.
#[derive(Debug, Default)]
pub struct Upgraded {
    /// How many documents are of today's version that were not.
    pub upgraded: u64,
    /// Why others are not, with their ids.
    pub failed: Vec<Error>,
}

impl<T: Document> UpgradeAll<T> {
    pub(crate) fn new(access: Access) -> Self {
        Self {
            // Those that were deleted can be restored.
            access: access.seeing(Sight::All),
            of: std::marker::PhantomData,
        }
    }
}

impl<T: Document> IntoFuture for UpgradeAll<T> {
    type Output = Result<Upgraded>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut report = Upgraded::default();
            if T::MODEL.upgrade.is_none() {
                return Ok(report);
            }
            let mut outdated = Outdated::new(&T::MODEL, None);
            while let Some(batch) = outdated.next(&self.access).await? {
                for raw in batch {
                    match bring_up(&self.access, &T::MODEL, raw).await {
                        Ok(is_upgraded) => report.upgraded += u64::from(is_upgraded),
                        // Without a database, or a transaction, none of those behind can be read either.
                        Err(error) if error.id().is_none() && !error.is_conflict() => {
                            return Err(error);
                        }
                        Err(error) => report.failed.push(error),
                    }
                }
            }
            Ok(report)
        })
    }
}
