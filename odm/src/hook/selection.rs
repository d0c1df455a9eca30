//! Which documents a write is about.

use std::fmt;

use bson::{RawArrayBuf, RawBson};

use crate::{
    Result,
    backend::operation::Find,
    document::Document,
    error,
    field::Path,
    query::{Filter, Node, Sort, document, encode, sort_to_raw},
    schema::upgrade,
    session::Session,
    soft_delete::Sight,
};

/// Which documents an update or a delete is about, for its hooks.
pub struct Selection<T: Document> {
    pub(crate) condition: Node,
    /// Which of the documents the write sees that may be deleted by a mark.
    pub(crate) sight: Sight,
    pub(crate) id: Option<T::Id>,
    pub(crate) is_many: bool,
    pub(crate) sort: Vec<Sort<T>>,
    /// The ids that have been asked for, or that are known.
    pub(crate) ids: Option<Vec<T::Id>>,
    /// Whether the write is about them alone.
    pub(crate) is_pinned: bool,
}

impl<T: Document> Selection<T> {
    /// The id, where the write is by one. A condition may still keep it from the document.
    #[must_use]
    pub fn id(&self) -> Option<&T::Id> {
        self.id.as_ref()
    }

    /// Whether the write is about all documents that meet the condition, and not the first alone.
    #[must_use]
    pub fn is_many(&self) -> bool {
        self.is_many
    }

    /// The condition, with the id if there is one: `tx.find::<User>().filter(|_| changes.filter())` gives the documents as they
    /// are. Behind an update they may not meet it any more; ask for the [`ids`](Self::ids) before it. In a model with a
    /// [soft delete](crate::SoftDelete) what is restored, or was deleted, is found by `with_deleted` alone.
    pub fn filter(&self) -> Filter<T> {
        Filter::from_node(self.condition.clone())
    }

    /// The ids of the documents that are concerned, which costs a query the first time. From then on, the write is about these documents
    /// alone, whatever others meet its condition meanwhile.
    ///
    /// # Errors
    ///
    /// Those of the query.
    pub async fn ids<S, C>(&mut self, tx: &Session<S, C>) -> Result<&[T::Id]> {
        if !self.is_pinned {
            let access = tx.access().clone().seeing(self.sight);
            let find = Find {
                collection: T::COLLECTION.into(),
                filter: self.filter().to_raw().map_err(error::of_model::<T>)?,
                projection: Some(document("_id", 1)?),
                sort: sort_to_raw(&self.sort).map_err(error::of_model::<T>)?,
                limit: (!self.is_many).then_some(1),
                max_time: None,
            };
            upgrade::before_write(&access, &T::MODEL, &find.filter).await?;
            let found = access.find_all(&T::MODEL, find).await?;
            let ids = found.iter().map(|raw| crate::action::id_of::<T>(raw));
            self.ids = Some(ids.collect::<Result<_>>()?);
            self.is_pinned = true;
        }
        Ok(self.ids.as_deref().unwrap_or_default())
    }

    /// The ids that are known without a query: of a write by id, and those that [`ids`](Self::ids) has found. Behind an
    /// `update_first` or a `delete_first` that of the document, unless a projection has left it out.
    #[must_use]
    pub fn known_ids(&self) -> Option<&[T::Id]> {
        match (&self.ids, &self.id) {
            (Some(ids), _) => Some(ids),
            (None, Some(id)) => Some(std::slice::from_ref(id)),
            (None, None) => None,
        }
    }

    /// The condition that it is one of the documents whose ids were asked for.
    pub(crate) fn pinned(&self) -> Result<Option<Node>> {
        let (true, Some(ids)) = (self.is_pinned, &self.ids) else {
            return Ok(None);
        };
        let mut values = RawArrayBuf::new();
        for id in ids {
            values.push(encode(id).map_err(error::of_model::<T>)?);
        }
        let values = RawBson::Array(values);
        Ok(Some(Node::Test(Path::ROOT.then("_id"), "$in", values)))
    }
}

impl<T: Document> fmt::Debug for Selection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selection")
            .field("filter", &self.filter())
            .field("is_many", &self.is_many)
            .finish_non_exhaustive()
    }
}
