//! Which documents a write is about.

use crate::{
    Result,
    document::Document,
    field::Path,
    query::{Filter, IntoFilter, Node, encode},
};

/// One document by its id, or all that meet the condition.
#[derive(Debug)]
pub(super) struct Target<T: Document> {
    id: Option<T::Id>,
    condition: Node,
}

impl<T: Document> Target<T> {
    pub(super) fn one(id: T::Id) -> Self {
        Self {
            id: Some(id),
            condition: Node::All,
        }
    }

    pub(super) fn many(condition: Filter<T>) -> Self {
        Self {
            id: None,
            condition: condition.into_node(),
        }
    }

    /// Only those that meet this condition too.
    pub(super) fn when<F: IntoFilter<T>>(&mut self, condition: impl FnOnce(T::Fields) -> F) {
        if let Some(filter) = condition(T::fields()).into_filter() {
            let before = std::mem::replace(&mut self.condition, Node::All);
            self.condition = before.and(filter.into_node());
        }
    }

    pub(super) fn is_multi(&self) -> bool {
        self.id.is_none()
    }

    /// The id, where it is the whole of what was asked for.
    pub(super) fn only_id(&self) -> Option<&T::Id> {
        self.id
            .as_ref()
            .filter(|_| matches!(self.condition, Node::All))
    }

    pub(super) fn node(&self) -> Result<Node> {
        Ok(match &self.id {
            None => self.condition.clone(),
            Some(id) => {
                Node::Test(Path::ROOT.then("_id"), "$eq", encode(id)?).and(self.condition.clone())
            }
        })
    }
}
