//! Reading only some fields of what is stored.

use std::{
    collections::{BTreeMap, HashMap},
    hash::BuildHasher,
};

use bson::{RawDocument, RawDocumentBuf};
use serde::de::DeserializeOwned;

use crate::{
    Result,
    decode::decode,
    document::{Document, Overflow, Ref},
    field::FromPath,
    query::append,
    schema::Model,
};

/// A type that holds some fields of what is stored, of a model's documents or of an embedded struct: derive it.
///
/// Its fields have the names and the types that they have there, which is checked at compile time, and only these are
/// read from the database. Where the model has an embedded struct, an option, an array or a map of one, the field may have
/// a projection of that struct in its place; then only the fields of that one are read (of the values of a map, all).
/// Whatever is stored is a projection of itself, to all that it has.
///
/// An index that has all the fields and those of the filter and the sort serves such a query alone, if the `_id` is not
/// asked for or stands in the index: [`explain`](crate::action::Find::explain) then counts no documents.
///
/// ```
/// # use odm::prelude::*;
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "posts")]
/// # struct Post { #[serde(rename = "_id")] id: i64, title: String, text: String, #[embed] author: Author }
/// # #[derive(Serialize, Deserialize, Embedded)]
/// # struct Author { name: String, bio: String }
/// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
/// #[derive(Deserialize, Projection)]
/// #[projection(of = Post)]
/// struct PostCard { title: String, author: AuthorName }
///
/// #[derive(Deserialize, Projection)]
/// #[projection(of = Author)]
/// struct AuthorName { name: String }
///
/// # async fn example(db: odm::Database<Blog>) -> odm::Result<()> {
/// // It reads `title` and `author.name`, and no text.
/// let cards: Vec<PostCard> = db.find::<Post>().select().limit(10).all().await?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no projection",
    label = "neither stored nor a `Projection` of what is",
    note = "derive it: `#[derive(Deserialize, Projection)]` with `#[projection(of = …)]`"
)]
pub trait Projection: DeserializeOwned + Send + Sync + 'static {
    /// What it holds fields of: a model, or what is stored in a field of one.
    type Of;
    /// What is read of that.
    const READS: Reads;
    /// What is read of it as the element of an array.
    #[doc(hidden)]
    const READS_IN_ARRAY: Reads = Self::READS;

    /// Whether it is an array of which some elements may be elsewhere.
    #[doc(hidden)]
    const OVERFLOWS: bool = false;

    /// Reads a stored document of a model.
    #[doc(hidden)]
    fn from_document(raw: &RawDocument, model: &Model) -> Result<Self> {
        decode(raw, model)
    }

    /// Learns how many elements of an array there are outside of the stored document; of what is no such array nothing.
    #[doc(hidden)]
    fn look_outside(&mut self, raw: &RawDocument, model: &Model, stored: &str) {
        let _ = (raw, model, stored);
    }

    /// The document as the joins of a query may read it, where it differs from the one that is stored.
    #[doc(hidden)]
    fn rewritten(&self) -> Option<Result<RawDocumentBuf>> {
        None
    }
}

/// What a [`Projection`] reads.
#[derive(Debug, Clone, Copy)]
pub enum Reads {
    /// Everything.
    Whole,
    /// These fields by their stored names, and of each of them so much.
    Fields(&'static [(&'static str, Reads)]),
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
    const READS: Reads = Reads::Whole;

    fn from_document(raw: &RawDocument, _: &Model) -> Result<Self> {
        T::from_stored(raw)
    }

    fn rewritten(&self) -> Option<Result<RawDocumentBuf>> {
        T::MODEL
            .rewrites
            .then(|| crate::query::encode_document(self))
    }
}

#[diagnostic::do_not_recommend]
impl<T: Document> Projection for Ref<T> {
    type Of = Self;
    const READS: Reads = Reads::Whole;
}

#[diagnostic::do_not_recommend]
impl<P: Projection> Projection for Option<P> {
    type Of = Option<P::Of>;
    const READS: Reads = P::READS;
    // A projection of fields leaves out the elements that are none, so that the array would be shorter.
    const READS_IN_ARRAY: Reads = Reads::Whole;
}

#[diagnostic::do_not_recommend]
impl<P: Projection> Projection for Vec<P> {
    type Of = Vec<P::Of>;
    const READS: Reads = P::READS_IN_ARRAY;
}

/// How many elements there are outside of the document is read with it.
#[diagnostic::do_not_recommend]
impl<P: Projection> Projection for Overflow<P> {
    type Of = Overflow<P::Of>;
    const READS: Reads = P::READS_IN_ARRAY;
    const OVERFLOWS: bool = true;

    fn look_outside(&mut self, raw: &RawDocument, model: &Model, stored: &str) {
        Self::look_outside(self, raw, model, stored);
    }
}

// The keys of a map are not known, so no path leads to the fields of its values.
#[diagnostic::do_not_recommend]
impl<P: Projection> Projection for BTreeMap<String, P> {
    type Of = BTreeMap<String, P::Of>;
    const READS: Reads = Reads::Whole;
}

#[diagnostic::do_not_recommend]
impl<P, H> Projection for HashMap<String, P, H>
where
    P: Projection,
    H: BuildHasher + Default + Send + Sync + 'static,
{
    type Of = HashMap<String, P::Of, H>;
    const READS: Reads = Reads::Whole;
}

/// What has fields that a projection can choose from: a model or an embedded struct. Derived together with it.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no fields to choose from",
    label = "neither a `Document` nor an embedded struct",
    note = "a projection is of a struct that derives `Document` or `Embedded`"
)]
pub trait Projected {
    /// Its field tree.
    type Tree: FromPath;
    /// The name of each field in Rust and as it is stored.
    const NAMES: &'static [(&'static str, &'static str)];
}

#[diagnostic::do_not_recommend]
impl<T: Document> Projected for T {
    type Tree = T::Fields;
    const NAMES: &'static [(&'static str, &'static str)] = T::MODEL.fields;
}

/// The projection document: the fields of `P`, and those that the joins need.
pub(crate) fn to_raw<P: Projection<Of: Document>>(
    needs: &[String],
) -> Result<Option<RawDocumentBuf>> {
    // The fields of an outdated document come from all that it has.
    if <P::Of as Document>::MODEL.upgrade.is_some() {
        return Ok(None);
    }
    let Reads::Fields(fields) = P::READS else {
        return Ok(None);
    };
    let mut read = Vec::new();
    list(fields, "", &mut read);
    let mut paths: Vec<&str> = read.iter().map(String::as_str).collect();
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
    let headers = <P::Of as Document>::MODEL.overflows.iter();
    let headers = headers.filter(|field| {
        let is_of = |path: &&str| path.split('.').next() == Some(field.stored);
        paths.iter().any(is_of)
    });
    let headers: Vec<_> = headers.map(|field| field.header).collect();
    paths.extend(headers);
    let mut raw = RawDocumentBuf::new();
    for path in &paths {
        append(&mut raw, path, 1)?;
    }
    if paths.is_empty() {
        // An exclusion alone would read everything else.
        append(&mut raw, "_id", 1)?;
    } else if !paths.contains(&"_id") {
        append(&mut raw, "_id", 0)?;
    }
    Ok(Some(raw))
}

fn list(fields: &[(&str, Reads)], before: &str, paths: &mut Vec<String>) {
    for (name, reads) in fields {
        let path = format!("{before}{name}");
        match reads {
            Reads::Fields(inner) if !inner.is_empty() => list(inner, &(path + "."), paths),
            _ => paths.push(path),
        }
    }
}

/// A field that holds what the model's field has, or a projection of it.
#[diagnostic::on_unimplemented(
    message = "the projection has a `{Self}` where the model has a `{T}`",
    label = "neither the type that the field has in the model nor a projection of it"
)]
pub trait Holds<T> {}
#[diagnostic::do_not_recommend]
impl<T, P: Projection<Of = T>> Holds<T> for P {}
