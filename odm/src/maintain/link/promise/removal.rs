//! Deletions where there are no transactions.

use bson::{RawBson, RawDocumentBuf, oid::ObjectId};

use super::{
    super::{
        BATCH, CLOSING, GOING,
        deletion::{Rule, rules},
        going::Going,
        linked::{Id, array, by_id, read},
        refusal::busy,
        update,
    },
    ATTEMPTS, about,
    decision::{self, close, referring},
    finalize,
    found::{DUE, at_rest, due, find},
    run,
    side::leave,
    wait_or_settle,
};
use crate::{
    Result,
    access::{Access, also, found_by},
    backend::{
        BoxFuture,
        operation::{Delete, Deleted, Find},
        outcome,
    },
    error,
    maintain::{Removal, Write, computed, copy, narrow, overflow, tally},
    query::{append, document},
    retry,
    schema::{InverseLink, Model, OnDelete},
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
pub(super) async fn go(
    all: &Access,
    model: &'static Model,
    id: &RawBson,
    token: ObjectId,
) -> Result<()> {
    let mut marked = by_id(id)?;
    append(&mut marked, GOING, document("$eq", token)?)?;
    let mut attempt = 1;
    while attempt <= ATTEMPTS {
        // One that is marked no more has gone, or stays: what refers to it is left alone.
        let Some(found) = find(all, model, &marked).await? else {
            return Ok(());
        };
        let mut parted = Parted::Before;
        for rule in rules(all, model).filter(Rule::acts) {
            let owners = match rule.lister {
                Some(inverse) => found.linked.listed(model, inverse).to_vec(),
                None => {
                    sweep(all, &rule, id).await?;
                    some_referring(all, &rule, id).await?
                }
            };
            for owner in &owners {
                parted = parted.max(part(all, &rule, owner, (id, token), attempt).await?);
            }
        }
        match parted {
            Parted::Before => {
                copy::clear(all, model, std::iter::once(id)).await?;
                tally::leave(all, model, id).await?;
                overflow::leave_found(all, model, &marked).await?;
                return leave(all, model, &found).await;
            }
            Parted::NotYet => attempt += 1,
            // However many there are.
            Parted::Now => attempt = 1,
        }
        // Others leave it alone meanwhile.
        let renewed = document("$set", document(DUE, due())?)?;
        update(all, model, marked.clone(), renewed).await?;
    }
    Err(busy(model, id))
}

/// Parts at once all that refer to a document which does not list them all, if nobody writes to them and nothing else follows.
async fn sweep(all: &Access, rule: &Rule, gone: &RawBson) -> Result<()> {
    let refers = document("$eq", gone.clone())?;
    let mut filter = document(rule.link.side.stored, refers)?;
    at_rest(&mut filter)?;
    narrow(all, rule.model, &mut filter, false).await?;
    all.told().writes();
    let done = if rule.link.on_delete == OnDelete::Cascade {
        let mut links = rule.model.links().iter();
        if links.any(|link| link.inverse().is_some())
            || rules(all, rule.model).next().is_some()
            || tally::is_member(all, rule.model)
            || !rule.model.overflows.is_empty()
            || copy::is_cleared(all, rule.model)
        {
            return Ok(());
        }
        let delete = Delete {
            collection: rule.model.collection.into(),
            filter,
            multi: true,
        };
        all.executor().delete(delete).await.map(drop)
    } else {
        let (write, left) = rule.part(all, filter, [gone])?;
        let done = computed::run(all, rule.model, write).await;
        left.carry_out_behind(all, rule.model);
        done.map(drop)
    };
    done.map_err(error::of(rule.model))
}

/// Whether a document was parted from one that is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Parted {
    Before,
    NotYet,
    Now,
}

/// Parts a document from one that is deleted, if it leads there, or is about to: then both are looked at again.
async fn part(
    all: &Access,
    rule: &Rule,
    owner: &RawBson,
    (gone, token): (&RawBson, ObjectId),
    attempt: u32,
) -> Result<Parted> {
    let model = rule.model;
    let Some(found) = find(all, model, &by_id(owner)?).await? else {
        return Ok(Parted::Before);
    };
    if !found.held(model, rule.position).contains(&Id::of(gone)) {
        return Ok(Parted::Before);
    }
    if found.is_closing && found.going == Some(token) {
        // It was asked for when the deletion was decided.
        if finalize(all, model, owner, token).await? {
            // In a task of its own: however deep it goes, no stack does.
            let done = tokio::spawn(with_another(all.clone(), model, owner.clone(), token)).await;
            outcome(done).flatten()?;
        }
        return Ok(Parted::Now);
    }
    if found.is_in_use() {
        wait_or_settle(all, model, &found, attempt).await?;
        return Ok(Parted::NotYet);
    }
    let mut filter = by_id(owner)?;
    let refers = document("$eq", gone.clone())?;
    append(&mut filter, rule.link.side.stored, refers)?;
    if rule.link.on_delete == OnDelete::Cascade {
        let removal = narrowed(all, model, rule.cascade(filter)?).await?;
        // In a task of its own: however deep it goes, no stack does.
        let done = tokio::spawn(delete(all.clone(), model, removal)).await;
        outcome(done).flatten()?;
    } else {
        let (write, left) = rule.part(all, filter, [gone])?;
        let write = narrowed(all, model, write).await?;
        Box::pin(run(all, model, write)).await?;
        left.carry_out_behind(all, model);
    }
    Ok(Parted::Now)
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

/// As a function that says what it gives: a deletion may lead to one of the same kind.
fn delete(
    all: Access,
    model: &'static Model,
    removal: Removal,
) -> BoxFuture<'static, Result<Deleted>> {
    Box::pin(async move { run(&all, model, removal).await })
}

async fn narrowed<W: Write>(access: &Access, model: &'static Model, mut write: W) -> Result<W> {
    if let Some(filter) = write.filter() {
        narrow(access, model, filter, false).await?;
    }
    Ok(write)
}

/// Some of those that refer to a document, or are about to, where it does not list them all.
async fn some_referring(all: &Access, rule: &Rule, id: &RawBson) -> Result<Vec<RawBson>> {
    let filter = referring(all, rule, &[id]).await?;
    let find = Find {
        limit: Some(BATCH as u64),
        ..found_by(&rule.model.collection.into(), &filter)
    };
    let found = read(all, rule.model, find).await?;
    Ok(found.into_iter().map(|document| document.id).collect())
}
