//! Documents that are inserted with more elements than stay in them.
//!
//! What goes elsewhere is written first, and nobody reads it before the document is there: that says it is published. Where there are no
//! transactions, what nobody publishes is deleted by whoever comes upon it; a document whose elements were taken for such is not one that
//! was inserted, and goes too.

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc, oid::ObjectId};

use super::{
    asked::check,
    extras::{self, Batch, of_generation, parts},
    header::{Kind, Owner, Work, array},
    inside,
    order::{Order, in_order},
    room::room_for,
    work::{At, count_documents},
};
use crate::{
    Error, ErrorKind, Result,
    access::Access,
    error,
    maintain::{
        Sources, Write,
        link::{enter_all, past_what_is_left, rule_of},
        stored::{close, open, set},
    },
    schema::{Model, OverflowField},
};

/// Whether arrays of documents are not kept as they are: in another order, or not as a whole in them.
pub(super) fn is_any(model: &Model, documents: &[RawDocumentBuf]) -> bool {
    is_any_too_long(model, documents) || is_any_unsorted(model, documents)
}

/// Whether a document has more elements than stay in it.
fn is_any_too_long(model: &Model, documents: &[RawDocumentBuf]) -> bool {
    let mut documents = documents.iter();
    documents.any(|raw| {
        let mut fields = model.overflows.iter();
        fields.any(|field| {
            raw.get_array(field.stored).is_ok_and(|array| {
                array.into_iter().count() > field.after || array.as_bytes().len() > field.room / 2
            })
        })
    })
}

fn is_any_unsorted(model: &Model, documents: &[RawDocumentBuf]) -> bool {
    let mut orders = model.overflows.iter().filter_map(|field| {
        let order = Order::of(field)?;
        Some((field, order))
    });
    orders.any(|(field, order)| {
        let mut documents = documents.iter().filter_map(|raw| open(raw).ok());
        documents.any(|document| !order.is_sorted(&array(document.get(field.stored))))
    })
}

/// Which elements of an array stay in a document that is inserted, by their positions, and in which order; none if the model knows no
/// such array.
pub(crate) fn kept_inside(
    model: &'static Model,
    stored: &str,
    raw: &RawDocument,
) -> Option<Vec<usize>> {
    let field = model
        .overflows
        .iter()
        .find(|field| field.stored == stored)?;
    let document = open(raw).ok()?;
    let mut elements = array(document.get(stored));
    let mut positions: Vec<_> = (0..elements.len()).collect();
    if let Some(order) = Order::of(field) {
        positions = order.positions(&elements);
        order.sort(&mut elements);
    }
    positions.truncate(room_for(field, &[], &elements).ok()?);
    Some(positions)
}

/// Refuses documents with elements that are too large for any.
pub(super) fn refuse_too_large(model: &'static Model, documents: &[RawDocumentBuf]) -> Result<()> {
    for raw in documents {
        for field in model.overflows {
            let Ok(elements) = raw.get_array(field.stored) else {
                continue;
            };
            if elements.as_bytes().len() > field.part / 2 {
                let document = open(raw)?;
                check(field, &array(document.get(field.stored))).map_err(error::of(model))?;
            }
        }
    }
    Ok(())
}

/// What goes elsewhere of a document.
struct Outside {
    /// Of the document, among those that are inserted.
    position: usize,
    field: &'static OverflowField,
    owner: Bson,
    generation: ObjectId,
    key: ObjectId,
    parts: Vec<Vec<Bson>>,
}

/// Carries the insert out.
pub(super) async fn run<W: Write>(
    access: Access,
    model: &'static Model,
    write: W,
    sources: Sources,
) -> Result<W::Done> {
    let mut write = write;
    sort_all(model, &mut write)?;
    let is_outside = |documents: &mut [RawDocumentBuf]| is_any_too_long(model, documents);
    if !write.documents_to_insert().is_some_and(is_outside) {
        return inside(access, model, write, sources).await;
    }
    let is_alone = access.unit().is_none() && access.has_transactions();
    let work = |access: Access| {
        let (write, sources) = (write.clone(), sources.clone());
        async move {
            let done = Box::pin(insert(&access, model, write, sources)).await;
            done.map_err(|error| access.fail(error))
        }
    };
    let run = || Box::pin(access.together(crate::unit::ATTEMPTS, work));
    let done = match model.links().is_empty() {
        true => run().await,
        false => past_what_is_left(&access, run).await,
    };
    // They go together.
    done.map_err(|error| match is_alone {
        true => error.with_inserted(0),
        false => error,
    })
}

/// Brings the arrays of documents into their order.
fn sort_all<W: Write>(model: &'static Model, write: &mut W) -> Result<()> {
    for raw in write.documents_to_insert().into_iter().flatten() {
        if !is_any_unsorted(model, std::slice::from_ref(raw)) {
            continue;
        }
        let mut document = open(raw)?;
        for field in model.overflows {
            if let Ok(elements) = document.get_array_mut(field.stored) {
                in_order(field, elements);
            }
        }
        *raw = close(&document)?;
    }
    Ok(())
}

async fn insert<W: Write>(
    access: &Access,
    model: &'static Model,
    mut write: W,
    sources: Sources,
) -> Result<W::Done> {
    let all = access.to_everything();
    let mut outside = Vec::new();
    let documents = write.documents_to_insert().into_iter().flatten();
    for (position, raw) in documents.enumerate() {
        let mut document = open(raw)?;
        for field in model.overflows {
            outside.extend(take(access, field, position, &mut document)?);
        }
        *raw = close(&document)?;
    }
    for own in &outside {
        own.batch().stage(&all, own.field, &own.parts, None).await?;
    }
    let done = inside(access.clone(), model, write, sources).await;
    if access.unit().is_some() {
        let done = done?;
        // Without transactions, who enters what is in a document looks outside of it. They may refer to one another.
        for own in &outside {
            if let Some(rule) = rule_of(model, own.field) {
                let elements = own.parts.iter().flatten();
                enter_all(access, rule, &own.owner, elements).await?;
            }
        }
        return Ok(done);
    }
    // Some of them may be there though another is not.
    let mut lost = None;
    for own in &outside {
        if !own.publish(&all, model, done.is_ok()).await? {
            lost = lost.or(Some(own));
        }
    }
    let Some(lost) = lost else {
        return done;
    };
    let error = match done {
        Ok(_) => lost.is_lost(model),
        Err(error) => error,
    };
    let inserted = error.inserted().unwrap_or(lost.position);
    Err(error.with_inserted(inserted.min(lost.position)))
}

/// Takes out of a document what goes elsewhere.
fn take(
    access: &Access,
    field: &'static OverflowField,
    position: usize,
    document: &mut Document,
) -> Result<Option<Outside>> {
    let elements = array(document.get(field.stored));
    let stays = room_for(field, &[], &elements)?;
    if stays == elements.len() {
        return Ok(None);
    }
    let (stay, go) = elements.split_at_checked(stays).unwrap_or((&elements, &[]));
    let own = Outside {
        position,
        field,
        owner: document.get("_id").cloned().unwrap_or(Bson::Null),
        generation: ObjectId::new(),
        key: ObjectId::new(),
        parts: parts(go)?,
    };
    let count = own.parts.len() as i64;
    let mut header = doc! {
        "generation": own.generation,
        "next": count,
        "count": go.len() as i64,
        "version": 1_i64,
        "tail": [],
    };
    if let Some(order) = Order::of(field) {
        header.insert("bound", order.bound(stay, go));
    }
    if access.unit().is_none() {
        let kind = Kind::Published {
            expects: Some(count),
        };
        let work = Work {
            key: own.key,
            ..Work::new(kind)
        };
        header.insert("work", work.stored()?);
    }
    document.insert(field.stored, stay.to_vec());
    document.insert(field.flag, true);
    set(document, field.header, header);
    Ok(Some(own))
}

impl Outside {
    fn batch(&self) -> Batch<'_> {
        Batch {
            owner: &self.owner,
            generation: self.generation,
            key: self.key,
            first: 0,
        }
    }

    /// Lets it be read for good, or goes if its document is not there. Not so if others have taken the document for left behind, as it took
    /// so long; where they have deleted it otherwise, that is their business.
    async fn publish(&self, access: &Access, model: &'static Model, is_done: bool) -> Result<bool> {
        let at = At {
            access,
            model,
            field: self.field,
            id: &self.owner,
        };
        let owner = at.owner().await?;
        let is_finished = owner.as_ref().is_some_and(|owner| self.is_of(owner));
        // With this key it is there, whatever became of others.
        let Some(owner) = owner.filter(|owner| owner.is_at(self.key)) else {
            if !is_done {
                let those = doc! {
                    self.field.owner: { "$eq": self.owner.clone() },
                    "_odm.own.key": { "$eq": self.key },
                };
                extras::delete(access, self.field, &those).await?;
            }
            return Ok(is_finished || self.is_kept(&at).await?);
        };
        let is_filled = self.batch().disown_and_fill(access, self).await?;
        at.finish(owner).await?;
        if is_filled {
            let owner = at.staying().await?;
            let is_its = owner.is_some_and(|owner| self.is_of(&owner) && !owner.is_at(self.key));
            let mut those = of_generation(self.field, &self.owner, self.generation);
            if !is_its {
                // Others have deleted the document; one that is about to go takes along what it has, and its deletion reads that before.
                let there = at.owner().await?;
                if !there.is_some_and(|owner| self.is_of(&owner)) {
                    extras::delete(access, self.field, &those).await?;
                }
                return self.is_kept(&at).await;
            }
            those.insert("_id.key", doc! { "$eq": self.key });
            let theirs = doc! { "$unset": { extras::OWN: "" } };
            extras::change(access, self.field, &those, &theirs, &[]).await?;
        }
        Ok(true)
    }

    /// Whether these are the documents that an owner reads.
    fn is_of(&self, owner: &Owner) -> bool {
        let header = owner.header.as_ref();
        header.is_some_and(|own| own.generation == Some(self.generation))
    }

    /// Whether nobody has taken it for left behind.
    async fn is_kept(&self, at: &At<'_>) -> Result<bool> {
        let is_given_up = extras::is_given_up(at.access, self.field, &self.owner, self.key).await?;
        Ok(!is_given_up)
    }

    fn is_lost(&self, model: &Model) -> Error {
        let message = "it took so long that others have deleted it before it was whole: look whether it is there, and those behind it";
        let error = Error::new(ErrorKind::Conflict, message);
        error::of(model)(error).with_id(self.owner.clone())
    }
}

impl Batch<'_> {
    /// Makes these documents their owner's, and inserts those again that are gone; tells whether some were.
    async fn disown_and_fill(&self, access: &Access, own: &Outside) -> Result<bool> {
        let field = own.field;
        let those = doc! {
            field.owner: { "$eq": own.owner.clone() },
            "_odm.own.key": { "$eq": own.key },
        };
        let disown = doc! { "$unset": { extras::OWN: "" } };
        extras::change(access, field, &those, &disown, &[]).await?;
        let there = of_generation(field, &own.owner, own.generation);
        if count_documents(access, field, &there).await? == own.parts.len() as i64 {
            return Ok(false);
        }
        self.fill(access, field, &own.parts).await?;
        Ok(true)
    }
}
