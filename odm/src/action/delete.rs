//! Deleting documents.

use std::pin::Pin;

use bson::RawDocumentBuf;

use super::{
    outcome::{Outcome, not_applied},
    returning::ReturningDelete,
    target::{Aim, ById, Counted, FirstMatching, InOrder, Target, ToOne, Which, id_of, to_raw},
};
use crate::{
    Error, Result,
    access::Access,
    backend::{BoxFuture, operation},
    document::{Document, Ref},
    error,
    hook::{self, Committed, RunHooks, Written},
    maintain::{Means, Plan, Removal, consequences, of_one},
    query::{Filter, IntoFilter, IntoSort, Key, document},
    soft_delete::{Sight, SoftDelete},
    unit,
};
pub use crate::{backend::operation::Deleted, maintain::Consequences};

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

/// How a delete is carried out.
#[derive(Debug, Clone)]
pub(super) enum DeleteHow {
    /// Counting.
    Count,
    /// Giving the first document back, or this of it.
    Returning(Option<RawDocumentBuf>),
}

/// How many documents were deleted, and the one that was asked for.
type Gone = (Deleted, Option<RawDocumentBuf>);

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
    pub(crate) fn by_key(access: Access, key: Key<T>) -> Self {
        Self {
            access,
            target: Target::by_key(key),
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
        K: InOrder,
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

    /// What it would do, with all that goes with it by `on_delete`, and nothing of it is done; hooks are not asked.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "folders")]
    /// # struct Folder {
    /// #     #[serde(rename = "_id")] id: String,
    /// #     #[reference(on_delete = cascade)] parent: Option<Ref<Folder>>,
    /// # }
    /// # #[derive(Schema)] #[schema(models(Folder))] struct Files;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let db = odm::Database::<Files>::open("memory:").await?;
    /// # db.insert(Folder { id: "/".into(), parent: None }).await?;
    /// # db.insert(Folder { id: "/a".into(), parent: Some(Ref::new("/")) }).await?;
    /// let consequences = db.delete::<Folder>("/").dry_run().await?;
    /// assert_eq!(consequences.to_string(), "2 of folders would be deleted\n");
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    pub async fn dry_run(self) -> Result<Consequences>
    where
        K: Counted,
    {
        let filter = self.operation()?.filter;
        if T::MODEL.soft_delete.is_some() && self.means == Means::OfModel {
            let count = operation::Count {
                collection: T::COLLECTION.into(),
                filter,
                limit: None,
                max_time: None,
            };
            let marked = self.access.count(&T::MODEL, count).await?;
            let deleted = (marked > 0).then_some((T::COLLECTION, marked));
            return Ok(Consequences {
                deleted: deleted.into_iter().collect(),
                ..Consequences::default()
            });
        }
        consequences(&self.access, &T::MODEL, filter).await
    }

    /// Gives the document as it was, read in the same atomic step.
    pub fn returning(self) -> ReturningDelete<T, K>
    where
        K: ToOne,
    {
        ReturningDelete::new(self)
    }

    /// Carries it out, with the hooks of its model.
    pub(super) fn perform(self, how: DeleteHow) -> BoxFuture<'static, Result<Gone>> {
        if T::HAS_HOOKS {
            return self.perform_with_hooks(how);
        }
        Prepared::begin(self.prepare(), how)
    }

    /// An object, so that of a model without hooks nothing of it is compiled.
    fn perform_with_hooks(self, how: DeleteHow) -> BoxFuture<'static, Result<Gone>> {
        Box::pin(async move {
            let Some(hooks) = T::hooks() else {
                return self.prepare()?.carry_out(how).await;
            };
            let access = self.access.clone();
            let work = |access: Access| {
                let (target, means, how) = (self.target.clone(), self.means, how.clone());
                let delete = Self {
                    access,
                    target,
                    means,
                };
                async move { delete.perform_hooked(hooks, how).await }
            };
            access.together(unit::ATTEMPTS, work).await
        })
    }

    async fn perform_hooked(
        mut self,
        hooks: &'static dyn RunHooks<T>,
        how: DeleteHow,
    ) -> Result<Gone> {
        let access = self.access.clone();
        let is_many = matches!(how, DeleteHow::Count) && self.target.id().is_none();
        let mut which = self.target.selection(&access, is_many)?;
        let before = hooks.before_delete(&mut which, &access).await;
        before.map_err(|error| access.fail(error))?;
        self.target = self.target.pin(which.pinned()?);
        hook::written(access, hooks, move |access| async move {
            let done = self.prepare()?.carry_out(how).await?;
            if !done.0.applied() {
                return Ok(Written::nothing(done));
            }
            if let (None, Some(Ok(id))) = (&which.ids, done.1.as_deref().map(id_of::<T>)) {
                which.ids = Some(vec![id]);
            }
            Ok(Written {
                done,
                after: hooks.after_delete(&which, &access).await,
                events: vec![Committed::Deleted(which)],
            })
        })
        .await
    }

    fn prepare(self) -> Result<Prepared> {
        Ok(Prepared {
            delete: self.operation()?,
            access: self.access,
            aim: self.target.aim().map_err(error::of_model::<T>)?,
            means: self.means,
        })
    }

    pub(super) fn operation(&self) -> Result<operation::Delete> {
        let node = self.target.node().map_err(error::of_model::<T>)?;
        Ok(operation::Delete {
            collection: T::COLLECTION.into(),
            filter: to_raw(&T::MODEL, &node)?,
            multi: self.target.id().is_none(),
        })
    }
}

/// A delete whose conditions have been put together.
struct Prepared {
    access: Access,
    aim: Aim,
    delete: operation::Delete,
    means: Means,
}

impl Prepared {
    /// Carries out what has been put together, if it could be.
    fn begin(prepared: Result<Self>, how: DeleteHow) -> BoxFuture<'static, Result<Gone>> {
        Box::pin(async move { prepared?.carry_out(how).await })
    }

    async fn carry_out(self, how: DeleteHow) -> Result<Gone> {
        let Aim { model, sort, .. } = self.aim;
        match how {
            DeleteHow::Count => {
                let removal = Removal::new(model, self.delete, self.means)?;
                let done = Plan::new(model, removal)?.run(self.access).await?;
                Ok((done, None))
            }
            DeleteHow::Returning(projection) => {
                let mut write = operation::FindAndModify {
                    collection: self.delete.collection,
                    filter: self.delete.filter,
                    sort,
                    projection,
                    modification: operation::Modification::Delete,
                };
                of_one(model, &mut write, self.means)?;
                let found = Plan::new(model, write)?.run(self.access).await?;
                let deleted = u64::from(found.is_some());
                Ok((Deleted { deleted }, found))
            }
        }
    }
}

impl<T: Document, K: Counted> IntoFuture for Delete<T, K> {
    type Output = Result<Deleted>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        counted(self.perform(DeleteHow::Count))
    }
}

fn counted(delete: BoxFuture<'static, Result<Gone>>) -> BoxFuture<'static, Result<Deleted>> {
    Box::pin(async move { Ok(delete.await?.0) })
}

/// A delete of the first tells which document that was.
impl<T: Document> IntoFuture for Delete<T, FirstMatching> {
    type Output = Result<Outcome<Ref<T>>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let how = DeleteHow::Returning(Some(document("_id", 1)?));
            let (_, found) = self.perform(how).await?;
            let id = found.as_deref().map(id_of::<T>).transpose();
            Ok(id.map_err(Error::behind_a_write)?.map(Ref::of_id).into())
        })
    }
}
