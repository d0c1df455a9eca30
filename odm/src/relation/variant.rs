//! Joins along references inside of variants: there only where a value is of the variant.

use super::{
    children::Children,
    edge::{JoinOf, RefersToMany, edges},
    join::{Gather, IntoJoin, Join, Joins, Reference},
    link::Item,
};
use crate::{
    document::{Document, InKind, OfKind},
    field::{OfVariant, Place, Within, said},
    projection::{Projection, ProjectionOf},
    query::{Filter, IntoFilter, IntoSort},
};

#[diagnostic::do_not_recommend]
impl<P: Reference, S> Reference for Within<P, S> {
    type Target = P::Target;
    type Out<X: Item<Of = P::Target>> = <P::Out<X> as Gather<X>>::OrNone;
    type Inside = (P::Inside, S);
    const IS_REQUIRED: bool = P::IS_REQUIRED;
}

#[diagnostic::do_not_recommend]
impl<P: RefersToMany, S> RefersToMany for Within<P, S> {}

#[diagnostic::do_not_recommend]
impl<P: Reference, J, R, S> OfVariant<P::Scope, S> for JoinOf<P, J, R> {
    type Out = JoinOf<Within<P, S>, J, R>;
    type Says = said::Somewhere;
    /// The path has the condition already.
    fn of_variant(self, _: Filter<P::Scope>) -> Self::Out {
        self.along()
    }
}

#[diagnostic::do_not_recommend]
impl<E, P: Reference> Reference for InKind<E, P> {
    type Target = P::Target;
    type Out<X: Item<Of = P::Target>> = <P::Out<X> as Gather<X>>::OrNone;
    type Inside = P::Inside;
    const IS_REQUIRED: bool = P::IS_REQUIRED;
}

#[diagnostic::do_not_recommend]
impl<E, P: RefersToMany> RefersToMany for InKind<E, P> {}

#[diagnostic::do_not_recommend]
impl<E, V, P: Reference<Scope = V>, J, R> OfKind<E, V> for JoinOf<P, J, R> {
    type Out = JoinOf<InKind<E, P>, J, R>;
    /// The path has the condition already.
    fn of_kind(self, _: Filter<E>) -> Self::Out {
        self.along()
    }
}

edges!([P: Place, S] Within<P, S>);
edges!([E, P: Place] InKind<E, P>);
