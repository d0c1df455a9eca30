//! The types of joins along references: `.with(|p| p.parts())`.

use std::{marker::PhantomData, sync::Arc};

use bson::RawDocumentBuf;

use super::{
    link::{Link, LinkItem, Links},
    load,
    target_join::{JoinOf, RefersToMany},
};
use crate::{
    Result,
    backend::BoxFuture,
    language::field::{ArrayPlace, Field, OptionalPlace, OverflowPlace, Place, shape},
    model::{
        document::{Document, Overflow, Ref},
        projection::Projection,
    },
    schema::Model,
    session::access::Access,
};

/// A place with references to documents of another model.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a reference and cannot be joined",
    label = "not a `Ref`, an `Option<Ref>` or an array of `Ref`",
    note = "join a field with `#[reference]`; for the documents that refer to this document use `with_children`; for an enum, name the reference of one variant: `a.owner().user(|user| user)`"
)]
pub trait ReferencePlace: Place {
    /// The model of the targets.
    type Target: Document;
    /// The result of a join along the reference: [`Link`], `Option<Link>` or [`Links`].
    type Out<X: LinkItem<Of = Self::Target>>: FromLinks<X>;
    /// The shapes of the enums that contain the place.
    #[doc(hidden)]
    type EnclosingShapes;
    /// Whether a document that has the place always has a reference there.
    #[doc(hidden)]
    const IS_REQUIRED: bool = false;

    /// Returns the model of the documents if the place is an overflow array, because its references can be spilled.
    #[doc(hidden)]
    fn overflow_model() -> Option<&'static Model> {
        None
    }
}

#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R> ReferencePlace for Field<M, Ref<T>, R, shape::One> {
    type Target = T;
    type Out<X: LinkItem<Of = T>> = Link<X>;
    type EnclosingShapes = shape::One;
    const IS_REQUIRED: bool = true;
}

#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R> ReferencePlace for Field<M, Ref<T>, R, shape::Many> {
    type Target = T;
    type Out<X: LinkItem<Of = T>> = Links<X>;
    type EnclosingShapes = shape::One;
}

#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R: 'static> ReferencePlace for ArrayPlace<M, Ref<T>, R, shape::One> {
    type Target = T;
    type Out<X: LinkItem<Of = T>> = Links<X>;
    type EnclosingShapes = shape::One;
}

#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R: 'static> ReferencePlace for ArrayPlace<M, Ref<T>, R, shape::Many> {
    type Target = T;
    type Out<X: LinkItem<Of = T>> = Links<X>;
    type EnclosingShapes = shape::One;
}

#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R: 'static> ReferencePlace
    for OptionalPlace<M, Ref<T>, R, shape::One>
{
    type Target = T;
    type Out<X: LinkItem<Of = T>> = Option<Link<X>>;
    type EnclosingShapes = shape::One;
}

#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R: 'static> ReferencePlace
    for OptionalPlace<M, Ref<T>, R, shape::Many>
{
    type Target = T;
    type Out<X: LinkItem<Of = T>> = Links<X>;
    type EnclosingShapes = shape::One;
}

#[diagnostic::do_not_recommend]
impl<M: Document, T: Document, R: 'static> ReferencePlace
    for OverflowPlace<M, Ref<T>, R, shape::One>
{
    type Target = T;
    type Out<X: LinkItem<Of = T>> = Links<X>;
    type EnclosingShapes = Overflow<Ref<T>>;

    fn overflow_model() -> Option<&'static Model> {
        Some(&M::MODEL)
    }
}

#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R> RefersToMany for Field<M, Ref<T>, R, shape::Many> {}
#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R: 'static> RefersToMany for ArrayPlace<M, Ref<T>, R, shape::One> {}
#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R: 'static> RefersToMany for ArrayPlace<M, Ref<T>, R, shape::Many> {}
#[diagnostic::do_not_recommend]
impl<M: Document, T: Document, R: 'static> RefersToMany
    for OverflowPlace<M, Ref<T>, R, shape::One>
{
}
#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R: 'static> RefersToMany
    for OptionalPlace<M, Ref<T>, R, shape::Many>
{
}

/// The places of references by which a query can find the children of many parents at once.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a query cannot search by this reference",
    label = "a reference in an array of enums, or in an overflow array",
    note = "for an array of enums, find the children of one document: `filter(|a| a.watchers().any(|w| w.user(|user| user.eq(&jane))))`",
    note = "for an overflow array, join the inverse of the link, or find the children of one document: `db.arrays::<…>().any(|a| a.watchers(), |user| user.eq(&jane))`"
)]
pub trait FindableReference {}
#[diagnostic::do_not_recommend]
impl FindableReference for shape::One {}
// In an array of enums, the element with the key and the element with the variant could be different elements.
#[diagnostic::do_not_recommend]
impl<P: FindableReference> FindableReference for (P, shape::One) {}

/// A conversion from the links of a document to the result of its join.
pub trait FromLinks<X: LinkItem>: Send + Sync + Sized + 'static {
    /// Whether the result may omit links without a target.
    const CAN_OMIT_MISSING: bool = false;
    /// The result of a join through a variant, which a document may have or not.
    type IfVariant: FromLinks<X>;

    /// Converts the links of a document, in order. Returns `None` if a required link is absent: the document lacks the field.
    fn from_links(links: Vec<Link<X>>) -> Option<Self>;
}

impl<X: LinkItem> FromLinks<X> for Link<X> {
    type IfVariant = Option<Self>;

    fn from_links(links: Vec<Self>) -> Option<Self> {
        links.into_iter().next()
    }
}

impl<X: LinkItem> FromLinks<X> for Option<Link<X>> {
    type IfVariant = Self;

    fn from_links(links: Vec<Link<X>>) -> Option<Self> {
        Some(links.into_iter().next())
    }
}

impl<X: LinkItem> FromLinks<X> for Links<X> {
    const CAN_OMIT_MISSING: bool = true;
    type IfVariant = Self;

    fn from_links(links: Vec<Link<X>>) -> Option<Self> {
        Some(links.into_iter().collect())
    }
}

/// The stored documents of one level of a query.
pub(crate) type Parents = Arc<Vec<RawDocumentBuf>>;

type JoinLoader<Out> =
    dyn Fn(Access, Parents) -> BoxFuture<'static, Result<Vec<Result<Out>>>> + Send + Sync;

/// A relation to load for documents of the model `M`. The result for each document is an `Out`.
pub struct Join<M, Out> {
    /// The stored fields that the documents must contain.
    needed_fields: Result<Vec<String>>,
    loader: Arc<JoinLoader<Out>>,
    of: PhantomData<fn() -> M>,
}

impl<M, Out> Join<M, Out> {
    pub(super) fn new<F>(needed_fields: Result<Vec<String>>, load: F) -> Self
    where
        F: Fn(Access, Parents) -> BoxFuture<'static, Result<Vec<Result<Out>>>>
            + Send
            + Sync
            + 'static,
    {
        Self {
            needed_fields,
            loader: Arc::new(load),
            of: PhantomData,
        }
    }
}

impl<M, Out> Clone for Join<M, Out> {
    fn clone(&self) -> Self {
        Self {
            needed_fields: self.needed_fields.clone(),
            loader: self.loader.clone(),
            of: PhantomData,
        }
    }
}

/// The return type of a `with` closure: a reference, or a reference with further joins.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a reference and cannot be joined",
    label = "not a `Ref`, an `Option<Ref>` or an array of `Ref`",
    note = "join a field with `#[reference]`; for the documents that refer to this document use `with_children`; for an enum, name the reference of one variant: `a.owner().user(|user| user)`"
)]
pub trait IntoJoin {
    /// The model from which the join starts.
    type Scope;
    /// The result for each document.
    type Out: Send + Sync + 'static;
    /// Returns the join of documents of the model.
    fn into_join(self, model: &'static Model) -> Join<Self::Scope, Self::Out>;
}

#[diagnostic::do_not_recommend]
impl<P: ReferencePlace> IntoJoin for P {
    type Scope = P::Scope;
    type Out = P::Out<P::Target>;
    fn into_join(self, model: &'static Model) -> Join<P::Scope, Self::Out> {
        JoinOf::new(self).into_join(model)
    }
}

/// The relations of a query over `T`: a tuple of [`Join`].
pub trait Joins<T>: Clone + Send + Sync + 'static {
    /// The result of the query: `T` alone, or a tuple of `T` and the result of each relation.
    type Item: Send + Sync + 'static;

    /// Returns the stored fields that the documents must contain.
    ///
    /// # Errors
    ///
    /// The error of a path that a query cannot express.
    fn needed_fields(&self) -> Result<Vec<String>>;

    /// Loads the relations of `parents`, with the decoded values `roots`.
    fn load_relations(
        self,
        access: Access,
        parents: Arc<Vec<RawDocumentBuf>>,
        roots: Vec<Result<T>>,
    ) -> BoxFuture<'static, Result<Vec<Result<Self::Item>>>>;
}

impl<T: Send + Sync + 'static> Joins<T> for () {
    type Item = T;

    fn needed_fields(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn load_relations(
        self,
        _: Access,
        _: Parents,
        roots: Vec<Result<T>>,
    ) -> BoxFuture<'static, Result<Vec<Result<T>>>> {
        Box::pin(async move { Ok(roots) })
    }
}

/// A tuple of relations to which a relation can be appended.
#[diagnostic::on_unimplemented(
    message = "a query can load at most six relations",
    label = "one relation too many",
    note = "load the other relations with a separate query"
)]
pub trait AppendJoin<X> {
    /// The longer tuple.
    type Then;
    /// Appends a relation.
    fn append_join(self, next: X) -> Self::Then;
}

impl<X> AppendJoin<X> for () {
    type Then = (X,);
    fn append_join(self, next: X) -> (X,) {
        (next,)
    }
}

/// The maximum of six relations.
///
/// This implementation never applies to a real relation. Without any implementation the compiler would not report the message of
/// [`AppendJoin`] for a seventh relation.
#[diagnostic::do_not_recommend]
impl<A, B, C, D, E, F, X: SeventhJoin> AppendJoin<X> for (A, B, C, D, E, F) {
    type Then = Self;
    fn append_join(self, _: X) -> Self {
        self
    }
}

/// A marker for a seventh relation, with two implementations, so that the compiler does not suggest one of them.
#[doc(hidden)]
pub trait SeventhJoin {}
#[diagnostic::do_not_recommend]
impl<M> SeventhJoin for Join<M, NoRelation<0>> {}
#[diagnostic::do_not_recommend]
impl<M> SeventhJoin for Join<M, NoRelation<1>> {}

/// A type that no relation loads.
#[doc(hidden)]
#[derive(Debug)]
pub enum NoRelation<const N: usize> {}

macro_rules! joins {
    ($($name:ident $out:ident),+) => {
        impl<P: Projection<Of: Document>, $($out: Send + Sync + 'static),+> LinkItem for (P, $($out),+) {
            type Of = P::Of;
        }

        impl<T, M, $($out),+> Joins<T> for ($(Join<M, $out>,)+)
        where
            T: Send + Sync + 'static,
            M: 'static,
            $($out: Send + Sync + 'static),+
        {
            type Item = (T, $($out),+);

            fn needed_fields(&self) -> Result<Vec<String>> {
                let ($($name,)+) = self;
                Ok([$($name.needed_fields.clone()?),+].concat())
            }

            fn load_relations(
                self,
                access: Access,
                parents: Parents,
                roots: Vec<Result<T>>,
            ) -> BoxFuture<'static, Result<Vec<Result<Self::Item>>>> {
                let ($($name,)+) = self;
                Box::pin(async move {
                    let ($($name,)+) = futures_util::try_join!(
                        $(($name.loader)(access.clone(), parents.clone())),+
                    )?;
                    $(let mut $name = $name.into_iter();)+
                    Ok(roots
                        .into_iter()
                        .map(|root| {
                            // Advance every iterator, even after an error: the iterators run side by side.
                            $(let $name = $name.next().unwrap_or_else(|| Err(load::malformed_answer()));)+
                            Ok((root?, $($name?),+))
                        })
                        .collect())
                })
            }
        }
    };
}
joins!(a A);
joins!(a A, b B);
joins!(a A, b B, c C);
joins!(a A, b B, c C, d D);
joins!(a A, b B, c C, d D, e E);
joins!(a A, b B, c C, d D, e E, f F);

macro_rules! append {
    ($($name:ident $join:ident),+) => {
        impl<X, $($join),+> AppendJoin<X> for ($($join,)+) {
            type Then = ($($join,)+ X,);
            fn append_join(self, next: X) -> Self::Then {
                let ($($name,)+) = self;
                ($($name,)+ next,)
            }
        }
    };
}
append!(a A);
append!(a A, b B);
append!(a A, b B, c C);
append!(a A, b B, c C, d D);
append!(a A, b B, c C, d D, e E);
