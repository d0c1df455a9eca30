//! Whether the elements outside of documents are where their owners say.

use std::ops::RangeInclusive;

use bson::{Bson, Document, RawDocumentBuf, doc};

use super::{
    At,
    extras::{self, of_owner},
    header::{Owner, integer},
    order::Order,
    read,
};
use crate::{
    Result,
    access::{Access, found_by},
    backend::operation::Find,
    maintain::stored::{close, open},
    retry,
    schema::{Model, OverflowField},
};

/// Something in an array that is not as it should be.
#[derive(Debug, Clone)]
pub(crate) struct Misplaced {
    /// Where the document is in its batch.
    pub(crate) document: usize,
    pub(crate) field: &'static OverflowField,
    pub(crate) what: Wrong,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Wrong {
    /// It says that there are more, or does not, against what there is.
    Flag(bool),
    /// So many elements are in the document, or they are too large.
    Inside(usize),
    /// So many are said to be outside, and are.
    Count(i64, i64),
    /// Of each of the numbers from one to another there are so many documents.
    Seq(RangeInclusive<i64>, usize),
    /// Elements are not in their order, or not the first ones are in the document.
    Order,
}

/// What is wrong with arrays of some documents, though nothing is being done to them.
pub(crate) async fn misplaced(
    access: &Access,
    model: &'static Model,
    batch: &[RawDocumentBuf],
) -> Result<Vec<Misplaced>> {
    let mut found = Vec::new();
    for field in model.overflows {
        for (document, raw) in batch.iter().enumerate() {
            let owner = Owner::of(field, raw)?;
            // One that is about to be deleted has lost them already.
            let own = raw.get_document("_odm").ok();
            let is_going =
                own.is_some_and(|own| own.get("going").is_ok_and(|going| going.is_some()));
            if is_going || owner.work().is_some() {
                continue;
            }
            let wrong = look_at(access, field, &owner).await?;
            found.extend(wrong.into_iter().map(|what| Misplaced {
                document,
                field,
                what,
            }));
        }
    }
    Ok(found)
}

async fn look_at(
    access: &Access,
    field: &'static OverflowField,
    owner: &Owner,
) -> Result<Vec<Wrong>> {
    let mut wrong = Vec::new();
    if owner.flag != owner.header.is_some() {
        wrong.push(Wrong::Flag(owner.flag));
    }
    if !super::room::can_stay(field, &owner.resident)? {
        wrong.push(Wrong::Inside(owner.resident.len()));
    }
    if !super::rewrite::is_in_order(field, owner) || is_ahead(access, field, owner).await? {
        wrong.push(Wrong::Order);
    }
    let Some(header) = &owner.header else {
        return Ok(wrong);
    };
    let count = read::count(access, field, owner).await?;
    if count != header.count {
        wrong.push(Wrong::Count(header.count, count));
    }
    if let Some(those) = of_owner(field, owner) {
        let numbers = numbers(access, field, &those).await?;
        wrong.extend(out_of_sequence(numbers, header.next));
    }
    Ok(wrong)
}

/// Whether an element outside comes before what is to come before it.
async fn is_ahead(access: &Access, field: &'static OverflowField, owner: &Owner) -> Result<bool> {
    let header = owner.header.as_ref();
    let Some((order, bound)) = Order::of(field).zip(header.and_then(|own| own.bound.clone()))
    else {
        return Ok(false);
    };
    let is_before = |element: &Bson| order.is_before(element, &bound);
    let first = read::first_outside(access, field, owner, &order).await?;
    Ok(read::behind(owner).chain(&first).any(is_before))
}

/// What keeps numbers from being each of those below the next one, once.
fn out_of_sequence(mut numbers: Vec<i64>, next: i64) -> Vec<Wrong> {
    numbers.sort_unstable();
    let mut wrong = Vec::new();
    let mut expected = 0;
    for same in numbers.chunk_by(|a, b| a == b) {
        let number = same.first().copied().unwrap_or(expected);
        if number > expected {
            wrong.push(Wrong::Seq(expected..=number - 1, 0));
        }
        if same.len() > 1 {
            wrong.push(Wrong::Seq(number..=number, same.len()));
        }
        expected = number.saturating_add(1);
    }
    if expected < next {
        wrong.push(Wrong::Seq(expected..=next - 1, 0));
    }
    wrong
}

async fn numbers(access: &Access, field: &OverflowField, those: &Document) -> Result<Vec<i64>> {
    let find = Find {
        projection: Some(close(&doc! { "_id": 0, field.seq: 1 })?),
        ..found_by(&field.extras.collection.into(), &close(those)?)
    };
    let found = access.find_all(field.extras, find).await?;
    let numbers = found
        .iter()
        .map(|raw| Ok(integer(open(raw)?.get(field.seq))));
    numbers.collect()
}

/// The documents with elements that no owner reads, by their ids, with what they say of their owner and their number.
pub(crate) async fn look_for_orphans(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
) -> Result<Vec<(Bson, Bson, i64)>> {
    let find = Find {
        projection: Some(close(
            &doc! { "_id": 1, "_odm": 1, field.owner: 1, field.seq: 1 },
        )?),
        sort: Some(close(&doc! { field.owner: 1 })?),
        ..found_by(
            &field.extras.collection.into(),
            &close(&doc! { "_odm.own": { "$exists": false } })?,
        )
    };
    let mut cursor = access.find(field.extras, find).await?;
    let mut orphans = Vec::new();
    let mut last: Option<(Bson, Option<Owner>)> = None;
    loop {
        let batch = cursor
            .next_batch()
            .await
            .map_err(crate::error::of(field.extras))?;
        if batch.is_empty() {
            return Ok(orphans);
        }
        for raw in &batch {
            let document = open(raw)?;
            let id = document.get(field.owner).cloned().unwrap_or(Bson::Null);
            if last.as_ref().is_none_or(|(other, _)| *other != id) {
                let at = At {
                    access,
                    model,
                    field,
                    id: &id,
                };
                last = Some((id.clone(), at.owner().await?));
            }
            let owner = last.as_ref().and_then(|(_, owner)| owner.as_ref());
            if is_orphan(field, owner, &document)
                && is_orphan_still(access, model, field, &id, &document).await?
            {
                let seq = integer(document.get(field.seq));
                let own = document.get("_id").cloned().unwrap_or(Bson::Null);
                orphans.push((own, id, seq));
            }
        }
    }
}

fn is_orphan(field: &OverflowField, owner: Option<&Owner>, document: &Document) -> bool {
    let Some(owner) = owner else { return true };
    let own = document.get_document("_odm").ok();
    let generation = own.and_then(|own| own.get_object_id("generation").ok());
    let seq = integer(document.get(field.seq));
    let header = owner.header.as_ref();
    // What is being done may be what it waits for.
    owner.work().is_none()
        && !header.is_some_and(|header| {
            generation.is_some()
                && header.generation == generation
                && (0..header.next).contains(&seq)
        })
}

/// Somebody may be writing: it is looked at again, the document first.
async fn is_orphan_still(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    id: &Bson,
    document: &Document,
) -> Result<bool> {
    let this =
        doc! { "_id": { "$eq": document.get("_id").cloned() }, "_odm.own": { "$exists": false } };
    if super::work::count_documents(access, field, &this).await? == 0 {
        return Ok(false);
    }
    let at = At {
        access,
        model,
        field,
        id,
    };
    Ok(is_orphan(field, at.owner().await?.as_ref(), document))
}

/// Mends what is wrong with an array; false if nothing is.
pub(crate) async fn mend(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    id: &Bson,
) -> Result<bool> {
    let at = At {
        access,
        model,
        field,
        id,
    };
    let mut is_mended = false;
    for attempt in super::work::attempts() {
        let Some(owner) = at.owner().await? else {
            return Ok(is_mended);
        };
        if owner.work().is_some() {
            at.help(owner, attempt).await?;
            continue;
        }
        let wrong = look_at(access, field, &owner).await?;
        let Some(first) = wrong.first() else {
            return Ok(is_mended);
        };
        let as_read = match &owner.header {
            Some(header) => {
                let mut condition = super::room::of_version(field, header);
                condition.insert(field.work, doc! { "$exists": false });
                condition
            }
            None => doc! { field.header: { "$exists": false } },
        };
        let next = super::place(field, "version");
        is_mended |= match first {
            Wrong::Flag(true) => {
                at.change(as_read, doc! { "$unset": { field.flag: "" } })
                    .await?
            }
            Wrong::Flag(false) => {
                at.change(as_read, doc! { "$set": { field.flag: true } })
                    .await?
            }
            Wrong::Inside(_) => super::rewrite::spill_over(&at).await?,
            Wrong::Order if owner.header.is_none() => super::rewrite::spill_over(&at).await?,
            Wrong::Count(_, is) => {
                let count = super::place(field, "count");
                let update = doc! { "$set": { count: *is }, "$inc": { next: 1_i64 } };
                at.change(as_read, update).await?
            }
            Wrong::Seq(..) | Wrong::Order => super::rewrite::rewrite(&at, &owner).await?,
        };
        retry::pause(attempt.min(3)).await;
    }
    Err(at.busy())
}

/// Deletes a document with elements that no owner reads; false if one does, or it is gone.
pub(crate) async fn mend_orphan(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    id: &Bson,
) -> Result<bool> {
    let this = doc! { "_id": { "$eq": id.clone() }, "_odm.own": { "$exists": false } };
    let find = found_by(&field.extras.collection.into(), &close(&this)?);
    let found = access.find_all(field.extras, find).await?;
    let Some(document) = found.first().map(|raw| open(raw)).transpose()? else {
        return Ok(false);
    };
    let owner = document.get(field.owner).cloned().unwrap_or(Bson::Null);
    if !is_orphan_still(access, model, field, &owner, &document).await? {
        return Ok(false);
    }
    Ok(extras::delete(access, field, &this).await? > 0)
}
