//! Links where there are no transactions: on a standalone server.
//!
//! A write that may change a reference leaves a promise in its own document, in the same step: which references it had before.
//! Whoever finds a promise can keep it. It is kept by bringing each inverse up to date, those that are entered first, and cleared
//! last. An inverse has a fence: it is read before the reference, and the write is conditional on it and changes it, so that one
//! which has seen an older truth writes nothing.
//!
//! One that cannot be entered, because its document is gone or full, sends the reference back to where it was, which has not been left
//! yet. A deletion marks its document first: nothing enters the inverse of a document that is going.

use std::{collections::BTreeSet, time::Duration};

use bson::{DateTime, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, oid::ObjectId};

use super::{
    Id, Linked, array, at, both_sides, by_id, change_owners, full, holds, missing, referring,
    refuse_restricted, taken,
};
use crate::{
    Error, ErrorKind, Result,
    access::{Access, also, found_by},
    backend::operation::{Change, Delete, Find, Insert},
    error,
    maintain::{Effect, Means, Removal, Write, narrow, with},
    query::{append, document},
    retry,
    schema::{InverseLink, Model, OnDelete, OwnLink},
};

/// What a write has promised: its token, and what the references were.
const TOKEN: &str = "_odm.link.token";
const BEFORE: &str = "_odm.link.before";
/// The reference was sent back.
const UNDONE: &str = "_odm.link.undone";
/// When others may keep it.
pub(super) const DUE: &str = "_odm.due";
/// The document is going.
const GOING: &str = "_odm.going";
/// What each write of an inverse changes.
const FENCE: &str = "_odm.fence";

/// How long a promise is left to the one who made it.
const LEASE: Duration = Duration::from_secs(5);

/// How often something is tried that others are writing to.
const ATTEMPTS: u32 = 100;

/// Carries out a write, document by document, and what follows from it.
pub(super) async fn run<W: Write>(
    access: &Access,
    model: &'static Model,
    mut write: W,
) -> Result<W::Done> {
    if let Effect::Inserts(documents) = write.effect() {
        let documents = documents.to_vec();
        let inserted = insert(access, model, documents).await?;
        return Ok(W::done(inserted));
    }
    let order = write.order().map(RawDocument::to_owned);
    let limit = write.is_of_one().then_some(1);
    let filter = write.filter().cloned().unwrap_or_default();
    let mut done = W::done(0);
    for found in super::read(access, model, &filter, order, limit).await? {
        let own = match write.effect() {
            Effect::Removes => remove(access, model, &write, &found.id).await?,
            _ => change(access, model, &write, &found.id).await?,
        };
        W::add(&mut done, own);
    }
    Ok(done)
}

/// Inserts documents in order, each with its promise. One whose references lead nowhere is taken back, and ends it.
async fn insert(
    access: &Access,
    model: &'static Model,
    documents: Vec<RawDocumentBuf>,
) -> Result<u64> {
    let mut inserted = 0;
    for raw in documents {
        let id = Linked::of(model, &raw)?.id;
        let token = ObjectId::new();
        let write = Insert {
            collection: model.collection.into(),
            documents: vec![promising(model, &raw, token)?],
            ordered: true,
        };
        access.told().writes();
        let done = access.executor().insert(write).await;
        let done = match done.map_err(error::of(model)) {
            Ok(()) => keep(access, model, &id, token).await,
            Err(error) => Err(error),
        };
        done.map_err(|error| error.with_inserted(inserted))?;
        inserted += 1;
    }
    Ok(inserted as u64)
}

/// The document with the promise to enter what it refers to, and with a fence of its own: it is not the one of the same `_id` that
/// may have been there before.
fn promising(model: &Model, raw: &RawDocument, token: ObjectId) -> Result<RawDocumentBuf> {
    let mut own = RawDocumentBuf::new();
    let mut promising = RawDocumentBuf::new();
    for field in raw.iter() {
        let (name, value) = field.map_err(error::encode)?;
        match value.as_document() {
            Some(before) if name == "_odm" => own = before.to_owned(),
            _ => append(&mut promising, name.as_str(), RawBson::from(value))?,
        }
    }
    if !model.inverses.is_empty() {
        append(&mut own, "fence", token)?;
    }
    if !model.links.is_empty() {
        append(&mut own, "link", document("token", token)?)?;
        append(&mut own, "due", due())?;
    }
    append(&mut promising, "_odm", own)?;
    Ok(promising)
}

/// Changes one document, on the condition that its references are as they were read.
async fn change<W: Write>(
    access: &Access,
    model: &'static Model,
    write: &W,
    id: &RawBson,
) -> Result<W::Done> {
    for attempt in 1..=ATTEMPTS {
        let mut write = write.clone();
        let mut filter = write.filter().cloned().unwrap_or_default();
        also(&mut filter, "_id", document("$eq", id.clone())?)?;
        let Some(found) = find(access, model, &filter).await? else {
            return Ok(W::done(0));
        };
        if found.promise.is_some() {
            wait_or_keep(access, model, &found, attempt).await?;
            continue;
        }
        also(&mut filter, GOING, document("$exists", false)?)?;
        also(&mut filter, TOKEN, document("$exists", false)?)?;
        for (field, value) in &found.fields {
            let as_read = match value {
                Some(value) => document("$eq", value.clone())?,
                None => document("$exists", false)?,
            };
            also(&mut filter, field, as_read)?;
        }
        if let Some(own) = write.filter() {
            *own = filter;
        }
        let token = ObjectId::new();
        if let Some(Change::Operators { update, .. }) = write.change() {
            *update = with(update, "$set", TOKEN, token.into())?;
            *update = with(update, "$set", BEFORE, found.references()?.into())?;
            *update = with(update, "$set", DUE, due().into())?;
        }
        access.told().writes();
        let done = write.run(&**access.executor()).await?;
        if W::documents(&done) > 0 {
            keep(access, model, id, token).await?;
            return Ok(done);
        }
        retry::pause(attempt).await;
    }
    Err(busy(model, id))
}

/// Deletes one document: it is marked, what refers to it is seen to, it leaves what it refers to, and then it goes.
async fn remove<W: Write>(
    access: &Access,
    model: &'static Model,
    write: &W,
    id: &RawBson,
) -> Result<W::Done> {
    for attempt in 1..=ATTEMPTS {
        let mut write = write.clone();
        let mut filter = write.filter().cloned().unwrap_or_default();
        also(&mut filter, "_id", document("$eq", id.clone())?)?;
        let Some(found) = find(access, model, &filter).await? else {
            return Ok(W::done(0));
        };
        if found.promise.is_some() {
            wait_or_keep(access, model, &found, attempt).await?;
            continue;
        }
        refuse_restricted(model, std::slice::from_ref(&found.linked))?;
        also(&mut filter, GOING, document("$exists", false)?)?;
        also(&mut filter, TOKEN, document("$exists", false)?)?;
        for (inverse, link) in both_sides(model) {
            if link.on_delete == OnDelete::Restrict {
                let own = found.linked.inverses_of(model, inverse);
                let nothing = match (inverse.side.is_many, own) {
                    // It may refer to itself.
                    (true, own) => document(
                        "$not",
                        document("$elemMatch", document("$nin", array(own))?)?,
                    )?,
                    (false, own) => document("$in", array(own.iter().chain([&RawBson::Null])))?,
                };
                also(&mut filter, inverse.side.stored, nothing)?;
            }
        }
        let token = ObjectId::new();
        let mut mark = document(GOING, token)?;
        append(&mut mark, TOKEN, token)?;
        append(&mut mark, BEFORE, RawDocumentBuf::new())?;
        append(&mut mark, DUE, due())?;
        if super::update(access, model, filter, document("$set", mark)?).await? == 0 {
            retry::pause(attempt).await;
            continue;
        }
        if let Err(error) = go(access, model, id, token).await {
            // Something that would have to go with it may not.
            if error.kind() == ErrorKind::Restricted {
                stay(access, model, id, token).await?;
            }
            return Err(error);
        }
        let mut last = by_id(id)?;
        append(&mut last, GOING, document("$eq", token)?)?;
        if let Some(own) = write.filter() {
            *own = last;
        }
        access.told().writes();
        return write.run(&**access.executor()).await;
    }
    Err(busy(model, id))
}

/// Takes the mark away again.
async fn stay(access: &Access, model: &Model, id: &RawBson, token: ObjectId) -> Result<()> {
    let mut filter = by_id(id)?;
    append(&mut filter, GOING, document("$eq", token)?)?;
    let mut unset = document(GOING, "")?;
    append(&mut unset, "_odm.link", "")?;
    append(&mut unset, DUE, "")?;
    super::update(access, model, filter, document("$unset", unset)?).await?;
    Ok(())
}

/// What comes before a marked document can go.
async fn go(access: &Access, model: &'static Model, id: &RawBson, token: ObjectId) -> Result<()> {
    let Some(found) = find(access, model, &by_id(id)?).await? else {
        return Ok(());
    };
    for (inverse, link) in both_sides(model) {
        let other = (inverse.side.model)();
        for (_, owners) in referring(model, inverse, std::slice::from_ref(&found.linked)) {
            let referring = document("_id", document("$in", array(&owners))?)?;
            match link.on_delete {
                OnDelete::Restrict | OnDelete::Keep => {}
                OnDelete::Cascade => {
                    let delete = Delete {
                        collection: other.collection.into(),
                        filter: referring,
                        multi: true,
                    };
                    let removal = Removal::new(other, delete, Means::OfModel)?.filled(other)?;
                    Box::pin(run(access, other, narrowed(access, other, removal).await?)).await?;
                }
                OnDelete::Nullify | OnDelete::Pull => {
                    let write = change_owners(other, link, referring, id)?;
                    Box::pin(run(access, other, narrowed(access, other, write).await?)).await?;
                }
            }
        }
    }
    keep(access, model, id, token).await
}

async fn narrowed<W: Write>(access: &Access, model: &Model, mut write: W) -> Result<W> {
    if let Some(filter) = write.filter() {
        narrow(access, model, filter, false).await?;
    }
    Ok(write)
}

/// Keeps the promise of a document: brings what it refers to, and what it referred to, up to date.
///
/// # Errors
///
/// That of a reference that could not be entered: it is where it was before.
async fn keep(access: &Access, model: &'static Model, id: &RawBson, token: ObjectId) -> Result<()> {
    let mut failed = None;
    for attempt in 1..=ATTEMPTS {
        let Some(found) = find(access, model, &by_id(id)?).await? else {
            return failed.map_or(Ok(()), Err);
        };
        let Some(promise) = &found.promise else {
            return failed.map_or(Ok(()), Err);
        };
        if promise.token != token {
            return Err(failed.unwrap_or_else(|| busy(model, id)));
        }
        match enter(access, model, &found, promise).await {
            Ok(()) => {}
            Err(error) if error.is_conflict() => {
                retry::pause(attempt).await;
                continue;
            }
            // What was there before has not been left yet.
            Err(error) if promise.is_undone => return Err(error),
            Err(error) => {
                send_back(access, model, &found, promise).await?;
                failed = Some(error);
                continue;
            }
        }
        leave(access, model, &found, promise).await?;
        if promise.is_undone && promise.before_insert {
            let mut filter = by_id(id)?;
            append(&mut filter, TOKEN, document("$eq", token)?)?;
            let delete = Delete {
                collection: model.collection.into(),
                filter,
                multi: false,
            };
            access.told().writes();
            let done = access.executor().delete(delete).await;
            done.map_err(error::of(model))?;
        } else {
            clear(access, model, &found, token).await?;
        }
        return failed.map_or(Ok(()), Err);
    }
    Err(busy(model, id))
}

/// Enters what the document refers to now and did not before.
async fn enter(
    access: &Access,
    model: &'static Model,
    found: &Found,
    promise: &Promise,
) -> Result<()> {
    if found.is_going {
        return Ok(());
    }
    for (position, link) in model.links.iter().enumerate() {
        let (Some(inverse), now) = (link.inverse(), found.linked.held(position)) else {
            continue;
        };
        for target in now.difference(&promise.held(model, position)) {
            side(access, model, found, link, inverse, target, position).await?;
        }
    }
    Ok(())
}

/// Leaves what the document referred to and does not now.
async fn leave(
    access: &Access,
    model: &'static Model,
    found: &Found,
    promise: &Promise,
) -> Result<()> {
    for (position, link) in model.links.iter().enumerate() {
        let Some(inverse) = link.inverse() else {
            continue;
        };
        let (before, now) = (promise.held(model, position), found.linked.held(position));
        let all: BTreeSet<_> = match found.is_going {
            true => before.union(&now).cloned().collect(),
            false => before.difference(&now).cloned().collect(),
        };
        for target in &all {
            side(access, model, found, link, inverse, target, position).await?;
        }
    }
    Ok(())
}

/// Brings the inverse in one document up to date with one that refers to it, or does not.
async fn side(
    access: &Access,
    model: &'static Model,
    owner: &Found,
    link: &OwnLink,
    inverse: &'static InverseLink,
    target: &Id,
    position: usize,
) -> Result<()> {
    let other = (link.side.model)();
    let (path, target_id, owner_id) = (inverse.side.stored, target.value()?, &owner.linked.id);
    for attempt in 1..=ATTEMPTS {
        // The fence first, then the truth.
        let there = find(access, other, &by_id(&target_id)?).await?;
        let owner = find(access, model, &by_id(owner_id)?).await?;
        let is_wanted = owner
            .is_some_and(|owner| !owner.is_going && owner.linked.held(position).contains(target));
        let Some(there) = there.filter(|there| !(there.is_going && is_wanted)) else {
            return match is_wanted {
                true => Err(missing(link, other, &target_id)),
                false => Ok(()),
            };
        };
        let listed = there.linked.inverses_of(other, inverse);
        let is_listed = holds(listed, owner_id);
        let mut filter = by_id(&target_id)?;
        let fence = match &there.fence {
            Some(fence) => document("$eq", fence.clone())?,
            None => document("$exists", false)?,
        };
        append(&mut filter, FENCE, fence)?;
        let mut set = document(FENCE, ObjectId::new())?;
        let mut change = RawDocumentBuf::new();
        match (is_wanted, is_listed, inverse.side.is_many) {
            (true, false, true) => {
                if inverse.max.is_some_and(|max| listed.len() >= max) {
                    return Err(full(other, inverse, &target_id));
                }
                append(&mut filter, GOING, document("$exists", false)?)?;
                append(&mut change, "$push", document(path, owner_id.clone())?)?;
            }
            (true, false, false) => {
                if !listed.is_empty() {
                    return Err(taken(link, other, inverse, &target_id));
                }
                append(&mut filter, GOING, document("$exists", false)?)?;
                append(&mut set, path, owner_id.clone())?;
            }
            (false, true, true) => {
                append(&mut change, "$pullAll", document(path, array([owner_id]))?)?;
            }
            (false, true, false) => append(&mut set, path, RawBson::Null)?,
            // Nothing changes but the fence: a slower one must not write what it has seen before.
            (true, true, _) | (false, false, _) => {}
        }
        append(&mut change, "$set", set)?;
        if super::update(access, other, filter, change).await? == 1 {
            return Ok(());
        }
        retry::pause(attempt).await;
    }
    Err(busy(other, &target_id))
}

/// Sends the references of a document back to where they were, or the whole document where it was not.
async fn send_back(
    access: &Access,
    model: &'static Model,
    found: &Found,
    promise: &Promise,
) -> Result<()> {
    let mut filter = by_id(&found.linked.id)?;
    append(&mut filter, TOKEN, document("$eq", promise.token)?)?;
    let mut set = document(UNDONE, true)?;
    let mut change = RawDocumentBuf::new();
    if promise.before_insert {
        append(&mut set, GOING, promise.token)?;
    } else {
        append(&mut set, BEFORE, found.references()?)?;
        let mut unset = RawDocumentBuf::new();
        for link in model.links {
            match promise
                .before
                .get(link.side.stored)
                .map_err(error::encode)?
            {
                Some(value) => append(&mut set, link.side.stored, RawBson::from(value))?,
                None => append(&mut unset, link.side.stored, "")?,
            }
        }
        if !unset.is_empty() {
            append(&mut change, "$unset", unset)?;
        }
    }
    append(&mut change, "$set", set)?;
    super::update(access, model, filter, change).await?;
    Ok(())
}

/// Takes the promise away, now that it is kept. A document that is going keeps its mark.
async fn clear(access: &Access, model: &Model, found: &Found, token: ObjectId) -> Result<()> {
    let mut filter = by_id(&found.linked.id)?;
    append(&mut filter, TOKEN, document("$eq", token)?)?;
    let mut unset = document("_odm.link", "")?;
    if !found.is_going {
        append(&mut unset, DUE, "")?;
    }
    super::update(access, model, filter, document("$unset", unset)?).await?;
    Ok(())
}

/// Waits for whoever has made the promise, or keeps it when that takes too long.
async fn wait_or_keep(
    access: &Access,
    model: &'static Model,
    found: &Found,
    attempt: u32,
) -> Result<()> {
    if found.due.is_none_or(|due| due <= DateTime::now()) {
        return settle(access, model, &found.linked.id).await;
    }
    retry::pause(attempt).await;
    Ok(())
}

/// Finishes what was begun with a document: its promise is kept and, if it was going, it goes.
pub(super) async fn settle(access: &Access, model: &'static Model, id: &RawBson) -> Result<()> {
    let Some(found) = find(access, model, &by_id(id)?).await? else {
        return Ok(());
    };
    let token = found.promise.as_ref().map(|promise| promise.token);
    match (found.going, token) {
        (Some(going), _) => {
            go(access, model, id, token.unwrap_or(going)).await?;
            let mut filter = by_id(id)?;
            append(&mut filter, GOING, document("$eq", going)?)?;
            let delete = Delete {
                collection: model.collection.into(),
                filter,
                multi: false,
            };
            access.told().writes();
            let done = access.executor().delete(delete).await;
            done.map(|_| ()).map_err(error::of(model))
        }
        // That it was sent back is told to nobody any more.
        (None, Some(token)) => match keep(access, model, id, token).await {
            Err(error) if is_refusal(&error) => Ok(()),
            done => done,
        },
        (None, None) => {
            let unset = document("$unset", document(DUE, "")?)?;
            super::update(access, model, by_id(id)?, unset).await?;
            Ok(())
        }
    }
}

/// Whether a reference could not be entered.
fn is_refusal(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::TooManyElements | ErrorKind::DuplicateKey
    )
}

/// A document with its bookkeeping.
struct Found {
    linked: Linked,
    /// The references as they are stored.
    fields: Vec<(&'static str, Option<RawBson>)>,
    promise: Option<Promise>,
    due: Option<DateTime>,
    going: Option<ObjectId>,
    is_going: bool,
    fence: Option<RawBson>,
}

struct Promise {
    token: ObjectId,
    /// The references as they were.
    before: RawDocumentBuf,
    /// There was no document.
    before_insert: bool,
    is_undone: bool,
}

impl Found {
    fn of(model: &Model, raw: &RawDocument) -> Result<Self> {
        let own = raw.get_document("_odm").ok();
        let value = |field: &str| own.and_then(|own| own.get(field).ok().flatten());
        let going = value("going").and_then(RawBsonRef::as_object_id);
        let promise = value("link").and_then(RawBsonRef::as_document);
        let fields = model.links.iter().map(|link| {
            let stored = link.side.stored;
            let value = raw.get(stored).map_err(error::encode)?;
            Ok((stored, value.map(RawBson::from)))
        });
        Ok(Self {
            linked: Linked::of(model, raw)?,
            fields: fields.collect::<Result<_>>()?,
            promise: promise.and_then(Promise::of),
            due: value("due").and_then(RawBsonRef::as_datetime),
            going,
            is_going: going.is_some(),
            fence: value("fence").map(RawBson::from),
        })
    }

    /// The references, as they are stored.
    fn references(&self) -> Result<RawDocumentBuf> {
        let mut references = RawDocumentBuf::new();
        for (field, value) in &self.fields {
            if let Some(value) = value {
                append(&mut references, field, value.clone())?;
            }
        }
        Ok(references)
    }
}

impl Promise {
    fn of(promise: &RawDocument) -> Option<Self> {
        let value = |field: &str| promise.get(field).ok().flatten();
        let before = value("before").and_then(RawBsonRef::as_document);
        Some(Self {
            token: value("token")?.as_object_id()?,
            before: before.map(RawDocument::to_owned).unwrap_or_default(),
            before_insert: before.is_none(),
            is_undone: value("undone").is_some(),
        })
    }

    /// What a reference of the model led to.
    fn held(&self, model: &Model, position: usize) -> BTreeSet<Id> {
        let link = model.links.get(position);
        let ids = link.map(|link| super::ids_at(&self.before, link.side.stored));
        ids.into_iter().flatten().map(|id| Id::of(&id)).collect()
    }
}

/// The document that a filter finds, with its bookkeeping.
async fn find(access: &Access, model: &Model, filter: &RawDocument) -> Result<Option<Found>> {
    let mut projection = super::sides(model)?;
    append(&mut projection, "_odm", 1)?;
    let find = Find {
        projection: Some(projection),
        limit: Some(1),
        ..found_by(&model.collection.into(), filter)
    };
    let found = access.find_all(model, find).await?;
    found.first().map(|raw| Found::of(model, raw)).transpose()
}

fn due() -> DateTime {
    DateTime::from_system_time(std::time::SystemTime::now() + LEASE)
}

fn busy(model: &Model, id: &RawBson) -> Error {
    let message = "others are writing to the document and to what it refers to all the time, and nobody knows what became of this write: \
                   look, and try again";
    at(Error::new(ErrorKind::Conflict, message), model, id)
}
