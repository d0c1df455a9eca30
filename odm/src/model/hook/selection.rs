//! The documents that a write selects, for hooks.

use std::fmt;

use bson::{RawArrayBuf, RawBson};

use crate::{
    Result,
    backend::operation::{FindOperation, Stage},
    error,
    language::{
        field::Path,
        query::{Filter, FilterNode, Sort, encode_value, single_field_document, sort_to_raw},
    },
    model::document::Document,
    schema::upgrade,
    session::{Session, soft_delete::Visibility},
};

/// The documents that an update or a delete selects, for hooks.
pub struct Selection<T: Document> {
    pub(crate) condition: FilterNode,
    /// The documents that the write sees: live, soft-deleted, or both.
    pub(crate) visibility: Visibility,
    pub(crate) id: Option<T::Id>,
    pub(crate) is_many: bool,
    pub(crate) sort: Vec<Sort<T>>,
    /// The ids that [`ids`](Self::ids) has read, or that the write returned.
    pub(crate) ids: Option<Vec<T::Id>>,
    /// Whether the write is restricted to `ids`.
    pub(crate) is_restricted: bool,
}

impl<T: Document> Selection<T> {
    /// Returns the id of a write by id. The document may still fail the condition of the write.
    #[must_use]
    pub fn id(&self) -> Option<&T::Id> {
        self.id.as_ref()
    }

    /// Returns whether the write changes all documents that meet the condition, and not only the first.
    #[must_use]
    pub fn is_many(&self) -> bool {
        self.is_many
    }

    /// Returns the condition of the write, with the id if the write has an id. `tx.find::<User>().filter(|_| changes.filter())`
    /// reads the documents. After an update the documents may no longer meet the condition; read the [`ids`](Self::ids) before
    /// the update. In a model with a [soft delete](crate::SoftDelete), use `with_deleted` to find documents that are restored or
    /// were deleted.
    pub fn filter(&self) -> Filter<T> {
        Filter::from_node(self.condition.clone())
    }

    /// Returns the ids of the selected documents. The first call costs a query. From then on the write changes only these
    /// documents, even if further documents meet the condition.
    ///
    /// # Errors
    ///
    /// Errors of the query.
    pub async fn ids<S, C>(&mut self, tx: &Session<S, C>) -> Result<&[T::Id]> {
        if !self.is_restricted {
            let access = tx.access().clone().with_visibility(self.visibility);
            let find = FindOperation {
                collection: T::COLLECTION.into(),
                filter: self.filter().to_raw().map_err(error::of_model::<T>)?,
                projection: Some(single_field_document("_id", 1)?),
                sort: sort_to_raw(&self.sort).map_err(error::of_model::<T>)?,
                limit: (!self.is_many).then_some(1),
                options: Stage::HOOKS.step("read the ids").into(),
            };
            upgrade::upgrade_before_write(&access, &T::MODEL, &find.filter).await?;
            let documents = access.find_all(&T::MODEL, find).await?;
            let ids = documents
                .iter()
                .map(|raw| crate::action::decode_id::<T>(raw));
            self.ids = Some(ids.collect::<Result<_>>()?);
            self.is_restricted = true;
        }
        Ok(self.ids.as_deref().unwrap_or_default())
    }

    /// Returns the ids that are known without a query: the id of a write by id, and the ids that [`ids`](Self::ids) has read.
    /// After `update_first` or `delete_first`, also the id of the document, unless a projection leaves the id out.
    #[must_use]
    pub fn known_ids(&self) -> Option<&[T::Id]> {
        match (&self.ids, &self.id) {
            (Some(ids), _) => Some(ids),
            (None, Some(id)) => Some(std::slice::from_ref(id)),
            (None, None) => None,
        }
    }

    /// Returns the condition that restricts the write to the ids, if a hook has read the ids.
    pub(crate) fn ids_condition(&self) -> Result<Option<FilterNode>> {
        let (true, Some(ids)) = (self.is_restricted, &self.ids) else {
            return Ok(None);
        };
        let mut values = RawArrayBuf::new();
        for id in ids {
            values.push(encode_value(id).map_err(error::of_model::<T>)?);
        }
        let values = RawBson::Array(values);
        Ok(Some(FilterNode::Test(
            Path::ROOT.subfield("_id"),
            "$in",
            values,
        )))
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
