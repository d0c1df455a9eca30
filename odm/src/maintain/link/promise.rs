//! Links where there are no transactions: on a standalone server.
//!
//! A write that may change references says so first, in the document that has them: which they were, and which may be new. Then the
//! new ones are entered on their other sides, the write itself is carried out, those that are no more are left, and what was said
//! is taken away. So a reference that cannot be entered, because its document is gone or full, keeps the write from happening, and
//! whoever finds what was said can finish: before the write by leaving what was entered, behind it by leaving what is no more.
//! A document that is inserted is there already when it enters, and goes again if it cannot.
//!
//! An inverse has a fence: it is read before the reference, and the write is conditional on it and changes it, so that one which has
//! seen an older truth writes nothing. A deletion marks its document first: nothing enters the inverse of one that is going.

use std::{collections::BTreeSet, time::Duration};

use bson::{DateTime, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, oid::ObjectId};

use super::{
    Id, Linked, array, at, both_sides, by_id, cascading, change_owners, full, holds, missing,
    refuse_restricted, taken,
};
use crate::{
    Error, ErrorKind, Result,
    access::{Access, also, found_by},
    backend::{
        BoxFuture,
        operation::{Change, Delete, Find, Insert},
    },
    error,
    maintain::{Effect, Write, narrow, with},
    query::{append, document},
    retry,
    schema::{InverseLink, Model, OnDelete, OwnLink},
};

/// What a write says of itself: its token, what the references were, what may be new, and whether it was carried out or given up.
const TOKEN: &str = "_odm.link.token";
const BEFORE: &str = "_odm.link.before";
const WANTED: &str = "_odm.link.wanted";
const APPLIED: &str = "_odm.link.applied";
const GIVEN_UP: &str = "_odm.link.given_up";
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
            Ok(()) => enter_new(access, model, &id, token).await,
            Err(error) => Err(error),
        };
        done.map_err(|error| error.with_inserted(inserted))?;
        inserted += 1;
    }
    Ok(inserted as u64)
}

/// Enters a document that was inserted; it goes again if it cannot.
async fn enter_new(
    access: &Access,
    model: &'static Model,
    id: &RawBson,
    token: ObjectId,
) -> Result<()> {
    if model.links.is_empty() {
        return Ok(());
    }
    let Some(found) = find(access, model, &by_id(id)?).await? else {
        return Ok(());
    };
    let entered = enter(access, model, &found, token).await;
    if let Err(error) = entered {
        let mut filter = by_id(id)?;
        append(&mut filter, TOKEN, document("$eq", token)?)?;
        super::update(
            access,
            model,
            filter,
            document("$set", document(GOING, token)?)?,
        )
        .await?;
        settle(access, model, id).await?;
        return Err(error);
    }
    finish(access, model, id, token).await
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
        let mut promise = document("token", token)?;
        append(&mut promise, "applied", true)?;
        append(&mut own, "link", promise)?;
        append(&mut own, "due", due())?;
    }
    append(&mut promising, "_odm", own)?;
    Ok(promising)
}

/// Changes one document.
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
        if found.promise.is_some() || found.going.is_some() {
            wait_or_settle(access, model, &found, attempt).await?;
            continue;
        }
        let token = ObjectId::new();
        let mut said = document(TOKEN, token)?;
        append(&mut said, BEFORE, found.references()?)?;
        append(&mut said, WANTED, wanted(model, &found, write.change())?)?;
        append(&mut said, DUE, due())?;
        let mut as_read = filter.clone();
        found.as_read(&mut as_read)?;
        if super::update(access, model, as_read, document("$set", said)?).await? == 0 {
            retry::pause(attempt).await;
            continue;
        }
        let entered = match find(access, model, &by_id(id)?).await? {
            Some(found) => enter(access, model, &found, token).await,
            None => return Ok(W::done(0)),
        };
        if let Err(error) = entered {
            give_up(access, model, id, token).await?;
            finish(access, model, id, token).await?;
            return Err(error);
        }
        also(&mut filter, TOKEN, document("$eq", token)?)?;
        also(&mut filter, GIVEN_UP, document("$exists", false)?)?;
        if let Some(own) = write.filter() {
            *own = filter;
        }
        if let Some(Change::Operators { update, .. }) = write.change() {
            *update = with(update, "$set", APPLIED, true.into())?;
        }
        access.told().writes();
        let done = write.run(&**access.executor()).await;
        if done.as_ref().is_ok_and(|done| W::documents(done) > 0) {
            finish(access, model, id, token).await?;
            return done;
        }
        // It was refused, or somebody has changed the document since it was looked at, or has finished this: nothing was changed.
        give_up(access, model, id, token).await?;
        finish(access, model, id, token).await?;
        done?;
        retry::pause(attempt).await;
    }
    Err(busy(model, id))
}

/// What the references may lead to that a change gives: at least what they will.
fn wanted(model: &Model, found: &Found, change: Option<&mut Change>) -> Result<RawDocumentBuf> {
    let mut wanted = RawDocumentBuf::new();
    let Some(Change::Operators { update, .. }) = change else {
        return Ok(wanted);
    };
    for link in model.links {
        let mut ids = Vec::new();
        for (operator, operand) in update.iter().flatten() {
            let Some(operand) = operand.as_document() else {
                continue;
            };
            for (path, value) in operand.iter().flatten() {
                let is_it = path.as_str().split('.').next() == Some(link.side.stored);
                match operator.as_str() {
                    "$set" | "$push" | "$addToSet" if is_it => mentioned(value, &mut ids),
                    // It takes over what another field has.
                    "$rename" => ids.extend(found.linked.links.iter().flatten().cloned()),
                    _ => {}
                }
            }
        }
        append(&mut wanted, link.side.stored, array(&ids))?;
    }
    Ok(wanted)
}

/// The ids in a value: by itself, in an array, behind `$each`.
fn mentioned(value: RawBsonRef<'_>, ids: &mut Vec<RawBson>) {
    match value {
        RawBsonRef::Null => {}
        RawBsonRef::Array(values) => {
            for value in values.into_iter().flatten() {
                mentioned(value, ids);
            }
        }
        RawBsonRef::Document(modifiers)
            if modifiers.get("$each").is_ok_and(|each| each.is_some()) =>
        {
            if let Ok(Some(each)) = modifiers.get("$each") {
                mentioned(each, ids);
            }
        }
        id => ids.push(id.into()),
    }
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
        if found.promise.is_some() || found.going.is_some() {
            wait_or_settle(access, model, &found, attempt).await?;
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
        append(&mut mark, DUE, due())?;
        if super::update(access, model, filter, document("$set", mark)?).await? == 0 {
            retry::pause(attempt).await;
            continue;
        }
        if let Err(error) = go(access, model, id).await {
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
    append(&mut unset, DUE, "")?;
    super::update(access, model, filter, document("$unset", unset)?).await?;
    Ok(())
}

/// What comes before a marked document can go: nothing that is deleted or changed with it leads to it, or is about to.
async fn go(access: &Access, model: &'static Model, id: &RawBson) -> Result<()> {
    for attempt in 1..=ATTEMPTS {
        let Some(found) = find(access, model, &by_id(id)?).await? else {
            return Ok(());
        };
        let mut is_last = true;
        for (inverse, link) in both_sides(model) {
            if matches!(link.on_delete, OnDelete::Restrict | OnDelete::Keep) {
                continue;
            }
            for owner in found.linked.inverses_of(model, inverse) {
                is_last &= !part(access, inverse, link, owner, id, attempt).await?;
            }
        }
        if is_last {
            return leave(access, model, &found).await;
        }
    }
    Err(busy(model, id))
}

/// Parts a document from one that is deleted, if it leads there, or is about to: then it is looked at again.
async fn part(
    access: &Access,
    inverse: &InverseLink,
    link: &OwnLink,
    owner: &RawBson,
    gone: &RawBson,
    attempt: u32,
) -> Result<bool> {
    let model = (inverse.side.model)();
    let position = model
        .links
        .iter()
        .position(|other| other.side.field == link.side.field);
    let (Some(position), Some(found)) = (position, find(access, model, &by_id(owner)?).await?)
    else {
        return Ok(false);
    };
    if !found.held(model, position).contains(&Id::of(gone)) {
        return Ok(false);
    }
    if found.promise.is_some() {
        wait_or_settle(access, model, &found, attempt).await?;
    } else if link.on_delete == OnDelete::Cascade {
        let removal = cascading(model, link, by_id(owner)?, gone)?;
        Box::pin(run(access, model, narrowed(access, model, removal).await?)).await?;
    } else {
        let write = change_owners(model, link, by_id(owner)?, gone)?;
        Box::pin(run(access, model, narrowed(access, model, write).await?)).await?;
    }
    Ok(true)
}

async fn narrowed<W: Write>(access: &Access, model: &Model, mut write: W) -> Result<W> {
    if let Some(filter) = write.filter() {
        narrow(access, model, filter, false).await?;
    }
    Ok(write)
}

/// Finishes a write that was carried out or given up.
async fn finish(
    access: &Access,
    model: &'static Model,
    id: &RawBson,
    token: ObjectId,
) -> Result<()> {
    let Some(found) = find(access, model, &by_id(id)?).await? else {
        return Ok(());
    };
    // Somebody else may have done it.
    if found
        .promise
        .as_ref()
        .is_none_or(|promise| promise.token != token)
    {
        return Ok(());
    }
    leave(access, model, &found).await?;
    let mut filter = by_id(id)?;
    append(&mut filter, TOKEN, document("$eq", token)?)?;
    let mut unset = document("_odm.link", "")?;
    append(&mut unset, DUE, "")?;
    super::update(access, model, filter, document("$unset", unset)?).await?;
    Ok(())
}

/// Sees to it that a write is not carried out any more, if it was not yet.
async fn give_up(access: &Access, model: &Model, id: &RawBson, token: ObjectId) -> Result<()> {
    let mut filter = by_id(id)?;
    append(&mut filter, TOKEN, document("$eq", token)?)?;
    append(&mut filter, APPLIED, document("$exists", false)?)?;
    let set = document("$set", document(GIVEN_UP, true)?)?;
    super::update(access, model, filter, set).await?;
    Ok(())
}

/// Enters a document on the other sides of what it refers to, or may from now on.
async fn enter(
    access: &Access,
    model: &'static Model,
    found: &Found,
    token: ObjectId,
) -> Result<()> {
    let Some(promise) = found
        .promise
        .as_ref()
        .filter(|promise| promise.token == token)
    else {
        return Err(busy(model, &found.linked.id));
    };
    for (position, link) in model.links.iter().enumerate() {
        let Some(inverse) = link.inverse() else {
            continue;
        };
        let before = promise.before(model, position);
        for target in found.held(model, position).difference(&before) {
            side(access, model, found, link, inverse, target, position).await?;
        }
    }
    Ok(())
}

/// Leaves the other sides of what a document does not refer to any more.
async fn leave(access: &Access, model: &'static Model, found: &Found) -> Result<()> {
    for (position, link) in model.links.iter().enumerate() {
        let Some(inverse) = link.inverse() else {
            continue;
        };
        let mut all = found.linked.held(position);
        if let Some(promise) = &found.promise {
            all.append(&mut promise.before(model, position));
            all.append(&mut promise.wanted(model, position));
        }
        for target in all.difference(&found.held(model, position)) {
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
        let is_wanted = owner.is_some_and(|owner| owner.held(model, position).contains(target));
        let Some(there) = there.filter(|there| there.going.is_none() || !is_wanted) else {
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

/// Waits for whoever is writing, or finishes that when it takes too long.
async fn wait_or_settle(
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

/// Finishes what was begun with a document: what was not carried out is given up, and one that is going goes.
pub(super) fn settle<'a>(
    access: &'a Access,
    model: &'static Model,
    id: &'a RawBson,
) -> BoxFuture<'a, Result<()>> {
    // It may lead to others, and these back here.
    Box::pin(settled(access, model, id))
}

async fn settled(access: &Access, model: &'static Model, id: &RawBson) -> Result<()> {
    let Some(found) = find(access, model, &by_id(id)?).await? else {
        return Ok(());
    };
    if let Some(going) = found.going {
        go(access, model, id).await?;
        let mut filter = by_id(id)?;
        append(&mut filter, GOING, document("$eq", going)?)?;
        let delete = Delete {
            collection: model.collection.into(),
            filter,
            multi: false,
        };
        access.told().writes();
        let done = access.executor().delete(delete).await;
        return done.map(|_| ()).map_err(error::of(model));
    }
    let Some(promise) = &found.promise else {
        let unset = document("$unset", document(DUE, "")?)?;
        super::update(access, model, by_id(id)?, unset).await?;
        return Ok(());
    };
    if promise.is_of_insert() {
        // Whoever inserted it may not have entered all.
        return enter_new(access, model, id, promise.token).await.or_else(
            |error| match is_refusal(&error) {
                true => Ok(()),
                false => Err(error),
            },
        );
    }
    give_up(access, model, id, promise.token).await?;
    finish(access, model, id, promise.token).await
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
    fence: Option<RawBson>,
}

struct Promise {
    token: ObjectId,
    /// The references as they were; none if there was no document.
    before: Option<RawDocumentBuf>,
    /// What they may be from now on.
    wanted: RawDocumentBuf,
    is_applied: bool,
    is_given_up: bool,
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
            fence: value("fence").map(RawBson::from),
        })
    }

    /// What a reference leads to, or is about to.
    fn held(&self, model: &Model, position: usize) -> BTreeSet<Id> {
        if self.going.is_some() {
            return BTreeSet::new();
        }
        let mut held = self.linked.held(position);
        if let Some(promise) = &self.promise
            && !promise.is_applied
            && !promise.is_given_up
        {
            held.append(&mut promise.wanted(model, position));
        }
        held
    }

    /// The condition that the references are as they were read, and that nobody is writing to them.
    fn as_read(&self, filter: &mut RawDocumentBuf) -> Result<()> {
        also(filter, GOING, document("$exists", false)?)?;
        also(filter, TOKEN, document("$exists", false)?)?;
        for (field, value) in &self.fields {
            let as_read = match value {
                Some(value) => document("$eq", value.clone())?,
                None => document("$exists", false)?,
            };
            also(filter, field, as_read)?;
        }
        Ok(())
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
        let references = |field: &str| value(field)?.as_document().map(RawDocument::to_owned);
        Some(Self {
            token: value("token")?.as_object_id()?,
            before: references("before"),
            wanted: references("wanted").unwrap_or_default(),
            is_applied: value("applied").is_some(),
            is_given_up: value("given_up").is_some(),
        })
    }

    fn is_of_insert(&self) -> bool {
        self.before.is_none()
    }

    /// What a reference of the model led to.
    fn before(&self, model: &Model, position: usize) -> BTreeSet<Id> {
        self.before
            .as_ref()
            .map(|before| held_in(before, model, position))
            .unwrap_or_default()
    }

    /// What it may lead to from now on.
    fn wanted(&self, model: &Model, position: usize) -> BTreeSet<Id> {
        held_in(&self.wanted, model, position)
    }
}

fn held_in(references: &RawDocument, model: &Model, position: usize) -> BTreeSet<Id> {
    let link = model.links.get(position);
    let ids = link.map(|link| super::ids_at(references, link.side.stored));
    ids.into_iter().flatten().map(|id| Id::of(&id)).collect()
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
