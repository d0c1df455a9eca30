//! Projections: reading some fields of stored documents.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    hash::{BuildHasher, Hash},
};

use bson::{RawDocument, RawDocumentBuf};
use serde::de::DeserializeOwned;

use crate::{
    Result,
    language::{
        field::{FromPath, MapKey},
        query::append_field,
    },
    model::{
        decode::decode,
        document::{Document, Overflow, Ref},
    },
    schema::Model,
};

/// A type with some fields of a model's documents or of an embedded struct. Derive it.
///
/// The fields have the names and types of the model's fields, which the compiler checks. Queries read only these fields from the
/// database. For an embedded struct, an option, an array or a map of structs, the field may have a projection of that struct;
/// then queries read only the fields of that projection (all fields for the values of a map). Every stored type is a projection
/// of itself, with all its fields.
///
/// An index with all fields of the projection, the filter and the sort serves such a query alone, if the `_id` is not requested
/// or is part of the index: [`explain`](crate::action::Find::explain) then reports no examined documents.
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
/// // Reads `title` and `author.name`, but no text.
/// let cards: Vec<PostCard> = db.find::<Post>().select().limit(10).all().await?;
/// # Ok(())
/// # }
/// ```
///
/// The model can declare projections that leave fields out, for example a long text. The generated struct has no such field, so
/// a use of the field does not compile:
///
/// ```
/// use odm::prelude::*;
///
/// #[derive(Debug, Serialize, Deserialize, Document)]
/// #[document(collection = "posts", projection(PostCard, without(body), derive(Serialize)))]
/// struct Post {
///     #[serde(rename = "_id")]
///     id: i64,
///     title: String,
///     body: String,
/// }
/// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
///
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// # let db = odm::Database::<Blog>::open("memory:").await?;
/// # db.insert(Post { id: 1, title: "a".into(), body: "b".into() }).await?;
/// let cards: Vec<PostCard> = db.find::<Post>().select().limit(20).all().await?;
/// assert_eq!(cards[0].title, "a");
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a projection",
    label = "neither a stored type nor a `Projection` of one",
    note = "derive it: `#[derive(Deserialize, Projection)]` with `#[projection(of = …)]`"
)]
pub trait Projection: DeserializeOwned + Send + Sync + 'static {
    /// The projected type: a model, or the type of a field.
    type Of;
    /// The fields that a query reads.
    const FIELDS: ProjectedFields;
    /// The fields that a query reads for an array element.
    #[doc(hidden)]
    const FIELDS_IN_ARRAY: ProjectedFields = Self::FIELDS;

    /// Whether the type is an overflow array, which may have spilled elements.
    #[doc(hidden)]
    const OVERFLOWS: bool = false;

    /// Decodes a stored document of a model.
    #[doc(hidden)]
    fn from_document(raw: &RawDocument, model: &Model) -> Result<Self> {
        decode(raw, model)
    }

    /// Sets the number of spilled elements of an overflow array, as the stored document says. Only overflow arrays have an
    /// effect.
    #[doc(hidden)]
    fn set_spilled_count(&mut self, raw: &RawDocument, model: &Model, stored: &str) {
        let _ = (raw, model, stored);
    }

    /// Returns the document for joins, if joins need a document other than the stored one.
    #[doc(hidden)]
    fn rewritten_document(&self) -> Option<Result<RawDocumentBuf>> {
        None
    }
}

/// The fields that a [`Projection`] reads.
#[derive(Debug, Clone, Copy)]
pub enum ProjectedFields {
    /// Reads all fields.
    Whole,
    /// Reads the given fields, by stored name, each with its own fields.
    Fields(&'static [(&'static str, ProjectedFields)]),
}

/// A [`Projection`] of the model `T`. Derived together with the projection, so that each mistake is a single error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a projection of `{T}`",
    label = "cannot be read from the documents of `{T}`",
    note = "derive it: `#[derive(Deserialize, Projection)]` with `#[projection(of = {T})]`"
)]
pub trait ProjectionOf<T> {}
#[diagnostic::do_not_recommend]
impl<T: Document> ProjectionOf<T> for T {}

#[diagnostic::do_not_recommend]
impl<T: Document> Projection for T {
    type Of = T;
    const FIELDS: ProjectedFields = ProjectedFields::Whole;

    fn from_document(raw: &RawDocument, _: &Model) -> Result<Self> {
        T::from_stored(raw)
    }

    fn rewritten_document(&self) -> Option<Result<RawDocumentBuf>> {
        T::MODEL
            .has_serde_defaults
            .then(|| crate::language::query::encode_document(self))
    }
}

#[diagnostic::do_not_recommend]
impl<T: Document> Projection for Ref<T> {
    type Of = Self;
    const FIELDS: ProjectedFields = ProjectedFields::Whole;
}

#[diagnostic::do_not_recommend]
impl<P: Projection> Projection for Option<P> {
    type Of = Option<P::Of>;
    const FIELDS: ProjectedFields = P::FIELDS;
    // A projection of fields would drop `None` elements and shorten the array.
    const FIELDS_IN_ARRAY: ProjectedFields = ProjectedFields::Whole;
}

macro_rules! arrays {
    ($([$($parameters:tt)*] $array:ty => $of:ty;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<P: Projection, $($parameters)*> Projection for $array
        where
            $array: DeserializeOwned,
        {
            type Of = $of;
            const FIELDS: ProjectedFields = P::FIELDS_IN_ARRAY;
        }
    )*};
}
arrays! {
    [] Vec<P> => Vec<P::Of>;
    [] BTreeSet<P> => BTreeSet<P::Of>;
    [H: Send + Sync + 'static] HashSet<P, H> => HashSet<P::Of, H>;
    [const N: usize] [P; N] => [P::Of; N];
}

/// The manifest of the array is read together with the document.
#[diagnostic::do_not_recommend]
impl<P: Projection> Projection for Overflow<P> {
    type Of = Overflow<P::Of>;
    const FIELDS: ProjectedFields = P::FIELDS_IN_ARRAY;
    const OVERFLOWS: bool = true;

    fn set_spilled_count(&mut self, raw: &RawDocument, model: &Model, stored: &str) {
        Self::set_spilled_count(self, raw, model, stored);
    }
}

// The keys of a map are unknown, so no path selects the fields of its values.
#[diagnostic::do_not_recommend]
impl<K: MapKey + Ord, P: Projection> Projection for BTreeMap<K, P> {
    type Of = BTreeMap<K, P::Of>;
    const FIELDS: ProjectedFields = ProjectedFields::Whole;
}

#[diagnostic::do_not_recommend]
impl<K, P, H> Projection for HashMap<K, P, H>
where
    K: MapKey + Eq + Hash,
    P: Projection,
    H: BuildHasher + Default + Send + Sync + 'static,
{
    type Of = HashMap<K, P::Of, H>;
    const FIELDS: ProjectedFields = ProjectedFields::Whole;
}

/// A type with fields that a projection can select: a model or an embedded struct. Derived together with the type.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no fields to project",
    label = "neither a `Document` nor an embedded struct",
    note = "a projection needs a struct that derives `Document` or `Embedded`"
)]
pub trait Projected {
    /// The field tree.
    type Tree: FromPath;
    /// The name of each field in Rust, with its stored name.
    const NAMES: &'static [(&'static str, &'static str)];
}

#[diagnostic::do_not_recommend]
impl<T: Document> Projected for T {
    type Tree = T::Fields;
    const NAMES: &'static [(&'static str, &'static str)] = T::MODEL.fields;
}

/// Returns the projection document: the fields of `P`, and the fields that the joins need.
pub(crate) fn to_raw<P: Projection<Of: Document>>(
    join_paths: &[String],
) -> Result<Option<RawDocumentBuf>> {
    fields_to_raw(&<P::Of as Document>::MODEL, P::FIELDS, join_paths)
}

fn fields_to_raw(
    model: &Model,
    fields: ProjectedFields,
    join_paths: &[String],
) -> Result<Option<RawDocumentBuf>> {
    // An upgrade may need any field of an outdated document.
    if model.upgrade.is_some() {
        return Ok(None);
    }
    let ProjectedFields::Fields(fields) = fields else {
        return Ok(None);
    };
    let mut field_paths = Vec::new();
    collect_paths(fields, "", &mut field_paths);
    let mut paths: Vec<&str> = field_paths.iter().map(String::as_str).collect();
    for join_path in join_paths {
        // MongoDB rejects a projection with a field and a path below the field.
        let is_covered = |path: &&str| {
            join_path == path
                || join_path
                    .strip_prefix(*path)
                    .is_some_and(|suffix| suffix.starts_with('.'))
        };
        if !paths.iter().any(is_covered) {
            paths.retain(|path| {
                path.strip_prefix(join_path.as_str())
                    .is_none_or(|suffix| !suffix.starts_with('.'))
            });
            paths.push(join_path);
        }
    }
    let manifests = model.overflows.iter();
    let manifests = manifests.filter(|field| {
        let is_in_array = |path: &&str| path.split('.').next() == Some(field.stored);
        paths.iter().any(is_in_array)
    });
    let manifests: Vec<_> = manifests.map(|field| field.manifest).collect();
    paths.extend(manifests);
    let mut raw = RawDocumentBuf::new();
    for path in &paths {
        append_field(&mut raw, path, 1)?;
    }
    if paths.is_empty() {
        // MongoDB reads all other fields if a projection only excludes fields.
        append_field(&mut raw, "_id", 1)?;
    } else if !paths.contains(&"_id") {
        append_field(&mut raw, "_id", 0)?;
    }
    Ok(Some(raw))
}

/// Collects the paths of the fields. `prefix` ends with a dot, or is empty at the top of the document.
fn collect_paths(fields: &[(&str, ProjectedFields)], prefix: &str, paths: &mut Vec<String>) {
    for (name, reads) in fields {
        let path = format!("{prefix}{name}");
        match reads {
            ProjectedFields::Fields(inner) if !inner.is_empty() => {
                collect_paths(inner, &(path + "."), paths)
            }
            _ => paths.push(path),
        }
    }
}

/// A type that holds the value of a model's field, or a projection of the value.
#[diagnostic::on_unimplemented(
    message = "the projection has a `{Self}` where the model has a `{T}`",
    label = "neither the type that the field has in the model nor a projection of it"
)]
pub trait FitsField<T> {}
#[diagnostic::do_not_recommend]
impl<T, P: Projection<Of = T>> FitsField<T> for P {}
