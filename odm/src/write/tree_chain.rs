//! The chain of parents above a document of a tree. Copies and moves use the chain.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, Document, RawBson, RawDocument, RawDocumentBuf};

use super::metadata_update::to_raw_value;
use crate::{
    Error, ErrorKind, Result,
    backend::operation::Stage,
    error,
    language::query::{id_filter, projection_of},
    metadata::{self, Metadata},
    model::{
        decode,
        ids::{OrderedId, ids_filter},
    },
    schema::{Model, TreeField, upgrade::read_upgraded},
    session::{
        access::{Access, ModelAccess},
        soft_delete::Visibility,
    },
};

/// Returns a document and the documents above, by the stored references. Empty for a missing document. A circle of parents, which
/// another program can store, ends the chain.
///
/// The stored ancestors may be outdated, so the chain follows the references. The ancestors only select the documents of the
/// second query.
pub(super) async fn stored_chain(
    access: ModelAccess<'_>,
    tree: TreeField,
    first: RawBson,
) -> Result<Vec<RawBson>> {
    chain_with_known(access, tree, first, &mut KnownDocuments::new()).await
}

/// The documents of a tree that were read before.
pub(crate) type KnownDocuments = BTreeMap<OrderedId, TreeDocument>;

/// Returns the [`stored_chain`]. Reads only documents that are not known, and adds them.
pub(super) async fn chain_with_known(
    access: ModelAccess<'_>,
    tree: TreeField,
    first: RawBson,
    known: &mut KnownDocuments,
) -> Result<Vec<RawBson>> {
    let key = OrderedId::from_id(&first);
    if !known.contains_key(&key) {
        known.extend(read_documents(access, tree, id_filter(&first)).await?);
    }
    let Some(document) = known.get(&key) else {
        return Ok(Vec::new());
    };
    let mut above = document.ancestors.clone();
    above.retain(|id| !known.contains_key(&OrderedId::from_id(id)));
    if !above.is_empty() {
        known.extend(read_documents(access, tree, ids_filter(&above)).await?);
    }
    let (mut chain, mut seen, mut next) = (Vec::new(), BTreeSet::new(), Some(first));
    while let Some(id) = next {
        let key = OrderedId::from_id(&id);
        if !seen.insert(key.clone()) {
            break;
        }
        if !known.contains_key(&key) {
            known.extend(read_documents(access, tree, id_filter(&id)).await?);
        }
        let Some(document) = known.get(&key) else {
            break;
        };
        next = document.parent.clone();
        chain.push(id);
    }
    Ok(chain)
}

/// The relation of a document to the documents above its announced parent.
pub(super) enum Announced {
    /// The document is not above the parent. `depth` is the number of ancestors that the document would have.
    Free { depth: usize },
    /// The document is above the parent.
    Below,
    /// The document is above the parent if an announced move of another document happens.
    Undecided,
}

/// Follows the stored and announced parents above `parent`, and looks for the document `id`.
pub(super) async fn announced_above(
    access: ModelAccess<'_>,
    tree: TreeField,
    parent: RawBson,
    id: &RawBson,
) -> Result<Announced> {
    let id = OrderedId::from_id(id);
    let chain = stored_chain(access, tree, parent.clone()).await?;
    if chain.iter().any(|above| OrderedId::from_id(above) == id) {
        // The queries may have seen different moments, and so a chain that never existed.
        let again = read_documents(access, tree, ids_filter(&chain)).await?;
        let parent_of = |child| again.get(&OrderedId::from_id(child))?.parent.as_ref();
        let links = chain.iter().zip(chain.iter().skip(1));
        let is_stored = links
            .take_while(|(child, _)| OrderedId::from_id(child) != id)
            .all(|(child, parent)| {
                let stored = parent_of(child).map(OrderedId::from_id);
                stored == Some(OrderedId::from_id(parent))
            });
        return Ok(match is_stored {
            true => Announced::Below,
            false => Announced::Undecided,
        });
    }
    // The stored chain is read again, together with the announced parents: a move may have been announced after the first read.
    let mut seen: BTreeSet<OrderedId> = chain.iter().map(OrderedId::from_id).collect();
    seen.insert(OrderedId::from_id(&parent));
    let mut level = match chain.is_empty() {
        true => vec![parent],
        false => chain.clone(),
    };
    while !level.is_empty() {
        let found = read_documents(access, tree, ids_filter(&level)).await?;
        level.clear();
        for document in found.into_values() {
            for above in document.parent.into_iter().chain(document.announced) {
                let key = OrderedId::from_id(&above);
                if key == id {
                    return Ok(Announced::Undecided);
                }
                if seen.insert(key) {
                    level.push(above);
                }
            }
        }
    }
    Ok(Announced::Free { depth: chain.len() })
}

/// A document of a tree.
#[derive(Debug)]
pub(crate) struct TreeDocument {
    parent: Option<RawBson>,
    /// The parents that an unfinished write may store.
    announced: Vec<RawBson>,
    ancestors: Vec<RawBson>,
}

impl TreeDocument {
    pub(super) fn parent(&self) -> Option<&RawBson> {
        self.parent.as_ref()
    }

    fn from_stored(raw: &RawDocument, tree: TreeField) -> Self {
        let ids_at = |document: &RawDocument, name: &str| {
            let ids = document.get_array(name).ok().into_iter().flatten();
            ids.flatten().map(RawBson::from).collect::<Vec<_>>()
        };
        let parent = raw.get(tree.parent).ok().flatten().map(RawBson::from);
        let intent = Metadata::of(raw).intent();
        let intent = intent.filter(|intent| !intent.is_committed && !intent.is_aborted);
        Self {
            parent: parent.filter(|parent| *parent != RawBson::Null),
            announced: intent.map_or_else(Vec::new, |intent| ids_at(&intent.new, tree.parent)),
            ancestors: ids_at(raw, tree.ancestors),
        }
    }
}

/// Reads documents of the tree, by `_id`.
async fn read_documents(
    access: ModelAccess<'_>,
    tree: TreeField,
    filter: RawDocumentBuf,
) -> Result<KnownDocuments> {
    let mut find = access
        .find_matching(&filter)
        .with_origin(Stage::TREES.step("read the documents above"));
    // An upgrade may need any field.
    if access.model.upgrade.is_none() {
        let fields = ["_id", tree.parent, tree.ancestors, metadata::FIELD];
        find = find.with_projection(projection_of(fields)?);
    }
    let found = read_upgraded(&access, access.model, find).await?;
    let documents = found.iter().filter_map(|raw| {
        let id = decode::owned_id(raw)?;
        Some((
            OrderedId::from_id(&id),
            TreeDocument::from_stored(raw, tree),
        ))
    });
    Ok(documents.collect())
}

/// Fails if a new document is above its parent: an earlier document with the same `_id` has left descendants. `fields` has the
/// parent and the ancestors.
pub(super) async fn ensure_no_descendants(
    access: ModelAccess<'_>,
    raw: &RawDocument,
    fields: &Document,
) -> Result<()> {
    let (Some(tree), Some(id)) = (access.model.tree, decode::owned_id(raw)) else {
        return Ok(());
    };
    let key = OrderedId::from_id(&id);
    let mut is_above = false;
    for above in fields.get_array(tree.ancestors).into_iter().flatten() {
        is_above |= OrderedId::from_bson(above)? == key;
    }
    let parent = fields.get(tree.parent).filter(|_| is_above);
    let parent = parent.map(to_raw_value).transpose()?;
    let Some(parent) = parent else {
        return Ok(());
    };
    // The ancestors may be outdated.
    match is_own_ancestor(access, &id, parent, &mut KnownDocuments::new()).await? {
        true => Err(cycle_error(access.model, tree, &id)),
        false => Ok(()),
    }
}

/// Whether a document with this parent is its own ancestor, by the stored parents.
pub(super) async fn is_own_ancestor(
    access: ModelAccess<'_>,
    id: &RawBson,
    parent: RawBson,
    known: &mut KnownDocuments,
) -> Result<bool> {
    let Some(tree) = access.model.tree else {
        return Ok(false);
    };
    let chain_access = with_deleted_documents(access);
    let chain = chain_with_known(chain_access.to(access.model), tree, parent, known).await?;
    let id = OrderedId::from_id(id);
    // The chain ends below a missing document.
    let last = chain.last().map(OrderedId::from_id);
    let missing = last.and_then(|last| known.get(&last)?.parent());
    let mut above = chain.iter().chain(missing);
    Ok(above.any(|above| OrderedId::from_id(above) == id))
}

/// Returns the access to the chain of parents: in the scope of the writer, with soft-deleted documents, which `restore` can return.
pub(super) fn with_deleted_documents(access: ModelAccess<'_>) -> Access {
    Access::clone(&access).with_visibility(Visibility::All)
}

/// Returns the error of a document that would be its own ancestor.
pub(super) fn cycle_error(model: &'static Model, tree: TreeField, id: &RawBson) -> Error {
    let message = "the document would be its own ancestor, and was not written: choose a parent that is neither the document nor below the document";
    let error = Error::new(ErrorKind::Invalid, message).with_path(tree.parent);
    let error = match Bson::try_from(id.clone()) {
        Ok(id) => error.with_id(id),
        Err(_) => error,
    };
    error::naming_model(model)(error)
}
