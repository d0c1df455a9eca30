//! The elements outside of a document go with it.

use bson::{Bson, Document, RawBson, RawDocument, RawDocumentBuf, doc, oid::ObjectId};

use super::{
    due,
    extras::{self, of_generation},
    header::Owner,
    place,
    work::At,
};
use crate::{
    Result,
    access::{Access, also, found_by},
    backend::{
        BoxFuture,
        operation::{Delete, Find},
    },
    decode,
    maintain::{
        Means, Plan, Removal, Write, computed,
        link::linked::{by_id, one_of},
        stored::{close, open, raw},
    },
    query::document,
    schema::Model,
    unit,
};

/// Deletes documents, where there are transactions: of those that are whole nothing else is looked for.
pub(in crate::maintain) async fn run<W: Write>(
    access: &Access,
    model: &'static Model,
    write: W,
) -> Result<W::Done> {
    if access.unit().is_none() && write.is_of_one() && write.order().is_none() {
        let mut whole = write.clone();
        if let Some(filter) = whole.filter() {
            for field in model.overflows {
                also(filter, field.header, document("$exists", false)?)?;
            }
        }
        let done = computed::run(access, model, whole).await?;
        if W::documents(&done) > 0 {
            return Ok(done);
        }
    }
    let work = |access: Access| {
        let write = write.clone();
        async move {
            let done = together(&access, model, write).await;
            done.map_err(|error| access.fail(error))
        }
    };
    access.together(unit::ATTEMPTS, work).await
}

async fn together<W: Write>(
    access: &Access,
    model: &'static Model,
    mut write: W,
) -> Result<W::Done> {
    let filter = write.filter().cloned().unwrap_or_default();
    let mut find = Find {
        sort: write.order().map(RawDocument::to_owned),
        ..found_by(&model.collection.into(), &filter)
    };
    if write.is_of_one() {
        find.limit = Some(1);
    } else {
        let headers = model.overflows.iter();
        let any = headers.map(|field| Bson::Document(doc! { field.header: { "$exists": true } }));
        let any = doc! { "$and": [open(&filter)?, { "$or": any.collect::<Vec<_>>() }] };
        find.filter = close(&any)?;
    }
    find.projection = Some(what_leads_outside(model)?);
    let found = access.find_all(model, find).await?;
    leave(access, model, &found).await?;
    if write.is_of_one() {
        // It is the one whose elements have gone.
        let ids: Vec<_> = found.iter().filter_map(|raw| decode::id(raw)).collect();
        let ids: Vec<_> = ids.into_iter().map(RawBson::from).collect();
        if let Some(filter) = write.filter() {
            also(filter, "_id", one_of(&ids)?)?;
        }
    }
    computed::run(access, model, write).await
}

/// The elements outside of documents with these ids go, before they do.
pub(in crate::maintain) async fn leave_all(
    access: &Access,
    model: &'static Model,
    ids: impl Iterator<Item = &RawBson>,
) -> Result<()> {
    if model.overflows.is_empty() {
        return Ok(());
    }
    let ids: Vec<_> = ids.cloned().collect();
    leave_found(access, model, &document("_id", one_of(&ids)?)?).await
}

/// The same for those that a filter finds: of one that is marked and about to go, its mark is part of it. Another document may have its
/// `_id` by then.
pub(in crate::maintain) async fn leave_found(
    access: &Access,
    model: &'static Model,
    filter: &RawDocument,
) -> Result<()> {
    if model.overflows.is_empty() {
        return Ok(());
    }
    let all = access.to_everything();
    let find = Find {
        projection: Some(what_leads_outside(model)?),
        ..found_by(&model.collection.into(), filter)
    };
    let found = all.find_all(model, find).await?;
    leave(&all, model, &found).await
}

/// What documents know of those with their elements, without the elements that they have themselves.
fn what_leads_outside(model: &Model) -> Result<RawDocumentBuf> {
    let mut projection = doc! { "_id": 1 };
    for field in model.overflows {
        for name in [
            "generation",
            "work.key",
            "work.due",
            "work.kind",
            "work.sweep",
        ] {
            projection.insert(place(field, name), 1);
        }
    }
    close(&projection)
}

async fn leave(access: &Access, model: &'static Model, documents: &[RawDocumentBuf]) -> Result<()> {
    for field in model.overflows {
        for document in documents {
            let owner = Owner::of(field, document)?;
            let Some(header) = &owner.header else {
                continue;
            };
            let sweep = header.work.as_ref().and_then(|work| work.sweep);
            for generation in header.generation.into_iter().chain(sweep) {
                let those = of_generation(field, &owner.id, generation);
                extras::delete(access, field, &those).await?;
            }
            // What is being filled has a generation of its own.
            if let Some(work) = &header.work {
                let those = doc! {
                    field.owner: { "$eq": owner.id.clone() },
                    "_odm.own.key": { "$eq": work.key },
                };
                extras::delete(access, field, &those).await?;
            }
        }
    }
    Ok(())
}

/// Deletes a document whose insert has not come to its end: not all of its elements are there.
pub(super) async fn never_inserted(at: &At<'_>, key: ObjectId) -> Result<()> {
    // Whoever deletes a document takes its elements first: that they are missing says something of one alone that stays.
    let stays = doc! { "$set": { place(at.field, "work.due"): due() } };
    if !at.change(at.is_at(key), stays).await? {
        return Ok(());
    }
    extras::give_up(at.access, at.field, at.id, key).await?;
    let mut filter: Document = open(&by_id(&raw(at.id)?)?)?;
    filter.insert(place(at.field, "work.key"), doc! { "$eq": key });
    let delete = Delete {
        collection: at.model.collection.into(),
        filter: close(&filter)?,
        multi: false,
    };
    remove(at.access.clone(), at.model, delete).await
}

/// As a function that says what it gives: a deletion may lead to another one.
fn remove(access: Access, model: &'static Model, delete: Delete) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move {
        let removal = Removal::new(model, delete, Means::ForGood)?;
        Plan::new(model, removal)?.run(access).await.map(drop)
    })
}
