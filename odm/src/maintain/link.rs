//! References with rules, and two-way links: what a reference leads to is there, and the inverse follows it.
//!
//! The reference is the truth; what lists the documents that refer to another one is made from it, here and nowhere else. A
//! write that may change a reference is carried out together with what follows from it, in one transaction or, where there is none,
//! by a promise (`link/promise.rs`). In a transaction, what the documents refer to is read before the write, and behind it unless the
//! write alone tells; what is in one list and not in the other enters or leaves the other sides. An update of one document that tells
//! does not read before either: it gives the document back as it was.
//! Two changes of one reference meet in its document, a deletion and a new reference to what is deleted in the document that it leads
//! to, whose fence each of them changes: the second to come is tried again.
//!
//! What was entered before is left though nobody sees it any more: it may be of another scope, or deleted by a mark. Entered is only
//! what the writer sees.

mod consequences;
mod deletion;
mod effect;
mod going;
pub(super) mod linked;
mod listing;
mod mend;
mod outside;
mod parting;
mod promise;
mod refusal;
mod sides;
mod upgrade;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
};

use bson::{Bson, DateTime, RawArrayBuf, RawBson, RawDocument, RawDocumentBuf, oid::ObjectId};

pub use consequences::Consequences;
pub(crate) use consequences::consequences;
pub(crate) use deletion::{Rule, rules};
pub(crate) use effect::{Effect, is_linking, new_reference};
pub(crate) use linked::ids_at;
pub(crate) use listing::listed;
pub(crate) use mend::{Mending, list_once, mend};
pub(super) use outside::{enter_all, is_promised, refer, rule_of};
pub(crate) use promise::Settling;
pub(crate) use refusal::refuse_another;
pub(crate) use upgrade::bring_up;

use super::{
    Means, Promise, Rejection, Removal, Write,
    blocked::{self, is_blocking},
    computed, copy, narrow, overflow, tally,
};
use crate::{
    Error, ErrorKind, Result,
    access::{Access, also, found_by},
    backend::operation::{Change, Delete, Find, Update},
    batches::id_batches,
    error,
    query::{append, document},
    schema::{Model, OwnLink},
    soft_delete::Sight,
    unit,
};
use deletion::take_leave;
use going::Going;
use linked::{Fate, Id, Linked, array, by_id, one_of, read};
use refusal::{dangling, deciding};
use sides::Sides;

/// Carries out a write, and what follows from it.
pub(super) async fn run<W: Write>(
    access: Access,
    model: &'static Model,
    write: W,
) -> Result<W::Done> {
    if !access.has_transactions() {
        return promise::run(&access, model, write).await;
    }
    let is_insert = matches!(write.effect(), Effect::Inserts(_));
    let run = || Box::pin(whole(&access, model, &write));
    let done = past_what_is_left(&access, run).await;
    match done {
        Ok(Some(done)) => Ok(done),
        Ok(None) => in_parts(&access, model, &write).await,
        // They go together.
        Err(error) if is_insert => Err(error.with_inserted(0)),
        Err(error) => Err(error),
    }
}

/// Carries out a deletion as where there are no transactions: each document is marked first.
pub(super) async fn run_marked<W: Write>(
    access: &Access,
    model: &'static Model,
    write: W,
) -> Result<W::Done> {
    promise::run(access, model, write).await
}

/// Carries out what may meet something that was begun and that nobody is at any more: then it is finished, and this carried out again.
pub(super) async fn past_what_is_left<R, F>(access: &Access, run: impl Fn() -> F) -> Result<R>
where
    F: Future<Output = Result<R>>,
{
    let done = run().await;
    if let Err(error) = &done
        && error.is_conflict()
        && !error.is_passing()
        && access.unit().is_none()
        && access.has_transactions()
        && settle_all(&access.to_everything()).await? > 0
    {
        return run().await;
    }
    done
}

/// Finishes all that was begun and left.
async fn settle_all(access: &Access) -> Result<u64> {
    let mut settled = Finished::default();
    for model in access.models() {
        if !model.links().is_empty() || rules(access, model).next().is_some() {
            settle(access, model, &mut settled).await?;
        }
    }
    Ok(settled.documents)
}

/// Carries out a write in one transaction; none if that is too large, and nothing is done.
async fn whole<W: Write>(
    access: &Access,
    model: &'static Model,
    write: &W,
) -> Result<Option<W::Done>> {
    // What the caller commits is whole, whatever its size.
    let is_limited = access.unit().is_none() && matches!(write.effect(), Effect::Removes);
    let is_too_large = AtomicBool::new(false);
    let work = |access: Access| {
        let whole = Whole {
            all: access.to_everything(),
            access,
            room: is_limited.then_some(LARGE),
            is_too_large: &is_too_large,
        };
        whole.run(model, write.clone())
    };
    match access.together(unit::ATTEMPTS, work).await {
        Err(_) if is_too_large.load(Ordering::Relaxed) => Ok(None),
        done => done.map(Some),
    }
}

/// Carries out a deletion that is too large for one transaction: some documents at a time, each of them if these take too many with
/// them, and one that does so itself as where there are no transactions.
async fn in_parts<W: Write>(access: &Access, model: &'static Model, write: &W) -> Result<W::Done> {
    let mut done = W::done(0);
    let mut all = write.clone();
    let mut filter = all.filter().cloned().unwrap_or_default();
    // Somebody else has begun with it.
    not_gone(&mut filter)?;
    let pinned = |ids: &[&RawBson]| -> Result<W> {
        let mut part = write.clone();
        if let Some(filter) = part.filter() {
            also(filter, "_id", one_of(ids.iter().copied())?)?;
        }
        Ok(part)
    };
    loop {
        let find = Find {
            limit: Some(if write.is_of_one() { 1 } else { BATCH as u64 }),
            sort: write.order().map(RawDocument::to_owned),
            ..found_by(&model.collection.into(), &filter)
        };
        let found = read(access, model, find).await?;
        let together: Vec<_> = ids(&found).collect();
        if let [_, _, ..] = together.as_slice()
            && let Some(own) = whole(access, model, &pinned(&together)?).await?
        {
            W::add(&mut done, own);
            continue;
        }
        for id in together {
            let part = pinned(&[id])?;
            let own = match whole(access, model, &part).await? {
                Some(own) => own,
                None => promise::run(access, model, part).await?,
            };
            W::add(&mut done, own);
        }
        if found.is_empty() || write.is_of_one() {
            return Ok(done);
        }
    }
}

/// How many documents a deletion takes with it in one transaction: none of a server is without bounds.
const LARGE: usize = 10_000;

/// A write in a transaction, with all that follows from it.
struct Whole<'r> {
    access: Access,
    /// Sees whom it may concern.
    all: Access,
    /// How many documents there may be; any number if none is said.
    room: Option<usize>,
    is_too_large: &'r AtomicBool,
}

impl Whole<'_> {
    async fn run<W: Write>(self, model: &'static Model, mut write: W) -> Result<W::Done> {
        let at_once = self.at_once(&self.access, model, &write).await;
        if let Some(done) = at_once.map_err(|error| self.access.fail(error))? {
            return Ok(done);
        }
        let before = self.look(model, &mut write).await?;
        let going = match write.effect() {
            Effect::Removes => Some(self.all_that_goes(model, &before).await?),
            Effect::Inserts(_) | Effect::Changes(_) => None,
        };
        let done = async {
            let done = self.carry_out(&self.access, model, write, &before).await?;
            if let Some(going) = going {
                self.delete_with_it(model, &before, &going).await?;
            }
            Ok(done)
        };
        // The caller cannot keep one side without the other.
        done.await.map_err(|error| self.access.fail(error))
    }

    /// Carries out an update of one document that gives back what it was, if that and the update tell what it refers to now.
    async fn at_once<W: Write>(
        &self,
        access: &Access,
        model: &'static Model,
        write: &W,
    ) -> Result<Option<W::Done>> {
        let (Some(mut modify), Effect::Changes(change)) = (write.giving_back(), write.effect())
        else {
            return Ok(None);
        };
        if effect::predicted(change, model, &[]).is_none() {
            return Ok(None);
        }
        also(&mut modify.filter, GOING, document("$exists", false)?)?;
        // Whether it has changed anything is told by all that it may have changed.
        if model.upgrade.is_none() && effect::is_of_links_alone(change, model) {
            modify.projection = Some(linked::sides(model, |side| side.stored)?);
        }
        let projection = modify.projection.clone();
        let Some(raw) = computed::run(access, model, modify).await? else {
            return Ok(Some(W::done(0)));
        };
        let before = [Linked::of(model, &raw)?];
        let after = effect::predicted(change, model, &before).unwrap_or_default();
        self.follow(access, model, &before, &after, true).await?;
        let refers_to_others = (0..model.links().len()).any(|link| {
            let held = |all: &[Linked]| all.first().map(|document| document.held(link));
            held(&before) != held(&after)
        });
        if refers_to_others {
            return Ok(Some(W::done_to_one(true)));
        }
        let now = Find {
            projection,
            ..found_by(
                &model.collection.into(),
                &document("_id", one_of(ids(&before))?)?,
            )
        };
        let now = self.all.find_all(model, now).await?;
        Ok(Some(W::done_to_one(now.first() != Some(&raw))))
    }

    /// The documents that a write is about, as they are; it is about no others from now on.
    async fn look<W: Write>(&self, model: &'static Model, write: &mut W) -> Result<Vec<Linked>> {
        let sort = write.order().map(RawDocument::to_owned);
        let is_of_one = write.is_of_one();
        let Some(filter) = write.filter() else {
            return Ok(Vec::new());
        };
        not_gone(filter)?;
        let limit = self.room.map(|room| room as u64 + 1);
        let find = Find {
            sort,
            limit: if is_of_one { Some(1) } else { limit },
            ..found_by(&model.collection.into(), filter)
        };
        let found = read(&self.access, model, find).await?;
        let mut undecided = found.iter().filter(|found| found.fate == Fate::Undecided);
        if let Some(document) = undecided.next() {
            return Err(deciding(model, &document.id));
        }
        also(filter, "_id", one_of(ids(&found))?)?;
        Ok(found)
    }

    /// What goes with these documents, which nothing keeps from going.
    async fn all_that_goes(&self, model: &'static Model, before: &[Linked]) -> Result<Going> {
        let mut going = Going::new(false);
        let first = before.to_vec();
        if !going.spread(&self.all, model, first, self.room).await? {
            self.is_too_large.store(true, Ordering::Relaxed);
            let message = "too much for one transaction";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        going.refuse_restricted(&self.all).await?;
        Ok(going)
    }

    /// Deletes what goes with documents that are deleted, and takes all of these out of what refers to them.
    async fn delete_with_it(
        &self,
        model: &'static Model,
        deleted: &[Linked],
        going: &Going,
    ) -> Result<()> {
        let all = &self.all;
        for goes in going.all() {
            let but = if goes.model.collection == model.collection {
                deleted
            } else {
                &[]
            };
            let others = Going::others(goes, but);
            if others.is_empty() {
                continue;
            }
            let delete = Delete {
                collection: goes.model.collection.into(),
                filter: document("_id", one_of(ids(&others))?)?,
                multi: true,
            };
            let removal = Removal::new(goes.model, delete, Means::ForGood)?;
            self.carry_out(all, goes.model, removal, &others).await?;
        }
        for goes in going.all() {
            take_leave(all, goes.model, &goes.documents).await?;
        }
        Ok(())
    }

    /// Carries out a write that sees what `access` does, and brings the other sides of its documents' links up to date.
    async fn carry_out<W: Write>(
        &self,
        access: &Access,
        model: &'static Model,
        write: W,
        before: &[Linked],
    ) -> Result<W::Done> {
        let all = &self.all;
        let mut after = Vec::new();
        let (mut is_change, mut predicted) = (false, None);
        match write.effect() {
            Effect::Inserts(documents) => {
                let all = documents.iter().map(|raw| Linked::of(model, raw));
                after = all.collect::<Result<_>>()?;
            }
            Effect::Changes(change) => {
                is_change = true;
                predicted = effect::predicted(change, model, before);
            }
            Effect::Removes => {}
        }
        let leaving = match write.effect() {
            Effect::Removes => tally::leaving(all, model, ids(before)).await?,
            Effect::Inserts(_) | Effect::Changes(_) => None,
        };
        let mut before = Cow::Borrowed(before);
        if matches!(write.effect(), Effect::Removes) {
            outside::complete(all, model, &mut before).await?;
            overflow::leave_all(all, model, ids(&before)).await?;
        }
        let done = computed::run(access, model, write).await?;
        if let Some(leaving) = leaving {
            let missing = tally::left(all, model, leaving).await?;
            missing.look_behind(all);
        }
        let before = before.as_ref();
        if let Some(predicted) = predicted {
            after = predicted;
        } else if is_change && !before.is_empty() {
            let those = document("_id", one_of(ids(before))?)?;
            after = read(all, model, found_by(&model.collection.into(), &those)).await?;
        }
        self.follow(access, model, before, &after, is_change)
            .await?;
        Ok(done)
    }

    /// Leaves what documents do not refer to any more, and enters what they do from now on, for whoever sees what `access` does.
    async fn follow(
        &self,
        access: &Access,
        model: &'static Model,
        before: &[Linked],
        after: &[Linked],
        is_change: bool,
    ) -> Result<()> {
        let all = &self.all;
        // Whoever restores a document sees those that are deleted, and refers to none of them.
        let present = access.clone().seeing(Sight::Present);
        let mut sides = Sides::new(&present, all);
        for (position, link) in model.links().iter().enumerate() {
            // A change of what overflows is followed where it is kept apart.
            if is_change && model.overflow_of(&link.side).is_some() {
                continue;
            }
            let left = only_in(before, after, position);
            sides
                .follow(link, left, only_in(after, before, position))
                .await?;
        }
        sides.write().await
    }
}

fn ids(documents: &[Linked]) -> impl Iterator<Item = &RawBson> {
    documents.iter().map(|document| &document.id)
}

/// What each write of an inverse, and each new reference to a document in a transaction, changes in it.
const FENCE: &str = "_odm.fence";

/// The document is going: a deletion that is not one transaction has marked it.
pub(super) const GOING: &str = "_odm.going";

/// Whether it is going is not known yet: something may refer to it, or to what goes with it, that must not lose it.
pub(super) const CLOSING: &str = "_odm.closing";

/// By what a document says what a deletion has made of it.
pub(super) const FATE: [&str; 2] = [GOING, CLOSING];

/// Leaves out what is as good as gone.
fn not_gone(filter: &mut RawDocumentBuf) -> Result<()> {
    let mut gone = document(GOING, document("$exists", true)?)?;
    append(&mut gone, CLOSING, document("$exists", false)?)?;
    let mut none = RawArrayBuf::new();
    none.push(gone);
    if filter.get("$nor").is_ok_and(|other| other.is_none()) {
        return append(filter, "$nor", none);
    }
    let mut both = RawArrayBuf::new();
    both.push(std::mem::take(filter));
    both.push(document("$nor", none)?);
    append(filter, "$and", both)
}

/// What a document has under `_odm` while something is to be done to it or to what it refers to.
pub(crate) const PROMISE: [&str; 2] = ["link", "going"];

/// Whether documents of a model may say that something is to be done to their references, or to those that lead to them.
pub(super) fn is_promising(access: &Access, model: &'static Model) -> bool {
    !model.links().is_empty()
        || rules(access, model).next().is_some()
        || tally::is_member(access, model)
        || !model.overflows.is_empty()
        || copy::is_cleared(access, model)
}

/// What has become of writes that were begun.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    /// How many were finished.
    pub(crate) documents: u64,
    /// Why the first of the others was not.
    pub(crate) failed: Option<Error>,
}

impl Finished {
    /// Keeps why one of them was not; an error if nobody is reached, as without a database.
    pub(crate) fn fail(&mut self, error: Error) -> Result<()> {
        if error.id().is_none() && error.kind() == ErrorKind::Connection {
            return Err(error);
        }
        self.failed.get_or_insert(error);
        Ok(())
    }
}

/// Finishes what writes to documents of a model have begun. One that cannot be finished keeps none of the others from it.
pub(crate) async fn settle(
    access: &Access,
    model: &'static Model,
    settled: &mut Finished,
) -> Result<()> {
    if !is_promising(access, model) {
        // It may have had links before: then it has their index.
        let indexes = access.backend().list_indexes(model.collection).await;
        let indexes = indexes.map_err(error::of(model))?;
        if !indexes
            .iter()
            .any(|index| index.keys.iter().any(|(path, _)| path == promise::DUE))
        {
            return Ok(());
        }
    }
    let (mut seen, mut left) = (BTreeSet::new(), Vec::new());
    loop {
        let mut filter = document(promise::DUE, document("$lte", DateTime::now())?)?;
        if !left.is_empty() {
            append(&mut filter, "_id", document("$nin", array(&left))?)?;
        }
        let find = Find {
            projection: Some(document("_id", 1)?),
            sort: Some(document(promise::DUE, 1)?),
            limit: Some(BATCH as u64),
            ..found_by(&model.collection.into(), &filter)
        };
        let due = access.find_all(model, find).await?;
        if due.is_empty() {
            return Ok(());
        }
        for raw in &due {
            let id = Linked::of(model, raw)?.id;
            if !seen.insert(Id::of(&id)) {
                left.push(id);
                continue;
            }
            match promise::settle(access, model, &id).await {
                Ok(()) => settled.documents += 1,
                Err(error) => {
                    if is_blocking(&error) {
                        let owing = by_id(&id)?;
                        let id = Bson::try_from(id).map_err(error::encode)?;
                        let by = Rejection::all_of(&error, model, &id);
                        blocked::note(access, model, Promise::LINK, owing, &by).await?;
                    }
                    settled.fail(error)?;
                }
            }
        }
    }
}

/// How many documents are looked for at once.
const BATCH: usize = 1_000;

/// By document: those that refer to it in one state and do not in another one, in order.
fn only_in(state: &[Linked], other: &[Linked], link: usize) -> BTreeMap<Id, Vec<RawBson>> {
    let other: BTreeMap<_, _> = other
        .iter()
        .map(|document| (Id::of(&document.id), document.held(link)))
        .collect();
    let mut found = BTreeMap::<_, Vec<_>>::new();
    for document in state {
        let held = other.get(&Id::of(&document.id));
        for target in document.held(link) {
            if held.is_none_or(|held| !held.contains(&target)) {
                found.entry(target).or_default().push(document.id.clone());
            }
        }
    }
    found
}

/// Sees to it that documents which are referred to stay there until this is committed: who deletes one meets this write.
async fn hold(access: &Access, link: &OwnLink, targets: Vec<Id>) -> Result<()> {
    let model = (link.side.model)();
    for some in id_batches(&targets, BATCH) {
        let ids = some.iter().map(Id::value).collect::<Result<Vec<_>>>()?;
        let mut those = document("_id", one_of(&ids)?)?;
        append(&mut those, GOING, document("$exists", false)?)?;
        let change = document("$set", document(FENCE, ObjectId::new())?)?;
        if update(access, model, those.clone(), change).await? == ids.len() as u64 {
            continue;
        }
        let those = document("_id", one_of(&ids)?)?;
        let there = read(access, model, found_by(&model.collection.into(), &those)).await?;
        let there: BTreeMap<_, _> = there
            .iter()
            .map(|found| (Id::of(&found.id), found))
            .collect();
        for id in some {
            match there.get(id).map(|found| found.fate) {
                Some(Fate::Stays) => {}
                // It may be refused yet.
                Some(Fate::Undecided) => return Err(deciding(model, &id.value()?)),
                Some(Fate::Goes) | None => return Err(dangling(link, &id.value()?)),
            }
        }
    }
    Ok(())
}

/// Changes what the framework keeps in documents: neither their version nor their time of change tells of that.
async fn update(
    access: &Access,
    model: &'static Model,
    mut filter: RawDocumentBuf,
    change: RawDocumentBuf,
) -> Result<u64> {
    narrow(access, model, &mut filter, false).await?;
    let update = Update {
        collection: model.collection.into(),
        filter,
        change: Change::operators(change),
        multi: true,
        upsert: false,
    };
    access.told().writes();
    let done = access.executor().update(update).await;
    Ok(done.map_err(error::of(model))?.matched)
}
