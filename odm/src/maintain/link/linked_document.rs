//! Documents as the references module reads them: references, inverses and metadata.

use std::collections::BTreeSet;

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

pub(in crate::maintain) use crate::query::id_filter;
use crate::{
    Error, ErrorKind, Result,
    access::Access,
    backend::operation::FindOperation,
    decode, error,
    id_batches::HasId,
    maintain::copy,
    metadata::{self, Metadata},
    query::{append_field, single_field_document},
    schema::{InverseLink, LinkField, Model, upgrade},
};

/// A document with its references and inverses.
#[derive(Debug, Clone)]
pub(super) struct LinkedDocument {
    pub(super) id: RawBson,
    /// Referenced ids, in the order of `Model::links()`.
    pub(super) targets: Vec<Vec<RawBson>>,
    /// Ids of referrers, in the order of `Model::inverses`.
    inverses: Vec<Vec<RawBson>>,
    pub(super) tombstone: TombstoneState,
    /// The version guard of inverses: each write of an inverse changes the value.
    pub(super) inverse_version: Option<RawBson>,
    /// The value of the scope field. `None` if the model has no scope.
    pub(super) scope: Option<RawBson>,
}

/// The state of a document in a delete with a tombstone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::maintain) enum TombstoneState {
    Live,
    /// The document has a provisional tombstone: the delete is undecided.
    Provisional,
    /// The document has a final tombstone, and counts as deleted.
    Final,
}

impl TombstoneState {
    pub(in crate::maintain) fn from_stored(raw: &RawDocument) -> Self {
        match Metadata::of(raw).tombstone() {
            None => Self::Live,
            Some(tombstone) if tombstone.is_provisional => Self::Provisional,
            Some(_) => Self::Final,
        }
    }
}

impl LinkedDocument {
    pub(super) fn from_stored(model: &Model, raw: &RawDocument) -> Result<Self> {
        let id = decode::stored_id(raw).map(RawBson::from);
        let id = id.ok_or_else(|| Error::new(ErrorKind::Decode, "a document has no `_id`"))?;
        let ids_of = |side: &LinkField| ids_at(raw, side.stored);
        let (links, inverses) = (model.links().iter(), model.inverses.iter());
        Ok(Self {
            id,
            targets: links.map(|link| ids_of(&link.link_field)).collect(),
            inverses: inverses
                .map(|inverse| ids_of(&inverse.link_field))
                .collect(),
            tombstone: TombstoneState::from_stored(raw),
            inverse_version: Metadata::of(raw).inverse_version().map(RawBson::from),
            scope: model.scope.map(|scope| {
                let value = raw.get(scope.stored).ok().flatten();
                value.map_or(RawBson::Null, RawBson::from)
            }),
        })
    }

    pub(super) fn as_deleted(&self) -> copy::DeletedSource<'_> {
        copy::DeletedSource {
            id: &self.id,
            scope: self.scope.as_ref(),
        }
    }

    /// Returns the ids in a reference.
    pub(super) fn targets_of(&self, link: usize) -> BTreeSet<OrderedId> {
        let targets = self.targets.get(link).into_iter().flatten();
        targets.map(OrderedId::from_id).collect()
    }

    /// Replaces the ids in a reference.
    pub(super) fn set_targets(&mut self, link: usize, targets: Vec<RawBson>) {
        if let Some(current) = self.targets.get_mut(link) {
            *current = targets;
        }
    }

    /// Returns the ids of referrers in an inverse of the model.
    pub(super) fn referrers_in(&self, model: &Model, inverse: &InverseLink) -> &[RawBson] {
        let mut inverses = model.inverses.iter();
        let position =
            inverses.position(|other| other.link_field.field == inverse.link_field.field);
        let entries = position.and_then(|position| self.inverses.get(position));
        entries.map_or(&[], Vec::as_slice)
    }
}

/// Returns the ids at a dotted path, through embedded documents and arrays.
pub(crate) fn ids_at(raw: &RawDocument, field: &str) -> Vec<RawBson> {
    let mut ids = Vec::new();
    let names: Vec<_> = field.split('.').collect();
    ids_below(raw, &names, &mut ids);
    ids
}

/// Collects the ids below the given field names.
fn ids_below(raw: &RawDocument, names: &[&str], ids: &mut Vec<RawBson>) {
    let Some((name, rest)) = names.split_first() else {
        return;
    };
    if let Ok(Some(value)) = raw.get(name) {
        ids_in_fields(value, rest, ids);
    }
}

/// Collects the ids in a value, below the given field names.
pub(super) fn ids_in_fields(value: RawBsonRef<'_>, names: &[&str], ids: &mut Vec<RawBson>) {
    if names.is_empty() {
        return ids.extend(ids_in(value));
    }
    match value {
        RawBsonRef::Document(embedded) => ids_below(embedded, names, ids),
        RawBsonRef::Array(elements) => {
            for element in elements.into_iter().flatten() {
                if let RawBsonRef::Document(embedded) = element {
                    ids_below(embedded, names, ids);
                }
            }
        }
        _ => {}
    }
}

/// Returns the ids in a value: the elements of an array, a single id, or nothing for `null`.
pub(super) fn ids_in(value: RawBsonRef<'_>) -> Vec<RawBson> {
    match value {
        RawBsonRef::Null => Vec::new(),
        RawBsonRef::Array(elements) => elements.into_iter().flatten().map(RawBson::from).collect(),
        id => vec![id.into()],
    }
}

/// Reads the link fields of documents, upgraded to the current version of the model.
///
/// A model with an upgrade function is read completely: the function may need every field.
pub(super) async fn read_link_fields(
    access: &Access,
    model: &Model,
    mut find: FindOperation,
    path_of: fn(&LinkField) -> &'static str,
) -> Result<Vec<RawDocumentBuf>> {
    if model.upgrade.is_none() {
        find.projection = Some(link_projection(model, path_of)?);
    }
    read_upgraded(access, model, find).await
}

/// Reads documents, upgraded to the current version of the model.
pub(in crate::maintain) async fn read_upgraded(
    access: &Access,
    model: &Model,
    find: FindOperation,
) -> Result<Vec<RawDocumentBuf>> {
    let mut found = access.find_all(model, find).await?;
    for raw in &mut found {
        if let Some(upgraded) = upgrade::upgrade_document(model, raw)? {
            *raw = upgraded;
        }
    }
    Ok(found)
}

/// Reads documents as [`LinkedDocument`]s.
pub(super) async fn read_linked(
    access: &Access,
    model: &Model,
    find: FindOperation,
) -> Result<Vec<LinkedDocument>> {
    let found = read_link_fields(access, model, find, |side| side.stored).await?;
    found
        .iter()
        .map(|raw| LinkedDocument::from_stored(model, raw))
        .collect()
}

/// Returns a projection of all references, inverses and metadata of a model. `path_of` selects the path of a side.
pub(super) fn link_projection(
    model: &Model,
    path_of: fn(&LinkField) -> &'static str,
) -> Result<RawDocumentBuf> {
    let mut projection = RawDocumentBuf::new();
    let links = model.links().iter().map(|link| path_of(&link.link_field));
    let inverses = model
        .inverses
        .iter()
        .map(|inverse| path_of(&inverse.link_field));
    let scope = model.scope.iter().map(|scope| scope.stored);
    let fields: BTreeSet<_> = links.chain(inverses).chain(scope).collect();
    for field in ["_id", metadata::FIELD].into_iter().chain(fields) {
        append_field(&mut projection, field, 1)?;
    }
    Ok(projection)
}

/// An id as a map key, with an order. The order makes concurrent transactions write to documents in the same order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::maintain) struct OrderedId(Vec<u8>);

impl OrderedId {
    /// Converts an id. Equal integers of different BSON types become equal keys, as the database compares ids. Decimals keep
    /// their type.
    pub(in crate::maintain) fn from_id(id: &RawBson) -> Self {
        let id = match id.as_raw_bson_ref() {
            RawBsonRef::Int32(number) => RawBsonRef::Int64(number.into()),
            RawBsonRef::Double(number) => match exact_integer(number) {
                Some(number) => RawBsonRef::Int64(number),
                None => RawBsonRef::Double(number),
            },
            id => id,
        };
        let mut document = RawDocumentBuf::new();
        document.append(bson::raw::cstr!("_id"), id);
        Self(document.into_bytes())
    }

    pub(in crate::maintain) fn to_value(&self) -> Result<RawBson> {
        let document = RawDocument::from_bytes(&self.0).map_err(error::from_bson)?;
        let id = decode::stored_id(document).map(RawBson::from);
        id.ok_or_else(|| {
            let message = "the id has no value: report this error as a bug of odm";
            Error::new(ErrorKind::Encode, message)
        })
    }
}

impl HasId for OrderedId {
    fn id_bytes(&self) -> usize {
        self.0.len()
    }
}

impl HasId for LinkedDocument {
    fn id_bytes(&self) -> usize {
        self.id.id_bytes()
    }
}

/// Returns a floating-point number as an integer, if the number is integral.
fn exact_integer(number: f64) -> Option<i64> {
    // 2⁶³. An integral number below this limit fits into an `i64`.
    const I64_UPPER_BOUND: f64 = 9_223_372_036_854_775_808.0;
    let is_whole = number.fract() == 0.0 && (-I64_UPPER_BOUND..I64_UPPER_BOUND).contains(&number);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the number is integral and in range"
    )]
    is_whole.then_some(number as i64)
}

/// Whether a list contains an id.
pub(super) fn contains_id(ids: &[RawBson], id: &RawBson) -> bool {
    let id = OrderedId::from_id(id);
    ids.iter().any(|other| OrderedId::from_id(other) == id)
}

/// Returns the condition that a value is one of the given ids.
pub(in crate::maintain) fn one_of<'i>(
    ids: impl IntoIterator<Item = &'i RawBson>,
) -> Result<RawDocumentBuf> {
    single_field_document("$in", id_array(ids))
}

pub(in crate::maintain) fn id_array<'i>(ids: impl IntoIterator<Item = &'i RawBson>) -> RawArrayBuf {
    let mut array = RawArrayBuf::new();
    for id in ids {
        array.push(id.as_raw_bson_ref());
    }
    array
}
