//! Deletions where there are no transactions.

use bson::{RawArrayBuf, RawBson, RawDocumentBuf, oid::ObjectId};

use super::{
    super::{
        BATCH, GOING,
        deletion::{Rule, refuse_restricted, rules},
        linked::{Id, array, by_id, read},
        refusal::{busy, restricted},
        update,
    },
    ATTEMPTS, about,
    found::{CLOSING, DUE, WANTED, at_rest, due, find},
    run,
    side::leave,
    wait_or_settle,
};
use crate::{
    ErrorKind, Result,
    access::{Access, also, found_by},
    backend::{
        BoxFuture,
        operation::{Delete, Deleted, Find},
        outcome,
    },
    error,
    maintain::{Removal, Write, narrow},
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
        refuse_restricted(&all, model, std::slice::from_ref(&found.linked)).await?;
        at_rest(&mut filter)?;
        let mut is_closing = false;
        for rule in rules(&all, model).filter(Rule::is_restricting) {
            match rule.inverse {
                None => is_closing = true,
                Some(inverse) => {
                    let listed = found.linked.listed(model, inverse);
                    also(&mut filter, inverse.side.stored, only(inverse, listed)?)?;
                }
            }
        }
        let token = ObjectId::new();
        let mut mark = document(GOING, token)?;
        append(&mut mark, DUE, due())?;
        if is_closing {
            append(&mut mark, CLOSING, true)?;
        }
        if update(access, model, filter, document("$set", mark)?).await? == 0 {
            retry::pause(attempt).await;
            continue;
        }
        if is_closing && !close(&all, model, id, token).await? {
            continue;
        }
        go_or_stay(&all, model, id, token).await?;
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

/// Makes a mark final, unless something refers to the document that must not lose it: then it is taken away. It gives false
/// if somebody else has decided that meanwhile.
pub(super) async fn close(
    all: &Access,
    model: &'static Model,
    id: &RawBson,
    token: ObjectId,
) -> Result<bool> {
    for rule in rules(all, model).filter(Rule::is_restricting) {
        if rule.inverse.is_some() {
            continue;
        }
        let owners = referring(all, &rule, id).await?;
        let others = owners.iter().filter(|owner| {
            Id::of(owner) != Id::of(id) || rule.model.collection != model.collection
        });
        let others = others.count();
        if others > 0 {
            stay(all, model, id, token).await?;
            return Err(restricted(&rule, id, others as u64));
        }
    }
    let mut filter = by_id(id)?;
    append(&mut filter, GOING, document("$eq", token)?)?;
    let unset = document("$unset", document(CLOSING, "")?)?;
    Ok(update(all, model, filter, unset).await? == 1)
}

/// Takes the mark away again.
async fn stay(all: &Access, model: &Model, id: &RawBson, token: ObjectId) -> Result<()> {
    let mut filter = by_id(id)?;
    append(&mut filter, GOING, document("$eq", token)?)?;
    let mut unset = RawDocumentBuf::new();
    for field in [GOING, CLOSING, DUE] {
        append(&mut unset, field, "")?;
    }
    update(all, model, filter, document("$unset", unset)?).await?;
    Ok(())
}

/// What comes before a marked document can go: nothing that is deleted or changed with it leads to it, or is about to.
async fn go(all: &Access, model: &'static Model, id: &RawBson, token: ObjectId) -> Result<()> {
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
            let owners = match rule.inverse {
                Some(inverse) => found.linked.listed(model, inverse).to_vec(),
                None => {
                    sweep(all, &rule, id).await?;
                    referring(all, &rule, id).await?
                }
            };
            for owner in &owners {
                parted = parted.max(part(all, &rule, owner, id, attempt).await?);
            }
        }
        match parted {
            Parted::Before => return leave(all, model, &found).await,
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

/// The same, and the document stays if something that would have to go with it may not.
pub(super) async fn go_or_stay(
    all: &Access,
    model: &'static Model,
    id: &RawBson,
    token: ObjectId,
) -> Result<()> {
    let gone = go(all, model, id, token).await;
    if let Err(error) = &gone
        && error.kind() == ErrorKind::Restricted
    {
        stay(all, model, id, token).await?;
    }
    gone
}

/// Parts at once all that refer to a document which does not list them, if nobody writes to them and nothing else follows.
async fn sweep(all: &Access, rule: &Rule, gone: &RawBson) -> Result<()> {
    let refers = document("$eq", gone.clone())?;
    let mut filter = document(rule.link.side.stored, refers)?;
    at_rest(&mut filter)?;
    narrow(all, rule.model, &mut filter, false).await?;
    all.told().writes();
    let done = if rule.link.on_delete == OnDelete::Cascade {
        let mut links = rule.model.links.iter();
        if links.any(|link| link.inverse().is_some()) || rules(all, rule.model).next().is_some() {
            return Ok(());
        }
        let delete = Delete {
            collection: rule.model.collection.into(),
            filter,
            multi: true,
        };
        all.executor().delete(delete).await.map(drop)
    } else {
        let write = rule.part(filter, [gone])?;
        all.executor().update(write).await.map(drop)
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
    gone: &RawBson,
    attempt: u32,
) -> Result<Parted> {
    let model = rule.model;
    let Some(found) = find(all, model, &by_id(owner)?).await? else {
        return Ok(Parted::Before);
    };
    if !found.held(model, rule.position).contains(&Id::of(gone)) {
        return Ok(Parted::Before);
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
        let write = narrowed(all, model, rule.part(filter, [gone])?).await?;
        Box::pin(run(all, model, write)).await?;
    }
    Ok(Parted::Now)
}

/// As a function that says what it gives: a deletion may lead to one of the same kind.
fn delete(
    all: Access,
    model: &'static Model,
    removal: Removal,
) -> BoxFuture<'static, Result<Deleted>> {
    Box::pin(async move { run(&all, model, removal).await })
}

async fn narrowed<W: Write>(access: &Access, model: &Model, mut write: W) -> Result<W> {
    if let Some(filter) = write.filter() {
        narrow(access, model, filter, false).await?;
    }
    Ok(write)
}

/// Some of those that refer to a document, or are about to, where it does not list them.
async fn referring(all: &Access, rule: &Rule, id: &RawBson) -> Result<Vec<RawBson>> {
    let path = rule.link.side.stored;
    let mut are = document(path, document("$eq", id.clone())?)?;
    narrow(all, rule.model, &mut are, false).await?;
    let mut will = document(DUE, document("$exists", true)?)?;
    let wanted = format!("{WANTED}.{path}");
    append(&mut will, &wanted, document("$eq", id.clone())?)?;
    let mut either = RawArrayBuf::new();
    either.push(are);
    either.push(will);
    let filter = document("$or", either)?;
    let find = Find {
        limit: Some(BATCH as u64),
        ..found_by(&rule.model.collection.into(), &filter)
    };
    let found = read(all, rule.model, find).await?;
    Ok(found.into_iter().map(|document| document.id).collect())
}
