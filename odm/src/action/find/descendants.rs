//! Queries for the documents below a document of a tree.

use super::Find;
use crate::{
    language::{
        field::Path,
        query::{FilterNode, IntoKey, encode_value, field_test},
    },
    model::{
        document::{Document, TreeDocument},
        projection::Projection,
    },
    relation::Joins,
    schema::Schema,
};

impl<S: Schema, T: Document, P: Projection<Of = T>, J: Joins<P>, C> Find<S, T, P, J, C> {
    /// Returns only the documents below a document of a tree: the children, their children, and so on.
    ///
    /// The query uses the index of the ancestors, and costs one round trip for any depth. [`TreeDocument`] has the model.
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
    /// let below = db.find::<Folder>().descendants_of(1).filter(|f| f.name().ne("folder 2")).all().await?;
    /// assert_eq!(below.len(), 1);
    /// assert_eq!(below[0].id, 3);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    pub fn descendants_of(mut self, root: impl IntoKey<T>) -> Self
    where
        T: TreeDocument,
    {
        self.filter = self.filter.and(is_below::<T>(&root.into_key().into_id()));
        self
    }
}

/// Returns the condition that a document is below a document.
pub(in crate::action) fn is_below<T: Document>(root: &T::Id) -> FilterNode {
    let ancestors = T::MODEL.tree.map_or("_id", |tree| tree.ancestors);
    let path = Path::ROOT.subfield(ancestors);
    field_test::<T>(&path, "$eq", encode_value(root)).into_node()
}
