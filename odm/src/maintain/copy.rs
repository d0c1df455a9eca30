//! Copies: fields that are taken from other documents, and follow them.
//!
//! A *source* has a revision, which each write of a copied field raises; a *dependent* remembers of each reference the revision that
//! its copies are of. A copy is only ever written over an older one, and that condition is part of the write: so it does not matter who
//! carries what is owed out, how often, and in which order.
//!
//! - A write of a copied field says in the same write that its copies are to follow: the *fan-out* (`copy/fan.rs`). It begins behind the
//!   write, finds every dependent that is there by then, and is taken back by the token with which it was read.
//! - A write that makes a reference visible in a place where it was not fills its copies (`copy/fill.rs`), and says that they are to be
//!   looked at again: the *verification*. The source may have changed since it was read, and its fan-out have passed already.
//!
//! So a dependent that the fan-out has not seen is one whose verification sees the change.

mod check;
mod current;
mod drift;
mod fan;
mod fill;
mod group;
mod index;
mod lease;
mod owed;
mod save;
mod source;
mod unchanged;
mod verify;

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

pub(crate) use check::{StaleCopy, copy_again, stale};
pub(crate) use current::bring_current;
pub(crate) use drift::{drifted, projection as snapshots};
pub(super) use fan::{Deleted, clear};
pub(super) use fill::put;
pub(crate) use fill::resolve;
use group::{dependents, groups, groups_apart};
pub(crate) use index::{Searched, with_indexes};
pub(crate) use owed::{Followed, Owed, settle};
pub(crate) use save::of_a_save;
pub(super) use source::Source;
pub(crate) use source::Sources;
pub(super) use unchanged::{only_if_changed, written};

use bson::{RawBsonRef, RawDocument};

use super::{
    Effect, Promise, Write,
    scope::can_refer,
    stored::{close, open},
};
use crate::{Error, ErrorKind, Result, access::Access, backend::operation::Change, schema::Model};

/// The revision of what can be copied from a document.
const REVISION: &str = "_odm.rev";

/// The revision that the copies through a reference are of; in the struct that has the reference.
const FROM: &str = "_odm.from";

/// Of which document a snapshot was taken, and when; in the struct that has the snapshot.
const TAKEN: &str = "_odm.taken";

/// What a document says while its copies are to follow: a token, and when others may see to it.
const FAN: Promise = Promise::FAN;

/// What a document says while its own copies are to be looked at again.
const VERIFY: Promise = Promise::VERIFY;

/// How many dependents follow before a write is answered, unless its copies say otherwise.
pub(crate) const FEW: usize = 500;

/// A new revision, for a document that is inserted: higher than that of any which had the same `_id` before.
///
/// The clock's milliseconds, and behind them its nanoseconds: no document changes so often that its revision comes before the clock.
pub(super) fn first_revision() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let millis = i64::try_from(now.as_millis()).unwrap_or(i64::MAX >> 20);
    (millis << 20) + i64::from(now.subsec_nanos() % 1_000_000)
}

/// Whether a change makes references lead elsewhere whose copies follow them.
pub(crate) fn brings_copies(model: &Model, change: &Change) -> bool {
    let Change::Operators { update, .. } = change else {
        return false;
    };
    if !model.copies.is_filled() {
        return false;
    }
    let groups = groups(model);
    let fields = update.iter().flatten();
    let mut fields = fields.filter_map(|(_, fields)| fields.as_document());
    fields.any(|fields| {
        let mut paths = fields.iter().flatten();
        paths.any(|(path, _)| {
            let mut groups = groups.iter();
            groups.any(|group| group.meets(path.as_str()) != group::Meets::Nothing)
        })
    })
}

/// A path at which an update may put a reference with copies to a document that shares the scope of the model.
pub(super) fn new_reference(model: &Model, update: &RawDocument) -> Option<String> {
    let groups = groups(model);
    let fields = update.iter().flatten();
    for (operator, fields) in fields {
        for (path, operand) in fields.as_document().into_iter().flatten().flatten() {
            let is_null = operand == RawBsonRef::Null;
            let mut groups = groups.iter();
            let leads = groups.any(|group| {
                group.meets(path.as_str()) != group::Meets::Nothing
                    && can_refer(model, (group.model)(), operator.as_str(), is_null)
            });
            if leads {
                return Some(path.as_str().to_owned());
            }
        }
    }
    None
}

/// Whether the documents of a model may have copies that are to be looked at again.
pub(super) fn is_dependent(model: &Model) -> bool {
    model.copies.is_filled() && groups(model).iter().any(group::Group::is_following)
}

/// The copies of a model that follow, each with what it is of.
pub(crate) fn copied(model: &Model) -> BTreeMap<String, String> {
    let mut copied = BTreeMap::new();
    for group in groups(model) {
        for taken in group.following() {
            let source = (group.model)().collection;
            let of = format!("copy of {source}.{} by {}", taken.from, group.reference);
            copied.insert(group.path(taken.stored), of);
        }
    }
    copied
}

/// Whether others may copy from the documents of a model.
pub(super) fn is_source(access: &Access, model: &'static Model) -> bool {
    dependents(access.models(), model).next().is_some()
}

/// Whether others have copies of the documents of a model that become null when these are deleted.
pub(super) fn is_cleared(access: &Access, model: &'static Model) -> bool {
    dependents(access.models(), model).any(|(_, group)| group.is_clearing())
}

/// Whether a write may have to do with copies.
pub(super) fn concerns(access: &Access, model: &'static Model, effect: &Effect<'_>) -> bool {
    let is_removal = matches!(effect, Effect::Removes);
    !is_removal && (model.copies.is_filled() || is_source(access, model))
}

/// Fills what is new in arrays that overflow, before it is known where it goes: nothing in their elements follows.
pub(super) async fn fill_elements<W: Write>(
    access: &Access,
    model: &'static Model,
    write: &mut W,
    sources: &mut Sources,
) -> Result<()> {
    let (_, own) = groups_apart(model);
    if own.is_empty() {
        return Ok(());
    }
    if let Some(documents) = write.documents_to_insert() {
        fill::insert(access, model, &own, documents, sources).await?;
    } else if let Some(Change::Operators { update, .. }) = write.change() {
        fill::update(access, model, &own, update, sources).await?;
    }
    Ok(())
}

/// What a write owes, and what it is to be with that said in it.
pub(super) async fn prepare<W: Write>(
    access: &Access,
    model: &'static Model,
    write: &mut W,
    sources: &mut Sources,
) -> Result<Owed> {
    let mut owed = Owed::default();
    if !concerns(access, model, &write.effect()) {
        return Ok(owed);
    }
    let (own, _) = groups_apart(model);
    let dependents: Vec<_> = dependents(access.models(), model).collect();
    if let Some(documents) = write.documents_to_insert() {
        if !own.is_empty() {
            owed.verify = fill::insert(access, model, &own, documents, sources).await?;
            if owed.verify.is_some() {
                owed.taken = Some(sources.revisions(&own)?);
            }
        }
        if !dependents.is_empty() {
            for raw in documents {
                put(raw, REVISION, first_revision().into())?;
            }
        }
        return Ok(owed);
    }
    let Some(change) = write.change() else {
        return Ok(owed);
    };
    let Change::Operators { update, .. } = change else {
        let message = "copies follow only from update operators";
        return Err(Error::new(ErrorKind::Unsupported, message));
    };
    if !own.is_empty() {
        owed.verify = fill::update(access, model, &own, update, sources).await?;
    }
    if let Some(fan) = owed::say(model, &dependents, update)? {
        index::refuse_without(access, &dependents).await?;
        owed.fan = Some(fan);
    }
    Ok(owed)
}

/// Takes the copies beside references away that a change makes null, and says what that owes to others.
pub(super) fn leave(access: &Access, model: &'static Model, change: &mut Change) -> Result<Owed> {
    let mut owed = Owed::default();
    let (Change::Operators { update, .. }, true) = (change, model.copies.is_filled()) else {
        return Ok(owed);
    };
    fill::leave(model, update)?;
    let dependents: Vec<_> = dependents(access.models(), model).collect();
    owed.fan = owed::say(model, &dependents, update)?;
    Ok(owed)
}
