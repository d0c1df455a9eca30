//! Deleting documents.

use std::pin::Pin;

use super::{
    outcome::{Outcome, not_applied},
    returning::{ReturningDelete, find_and_delete},
    target::{ById, Counted, First, One, Ordered, Target, Which, id_of, to_raw},
};
pub use crate::backend::operation::Deleted;
use crate::{
    Error, Result,
    access::Access,
    backend::operation,
    document::{Document, Ref},
    error,
    maintain::{Means, Plan, Removal},
    query::{Filter, IntoFilter, IntoSort, document},
    soft_delete::{Sight, SoftDelete},
};

/// Deletes documents; made by [`Session::delete`](crate::Session::delete),
/// [`Session::delete_first`](crate::Session::delete_first) and [`Session::delete_many`](crate::Session::delete_many).
///
/// Deleting what is not there is no error: [`Deleted::deleted`] is 0. Of a model with a [soft delete](SoftDelete) a delete
/// sets a mark, where there is none yet; [`permanently`](Self::permanently) deletes for good.
#[must_use = "a delete happens when it is awaited"]
pub struct Delete<T: Document, K = ById> {
    pub(super) access: Access,
    pub(super) target: Target<T, K>,
    pub(super) means: Means,
}

impl Deleted {
    /// Whether a document was deleted.
    #[must_use]
    pub fn applied(self) -> bool {
        self.deleted > 0
    }

    /// An error unless a document was deleted.
    ///
    /// # Errors
    ///
    /// [`NotApplied`](crate::ErrorKind::NotApplied).
    pub fn expect_applied(self) -> Result<Self> {
        if self.applied() {
            Ok(self)
        } else {
            Err(not_applied())
        }
    }
}

impl<T: Document> Delete<T> {
    pub(crate) fn by_id(access: Access, id: T::Id) -> Self {
        Self {
            access,
            target: Target::by_id(id),
            means: Means::OfModel,
        }
    }
}

impl<T: Document, K: Which> Delete<T, K> {
    /// For a kind without an id.
    pub(crate) fn by_condition(access: Access, condition: Filter<T>) -> Self {
        Self {
            access,
            target: Target::by_condition(condition),
            means: Means::OfModel,
        }
    }

    /// Only what meets the condition, looked at in the same atomic step.
    pub fn when<F: IntoFilter<T>>(
        self,
        condition: impl FnOnce(T::Fields) -> F,
    ) -> Delete<T, K::When> {
        Delete {
            access: self.access,
            target: self.target.when(condition),
            means: self.means,
        }
    }

    /// Which of the documents that meet the condition is the first; a further call orders what this one leaves equal.
    pub fn sort<O: IntoSort<T>>(mut self, order: impl FnOnce(T::Fields) -> O) -> Self
    where
        K: Ordered,
    {
        self.target.sort(order);
        self
    }

    /// Deletes for good, in a model with a soft delete, what is deleted already and what is not.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "posts", soft_delete)]
    /// # struct Post { #[serde(rename = "_id")] id: i64, deleted_at: Option<DateTime> }
    /// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
    /// # async fn example(db: odm::Database<Blog>, month_ago: DateTime) -> odm::Result<()> {
    /// db.delete::<Post>(1).permanently().await?;
    /// db.delete_many::<Post>(|p| p.deleted_at().lt(month_ago)).permanently().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn permanently(self) -> Self
    where
        T: SoftDelete,
    {
        Self {
            access: self.access.seeing(Sight::All),
            means: Means::ForGood,
            ..self
        }
    }

    /// Gives the document as it was, read in the same atomic step.
    pub fn returning(self) -> ReturningDelete<T, K>
    where
        K: One,
    {
        ReturningDelete::new(self)
    }

    pub(super) fn operation(&self) -> Result<operation::Delete> {
        Ok(operation::Delete {
            collection: T::COLLECTION.into(),
            filter: to_raw::<T>(self.target.node().map_err(error::of_model::<T>)?)?,
            multi: self.target.id().is_none(),
        })
    }
}

impl<T: Document, K: Counted> IntoFuture for Delete<T, K> {
    type Output = Result<Deleted>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let removal = Removal::new(&T::MODEL, self.operation()?, self.means)?;
            Plan::new(&T::MODEL, removal)?.run(self.access).await
        })
    }
}

/// A delete of the first tells which document that was.
impl<T: Document> IntoFuture for Delete<T, First> {
    type Output = Result<Outcome<Ref<T>>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let found = find_and_delete(self, Some(document("_id", 1)?)).await?;
            let id = found.as_deref().map(id_of::<T>).transpose();
            Ok(id.map_err(Error::behind_a_write)?.map(Ref::of_id).into())
        })
    }
}
