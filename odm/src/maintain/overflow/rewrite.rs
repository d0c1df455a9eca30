//! Writing the elements outside of a document into new documents, with those that are too many in it.

use bson::{Bson, doc, oid::ObjectId};
use tokio::time::Instant;

use super::{
    extras::{self, Batch, of_owner, parts},
    header::{Kind, Owner, Work, array},
    order::{Order, in_order},
    place,
    room::{can_stay, is_still, of_version, room_for},
    work::{At, attempts},
};
use crate::{
    Result, error,
    maintain::{LEASE, stored::open},
    retry,
    schema::OverflowField,
};

/// Lets an array overflow that is longer in its document than it should be, and brings one into its order; tells whether there was
/// something to do.
pub(crate) async fn spill_over(at: &At<'_>) -> Result<bool> {
    for attempt in attempts() {
        let Some(owner) = at.owner().await? else {
            return Ok(false);
        };
        if owner.work().is_some() {
            at.help(owner, attempt).await?;
            continue;
        }
        let is_in_order = is_in_order(at.field, &owner);
        let is_short = can_stay(at.field, &owner.resident)?;
        if is_in_order && is_short {
            return Ok(false);
        }
        let is_done = match &owner.header {
            None if is_short => sort_inside(at, &owner).await?,
            _ => rewrite(at, &owner).await?,
        };
        if is_done {
            return Ok(true);
        }
        retry::pause(attempt).await;
    }
    Err(at.busy())
}

/// Whether the elements in a document are as they are to be beside those outside of it, as far as the document knows.
pub(super) fn is_in_order(field: &OverflowField, owner: &Owner) -> bool {
    let Some(order) = Order::of(field) else {
        return true;
    };
    let is_before = |bound: &Bson| {
        let last = owner.resident.last();
        last.is_none_or(|last| !order.is_behind(last, bound))
    };
    let bound = owner.header.as_ref().map(|header| &header.bound);
    order.is_sorted(&owner.resident)
        && bound.is_none_or(|bound| bound.as_ref().is_some_and(is_before))
}

/// Brings an array into its order that is in its document as a whole.
async fn sort_inside(at: &At<'_>, owner: &Owner) -> Result<bool> {
    let field = at.field;
    let mut sorted = owner.resident.clone();
    in_order(field, &mut sorted);
    let mut as_read = is_still(field, &owner.resident);
    as_read.insert(field.header, doc! { "$exists": false });
    at.change(as_read, doc! { "$set": { field.stored: sorted } })
        .await
}

/// Writes them anew as they are read, numbered from the beginning; false if somebody has written to the array meanwhile.
pub(super) async fn rewrite(at: &At<'_>, owner: &Owner) -> Result<bool> {
    let field = at.field;
    let work = Work::new(Kind::Stage);
    let mut as_read = match &owner.header {
        Some(header) => of_version(field, header),
        None => doc! { field.header: { "$exists": false } },
    };
    as_read.extend(is_still(field, &owner.resident));
    // From here on nobody writes into the document but behind its elements.
    let Some(begun) = at.begin(as_read, &work, true).await? else {
        return Ok(false);
    };
    let mut others = Vec::new();
    if let Some(those) = of_owner(field, &begun) {
        let find = extras::in_order(field, &those)?;
        let mut found = at.access.find(field.extras, find).await?;
        let mut since = Instant::now();
        loop {
            let batch = found.next_batch().await.map_err(error::of(field.extras))?;
            if batch.is_empty() {
                break;
            }
            for raw in &batch {
                others.extend(array(open(raw)?.get(field.elements)));
            }
            // However many there are, others are to wait.
            if since.elapsed() > LEASE / 4 {
                if !at.renew(work.key).await? {
                    return Ok(false);
                }
                since = Instant::now();
            }
        }
    }
    others.extend(begun.work().into_iter().flat_map(|work| work.block.clone()));
    let order = Order::of(field);
    let mut resident = owner.resident.clone();
    if let Some(order) = &order {
        resident.append(&mut others);
        order.sort(&mut resident);
    }
    let stays = room_for(field, &[], &resident)?;
    let mut elements = resident.split_off(stays.min(resident.len()));
    let bound = order.map(|order| order.bound(&resident, &elements));
    elements.append(&mut others);
    let count = elements.len() as i64;
    let parts = parts(&elements)?;
    let generation = ObjectId::new();
    let batch = Batch {
        owner: at.id,
        generation,
        key: work.key,
        first: 0,
    };
    batch.stage(at.access, field, &parts, Some(at)).await?;
    let published = Work {
        key: work.key,
        sweep: begun.header.and_then(|header| header.generation),
        ..Work::new(Kind::Published { expects: None })
    };
    let mut set = doc! {
        field.stored: resident,
        field.work: published.stored()?,
        place(field, "generation"): generation,
        place(field, "next"): parts.len() as i64,
        place(field, "count"): count,
    };
    if let Some(bound) = bound {
        set.insert(place(field, "bound"), bound);
    }
    let done = at.change(at.is_at(work.key), doc! { "$set": set }).await?;
    if let Some(owner) = at.owner().await?.filter(|owner| owner.is_at(work.key)) {
        at.finish(owner).await?;
    }
    Ok(done)
}
