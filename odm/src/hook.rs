//! Hooks: what a model does before and after its documents are written. No typed write goes around them.

mod changes;
mod erased;
mod run;
mod selection;

pub use changes::Changes;
pub use erased::{Erased, RunHooks};
pub(crate) use run::{Written, written};
pub use selection::Selection;

use crate::{
    Result,
    document::Document,
    schema::{Contains, SameAs},
    scope::Reach,
    session::Session,
};

/// What a model does before and after its documents are written: implement it for a model with `#[document(hooks)]`.
///
/// Each hook gets `tx`, the session of the write. Where the backend has transactions that is a transaction: the caller's or,
/// outside of one, a transaction of the write and its hooks alone, so that all of it is committed together. After a conflict it is
/// tried again from its beginning, so hooks have no other effects than through `tx`. An error of a hook is that of the write, and
/// nothing is written; in the caller's transaction it ends the transaction.
///
/// On a standalone server, which has no transactions, hooks run before and behind the write, and what they have written stays. If
/// one fails behind a write, the error is of kind [`Committed`](crate::ErrorKind::Committed).
///
/// # Which run when
///
/// | write | hooks, in their order |
/// |---|---|
/// | `insert`, `insert_many`, an upsert that inserts | `before_insert`, `before_validate`, *validation*, `after_validate`, the write, `after_insert` |
/// | `save`, `modify` | `before_validate`, `before_update`, *validation*, `after_validate`, the write, `after_update` |
/// | `update…`, an upsert that may find a document | `before_update`, *validation of what is set*, the write, `after_update` |
/// | `delete…` | `before_delete`, the write, `after_delete` |
///
/// The hooks behind an update or a delete run if a document was there for it; those of a save if something has changed. In a bulk each
/// write of such a model is carried out by itself. `after_commit` runs once for each, when all is committed.
///
/// A hook that writes through `tx` runs the hooks of what it writes, 16 levels deep at most.
///
/// The hooks of a model with a [scope](crate::scope) get a session for the scope of the write, `&Session<Shop, TenantId>`. A write
/// across [all scopes](Session::all_scopes) has none, so such a model is not written that way: it is
/// [`Invalid`](crate::ErrorKind::Invalid).
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
///         if let Some(title) = changes.sets(|p| p.title())? {
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
    message = "`{Self}` says `hooks`, and has none",
    label = "no `impl Hooks for {Self}`",
    note = "write `impl odm::Hooks for {Self} {{ type Schema = …; }}` with those that it has, or leave `hooks` out"
)]
pub trait Hooks: Document + HasHooks {
    /// The schema through which the model is written, and no other.
    type Schema: Contains<Self, Self::Scope>;

    /// Before a document is inserted: it may be changed, or refused by an error.
    fn before_insert(
        &mut self,
        tx: &Session<Self::Schema, Self::Scope>,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = tx;
        async { Ok(()) }
    }

    /// Before a whole document is validated, to be inserted or saved: it may be changed, or refused by an error.
    fn before_validate(
        &mut self,
        tx: &Session<Self::Schema, Self::Scope>,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = tx;
        async { Ok(()) }
    }

    /// After a whole document has been validated, and just before it is written: it may be refused by an error.
    fn after_validate(
        &self,
        tx: &Session<Self::Schema, Self::Scope>,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = tx;
        async { Ok(()) }
    }

    /// After a document has been inserted.
    fn after_insert(
        &self,
        tx: &Session<Self::Schema, Self::Scope>,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = tx;
        async { Ok(()) }
    }

    /// Before documents are updated or saved: what is to be changed can be looked at, more can be set, and an error refuses it.
    fn before_update(
        changes: &mut Changes<Self>,
        tx: &Session<Self::Schema, Self::Scope>,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = (changes, tx);
        async { Ok(()) }
    }

    /// After documents have been updated or saved.
    fn after_update(
        changes: &Changes<Self>,
        tx: &Session<Self::Schema, Self::Scope>,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = (changes, tx);
        async { Ok(()) }
    }

    /// Before documents are deleted: an error refuses it.
    fn before_delete(
        which: &mut Selection<Self>,
        tx: &Session<Self::Schema, Self::Scope>,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = (which, tx);
        async { Ok(()) }
    }

    /// After documents have been deleted.
    fn after_delete(
        which: &Selection<Self>,
        tx: &Session<Self::Schema, Self::Scope>,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = (which, tx);
        async { Ok(()) }
    }

    /// After a write has been committed: once, and never for one that was taken back or is tried again. `db` is the database itself.
    ///
    /// Nothing can be undone any more. The hooks behind one commit all run, one after the other, whichever of them fail; the first error
    /// is given to who has committed, as one of kind [`Committed`](crate::ErrorKind::Committed). If the process ends right after the
    /// commit, they do not run: what must not be lost is written by `tx`, in one of the other hooks.
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
    label = "its writes look for none",
    note = "say `#[document(hooks)]` on `{Self}`"
)]
pub trait HasHooks {
    /// For whom the sessions are that its hooks get: the type of the model's [scope](crate::scope), or
    /// [`Unscoped`](crate::scope::Unscoped).
    type Scope: Reach;
}

/// A schema in which the hooks of a model run.
#[diagnostic::on_unimplemented(
    message = "the hooks of `{T}` do not run in `{Self}`",
    label = "another schema than that of the model's hooks",
    note = "`impl Hooks for {T}` says in which schema they run: make that `type Schema = {Self};`, or leave the model out of `{Self}`"
)]
pub trait RunsHooksOf<T> {}
#[diagnostic::do_not_recommend]
impl<T: Hooks<Schema: SameAs<S>>, S> RunsHooksOf<T> for S {}

/// What has been committed: given to [`Hooks::after_commit`].
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "there is one for each write")]
pub enum Committed<T: Document> {
    /// A document has been inserted: as it is stored.
    Inserted(T),
    /// Documents have been updated or saved.
    Updated(Changes<T>),
    /// Documents have been deleted.
    Deleted(Selection<T>),
}
