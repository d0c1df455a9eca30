//! Hooks: code of a model that runs before and after each typed write of its documents.

mod changes;
mod erased;
mod run;
mod selection;

pub use changes::Changes;
pub use erased::{ErasedHooks, RunHooks};
pub(crate) use run::{HookedWrite, run_with_after_hooks};
pub use selection::Selection;

use crate::{
    Result,
    model::document::Document,
    schema::{Contains, SameType},
    session::{Session, scope::SessionScope},
};

/// Hooks of a model: functions that run before and after writes. Implement this trait for a model with `#[document(hooks)]`.
///
/// Each hook gets `tx`, the session of the write. On a backend with transactions, `tx` is the transaction of the caller, or a
/// transaction of the write and its hooks. Both are committed together. After a conflict the transaction runs again, so a hook
/// must have no effects except through `tx`. If a hook returns an error, the write returns the error and nothing is written. In a
/// transaction of the caller, the error ends the transaction.
///
/// A standalone server has no transactions: hooks run before and after the write, and writes of hooks stay. If a hook after the
/// write fails, the error is of kind [`Committed`](crate::ErrorKind::Committed).
///
/// # Which run when
///
/// | write | hooks, in order |
/// |---|---|
/// | `insert`, `insert_many`, an upsert that inserts | `before_insert`, `before_validate`, *validation*, `after_validate`, the write, `after_insert` |
/// | `save`, `modify` | `before_validate`, `before_update`, *validation*, `after_validate`, the write, `after_update` |
/// | `update…`, an upsert that may find a document | `before_update`, *validation of the new values*, the write, `after_update` |
/// | `delete…` | `before_delete`, the write, `after_delete` |
///
/// `after_update` and `after_delete` run only if a document matched; for a save, only if the document has changes. In a bulk,
/// each write of a model with hooks runs separately. `after_commit` runs once per write, after the commit.
///
/// If a hook writes through `tx`, the hooks of that write run too, up to 16 levels deep.
///
/// The hooks of a model with a [scope](crate::scope) get a session for the scope of the write, `&Session<Shop, TenantId>`. A
/// write across [all scopes](Session::all_scopes) has no single scope and fails with [`Invalid`](crate::ErrorKind::Invalid).
///
/// ```
/// use odm::{Hooks, Session, prelude::*};
///
/// #[derive(Debug, Serialize, Deserialize, Document)]
/// #[document(collection = "posts", hooks)]
/// struct Post { #[serde(rename = "_id")] id: i64, title: String, slug: String }
///
/// #[derive(Debug, Serialize, Deserialize, Document)]
/// #[document(collection = "log")]
/// struct Entry { #[serde(rename = "_id")] id: ObjectId, text: String }
///
/// #[derive(Schema)]
/// #[schema(models(Post, Entry))]
/// struct Blog;
///
/// fn slug(title: &str) -> String {
///     title.to_lowercase().replace(' ', "-")
/// }
///
/// impl Hooks for Post {
///     type Schema = Blog;
///
///     async fn before_insert(&mut self, _: &Session<Blog>) -> odm::Result<()> {
///         self.slug = slug(&self.title);
///         Ok(())
///     }
///
///     async fn before_update(changes: &mut Changes<Self>, _: &Session<Blog>) -> odm::Result<()> {
///         if let Some(title) = changes.value(|p| p.title())? {
///             changes.set(|p| p.slug(), slug(&title));
///         }
///         Ok(())
///     }
///
///     async fn after_delete(_: &Selection<Self>, tx: &Session<Blog>) -> odm::Result<()> {
///         tx.insert(Entry { id: ObjectId::new(), text: "a post is gone".into() }).await?;
///         Ok(())
///     }
/// }
/// # use odm::hook::{Changes, Selection};
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// # let db = odm::Database::<Blog>::open("memory:").await?;
///
/// let post = db.insert(Post { id: 1, title: "On Hooks".into(), slug: String::new() }).await?;
/// assert_eq!(post.slug, "on-hooks");
/// db.update::<Post>(1).set(|p| p.title(), "No Hooks").await?;
/// assert_eq!(db.get::<Post>(1).await?.slug, "no-hooks");
/// # db.delete::<Post>(1).await?;
/// # assert_eq!(db.find::<Entry>().count().await?, 1);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has `#[document(hooks)]`, but does not implement `Hooks`",
    label = "missing `impl Hooks for {Self}`",
    note = "write `impl odm::Hooks for {Self} {{ type Schema = …; }}` with the hooks of the model, or remove `hooks`"
)]
pub trait Hooks: Document + HasHooks {
    /// The only schema through which the model is written.
    type Schema: Contains<Self, Self::Scope>;

    /// Runs before a document is inserted. May change the document, or refuse the insert by an error.
    fn before_insert(
        &mut self,
        tx: &Session<Self::Schema, Self::Scope>,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = tx;
        async { Ok(()) }
    }

    /// Runs before a whole document is validated for an insert or a save. May change the document, or refuse the write by an
    /// error.
    fn before_validate(
        &mut self,
        tx: &Session<Self::Schema, Self::Scope>,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = tx;
        async { Ok(()) }
    }

    /// Runs after a whole document was validated, just before the write. May refuse the write by an error.
    fn after_validate(
        &self,
        tx: &Session<Self::Schema, Self::Scope>,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = tx;
        async { Ok(()) }
    }

    /// Runs after a document was inserted.
    fn after_insert(
        &self,
        tx: &Session<Self::Schema, Self::Scope>,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = tx;
        async { Ok(()) }
    }

    /// Runs before documents are updated or saved. May read and extend the changes, or refuse the write by an error.
    fn before_update(
        changes: &mut Changes<Self>,
        tx: &Session<Self::Schema, Self::Scope>,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = (changes, tx);
        async { Ok(()) }
    }

    /// Runs after documents were updated or saved.
    fn after_update(
        changes: &Changes<Self>,
        tx: &Session<Self::Schema, Self::Scope>,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = (changes, tx);
        async { Ok(()) }
    }

    /// Runs before documents are deleted. May refuse the delete by an error.
    fn before_delete(
        selection: &mut Selection<Self>,
        tx: &Session<Self::Schema, Self::Scope>,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = (selection, tx);
        async { Ok(()) }
    }

    /// Runs after documents were deleted.
    fn after_delete(
        selection: &Selection<Self>,
        tx: &Session<Self::Schema, Self::Scope>,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = (selection, tx);
        async { Ok(()) }
    }

    /// Runs once after a write was committed, and never for a write that was rolled back. `db` is the database, not a
    /// transaction.
    ///
    /// The commit can no longer be undone. All hooks of a commit run in turn, even if a hook fails. The commit returns the first
    /// error, as an error of kind [`Committed`](crate::ErrorKind::Committed). If the process ends right after the commit, the
    /// hooks do not run. Write data that must not be lost through `tx`, in an earlier hook.
    fn after_commit(
        event: Committed<Self>,
        db: &Session<Self::Schema, Self::Scope>,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = (event, db);
        async { Ok(()) }
    }
}

/// A model with `#[document(hooks)]`.
#[diagnostic::on_unimplemented(
    message = "the hooks of `{Self}` would never run",
    label = "writes of this model run no hooks",
    note = "add `#[document(hooks)]` to `{Self}`"
)]
pub trait HasHooks {
    /// The scope of the sessions that the hooks get: the type of the model's [scope](crate::scope), or
    /// [`Unscoped`](crate::scope::Unscoped).
    type Scope: SessionScope;
}

/// Schemas that run the hooks of a model.
#[diagnostic::on_unimplemented(
    message = "the hooks of `{T}` do not run in `{Self}`",
    label = "not the schema of the model's hooks",
    note = "hooks run only in the schema that `impl Hooks for {T}` names: write `type Schema = {Self};` there, or remove the model from `{Self}`"
)]
pub trait RunsHooksOf<T> {}
#[diagnostic::do_not_recommend]
impl<T: Hooks<Schema: SameType<S>>, S> RunsHooksOf<T> for S {}

/// A committed write: the argument of [`Hooks::after_commit`].
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "there is one for each write")]
pub enum Committed<T: Document> {
    /// A document was inserted; the value is the stored document.
    Inserted(T),
    /// Documents were updated or saved.
    Updated(Changes<T>),
    /// Documents were deleted.
    Deleted(Selection<T>),
}
