//! `delete`, `delete_first` and `delete_many`.

use crate::model::hook::{self, Committed, HookedWrite, RunHooks};
use std::pin::Pin;

use bson::RawDocumentBuf;

pub use crate::{backend::operation::DeleteResult, write::DeletePreview};

use super::{
    explain::ExplainWrite,
    outcome::{Outcome, not_applied_error},
    returning::ReturningDelete,
    target::{
        ById, CountingTarget, ErasedTarget, FirstMatching, SingleTarget, SortableTarget,
        TargetKind, WriteTarget, decode_id, to_raw,
    },
};
use crate::{
    Error, Result,
    backend::{BoxFuture, operation},
    error,
    language::query::{Filter, FilterNode, IntoFilter, IntoSort, Key, single_field_document},
    model::document::{Document, Ref},
    relation::resolve_related,
    schema::Model,
    session::{
        access::Access,
        soft_delete::{SoftDelete, Visibility},
    },
    write::{
        DeleteMode, WriteRequest, apply_delete_mode, delete_operation, preview_delete,
        preview_soft_delete,
    },
};

/// Deletes documents; made by [`Session::delete`](crate::Session::delete),
/// [`Session::delete_first`](crate::Session::delete_first) and [`Session::delete_many`](crate::Session::delete_many).
///
/// A delete of a missing document is no error: [`DeleteResult::deleted`] is 0. In a model with a [soft delete](SoftDelete), a
/// delete sets the deletion date of live documents; [`permanently`](Self::permanently) removes the documents.
#[must_use = "a delete runs when awaited"]
pub struct Delete<T: Document, K = ById> {
    pub(super) access: Access,
    pub(super) target: WriteTarget<T, K>,
    pub(super) means: DeleteMode,
}

/// The result that a delete returns.
#[derive(Debug, Clone)]
pub(super) enum DeleteForm {
    /// The number of documents.
    Count,
    /// The first document, or the projected fields.
    Returning(Option<RawDocumentBuf>),
}

/// The number of deleted documents, and the returned document.
type DeleteOutput = (DeleteResult, Option<RawDocumentBuf>);

impl DeleteResult {
    /// Returns whether a document was deleted.
    #[must_use]
    pub fn is_applied(self) -> bool {
        self.deleted > 0
    }

    /// Returns an error if no document was deleted.
    ///
    /// # Errors
    ///
    /// [`NotApplied`](crate::ErrorKind::NotApplied) if no document was deleted.
    pub fn expect_applied(self) -> Result<Self> {
        if self.is_applied() {
            Ok(self)
        } else {
            Err(not_applied_error())
        }
    }
}

impl<T: Document> Delete<T> {
    pub(crate) fn by_key(access: Access, key: Key<T>) -> Self {
        Self {
            access,
            target: WriteTarget::by_key(key),
            means: DeleteMode::ModelDefault,
        }
    }
}

impl<T: Document, K: TargetKind> Delete<T, K> {
    /// Makes a delete of a kind without an id.
    pub(crate) fn by_condition(access: Access, condition: Filter<T>) -> Self {
        Self {
            access,
            target: WriteTarget::by_condition(condition),
            means: DeleteMode::ModelDefault,
        }
    }

    /// Deletes only documents that meet the condition. The check is part of the same atomic step.
    pub fn when<F: IntoFilter<T>>(
        self,
        condition: impl FnOnce(T::Fields) -> F,
    ) -> Delete<T, K::When> {
        Delete {
            access: self.access,
            target: self.target.with_condition(condition),
            means: self.means,
        }
    }

    /// Adds sort keys that decide which matching document is the first. The keys of a later call order documents that the earlier
    /// keys leave equal.
    pub fn sort<O: IntoSort<T>>(mut self, order: impl FnOnce(T::Fields) -> O) -> Self
    where
        K: SortableTarget,
    {
        self.target.sort(order);
        self
    }

    /// Removes the documents of a model with a soft delete from the database, soft-deleted documents included.
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
            access: self.access.with_visibility(Visibility::All),
            means: DeleteMode::Hard,
            ..self
        }
    }

    /// Returns the consequences of the delete, with all cascades and other `on_delete` rules, without deleting anything. Hooks do
    /// not run.
    ///
    /// # Errors
    ///
    /// Errors of the backend. A restricted delete is no error here: see [`DeletePreview::error`].
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
    pub async fn dry_run(mut self) -> Result<DeletePreview>
    where
        K: CountingTarget,
    {
        let access = self.access.clone();
        self.target.resolve_related(&access).await?;
        let filter = self.to_operation()?.filter;
        let is_soft_delete =
            T::MODEL.soft_delete.is_some() && self.means == DeleteMode::ModelDefault;
        if is_soft_delete && T::MODEL.soft_delete_cascades {
            return preview_soft_delete(self.access.to(&T::MODEL), filter).await;
        }
        if is_soft_delete {
            let count = operation::CountOperation {
                collection: T::COLLECTION.into(),
                filter,
                limit: None,
                options: Default::default(),
            };
            let soft_deleted = self.access.count(&T::MODEL, count).await?;
            let deleted = (soft_deleted > 0).then_some((T::COLLECTION, soft_deleted));
            return Ok(DeletePreview {
                deleted: deleted.into_iter().collect(),
                ..DeletePreview::default()
            });
        }
        preview_delete(self.access.to(&T::MODEL), filter).await
    }

    /// Returns the plan of the delete, without deleting anything: see [`ExplainWrite`].
    pub fn explain(self) -> ExplainWrite<'static> {
        let access = self.access.clone();
        let prepared = self.into_prepared();
        ExplainWrite::new::<T, _>(access, |access| async move {
            let delete = PreparedDelete {
                access,
                ..prepared?
            };
            delete.execute_delete(DeleteForm::Count).await.map(drop)
        })
    }

    /// Returns the deleted document, read in the same atomic step.
    pub fn returning(self) -> ReturningDelete<T, K>
    where
        K: SingleTarget,
    {
        ReturningDelete::new(self)
    }

    /// Runs the delete with the hooks of the model.
    pub(super) fn run_delete(self, form: DeleteForm) -> BoxFuture<'static, Result<DeleteOutput>> {
        if T::HAS_HOOKS {
            return self.run_with_hooks(form);
        }
        PreparedDelete::boxed_execute(self.into_prepared(), form)
    }

    /// Boxed as a trait object, so that models without hooks do not compile this code.
    fn run_with_hooks(self, form: DeleteForm) -> BoxFuture<'static, Result<DeleteOutput>> {
        Box::pin(async move {
            let Some(hooks) = T::hooks() else {
                return self.into_prepared()?.execute_delete(form).await;
            };
            let access = self.access.clone();
            let work = |access: Access| {
                let (target, means, form) = (self.target.clone(), self.means, form.clone());
                let delete = Self {
                    access,
                    target,
                    means,
                };
                async move { delete.run_hooked(hooks, form).await }
            };
            access.run_transactional(work).await
        })
    }

    async fn run_hooked(
        mut self,
        hooks: &'static dyn RunHooks<T>,
        form: DeleteForm,
    ) -> Result<DeleteOutput> {
        let access = self.access.clone();
        let is_many = matches!(form, DeleteForm::Count) && self.target.id().is_none();
        self.target.resolve_related(&access).await?;
        let mut selection = self.target.to_selection(&access, is_many)?;
        let before = hooks.before_delete(&mut selection, &access).await;
        before.map_err(|error| access.fail_transaction(error))?;
        self.target = self.target.restrict_to(selection.ids_condition()?);
        hook::run_with_after_hooks(access, hooks, move |access| async move {
            let outcome = self.into_prepared()?.execute_delete(form).await?;
            if !outcome.0.is_applied() {
                return Ok(HookedWrite::without_match(outcome));
            }
            if let (None, Some(Ok(id))) = (&selection.ids, outcome.1.as_deref().map(decode_id::<T>))
            {
                selection.ids = Some(vec![id]);
            }
            Ok(HookedWrite {
                done: outcome,
                after_hooks: hooks.after_delete(&selection, &access).await,
                events: vec![Committed::Deleted(selection)],
            })
        })
        .await
    }

    fn into_prepared(self) -> Result<PreparedDelete> {
        Ok(PreparedDelete {
            condition: self.target.full_condition().map_err(error::of_model::<T>)?,
            multi: self.target.id().is_none(),
            access: self.access,
            aim: self.target.to_erased().map_err(error::of_model::<T>)?,
            means: self.means,
        })
    }

    pub(super) fn to_operation(&self) -> Result<operation::DeleteOperation> {
        let node = self.target.full_condition().map_err(error::of_model::<T>)?;
        delete_by_condition(&T::MODEL, &node, self.target.id().is_none())
    }
}

fn delete_by_condition(
    model: &Model,
    condition: &FilterNode,
    multi: bool,
) -> Result<operation::DeleteOperation> {
    Ok(operation::DeleteOperation {
        collection: model.collection.into(),
        filter: to_raw(model, condition)?,
        multi,
        origin: operation::OperationOrigin::default(),
    })
}

/// A delete without the type of the model, ready to run.
struct PreparedDelete {
    access: Access,
    aim: ErasedTarget,
    condition: FilterNode,
    multi: bool,
    means: DeleteMode,
}

impl PreparedDelete {
    /// Runs the delete, or returns the error of its preparation.
    fn boxed_execute(
        prepared: Result<Self>,
        form: DeleteForm,
    ) -> BoxFuture<'static, Result<DeleteOutput>> {
        Box::pin(async move { prepared?.execute_delete(form).await })
    }

    async fn execute_delete(self, form: DeleteForm) -> Result<DeleteOutput> {
        let ErasedTarget { model, sort, .. } = self.aim;
        let condition = resolve_related(&self.access, model, self.condition).await?;
        let delete = delete_by_condition(model, &condition, self.multi)?;
        match form {
            DeleteForm::Count => {
                let delete = delete_operation(model, delete, self.means)?;
                let outcome = WriteRequest::new(model, delete)?.run(self.access).await?;
                let deleted = outcome.matched;
                Ok((DeleteResult { deleted }, None))
            }
            DeleteForm::Returning(projection) => {
                let mut write = operation::FindAndModify {
                    collection: delete.collection,
                    filter: delete.filter,
                    sort,
                    projection,
                    modification: operation::FindAndModifyKind::Delete,
                    origin: operation::OperationOrigin::default(),
                };
                apply_delete_mode(model, &mut write, self.means)?;
                let outcome = WriteRequest::new(model, write)?.run(self.access).await?;
                let deleted = outcome.matched;
                Ok((DeleteResult { deleted }, outcome.document))
            }
        }
    }
}

impl<T: Document, K: CountingTarget> IntoFuture for Delete<T, K> {
    type Output = Result<DeleteResult>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        await_count(self.run_delete(DeleteForm::Count))
    }
}

fn await_count(
    delete: BoxFuture<'static, Result<DeleteOutput>>,
) -> BoxFuture<'static, Result<DeleteResult>> {
    Box::pin(async move { Ok(delete.await?.0) })
}

/// `delete_first` returns a reference to the deleted document.
impl<T: Document> IntoFuture for Delete<T, FirstMatching> {
    type Output = Result<Outcome<Ref<T>>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let form = DeleteForm::Returning(Some(single_field_document("_id", 1)?));
            let (_, document) = self.run_delete(form).await?;
            let id = document.as_deref().map(decode_id::<T>).transpose();
            Ok(id
                .map_err(Error::after_committed_write)?
                .map(Ref::of_id)
                .into())
        })
    }
}
