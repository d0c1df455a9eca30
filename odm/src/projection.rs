//! Reading only some fields of a document.

use bson::RawDocumentBuf;
use serde::de::DeserializeOwned;

use crate::{Result, document::Document, query::append};

/// A type that holds some fields of the documents of a model: derive it.
///
/// Its fields have the names and the types that they have in the model, which is checked at compile time, and only these
/// are read from the database. A document is a projection of itself, to all its fields.
///
/// ```
/// # use odm::prelude::*;
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "posts")]
/// # struct Post { #[serde(rename = "_id")] id: i64, title: String, slug: String, text: String }
/// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
/// #[derive(Deserialize, Projection)]
/// #[projection(of = Post)]
/// struct PostCard { title: String, slug: String }
///
/// # async fn example(db: odm::Database<Blog>) -> odm::Result<()> {
/// let cards: Vec<PostCard> = db.find::<Post>().select().limit(10).all().await?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no projection",
    note = "derive it: `#[derive(Deserialize, Projection)]` with `#[projection(of = …)]`"
)]
pub trait Projection: DeserializeOwned + Send + Sync + 'static {
    /// The model whose documents it is read from.
    type Of: Document;
    /// The stored names of its fields; all if none.
    const FIELDS: Option<&'static [&'static str]>;

    /// The document as the joins of a query may read it, where it differs from the one that is stored.
    #[doc(hidden)]
    fn rewritten(&self) -> Option<Result<RawDocumentBuf>> {
        None
    }
}

/// A [`Projection`] of the model `T`: one question for all that can be wrong with it. Derived together with it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no projection of `{T}`",
    label = "cannot be read from the documents of `{T}`",
    note = "derive it: `#[derive(Deserialize, Projection)]` with `#[projection(of = {T})]`"
)]
pub trait ProjectionOf<T> {}
#[diagnostic::do_not_recommend]
impl<T: Document> ProjectionOf<T> for T {}

#[diagnostic::do_not_recommend]
impl<T: Document> Projection for T {
    type Of = T;
    const FIELDS: Option<&'static [&'static str]> = None;

    fn rewritten(&self) -> Option<Result<RawDocumentBuf>> {
        T::MODEL
            .rewrites
            .then(|| crate::query::encode_document(self))
    }
}

/// The projection document: the fields of `P`, and those that the joins need.
pub(crate) fn to_raw<P: Projection>(needs: &[String]) -> Result<Option<RawDocumentBuf>> {
    let Some(fields) = P::FIELDS else {
        return Ok(None);
    };
    let mut paths: Vec<&str> = fields.to_vec();
    for need in needs {
        // A path below a field that is there already would be in its way.
        let covered = |path: &&str| {
            need == path
                || need
                    .strip_prefix(*path)
                    .is_some_and(|rest| rest.starts_with('.'))
        };
        if !paths.iter().any(covered) {
            paths.retain(|path| {
                path.strip_prefix(need.as_str())
                    .is_none_or(|rest| !rest.starts_with('.'))
            });
            paths.push(need);
        }
    }
    let mut raw = RawDocumentBuf::new();
    for path in &paths {
        append(&mut raw, path, 1)?;
    }
    if !paths.contains(&"_id") {
        append(&mut raw, "_id", 0)?;
    }
    Ok(Some(raw))
}

/// A field of a model that a projection holds.
#[diagnostic::on_unimplemented(
    message = "the projection has a `{Self}` where the model has a `{T}`",
    label = "not the type that the field has in the model"
)]
pub trait Holds<T> {}
#[diagnostic::do_not_recommend]
impl<T> Holds<T> for T {}
