//! What a document refers to, and what refers to it, as stored.

use std::collections::BTreeSet;

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

pub(in crate::maintain) use crate::query::by_id;
use crate::{
    Error, ErrorKind, Result,
    access::Access,
    backend::operation::Find,
    batches::HasId,
    decode, error,
    maintain::copy,
    query::{append, document},
    schema::{InverseLink, LinkSide, Model, upgrade},
};

/// The sides of links of a document.
#[derive(Debug, Clone)]
pub(super) struct Linked {
    pub(super) id: RawBson,
    /// By link of its model.
    pub(super) links: Vec<Vec<RawBson>>,
    /// By inverse of its model.
    inverses: Vec<Vec<RawBson>>,
    pub(super) fate: Fate,
    /// What each write of an inverse changes.
    pub(super) fence: Option<RawBson>,
    /// The value of its scope field; none if its model has no scope.
    pub(super) scope: Option<RawBson>,
}

/// What a deletion that is no transaction has made of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::maintain) enum Fate {
    Stays,
    /// It is marked, and not yet known whether it may go.
    Undecided,
    /// It is as good as gone.
    Goes,
}

impl Fate {
    pub(in crate::maintain) fn of(raw: &RawDocument) -> Self {
        let own = raw.get_document("_odm").ok();
        let has = |field| own.is_some_and(|own| own.get(field).is_ok_and(|value| value.is_some()));
        match (has("going"), has("closing")) {
            (false, _) => Self::Stays,
            (true, true) => Self::Undecided,
            (true, false) => Self::Goes,
        }
    }
}

impl Linked {
    pub(super) fn of(model: &Model, raw: &RawDocument) -> Result<Self> {
        let id = decode::id(raw).map(RawBson::from);
        let id = id.ok_or_else(|| Error::new(ErrorKind::Decode, "a document has no `_id`"))?;
        let at = |side: &LinkSide| ids_at(raw, side.stored);
        let inverses = model.inverses.iter();
        let own = raw.get_document("_odm").ok();
        let fence = own.and_then(|own| own.get("fence").ok().flatten());
        Ok(Self {
            id,
            links: model.links().iter().map(|link| at(&link.side)).collect(),
            inverses: inverses.map(|inverse| at(&inverse.side)).collect(),
            fate: Fate::of(raw),
            fence: fence.map(RawBson::from),
            scope: model.scope.map(|scope| {
                let value = raw.get(scope.stored).ok().flatten();
                value.map_or(RawBson::Null, RawBson::from)
            }),
        })
    }

    pub(super) fn as_deleted(&self) -> copy::Deleted<'_> {
        copy::Deleted {
            id: &self.id,
            scope: self.scope.as_ref(),
        }
    }

    /// What a reference leads to.
    pub(super) fn held(&self, link: usize) -> BTreeSet<Id> {
        let targets = self.links.get(link).into_iter().flatten();
        targets.map(Id::of).collect()
    }

    /// Lets a reference lead to these.
    pub(super) fn hold(&mut self, link: usize, targets: Vec<RawBson>) {
        if let Some(held) = self.links.get_mut(link) {
            *held = targets;
        }
    }

    /// What an inverse of its model lists.
    pub(super) fn listed(&self, model: &Model, inverse: &InverseLink) -> &[RawBson] {
        let mut inverses = model.inverses.iter();
        let position = inverses.position(|other| other.side.field == inverse.side.field);
        let listed = position.and_then(|position| self.inverses.get(position));
        listed.map_or(&[], Vec::as_slice)
    }
}

/// The ids in a field, which may be in embedded structs, and these in arrays: one, several, or none.
pub(crate) fn ids_at(raw: &RawDocument, field: &str) -> Vec<RawBson> {
    let mut found = Vec::new();
    let names: Vec<_> = field.split('.').collect();
    ids_below(raw, &names, &mut found);
    found
}

/// The ids in the fields that these names lead to.
fn ids_below(raw: &RawDocument, names: &[&str], found: &mut Vec<RawBson>) {
    let Some((name, behind)) = names.split_first() else {
        return;
    };
    if let Ok(Some(value)) = raw.get(name) {
        ids_behind(value, behind, found);
    }
}

/// The ids in a value, in the fields that these names lead to.
pub(super) fn ids_behind(value: RawBsonRef<'_>, names: &[&str], found: &mut Vec<RawBson>) {
    if names.is_empty() {
        return found.extend(ids_in(value));
    }
    match value {
        RawBsonRef::Document(inside) => ids_below(inside, names, found),
        RawBsonRef::Array(elements) => {
            for element in elements.into_iter().flatten() {
                if let RawBsonRef::Document(inside) = element {
                    ids_below(inside, names, found);
                }
            }
        }
        _ => {}
    }
}

/// The ids that a value has.
pub(super) fn ids_in(value: RawBsonRef<'_>) -> Vec<RawBson> {
    match value {
        RawBsonRef::Null => Vec::new(),
        RawBsonRef::Array(ids) => ids.into_iter().flatten().map(RawBson::from).collect(),
        id => vec![id.into()],
    }
}

/// The documents that are found, as far as they are about links: in today's form, whatever version they are stored in.
pub(super) async fn read_raw(
    access: &Access,
    model: &Model,
    mut find: Find,
    of: fn(&LinkSide) -> &'static str,
) -> Result<Vec<RawDocumentBuf>> {
    if model.upgrade.is_none() {
        find.projection = Some(sides(model, of)?);
    }
    read_upgraded(access, model, find).await
}

/// The documents that are found, in today's form.
pub(in crate::maintain) async fn read_upgraded(
    access: &Access,
    model: &Model,
    find: Find,
) -> Result<Vec<RawDocumentBuf>> {
    let mut found = access.find_all(model, find).await?;
    for raw in &mut found {
        if let Some(upgraded) = upgrade::upgraded(model, raw)? {
            *raw = upgraded;
        }
    }
    Ok(found)
}

/// The same, understood.
pub(super) async fn read(access: &Access, model: &Model, find: Find) -> Result<Vec<Linked>> {
    let found = read_raw(access, model, find, |side| side.stored).await?;
    found.iter().map(|raw| Linked::of(model, raw)).collect()
}

/// What is read of a document: its sides of links, and what the framework keeps in it.
pub(super) fn sides(model: &Model, of: fn(&LinkSide) -> &'static str) -> Result<RawDocumentBuf> {
    let mut projection = RawDocumentBuf::new();
    let links = model.links().iter().map(|link| of(&link.side));
    let inverses = model.inverses.iter().map(|inverse| of(&inverse.side));
    let scope = model.scope.iter().map(|scope| scope.stored);
    let fields: BTreeSet<_> = links.chain(inverses).chain(scope).collect();
    for field in ["_id", "_odm"].into_iter().chain(fields) {
        append(&mut projection, field, 1)?;
    }
    Ok(projection)
}

/// An id that can be looked up and has an order, so that transactions write in the same one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::maintain) struct Id(Vec<u8>);

impl Id {
    /// A whole number is the same id however it is stored, as the database compares; but for a decimal.
    pub(in crate::maintain) fn of(id: &RawBson) -> Self {
        let id = match id.as_raw_bson_ref() {
            RawBsonRef::Int32(number) => RawBsonRef::Int64(number.into()),
            RawBsonRef::Double(number) => match whole(number) {
                Some(number) => RawBsonRef::Int64(number),
                None => RawBsonRef::Double(number),
            },
            id => id,
        };
        let mut document = RawDocumentBuf::new();
        document.append(bson::raw::cstr!("_id"), id);
        Self(document.into_bytes())
    }

    pub(in crate::maintain) fn value(&self) -> Result<RawBson> {
        let document = RawDocument::from_bytes(&self.0).map_err(error::encode)?;
        let id = decode::id(document).map(RawBson::from);
        id.ok_or_else(|| Error::new(ErrorKind::Encode, "an id without a value"))
    }
}

impl HasId for Id {
    fn id_bytes(&self) -> usize {
        self.0.len()
    }
}

impl HasId for Linked {
    fn id_bytes(&self) -> usize {
        self.id.id_bytes()
    }
}

/// A floating point number as a whole one, if it is.
fn whole(number: f64) -> Option<i64> {
    // 2⁶³: what is less is a whole number of 64 bits, or none at all.
    const END: f64 = 9_223_372_036_854_775_808.0;
    let is_whole = number.fract() == 0.0 && (-END..END).contains(&number);
    #[expect(clippy::cast_possible_truncation, reason = "it was just looked at")]
    is_whole.then_some(number as i64)
}

/// Whether an id is among these.
pub(super) fn holds(ids: &[RawBson], id: &RawBson) -> bool {
    let id = Id::of(id);
    ids.iter().any(|other| Id::of(other) == id)
}

/// The condition that a value is one of these.
pub(in crate::maintain) fn one_of<'i>(
    ids: impl IntoIterator<Item = &'i RawBson>,
) -> Result<RawDocumentBuf> {
    document("$in", array(ids))
}

pub(in crate::maintain) fn array<'i>(ids: impl IntoIterator<Item = &'i RawBson>) -> RawArrayBuf {
    let mut array = RawArrayBuf::new();
    for id in ids {
        array.push(id.as_raw_bson_ref());
    }
    array
}
