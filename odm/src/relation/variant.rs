//! Joins along references inside variants of enums. The reference only exists if the value has the variant.

use super::{
    children::Children,
    condition::Targets,
    join::{FindableReference, FromLinks, IntoJoin, Join, Joins, ReferencePlace},
    link::LinkItem,
    target_join::{JoinOf, RefersToMany, edges},
};
use crate::{
    language::{
        field::{InVariant, OfVariant, Place, closure_result},
        query::{Filter, IntoFilter, IntoSort},
    },
    model::{
        document::{Document, InDocumentVariant, OfDocumentVariant},
        projection::{Projection, ProjectionOf},
    },
};

#[diagnostic::do_not_recommend]
impl<P: ReferencePlace, S> ReferencePlace for InVariant<P, S> {
    type Target = P::Target;
    type Out<X: LinkItem<Of = P::Target>> = <P::Out<X> as FromLinks<X>>::IfVariant;
    type EnclosingShapes = (P::EnclosingShapes, S);
    const IS_REQUIRED: bool = P::IS_REQUIRED;
}

#[diagnostic::do_not_recommend]
impl<P: RefersToMany, S> RefersToMany for InVariant<P, S> {}

#[diagnostic::do_not_recommend]
impl<P: ReferencePlace, J, R, S> OfVariant<P::Scope, S> for JoinOf<P, J, R> {
    type Out = JoinOf<InVariant<P, S>, J, R>;
    type Kind = closure_result::Location;
    /// The path already contains the condition on the variant.
    fn of_variant(self, _: Filter<P::Scope>) -> Self::Out {
        self.with_place()
    }
}

#[diagnostic::do_not_recommend]
impl<E, P: ReferencePlace> ReferencePlace for InDocumentVariant<E, P> {
    type Target = P::Target;
    type Out<X: LinkItem<Of = P::Target>> = <P::Out<X> as FromLinks<X>>::IfVariant;
    type EnclosingShapes = P::EnclosingShapes;
    const IS_REQUIRED: bool = P::IS_REQUIRED;
}

#[diagnostic::do_not_recommend]
impl<E, P: RefersToMany> RefersToMany for InDocumentVariant<E, P> {}

#[diagnostic::do_not_recommend]
impl<E, V, P: ReferencePlace<Scope = V>, J, R> OfDocumentVariant<E, V> for JoinOf<P, J, R> {
    type Out = JoinOf<InDocumentVariant<E, P>, J, R>;
    /// The path already contains the condition on the variant.
    fn of_kind(self, _: Filter<E>) -> Self::Out {
        self.with_place()
    }
}

edges!([P: Place, S] InVariant<P, S>);
edges!([E, P: Place] InDocumentVariant<E, P>);
