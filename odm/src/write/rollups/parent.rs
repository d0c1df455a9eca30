//! The identity of a parent, as the children refer to the parent.

use bson::{Bson, Document, doc};

use super::contribution::RollupGroup;
use crate::{
    Result,
    language::query::id_filter,
    model::ids::OrderedId,
    write::metadata_update::{parse_document, to_raw_value, value_at},
};

/// The identity of a parent: the `_id` and, if both models have a scope, the scope of the child.
///
/// A document with this `_id` in another scope is not the parent. The session that wrote the child does not see that document, so
/// the child must not change that document.
#[derive(Debug, Clone)]
pub(super) struct ParentIdentity {
    pub(super) id: Bson,
    /// The value of the scope fields; `None` unless both models have a scope.
    scope: Option<Bson>,
}

/// The sort and lookup key of a [`ParentIdentity`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ParentKey {
    id: OrderedId,
    scope: Option<OrderedId>,
}

impl ParentKey {
    pub(super) fn has_id(&self, id: &OrderedId) -> bool {
        self.id == *id
    }
}

impl ParentIdentity {
    /// Returns the parent that a child refers to.
    pub(super) fn of_child(group: &RollupGroup, child: &Document, id: Bson) -> Self {
        let scope = group.scope.map(|scope| scope_value(child, scope.referrer));
        Self { id, scope }
    }

    /// Returns the document with another `_id` in the same scope.
    pub(super) fn with_id(&self, id: Bson) -> Self {
        Self {
            id,
            scope: self.scope.clone(),
        }
    }

    /// Returns the identity of a document that was read with the fields of [`identity_projection`](Self::identity_projection).
    pub(super) fn of_document(group: &RollupGroup, document: &Document) -> Self {
        Self {
            id: document.get("_id").cloned().unwrap_or(Bson::Null),
            scope: group.scope.map(|scope| scope_value(document, scope.target)),
        }
    }

    /// Returns the fields that identify a parent document.
    pub(super) fn identity_projection(group: &RollupGroup) -> Document {
        let scope = group.scope.iter().map(|scope| scope.target);
        scope
            .map(|field| (field.to_owned(), Bson::Int32(1)))
            .collect()
    }

    pub(super) fn to_key(&self) -> Result<ParentKey> {
        let scope = self.scope.as_ref().map(to_raw_value).transpose()?;
        Ok(ParentKey {
            id: OrderedId::from_bson(&self.id)?,
            scope: scope.as_ref().map(OrderedId::from_id),
        })
    }

    /// Returns the filter for the parent document.
    pub(super) fn to_filter(&self, group: &RollupGroup) -> Result<Document> {
        let mut filter = parse_document(&id_filter(&to_raw_value(&self.id)?))?;
        if let (Some(scope), Some(value)) = (group.scope, &self.scope) {
            filter.insert(scope.target, doc! { "$eq": value.clone() });
        }
        Ok(filter)
    }

    /// Returns the condition that a child with a reference to this `_id` has the scope of the parent.
    pub(super) fn scope_condition(&self, group: &RollupGroup) -> Document {
        match (group.scope, &self.scope) {
            (Some(scope), Some(value)) => doc! { scope.referrer: { "$eq": value.clone() } },
            _ => Document::new(),
        }
    }
}

fn scope_value(document: &Document, field: &str) -> Bson {
    value_at(document, field).cloned().unwrap_or(Bson::Null)
}
