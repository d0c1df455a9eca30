//! A join along a reference, with what is asked of the documents that it leads to.

use std::marker::PhantomData;

use bson::RawDocumentBuf;

use super::{
    children::Children,
    join::{Append, IntoJoin, Join, Joins, Reference},
    link::Item,
    load,
    way::Way,
};
use crate::{
    Result,
    document::{Document, Stored},
    field::{Array, Field, Maybe, Overflowing, Path},
    projection::{Projection, ProjectionOf},
    query::{Filter, IntoFilter, IntoSort, Node, Sort, sort_to_raw},
};

/// A reference to join along, with what is asked of the documents that it leads to and what is joined with them.
///
/// It begins with the reference: `p.parts().filter(…)`, `p.maker().with(…)`. With a condition, a document that does not meet it is
/// as one that is not there: [`Missing`](super::Linked::Missing) in a [`Link`](super::Link), and in
/// [`Links`](super::Links) left out, together with those that are not there.
///
/// ```
/// # use odm::prelude::*;
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "makers")]
/// # struct Maker { #[serde(rename = "_id")] id: String, country: String }
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "parts")]
/// # struct Part { #[serde(rename = "_id")] id: i64, name: String, price: i64, #[reference] maker: Ref<Maker> }
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "products")]
/// # struct Product { #[serde(rename = "_id")] id: i64, #[reference(max = 100)] parts: Vec<Ref<Part>> }
/// # #[derive(Schema)] #[schema(models(Maker, Part, Product))] struct Shop;
/// #[derive(Deserialize, Projection)]
/// #[projection(of = Part)]
/// struct PartName { name: String }
///
/// # async fn example(db: odm::Database<Shop>) -> odm::Result<()> {
/// // The three dearest parts of each product, and who makes them: three queries.
/// let products = db
///     .find::<Product>()
///     .with(|p| p.parts().sort(|part| part.price().desc()).limit(3).with(|part| part.maker()))
///     .all()
///     .await?;
/// # let _ = products;
/// // Of all parts that cost something, the names.
/// let products = db
///     .find::<Product>()
///     .with(|p| p.parts().filter(|part| part.price().gt(0)).select::<PartName>())
///     .all()
///     .await?;
/// for (product, parts) in &products {
///     println!("{}: {:?}", product.id, parts.loaded().map(|part| &part.name).collect::<Vec<_>>());
/// }
/// # Ok(())
/// # }
/// ```
pub struct JoinOf<P: Reference, J = (), R = <P as Reference>::Target> {
    path: Path,
    filter: Node,
    sort: Vec<Sort<P::Target>>,
    limit: Option<usize>,
    joins: J,
    of: PhantomData<fn() -> R>,
}

/// What is asked of the documents that references lead to.
#[derive(Clone)]
pub(super) struct Edge {
    pub(super) way: Way,
    pub(super) filter: RawDocumentBuf,
    pub(super) sort: Option<RawDocumentBuf>,
    /// How many for each parent.
    pub(super) limit: Option<usize>,
}

impl<P: Reference> JoinOf<P> {
    pub(super) fn new(reference: P) -> Self {
        Self {
            path: reference.path(),
            filter: Node::All,
            sort: Vec::new(),
            limit: None,
            joins: (),
            of: PhantomData,
        }
    }

    /// Reads only the fields of a [`Projection`].
    pub fn select<R: ProjectionOf<P::Target>>(self) -> JoinOf<P, (), R> {
        JoinOf {
            path: self.path,
            filter: self.filter,
            sort: self.sort,
            limit: self.limit,
            joins: (),
            of: PhantomData,
        }
    }
}

impl<P: Reference, J, R> JoinOf<P, J, R> {
    /// Only documents that meet the condition, and those of further calls.
    pub fn filter<F: IntoFilter<P::Target>>(
        mut self,
        condition: impl FnOnce(<P::Target as Document>::Fields) -> F,
    ) -> Self {
        if let Some(filter) = condition(P::Target::fields()).into_filter() {
            self.filter = self.filter.and(filter.into_node());
        }
        self
    }

    /// In this order instead of that of the references; a further call orders what this one leaves equal. References that lead
    /// nowhere come last.
    pub fn sort<O: IntoSort<P::Target>>(
        mut self,
        order: impl FnOnce(<P::Target as Document>::Fields) -> O,
    ) -> Self
    where
        P: RefersToMany,
    {
        self.sort.extend(order(P::Target::fields()).into_sorts());
        self
    }

    /// This many at most for each document, and none that leads nowhere.
    pub fn limit(mut self, limit: usize) -> Self
    where
        P: RefersToMany,
    {
        self.limit = Some(limit);
        self
    }

    /// Brings along a further relation of what the reference leads to.
    pub fn with<K: IntoJoin<Scope = P::Target>>(
        self,
        relation: impl FnOnce(<P::Target as Document>::Fields) -> K,
    ) -> JoinOf<P, J::Then, R>
    where
        J: Append<Join<P::Target, K::Out>>,
    {
        self.append(relation(P::Target::fields()).into_join())
    }

    /// Brings along the documents that refer to what the reference leads to.
    pub fn with_children<C: Document, K: Joins<Q>, Q: Projection<Of = C>>(
        self,
        children: Children<C, P::Target, K, Q>,
    ) -> JoinOf<P, J::Then, R>
    where
        J: Append<Join<P::Target, Vec<K::Item>>>,
    {
        self.append(children.into_join())
    }

    fn append<X>(self, join: X) -> JoinOf<P, J::Then, R>
    where
        J: Append<X>,
    {
        JoinOf {
            path: self.path,
            filter: self.filter,
            sort: self.sort,
            limit: self.limit,
            joins: self.joins.append(join),
            of: PhantomData,
        }
    }

    /// The same, along a place that says more of where the references are, at the same path.
    pub(super) fn along<Q: Reference<Target = P::Target>>(self) -> JoinOf<Q, J, R> {
        JoinOf {
            path: self.path,
            filter: self.filter,
            sort: self.sort,
            limit: self.limit,
            joins: self.joins,
            of: PhantomData,
        }
    }

    fn edge(&self) -> Result<Edge> {
        Ok(Edge {
            way: Way::to(&self.path)?,
            filter: Filter::<P::Target>::from_node(self.filter.clone()).to_raw()?,
            sort: sort_to_raw(&self.sort)?,
            limit: self.limit,
        })
    }
}

#[diagnostic::do_not_recommend]
impl<P, J, R> IntoJoin for JoinOf<P, J, R>
where
    P: Reference,
    R: Projection<Of = P::Target>,
    J: Joins<R, Item: Item<Of = P::Target>>,
{
    type Scope = P::Scope;
    type Out = P::Out<J::Item>;
    fn into_join(self) -> Join<P::Scope, Self::Out> {
        let edge = self.edge();
        let needs = edge.as_ref().map(|edge| {
            let mut needs = edge.way.needs();
            // What is outside of a document is found by it.
            needs.extend(P::overflows_in().map(|_| "_id".to_owned()));
            needs
        });
        let needs = needs.map_err(Clone::clone);
        let joins = self.joins;
        Join::new(needs, move |access, parents| {
            let (edge, joins) = (edge.clone(), joins.clone());
            Box::pin(async move { load::targets::<P, R, J>(access, parents, edge?, joins).await })
        })
    }
}

/// References to several documents, which have an order and a number.
#[diagnostic::on_unimplemented(
    message = "`{Self}` refers to one document: there is nothing to order or to count",
    label = "no array of references",
    note = "`sort` and `limit` are for arrays of references; a condition on the one document is a `filter`"
)]
pub trait RefersToMany: Reference {}

macro_rules! edges {
    ([$($param:tt)*] $place:ty) => {
        // Inherent, so that a field which is no reference gets the message of `Reference`, and nothing is to be imported.
        impl<$($param)*> $place {
            /// Joins what the reference leads to with a relation of its own: see [`JoinOf`].
            pub fn with<K: IntoJoin<Scope = <Self as Reference>::Target>>(
                self,
                relation: impl FnOnce(<<Self as Reference>::Target as Document>::Fields) -> K,
            ) -> JoinOf<Self, (Join<<Self as Reference>::Target, K::Out>,)>
            where
                Self: Reference,
            {
                JoinOf::new(self).with(relation)
            }

            /// Joins what the reference leads to with the documents that refer to that.
            pub fn with_children<C: Document, K: Joins<Q>, Q: Projection<Of = C>>(
                self,
                children: Children<C, <Self as Reference>::Target, K, Q>,
            ) -> JoinOf<Self, (Join<<Self as Reference>::Target, Vec<K::Item>>,)>
            where
                Self: Reference,
            {
                JoinOf::new(self).with_children(children)
            }

            /// Joins only documents that meet the condition: see [`JoinOf`].
            pub fn filter<F: IntoFilter<<Self as Reference>::Target>>(
                self,
                condition: impl FnOnce(<<Self as Reference>::Target as Document>::Fields) -> F,
            ) -> JoinOf<Self>
            where
                Self: Reference,
            {
                JoinOf::new(self).filter(condition)
            }

            /// Joins the documents in this order: see [`JoinOf`].
            pub fn sort<O: IntoSort<<Self as Reference>::Target>>(
                self,
                order: impl FnOnce(<<Self as Reference>::Target as Document>::Fields) -> O,
            ) -> JoinOf<Self>
            where
                Self: RefersToMany,
            {
                JoinOf::new(self).sort(order)
            }

            /// Joins this many documents at most: see [`JoinOf`].
            pub fn limit(self, limit: usize) -> JoinOf<Self>
            where
                Self: RefersToMany,
            {
                JoinOf::new(self).limit(limit)
            }

            /// Joins only the fields of a [`Projection`]: see [`JoinOf`].
            pub fn select<Q: ProjectionOf<<Self as Reference>::Target>>(self) -> JoinOf<Self, (), Q>
            where
                Self: Reference,
            {
                JoinOf::new(self).select()
            }
        }
    };
}
pub(super) use edges;
edges!([M: 'static, T, R: 'static, S: 'static] Field<M, T, R, S>);
edges!([M: 'static, T: Stored, R: 'static, S: 'static] Array<M, T, R, S>);
edges!([M: 'static, T: Stored, R: 'static, S: 'static] Overflowing<M, T, R, S>);
edges!([M: 'static, T: Stored, R: 'static, S: 'static] Maybe<M, T, R, S>);
