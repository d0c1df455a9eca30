//! Operators on references that concern the target: `matches` and `get`.

use std::{ops::Deref, sync::Arc};

use super::{Field, Path, Place, SameScope, pattern_filter, role, shape};
use crate::{
    Error, ErrorKind,
    language::query::{Filter, FilterNode, IntoFilter, Pattern, RelatedCondition, Relation},
    model::document::{Document, Ref, Stored},
    schema::{Model, ReferenceCopies},
};

/// Types with the operator [`matches`](Field::matches): a text matches a pattern, and a reference matches a condition on its
/// target.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a text nor a reference",
    label = "`matches` takes a pattern for a `String`, and a closure with a condition on the target for a `Ref`",
    note = "use `eq`, `is_in`, or `between` for ordered types"
)]
pub trait Matches<C, S> {
    /// Returns the condition at a path.
    #[doc(hidden)]
    fn condition_at<M>(path: &Path, condition: C) -> Filter<M>;
}

macro_rules! texts {
    ($($text:ty)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<C: Into<Pattern>, S> Matches<C, S> for $text {
            fn condition_at<M>(path: &Path, pattern: C) -> Filter<M> {
                pattern_filter(path, pattern.into())
            }
        }
    )*};
}
texts!(String Box<str> Arc<str>);

// Recommended, so that the compiler names the failed bound: a list of references, or a condition on another model.
impl<T, C, F, S> Matches<C, S> for Ref<T>
where
    T: Document,
    C: FnOnce(T::Fields) -> F,
    F: IntoFilter<T>,
    S: OneTarget,
{
    fn condition_at<M>(path: &Path, condition: C) -> Filter<M> {
        let condition = condition(T::fields()).into_filter();
        Filter::from_node(FilterNode::from(RelatedCondition {
            relation: Relation::Targets,
            reference: path.clone(),
            model: &T::MODEL,
            condition: condition.map_or(FilterNode::All, Filter::into_node),
        }))
    }
}

/// Shapes of references with at most one target in each document.
#[diagnostic::on_unimplemented(
    message = "`matches` needs a single reference, not a list of references",
    label = "has several targets",
    note = "say which targets must meet the condition: `p.parts().targets().any(|part| …)`, `.all(…)` or `.none(…)`"
)]
pub trait OneTarget {}
#[diagnostic::do_not_recommend]
impl OneTarget for shape::One {}
// The bound on `Queryable` reports the remaining shapes.
#[diagnostic::do_not_recommend]
impl OneTarget for shape::Every {}
#[diagnostic::do_not_recommend]
impl OneTarget for shape::First {}
#[diagnostic::do_not_recommend]
impl<S> OneTarget for shape::Defaulted<S> {}

impl<M: Document, T: Document, R> Field<M, Ref<T>, R, shape::One> {
    /// Returns the copy of a field of the target, for conditions, sorts and aggregates.
    ///
    /// The copy is a `#[denormalize]` field beside the reference. `get` names the copy by its source, so that the code does not
    /// depend on the name of the copy. For the `_id` of the target, `get` returns the reference itself.
    ///
    /// Without a target, the copy is null, and null sorts first in ascending order. The database compares the stored copies. A copy
    /// can be older than its source while a fan-out is pending, also with [`Find::current`](crate::action::Find::current). A
    /// [page](crate::action::Find::page) continues at the copy of the last document.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Debug, Serialize, Deserialize, Document)]
    /// # #[document(collection = "authors")]
    /// # struct Author { #[serde(rename = "_id")] id: i64, name: String }
    /// #[derive(Debug, Serialize, Deserialize, Document)]
    /// #[document(collection = "posts", index(author_name))]
    /// struct Post {
    ///     #[serde(rename = "_id")]
    ///     id: i64,
    ///     #[reference(exists)]
    ///     author: Ref<Author>,
    ///     #[denormalize(from = author.name)]
    ///     author_name: String,
    /// }
    /// # #[derive(Schema)] #[schema(models(Author, Post))] struct Blog;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let db = odm::Database::<Blog>::open("memory:").await?;
    /// # db.sync_indexes().await?;
    /// # db.insert_many([Author { id: 1, name: "Zoe".into() }, Author { id: 2, name: "Ann".into() }]).await?;
    /// # db.insert_many([NewPost { id: 1, author: Ref::new(1) }, NewPost { id: 2, author: Ref::new(2) }]).await?;
    /// let posts = db.find::<Post>().sort(|p| p.author().get(|a| a.name()).asc()).page(20).await?;
    /// assert_eq!(posts.items[0].author_name, "Ann");
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// A query or a write with the place fails with [`Unsupported`](crate::ErrorKind::Unsupported) if the document has no copy of
    /// the field: declare a copy beside the reference.
    pub fn get<K>(
        &self,
        field: impl FnOnce(T::Fields) -> K,
    ) -> <K::Value as Stored>::Fields<M, role::Denormalized, shape::One>
    where
        K: Place<Scope: SameScope<T>, Value: Stored>,
    {
        K::Value::fields(copy_path(&M::MODEL, &self.path, &field(T::fields()).path()))
    }
}

/// The fields of the target, for messages: `p.author().name()` is a field of the author, so every use of the field in a query of
/// posts is a compile error that names `matches`, `get` and copies. Without this implementation the error would be an unknown
/// method.
#[diagnostic::do_not_recommend]
impl<M, T: Document, R, S> Deref for Field<M, Ref<T>, R, S> {
    type Target = T::Fields;
    fn deref(&self) -> &T::Fields {
        // Leaks, as a place holds no tree of another model. A program that compiles has hardly a use for the tree.
        Box::leak(Box::new(T::fields()))
    }
}

/// Returns the path of the copy of a field of the target, or a path with an error.
fn copy_path(model: &'static Model, reference: &Path, source: &Path) -> Path {
    if let Err(error) = source.dotted() {
        return reference.with_error(error);
    }
    let copy = || {
        if reference.meets_array() || reference.variant_condition().is_some() {
            return None;
        }
        let copies = ReferenceCopies::of_reference(model.copies, reference.dotted().ok()?);
        let source = source.dotted().ok()?;
        if source == "_id" {
            return Some(reference.clone());
        }
        let (copy, rest) = copies?.copy_of(source)?;
        Some(reference.sibling(&format!("{}{rest}", copy.stored)))
    };
    copy().unwrap_or_else(|| {
        let message = format!(
            "`{}` has no copy of `{source}` through `{reference}`, and the database can sort and compare only fields of the \
             document: declare a field with `#[denormalize(from = {reference}.{source})]`",
            model.name,
        );
        let error = Error::new(ErrorKind::Unsupported, message).with_path(reference.to_string());
        reference.with_error(error)
    })
}
