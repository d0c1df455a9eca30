//! Deletions where there are no transactions.

use bson::{RawBson, RawDocument, RawDocumentBuf, oid::ObjectId};

use super::{
    super::{
        BATCH, CLOSING, GOING,
        deletion::{Rule, rules},
        going::Going,
        linked::{Id, array, by_id, one_of, read},
        not_gone,
        outside::{SOME, both},
        refusal::busy,
        update,
    },
    ATTEMPTS, about,
    decision::{self, close, going_with, referring, release},
    finalize,
    found::{BEFORE, DUE, Found, PROMISE, TOKEN, at_rest, due, find},
    side::leave,
    wait_or_settle,
};
use crate::{
    Result,
    access::{Access, also, found_by},
    backend::{
        BoxFuture,
        operation::{Delete, Find},
    },
    decode, error,
    maintain::{
        Write,
        blocked::{Rejections, is_blocking, is_rejection},
        copy, narrow, overflow, tally,
    },
    query::{append, document},
    retry,
    schema::{InverseLink, Model},
    task,
};

/// Deletes one document: it is marked, what refers to it is seen to, it leaves what it refers to, and then it goes. None if it is not
/// there, or not as the write asks for.
pub(super) async fn remove<W: Write>(
    access: &Access,
    model: &'static Model,
    write: &W,
    id: &RawBson,
) -> Result<Option<W::Done>> {
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
        let all = access.to_everything();
        at_rest(&mut filter)?;
        let is_closing = decision::is_needed(&all, model);
        if !is_closing {
            // What must not lose it is in its lists.
            let mut going = Going::new(false);
            let these = going.add(model, vec![found.linked.clone()]);
            for rule in rules(&all, model).filter(Rule::is_restricting) {
                going.refuse_listed(&rule, &these)?;
                if let Some(inverse) = rule.lister {
                    let listed = found.linked.listed(model, inverse);
                    also(&mut filter, inverse.side.stored, only(inverse, listed)?)?;
                }
            }
        }
        let token = ObjectId::new();
        let mut mark = document(GOING, token)?;
        append(&mut mark, DUE, due())?;
        match is_closing {
            true => append(&mut mark, CLOSING, true)?,
            false => tally::say_gone(&all, model, &mut mark)?,
        }
        if update(access, model, filter, document("$set", mark)?).await? == 0 {
            retry::pause(attempt).await;
            continue;
        }
        if is_closing && !close(&all, model, id, token).await? {
            // Long enough for those that wait for this to see it.
            retry::pause(attempt.saturating_add(5)).await;
            continue;
        }
        go(&all, model, id, token).await?;
        let mut last = by_id(id)?;
        append(&mut last, GOING, document("$eq", token)?)?;
        if let Some(own) = write.filter() {
            *own = last;
        }
        access.told().writes();
        return write.run(&**access.executor()).await.map(Some);
    }
    Err(busy(model, id))
}

/// The condition that an inverse lists nothing but this.
fn only(inverse: &InverseLink, listed: &[RawBson]) -> Result<RawDocumentBuf> {
    if inverse.side.is_many {
        let others = document("$elemMatch", document("$nin", array(listed))?)?;
        return document("$not", others);
    }
    document("$in", array(listed.iter().chain([&RawBson::Null])))
}

/// What comes before a marked document can go: nothing that is deleted or changed with it leads to it, or is about to.
///
/// # Errors
///
/// The error of the first rejecting document, after the change of all other documents. The marked document stays pending.
pub(super) async fn go(
    all: &Access,
    model: &'static Model,
    id: &RawBson,
    token: ObjectId,
) -> Result<()> {
    let deletion = Deletion {
        all,
        model,
        id,
        token,
    };
    let mut attempt = 1;
    while attempt <= ATTEMPTS {
        // What it leaves is newer than it is, and older than one that is inserted under its `_id` when it is gone.
        let left = copy::Source::gone();
        // One that is marked no more has gone, or stays: what refers to it is left alone.
        let Some(found) = deletion.document().await? else {
            return Ok(());
        };
        let (mut parted, mut are_swept) = (Parted::Before, false);
        let mut rejected = None;
        for rule in rules(all, model).filter(Rule::acts) {
            let listed = rule
                .lister
                .map(|inverse| found.linked.listed(model, inverse));
            match deletion.sweep(&rule, listed).await {
                Err(error) if is_rejection(&error) => {
                    rejected.get_or_insert(error);
                    continue;
                }
                swept => are_swept |= swept?,
            }
            let owners = match listed {
                Some(listed) => listed.to_vec(),
                None => some_referring(all, &rule, id).await?,
            };
            for owner in &owners {
                match deletion.part(&rule, owner, attempt).await {
                    Err(error) if is_blocking(&error) => drop(rejected.get_or_insert(error)),
                    done => parted = parted.max(done?),
                }
            }
        }
        // Another attempt now would fail again.
        if let Some(error) = rejected {
            return Err(error);
        }
        match parted {
            Parted::Before => {
                let deleted = std::iter::once(found.linked.as_deleted());
                copy::clear(all, model, deleted, &left).await?;
                tally::leave(all, model, id).await?;
                // While it is known what it refers to.
                leave(all, model, &found).await?;
                return overflow::leave_found(all, model, &deletion.marked()?).await;
            }
            Parted::NotYet if !are_swept => attempt += 1,
            // However many there are.
            Parted::NotYet | Parted::Now => attempt = 1,
        }
        // Others leave it alone meanwhile.
        let renewed = document("$set", document(DUE, due())?)?;
        update(all, model, deletion.marked()?, renewed).await?;
    }
    Err(busy(model, id))
}

/// The deletion of a document whose mark is final, by the token of its mark.
///
/// Whoever carries it out may be late: others have finished it, and another document is there under the same `_id`, to which others
/// refer. So nothing is done to what refers to it but what says so first, and then the mark is looked for: as long as that is there,
/// what refers to this `_id` refers to what goes, and stays as it is until this is done with it, or somebody has taken back what it said.
struct Deletion<'d> {
    all: &'d Access,
    model: &'static Model,
    id: &'d RawBson,
    token: ObjectId,
}

/// Whether a document was parted from one that is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Parted {
    Before,
    NotYet,
    Now,
}

impl Deletion<'_> {
    /// The condition that the document has its mark.
    fn marked(&self) -> Result<RawDocumentBuf> {
        let mut marked = by_id(self.id)?;
        append(&mut marked, GOING, document("$eq", self.token)?)?;
        Ok(marked)
    }

    /// The document, if it has its mark.
    async fn document(&self) -> Result<Option<Found>> {
        find(self.all, self.model, &self.marked()?).await
    }

    /// The condition that a document refers to what goes, and that nobody writes to it.
    async fn at_rest(&self, rule: &Rule, mut those: RawDocumentBuf) -> Result<RawDocumentBuf> {
        both(&mut those, rule.leads_to(self.all, &[self.id], SOME).await?)?;
        at_rest(&mut those)?;
        narrow(self.all, rule.model, &mut those, false).await?;
        Ok(those)
    }

    /// Parts at once all that refer to it, or those of these that do, if nobody writes to them and nothing else follows; tells whether there
    /// were any.
    async fn sweep(&self, rule: &Rule, those: Option<&[RawBson]>) -> Result<bool> {
        let all = self.all;
        if rule.is_cascading() && has_consequences(all, rule.model) {
            return Ok(false);
        }
        let those = match those {
            Some([]) => return Ok(false),
            Some(ids) => document("_id", one_of(ids)?)?,
            None => RawDocumentBuf::new(),
        };
        let (token, due) = (ObjectId::new(), due());
        let mut said = document(TOKEN, token)?;
        append(&mut said, BEFORE, RawDocumentBuf::new())?;
        append(&mut said, DUE, due)?;
        let filter = self.at_rest(rule, those).await?;
        let count = update(all, rule.model, filter, document("$set", said)?).await?;
        if count == 0 {
            return Ok(false);
        }
        let mut held = document(DUE, document("$eq", due)?)?;
        append(&mut held, TOKEN, document("$eq", token)?)?;
        let mut unsaid = document(PROMISE, "")?;
        append(&mut unsaid, DUE, "")?;
        let done = match self.document().await? {
            Some(_) => match self.part_held(rule, held.clone()).await {
                Err(error) if is_rejection(&error) => Box::pin(self.part_each(rule, &held)).await,
                done => done,
            },
            None => Ok(0),
        };
        // Where there are transactions, one may have let it refer to another meanwhile: they do not ask who has said something.
        if !done.as_ref().is_ok_and(|parted| *parted == count) {
            update(all, rule.model, held, document("$unset", unsaid)?).await?;
        }
        done.map(|_| true)
    }

    /// Parts those that are held for that, and still refer to it; tells how many they are.
    async fn part_held(&self, rule: &Rule, mut held: RawDocumentBuf) -> Result<u64> {
        let all = self.all;
        // Those that have lost it outside of them lose nothing.
        if rule.overflow().is_none() {
            let refers = document("$eq", self.id.clone())?;
            also(&mut held, rule.link.side.stored, refers)?;
        }
        if !rule.is_cascading() {
            return rule.take_out(all, held, [self.id], &[PROMISE, DUE]).await;
        }
        all.told().writes();
        let delete = Delete {
            collection: rule.model.collection.into(),
            filter: held,
            multi: true,
        };
        let done = all.executor().delete(delete).await;
        done.map(|done| done.deleted).map_err(error::of(rule.model))
    }

    /// Detaches each held document by itself, after a document has rejected the write of all.
    ///
    /// # Errors
    ///
    /// The error of the rejecting documents, after the attempt on all.
    async fn part_each(&self, rule: &Rule, held: &RawDocument) -> Result<u64> {
        let model = rule.model;
        let those = Find {
            projection: Some(document("_id", 1)?),
            ..found_by(&model.collection.into(), held)
        };
        let (mut parted, mut rejected) = (0, Rejections::default());
        for raw in self.all.find_all(model, those).await? {
            let Some(id) = decode::id(&raw) else {
                continue;
            };
            let mut one = held.to_owned();
            also(&mut one, "_id", document("$eq", id)?)?;
            match self.part_held(rule, one).await {
                Err(error) if is_rejection(&error) => {
                    rejected.push(None, model, id.into(), error)?;
                }
                done => parted += done?,
            }
        }
        rejected.into_error().map_or(Ok(parted), Err)
    }

    /// Parts a document from it, if that leads there, or is about to: then both are looked at again.
    async fn part(&self, rule: &Rule, owner: &RawBson, attempt: u32) -> Result<Parted> {
        let (all, model, token) = (self.all, rule.model, self.token);
        let Some(found) = find(all, model, &by_id(owner)?).await? else {
            return Ok(Parted::Before);
        };
        let mut held = found.held(model, rule.position);
        if !found.goes() {
            held.append(&mut rule.held_by(all, owner).await?);
        }
        if !held.contains(&Id::of(self.id)) {
            return Ok(Parted::Before);
        }
        if found.is_closing && found.going == Some(token) {
            return self.take_along(model, owner, false, attempt).await;
        }
        if found.is_in_use() {
            wait_or_settle(all, model, &found, attempt).await?;
            return Ok(Parted::NotYet);
        }
        if rule.is_cascading() {
            let free = self.at_rest(rule, by_id(owner)?).await?;
            let mark = document("$set", going_with(self.model, self.id, token)?)?;
            if update(all, model, free, mark).await? == 1 {
                // What is outside of a document is no part of the condition.
                if rule.overflow().is_some()
                    && !rule.held_by(all, owner).await?.contains(&Id::of(self.id))
                {
                    release(all, model, owner, token).await?;
                    return Ok(Parted::NotYet);
                }
                let is_to_be_asked = decision::may_be_kept(all, model);
                return self.take_along(model, owner, is_to_be_asked, attempt).await;
            }
        }
        // It is swept next time.
        Ok(Parted::NotYet)
    }

    /// Deletes a document that is marked with this one, if that still goes. What was not there when this deletion was decided may be kept
    /// by something that stays.
    async fn take_along(
        &self,
        model: &'static Model,
        id: &RawBson,
        is_to_be_asked: bool,
        attempt: u32,
    ) -> Result<Parted> {
        let (all, token) = (self.all, self.token);
        if self.document().await?.is_none() {
            release(all, model, id, token).await?;
            return Ok(Parted::NotYet);
        }
        let goes = match is_to_be_asked {
            true => close(all, model, id, token).await?,
            false => finalize(all, model, id, token).await?,
        };
        if !goes {
            // Long enough for those that wait for this to see it.
            retry::pause(attempt.saturating_add(5)).await;
            return Ok(Parted::NotYet);
        }
        // In a task of its own: however deep it goes, no stack does.
        let done = task::run(with_another(all.clone(), model, id.clone(), token));
        done.await?;
        Ok(Parted::Now)
    }
}

/// Whether more follows from the deletion of documents of a model than that they are gone.
fn has_consequences(all: &Access, model: &'static Model) -> bool {
    let mut links = model.links().iter();
    links.any(|link| link.inverse().is_some())
        || rules(all, model).next().is_some()
        || tally::is_member(all, model)
        || !model.overflows.is_empty()
        || copy::is_cleared(all, model)
}

/// Deletes a document whose mark is final.
fn with_another(
    all: Access,
    model: &'static Model,
    id: RawBson,
    token: ObjectId,
) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move {
        go(&all, model, &id, token).await?;
        let mut filter = by_id(&id)?;
        append(&mut filter, GOING, document("$eq", token)?)?;
        let delete = Delete {
            collection: model.collection.into(),
            filter,
            multi: false,
        };
        all.told().writes();
        let done = all.executor().delete(delete).await;
        done.map(drop).map_err(error::of(model))
    })
}

/// Some of those that refer to a document, or are about to, where it does not list them all.
async fn some_referring(all: &Access, rule: &Rule, id: &RawBson) -> Result<Vec<RawBson>> {
    // Where the first of them go by themselves, others may not.
    for most in [SOME, None].into_iter().take(rule.looks()) {
        let mut filter = referring(all, rule, &[id], most).await?;
        not_gone(&mut filter)?;
        let find = Find {
            limit: Some(BATCH as u64),
            ..found_by(&rule.model.collection.into(), &filter)
        };
        let found = read(all, rule.model, find).await?;
        if !found.is_empty() {
            return Ok(found.into_iter().map(|document| document.id).collect());
        }
    }
    Ok(Vec::new())
}
