//! Mending what a check finds: each step looks again before it writes, and is nothing if all is right meanwhile.

use std::collections::BTreeSet;

use bson::{RawBson, oid::ObjectId};

use super::{
    FENCE,
    deletion::Rule,
    linked::{Id, Linked, array, by_id, holds, read},
    listing::Listing,
    outside::both,
    promise, run,
    sides::Sides,
    update,
};
use crate::{
    Result,
    access::{Access, found_by},
    backend::operation::Find,
    maintain::{Write, narrow},
    query::{append, document},
    schema::{InverseLink, Model, OnDelete},
    unit,
};

/// What mends a fault.
#[derive(Debug, Clone)]
pub(crate) enum Mending {
    /// The inverse of a link is as the reference says.
    Agree { owner: RawBson, target: RawBson },
    /// A reference that leads nowhere is as if what it leads to were deleted.
    Part { owner: RawBson, gone: RawBson },
}

/// Mends what is wrong with a link, and tells whether something was.
pub(crate) async fn mend(all: &Access, rule: Rule, mending: Mending) -> Result<bool> {
    if let (Mending::Agree { owner, target }, false, Some(inverse)) =
        (&mending, all.has_transactions(), rule.inverse)
    {
        return promise::agree(all, &rule, inverse, owner, target).await;
    }
    let work = |all: Access| {
        let mending = mending.clone();
        async move {
            match mending {
                Mending::Agree { owner, target } => agree(&all, &rule, &owner, &target).await,
                Mending::Part { owner, gone } => part(&all, &rule, &owner, &gone).await,
            }
        }
    };
    all.together(unit::ATTEMPTS, work).await
}

async fn agree(all: &Access, rule: &Rule, owner: &RawBson, target: &RawBson) -> Result<bool> {
    let other = (rule.link.side.model)();
    let (Some(inverse), Some(there)) = (rule.inverse, one(all, other, target).await?) else {
        return Ok(false);
    };
    let refers = match one(all, rule.model, owner).await? {
        Some(_) if rule.overflow().is_some() => {
            let target = BTreeSet::from([Id::of(target)]);
            !rule.among(all, owner, &target).await?.is_empty()
        }
        Some(owner) => owner.held(rule.position).contains(&Id::of(target)),
        None => false,
    };
    let (mut sides, owners) = (Sides::new(all, all), vec![owner.clone()]);
    let is_listed = match Listing::of(rule.link, inverse) {
        Some(listing) => holds(&listing.all(all, target).await?, owner),
        None => holds(there.listed(other, inverse), owner),
    };
    match (refers, is_listed) {
        (true, false) => {
            let target = target.clone();
            sides.enter(rule.link, inverse, target, owners).await?;
        }
        (false, true) => sides.leave(rule.link, inverse, target, &owners).await?,
        _ => return Ok(false),
    }
    sides.write().await?;
    Ok(true)
}

async fn part(all: &Access, rule: &Rule, owner: &RawBson, gone: &RawBson) -> Result<bool> {
    if one(all, (rule.link.side.model)(), gone).await?.is_some() {
        return Ok(false);
    }
    let mut filter = by_id(owner)?;
    let Some(as_read) = rule.refers_as_read(all, owner, gone).await? else {
        return Ok(false);
    };
    both(&mut filter, as_read)?;
    if rule.link.on_delete == OnDelete::Cascade {
        let mut removal = rule.cascade(filter)?;
        if let Some(filter) = removal.filter() {
            narrow(all, rule.model, filter, false).await?;
        }
        let done = run(all.clone(), rule.model, removal).await?;
        return Ok(done.deleted > 0);
    }
    if rule.overflow().is_some() {
        narrow(all, rule.model, &mut filter, false).await?;
        return Ok(rule.take_out(all, filter, [gone], &[]).await? > 0);
    }
    let (mut write, owed) = rule.part(all, filter, [gone])?;
    narrow(all, rule.model, &mut write.filter, false).await?;
    let done = run(all.clone(), rule.model, write).await?;
    owed.carry_out_behind(all, rule.model);
    Ok(done.matched > 0)
}

/// Lists once what an inverse lists more often, each where it stands first.
pub(crate) async fn list_once(
    all: &Access,
    model: &'static Model,
    inverse: &InverseLink,
    id: &RawBson,
) -> Result<bool> {
    let path = inverse.side.stored;
    let Some(found) = one(all, model, id).await? else {
        return Ok(false);
    };
    let outside;
    let listing = Listing::on(model, inverse);
    let listed = match &listing {
        Some(listing) => {
            outside = listing.all(all, id).await?;
            &outside
        }
        None => found.listed(model, inverse),
    };
    let mut seen = BTreeSet::new();
    let once: Vec<_> = listed.iter().filter(|id| seen.insert(Id::of(id))).collect();
    if once.len() == listed.len() {
        return Ok(false);
    }
    if let Some(listing) = listing {
        return listing.replace(all, id, found.fence.as_ref(), &once).await;
    }
    let mut filter = by_id(id)?;
    append(&mut filter, path, document("$eq", array(listed))?)?;
    let mut set = document(path, array(once))?;
    append(&mut set, FENCE, ObjectId::new())?;
    Ok(update(all, model, filter, document("$set", set)?).await? == 1)
}

async fn one(all: &Access, model: &Model, id: &RawBson) -> Result<Option<Linked>> {
    let find = Find {
        limit: Some(1),
        ..found_by(&model.collection.into(), &by_id(id)?)
    };
    Ok(read(all, model, find).await?.pop())
}
