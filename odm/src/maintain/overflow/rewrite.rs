//! Writing the elements outside of a document into new documents, with those that are too many in it.

use bson::{Bson, doc, oid::ObjectId};

use super::{
    extras::{Batch, in_order, of_owner, parts},
    header::{Kind, Owner, Work, array},
    place,
    work::{At, attempts},
    write::{of_version, room_for},
};
use crate::{Result, maintain::stored::open, retry};

/// Lets an array overflow that is longer in its document than it should be; tells whether it was.
pub(crate) async fn spill_over(at: &At<'_>) -> Result<bool> {
    for attempt in attempts() {
        let Some(owner) = at.owner().await? else {
            return Ok(false);
        };
        if owner.work().is_some() {
            at.help(owner, attempt).await?;
            continue;
        }
        if room_for(at.field, &[], &owner.resident)? == owner.resident.len() {
            return Ok(false);
        }
        if rewrite(at, &owner).await? {
            return Ok(true);
        }
        retry::pause(attempt).await;
    }
    Err(at.busy())
}

/// Writes them anew as they are read, numbered from the beginning; false if somebody has written to the array meanwhile.
pub(super) async fn rewrite(at: &At<'_>, owner: &Owner) -> Result<bool> {
    let field = at.field;
    let stays = room_for(field, &[], &owner.resident)?;
    let (stay, go) = owner.resident.split_at_checked(stays).unwrap_or_default();
    let work = Work::new(Kind::Stage);
    let mut as_read = match &owner.header {
        Some(header) => of_version(field, header),
        None => doc! { field.header: { "$exists": false } },
    };
    as_read.insert(field.stored, doc! { "$eq": owner.resident.clone() });
    // From here on nobody writes into the document but behind its elements.
    let Some(begun) = at.begin(as_read, &work, true).await? else {
        return Ok(false);
    };
    let mut elements = go.to_vec();
    if let Some(those) = of_owner(field, &begun) {
        let found = at.access.find_all(field.extras, in_order(field, &those)?);
        for raw in found.await? {
            elements.extend(array(open(&raw)?.get(field.elements)));
        }
    }
    elements.extend(begun.work().into_iter().flat_map(|work| work.block.clone()));
    let count = elements.len() as i64;
    let parts = parts(elements)?;
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
    let set = doc! {
        field.stored: Bson::from(stay.to_vec()),
        field.work: published.stored()?,
        place(field, "generation"): generation,
        place(field, "next"): parts.len() as i64,
        place(field, "count"): count,
    };
    let key = doc! { place(field, "work.key"): { "$eq": work.key } };
    let done = at.change(key, doc! { "$set": set }).await?;
    if let Some(owner) = at.owner().await?.filter(|owner| owner.is_at(work.key)) {
        at.finish(owner).await?;
    }
    Ok(done)
}
