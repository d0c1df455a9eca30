//! Two-way links: the inverse follows the reference.
//!
//! The reference is the truth; what lists the documents that refer to another one is made from it, here and nowhere else. A
//! write that may change a reference is carried out together with what follows from it, in one transaction or, where there is none,
//! by a promise (`link/promise.rs`). In a transaction, what the documents
//! refer to is read before and behind the write, and what is in one list and not in the other enters or leaves the other sides.
//! Two changes of one reference meet in its document, a deletion and a new reference to what is deleted in the inverse: the
//! second to come is tried again.

mod promise;

use std::collections::{BTreeMap, BTreeSet};

use bson::{DateTime, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::{Means, Removal, Write, narrow};
use crate::{
    Error, ErrorKind, Result,
    access::{Access, also, found_by},
    backend::operation::{Change, Delete, Find, Update},
    decode, error,
    query::{append, document},
    schema::{InverseLink, LinkSide, Model, OnDelete, OwnLink},
    unit,
};

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
pub(super) fn is_linking(access: &Access, model: &Model, effect: &Effect<'_>) -> bool {
    match effect {
        Effect::Inserts(_) => {
            !model.links.is_empty() || !model.inverses.is_empty() && !access.has_transactions()
        }
        Effect::Removes => !model.links.is_empty() || !model.inverses.is_empty(),
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
    let work = |access: Access| with_both_sides(access, model, write.clone());
    access.together(unit::ATTEMPTS, work).await
}

async fn with_both_sides<W: Write>(
    access: Access,
    model: &'static Model,
    mut write: W,
) -> Result<W::Done> {
    let before = look(&access, model, &mut write).await?;
    let done = async {
        let mut cascades = Vec::new();
        let done = carry_out(&access, model, write, &before, &mut cascades).await?;
        // One after the other, so that no depth is too deep. What is gone already is not found again: a circle ends.
        while let Some((model, mut removal)) = cascades.pop() {
            if let Some(filter) = removal.filter() {
                narrow(&access, model, filter, false).await?;
            }
            let before = look(&access, model, &mut removal).await?;
            carry_out(&access, model, removal, &before, &mut cascades).await?;
        }
        Ok(done)
    };
    // The caller cannot keep one side without the other.
    done.await.map_err(|error| access.fail(error))
}

/// The documents that a write is about, as they are; it is about no others from now on.
async fn look<W: Write>(
    access: &Access,
    model: &'static Model,
    write: &mut W,
) -> Result<Vec<Linked>> {
    let order = write.order().map(RawDocument::to_owned);
    let limit = write.is_of_one().then_some(1);
    let Some(filter) = write.filter() else {
        return Ok(Vec::new());
    };
    let found = read(access, model, filter, order, limit).await?;
    also(filter, "_id", one_of(&found)?)?;
    if matches!(write.effect(), Effect::Removes) {
        refuse_restricted(model, &found)?;
    }
    Ok(found)
}

async fn carry_out<W: Write>(
    access: &Access,
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
    if is_removal {
        take_leave(access, model, before, cascades).await?;
    }
    if is_change && !before.is_empty() {
        let by_id = document("_id", one_of(before)?)?;
        after = read(access, model, &by_id, None, None).await?;
    }
    for (position, link) in model.links.iter().enumerate() {
        if let Some(inverse) = link.inverse() {
            for (target, owners) in differences(position, before, &after) {
                follow(access, link, inverse, &target, owners).await?;
            }
        }
    }
    Ok(done)
}

/// What a document has under `_odm` while something is to be done to it or to what it refers to.
pub(crate) const PROMISE: [&str; 2] = ["link", "going"];

/// Finishes what writes to documents of a model have begun, and gives their number.
pub(crate) async fn settle(access: &Access, model: &'static Model) -> Result<u64> {
    let mut settled = 0;
    if model.links.is_empty() && model.inverses.is_empty() {
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
            limit: Some(BATCH),
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
const BATCH: u64 = 100;

/// A document with what it refers to and what refers to it, as stored.
struct Linked {
    id: RawBson,
    /// By link of its model.
    links: Vec<Vec<RawBson>>,
    /// By inverse of its model.
    inverses: Vec<Vec<RawBson>>,
}

impl Linked {
    fn of(model: &Model, raw: &RawDocument) -> Result<Self> {
        let id = decode::id(raw).map(RawBson::from);
        let id = id.ok_or_else(|| Error::new(ErrorKind::Decode, "a document has no `_id`"))?;
        let at = |side: &LinkSide| ids_at(raw, side.stored);
        Ok(Self {
            id,
            links: model.links.iter().map(|link| at(&link.side)).collect(),
            inverses: model
                .inverses
                .iter()
                .map(|inverse| at(&inverse.side))
                .collect(),
        })
    }
}

impl Linked {
    /// What a reference leads to.
    fn held(&self, link: usize) -> BTreeSet<Id> {
        let targets = self.links.get(link).into_iter().flatten();
        targets.map(Id::of).collect()
    }

    /// What an inverse lists.
    fn inverses_of(&self, model: &Model, inverse: &InverseLink) -> &[RawBson] {
        let mut inverses = model.inverses.iter();
        let position = inverses.position(|other| other.side.field == inverse.side.field);
        let listed = position.and_then(|position| self.inverses.get(position));
        listed.map_or(&[], Vec::as_slice)
    }
}

/// The ids in a field: one, several, or none.
pub(crate) fn ids_at(raw: &RawDocument, field: &str) -> Vec<RawBson> {
    match raw.get(field) {
        Ok(Some(RawBsonRef::Array(ids))) => ids.into_iter().flatten().map(RawBson::from).collect(),
        Ok(None | Some(RawBsonRef::Null)) | Err(_) => Vec::new(),
        Ok(Some(id)) => vec![id.into()],
    }
}

async fn read(
    access: &Access,
    model: &Model,
    filter: &RawDocument,
    sort: Option<RawDocumentBuf>,
    limit: Option<u64>,
) -> Result<Vec<Linked>> {
    let find = Find {
        projection: Some(sides(model)?),
        sort,
        limit,
        ..found_by(&model.collection.into(), filter)
    };
    let found = access.find_all(model, find).await?;
    found.iter().map(|raw| Linked::of(model, raw)).collect()
}

/// What is read of a document: its sides of links.
fn sides(model: &Model) -> Result<RawDocumentBuf> {
    let mut projection = RawDocumentBuf::new();
    let links = model.links.iter().map(|link| link.side.stored);
    let inverses = model.inverses.iter().map(|inverse| inverse.side.stored);
    for field in std::iter::once("_id").chain(links).chain(inverses) {
        append(&mut projection, field, 1)?;
    }
    Ok(projection)
}

/// For each document that is referred to: who has left it and who has come, each in order.
type Differences = BTreeMap<Id, (Vec<RawBson>, Vec<RawBson>)>;

fn differences(link: usize, before: &[Linked], after: &[Linked]) -> Differences {
    let mut found = Differences::new();
    let held = |all: &[Linked]| -> BTreeMap<Id, BTreeSet<Id>> {
        let held = all
            .iter()
            .map(|document| (Id::of(&document.id), document.held(link)));
        held.collect()
    };
    let (were, are) = (held(before), held(after));
    let none = BTreeSet::new();
    for owner in before {
        let id = Id::of(&owner.id);
        let are = are.get(&id).unwrap_or(&none);
        for target in were.get(&id).unwrap_or(&none).difference(are) {
            found
                .entry(target.clone())
                .or_default()
                .0
                .push(owner.id.clone());
        }
    }
    for owner in after {
        let id = Id::of(&owner.id);
        let were = were.get(&id).unwrap_or(&none);
        for target in are.get(&id).unwrap_or(&none).difference(were) {
            found
                .entry(target.clone())
                .or_default()
                .1
                .push(owner.id.clone());
        }
    }
    found
}

/// An id that can be looked up and has an order, so that transactions write in the same one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Id(Vec<u8>);

impl Id {
    fn of(id: &RawBson) -> Self {
        let mut document = RawDocumentBuf::new();
        document.append(bson::raw::cstr!("_id"), id.as_raw_bson_ref());
        Self(document.into_bytes())
    }

    fn value(&self) -> Result<RawBson> {
        let document = RawDocument::from_bytes(&self.0).map_err(error::encode)?;
        let id = decode::id(document).map(RawBson::from);
        id.ok_or_else(|| Error::new(ErrorKind::Encode, "an id without a value"))
    }
}

/// Brings the inverse of one document up to date.
async fn follow(
    access: &Access,
    link: &OwnLink,
    inverse: &InverseLink,
    target: &Id,
    (left, entered): (Vec<RawBson>, Vec<RawBson>),
) -> Result<()> {
    let model = (link.side.model)();
    let target = target.value()?;
    let by_id = by_id(&target)?;
    let path = inverse.side.stored;
    if !left.is_empty() {
        let change = match inverse.side.is_many {
            true => document("$pullAll", document(path, array(&left))?)?,
            false => document("$set", document(path, RawBson::Null)?)?,
        };
        let mut filter = by_id.clone();
        if !inverse.side.is_many {
            append(&mut filter, path, document("$in", array(&left))?)?;
        }
        // What is gone needs nothing.
        update(access, model, filter, change).await?;
    }
    if entered.is_empty() {
        return Ok(());
    }
    let mut filter = by_id.clone();
    let change = if inverse.side.is_many {
        if let Some(last) = inverse.max.and_then(|max| max.checked_sub(entered.len())) {
            let full = format!("{path}.{last}");
            append(&mut filter, &full, document("$exists", false)?)?;
        } else if inverse.max.is_some() {
            return Err(full(model, inverse, &target));
        }
        let each = document("$each", array(&entered))?;
        document("$addToSet", document(path, each)?)?
    } else {
        let [one] = entered.as_slice() else {
            return Err(taken(link, model, inverse, &target));
        };
        append(
            &mut filter,
            path,
            document("$in", array([one, &RawBson::Null]))?,
        )?;
        document("$set", document(path, one.clone())?)?
    };
    if update(access, model, filter, change).await? == 1 {
        return Ok(());
    }
    let find = Find {
        limit: Some(1),
        ..found_by(&model.collection.into(), &by_id)
    };
    Err(match access.find_all(model, find).await?.is_empty() {
        true => missing(link, model, &target),
        false if inverse.side.is_many => full(model, inverse, &target),
        false => taken(link, model, inverse, &target),
    })
}

/// Changes what the framework keeps in a document: neither its version nor its time of change tells of that.
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
        multi: false,
        upsert: false,
    };
    access.told().writes();
    let done = access.executor().update(update).await;
    Ok(done.map_err(error::of(model))?.matched)
}

/// Refuses to delete what documents refer to that are not deleted with it.
fn refuse_restricted(model: &'static Model, deleted: &[Linked]) -> Result<()> {
    for (inverse, link) in both_sides(model) {
        if link.on_delete == OnDelete::Restrict {
            let first = referring(model, inverse, deleted).next();
            if let Some((document, owners)) = first {
                return Err(restricted(model, inverse, link, document, owners.len()));
            }
        }
    }
    Ok(())
}

/// What becomes of the references to documents that are deleted.
async fn take_leave(
    access: &Access,
    model: &'static Model,
    deleted: &[Linked],
    cascades: &mut Vec<(&'static Model, Removal)>,
) -> Result<()> {
    for (inverse, link) in both_sides(model) {
        let other = (inverse.side.model)();
        for (document, owners) in referring(model, inverse, deleted) {
            let filter = self::document("_id", self::document("$in", array(&owners))?)?;
            match link.on_delete {
                OnDelete::Restrict | OnDelete::Keep => {}
                OnDelete::Cascade => {
                    cascades.push((other, cascading(other, link, filter, &document.id)?));
                }
                OnDelete::Nullify | OnDelete::Pull => {
                    let mut write = change_owners(other, link, filter, &document.id)?;
                    narrow(access, other, &mut write.filter, false).await?;
                    access.told().writes();
                    let done = access.executor().update(write).await;
                    done.map_err(error::of(other))?;
                }
            }
        }
    }
    Ok(())
}

/// The delete of documents that refer to one that is deleted.
fn cascading(
    model: &Model,
    link: &OwnLink,
    mut filter: RawDocumentBuf,
    gone: &RawBson,
) -> Result<Removal> {
    append(
        &mut filter,
        link.side.stored,
        document("$eq", gone.clone())?,
    )?;
    let delete = Delete {
        collection: model.collection.into(),
        filter,
        multi: true,
    };
    Removal::new(model, delete, Means::OfModel)?.filled(model)
}

/// The write that takes a document that is deleted out of the references of others.
fn change_owners(
    model: &'static Model,
    link: &OwnLink,
    mut filter: RawDocumentBuf,
    gone: &RawBson,
) -> Result<Update> {
    let path = link.side.stored;
    let change = match link.side.is_many {
        true => document("$pullAll", document(path, array([gone]))?)?,
        false => document("$set", document(path, RawBson::Null)?)?,
    };
    append(&mut filter, path, document("$eq", gone.clone())?)?;
    let write = Update {
        collection: model.collection.into(),
        filter,
        change: Change::operators(change),
        multi: true,
        upsert: false,
    };
    write.filled(model)
}

/// The inverses of a model, with the references that they follow.
fn both_sides(
    model: &'static Model,
) -> impl Iterator<Item = (&'static InverseLink, &'static OwnLink)> {
    let inverses = model.inverses.iter();
    inverses.filter_map(|inverse| Some((inverse, inverse.own()?)))
}

/// The documents that others refer to which are not deleted with them, and those others.
fn referring<'d>(
    model: &'static Model,
    inverse: &'static InverseLink,
    deleted: &'d [Linked],
) -> impl Iterator<Item = (&'d Linked, Vec<RawBson>)> {
    let gone: BTreeSet<Id> = match inverse.side.collection == model.collection {
        true => deleted
            .iter()
            .map(|document| Id::of(&document.id))
            .collect(),
        false => BTreeSet::new(),
    };
    deleted.iter().filter_map(move |document| {
        let owners = document.inverses_of(model, inverse).iter();
        let owners = owners.filter(|owner| !gone.contains(&Id::of(owner)));
        let owners: Vec<_> = owners.cloned().collect();
        (!owners.is_empty()).then_some((document, owners))
    })
}

fn by_id(id: &RawBson) -> Result<RawDocumentBuf> {
    document("_id", document("$eq", id.clone())?)
}

/// Whether an id is among these.
fn holds(ids: &[RawBson], id: &RawBson) -> bool {
    let id = Id::of(id);
    ids.iter().any(|other| Id::of(other) == id)
}

/// The condition that an `_id` is one of these.
fn one_of(documents: &[Linked]) -> Result<RawDocumentBuf> {
    document("$in", array(documents.iter().map(|document| &document.id)))
}

fn array<'i>(ids: impl IntoIterator<Item = &'i RawBson>) -> RawArrayBuf {
    let mut array = RawArrayBuf::new();
    for id in ids {
        array.push(id.as_raw_bson_ref());
    }
    array
}

fn missing(link: &OwnLink, model: &Model, target: &RawBson) -> Error {
    let message = format!(
        "`{}` leads to a {} that is not there, and nothing was written: insert it first",
        link.side.field, model.name
    );
    at(Error::new(ErrorKind::NotFound, message), model, target)
}

fn full(model: &Model, inverse: &InverseLink, target: &RawBson) -> Error {
    let max = inverse.max.unwrap_or(1);
    let message = format!(
        "the document that is referred to lists at most {max} documents that do so, and nothing was written"
    );
    let error = Error::new(ErrorKind::TooManyElements, message).with_path(inverse.side.stored);
    at(error, model, target)
}

fn taken(link: &OwnLink, model: &Model, inverse: &InverseLink, target: &RawBson) -> Error {
    let message = format!(
        "another document refers to this one by `{}` already, and only one may; nothing was written: change that one first",
        link.side.field
    );
    let error = Error::new(ErrorKind::DuplicateKey, message).with_path(inverse.side.stored);
    at(error, model, target)
}

fn restricted(
    model: &Model,
    inverse: &InverseLink,
    link: &OwnLink,
    document: &Linked,
    owners: usize,
) -> Error {
    let documents = if owners == 1 { "document" } else { "documents" };
    let message = format!(
        "{owners} {documents} of {} refer to it by `{}`, and nothing was deleted: delete or change them first, or say another `on_delete`",
        inverse.side.collection, link.side.field
    );
    at(
        Error::new(ErrorKind::Restricted, message),
        model,
        &document.id,
    )
}

fn at(error: Error, model: &Model, id: &RawBson) -> Error {
    let error = error::of(model)(error);
    match bson::Bson::try_from(id.clone()) {
        Ok(id) => error.with_id(id),
        Err(_) => error,
    }
}
