//! References with rules where there are no transactions, on a standalone server, and deletions that are too large for one.
//!
//! A write that may change references says so first, in the document that has them: which they were, and which may be new. Then the
//! new ones are entered on their other sides, the write itself is carried out, those that are no more are left, and what was said
//! is taken away. So a reference that cannot be entered, because its document is gone or full, keeps the write from happening, and
//! whoever finds what was said can finish: before the write by leaving what was entered, behind it by leaving what is no more.
//! A document that is inserted is there already when it enters, and goes again if it cannot.
//!
//! An inverse has a fence: it is read before the reference, and the write is conditional on it and changes it, so that one which has
//! seen an older truth writes nothing. A deletion marks its document first: nothing enters the inverse of one that is going.
//!
//! Where there is no inverse, a write looks at what it refers to after it has said so, and a deletion looks for what refers to its
//! document after it has marked it: one of them sees the other. The mark says that it is not final while something that the
//! deletion finds may forbid it: meanwhile whoever refers to the document waits.

mod decision;
mod found;
mod removal;
mod side;

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use bson::{RawBson, RawDocument, RawDocumentBuf, oid::ObjectId};

pub(super) use found::{DUE, TOKEN, WANTED};
pub(super) use side::agree;

use super::{
    BATCH, CLOSING, GOING,
    effect::{behind_value, changes},
    linked::{Fate, Id, Linked, array, by_id, read},
    outside,
    refusal::{busy, is_refusal},
    update,
};
use crate::{
    ErrorKind, Result,
    access::{Access, also, found_by},
    backend::{
        BoxFuture,
        operation::{Change, Delete, Find, Insert},
    },
    error,
    maintain::{Effect, Write, computed, tally, with},
    query::{append, document},
    retry,
    schema::Model,
    task,
};
use decision::{close, fate, gone, is_among_themselves, release};
use found::{APPLIED, BEFORE, BLOCKED, Found, GIVEN_UP, PROMISE, at_rest, by_link, due, find};
use removal::{go, remove};
use side::{enter, leave};

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
    let sort = write.order().map(RawDocument::to_owned);
    let filter = write.filter().cloned().unwrap_or_default();
    let is_removal = matches!(write.effect(), Effect::Removes);
    let limit = match (write.is_of_one(), is_removal) {
        (true, _) => Some(1),
        // What is left is found again.
        (false, true) => Some(BATCH as u64),
        (false, false) => None,
    };
    // One that another keeps from going may go once that has gone.
    let waits =
        is_removal && !write.is_of_one() && is_among_themselves(&access.to_everything(), model);
    let (mut kept, mut refused, mut is_less) = (Vec::new(), None, false);
    let mut done = W::done(0);
    loop {
        let mut filter = filter.clone();
        if !kept.is_empty() {
            also(&mut filter, "_id", document("$nin", array(&kept))?)?;
        }
        let find = Find {
            sort: sort.clone(),
            limit,
            ..found_by(&model.collection.into(), &filter)
        };
        let found = read(access, model, find).await?;
        let mut is_taken = false;
        for document in &found {
            let own = match is_removal {
                true => remove(access, model, &write, &document.id).await,
                false => {
                    let carry_out = |write| computed::run(access, model, write);
                    change(access, model, &write, &document.id, carry_out).await
                }
            };
            let own = match own {
                Err(error) if waits && error.kind() == ErrorKind::Restricted => {
                    kept.push(document.id.clone());
                    refused = Some(error);
                    continue;
                }
                own => own?,
            };
            is_less = true;
            is_taken |= own.is_none();
            W::add(&mut done, own.unwrap_or_else(|| W::done(0)));
        }
        let is_done = match write.is_of_one() {
            // Another was faster, and there may be a second.
            true => !is_taken,
            false => !is_removal,
        };
        if found.is_empty() && !kept.is_empty() && is_less {
            (kept, is_less) = (Vec::new(), false);
        } else if found.is_empty() || is_done {
            return match refused.filter(|_| !kept.is_empty()) {
                Some(error) => Err(error),
                None => Ok(done),
            };
        }
    }
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
            Ok(()) if model.links().is_empty() => Ok(()),
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
    let Some(found) = find(access, model, &by_id(id)?).await? else {
        return Ok(());
    };
    let entered = enter(access, model, &found, token).await;
    if let Err(error) = entered {
        let mut filter = by_id(id)?;
        append(&mut filter, TOKEN, document("$eq", token)?)?;
        let mut mark = document(GOING, token)?;
        tally::say_gone(access, model, &mut mark)?;
        let mark = document("$set", mark)?;
        // Somebody else may have taken it back.
        if update(access, model, filter, mark).await? == 1 {
            settle(access, model, id).await?;
        }
        return Err(error);
    }
    finish(access, model, id, token).await
}

/// The document with the promise to enter what it refers to, and with a fence of its own: it is not the one of the same `_id` that
/// may have been there before.
fn promising(model: &Model, raw: &RawDocument, token: ObjectId) -> Result<RawDocumentBuf> {
    let mut own = RawDocumentBuf::new();
    if !model.inverses.is_empty() {
        append(&mut own, "fence", token)?;
    }
    if !model.links().is_empty() {
        let mut promise = document("token", token)?;
        append(&mut promise, "applied", true)?;
        append(&mut own, "link", promise)?;
        append(&mut own, "due", due())?;
    }
    with_own(raw, own)
}

/// The document with these fields beside what else the framework keeps in it.
fn with_own(raw: &RawDocument, mut new: RawDocumentBuf) -> Result<RawDocumentBuf> {
    let mut whole = RawDocumentBuf::new();
    for field in raw.iter() {
        let (name, value) = field.map_err(error::encode)?;
        match value.as_document() {
            Some(before) if name == "_odm" => {
                for field in before.iter() {
                    let (name, value) = field.map_err(error::encode)?;
                    if new.get(name).is_ok_and(|own| own.is_none()) {
                        append(&mut new, name.as_str(), RawBson::from(value))?;
                    }
                }
            }
            _ => append(&mut whole, name.as_str(), RawBson::from(value))?,
        }
    }
    append(&mut whole, "_odm", new)?;
    Ok(whole)
}

/// Changes one document, as `carry_out` does it; none if it is not there, or not as the write asks for.
pub(super) async fn change<W, C, F>(
    access: &Access,
    model: &'static Model,
    write: &W,
    id: &RawBson,
    carry_out: C,
) -> Result<Option<W::Done>>
where
    W: Write,
    C: Fn(W) -> F + Send + Sync,
    F: Future<Output = Result<W::Done>> + Send,
{
    for attempt in 1..=ATTEMPTS {
        let mut write = write.clone();
        let mut filter = about(&mut write, id)?;
        let Some(found) = find(access, model, &filter).await? else {
            return Ok(None);
        };
        if found.is_in_use() {
            wait_or_settle(access, model, &found, attempt).await?;
            continue;
        }
        let token = ObjectId::new();
        let mut said = document(TOKEN, token)?;
        let outside = outside::taken_by(model, write.change());
        let before = found.references(model, &outside.named)?;
        // What takes the place of a reference must stay what it is until then.
        let renamed = renamed(access, model, write.change(), id).await?;
        for (from, value) in &renamed {
            also(&mut filter, from, as_is(value.as_ref())?)?;
        }
        let wanted = wanted(model, write.change(), &renamed)?;
        outside::refuse_too_much(model, &before, &wanted)?;
        append(&mut said, BEFORE, before)?;
        append(&mut said, WANTED, wanted.clone())?;
        append(&mut said, DUE, due())?;
        let mut as_read = filter.clone();
        found.as_read(&mut as_read)?;
        if update(access, model, as_read, document("$set", said)?).await? == 0 {
            retry::pause(attempt).await;
            continue;
        }
        // From now on nobody else changes what it refers to.
        let told = tell_all(access, model, &found, (token, &wanted), outside).await;
        if !matches!(told, Ok(true)) {
            give_up(access, model, id, token).await?;
            finish(access, model, id, token).await?;
            told?;
            retry::pause(attempt).await;
            continue;
        }
        let entered = match find(access, model, &by_id(id)?).await? {
            Some(found) => enter(access, model, &found, token).await,
            None => return Ok(None),
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
        let done = carry_out(write).await;
        if done.as_ref().is_ok_and(|done| W::documents(done) > 0) {
            finish(access, model, id, token).await?;
            return done.map(Some);
        }
        // It was refused, or somebody has changed the document since it was looked at, or has finished this: nothing was changed.
        give_up(access, model, id, token).await?;
        finish(access, model, id, token).await?;
        done?;
        retry::pause(attempt).await;
    }
    Err(busy(model, id))
}

/// Says all that references outside of a document lead to, where a change may take any of them; false if others have given it up.
async fn tell_all(
    access: &Access,
    model: &'static Model,
    found: &Found,
    (token, wanted): (ObjectId, &RawDocument),
    mut outside: outside::TakenOutside,
) -> Result<bool> {
    if outside.any.is_empty() {
        return Ok(true);
    }
    let id = &found.linked.id;
    for rule in std::mem::take(&mut outside.any) {
        let held = rule.held_by(&access.to_everything(), id).await?;
        let inside = found.linked.held(rule.position);
        let held = held.difference(&inside).map(Id::value);
        let held = held.collect::<Result<Vec<_>>>()?;
        if array(&held).as_bytes().len() > outside::MOST_WANTED {
            return Err(outside::too_many(rule.model, rule.link, outside::MOST_SAID));
        }
        outside.named.insert(rule.position, held);
    }
    let mut promised = by_id(id)?;
    append(&mut promised, TOKEN, document("$eq", token)?)?;
    append(&mut promised, GIVEN_UP, document("$exists", false)?)?;
    let before = found.references(model, &outside.named)?;
    outside::refuse_too_much(model, &before, wanted)?;
    let mut said = document(BEFORE, before)?;
    append(&mut said, DUE, due())?;
    Ok(update(access, model, promised, document("$set", said)?).await? == 1)
}

/// The condition of a write, about one document.
fn about<W: Write>(write: &mut W, id: &RawBson) -> Result<RawDocumentBuf> {
    let mut filter = write.filter().cloned().unwrap_or_default();
    also(&mut filter, "_id", document("$eq", id.clone())?)?;
    Ok(filter)
}

/// What is in the fields that a change moves elsewhere.
async fn renamed(
    access: &Access,
    model: &Model,
    change: Option<&mut Change>,
    id: &RawBson,
) -> Result<Vec<(String, Option<RawBson>)>> {
    let Some(Change::Operators { update, .. }) = change else {
        return Ok(Vec::new());
    };
    let renames = changes(update).filter(|(operator, ..)| *operator == "$rename");
    let from: Vec<_> = renames.map(|(_, from, _)| from.to_owned()).collect();
    if from.is_empty() {
        return Ok(Vec::new());
    }
    let find = found_by(&model.collection.into(), &by_id(id)?);
    let found = access.to_everything().find_all(model, find).await?;
    let values = from.into_iter().map(|from| {
        let value = found.first().and_then(|raw| value_at(raw, &from));
        (from, value)
    });
    Ok(values.collect())
}

/// The value at a path without arrays.
fn value_at(raw: &RawDocument, path: &str) -> Option<RawBson> {
    match path.split_once('.') {
        Some((name, rest)) => value_at(raw.get_document(name).ok()?, rest),
        None => raw.get(path).ok()?.map(RawBson::from),
    }
}

/// The condition that a value is still this one, or missing.
fn as_is(value: Option<&RawBson>) -> Result<RawDocumentBuf> {
    match value {
        Some(value) => document("$eq", value.clone()),
        None => document("$exists", false),
    }
}

/// What the references may lead to that a change gives: at least what they will.
fn wanted(
    model: &Model,
    change: Option<&mut Change>,
    renamed: &[(String, Option<RawBson>)],
) -> Result<RawDocumentBuf> {
    let Some(Change::Operators { update, .. }) = change else {
        return Ok(RawDocumentBuf::new());
    };
    let mut wanted = Vec::new();
    for link in model.links() {
        let mut ids = Vec::new();
        for (operator, path, value) in changes(update) {
            let behind = link.side.behind(path);
            match (operator, behind) {
                ("$set" | "$setOnInsert" | "$min" | "$max", Some(behind)) => {
                    ids.extend(behind_value(value, behind));
                }
                ("$push" | "$addToSet", Some(behind)) => {
                    let each = value
                        .as_document()
                        .and_then(|value| value.get("$each").ok()?);
                    ids.extend(behind_value(each.unwrap_or(value), behind));
                }
                // It takes over what another field has.
                ("$rename", _) => {
                    let behind = value.as_str().and_then(|to| link.side.behind(to));
                    let mut renamed = renamed.iter().filter(|(from, _)| from == path);
                    if let (Some(behind), Some((_, Some(moved)))) = (behind, renamed.next()) {
                        ids.extend(behind_value(moved.as_raw_bson_ref(), behind));
                    }
                }
                _ => {}
            }
        }
        wanted.push((link, ids));
    }
    by_link(wanted.iter().map(|(link, ids)| (*link, ids.as_slice())))
}

/// Makes a mark final of which it is decided.
async fn finalize(
    access: &Access,
    model: &'static Model,
    id: &RawBson,
    token: ObjectId,
) -> Result<bool> {
    let mut filter = by_id(id)?;
    append(&mut filter, GOING, document("$eq", token)?)?;
    append(&mut filter, CLOSING, document("$exists", true)?)?;
    Ok(update(access, model, filter, gone(access, model)?).await? == 1)
}

/// Finishes a write that was carried out or given up.
async fn finish(
    access: &Access,
    model: &'static Model,
    id: &RawBson,
    token: ObjectId,
) -> Result<()> {
    let all = access.to_everything();
    let Some(found) = find(&all, model, &by_id(id)?).await? else {
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
    leave(&all, model, &found).await?;
    let mut filter = by_id(id)?;
    append(&mut filter, TOKEN, document("$eq", token)?)?;
    let mut unset = RawDocumentBuf::new();
    for field in [PROMISE, DUE, BLOCKED] {
        append(&mut unset, field, "")?;
    }
    update(&all, model, filter, document("$unset", unset)?).await?;
    Ok(())
}

/// Sees to it that a write is not carried out any more, if it was not yet.
async fn give_up(
    access: &Access,
    model: &'static Model,
    id: &RawBson,
    token: ObjectId,
) -> Result<()> {
    let all = access.to_everything();
    let mut filter = by_id(id)?;
    append(&mut filter, TOKEN, document("$eq", token)?)?;
    append(&mut filter, APPLIED, document("$exists", false)?)?;
    let set = document("$set", document(GIVEN_UP, true)?)?;
    update(&all, model, filter, set).await?;
    Ok(())
}

/// Waits for whoever is writing, or finishes that when it takes too long.
async fn wait_or_settle(
    access: &Access,
    model: &'static Model,
    found: &Found,
    attempt: u32,
) -> Result<()> {
    let id = &found.linked.id;
    if found.is_overdue()
        && let Some(_turn) = access.shared().settling.turn(model, id)
    {
        return settle(access, model, id).await;
    }
    retry::pause(attempt).await;
    Ok(())
}

/// Finishes what was begun with a document: what was not carried out is given up, and one that is going goes.
///
/// It may lead to others, and these back here: each is in a task of its own, because however deep that goes, no stack does.
pub(super) fn settle(
    access: &Access,
    model: &'static Model,
    id: &RawBson,
) -> BoxFuture<'static, Result<()>> {
    let (all, id) = (access.to_everything(), id.clone());
    Box::pin(async move { task::run(async move { settled(&all, model, &id).await }).await })
}

/// The documents that tasks of this process are finishing because somebody else waits for them: the others that wait leave it to
/// these, which would otherwise lead to one another again and again.
#[derive(Debug, Default)]
pub(crate) struct Settling(Mutex<BTreeSet<(&'static str, Id)>>);

impl Settling {
    /// The turn to finish a document; none while it is another's.
    fn turn(&self, model: &Model, id: &RawBson) -> Option<Turn<'_>> {
        let place = (model.collection, Id::of(id));
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Made only if it is: one that is dropped would end the turn.
        taken.insert(place.clone()).then(|| Turn(self, place))
    }
}

/// It is over when it is dropped.
struct Turn<'s>(&'s Settling, (&'static str, Id));

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut taken = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.remove(&self.1);
    }
}

async fn settled(access: &Access, model: &'static Model, id: &RawBson) -> Result<()> {
    let Some(found) = find(access, model, &by_id(id)?).await? else {
        return Ok(());
    };
    if let Some(going) = found.going {
        if found.goes_with.is_some() {
            match fate(access, model, &found).await? {
                Fate::Stays => return release(access, model, id, going).await,
                Fate::Undecided => return Ok(()),
                Fate::Goes => {
                    finalize(access, model, id, going).await?;
                }
            }
        } else if found.is_closing {
            match close(access, model, id, going).await {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Restricted => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        go(access, model, id, going).await?;
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
        let mut filter = by_id(id)?;
        at_rest(&mut filter)?;
        let mut unset = document(DUE, "")?;
        append(&mut unset, BLOCKED, "")?;
        update(access, model, filter, document("$unset", unset)?).await?;
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
