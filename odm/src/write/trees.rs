//! Trees: a document must not become its own ancestor.
//!
//! The ancestors are copies (`write/copies.rs`): a document has the ancestors of the parent, and the parent. This stage only checks
//! that a write makes no circle of parents: no document of a circle has right ancestors. A new document has no descendants, unless
//! an earlier document with the same `_id` has left some.
//!
//! - With transactions, a move reads the chain of parents above the new parent, and changes the version of each of these
//!   documents. A concurrent move of one of them conflicts.
//! - Without transactions, the intent record of the reference announces the new parent before the check. The check follows stored
//!   and announced parents, so of several moves that together make a circle, the last to announce sees the others.

use bson::{RawArrayBuf, RawBson, RawDocument, RawDocumentBuf, doc, oid::ObjectId};

use super::{
    Footprint, WriteOperation,
    footprint::{Operator, path_changes},
    maintainer::{Maintainer, Strategy, WriteContext, WriteFuture},
    metadata_update::{MetadataUpdate, apply_update},
    recovery,
    tree_chain::{Announced, announced_above, cycle_error, stored_chain, with_deleted_documents},
};
use crate::{
    Error, ErrorKind, Result,
    backend::{BoxFuture, operation::Stage},
    error,
    language::query::{equal_to, single_field_document},
    metadata::references::{INVERSE_VERSION, tombstone},
    model::{
        decode,
        ids::{OrderedId, ids_filter, one_of},
    },
    schema::{Model, TreeField},
    session::access::{Access, ModelAccess, add_condition},
};

/// The parents of documents in a tree.
#[derive(Debug)]
pub(super) struct Trees;

impl Maintainer for Trees {
    fn stage(&self) -> Stage {
        Stage::TREES
    }

    fn is_affected(&self, cx: &WriteContext, footprint: &Footprint<'_>) -> bool {
        // Without transactions, `check_intent` checks the move.
        cx.strategy == Strategy::Transactional && new_parent(cx.model, footprint).is_some()
    }

    fn reasons(&self, access: ModelAccess<'_>, footprint: &Footprint<'_>) -> Vec<String> {
        let reason = new_parent(access.model, footprint).map(|(tree, _)| {
            format!(
                "`{}` moves documents in the tree, which must not become their own ancestors",
                tree.parent
            )
        });
        reason.into_iter().collect()
    }

    fn run(&'static self, cx: WriteContext, write: WriteOperation) -> WriteFuture {
        Box::pin(async move {
            let Some((tree, parent)) = new_parent(cx.model, &write.footprint()) else {
                return cx.run_next(write).await;
            };
            let run_transaction = |access: Access| {
                let (cx, mut write, parent) =
                    (cx.with_access(&access), write.clone(), parent.clone());
                async move {
                    let checked = lock_chain(access.to(cx.model), tree, &mut write, parent).await;
                    checked.map_err(|error| access.fail_transaction(error))?;
                    cx.run_next(write).await
                }
            };
            recovery::run_transactional(cx.access.to(cx.model), run_transaction).await
        })
    }

    fn check_intent<'a>(
        &'a self,
        access: ModelAccess<'a>,
        id: &'a RawBson,
        new_ids: &'a RawDocument,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let model = access.model;
            let Some(tree) = model.tree else {
                return Ok(());
            };
            let access = with_deleted_documents(access);
            let parents = new_ids.get_array(tree.parent).ok();
            let parents = parents.into_iter().flatten().flatten();
            for parent in parents.map(RawBson::from) {
                match announced_above(access.to(model), tree, parent, id).await? {
                    Announced::Free { depth } => ensure_depth(model, tree, depth)?,
                    Announced::Below => return Err(cycle_error(model, tree, id)),
                    Announced::Undecided => {
                        let message = "a concurrent move of an ancestor is not decided yet";
                        let error = Error::new(ErrorKind::Conflict, message).with_path(tree.parent);
                        return Err(error::naming_model(model)(error));
                    }
                }
            }
            Ok(())
        })
    }
}

/// Returns the parent that an update sets; `None` for other writes, and for an update that makes roots.
fn new_parent(model: &Model, footprint: &Footprint<'_>) -> Option<(TreeField, RawBson)> {
    let tree = model.tree?;
    let Footprint::Changes(change) = footprint else {
        return None;
    };
    let mut changes = path_changes(change.update()?);
    let change =
        changes.find(|change| change.path == tree.parent && change.operator == Operator::Set)?;
    let parent = RawBson::from(change.operand);
    (parent != RawBson::Null).then_some((tree, parent))
}

/// Checks in the transaction of a move that no moved document is above the new parent, and makes concurrent moves of the documents
/// above conflict.
async fn lock_chain(
    access: ModelAccess<'_>,
    tree: TreeField,
    write: &mut WriteOperation,
    parent: RawBson,
) -> Result<()> {
    let model = access.model;
    let chain_access = with_deleted_documents(access);
    let chain = stored_chain(chain_access.to(model), tree, parent).await?;
    if chain.is_empty() {
        // The stages of the references and copies report the missing parent.
        return Ok(());
    }
    ensure_depth(model, tree, chain.len())?;
    if let Some(moved) = find_moved(access, write, &chain).await? {
        return Err(cycle_error(model, tree, &moved));
    }
    let update = doc! { "$set": { INVERSE_VERSION: ObjectId::new() } };
    let origin = Stage::TREES.step("lock the documents above");
    let lock = MetadataUpdate::new(origin, ids_filter(&chain), update);
    apply_update(chain_access.to(model), lock).await.map(drop)
}

/// Returns a document of the chain that the write moves. A write of the first matching document then moves the document of the
/// check, and no other.
async fn find_moved(
    access: ModelAccess<'_>,
    write: &mut WriteOperation,
    chain: &[RawBson],
) -> Result<Option<RawBson>> {
    let mut conditions = RawArrayBuf::new();
    conditions.push(write.filter().cloned().unwrap_or_default());
    // The reference stage adds the same condition.
    conditions.push(tombstone::not_final_raw()?);
    let mut filter = single_field_document("$and", conditions)?;
    let moves_one = write.affects_at_most_one();
    if !moves_one {
        add_condition(&mut filter, "_id", one_of(chain))?;
    }
    let find = access
        .find_matching(&filter)
        .with_origin(Stage::TREES.step("look for a moved document"))
        .with_sort(write.sort_order().map(RawDocument::to_owned))
        .with_limit(Some(1))
        .with_projection(single_field_document("_id", 1)?);
    let found = access.find_all(find).await?;
    let moved = found
        .first()
        .and_then(|raw: &RawDocumentBuf| decode::owned_id(raw));
    if let (Some(moved), true) = (&moved, moves_one) {
        write.add_condition("_id", equal_to(moved.clone()))?;
    }
    Ok(moved.filter(|moved| {
        let moved = OrderedId::from_id(moved);
        chain.iter().any(|above| OrderedId::from_id(above) == moved)
    }))
}

/// Fails if a document with this number of ancestors is too deep.
fn ensure_depth(model: &'static Model, tree: TreeField, depth: usize) -> Result<()> {
    if depth <= tree.max {
        return Ok(());
    }
    let message = format!(
        "the document would have {depth} ancestors, but at most {} are allowed, and was not moved: choose another parent, or increase `max` of `#[tree(…)]`",
        tree.max
    );
    let error = Error::new(ErrorKind::TooManyElements, message).with_path(tree.ancestors);
    Err(error::naming_model(model)(error))
}
