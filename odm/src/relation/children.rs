//! Joins against references: the documents that refer to each of a query's.

use std::{marker::PhantomData, sync::Arc};

use super::{
    join::{Append, IntoJoin, Join, Joins},
    load,
};
use crate::{
    Result,
    document::Document,
    field::Path,
    projection::{Projection, ProjectionOf},
    query::{Filter, IntoFilter, IntoSort, Node, Sort, sort_to_raw},
};

/// The documents of the model `C` that refer to each document of the model `P`; made by [`Document::by`].
///
/// One query loads them for all parents, sorted and limited for each parent by itself.
#[must_use = "children are loaded when they are given to `with_children`"]
pub struct Children<C: Document, P, J = (), R = C> {
    path: Path,
    filter: Node,
    sort: Vec<Sort<C>>,
    limit: Option<u64>,
    joins: J,
    of: PhantomData<fn() -> (P, R)>,
}

impl<C: Document, P> Children<C, P> {
    pub(crate) fn new(path: Path) -> Self {
        Self {
            // A reference inside of a variant is one only where the value is of it.
            filter: path.condition().cloned().unwrap_or(Node::All),
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
    /// Only those that meet the condition.
    pub fn filter<F: IntoFilter<C>>(mut self, condition: impl FnOnce(C::Fields) -> F) -> Self {
        if let Some(filter) = condition(C::fields()).into_filter() {
            self.filter = self.filter.and(filter.into_node());
        }
        self
    }

    /// In this order, for each parent.
    pub fn sort<O: IntoSort<C>>(mut self, order: impl FnOnce(C::Fields) -> O) -> Self {
        self.sort.extend(order(C::fields()).into_sorts());
        self
    }

    /// This many at most, for each parent.
    pub fn limit(mut self, limit: u64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Brings along a relation of the children.
    pub fn with<K: IntoJoin<Scope = C>>(
        self,
        relation: impl FnOnce(C::Fields) -> K,
    ) -> Children<C, P, J::Then, R>
    where
        J: Append<Join<C, K::Out>>,
    {
        self.append(relation(C::fields()).into_join())
    }

    /// Brings along the documents that refer to the children.
    pub fn with_children<D: Document, K: Joins<Q>, Q: Projection<Of = D>>(
        self,
        children: Children<D, C, K, Q>,
    ) -> Children<C, P, J::Then, R>
    where
        J: Append<Join<C, Vec<K::Item>>>,
    {
        self.append(children.into_join())
    }

    fn append<X>(self, join: X) -> Children<C, P, J::Then, R>
    where
        J: Append<X>,
    {
        Children {
            path: self.path,
            filter: self.filter,
            sort: self.sort,
            limit: self.limit,
            joins: self.joins.append(join),
            of: PhantomData,
        }
    }

    pub(crate) fn into_join(self) -> Join<P, Vec<J::Item>>
    where
        R: Projection<Of = C>,
        J: Joins<R>,
    {
        let ask: Result<load::Ask> = (|| {
            Ok(load::Ask {
                path: self.path.dotted()?.to_owned(),
                filter: Filter::<C>::from_node(self.filter.clone()).to_raw()?,
                sort: sort_to_raw(&self.sort)?,
                limit: self.limit,
            })
        })();
        let joins = self.joins;
        Join::new(Ok(vec!["_id".to_owned()]), move |access, parents| {
            let (ask, joins) = (ask.clone(), joins.clone());
            Box::pin(async move {
                load::children::<R, J>(access, Arc::clone(&parents), ask?, joins).await
            })
        })
    }
}
