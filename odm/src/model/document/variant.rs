//! Enums as documents: a collection with documents of several models, which a tag field distinguishes.
//!
//! The enum is a model, and so is the struct in each variant. The model of a variant knows its tag. Every read and write of the
//! model is restricted to that tag, and inserts write the tag.

use std::marker::PhantomData;

use bson::{RawDocument, RawDocumentBuf};

use super::Document;
use crate::{
    Error, Result,
    backend::operation::Index,
    error,
    language::{
        field::{FromPath, OutsideClosure, Path, Place, Tag},
        query::{Filter, append_field, single_field_document},
    },
};

/// The model of one variant of the enum `E`: derived with `#[document(variant_of = E)]`.
///
/// Reads and writes of this model concern this variant only: a document of a different variant is
/// [`NotFound`](crate::ErrorKind::NotFound). The model and the enum share the stored form, so a document can be read as either
/// type.
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
/// // Circles, with their own fields; all shapes, with shared fields; and both.
/// let circles: Vec<Circle> = db.find::<Circle>().filter(|c| c.radius().lt(2.0)).all().await?;
/// let shapes: Vec<Shape> = db.find::<Shape>().sort(|s| s.area().desc()).all().await?;
/// let some = db.find::<Shape>().filter(|s| s.circle(|c| c.radius().gt(5.0)) | s.is_square()).all().await?;
/// # assert_eq!((circles.len(), shapes.len(), some.len()), (1, 2, 1));
/// assert!(db.get::<Circle>(2).await.is_err_and(|error| error.is_not_found()));
///
/// // A save that changes the variant removes the fields of the old variant.
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
    label = "not a struct with `#[document(variant_of = {E})]`",
    note = "each variant of an enum that is a document holds a struct that derives `Document` too: `#[derive(Serialize, Deserialize, Document)] #[document(variant_of = {E})] struct {Self} {{ … }}`"
)]
pub trait VariantOf<E>: Document {}

/// An enum that has a variant with the model `V`. Derived together with the enum.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no variant that holds a `{V}`",
    label = "not an enum with such a variant",
    note = "`{Self}` is an enum that derives `Document`, is tagged by a field, `#[serde(tag = \"kind\")]`, and has the variant `{V}({V})`"
)]
pub trait HasVariant<V> {
    /// The collection.
    const COLLECTION: &'static str;
    /// The tag field, and its value for this variant.
    const TAG: (&'static str, &'static str);
}

/// The result of a closure about one variant of a document: a condition on the variant's model, a place to update, or a reference
/// to join. The condition holds only for documents of the variant. Updates and joins leave documents of other variants out.
#[diagnostic::on_unimplemented(
    message = "expected a condition on `{V}` or a field to update or to join, got `{Self}`",
    label = "cannot be applied to one variant",
    note = "in a filter, return a condition on the variant's fields: `s.circle(|c| c.radius().gt(2.0))`; in an update and in a \
         join, return one of its fields: `s.circle(|c| c.radius())`; to sort or aggregate, query the variant alone, \
         `db.find::<{V}>()`, or share the field between all variants, `#[document(shared(…))]`"
)]
pub trait OfDocumentVariant<E, V> {
    /// The result for documents of the enum.
    type Out;
    /// Restricts the result to documents that meet the condition.
    #[doc(hidden)]
    fn of_kind(self, condition: Filter<E>) -> Self::Out;
}

#[diagnostic::do_not_recommend]
impl<E, V> OfDocumentVariant<E, V> for Filter<V> {
    type Out = Filter<E>;
    fn of_kind(self, condition: Filter<E>) -> Filter<E> {
        // Both filters concern whole documents, so all paths are equal.
        condition & Filter::from_node(self.into_node())
    }
}

#[diagnostic::do_not_recommend]
impl<E, V> OfDocumentVariant<E, V> for Option<Filter<V>> {
    type Out = Filter<E>;
    fn of_kind(self, condition: Filter<E>) -> Filter<E> {
        match self {
            Some(filter) => filter.of_kind(condition),
            None => condition,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<E, V, P: Place<Scope = V>> OfDocumentVariant<E, V> for P {
    type Out = InDocumentVariant<E, P>;
    /// The path already contains the condition.
    fn of_kind(self, _: Filter<E>) -> InDocumentVariant<E, P> {
        InDocumentVariant(self, PhantomData)
    }
}

/// A place in one variant of the documents `E`, for an update or a join. The update applies only to documents of the variant; the
/// join yields no result for other documents.
///
/// The place has no conditions; conditions belong inside the closure.
#[derive(Debug)]
pub struct InDocumentVariant<E, P>(P, PhantomData<fn() -> E>);

#[diagnostic::do_not_recommend]
impl<E, P: Place> Place for InDocumentVariant<E, P> {
    type Scope = E;
    type Value = P::Value;
    type Role = P::Role;
    type Shape = P::Shape;
    fn path(&self) -> Path {
        self.0.path()
    }
}

crate::language::field::outside_closure_errors!(InDocumentVariant<E, P>: E);

impl Tag {
    /// Applies a closure to the fields of one variant with the model `V`.
    #[doc(hidden)]
    pub fn of_kind<E, V: Document, X: OfDocumentVariant<E, V>>(
        self,
        build: impl FnOnce(V::Fields) -> X,
    ) -> X::Out {
        let condition = self.filter(&Path::ROOT);
        let fields = V::Fields::from_path(Path::ROOT.only_where(self.to_condition(&Path::ROOT)));
        build(fields).of_kind(condition)
    }
}

/// Adds the tag of the model to an encoded document, at the start, as serde does for the enum.
pub(crate) fn with_tag<T: Document>(raw: RawDocumentBuf) -> Result<RawDocumentBuf> {
    let Some((field, value)) = T::MODEL.tag else {
        return Ok(raw);
    };
    let mut tagged = single_field_document(field, value)?;
    for element in raw.iter() {
        let (name, value) = element.map_err(error::from_bson)?;
        append_field(&mut tagged, name.as_str(), bson::RawBson::from(value))?;
    }
    Ok(tagged)
}

/// Returns the tag of a stored document.
#[must_use]
pub fn stored_tag<'d>(raw: &'d RawDocument, field: &str) -> Option<&'d str> {
    raw.get_str(field).ok()
}

/// Returns the indexes of a variant's model, restricted to documents of the variant.
///
/// # Panics
///
/// Panics if the declaration contains names that BSON cannot hold. Such a model cannot work at all.
#[must_use]
pub fn variant_indexes<V: Document>() -> Vec<Index> {
    let Some((field, value)) = V::MODEL.tag else {
        return Vec::new();
    };
    let with_tag_condition = |partial: Option<RawDocumentBuf>| {
        let mut condition = single_field_document(field, single_field_document("$eq", value)?)?;
        for element in partial.iter().flat_map(|partial| partial.iter()) {
            let (name, value) = element.map_err(error::from_bson)?;
            append_field(&mut condition, name.as_str(), bson::RawBson::from(value))?;
        }
        Ok::<_, Error>(condition)
    };
    let indexes = V::indexes().into_iter().map(|mut index| {
        // Add the tag to default names: two variants may index fields with equal names.
        if index.name == Index::new(index.keys.clone()).name {
            index.name = format!("{}_{value}", index.name);
        }
        let condition = with_tag_condition(index.partial.take());
        index.partial = Some(condition.unwrap_or_else(|error| {
            panic!("the index `{}` of `{}`: {error}", index.name, V::MODEL.name)
        }));
        index
    });
    indexes.collect()
}
