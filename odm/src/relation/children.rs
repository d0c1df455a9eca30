//! Joins against the direction of a reference: the children of each document of a query.

use std::{marker::PhantomData, sync::Arc};

use super::{
    join::{AppendJoin, IntoJoin, Join, Joins},
    load,
};
use crate::{
    Result,
    language::{
        field::Path,
        query::{FilterNode, IntoFilter, IntoSort, Sort, sort_to_raw},
    },
    model::{
        document::Document,
        projection::{Projection, ProjectionOf},
    },
};

/// The documents of the model `C` that refer to each document of the model `P`. [`Document::by`] creates this value.
///
/// One query loads the children of all parents. Sort and limit apply to each parent separately.
#[must_use = "children are loaded when they are given to `with_children`"]
pub struct Children<C: Document, P, J = (), R = C> {
    path: Path,
    filter: FilterNode,
    sort: Vec<Sort<C>>,
    limit: Option<u64>,
    joins: J,
    of: PhantomData<fn() -> (P, R)>,
}

impl<C: Document, P> Children<C, P> {
    pub(crate) fn new(path: Path) -> Self {
        Self {
            // A reference inside a variant only counts if the value has this variant.
            filter: path.variant_condition().cloned().unwrap_or(FilterNode::All),
            path,
            sort: Vec::new(),
            limit: None,
            joins: (),
            of: PhantomData,
        }
    }

    /// Reads only the fields of a [`Projection`].
    pub fn select<R: ProjectionOf<C>>(self) -> Children<C, P, (), R> {
        Children {
            path: self.path,
            filter: self.filter,
            sort: self.sort,
            limit: self.limit,
            joins: (),
            of: PhantomData,
        }
    }
}

impl<C: Document, P, J, R> Children<C, P, J, R> {
    /// Returns whether the children have an order or a maximum number.
    pub(super) fn is_ordered(&self) -> bool {
        !self.sort.is_empty() || self.limit.is_some()
    }

    /// Returns the path of the reference, and the condition on the children.
    pub(super) fn into_reference_and_filter(self) -> (Path, FilterNode) {
        (self.path, self.filter)
    }

    /// Loads only children that match the condition.
    pub fn filter<F: IntoFilter<C>>(mut self, condition: impl FnOnce(C::Fields) -> F) -> Self {
        if let Some(filter) = condition(C::fields()).into_filter() {
            self.filter = self.filter.and(filter.into_node());
        }
        self
    }

    /// Sorts the children of each parent.
    pub fn sort<O: IntoSort<C>>(mut self, order: impl FnOnce(C::Fields) -> O) -> Self {
        self.sort.extend(order(C::fields()).into_sorts());
        self
    }

    /// Limits the number of children per parent.
    pub fn limit(mut self, limit: u64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Loads a relation of the children.
    pub fn with<K: IntoJoin<Scope = C>>(
        self,
        relation: impl FnOnce(C::Fields) -> K,
    ) -> Children<C, P, J::Then, R>
    where
        J: AppendJoin<Join<C, K::Out>>,
    {
        self.append_join(relation(C::fields()).into_join(&C::MODEL))
    }

    /// Loads the documents that refer to the children.
    pub fn with_children<D: Document, K: Joins<Q>, Q: Projection<Of = D>>(
        self,
        children: Children<D, C, K, Q>,
    ) -> Children<C, P, J::Then, R>
    where
        J: AppendJoin<Join<C, Vec<K::Item>>>,
    {
        self.append_join(children.into_join())
    }

    fn append_join<X>(self, join: X) -> Children<C, P, J::Then, R>
    where
        J: AppendJoin<X>,
    {
        Children {
            path: self.path,
            filter: self.filter,
            sort: self.sort,
            limit: self.limit,
            joins: self.joins.append_join(join),
            of: PhantomData,
        }
    }

    pub(crate) fn into_join(self) -> Join<P, Vec<J::Item>>
    where
        R: Projection<Of = C>,
        J: Joins<R>,
    {
        let query: Result<load::ChildrenQuery> = (|| {
            Ok(load::ChildrenQuery {
                path: self.path.dotted()?.to_owned(),
                filter: self.filter,
                sort: sort_to_raw(&self.sort)?,
                limit: self.limit,
            })
        })();
        let joins = self.joins;
        Join::new(Ok(vec!["_id".to_owned()]), move |access, parents| {
            let (query, joins) = (query.clone(), joins.clone());
            Box::pin(async move {
                load::load_children::<R, J>(access, Arc::clone(&parents), query?, joins).await
            })
        })
    }
}
