//! Conditions of a query on several related documents: the targets of a list of references, and children.

use std::marker::PhantomData;

use super::{children::Children, join::ReferencePlace};
use crate::{
    Error, ErrorKind,
    language::{
        field::Path,
        query::{Filter, FilterNode, IntoFilter, RelatedCondition, Relation},
    },
    model::document::Document,
};

/// The targets of a list of references, for a condition of a query: `p.parts().targets().any(|part| …)`.
///
/// [`Field::matches`](crate::field::Field::matches) is the same for a single reference, and describes the strategies, the costs
/// and the errors.
///
/// ```
/// # use odm::prelude::*;
/// # #[derive(Debug, Serialize, Deserialize, Document)]
/// # #[document(collection = "parts")]
/// # struct Part { #[serde(rename = "_id")] id: i64, #[index] price: i64 }
/// # #[derive(Debug, Serialize, Deserialize, Document)]
/// # #[document(collection = "products")]
/// # struct Product { #[serde(rename = "_id")] id: i64, #[index] #[reference(max = 100)] parts: Vec<Ref<Part>> }
/// # #[derive(Schema)] #[schema(models(Part, Product))] struct Shop;
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// # let db = odm::Database::<Shop>::open("memory:").await?;
/// # db.insert_many([Part { id: 1, price: 5 }, Part { id: 2, price: 500 }]).await?;
/// # let parts = |ids: &[i64]| ids.iter().copied().map(Ref::new).collect();
/// # db.insert_many([Product { id: 1, parts: parts(&[1]) }, Product { id: 2, parts: parts(&[1, 2]) }]).await?;
/// let with_expensive = db.find::<Product>().filter(|p| p.parts().targets().any(|part| part.price().gte(100)));
/// let only_cheap = db.find::<Product>().filter(|p| p.parts().targets().all(|part| part.price().lt(100)));
/// # assert_eq!(with_expensive.count().await?, 1);
/// # assert_eq!(only_cheap.count().await?, 1);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
#[must_use = "a condition is made by `any`, `all` or `none`"]
pub struct Targets<P> {
    reference: Path,
    of: PhantomData<fn() -> P>,
}

impl<P: ReferencePlace> Targets<P> {
    pub(super) fn new(reference: &P) -> Self {
        Self {
            reference: reference.path(),
            of: PhantomData,
        }
    }

    /// Matches if at least one target exists and meets the condition.
    pub fn any<F: IntoFilter<P::Target>>(
        self,
        condition: impl FnOnce(<P::Target as Document>::Fields) -> F,
    ) -> Filter<P::Scope> {
        self.any_node(to_node(condition))
    }

    /// Matches if no target exists that meets the condition.
    pub fn none<F: IntoFilter<P::Target>>(
        self,
        condition: impl FnOnce(<P::Target as Document>::Fields) -> F,
    ) -> Filter<P::Scope> {
        !self.any(condition)
    }

    /// Matches if every target that exists meets the condition, also for an empty list.
    pub fn all<F: IntoFilter<P::Target>>(
        self,
        condition: impl FnOnce(<P::Target as Document>::Fields) -> F,
    ) -> Filter<P::Scope> {
        !self.any_node(FilterNode::Not(Box::new(to_node(condition))))
    }

    fn any_node<M>(self, condition: FilterNode) -> Filter<M> {
        Filter::from_node(FilterNode::from(RelatedCondition {
            relation: Relation::Targets,
            reference: self.reference,
            model: &P::Target::MODEL,
            condition,
        }))
    }
}

/// Conditions of a query on the children of each document.
///
/// [`Field::matches`](crate::field::Field::matches) describes the costs and the errors: one query reads the ids of the parents,
/// at most 10,000.
///
/// ```
/// # use odm::prelude::*;
/// # #[derive(Debug, Serialize, Deserialize, Document)]
/// # #[document(collection = "products")]
/// # struct Product { #[serde(rename = "_id")] id: i64 }
/// # #[derive(Debug, Serialize, Deserialize, Document)]
/// # #[document(collection = "reviews")]
/// # struct Review { #[serde(rename = "_id")] id: i64, #[reference] product: Ref<Product>, #[index] stars: i64 }
/// # #[derive(Schema)] #[schema(models(Product, Review))] struct Shop;
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// # let db = odm::Database::<Shop>::open("memory:").await?;
/// # db.insert_many([Product { id: 1 }, Product { id: 2 }]).await?;
/// # db.insert(Review { id: 1, product: Ref::new(1), stars: 5 }).await?;
/// let praised = db.find::<Product>().filter(|_| Review::by(|r| r.product()).any(|r| r.stars().gte(4))).all().await?;
/// let unreviewed = db.find::<Product>().filter(|_| Review::by(|r| r.product()).none(|_| None)).all().await?;
/// # assert_eq!((praised[0].id, unreviewed[0].id), (1, 2));
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
impl<C: Document, P> Children<C, P> {
    /// Matches if at least one child meets the condition. `None` as the condition matches every child.
    pub fn any<F: IntoFilter<C>>(self, condition: impl FnOnce(C::Fields) -> F) -> Filter<P> {
        self.any_node(|of_children| of_children.and(to_node(condition)))
    }

    /// Matches if no child meets the condition. `None` as the condition matches every child.
    pub fn none<F: IntoFilter<C>>(self, condition: impl FnOnce(C::Fields) -> F) -> Filter<P> {
        !self.any(condition)
    }

    /// Matches if every child meets the condition, also for a document without children. With [`filter`](Self::filter), every
    /// child that the filter finds.
    pub fn all<F: IntoFilter<C>>(self, condition: impl FnOnce(C::Fields) -> F) -> Filter<P> {
        !self.any_node(|of_children| of_children.and(FilterNode::Not(Box::new(to_node(condition)))))
    }

    fn any_node(self, condition: impl FnOnce(FilterNode) -> FilterNode) -> Filter<P> {
        if self.is_ordered() {
            let message = "a condition on children has no order: leave out `sort` and `limit`";
            return Filter::from_node(FilterNode::Invalid(Error::new(ErrorKind::Invalid, message)));
        }
        let (reference, filter) = self.into_reference_and_filter();
        Filter::from_node(FilterNode::from(RelatedCondition {
            relation: Relation::Children,
            reference,
            model: &C::MODEL,
            condition: condition(filter),
        }))
    }
}

fn to_node<T: Document, F: IntoFilter<T>>(condition: impl FnOnce(T::Fields) -> F) -> FilterNode {
    condition(T::fields())
        .into_filter()
        .map_or(FilterNode::All, Filter::into_node)
}
