//! References with rules, and two-way links: what a reference leads to is there, and the inverse follows it.
//!
//! The reference is the truth; what lists the documents that refer to another one is made from it, here and nowhere else. A
//! write that may change a reference is carried out together with what follows from it, in one transaction or, where there is none,
//! by a promise (`link/promise.rs`). In a transaction, what the documents
//! refer to is read before and behind the write, and what is in one list and not in the other enters or leaves the other sides.
//! Two changes of one reference meet in its document, a deletion and a new reference to what is deleted in the document that it leads
//! to, whose fence each of them changes: the second to come is tried again.
//!
//! What was entered before is left though nobody sees it any more: it may be of another scope, or deleted by a mark. Entered is only
//! what the writer sees.

mod deletion;
mod linked;
mod mend;
mod promise;
mod refusal;

use std::collections::{BTreeMap, BTreeSet};

use bson::{DateTime, RawBson, RawDocument, RawDocumentBuf, oid::ObjectId};

pub(crate) use deletion::{Rule, rules};
pub(crate) use linked::ids_at;
pub(crate) use mend::{Mending, list_once, mend};

use super::{Removal, Write, narrow};
use crate::{
    Result,
    access::{Access, also, found_by},
    backend::operation::{Change, Find, Update},
    error,
    query::{append, document},
    schema::{InverseLink, Model, OwnLink},
    unit,
};
use deletion::{refuse_restricted, take_leave};
use linked::{Id, Linked, array, by_id, one_of, read};
use refusal::{dangling, full, taken};

/// What a write does to references.
pub(crate) enum Effect<'w> {
    /// New documents have some.
    Inserts(&'w [RawDocumentBuf]),
    /// They may be others.
    Changes(&'w Change),
    /// They are gone with their documents.
    Removes,
}

/// Whether something may follow from a write: only then does it cost more than without links.
pub(super) fn is_linking(access: &Access, model: &'static Model, effect: &Effect<'_>) -> bool {
    match effect {
        Effect::Inserts(_) => {
            !model.links.is_empty() || !model.inverses.is_empty() && !access.has_transactions()
        }
        Effect::Removes => !model.links.is_empty() || rules(access, model).next().is_some(),
        Effect::Changes(change) => may_change(change, model.links),
    }
}

/// Whether a change may be one of a reference.
fn may_change(change: &Change, links: &[OwnLink]) -> bool {
    let Change::Operators { update, .. } = change else {
        return !links.is_empty();
    };
    let is_link = |path: &str| {
        let first = path.split('.').next();
        links.iter().any(|link| first == Some(link.side.stored))
    };
    let operators = update.iter().flatten();
    let operators = operators.filter_map(|(name, operand)| Some((name, operand.as_document()?)));
    let mut paths = operators.flat_map(|(name, operand)| {
        let renames = name == "$rename";
        operand.iter().flatten().map(move |path| (renames, path))
    });
    paths.any(|(renames, (path, value))| {
        is_link(path.as_str()) || renames && value.as_str().is_some_and(is_link)
    })
}

/// Carries out a write, and what follows from it.
pub(super) async fn run<W: Write>(
    access: Access,
    model: &'static Model,
    write: W,
) -> Result<W::Done> {
    if !access.has_transactions() {
        return promise::run(&access, model, write).await;
    }
    let is_insert = matches!(write.effect(), Effect::Inserts(_));
    let work = |access: Access| with_both_sides(access, model, write.clone());
    let done = access.together(unit::ATTEMPTS, work).await;
    done.map_err(|error| match is_insert {
        // They go together.
        true => error.with_inserted(0),
        false => error,
    })
}

async fn with_both_sides<W: Write>(
    access: Access,
    model: &'static Model,
    mut write: W,
) -> Result<W::Done> {
    let all = access.to_everything();
    let before = look(&access, &all, model, &mut write).await?;
    let done = async {
        let mut cascades = Vec::new();
        let done = carry_out(&access, &all, model, write, &before, &mut cascades).await?;
        // One after the other, so that no depth is too deep. What is gone already is not found again: a circle ends.
        while let Some((model, mut removal)) = cascades.pop() {
            if let Some(filter) = removal.filter() {
                narrow(&all, model, filter, false).await?;
            }
            let before = look(&all, &all, model, &mut removal).await?;
            if before.is_empty() {
                continue;
            }
            carry_out(&all, &all, model, removal, &before, &mut cascades).await?;
        }
        Ok(done)
    };
    // The caller cannot keep one side without the other.
    done.await.map_err(|error| access.fail(error))
}

/// The documents that a write is about, as they are; it is about no others from now on.
async fn look<W: Write>(
    access: &Access,
    all: &Access,
    model: &'static Model,
    write: &mut W,
) -> Result<Vec<Linked>> {
    let sort = write.order().map(RawDocument::to_owned);
    let limit = write.is_of_one().then_some(1);
    let Some(filter) = write.filter() else {
        return Ok(Vec::new());
    };
    let find = Find {
        sort,
        limit,
        ..found_by(&model.collection.into(), filter)
    };
    let found = read(access, model, find).await?;
    also(filter, "_id", one_of(ids(&found))?)?;
    if matches!(write.effect(), Effect::Removes) {
        refuse_restricted(all, model, &found).await?;
    }
    Ok(found)
}

fn ids(documents: &[Linked]) -> impl Iterator<Item = &RawBson> {
    documents.iter().map(|document| &document.id)
}

/// Carries out a write that sees what `access` does, and what follows from it for whom it may concern.
async fn carry_out<W: Write>(
    access: &Access,
    all: &Access,
    model: &'static Model,
    write: W,
    before: &[Linked],
    cascades: &mut Vec<(&'static Model, Removal)>,
) -> Result<W::Done> {
    let mut after = Vec::new();
    let (mut is_change, mut is_removal) = (false, false);
    match write.effect() {
        Effect::Inserts(documents) => {
            let all = documents.iter().map(|raw| Linked::of(model, raw));
            after = all.collect::<Result<_>>()?;
        }
        Effect::Changes(_) => is_change = true,
        Effect::Removes => is_removal = true,
    }
    let done = write.run(&**access.executor()).await?;
    if is_removal && !before.is_empty() {
        take_leave(all, model, before, cascades).await?;
    }
    if is_change && !before.is_empty() {
        let those = document("_id", one_of(ids(before))?)?;
        after = read(all, model, found_by(&model.collection.into(), &those)).await?;
    }
    for (position, link) in model.links.iter().enumerate() {
        let entered = only_in(&after, before, position);
        let Some(inverse) = link.inverse() else {
            hold(access, link, entered.into_keys().collect()).await?;
            continue;
        };
        for (target, owners) in only_in(before, &after, position) {
            leave(all, link, inverse, &target.value()?, &owners).await?;
        }
        for (target, owners) in entered {
            enter(access, link, inverse, &target.value()?, &owners).await?;
        }
    }
    Ok(done)
}

/// What each write of an inverse, and each new reference to a document in a transaction, changes in it.
const FENCE: &str = "_odm.fence";

/// What a document has under `_odm` while something is to be done to it or to what it refers to.
pub(crate) const PROMISE: [&str; 2] = ["link", "going"];

/// Finishes what writes to documents of a model have begun, and gives their number.
pub(crate) async fn settle(access: &Access, model: &'static Model) -> Result<u64> {
    let mut settled = 0;
    if model.links.is_empty() && rules(access, model).next().is_none() {
        return Ok(settled);
    }
    loop {
        let mut filter = RawDocumentBuf::new();
        append(
            &mut filter,
            promise::DUE,
            document("$lte", DateTime::now())?,
        )?;
        let find = Find {
            projection: Some(document("_id", 1)?),
            sort: Some(document(promise::DUE, 1)?),
            limit: Some(BATCH as u64),
            ..found_by(&model.collection.into(), &filter)
        };
        let due = access.find_all(model, find).await?;
        if due.is_empty() {
            return Ok(settled);
        }
        for raw in &due {
            promise::settle(access, model, &Linked::of(model, raw)?.id).await?;
            settled += 1;
        }
    }
}

/// How many documents are looked for at once.
const BATCH: usize = 1_000;

/// By document: those that refer to it in one state and do not in another one, in order.
fn only_in(state: &[Linked], other: &[Linked], link: usize) -> BTreeMap<Id, Vec<RawBson>> {
    let other: BTreeMap<_, _> = other
        .iter()
        .map(|document| (Id::of(&document.id), document.held(link)))
        .collect();
    let mut found = BTreeMap::<_, Vec<_>>::new();
    for document in state {
        let held = other.get(&Id::of(&document.id));
        for target in document.held(link) {
            if held.is_none_or(|held| !held.contains(&target)) {
                found.entry(target).or_default().push(document.id.clone());
            }
        }
    }
    found
}

/// Sees to it that documents which are referred to stay there until this is committed: who deletes one meets this write.
async fn hold(access: &Access, link: &OwnLink, targets: Vec<Id>) -> Result<()> {
    let model = (link.side.model)();
    for some in targets.chunks(BATCH) {
        let ids = some.iter().map(Id::value).collect::<Result<Vec<_>>>()?;
        let those = document("_id", one_of(&ids)?)?;
        let change = document("$set", document(FENCE, ObjectId::new())?)?;
        if update(access, model, those.clone(), change).await? == ids.len() as u64 {
            continue;
        }
        let there = read(access, model, found_by(&model.collection.into(), &those)).await?;
        let there: BTreeSet<_> = self::ids(&there).map(Id::of).collect();
        let mut missing = some.iter().filter(|id| !there.contains(id));
        if let Some(missing) = missing.next() {
            return Err(dangling(link, &missing.value()?));
        }
    }
    Ok(())
}

/// Takes documents that refer to it no more out of the inverse of another.
async fn leave(
    access: &Access,
    link: &OwnLink,
    inverse: &InverseLink,
    target: &RawBson,
    left: &[RawBson],
) -> Result<()> {
    let path = inverse.side.stored;
    let mut filter = by_id(target)?;
    let mut fence = document(FENCE, ObjectId::new())?;
    let change = if inverse.side.is_many {
        let mut change = document("$pullAll", document(path, array(left))?)?;
        append(&mut change, "$set", fence)?;
        change
    } else {
        append(&mut filter, path, one_of(left)?)?;
        append(&mut fence, path, RawBson::Null)?;
        document("$set", fence)?
    };
    // What is gone needs nothing.
    update(access, (link.side.model)(), filter, change).await?;
    Ok(())
}

/// Puts documents that refer to it from now on into the inverse of another.
async fn enter(
    access: &Access,
    link: &OwnLink,
    inverse: &InverseLink,
    target: &RawBson,
    entered: &[RawBson],
) -> Result<()> {
    let model = (link.side.model)();
    let path = inverse.side.stored;
    let mut filter = by_id(target)?;
    let mut fence = document(FENCE, ObjectId::new())?;
    let change = if inverse.side.is_many {
        if let Some(last) = inverse.max.and_then(|max| max.checked_sub(entered.len())) {
            let full = format!("{path}.{last}");
            append(&mut filter, &full, document("$exists", false)?)?;
        } else if inverse.max.is_some() {
            return Err(full(link, inverse, target));
        }
        let each = document("$each", array(entered))?;
        let mut change = document("$addToSet", document(path, each)?)?;
        append(&mut change, "$set", fence)?;
        change
    } else {
        let [one] = entered else {
            return Err(taken(link, inverse, target));
        };
        append(&mut filter, path, one_of([one, &RawBson::Null])?)?;
        append(&mut fence, path, one.clone())?;
        document("$set", fence)?
    };
    if update(access, model, filter, change).await? == 1 {
        return Ok(());
    }
    let find = Find {
        limit: Some(1),
        ..found_by(&model.collection.into(), &by_id(target)?)
    };
    Err(match read(access, model, find).await?.is_empty() {
        true => dangling(link, target),
        false if inverse.side.is_many => full(link, inverse, target),
        false => taken(link, inverse, target),
    })
}

/// Changes what the framework keeps in documents: neither their version nor their time of change tells of that.
async fn update(
    access: &Access,
    model: &Model,
    mut filter: RawDocumentBuf,
    change: RawDocumentBuf,
) -> Result<u64> {
    narrow(access, model, &mut filter, false).await?;
    let update = Update {
        collection: model.collection.into(),
        filter,
        change: Change::operators(change),
        multi: true,
        upsert: false,
    };
    access.told().writes();
    let done = access.executor().update(update).await;
    Ok(done.map_err(error::of(model))?.matched)
}
