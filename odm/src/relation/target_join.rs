//! Joins along a reference, with conditions on the targets.

use std::marker::PhantomData;

use bson::RawDocumentBuf;

use super::{
    children::Children,
    condition::Targets,
    covering::CoveringCopies,
    join::{AppendJoin, FindableReference, IntoJoin, Join, Joins, ReferencePlace},
    link::LinkItem,
    load,
    reference_path::ReferencePath,
};
use crate::{
    Result,
    language::{
        field::{ArrayPlace, Field, OptionalPlace, OverflowPlace, Path},
        query::{FilterNode, IntoFilter, IntoSort, Sort, sort_to_raw},
    },
    model::{
        document::{Document, Stored},
        projection::{Projection, ProjectionOf},
    },
    schema::Model,
};

/// A join along a reference, with conditions on its targets and further joins of the targets.
///
/// A join begins with the reference: `p.parts().filter(…)`, `p.maker().with(…)`. With a condition, the join treats a target that
/// does not match like a deleted document. In a [`Link`](super::Link) the result is [`Missing`](super::Linked::Missing). In
/// [`Links`](super::Links) missing targets are left out.
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
/// // The three most expensive parts of each product, with their makers: three queries.
/// let products = db
///     .find::<Product>()
///     .with(|p| p.parts().sort(|part| part.price().desc()).limit(3).with(|part| part.maker()))
///     .all()
///     .await?;
/// # let _ = products;
/// // The names of all parts with a price above zero.
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
pub struct JoinOf<P: ReferencePlace, J = (), R = <P as ReferencePlace>::Target> {
    path: Path,
    filter: FilterNode,
    sort: Vec<Sort<P::Target>>,
    limit: Option<usize>,
    joins: J,
    of: PhantomData<fn() -> R>,
}

/// The query for the targets of a join.
#[derive(Clone)]
pub(super) struct JoinEdge {
    pub(super) path: ReferencePath,
    pub(super) filter: FilterNode,
    pub(super) sort: Option<RawDocumentBuf>,
    /// The maximum number of targets per parent.
    pub(super) limit: Option<usize>,
    /// The copies that answer the join without a query.
    pub(super) covering: Option<CoveringCopies>,
}

impl<P: ReferencePlace> JoinOf<P> {
    pub(super) fn new(reference: P) -> Self {
        Self {
            path: reference.path(),
            filter: FilterNode::All,
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

impl<P: ReferencePlace, J, R> JoinOf<P, J, R> {
    /// Loads only targets that match the condition. Further calls add conditions.
    pub fn filter<F: IntoFilter<P::Target>>(
        mut self,
        condition: impl FnOnce(<P::Target as Document>::Fields) -> F,
    ) -> Self {
        if let Some(filter) = condition(P::Target::fields()).into_filter() {
            self.filter = self.filter.and(filter.into_node());
        }
        self
    }

    /// Sorts the targets, which otherwise have the order of the references. A further call sorts the targets that this order
    /// leaves equal.
    ///
    /// Missing targets come last.
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

    /// Limits the number of targets per document, and leaves missing targets out.
    pub fn limit(mut self, limit: usize) -> Self
    where
        P: RefersToMany,
    {
        self.limit = Some(limit);
        self
    }

    /// Loads a relation of the targets.
    pub fn with<K: IntoJoin<Scope = P::Target>>(
        self,
        relation: impl FnOnce(<P::Target as Document>::Fields) -> K,
    ) -> JoinOf<P, J::Then, R>
    where
        J: AppendJoin<Join<P::Target, K::Out>>,
    {
        self.append_join(relation(P::Target::fields()).into_join(&P::Target::MODEL))
    }

    /// Loads the documents that refer to the targets.
    pub fn with_children<C: Document, K: Joins<Q>, Q: Projection<Of = C>>(
        self,
        children: Children<C, P::Target, K, Q>,
    ) -> JoinOf<P, J::Then, R>
    where
        J: AppendJoin<Join<P::Target, Vec<K::Item>>>,
    {
        self.append_join(children.into_join())
    }

    fn append_join<X>(self, join: X) -> JoinOf<P, J::Then, R>
    where
        J: AppendJoin<X>,
    {
        JoinOf {
            path: self.path,
            filter: self.filter,
            sort: self.sort,
            limit: self.limit,
            joins: self.joins.append_join(join),
            of: PhantomData,
        }
    }

    /// Converts the join to a place with the same path and a more specific type.
    pub(super) fn with_place<Q: ReferencePlace<Target = P::Target>>(self) -> JoinOf<Q, J, R> {
        JoinOf {
            path: self.path,
            filter: self.filter,
            sort: self.sort,
            limit: self.limit,
            joins: self.joins,
            of: PhantomData,
        }
    }

    fn to_edge(&self, model: &'static Model) -> Result<JoinEdge>
    where
        R: Projection<Of = P::Target>,
        J: Joins<R>,
    {
        let is_plain = matches!(self.filter, FilterNode::All)
            && self.sort.is_empty()
            && self.limit.is_none()
            && self.joins.needed_fields()?.is_empty();
        Ok(JoinEdge {
            path: ReferencePath::from_path(&self.path)?,
            filter: self.filter.clone(),
            sort: sort_to_raw(&self.sort)?,
            limit: self.limit,
            covering: match is_plain {
                true => CoveringCopies::of_join::<R>(model, &self.path),
                false => None,
            },
        })
    }
}

#[diagnostic::do_not_recommend]
impl<P, J, R> IntoJoin for JoinOf<P, J, R>
where
    P: ReferencePlace,
    R: Projection<Of = P::Target>,
    J: Joins<R, Item: LinkItem<Of = P::Target>>,
{
    type Scope = P::Scope;
    type Out = P::Out<J::Item>;
    fn into_join(self, model: &'static Model) -> Join<P::Scope, Self::Out> {
        let edge = self.to_edge(model);
        let needed_fields = edge.as_ref().map(|edge| {
            let mut needed_fields = edge.path.needed_fields();
            // The chunk documents of an overflow array are found by the `_id` of the owner.
            needed_fields.extend(P::overflow_model().map(|_| "_id".to_owned()));
            needed_fields.extend(edge.covering.iter().flat_map(CoveringCopies::needed_fields));
            needed_fields
        });
        let needed_fields = needed_fields.map_err(Clone::clone);
        let joins = self.joins;
        Join::new(needed_fields, move |access, parents| {
            let (edge, joins) = (edge.clone(), joins.clone());
            Box::pin(
                async move { load::load_targets::<P, R, J>(access, parents, edge?, joins).await },
            )
        })
    }
}

/// An array of references, so that the targets have an order and a number.
#[diagnostic::on_unimplemented(
    message = "`{Self}` refers to one document, not to a list of documents",
    label = "not an array of references",
    note = "`sort`, `limit` and `targets` are for arrays of references; use `filter` for a condition on the target of a join, and `matches` \
            for a condition of a query"
)]
pub trait RefersToMany: ReferencePlace {}

macro_rules! edges {
    ([$($param:tt)*] $place:ty) => {
        // These methods are inherent so that a field without references gets the compile error of `ReferencePlace`, and callers
        // need no import.
        impl<$($param)*> $place {
            /// Joins the target and one of its relations: see [`JoinOf`].
            pub fn with<K: IntoJoin<Scope = <Self as ReferencePlace>::Target>>(
                self,
                relation: impl FnOnce(<<Self as ReferencePlace>::Target as Document>::Fields) -> K,
            ) -> JoinOf<Self, (Join<<Self as ReferencePlace>::Target, K::Out>,)>
            where
                Self: ReferencePlace,
            {
                JoinOf::new(self).with(relation)
            }

            /// Joins the target and the documents that refer to the target.
            pub fn with_children<C: Document, K: Joins<Q>, Q: Projection<Of = C>>(
                self,
                children: Children<C, <Self as ReferencePlace>::Target, K, Q>,
            ) -> JoinOf<Self, (Join<<Self as ReferencePlace>::Target, Vec<K::Item>>,)>
            where
                Self: ReferencePlace,
            {
                JoinOf::new(self).with_children(children)
            }

            /// Joins only targets that match the condition: see [`JoinOf`].
            pub fn filter<F: IntoFilter<<Self as ReferencePlace>::Target>>(
                self,
                condition: impl FnOnce(<<Self as ReferencePlace>::Target as Document>::Fields) -> F,
            ) -> JoinOf<Self>
            where
                Self: ReferencePlace,
            {
                JoinOf::new(self).filter(condition)
            }

            /// Sorts the joined targets: see [`JoinOf`].
            pub fn sort<O: IntoSort<<Self as ReferencePlace>::Target>>(
                self,
                order: impl FnOnce(<<Self as ReferencePlace>::Target as Document>::Fields) -> O,
            ) -> JoinOf<Self>
            where
                Self: RefersToMany,
            {
                JoinOf::new(self).sort(order)
            }

            /// Limits the number of joined targets: see [`JoinOf`].
            pub fn limit(self, limit: usize) -> JoinOf<Self>
            where
                Self: RefersToMany,
            {
                JoinOf::new(self).limit(limit)
            }

            /// Returns the targets, for a condition of a query: see [`Targets`].
            pub fn targets(self) -> Targets<Self>
            where
                Self: RefersToMany + ReferencePlace<EnclosingShapes: FindableReference>,
            {
                Targets::new(&self)
            }

            /// Joins only the fields of a [`Projection`]: see [`JoinOf`].
            pub fn select<Q: ProjectionOf<<Self as ReferencePlace>::Target>>(self) -> JoinOf<Self, (), Q>
            where
                Self: ReferencePlace,
            {
                JoinOf::new(self).select()
            }
        }
    };
}
pub(super) use edges;
edges!([M: 'static, T, R: 'static, S: 'static] Field<M, T, R, S>);
edges!([M: 'static, T: Stored, R: 'static, S: 'static, V: Stored] ArrayPlace<M, T, R, S, V>);
edges!([M: 'static, T: Stored, R: 'static, S: 'static] OverflowPlace<M, T, R, S>);
edges!([M: 'static, T: Stored, R: 'static, S: 'static] OptionalPlace<M, T, R, S>);
