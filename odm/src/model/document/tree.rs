//! Documents of a tree.

use super::{Document, Ref};

/// A document of a tree: a model with `#[tree(parent = …)]`. The derive implements this trait.
///
/// The framework stores the ancestors of each document, from the root to the parent. A field with `#[tree(parent = parent)]` holds
/// the ancestors, and follows each change of the parent, of the document and of every document above.
///
/// ```
/// use odm::prelude::*;
///
/// #[derive(Debug, Serialize, Deserialize, Document)]
/// #[document(collection = "categories")]
/// struct Category {
///     #[serde(rename = "_id")]
///     id: String,
///     #[reference(on_delete = restrict)]
///     parent: Option<Ref<Category>>,
///     #[tree(parent = parent)]
///     ancestors: Vec<Ref<Category>>,
/// }
/// # #[derive(Schema)] #[schema(models(Category))] struct Shop;
///
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// # let db = odm::Database::<Shop>::open("memory:").await?;
/// # db.sync_indexes().await?;
/// let category = |id: &str, parent: Option<&str>| NewCategory { id: id.into(), parent: parent.map(Ref::new) };
/// db.insert(category("tools", None)).await?;
/// db.insert(category("saws", Some("tools"))).await?;
/// db.insert(category("jigsaws", Some("saws"))).await?;
/// db.insert(category("garden", None)).await?;
///
/// // All documents below a document, in one query that takes conditions, sorts, pages and joins.
/// let below = db.find::<Category>().descendants_of("tools").sort(|c| c.id().asc()).all().await?;
/// assert_eq!(below.len(), 2);
///
/// // The ancestors, root first.
/// let (jigsaws, above) = db.get::<Category>("jigsaws").with(|c| c.ancestors()).await?;
/// assert_eq!(jigsaws.ancestors, [Ref::new("tools"), Ref::new("saws")]);
/// assert_eq!(above.len(), 2);
///
/// // A move takes the documents below along. A document cannot move below itself.
/// db.update::<Category>("saws").move_to("garden").await?;
/// assert_eq!(db.get::<Category>("jigsaws").await?.ancestors[0], Ref::new("garden"));
/// assert!(db.update::<Category>("saws").move_to("jigsaws").await.is_err());
///
/// let garden = db.subtree::<Category>("garden").await?;
/// assert_eq!(garden.children[0].children[0].document.id, "jigsaws");
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
#[diagnostic::on_unimplemented(
    message = "the documents of `{Self}` are not in a tree",
    label = "has no `#[tree(…)]`",
    note = "declare the tree: `#[tree(parent = parent)] ancestors: Vec<Ref<{Self}>>`, with `#[reference(on_delete = restrict)] parent: Option<Ref<{Self}>>`"
)]
pub trait TreeDocument: Document {
    /// Returns the reference to the parent. `None` for a root.
    fn parent(&self) -> Option<&Ref<Self>>
    where
        Self: Sized;

    /// Returns the references to the ancestors, from the root to the parent. `with(|c| c.ancestors())` of a read returns the
    /// documents.
    fn ancestors(&self) -> &[Ref<Self>]
    where
        Self: Sized;
}
