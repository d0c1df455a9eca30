//! Moves in a tree.

use super::Update;
use crate::{
    language::{
        field::Path,
        query::{IntoKey, encode_value},
    },
    model::document::{Document, TreeDocument},
};

impl<T: Document, K> Update<T, K> {
    /// Moves the document below another parent of the tree, together with all documents below.
    ///
    /// The update is the same as a `set` of the parent. The ancestors of the document change in the same write. The first levels
    /// below, up to 500 documents, change before the update returns, and the rest changes in the background. [`TreeDocument`] has the model.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Debug, Serialize, Deserialize, Document)]
    /// # #[document(collection = "folders")]
    /// # struct Folder {
    /// #     #[serde(rename = "_id")] id: i64,
    /// #     name: String,
    /// #     #[reference(on_delete = restrict)] parent: Option<Ref<Folder>>,
    /// #     #[tree(parent = parent)] ancestors: Vec<Ref<Folder>>,
    /// # }
    /// # #[derive(Schema)] #[schema(models(Folder))] struct Drive;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let db = odm::Database::<Drive>::open("memory:").await?;
    /// # db.sync_indexes().await?;
    /// # for (id, parent) in [(1, None), (2, Some(1)), (3, Some(2)), (4, None)] {
    /// #     db.insert(NewFolder { id, name: format!("folder {id}"), parent: parent.map(Ref::new) }).await?;
    /// # }
    /// db.update::<Folder>(2).move_to(4).await?;
    /// assert_eq!(db.get::<Folder>(3).await?.ancestors, [Ref::new(4), Ref::new(2)]);
    ///
    /// let circle = db.update::<Folder>(2).move_to(3).await;
    /// assert_eq!(circle.unwrap_err().kind(), odm::ErrorKind::Invalid);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Invalid`](crate::ErrorKind::Invalid) if the new parent is the document or below the document. Of two concurrent moves that
    ///   together make a circle, one fails.
    /// - [`Dangling`](crate::ErrorKind::Dangling) if the new parent does not exist.
    /// - [`TooManyElements`](crate::ErrorKind::TooManyElements) if the document would have more ancestors than the `max` of the tree.
    pub fn move_to(mut self, parent: impl IntoKey<T>) -> Self
    where
        T: TreeDocument,
    {
        let value = encode_value(&parent.into_key().into_id());
        self.changes.add_set(&parent_path::<T>(), value);
        self
    }

    /// Makes the document a root of the tree. The documents below stay below the document.
    pub fn move_to_root(mut self) -> Self
    where
        T: TreeDocument,
    {
        self.changes
            .add_set(&parent_path::<T>(), Ok(bson::RawBson::Null));
        self
    }
}

fn parent_path<T: TreeDocument>() -> Path {
    let parent = T::MODEL.tree.map_or("_id", |tree| tree.parent);
    Path::ROOT.subfield(parent)
}
