//! Documents as the references module reads them: references, inverses and metadata.

use std::collections::BTreeSet;

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::{
    Error, ErrorKind, Result,
    backend::operation::{FindOperation, Stage},
    language::query::projection_of,
    metadata::{self, Metadata, references::TombstoneState},
    model::{
        decode,
        ids::{HasId, OrderedId},
    },
    schema::{InverseLink, LinkField, Model, upgrade::read_upgraded},
    session::access::ModelAccess,
    write::maintainer::DeletedDocument,
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
    /// The date of the soft delete. Null for a live document.
    pub(super) deleted_at: RawBson,
}

impl LinkedDocument {
    pub(super) fn from_stored(model: &Model, raw: &RawDocument) -> Result<Self> {
        let id = decode::owned_id(raw);
        let id = id.ok_or_else(|| Error::new(ErrorKind::Decode, "a document has no `_id`"))?;
        let value_of = |field| {
            let value = raw.get(field).ok().flatten();
            value.map_or(RawBson::Null, RawBson::from)
        };
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
            scope: model.scope.map(|scope| value_of(scope.stored)),
            deleted_at: model.soft_delete.map_or(RawBson::Null, value_of),
        })
    }

    pub(super) fn as_deleted(&self) -> DeletedDocument<'_> {
        DeletedDocument {
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
    access: ModelAccess<'_>,
    mut find: FindOperation,
    path_of: fn(&LinkField) -> &'static str,
) -> Result<Vec<RawDocumentBuf>> {
    if access.model.upgrade.is_none() {
        find.projection = Some(link_projection(access.model, path_of)?);
    }
    read_upgraded(&access, access.model, find).await
}

/// Reads documents as [`LinkedDocument`]s.
pub(super) async fn read_linked(
    access: ModelAccess<'_>,
    find: FindOperation,
) -> Result<Vec<LinkedDocument>> {
    let found = read_link_fields(access, find, |side| side.stored).await?;
    found
        .iter()
        .map(|raw| LinkedDocument::from_stored(access.model, raw))
        .collect()
}

/// Reads the documents that a filter matches as [`LinkedDocument`]s.
pub(super) async fn read_matching(
    access: ModelAccess<'_>,
    step: &'static str,
    filter: &RawDocument,
) -> Result<Vec<LinkedDocument>> {
    let find = access.find_matching(filter);
    read_linked(access, find.with_origin(Stage::REFERENCES.step(step))).await
}

/// Returns a projection of all references, inverses and metadata of a model, and of the fields that deletes depend on. `path_of` selects the path of a side.
pub(super) fn link_projection(
    model: &Model,
    path_of: fn(&LinkField) -> &'static str,
) -> Result<RawDocumentBuf> {
    let links = model.links().iter().map(|link| path_of(&link.link_field));
    let inverses = model.inverses.iter();
    let inverses = inverses.map(|inverse| path_of(&inverse.link_field));
    let scope = model.scope.iter().map(|scope| scope.stored);
    let fields = links.chain(inverses).chain(scope);
    let fields: BTreeSet<_> = fields.chain(model.soft_delete).collect();
    projection_of(["_id", metadata::FIELD].into_iter().chain(fields))
}

impl HasId for LinkedDocument {
    fn id_bytes(&self) -> usize {
        self.id.id_bytes()
    }
}
