//! Soft delete: documents that get a deletion date and stay stored.

use crate::{
    Session,
    action::{AllMatching, Update},
    language::query::{Filter, IntoRouted},
    model::document::Document,
    schema::{Contains, Schema},
    session::scope::SessionScope,
};

/// A model with soft delete: `#[document(soft_delete)]`. Deleted documents stay stored and can be restored.
///
/// A delete sets a date in the field `deleted_at: Option<DateTime>`, or in another field with `soft_delete = removed_at`. From
/// then on, no read, count, update, save or delete finds the document, and a join returns
/// [`Missing`](crate::relation::Linked::Missing). Three operations reach a deleted document:
///
/// - [`Find::with_deleted`](crate::action::Find::with_deleted) and [`only_deleted`](crate::action::Find::only_deleted) read
///   deleted documents.
/// - [`Session::restore`] removes the date.
/// - [`Delete::permanently`](crate::action::Delete::permanently) deletes the document for good.
///
/// ```
/// use odm::prelude::*;
///
/// #[derive(Debug, Serialize, Deserialize, Document)]
/// #[document(collection = "posts", soft_delete)]
/// struct Post {
///     #[serde(rename = "_id")]
///     id: i64,
///     title: String,
///     // The database removes the document permanently, 30 days after the soft delete.
///     #[index(expire_after_seconds = 2_592_000)]
///     deleted_at: Option<DateTime>,
/// }
/// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// # let db = odm::Database::<Blog>::open("memory:").await?;
/// db.insert(NewPost { id: 1, title: "Hello".into() }).await?;
///
/// db.delete::<Post>(1).await?;
/// assert!(db.find_by_id::<Post>(1).await?.is_none());
/// assert_eq!(db.find::<Post>().only_deleted().all().await?[0].title, "Hello");
///
/// db.restore::<Post>(1).await?;
/// assert_eq!(db.find::<Post>().count().await?, 1);
///
/// db.delete::<Post>(1).permanently().await?;
/// assert_eq!(db.find::<Post>().with_deleted().count().await?, 0);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
///
/// # Children
///
/// With `soft_delete(cascade)`, a soft delete also soft-deletes the documents that refer to the document by
/// `#[reference(on_delete = cascade)]`, if their model has a soft delete, and so on. All of them get the same date. A restore
/// restores the documents with that date: a child that was deleted before stays deleted. Both need a backend with transactions.
///
/// # Ids and unique indexes
///
/// A soft-deleted document keeps the `_id` and the unique values. An insert with the same values is a
/// [`DuplicateKey`](crate::ErrorKind::DuplicateKey) error. To free the values of a unique index, restrict the index to documents
/// that are not deleted: `#[index(unique, partial = |p| p.deleted_at().is_none())]`. A restore then fails with the same error if
/// another document has taken the value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no soft delete",
    label = "deletes are permanent",
    note = "declare soft delete: `#[document(soft_delete)]` with a field `deleted_at: Option<DateTime>`; without soft delete, there is nothing to restore"
)]
pub trait SoftDelete: Document {}

/// The documents that an operation sees, of a model with soft delete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// Shows only documents that are not deleted.
    #[default]
    Present,
    /// Shows only deleted documents.
    Deleted,
    /// Shows all documents.
    All,
}

impl<S: Schema, C: SessionScope> Session<S, C> {
    /// Restores the soft-deleted document with this id: see [`SoftDelete`].
    ///
    /// The result is an update of a deleted document, with all options of an update: a condition by [`when`](Update::when),
    /// further changes, the document by [`returning_after`](Update::returning_after), and use in a [`bulk`](Self::bulk).
    ///
    /// # Errors
    ///
    /// - [`NotFound`](crate::ErrorKind::NotFound) if no deleted document has the id.
    /// - [`Dangling`](crate::ErrorKind::Dangling) if the document refers by `on_delete = cascade` to a soft-deleted document of a
    ///   model with `soft_delete(cascade)`: restore that document first.
    /// - [`DuplicateKey`](crate::ErrorKind::DuplicateKey) if a partial unique index covers the restored document, and another
    ///   document has the value.
    pub fn restore<T: SoftDelete>(&self, id: impl IntoRouted<T, C>) -> Update<T>
    where
        S: Contains<T, C>,
    {
        let access = self
            .write_access::<T>("restore")
            .with_visibility(Visibility::Deleted);
        Update::by_key(access, id.into_key()).clear_deletion_date()
    }

    /// Restores all soft-deleted documents that meet the condition. [`Filter::all`] restores every deleted document.
    pub fn restore_many<T: SoftDelete>(
        &self,
        condition: impl FnOnce(T::Fields) -> Filter<T>,
    ) -> Update<T, AllMatching>
    where
        S: Contains<T, C>,
    {
        let access = self
            .write_access::<T>("restore_many")
            .with_visibility(Visibility::Deleted);
        Update::by_condition(access, condition(T::fields())).clear_deletion_date()
    }
}
