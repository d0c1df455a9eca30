//! Joins along references: `.with(|p| p.parts())`.

use std::{marker::PhantomData, sync::Arc};

use bson::RawDocumentBuf;

use super::{
    edge::{JoinOf, RefersToMany},
    link::{Item, Link, Links},
    load,
};
use crate::{
    Result,
    access::Access,
    backend::BoxFuture,
    document::{Document, Overflow, Ref},
    field::{Array, Field, Maybe, Overflowing, Place, shape},
    projection::Projection,
    schema::Model,
};

/// A place that refers to documents of another model.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no reference: there is nothing to join",
    label = "not a `Ref`, an `Option<Ref>` or an array of `Ref`",
    note = "relations are the fields with `#[reference]`; documents that refer to this one come by `with_children`; of an enum, it is that of one variant: `a.owner().user(|user| user)`"
)]
pub trait Reference: Place {
    /// The model that it refers to.
    type Target: Document;
    /// What a join along it gives: [`Link`], `Option<Link>` or [`Links`].
    type Out<X: Item<Of = Self::Target>>: Gather<X>;
    /// The shapes of the enums that it is inside of.
    #[doc(hidden)]
    type Inside;
    /// Whether a document that has the place has a reference there.
    #[doc(hidden)]
    const IS_REQUIRED: bool = false;

    /// The model of the documents, if some of the references may be outside of them.
    #[doc(hidden)]
    fn overflows_in() -> Option<&'static Model> {
        None
    }
}

#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R> Reference for Field<M, Ref<T>, R, shape::One> {
    type Target = T;
    type Out<X: Item<Of = T>> = Link<X>;
    type Inside = shape::One;
    const IS_REQUIRED: bool = true;
}

#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R> Reference for Field<M, Ref<T>, R, shape::Many> {
    type Target = T;
    type Out<X: Item<Of = T>> = Links<X>;
    type Inside = shape::One;
}

#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R: 'static> Reference for Array<M, Ref<T>, R, shape::One> {
    type Target = T;
    type Out<X: Item<Of = T>> = Links<X>;
    type Inside = shape::One;
}

#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R: 'static> Reference for Array<M, Ref<T>, R, shape::Many> {
    type Target = T;
    type Out<X: Item<Of = T>> = Links<X>;
    type Inside = shape::One;
}

#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R: 'static> Reference for Maybe<M, Ref<T>, R, shape::One> {
    type Target = T;
    type Out<X: Item<Of = T>> = Option<Link<X>>;
    type Inside = shape::One;
}

#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R: 'static> Reference for Maybe<M, Ref<T>, R, shape::Many> {
    type Target = T;
    type Out<X: Item<Of = T>> = Links<X>;
    type Inside = shape::One;
}

#[diagnostic::do_not_recommend]
impl<M: Document, T: Document, R: 'static> Reference for Overflowing<M, Ref<T>, R, shape::One> {
    type Target = T;
    type Out<X: Item<Of = T>> = Links<X>;
    type Inside = Overflow<Ref<T>>;

    fn overflows_in() -> Option<&'static Model> {
        Some(&M::MODEL)
    }
}

#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R> RefersToMany for Field<M, Ref<T>, R, shape::Many> {}
#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R: 'static> RefersToMany for Array<M, Ref<T>, R, shape::One> {}
#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R: 'static> RefersToMany for Array<M, Ref<T>, R, shape::Many> {}
#[diagnostic::do_not_recommend]
impl<M: Document, T: Document, R: 'static> RefersToMany for Overflowing<M, Ref<T>, R, shape::One> {}
#[diagnostic::do_not_recommend]
impl<M: 'static, T: Document, R: 'static> RefersToMany for Maybe<M, Ref<T>, R, shape::Many> {}

/// What the places of references are in, where a condition tells which documents refer to a given one.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "what refers to a document from there is not found for many at once",
    label = "a reference in an array of enums, or in one that overflows: in an element of its variant, or outside of the document",
    note = "for one document, of an array of enums: `filter(|a| a.watchers().any(|w| w.user(|user| user.eq(&jane))))`",
    note = "of an array that overflows: the inverse of the link lists them; for one document ask `db.arrays::<…>().any(|a| a.watchers(), |user| user.eq(&jane))`"
)]
pub trait FoundByIt {}
#[diagnostic::do_not_recommend]
impl FoundByIt for shape::One {}
// In an array of enums, the element with the key and that of the variant could be two.
#[diagnostic::do_not_recommend]
impl<P: FoundByIt> FoundByIt for (P, shape::One) {}

/// How the links of one document become what its join gives.
pub trait Gather<X: Item>: Send + Sync + Sized + 'static {
    /// Whether it can do without those that lead nowhere.
    const IS_MANY: bool = false;
    /// What the join gives where the reference is inside of a variant, of which a document may be or not.
    type OrNone: Gather<X>;

    /// All links of a document, in order; none where there must be one means that the document has no such field.
    fn gather(links: Vec<Link<X>>) -> Option<Self>;
}

impl<X: Item> Gather<X> for Link<X> {
    type OrNone = Option<Self>;

    fn gather(links: Vec<Self>) -> Option<Self> {
        links.into_iter().next()
    }
}

impl<X: Item> Gather<X> for Option<Link<X>> {
    type OrNone = Self;

    fn gather(links: Vec<Link<X>>) -> Option<Self> {
        Some(links.into_iter().next())
    }
}

impl<X: Item> Gather<X> for Links<X> {
    const IS_MANY: bool = true;
    type OrNone = Self;

    fn gather(links: Vec<Link<X>>) -> Option<Self> {
        Some(links.into_iter().collect())
    }
}

/// The documents of one level of a query, as stored.
pub(crate) type Parents = Arc<Vec<RawDocumentBuf>>;

type Load<Out> =
    dyn Fn(Access, Parents) -> BoxFuture<'static, Result<Vec<Result<Out>>>> + Send + Sync;

/// One relation to load with documents of the model `M`, giving an `Out` for each.
pub struct Join<M, Out> {
    /// The stored fields that must be in the documents.
    needs: Result<Vec<String>>,
    load: Arc<Load<Out>>,
    of: PhantomData<fn() -> M>,
}

impl<M, Out> Join<M, Out> {
    pub(super) fn new<F>(needs: Result<Vec<String>>, load: F) -> Self
    where
        F: Fn(Access, Parents) -> BoxFuture<'static, Result<Vec<Result<Out>>>>
            + Send
            + Sync
            + 'static,
    {
        Self {
            needs,
            load: Arc::new(load),
            of: PhantomData,
        }
    }
}

impl<M, Out> Clone for Join<M, Out> {
    fn clone(&self) -> Self {
        Self {
            needs: self.needs.clone(),
            load: self.load.clone(),
            of: PhantomData,
        }
    }
}

/// What a `with` closure may return: a reference, or a reference with joins of what it leads to.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no reference: there is nothing to join",
    label = "not a `Ref`, an `Option<Ref>` or an array of `Ref`",
    note = "relations are the fields with `#[reference]`; documents that refer to this one come by `with_children`; of an enum, it is that of one variant: `a.owner().user(|user| user)`"
)]
pub trait IntoJoin {
    /// The model that the join starts from.
    type Scope;
    /// What it gives for each document.
    type Out: Send + Sync + 'static;
    /// The join.
    fn into_join(self) -> Join<Self::Scope, Self::Out>;
}

#[diagnostic::do_not_recommend]
impl<P: Reference> IntoJoin for P {
    type Scope = P::Scope;
    type Out = P::Out<P::Target>;
    fn into_join(self) -> Join<P::Scope, Self::Out> {
        JoinOf::new(self).into_join()
    }
}

/// The relations of a query over `T`: a tuple of [`Join`].
pub trait Joins<T>: Clone + Send + Sync + 'static {
    /// What the query gives: `T` alone, or a tuple of it and of what each relation gives.
    type Item: Send + Sync + 'static;

    /// The stored fields that must be in the documents.
    ///
    /// # Errors
    ///
    /// That of a path which cannot be asked for.
    fn needs(&self) -> Result<Vec<String>>;

    /// Loads the relations of `parents`, whose values are `roots`.
    fn load(
        self,
        access: Access,
        parents: Arc<Vec<RawDocumentBuf>>,
        roots: Vec<Result<T>>,
    ) -> BoxFuture<'static, Result<Vec<Result<Self::Item>>>>;
}

impl<T: Send + Sync + 'static> Joins<T> for () {
    type Item = T;

    fn needs(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn load(
        self,
        _: Access,
        _: Parents,
        roots: Vec<Result<T>>,
    ) -> BoxFuture<'static, Result<Vec<Result<T>>>> {
        Box::pin(async move { Ok(roots) })
    }
}

/// A tuple that can take one relation more.
#[diagnostic::on_unimplemented(
    message = "a query brings along six relations at most",
    label = "one relation too many",
    note = "load the rest by a query of its own"
)]
pub trait Append<X> {
    /// The longer tuple.
    type Then;
    /// Appends.
    fn append(self, next: X) -> Self::Then;
}

impl<X> Append<X> for () {
    type Then = (X,);
    fn append(self, next: X) -> (X,) {
        (next,)
    }
}

/// The six relations that a query brings along at most: a seventh is told so by [`Append`], which it would not be if nothing could
/// ever be appended.
#[diagnostic::do_not_recommend]
impl<A, B, C, D, E, F, X: Seventh> Append<X> for (A, B, C, D, E, F) {
    type Then = Self;
    fn append(self, _: X) -> Self {
        self
    }
}

/// A seventh relation: one of what nothing is, in two ways, so that neither is taken for what was meant.
#[doc(hidden)]
pub trait Seventh {}
#[diagnostic::do_not_recommend]
impl<M> Seventh for Join<M, Nothing<0>> {}
#[diagnostic::do_not_recommend]
impl<M> Seventh for Join<M, Nothing<1>> {}

/// What no relation leads to.
#[doc(hidden)]
#[derive(Debug)]
pub enum Nothing<const N: usize> {}

macro_rules! joins {
    ($($name:ident $out:ident),+) => {
        impl<P: Projection<Of: Document>, $($out: Send + Sync + 'static),+> Item for (P, $($out),+) {
            type Of = P::Of;
        }

        impl<T, M, $($out),+> Joins<T> for ($(Join<M, $out>,)+)
        where
            T: Send + Sync + 'static,
            M: 'static,
            $($out: Send + Sync + 'static),+
        {
            type Item = (T, $($out),+);

            fn needs(&self) -> Result<Vec<String>> {
                let ($($name,)+) = self;
                Ok([$($name.needs.clone()?),+].concat())
            }

            fn load(
                self,
                access: Access,
                parents: Parents,
                roots: Vec<Result<T>>,
            ) -> BoxFuture<'static, Result<Vec<Result<Self::Item>>>> {
                let ($($name,)+) = self;
                Box::pin(async move {
                    let ($($name,)+) = futures_util::try_join!(
                        $(($name.load)(access.clone(), parents.clone())),+
                    )?;
                    $(let mut $name = $name.into_iter();)+
                    Ok(roots
                        .into_iter()
                        .map(|root| {
                            // Every iterator moves on, whatever came before: they go side by side.
                            $(let $name = $name.next().unwrap_or_else(|| Err(load::short()));)+
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
        impl<X, $($join),+> Append<X> for ($($join,)+) {
            type Then = ($($join,)+ X,);
            fn append(self, next: X) -> Self::Then {
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
