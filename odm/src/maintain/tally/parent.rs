//! A parent as its children name it.

use bson::{Bson, Document, RawDocumentBuf, doc};

use super::group::Group;
use crate::{
    Result,
    maintain::{
        link::linked::{Id, by_id},
        stored::{close, get, open, raw},
    },
};

/// The parent of a child: its `_id` and, where both models have a scope, the scope of the child.
///
/// A document with this `_id` in another scope is not the parent. The session that wrote the child does not see that document, so the
/// child must not change it.
#[derive(Debug, Clone)]
pub(super) struct Parent {
    pub(super) id: Bson,
    /// The value of the scope fields; none unless both models have a scope.
    scope: Option<Bson>,
}

/// A [`Parent`] that has an order and can be looked up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ParentKey {
    id: Id,
    scope: Option<Id>,
}

impl ParentKey {
    pub(super) fn has_id(&self, id: &Id) -> bool {
        self.id == *id
    }
}

impl Parent {
    /// The parent that a child refers to.
    pub(super) fn of_child(group: &Group, child: &Document, id: Bson) -> Self {
        let scope = group.scope.map(|scope| scope_value(child, scope.referrer));
        Self { id, scope }
    }

    /// The document with another `_id` in the same scope.
    pub(super) fn with_id(&self, id: Bson) -> Self {
        Self {
            id,
            scope: self.scope.clone(),
        }
    }

    /// A document of the parents' model, read with the fields of [`projection`](Self::projection).
    pub(super) fn of_document(group: &Group, document: &Document) -> Self {
        Self {
            id: document.get("_id").cloned().unwrap_or(Bson::Null),
            scope: group.scope.map(|scope| scope_value(document, scope.target)),
        }
    }

    /// The fields by which a document of the parents' model is identified.
    pub(super) fn projection(group: &Group) -> Document {
        let scope = group.scope.iter().map(|scope| scope.target);
        scope
            .map(|field| (field.to_owned(), Bson::Int32(1)))
            .collect()
    }

    pub(super) fn key(&self) -> Result<ParentKey> {
        let scope = self.scope.as_ref().map(raw).transpose()?;
        Ok(ParentKey {
            id: Id::of(&raw(&self.id)?),
            scope: scope.as_ref().map(Id::of),
        })
    }

    /// The filter that finds the parent in its collection.
    pub(super) fn filter(&self, group: &Group) -> Result<Document> {
        let mut filter = open(&by_id(&raw(&self.id)?)?)?;
        if let (Some(scope), Some(value)) = (group.scope, &self.scope) {
            filter.insert(scope.target, doc! { "$eq": value.clone() });
        }
        Ok(filter)
    }

    /// The same, encoded.
    pub(super) fn raw_filter(&self, group: &Group) -> Result<RawDocumentBuf> {
        close(&self.filter(group)?)
    }

    /// The condition that a document which refers to the `_id` of the parent is of its scope.
    pub(super) fn same_scope(&self, group: &Group) -> Document {
        match (group.scope, &self.scope) {
            (Some(scope), Some(value)) => doc! { scope.referrer: { "$eq": value.clone() } },
            _ => Document::new(),
        }
    }
}

fn scope_value(document: &Document, field: &str) -> Bson {
    get(document, field).cloned().unwrap_or(Bson::Null)
}
