//! What others have left: works of arrays, and documents that may be no array's.

use bson::{Bson, DateTime, Document, doc, oid::ObjectId};

use super::{
    extras::{self, OWN},
    header::{Kind, Owner, integer},
    work::At,
};
use crate::{
    Result,
    access::{Access, found_by},
    backend::operation::Find,
    maintain::{
        Finished, Promise, Rejection,
        blocked::{self, is_blocking},
        stored::{close, open},
    },
    schema::{Model, OverflowField},
};

/// How many are looked at in one go.
const BATCH: u64 = 500;

/// Finishes what is overdue. What cannot be finished keeps none of the rest from it.
pub(in crate::maintain) async fn settle(
    access: &Access,
    model: &'static Model,
    settled: &mut Finished,
) -> Result<()> {
    for field in model.overflows {
        works(access, model, field, settled).await?;
        own(access, model, field, settled).await?;
    }
    Ok(())
}

async fn works(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    settled: &mut Finished,
) -> Result<()> {
    let mut left: Vec<Bson> = Vec::new();
    loop {
        let mut filter = doc! { Promise(field.work).due(): { "$lte": DateTime::now() } };
        filter.insert("_id", doc! { "$nin": left.clone() });
        let find = Find {
            projection: Some(close(&doc! { "_id": 1 })?),
            limit: Some(BATCH),
            ..found_by(&model.collection.into(), &close(&filter)?)
        };
        let found = access.find_all(model, find).await?;
        if found.is_empty() {
            return Ok(());
        }
        for raw in &found {
            let id = open(raw)?.remove("_id").unwrap_or(Bson::Null);
            let at = At {
                access,
                model,
                field,
                id: &id,
            };
            match finish(&at).await {
                Ok(()) => settled.documents += 1,
                Err(error) => {
                    if is_blocking(&error) {
                        let owing = close(&doc! { "_id": { "$eq": id.clone() } })?;
                        let by = Rejection::all_of(&error, model, &id);
                        let work = Promise(field.work);
                        blocked::note(access, model, work, owing, &by).await?;
                    }
                    settled.fail(error)?;
                }
            }
            // It may say so again.
            left.push(id);
        }
    }
}

async fn finish(at: &At<'_>) -> Result<()> {
    match at.owner().await? {
        Some(owner) if owner.work().is_some_and(super::Work::is_overdue) => at.finish(owner).await,
        _ => Ok(()),
    }
}

async fn own(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    settled: &mut Finished,
) -> Result<()> {
    let mut left = Vec::new();
    loop {
        let found = extras::overdue(access, field, &left, BATCH).await?;
        if found.is_empty() {
            return Ok(());
        }
        for document in found {
            match whose(access, model, field, &document).await {
                Ok(is_settled) => settled.documents += u64::from(is_settled),
                Err(error) => settled.fail(error)?,
            }
            left.push(document.get("_id").cloned().unwrap_or(Bson::Null));
        }
    }
}

/// Lets a document be its owner's, or go; tells whether it is known which. What one has that is as good as gone goes with it: its deletion
/// leaves the other sides of what is in there, and only what comes later is left behind.
async fn whose(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    document: &Document,
) -> Result<bool> {
    let id = document.get(field.owner).cloned().unwrap_or(Bson::Null);
    let own = document.get_document("_odm").ok();
    let generation = own.and_then(|own| own.get_object_id("generation").ok());
    let own = own.and_then(|own| own.get_document("own").ok());
    let key = own.and_then(|own| own.get_object_id("key").ok());
    let due = own.and_then(|own| own.get_datetime("due").ok());
    let at = At {
        access,
        model,
        field,
        id: &id,
    };
    let owner = at.staying().await?;
    if owner.is_none() && at.owner().await?.is_some() {
        return Ok(false);
    }
    let mut this = doc! { "_id": { "$eq": document.get("_id").cloned() } };
    this.insert("_odm.own.due", doc! { "$eq": due.copied() });
    if let Some(owner) = &owner
        && is_in_work(owner, key, generation)
    {
        return match owner.work().is_some_and(super::Work::is_overdue) {
            true => at.finish(owner.clone()).await.map(|()| true),
            false => Ok(false),
        };
    }
    let seq = integer(document.get(field.seq));
    let header = owner.and_then(|owner| owner.header);
    let is_its = header.is_some_and(|header| {
        key.is_none()
            && generation.is_some()
            && header.generation == generation
            && seq < header.next
    });
    if is_its {
        extras::change(access, field, &this, &doc! { "$unset": { OWN: "" } }, &[]).await?;
    } else {
        extras::delete(access, field, &this).await?;
    }
    Ok(true)
}

/// Whether what is being done to the owner's array decides about the document.
fn is_in_work(owner: &Owner, key: Option<ObjectId>, generation: Option<ObjectId>) -> bool {
    let Some(work) = owner.work() else {
        return false;
    };
    match key {
        Some(key) => work.key == key,
        None => {
            let header = owner.header.as_ref();
            work.kind == Kind::Spill && header.is_some_and(|header| header.generation == generation)
        }
    }
}
