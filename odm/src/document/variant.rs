//! Enums as documents: the documents of one collection are of several models, and a field says of which.
//!
//! The enum is a model, and so is the struct in each of its variants. A variant's model knows its tag, which every read
//! and write of it is narrowed by, and which is written with it.

use std::marker::PhantomData;

use bson::{RawDocument, RawDocumentBuf};

use super::Document;
use crate::{
    Error, Result,
    backend::operation::Index,
    error,
    field::{FromPath, Path, Place, SaidOutside, Tag},
    query::{Filter, append, document},
};

/// A model whose documents are those of one variant of the enum `E`: derived by `#[document(variant_of = E)]`.
///
/// What is read and written as this model is of this variant alone: of a document of another variant it is
/// [`NotFound`](crate::ErrorKind::NotFound). What is stored is the same as what the enum stores, so each can be read as
/// the other.
///
/// ```
/// use odm::prelude::*;
///
/// #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
/// #[document(collection = "shapes", shared(area: f64))]
/// #[serde(tag = "kind", rename_all = "lowercase")]
/// enum Shape { Circle(Circle), Square(Square) }
///
/// #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
/// #[document(variant_of = Shape)]
/// struct Circle {
///     #[serde(rename = "_id")]
///     id: i64,
///     area: f64,
///     #[index]
///     radius: f64,
/// }
///
/// #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
/// #[document(variant_of = Shape)]
/// struct Square {
///     #[serde(rename = "_id")]
///     id: i64,
///     area: f64,
///     side: f64,
/// }
///
/// #[derive(Schema)]
/// #[schema(models(Shape))]
/// struct Drawing;
///
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// # let db = odm::Database::<Drawing>::open("memory:").await?;
/// // Stored as `{_id: 1, kind: "circle", area: 3, radius: 1}`.
/// db.insert(Circle { id: 1, area: 3.0, radius: 1.0 }).await?;
/// db.insert(Shape::Square(Square { id: 2, area: 4.0, side: 2.0 })).await?;
///
/// // Circles, with their own fields; all shapes, with what they share; and both.
/// let circles: Vec<Circle> = db.find::<Circle>().filter(|c| c.radius().lt(2.0)).all().await?;
/// let shapes: Vec<Shape> = db.find::<Shape>().sort(|s| s.area().desc()).all().await?;
/// let some = db.find::<Shape>().filter(|s| s.circle(|c| c.radius().gt(5.0)) | s.is_square()).all().await?;
/// # assert_eq!((circles.len(), shapes.len(), some.len()), (1, 2, 1));
/// assert!(db.get::<Circle>(2).await.is_err_and(|error| error.is_not_found()));
///
/// // Nothing of the one variant stays in the other.
/// let mut shape = db.edit::<Shape>(1).await?;
/// *shape = Shape::Square(Square { id: 1, area: 9.0, side: 3.0 });
/// db.save(&mut shape).await?;
/// # assert_eq!(db.find::<Circle>().count().await?, 0);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the model of a variant of `{E}`",
    label = "no struct with `#[document(variant_of = {E})]`",
    note = "each variant of an enum that is a document holds a struct that derives `Document` too: `#[derive(Serialize, Deserialize, Document)] #[document(variant_of = {E})] struct {Self} {{ … }}`"
)]
pub trait VariantOf<E>: Document {}

/// The enum has a variant with the model `V`. Derived together with the enum.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no variant that holds a `{V}`",
    label = "not an enum with such a variant",
    note = "`{Self}` is an enum that derives `Document`, is tagged by a field, `#[serde(tag = \"kind\")]`, and has the variant `{V}({V})`"
)]
pub trait HasVariant<V> {
    /// The collection.
    const COLLECTION: &'static str;
    /// The field that says of which variant a document is, and what it says of this one.
    const TAG: (&'static str, &'static str);
}

/// What a closure about one variant of a document may return: a condition on its model, which then holds only for
/// documents of the variant, a place to update, which is written only in these, or a reference to join, which is there only
/// in these.
#[diagnostic::on_unimplemented(
    message = "expected a condition on `{V}` or a field to update or to join, got `{Self}`",
    label = "cannot be said of one variant among others",
    note = "in a filter, say a condition on the variant's fields: `s.circle(|c| c.radius().gt(2.0))`; in an update and in a join, name one of its fields: `s.circle(|c| c.radius())`; orders and calculations are of one model: ask for the variant alone, `db.find::<{V}>()`, or make the field one that all variants share, `#[document(shared(…))]`"
)]
pub trait OfKind<E, V> {
    /// The same, of documents of the enum.
    type Out;
    /// Says it of documents that meet the condition alone.
    #[doc(hidden)]
    fn of_kind(self, condition: Filter<E>) -> Self::Out;
}

#[diagnostic::do_not_recommend]
impl<E, V> OfKind<E, V> for Filter<V> {
    type Out = Filter<E>;
    fn of_kind(self, condition: Filter<E>) -> Filter<E> {
        // Both are about whole documents, so every path is the same.
        condition & Filter::from_node(self.into_node())
    }
}

#[diagnostic::do_not_recommend]
impl<E, V> OfKind<E, V> for Option<Filter<V>> {
    type Out = Filter<E>;
    fn of_kind(self, condition: Filter<E>) -> Filter<E> {
        match self {
            Some(filter) => filter.of_kind(condition),
            None => condition,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<E, V, P: Place<Scope = V>> OfKind<E, V> for P {
    type Out = InKind<E, P>;
    /// The path has the condition already.
    fn of_kind(self, _: Filter<E>) -> InKind<E, P> {
        InKind(self, PhantomData)
    }
}

/// A place in one variant of the documents `E`, for an update, which then applies only to documents of the variant, or for a
/// join, which gives nothing for the others.
///
/// It has no conditions of its own: they are said inside of the closure.
#[derive(Debug)]
pub struct InKind<E, P>(P, PhantomData<fn() -> E>);

#[diagnostic::do_not_recommend]
impl<E, P: Place> Place for InKind<E, P> {
    type Scope = E;
    type Value = P::Value;
    type Role = P::Role;
    type Shape = P::Shape;
    fn path(&self) -> Path {
        self.0.path()
    }
}

crate::field::said_outside!(InKind<E, P>: E);

impl Tag {
    /// What is said of one variant of a document, whose model is `V`.
    #[doc(hidden)]
    pub fn of_kind<E, V: Document, X: OfKind<E, V>>(
        self,
        say: impl FnOnce(V::Fields) -> X,
    ) -> X::Out {
        let condition = self.filter(&Path::ROOT);
        let fields = V::Fields::from_path(Path::ROOT.only_where(self.condition(&Path::ROOT)));
        say(fields).of_kind(condition)
    }
}

/// The document with the tag of its model, where serde writes it in the enum: first.
pub(crate) fn with_tag<T: Document>(raw: RawDocumentBuf) -> Result<RawDocumentBuf> {
    let Some((field, value)) = T::MODEL.tag else {
        return Ok(raw);
    };
    let mut tagged = document(field, value)?;
    for element in raw.iter() {
        let (name, value) = element.map_err(error::encode)?;
        append(&mut tagged, name.as_str(), bson::RawBson::from(value))?;
    }
    Ok(tagged)
}

/// What the field says of which variant a stored document is.
#[must_use]
pub fn stored_tag<'d>(raw: &'d RawDocument, field: &str) -> Option<&'d str> {
    raw.get_str(field).ok()
}

/// The indexes of a variant's model, as those of the collection: over the documents of the variant alone.
///
/// # Panics
///
/// When the names in the declaration cannot stand in a document, so that no run can go well.
#[must_use]
pub fn variant_indexes<V: Document>() -> Vec<Index> {
    let Some((field, value)) = V::MODEL.tag else {
        return Vec::new();
    };
    let of_the_variant = |partial: Option<RawDocumentBuf>| {
        let mut condition = document(field, document("$eq", value)?)?;
        for element in partial.iter().flat_map(|partial| partial.iter()) {
            let (name, value) = element.map_err(error::encode)?;
            append(&mut condition, name.as_str(), bson::RawBson::from(value))?;
        }
        Ok::<_, Error>(condition)
    };
    let indexes = V::indexes().into_iter().map(|mut index| {
        // Two variants may have an index over fields of the same names.
        if index.name == Index::new(index.keys.clone()).name {
            index.name = format!("{}_{value}", index.name);
        }
        let condition = of_the_variant(index.partial.take());
        index.partial = Some(condition.unwrap_or_else(|error| {
            panic!("the index `{}` of `{}`: {error}", index.name, V::MODEL.name)
        }));
        index
    });
    indexes.collect()
}
