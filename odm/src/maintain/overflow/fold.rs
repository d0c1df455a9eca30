//! Bringing elements back into their document when all of them fit again.

use bson::{Bson, Document, doc};

use super::{
    At, Reading,
    header::{Header, Kind, Owner, Work, sizes},
    order::in_order,
    read,
    room::{is_still, of_version, room_for},
    work::{attempts, count_documents, emptied, put},
};
use crate::{
    Result,
    access::Access,
    maintain::{
        link::linked::by_id,
        stored::{self, raw},
    },
    retry,
    schema::{Model, OverflowField},
};

/// What has become of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folded {
    /// All of it was in its document, or there is no document.
    Whole,
    /// All of it is in its document again.
    Now,
    /// It is too long for that.
    TooLong,
}

/// How long an array is at most that is brought back: shorter than what makes it overflow, so that the next push does not.
fn most(field: &OverflowField) -> usize {
    (field.after * 3).div_ceil(4)
}

/// Brings the elements of an array back, if it is short enough.
pub(crate) async fn fold(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    id: &Bson,
) -> Result<Folded> {
    let at = At {
        access,
        model,
        field,
        id,
    };
    for attempt in attempts() {
        let Some(owner) = at.owner().await? else {
            return Ok(Folded::Whole);
        };
        let Some(header) = &owner.header else {
            return Ok(Folded::Whole);
        };
        if header.work.is_some() {
            at.help(owner, attempt).await?;
            continue;
        }
        if owner.len() > most(field) as u64 {
            // The first of all are to be in the document.
            let refills = field.order.is_some() && has_room_for_more(field, &owner)?;
            let is_due = refills || is_mostly_empty(&at, &owner, header).await?;
            if is_due && !super::rewrite::rewrite(&at, &owner).await? {
                retry::pause(attempt).await;
                continue;
            }
            return Ok(Folded::TooLong);
        }
        let all = read_all(&at, &owner).await?;
        if all.len() > most(field) || room_for(field, &[], &all)? < all.len() {
            return Ok(Folded::TooLong);
        }
        if bring_back(&at, &owner, header, all).await? {
            return Ok(Folded::Now);
        }
        retry::pause(attempt).await;
    }
    Err(at.busy())
}

/// Whether fewer elements are in a document than there could be: what bytes keep outside does not come back by trying again.
fn has_room_for_more(field: &OverflowField, owner: &Owner) -> Result<bool> {
    Ok(owner.resident.len() < most(field) && sizes(&owner.resident)? < field.room / 2)
}

/// Whether most of the documents with its elements have lost all of them.
async fn is_mostly_empty(at: &At<'_>, owner: &Owner, header: &Header) -> Result<bool> {
    let Some(mut those) = super::extras::of_owner(at.field, owner) else {
        return Ok(false);
    };
    let first = format!("{}.0", at.field.elements);
    those.insert(first, doc! { "$exists": false });
    let empty = count_documents(at.access, at.field, &those).await?;
    Ok(empty * 2 > header.next)
}

/// The elements of an owner, if they are what they were when all of them are read.
async fn read_all(at: &At<'_>, owner: &Owner) -> Result<Vec<Bson>> {
    let reading = Reading {
        access: at.access.clone(),
        model: at.model,
        field: at.field,
        filter: by_id(&raw(at.id)?)?,
    };
    let mut all = owner.resident.clone();
    if let Some(those) = super::extras::of_owner(at.field, owner) {
        let find = super::extras::in_order(at.field, &those)?;
        for raw in at.access.find_all(at.field.extras, find).await? {
            all.extend(reading.elements_of(&stored::open(&raw)?));
        }
    }
    all.extend(read::behind(owner).cloned());
    in_order(at.field, &mut all);
    Ok(all)
}

/// Writes all elements into the document, if nothing has changed since they were read.
async fn bring_back(at: &At<'_>, owner: &Owner, header: &Header, all: Vec<Bson>) -> Result<bool> {
    let field = at.field;
    let work = Work {
        sweep: header.generation,
        ..Work::new(Kind::Sweep)
    };
    let mut condition: Document = of_version(field, header);
    condition.insert(field.work, doc! { "$exists": false });
    // A push at the end changes no version.
    condition.insert(
        super::place(field, "tail"),
        doc! { "$eq": header.tail.clone() },
    );
    condition.extend(is_still(field, &owner.resident));
    let mut update = doc! {};
    emptied(field, &work, &all, &mut update)?;
    put(&mut update, "$set", field.stored, all);
    if !at.change(condition, update).await? {
        return Ok(false);
    }
    if let Some(owner) = at.owner().await?.filter(|owner| owner.is_at(work.key)) {
        at.finish(owner).await?;
    }
    Ok(true)
}
