//! Arrays of which only the first elements are in their document; the others are in documents of their own in another collection.
//!
//! An owner with elements outside of it has a header, in order: which documents have them (a generation, and numbers below the next one),
//! a block that goes there, and a tail. A push at the end is one operation: to the array in the document as long as there is no header
//! and room, else to the tail. A tail that is full is frozen as a block, and becomes a document.
//!
//! All else is one thing at a time: the owner says what is being done (`overflow/header.rs`), by the operation that does it in the owner
//! itself, and whoever comes upon it finishes it (`overflow/work.rs`). A step that comes late finds neither the key nor the version that
//! it was made for. What is frozen, and what is filled before it is published, does not change: so it does not matter who writes it, nor
//! how often.
//!
//! Elements can be in the order of a field of theirs (`overflow/order.rs`): then those in the document are the first of all.
//!
//! Documents of elements come into being before they are for sure their owner's. Until then they say so (`overflow/extras.rs`), and who
//! finds one that is overdue asks its owner: nobody registers the space that they need again after that, as generations and keys never
//! come back.

mod anywhere;
mod asked;
mod check;
mod extras;
mod fold;
mod insert;
mod removal;
mod rewrite;
mod room;
mod settle;
mod work;
mod write;

use std::time::SystemTime;

use bson::{Bson, DateTime, RawBson, RawDocumentBuf, doc};

pub(crate) use anywhere::anywhere;
pub(super) use anywhere::owners_of;
pub(crate) use check::{
    Misplaced, Wrong, look_for_orphans, mend as mend_overflow, mend_orphan, misplaced,
};
pub(super) use extras::for_one_pull;
pub(crate) use fold::{Folded, fold};
pub(crate) use insert::kept_inside;
pub(super) use removal::{leave_all, leave_found, run as remove};
pub(crate) use room::too_long_or_large;
pub(super) use room::{has_room, is_whole};
pub(super) use settle::settle;
use work::{At, attempts};

use super::{Any, Effect, LEASE, Promise, Sources, Write, inside, link::rule_of, stored::close};
use crate::{
    Result,
    access::Access,
    backend::{
        BoxFuture,
        operation::{Direction, Index, Update, Updated},
    },
    overflow::{
        Reading,
        header::{self, Work},
        order, read, room_in_tail,
    },
    schema::{Model, OverflowField},
};

/// How large what goes into a document of its own is, and what one update names: nowhere near what a document can hold.
const MAX_PART: usize = 256 * 1024;

/// How often something is tried that others are writing to.
const ATTEMPTS: u32 = 100;

/// A place in what an owner knows of its elements.
fn place(field: &OverflowField, name: &str) -> String {
    format!("{}.{name}", field.header)
}

/// When others may see to what is begun now.
fn due() -> DateTime {
    DateTime::from_system_time(SystemTime::now() + LEASE)
}

/// When others may take elements away whose document is to be inserted and is not: nobody waits for them, and of many an insert takes long.
fn due_of_insert() -> DateTime {
    DateTime::from_system_time(SystemTime::now() + 60 * LEASE)
}

/// Whether a write is about arrays that overflow, so that it is more than itself.
pub(super) fn concerns(model: &Model, effect: &Effect<'_>) -> bool {
    if model.overflows.is_empty() {
        return false;
    }
    match effect {
        Effect::Inserts(documents) => insert::is_any(model, documents),
        Effect::Changes(change) => asked::is_any(model, change),
        // They take along what is outside of them.
        Effect::Removes => false,
    }
}

/// Carries out such a write.
pub(super) async fn run<W: Write>(
    access: Access,
    model: &'static Model,
    mut write: W,
    sources: Sources,
) -> Result<W::Done> {
    match write.documents_to_insert() {
        Some(documents) => {
            insert::refuse_too_large(model, documents)?;
            insert::run(access, model, write, sources).await
        }
        None => write::run(access, model, write, sources).await,
    }
}

/// Changes an array of a document by what follows from a write to another one, which may lead here itself: so this says what it gives.
pub(super) fn follow(
    access: &Access,
    model: &'static Model,
    update: Update,
) -> BoxFuture<'static, Result<Updated>> {
    let access = access.clone();
    Box::pin(async move {
        let done = write::run(access, model, Any::from(update), Sources::default());
        done.await.map(Into::into)
    })
}

/// All elements of an array, in order; nothing without a document.
pub(super) async fn all(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    filter: RawDocumentBuf,
) -> Result<Vec<Bson>> {
    let all = reading(access, model, field, filter).all().await?;
    Ok(all.unwrap_or_default())
}

/// Those of some values that elements of an array equal.
pub(super) async fn among(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    filter: RawDocumentBuf,
    values: &[Bson],
) -> Result<Vec<Bson>> {
    reading(access, model, field, filter).among(values).await
}

fn reading(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    filter: RawDocumentBuf,
) -> Reading {
    Reading {
        access: access.clone(),
        model,
        field,
        filter,
    }
}

/// Sees to it that the elements outside of a document are as those in it say.
pub(super) async fn rest(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    id: &RawBson,
) -> Result<()> {
    let id = Bson::try_from(id.clone()).map_err(crate::error::encode)?;
    let at = At {
        access,
        model,
        field,
        id: &id,
    };
    for attempt in attempts() {
        let owner = at.owner().await?;
        match owner.filter(|owner| owner.work().is_some_and(Work::is_change)) {
            None => return Ok(()),
            Some(owner) => at.help(owner, attempt).await?,
        }
    }
    Err(at.busy())
}

/// How many elements are added to a set at once.
pub(super) fn most_added(field: &OverflowField) -> usize {
    room_in_tail(field)
}

/// The declared indexes, with those by which the elements of an owner, and what is owed, are found: of the models, and of the
/// collections into which they overflow.
pub(crate) fn with_indexes(
    mut declared: Vec<(&'static Model, Vec<Index>)>,
) -> Vec<(&'static Model, Vec<Index>)> {
    let mut extras = Vec::new();
    for (model, indexes) in &mut declared {
        for field in model.overflows {
            indexes.push(Index::sparse_on(Promise(field.work).due()));
            // Where there are no transactions a document is marked before it is deleted.
            let due = Index::sparse_on(Promise::LINK.due());
            if !indexes.contains(&due) {
                indexes.push(due);
            }
            let ascending = |path: &str| (path.to_owned(), Direction::Ascending);
            let in_order = [field.owner, extras::GENERATION, field.seq].map(ascending);
            let own = Index::sparse_on(format!("{}.due", extras::OWN));
            let mut outside = vec![Index::new(in_order.to_vec()), own];
            if rule_of(model, field).is_some() {
                // By them those are found that refer to a document outside of theirs.
                indexes.push(Index::sparse_on(place(field, "tail")));
                indexes.push(Index::sparse_on(place(field, "work.block")));
                outside.push(Index::new(vec![ascending(field.elements)]));
            }
            extras.push((field.extras, outside));
        }
    }
    declared.extend(extras);
    declared
}

/// Lets an array overflow that is longer in its document than it should be; tells whether it was.
pub(crate) async fn spill(
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
    rewrite::spill_over(&at).await
}

/// The paths of a model that a save must not change.
pub(super) fn fixed(model: &Model) -> impl Iterator<Item = &'static str> {
    model.overflows.iter().map(|field| field.stored)
}

/// Which of these there is something to do about: what is only remembered for a while is over by itself.
pub(crate) fn owing_outside() -> Result<RawDocumentBuf> {
    close(&doc! { extras::GIVEN_UP: { "$exists": false } })
}

/// Which documents may be no array's: what says so, and where.
pub(crate) fn owed_outside(model: &Model) -> impl Iterator<Item = (&'static Model, Promise)> {
    let fields = model.overflows.iter();
    fields.map(|field| (field.extras, Promise(extras::OWN)))
}
