//! Soft delete: documents that are marked as deleted, and stay.

use crate::{
    Session,
    action::{AllMatching, Update},
    document::Document,
    query::{Filter, IntoRouted},
    schema::{Contains, Schema},
    scope::Reach,
};

/// A model whose documents are deleted by a mark, and can be restored: `#[document(soft_delete)]`.
///
/// The mark is the date in a field `deleted_at: Option<DateTime>`, or in the one that `soft_delete = removed_at` names. A
/// delete sets it; from then on nothing finds the document: no read, no count, no join (it is
/// [`Missing`](crate::relation::Linked::Missing)), no update, save or further delete. Three ways lead to it:
/// [`Find::with_deleted`](crate::action::Find::with_deleted) and [`only_deleted`](crate::action::Find::only_deleted) read it,
/// [`Session::restore`] takes the mark away, and [`Delete::permanently`](crate::action::Delete::permanently) deletes it for
/// good.
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
///     // Deleted for good, by the database, 30 days after it was marked.
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
/// # Ids and unique indexes
///
/// A deleted document keeps its `_id` and its values: to insert one with the same is a
/// [`DuplicateKey`](crate::ErrorKind::DuplicateKey). If the values of a unique index shall be free again, let it be an index
/// of what is not deleted: `#[index(unique, partial = |p| p.deleted_at().is_none())]`. Then a document whose value
/// somebody else has by now cannot be restored, which is the same error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no soft delete",
    label = "is deleted for good",
    note = "declare it: `#[document(soft_delete)]` with a field `deleted_at: Option<DateTime>`; without it `delete` deletes for good, and there is nothing to restore"
)]
pub trait SoftDelete: Document {}

/// Which documents of a model with a soft delete are seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Sight {
    /// Those that are not deleted.
    #[default]
    Present,
    /// Those that are deleted.
    Deleted,
    /// All.
    All,
}

impl<S: Schema, C: Reach> Session<S, C> {
    /// Restores the document with this id, which was deleted by a mark: see [`SoftDelete`].
    ///
    /// It is an update of a deleted document, with all that an update has: a condition by [`when`](Update::when), further
    /// changes, the document by [`returning_after`](Update::returning_after), a place in a [`bulk`](Self::bulk).
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) if there is no deleted document with the id;
    /// [`DuplicateKey`](crate::ErrorKind::DuplicateKey) if another document has a value of a unique index by now that is
    /// one of documents which are not deleted.
    pub fn restore<T: SoftDelete>(&self, id: impl IntoRouted<T, C>) -> Update<T>
    where
        S: Contains<T, C>,
    {
        let access = self.writing::<T>("restore").seeing(Sight::Deleted);
        Update::by_key(access, id.into_key()).restoring()
    }

    /// Restores all deleted documents that meet the condition: [`Filter::all`] for every deleted document.
    pub fn restore_many<T: SoftDelete>(
        &self,
        condition: impl FnOnce(T::Fields) -> Filter<T>,
    ) -> Update<T, AllMatching>
    where
        S: Contains<T, C>,
    {
        let access = self.writing::<T>("restore_many").seeing(Sight::Deleted);
        Update::by_condition(access, condition(T::fields())).restoring()
    }
}
