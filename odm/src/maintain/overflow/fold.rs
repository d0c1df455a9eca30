//! Bringing elements back into their document when all of them fit again.

use bson::{Bson, Document, doc, oid::ObjectId};

use super::{
    At, extras,
    header::{Header, Kind, Owner, Work, array, sizes},
    order::in_order,
    read,
    room::{is_still, of_version},
    work::{attempts, count_documents, emptied, put},
};
use crate::{
    Result,
    access::Access,
    maintain::stored,
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

/// How many bytes it has at most.
fn most_bytes(field: &OverflowField) -> usize {
    field.room / 4 * 3
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
    let mut outside = Outside::default();
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
        let all = match owner.len() <= most(field) as u64 {
            true => outside.all(&at, &owner, header).await?,
            false => None,
        };
        let Some(all) = all else {
            // The first of all are to be in the document.
            let refills = field.order.is_some() && has_room_for_more(field, &owner)?;
            let is_due = refills || is_mostly_empty(&at, &owner, header).await?;
            if is_due && !super::rewrite::rewrite(&at, &owner).await? {
                retry::pause(attempt).await;
                continue;
            }
            return Ok(Folded::TooLong);
        };
        if bring_back(&at, &owner, header, all).await? {
            return Ok(Folded::Now);
        }
        retry::pause(attempt).await;
    }
    Err(at.busy())
}

/// The elements in documents outside of an owner, once they are read.
#[derive(Default)]
struct Outside {
    /// In which generation and version of the array: what goes there raises the version, what waits in the owner does not.
    of: Option<(Option<ObjectId>, i64)>,
    elements: Vec<Bson>,
}

impl Outside {
    /// All elements of an owner; none if they are too many or too large to come back. However many are pushed meanwhile, those outside
    /// are not read again.
    async fn all(
        &mut self,
        at: &At<'_>,
        owner: &Owner,
        header: &Header,
    ) -> Result<Option<Vec<Bson>>> {
        let of = Some((header.generation, header.version));
        if self.of != of {
            *self = Self::default();
            if let Some(those) = extras::of_owner(at.field, owner) {
                let inside = sizes(owner.resident.iter().chain(read::behind(owner)))?;
                let outside = extras::bytes(at.access, at.field, &those).await?;
                if inside as i64 + outside > most_bytes(at.field) as i64 {
                    return Ok(None);
                }
                let find = extras::in_order(at.field, &those)?;
                for raw in at.access.find_all(at.field.extras, find).await? {
                    let own = stored::open(&raw)?;
                    self.elements.extend(array(own.get(at.field.elements)));
                }
            }
            self.of = of;
        }
        let mut all = owner.resident.clone();
        all.extend(self.elements.iter().chain(read::behind(owner)).cloned());
        in_order(at.field, &mut all);
        let fits = all.len() <= most(at.field) && sizes(&all)? <= most_bytes(at.field);
        Ok(fits.then_some(all))
    }
}

/// Whether fewer elements are in a document than there could be: what bytes keep outside does not come back by trying again.
fn has_room_for_more(field: &OverflowField, owner: &Owner) -> Result<bool> {
    Ok(owner.resident.len() < most(field) && sizes(&owner.resident)? < field.room / 2)
}

/// Whether most of the documents with its elements have lost all of them.
async fn is_mostly_empty(at: &At<'_>, owner: &Owner, header: &Header) -> Result<bool> {
    let Some(mut those) = extras::of_owner(at.field, owner) else {
        return Ok(false);
    };
    let first = format!("{}.0", at.field.elements);
    those.insert(first, doc! { "$exists": false });
    let empty = count_documents(at.access, at.field, &those).await?;
    Ok(empty * 2 > header.next)
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
