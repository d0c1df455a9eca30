//! Counts, sums and the latest: what a document is made of by others that refer to it.
//!
//! The others are its *members*, and the document is their *owner*. What a member is counted as follows from its own fields; as what
//! it was counted, and where, it remembers. So whoever finds a member of which the two differ knows what is to be added to its owner, and
//! no write has to know what was there before.
//!
//! - With transactions a member, what it remembers and its owner are written in one. Where several writers meet in an owner, the new
//!   members are only inserted, and say that they are to be counted; whoever comes next counts all of them by one write
//!   (`tally/line.rs`).
//! - On a standalone server a write says in the member that it is to be counted (`tally/apart.rs`). The owner has a fence, which is
//!   read before the members are, and which each write of it changes: so none is made of what is not so any more. With what it adds, the
//!   owner notes as what the member is counted, until the member remembers that itself: so nothing is added twice.
//!
//! An owner that is new may have members already: it says that they are to be counted, and they are when it is visible
//! (`tally/recount.rs`). One that is not there when its members are written leaves that to this.

mod ahead;
mod apart;
mod check;
mod group;
mod line;
mod member;
mod owner;
mod parent;
mod recount;
mod together;

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
};

use bson::{Bson, Document, RawBson, RawDocument, RawDocumentBuf, doc};

use ahead::Ahead;
pub(crate) use check::{Miscounted, miscounted};
use group::{Group, groups, is_owner};
pub(crate) use line::Counting;
use member::Member;
pub(crate) use recount::count_again;
pub(super) use together::Missing;

use super::{
    Effect, Finished, Promise, Said, Write,
    copy::{self, first_revision, put},
    link::{
        self,
        linked::{Id, array, by_id, one_of},
    },
    linked,
    stored::{Amendment, change, close, open},
};
use crate::{
    Error, ErrorKind, Result,
    access::{Access, found_by},
    backend::operation::{Change, Direction, Find, Index},
    decode, error,
    query::{append, document},
    schema::{Keeps, Model},
    unit::{self, Attempts},
};

/// What a member says while it is to be counted.
const COUNT: Promise = Promise::COUNT;

/// What an owner says while its members are to be looked at.
const RECOUNT: Promise = Promise::RECOUNT;

/// What each write of what an owner is made of changes in it.
const FENCE: &str = "_odm.tally";

/// In an owner: members that are counted otherwise than they remember.
const NOTES: &str = "_odm.notes";

/// How many members are counted at once.
const BATCH: usize = 1_000;

/// How often something is tried that others are writing to.
const ATTEMPTS: u32 = 100;

/// The declared indexes, with those by which members, and what is owed, are found.
pub(crate) fn with_indexes(
    mut declared: Vec<(&'static Model, Vec<Index>)>,
    models: &[&'static Model],
) -> Vec<(&'static Model, Vec<Index>)> {
    for (model, indexes) in &mut declared {
        let groups = groups(models, model);
        for group in &groups {
            Index::declare_on(group.reference.clone(), indexes);
            for tally in &group.tallies {
                if let Keeps::Latest { by, .. } = tally.keeps {
                    let latest = Index::new(vec![
                        (group.reference.clone(), Direction::Ascending),
                        (by().to_string(), Direction::Descending),
                        ("_id".to_owned(), Direction::Descending),
                    ]);
                    if !indexes.iter().any(|index| index.serves_as(&latest)) {
                        indexes.push(latest);
                    }
                }
            }
        }
        if !groups.is_empty() {
            indexes.push(Index::sparse_on(COUNT.due()));
            // Where there are no transactions it is marked before it is deleted.
            let due = Index::sparse_on(Promise::LINK.due());
            if !indexes.contains(&due) {
                indexes.push(due);
            }
        }
        if is_owner(model) {
            indexes.push(Index::sparse_on(RECOUNT.due()));
        }
    }
    declared
}

/// Whether documents of a model are counted by others.
pub(super) fn is_member(access: &Access, model: &Model) -> bool {
    !groups(access.models(), model).is_empty()
}

/// Whether a document of a model may say this.
pub(super) fn says(access: &Access, model: &Model, promise: Promise) -> bool {
    match promise {
        Promise::COUNT => is_member(access, model),
        _ => is_owner(model),
    }
}

/// Whether a write may have to do with counts.
pub(super) fn concerns(access: &Access, model: &Model, effect: &Effect<'_>) -> bool {
    is_owner(model) && !matches!(effect, Effect::Removes) || is_member(access, model)
}

/// Says in an update that the documents are to be counted again, if it changes as what they are.
pub(super) fn say(
    access: &Access,
    model: &Model,
    update: &mut RawDocumentBuf,
) -> Result<Option<Said>> {
    let groups = groups(access.models(), model);
    if !groups.iter().any(|group| group.is_touched(model, update)) {
        return Ok(None);
    }
    let said = Said::now();
    *update = super::with(update, "$set", COUNT.0, said.to_raw()?)?;
    Ok(Some(said))
}

/// Says in the mark of documents that go from now on that they are to be counted again: whoever is counting one as what it was lets it
/// remember nothing of that any more.
pub(super) fn say_gone(access: &Access, model: &Model, set: &mut RawDocumentBuf) -> Result<()> {
    match is_member(access, model) {
        true => append(set, COUNT.0, Said::now().to_raw()?),
        false => Ok(()),
    }
}

/// Carries out a write, and what follows from it at the owners of its documents; and takes from what it owes to copies what that shows.
pub(super) async fn run<W: Write>(
    access: Access,
    model: &'static Model,
    mut write: W,
    owed: &mut copy::Owed,
) -> Result<W::Done> {
    if !concerns(&access, model, &write.effect()) {
        return linked(access, model, write).await;
    }
    let owner = prepare_owner(model, &mut write)?;
    let groups = groups(access.models(), model);
    let done = if groups.is_empty() {
        linked(access.clone(), model, write).await
    } else if write.documents_to_insert().is_some() {
        insert(&access, model, &groups, write, owed).await
    } else if write.change().is_some() {
        update(&access, model, write).await
    } else {
        remove(&access, model, write).await
    };
    if let (Some((said, first)), Ok(_)) = (owner, &done) {
        line::behind(&access, async move |access| {
            recount::new_owners(&access, model, said, first).await
        });
    }
    done
}

/// What new owners begin with: nothing, and that their members are to be looked for. Gives what they say, and their fence.
fn prepare_owner<W: Write>(model: &Model, write: &mut W) -> Result<Option<(Said, i64)>> {
    if !is_owner(model) {
        return Ok(None);
    }
    let nothing = |tally: &crate::schema::Tally| match tally.keeps {
        Keeps::Count | Keeps::Sum(_) => Bson::Int64(0),
        Keeps::Latest { .. } => Bson::Array(Vec::new()),
    };
    let (said, first) = (Said::now(), first_revision());
    if let Some(documents) = write.documents_to_insert() {
        for raw in documents {
            let mut open = open(raw)?;
            for tally in model.tallies {
                open.insert(tally.stored, nothing(tally));
            }
            *raw = close(&open)?;
            put(raw, FENCE, first.into())?;
            put(raw, RECOUNT.0, Bson::Document(said.to_document()))?;
        }
        return Ok(Some((said, first)));
    }
    Ok(None)
}

fn only_operators() -> Error {
    let message = "what documents are counted as follows only from update operators";
    Error::new(ErrorKind::Unsupported, message)
}

/// Inserts members: with their owners or, where others write to these, before they are counted.
async fn insert<W: Write>(
    access: &Access,
    model: &'static Model,
    groups: &[Group],
    write: W,
    owed: &mut copy::Owed,
) -> Result<W::Done> {
    // Beside those who are counted together, a transaction would end in a conflict, theirs or its own.
    let is_alone = access.unit().is_some() || !line::is_moving(access, model);
    if is_alone && access.has_transactions() {
        let work = |access: Access| {
            let write = write.clone();
            async move { together::insert(&access, model, groups, write).await }
        };
        let done = access.together(Attempts::One, work).await;
        match done {
            Err(error) if error.is_conflict() && access.unit().is_none() => {}
            // They go together.
            Err(error) if access.unit().is_none() => return Err(error.with_inserted(0)),
            done => return done,
        }
    }
    let mut write = write;
    let said = Said::now();
    let mut members = Vec::new();
    for raw in write.documents_to_insert().into_iter().flatten() {
        let mut open = open(raw)?;
        for group in groups {
            let shares = group.shares(model, &open)?;
            let record = shares.iter().map(|share| share.counted_as(false)).collect();
            group.remember(&mut open, record);
        }
        super::stored::set(&mut open, COUNT.0, said.to_document());
        members.push(Member::of_open(model, groups, &open)?);
        *raw = close(&open)?;
    }
    let all = access.to_everything();
    let ahead = match is_alone && !access.has_transactions() {
        true => Ahead::read(&all, groups, &members, owed).await?,
        false => None,
    };
    let done = linked(access.clone(), model, write).await;
    if done.is_ok()
        && let Some(ahead) = ahead
    {
        let counted = ahead.count(&all, model, groups, &members, owed).await;
        if counted.is_ok_and(|is_all| is_all) {
            return done;
        }
    }
    // Some of them may be there though another is not.
    line::count(access, model, said).await;
    done
}

/// Carries out a change of members, and counts them again if they are to be.
async fn update<W: Write>(access: &Access, model: &'static Model, mut write: W) -> Result<W::Done> {
    let Some(Change::Operators { update, .. }) = write.change() else {
        return Err(only_operators());
    };
    let Some(said) = say(access, model, update)? else {
        return linked(access.clone(), model, write).await;
    };
    if !access.has_transactions() {
        let done = linked(access.clone(), model, write).await;
        line::count(access, model, said).await;
        return done;
    }
    let work = |access: Access| {
        let write = write.clone();
        async move {
            let done = linked(access.clone(), model, write).await?;
            if W::documents(&done) > 0 {
                let counted = together::count(&access, model, said.filter(COUNT)?, true).await;
                counted.map_err(|error| access.fail(error))?;
            }
            Ok(done)
        }
    };
    access.together(unit::ATTEMPTS, work).await
}

/// Deletes members, and takes them from what they are counted at.
async fn remove<W: Write>(access: &Access, model: &'static Model, write: W) -> Result<W::Done> {
    // With what goes with them they are seen to there.
    if link::is_linking(access, model, &write.effect()) {
        return linked(access.clone(), model, write).await;
    }
    let mut done = W::done(0);
    loop {
        let room = access.unit().is_none().then_some(LARGE);
        let is_awaited = AtomicBool::new(false);
        let work = |access: Access| {
            let (write, is_awaited) = (write.clone(), &is_awaited);
            async move { together::remove(&access, model, write, room, is_awaited).await }
        };
        match access.together(unit::ATTEMPTS, work).await {
            // They are marked first: whoever comes to count them sees that they go.
            Err(_) if is_awaited.load(Ordering::Relaxed) => {
                let rest = link::run_marked(access, model, write.clone()).await?;
                W::add(&mut done, rest);
                return Ok(done);
            }
            Ok((some, is_all)) => {
                W::add(&mut done, some);
                if is_all {
                    return Ok(done);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// How many members one transaction deletes.
const LARGE: usize = 10_000;

/// Members that are deleted in a transaction.
pub(super) struct Leaving {
    groups: Vec<Group>,
    members: Vec<Member>,
}

/// What documents are counted as that are to be deleted in this transaction.
pub(super) async fn leaving(
    access: &Access,
    model: &'static Model,
    ids: impl Iterator<Item = &RawBson>,
) -> Result<Option<Leaving>> {
    let groups = groups(access.models(), model);
    if groups.is_empty() {
        return Ok(None);
    }
    let ids: Vec<_> = ids.cloned().collect();
    let filter = document("_id", one_of(&ids)?)?;
    let mut members = Member::read(access, model, &groups, &filter).await?;
    members.iter_mut().for_each(Member::leave);
    Ok(Some(Leaving { groups, members }))
}

/// Takes them from what they are counted at; gives the owners that are not there.
pub(super) async fn left(
    access: &Access,
    model: &'static Model,
    leaving: Leaving,
) -> Result<Missing> {
    let Leaving { groups, members } = leaving;
    let there = together::change_owners(access, model, &groups, &members).await?;
    Missing::of(&there, &groups, &members)
}

/// Takes a document from what it is counted at that is marked, and about to be deleted.
pub(super) async fn leave(access: &Access, model: &'static Model, id: &RawBson) -> Result<()> {
    match is_member(access, model) {
        true => line::count_those(access, model, by_id(id)?).await,
        false => Ok(()),
    }
}

/// Counts documents that said so in a write which nobody waits for here.
pub(super) fn count_behind(access: &Access, model: &'static Model, said: Said) {
    line::behind(access, async move |access| {
        line::count(&access, model, said).await;
        Ok(())
    });
}

/// Counts what others have left to be counted. What cannot be keeps none of the rest from it.
pub(super) async fn settle(
    access: &Access,
    model: &'static Model,
    settled: &mut Finished,
) -> Result<()> {
    for promise in [COUNT, RECOUNT] {
        let (mut seen, mut left) = (BTreeSet::new(), Vec::new());
        while says(access, model, promise) {
            let mut filter = promise.overdue()?;
            if !left.is_empty() {
                append(&mut filter, "_id", document("$nin", array(&left))?)?;
            }
            let find = Find {
                projection: Some(document("_id", 1)?),
                limit: Some(BATCH as u64),
                ..found_by(&model.collection.into(), &filter)
            };
            let found = access.find_all(model, find).await?;
            if found.is_empty() {
                break;
            }
            let ids = found.iter().filter_map(|raw| decode::id(raw));
            let ids = ids.map(RawBson::from);
            let (ids, again): (Vec<_>, Vec<_>) = ids.partition(|id| seen.insert(Id::of(id)));
            for id in again {
                settled.fail(still_said(model, promise, &id))?;
                left.push(id);
            }
            if ids.is_empty() {
                continue;
            }
            let done = match promise {
                COUNT => line::count_those(access, model, document("_id", one_of(&ids)?)?).await,
                _ => recount::overdue(access, model, &ids).await,
            };
            match done {
                Ok(()) => settled.documents += ids.len() as u64,
                Err(error) => {
                    settled.fail(error)?;
                    left.extend(ids);
                }
            }
        }
    }
    Ok(())
}

/// A document says that something is owed, and did so still when that had been done.
fn still_said(model: &Model, promise: Promise, id: &RawBson) -> Error {
    let said = promise.0;
    let message = format!(
        "it was counted, and `{said}` says still that it is to be: others change it, whose clock is behind, or there is no `{said}.token`, \
         which no write of the framework leaves out: remove `{said}`, and `repair` counts what is not counted"
    );
    let error = Error::new(ErrorKind::Unsettled, message).with_path(said);
    let error = match Bson::try_from(id.clone()) {
        Ok(id) => error.with_id(id),
        Err(_) => error,
    };
    error::of(model)(error)
}

/// The paths of a model that a save must not change.
pub(super) fn fixed(model: &Model) -> impl Iterator<Item = String> {
    model.tallies.iter().map(|tally| tally.stored.to_owned())
}

/// Whether a document says something.
fn has(raw: &RawDocument, promise: Promise) -> Result<bool> {
    Ok(promise.due_of(raw)?.is_some())
}

/// Takes back what documents say by this token.
async fn unsay(
    access: &Access,
    model: &'static Model,
    promise: Promise,
    said: Said,
) -> Result<u64> {
    let unset = doc! { "$unset": { promise.0: "" } };
    change(access, model, Amendment::new(said.filter(promise)?, unset)).await
}

/// The document in which the framework keeps what it knows of this one.
fn own(document: &Document) -> Option<&Document> {
    document.get_document("_odm").ok()
}
