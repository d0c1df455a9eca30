//! The other sides of what a document refers to, or does not any more.

use std::collections::BTreeSet;

use bson::{RawBson, RawDocumentBuf, oid::ObjectId};

use super::{
    super::{
        BATCH, FENCE, GOING,
        deletion::Rule,
        linked::{Id, array, by_id, holds, one_of},
        listing::{Listing, Turn},
        refusal::{busy, dangling, full, taken},
        update,
    },
    ATTEMPTS,
    found::{DUE, Found, TOKEN, due, find, find_all},
    wait_or_settle,
};
use crate::{
    Result,
    access::Access,
    batches::id_batches,
    maintain::overflow,
    query::{append, document},
    retry,
    schema::{InverseLink, Model, OwnLink},
    soft_delete::Sight,
};

/// Of how many documents that one enters others are told that it is still at it.
const OFTEN: usize = 100;

/// Enters a document on the other sides of what it refers to, or may from now on.
pub(super) async fn enter(
    access: &Access,
    model: &'static Model,
    found: &Found,
    token: ObjectId,
) -> Result<()> {
    // Whoever finishes it sees all scopes: the target must be one that the writer of the document sees.
    let access = access.in_scope_of(model, found.linked.scope.as_ref());
    let access = &access.seeing(Sight::Present);
    let Some(promise) = found
        .promise
        .as_ref()
        .filter(|promise| promise.token == token)
    else {
        return Err(busy(model, &found.linked.id));
    };
    let owner = &found.linked.id;
    for rule in Rule::of(model) {
        let before = promise.before(model, rule.position);
        let mut held = found.held(model, rule.position);
        if promise.is_of_insert() {
            held.append(&mut rule.held_by(&access.to_everything(), owner).await?);
        }
        let mut entered: Vec<_> = held.difference(&before).cloned().collect();
        if rule.overflow().is_some() && rule.inverse.is_none() {
            entered = others(access, &rule, (owner, token), &entered).await?;
        }
        for (position, target) in entered.iter().enumerate() {
            if position > 0 && position % OFTEN == 0 {
                renew(access, model, owner, token).await?;
            }
            match rule.inverse {
                Some(inverse) => side(access, &rule, inverse, owner, target).await?,
                None => look_at(access, &rule, owner, target).await?,
            }
        }
    }
    Ok(())
}

/// Those of very many documents that are referred to of which it is not clear that they are there and stay. What is promised is kept up
/// meanwhile.
async fn others(
    access: &Access,
    rule: &Rule,
    (owner, token): (&RawBson, ObjectId),
    targets: &[Id],
) -> Result<Vec<Id>> {
    let model = (rule.link.side.model)();
    let mut others = Vec::new();
    for (position, some) in id_batches(targets, BATCH).enumerate() {
        if position > 0 {
            renew(access, rule.model, owner, token).await?;
        }
        let ids = some.iter().map(Id::value).collect::<Result<Vec<_>>>()?;
        let found = find_all(access, model, document("_id", one_of(&ids)?)?).await?;
        let stay = found.iter();
        let stay = stay.filter(|found| !found.may_stay_or_go() && found.going.is_none());
        let stay: BTreeSet<_> = stay.map(|found| Id::of(&found.linked.id)).collect();
        others.extend(some.iter().filter(|id| !stay.contains(id)).cloned());
    }
    Ok(others)
}

/// Others leave what a document promises to its writer for some time more; an error if they have given it up.
async fn renew(
    access: &Access,
    model: &'static Model,
    owner: &RawBson,
    token: ObjectId,
) -> Result<()> {
    let mut promised = by_id(owner)?;
    append(&mut promised, TOKEN, document("$eq", token)?)?;
    let renewed = document("$set", document(DUE, due())?)?;
    match update(&access.to_everything(), model, promised, renewed).await? {
        0 => Err(busy(model, owner)),
        _ => Ok(()),
    }
}

/// Whether a document is there that is referred to, and does not go.
async fn look_at(access: &Access, rule: &Rule, owner: &RawBson, target: &Id) -> Result<()> {
    let model = (rule.link.side.model)();
    let id = target.value()?;
    for attempt in 1..=ATTEMPTS {
        match find(access, model, &by_id(&id)?).await? {
            Some(found) if found.may_stay_or_go() && !is_itself(rule, owner, target) => {
                wait(access, rule.link, &found, attempt).await?;
            }
            Some(found) if found.going.is_none() => return Ok(()),
            _ => return Err(dangling(rule.link, &id)),
        }
    }
    Err(busy(model, &id))
}

/// Whether a document refers to itself.
fn is_itself(rule: &Rule, owner: &RawBson, target: &Id) -> bool {
    rule.is_of_one_model() && Id::of(owner) == *target
}

/// Waits until it is known whether a document stays that is to be referred to. One whose insert nobody finishes is as if it were not
/// there: it is not finished here, as two that refer to each other would be so without an end.
async fn wait(access: &Access, link: &OwnLink, found: &Found, attempt: u32) -> Result<()> {
    if found.is_closing {
        return wait_or_settle(access, (link.side.model)(), found, attempt).await;
    }
    if found.is_overdue() {
        return Err(dangling(link, &found.linked.id));
    }
    retry::pause(attempt).await;
    Ok(())
}

/// Leaves the other sides of what a document does not refer to any more.
pub(super) async fn leave(access: &Access, model: &'static Model, found: &Found) -> Result<()> {
    // A reference that was refused may lead to a document of another scope, which must not be changed.
    let access = &access.in_scope_of(model, found.linked.scope.as_ref());
    let owner = &found.linked.id;
    for rule in Rule::of(model) {
        let (Some(inverse), position) = (rule.inverse, rule.position) else {
            continue;
        };
        let mut all = found.linked.held(position);
        let mut held = found.held(model, position);
        if let Some(promise) = &found.promise {
            all.append(&mut promise.before(model, position));
            all.append(&mut promise.wanted(model, position));
        }
        if let Some(field) = rule.overflow() {
            if found.goes() {
                all.append(&mut rule.held_by(access, owner).await?);
            } else {
                // What it has been told, it does first.
                overflow::rest(access, model, field, owner).await?;
                held.append(&mut rule.among(access, owner, &all).await?);
            }
        }
        for target in all.difference(&held) {
            side(access, &rule, inverse, owner, target).await?;
        }
    }
    Ok(())
}

/// Whether a document refers to another one, or is about to.
async fn refers(access: &Access, rule: &Rule, owner: &Found, target: &Id) -> Result<bool> {
    if owner.held(rule.model, rule.position).contains(target) {
        return Ok(true);
    }
    if owner.goes() || rule.overflow().is_none() {
        return Ok(false);
    }
    let (all, target) = (access.to_everything(), BTreeSet::from([target.clone()]));
    let among = rule.among(&all, &owner.linked.id, &target).await?;
    Ok(!among.is_empty())
}

/// Brings the inverse in one document up to date with one that refers to it, or does not.
async fn side(
    access: &Access,
    rule: &Rule,
    inverse: &'static InverseLink,
    owner_id: &RawBson,
    target: &Id,
) -> Result<()> {
    let Rule { model, link, .. } = *rule;
    let other = (link.side.model)();
    let (path, target_id) = (inverse.side.stored, target.value()?);
    for attempt in 1..=ATTEMPTS {
        // The fence first, then the truth.
        let there = find(access, other, &by_id(&target_id)?).await?;
        let owner = find(&access.to_everything(), model, &by_id(owner_id)?).await?;
        let is_wanted = match &owner {
            Some(owner) => refers(access, rule, owner, target).await?,
            None => false,
        };
        if let Some(there) = &there
            && is_wanted
            && there.may_stay_or_go()
            && !is_itself(rule, owner_id, target)
        {
            wait(access, link, there, attempt).await?;
            continue;
        }
        let Some(there) = there.filter(|there| there.going.is_none() || !is_wanted) else {
            return match is_wanted {
                true => Err(dangling(link, &target_id)),
                false => Ok(()),
            };
        };
        let fence = match &there.linked.fence {
            Some(fence) => document("$eq", fence.clone())?,
            None => document("$exists", false)?,
        };
        if let Some(listing) = Listing::of(link, inverse) {
            let turn = match is_wanted {
                true => Turn::Enters,
                false => Turn::Leaves,
            };
            if turn == Turn::Leaves && there.going.is_some() && !there.is_closing {
                // All of it goes.
                return Ok(());
            }
            let mut condition = Listing::condition(&target_id, turn)?;
            append(&mut condition, FENCE, fence)?;
            let owners = std::slice::from_ref(owner_id);
            let write = listing.write(access, &condition, turn, owners, ObjectId::new());
            if write.await? {
                return Ok(());
            }
            retry::pause(attempt).await;
            continue;
        }
        let listed = there.linked.listed(other, inverse);
        let is_listed = holds(listed, owner_id);
        let mut filter = by_id(&target_id)?;
        append(&mut filter, FENCE, fence)?;
        let mut set = document(FENCE, ObjectId::new())?;
        let mut change = RawDocumentBuf::new();
        match (is_wanted, is_listed, inverse.side.is_many) {
            (true, false, true) => {
                if inverse.max.is_some_and(|max| listed.len() >= max) {
                    return Err(full(link, inverse, &target_id));
                }
                append(&mut filter, GOING, document("$exists", false)?)?;
                append(&mut change, "$push", document(path, owner_id.clone())?)?;
            }
            (true, false, false) => {
                if !listed.is_empty() {
                    return Err(taken(link, inverse, &target_id));
                }
                append(&mut filter, GOING, document("$exists", false)?)?;
                append(&mut set, path, owner_id.clone())?;
            }
            (false, true, true) => {
                append(&mut change, "$pullAll", document(path, array([owner_id]))?)?;
            }
            (false, true, false) if (inverse.omits_none)() => {
                append(&mut change, "$unset", document(path, "")?)?;
            }
            (false, true, false) => append(&mut set, path, RawBson::Null)?,
            // Nothing changes but the fence: a slower one must not write what it has seen before.
            (true, true, _) | (false, false, _) => {}
        }
        append(&mut change, "$set", set)?;
        if update(access, other, filter, change).await? == 1 {
            return Ok(());
        }
        retry::pause(attempt).await;
    }
    Err(busy(other, &target_id))
}

/// Brings an inverse up to date with a document that refers to it, or does not, and is not being written to.
pub(in super::super) async fn agree(
    all: &Access,
    rule: &Rule,
    inverse: &'static InverseLink,
    owner: &RawBson,
    target: &RawBson,
) -> Result<bool> {
    let found = find(all, rule.model, &by_id(owner)?).await?;
    let found = found.as_ref();
    if let Some(found) = found.filter(|found| found.is_in_use()) {
        wait_or_settle(all, rule.model, found, 1).await?;
    }
    side(all, rule, inverse, owner, &Id::of(target)).await?;
    Ok(true)
}
