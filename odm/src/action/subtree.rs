//! Reads of a document of a tree with the documents below.

use std::{collections::HashMap, pin::Pin};

use super::{Find, find::is_below};
use crate::{
    Result, error,
    language::{
        field::Path,
        query::{FilterNode, IntoSort, Key, encode_value},
    },
    model::document::{Document, Ref, TreeDocument},
    schema::Schema,
    session::{access::Access, scope::Unscoped},
};

/// Reads a document of a tree with the documents below; made by [`Session::subtree`](crate::Session::subtree).
///
/// The read costs two round trips for any depth: the document, and all documents below. All documents are in memory at once. For
/// large trees, limit the [`depth`](Self::depth), or read pages of
/// [`descendants_of`](super::Find::descendants_of).
///
/// While a move of a large subtree is pending, a document below can be missing from the new place, or still be at the old place:
/// [`Database::wait_for_pending`](crate::Database::wait_for_pending) waits for the move.
///
/// # Errors
///
/// [`NotFound`](crate::ErrorKind::NotFound) if the document does not exist, and the errors of a query.
#[must_use = "a read runs when awaited"]
pub struct Subtree<S, T: Document, C = Unscoped> {
    find: Find<S, T, T, (), C>,
    root: Find<S, T, T, (), C>,
    key: Key<T>,
    depth: Option<usize>,
    /// The methods of `TreeDocument`, so that a model without a tree is a single compile error.
    parent: fn(&T) -> Option<&Ref<T>>,
    ancestors: fn(&T) -> &[Ref<T>],
}

/// A document of a tree, with the documents below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeNode<T> {
    /// The document.
    pub document: T,
    /// The children, in the order of the read.
    pub children: Vec<TreeNode<T>>,
}

impl<S: Schema, T: Document, C> Subtree<S, T, C> {
    pub(crate) fn new(access: Access, key: Key<T>) -> Self
    where
        T: TreeDocument,
    {
        Self {
            root: Find::new(access.for_repeat()),
            find: Find::new(access),
            key,
            depth: None,
            parent: T::parent,
            ancestors: T::ancestors,
        }
    }

    /// Reads only this number of levels below the document: 1 for the children. Without this call, all levels.
    pub fn depth(self, levels: usize) -> Self {
        Self {
            depth: Some(levels),
            ..self
        }
    }

    /// Sorts the children of each document.
    pub fn sort<O: IntoSort<T>>(self, order: impl FnOnce(T::Fields) -> O) -> Self {
        let find = self.find.sort(order);
        Self { find, ..self }
    }
}

impl<S: Schema, T: Document, C> IntoFuture for Subtree<S, T, C> {
    type Output = Result<TreeNode<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        let (find, root) = (self.find.erase_scope(), self.root.erase_scope());
        Box::pin(async move {
            let root = root.with_key(&self.key).await?;
            let root = root.ok_or_else(|| error::not_found::<T>(self.key.id()))?;
            let mut condition = is_below::<T>(self.key.id());
            if let (Some(depth), Some(tree)) = (self.depth, T::MODEL.tree) {
                // A document at this level has exactly this number of ancestors, so the position is the first that is missing.
                let position = (self.ancestors)(&root).len().saturating_add(depth);
                let place = Path::ROOT.subfield(tree.ancestors);
                let place = place.append_name(&position.to_string());
                condition = condition.and(FilterNode::Test(place, "$exists", false.into()));
            }
            let below = find.with_condition(condition).all().await?;
            assemble(root, below, self.depth, self.parent)
        })
    }
}

/// Returns the tree of a document and the documents below, in the order of the read. A document without its parent among the
/// documents, because the parent moves or is not visible, is left out. During a move, `below` can contain documents of more than
/// `depth` levels.
fn assemble<T: Document>(
    root: T,
    below: Vec<T>,
    depth: Option<usize>,
    parent: fn(&T) -> Option<&Ref<T>>,
) -> Result<TreeNode<T>> {
    let key = |id: &T::Id| -> Result<Vec<u8>> {
        let value = encode_value(id)?;
        let document = crate::language::query::single_field_document("", value)?;
        Ok(document.into_bytes())
    };
    let mut by_parent: HashMap<Vec<u8>, Vec<T>> = HashMap::new();
    for document in below {
        if let Some(parent) = parent(&document) {
            by_parent
                .entry(key(parent.id())?)
                .or_default()
                .push(document);
        }
    }
    // Without recursion, for deep trees. `above` has the open nodes from the root to the parent of `current`.
    let mut above = Vec::new();
    let mut current = OpenNode::new(key(root.id())?, root, &mut by_parent);
    loop {
        let has_all_levels = depth.is_some_and(|depth| above.len() >= depth);
        match current.remaining.pop() {
            Some(child) if !has_all_levels => {
                let child = OpenNode::new(key(child.id())?, child, &mut by_parent);
                above.push(std::mem::replace(&mut current, child));
            }
            _ => {
                let Some(mut parent) = above.pop() else {
                    return Ok(current.node);
                };
                parent.node.children.push(current.node);
                current = parent;
            }
        }
    }
}

/// A node with children that are not yet complete.
struct OpenNode<T> {
    node: TreeNode<T>,
    /// The remaining children, last first.
    remaining: Vec<T>,
}

impl<T> OpenNode<T> {
    fn new(key: Vec<u8>, document: T, by_parent: &mut HashMap<Vec<u8>, Vec<T>>) -> Self {
        let mut remaining = by_parent.remove(&key).unwrap_or_default();
        remaining.reverse();
        Self {
            node: TreeNode {
                document,
                children: Vec::new(),
            },
            remaining,
        }
    }
}
