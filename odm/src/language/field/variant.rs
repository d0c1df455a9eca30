//! Enums: conditions and updates for one variant.

use std::{collections::HashMap, marker::PhantomData, ops::Deref};

use bson::{RawBson, RawBsonRef};

use super::{FromPath, Path, Place, shape};
use crate::{
    language::query::{Filter, FilterNode, encode_value},
    model::document::Document,
    schema::Model,
};

/// How a stored value identifies its variant.
///
/// The tag follows from serde's representation of the enum. Derived code creates tags.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub enum Tag {
    /// The value is this text: a unit variant of an externally tagged enum.
    Text(&'static str),
    /// The value is a document with this field: any other variant of an externally tagged enum.
    Key(&'static str),
    /// A field with this name holds this text.
    Field(&'static str, &'static str),
    /// A field with this name holds a text outside of this list: serde's `other`.
    Other(&'static str, &'static [&'static str]),
}

impl Tag {
    /// Returns the condition that the value at `path` is of the variant.
    pub(crate) fn to_condition(self, path: &Path) -> FilterNode {
        FilterNode::Variant(path.clone(), self)
    }

    /// Returns the condition that the value at `path` is of the variant, as a filter.
    pub fn filter<M>(self, path: &Path) -> Filter<M> {
        Filter::from_node(self.to_condition(path))
    }

    /// Returns whether a stored value is of the variant.
    pub(crate) fn matches_value(self, value: RawBsonRef<'_>) -> bool {
        let field = |name| {
            value
                .as_document()
                .and_then(|document| document.get(name).ok()?)
        };
        let text = |name| field(name).and_then(|tag: RawBsonRef<'_>| tag.as_str());
        match self {
            Self::Text(text) => value.as_str() == Some(text),
            Self::Key(name) => field(name).is_some(),
            Self::Field(name, expected) => text(name) == Some(expected),
            Self::Other(name, known) => {
                field(name).is_some() && text(name).is_none_or(|tag| !known.contains(&tag))
            }
        }
    }

    /// Returns the tag field of the value; `None` if the variant's key itself is the tag.
    pub(crate) fn tag_field(self) -> Option<&'static str> {
        match self {
            Self::Text(_) | Self::Key(_) => None,
            Self::Field(name, _) | Self::Other(name, _) => Some(name),
        }
    }

    /// Applies a closure to the variant's fields. `make_tree` creates the field tree from a path.
    pub fn within<M, S, F, X: OfVariant<M, S>>(
        self,
        path: &Path,
        make_tree: impl FnOnce(Path) -> F,
        build: impl FnOnce(F) -> X,
    ) -> X::Out {
        let condition = self.to_condition(path);
        let fields = make_tree(path.only_where(condition.clone()));
        build(fields).of_variant(Filter::from_node(condition))
    }
}

/// The result of a closure about a variant: a condition, which then holds only for values of the variant; a place to update,
/// which is written only in documents with the variant; or a reference to join, which is joined only for such documents.
///
/// `S` is the shape of the place that holds the enum.
#[diagnostic::on_unimplemented(
    message = "expected a condition on `{M}` or a field to update or to join, got `{Self}`",
    label = "cannot be applied to one variant",
    note = "in a filter, return a condition on the variant's fields: `p.payment().card(|c| c.number().eq(\"1\"))`; in an update \
         and in a join, return one of its fields: `p.payment().card(|c| c.number())`; a sort by a field of a variant is not \
         supported, because other variants lack the field; the content of an internally tagged variant is set with the enum as a \
         whole"
)]
pub trait OfVariant<M, S = shape::One> {
    /// The result for the variant alone.
    type Out;
    /// The kind of result: a type of [`closure_result`].
    #[doc(hidden)]
    type Kind;
    /// Restricts the result to values that meet the condition.
    #[doc(hidden)]
    fn of_variant(self, condition: Filter<M>) -> Self::Out;
}

/// Kinds of results of a closure about a variant.
#[doc(hidden)]
pub mod closure_result {
    /// A condition, which a single value must meet.
    #[derive(Debug)]
    pub struct Condition;
    /// A place, in any value.
    #[derive(Debug)]
    pub struct Location;
}

#[diagnostic::do_not_recommend]
impl<M, S> OfVariant<M, S> for Filter<M> {
    type Out = Self;
    type Kind = closure_result::Condition;
    fn of_variant(self, condition: Self) -> Self {
        condition & self
    }
}

#[diagnostic::do_not_recommend]
impl<M, S> OfVariant<M, S> for Option<Filter<M>> {
    type Out = Filter<M>;
    type Kind = closure_result::Condition;
    fn of_variant(self, condition: Filter<M>) -> Filter<M> {
        match self {
            Some(filter) => condition & filter,
            None => condition,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<P: Place, S> OfVariant<P::Scope, S> for P {
    type Out = InVariant<P, S>;
    type Kind = closure_result::Location;
    /// The path already contains the condition.
    fn of_variant(self, _: Filter<P::Scope>) -> InVariant<P, S> {
        InVariant(self, PhantomData)
    }
}

/// A place inside a variant, for an update or a join. The update applies only to documents with the variant; the join yields no
/// result for other documents.
///
/// The place has no conditions; conditions belong inside the closure. `S` is the shape of the place that holds the enum.
#[derive(Debug)]
pub struct InVariant<P, S = shape::One>(P, PhantomData<fn() -> S>);

#[diagnostic::do_not_recommend]
impl<P: Place, S> Place for InVariant<P, S> {
    type Scope = P::Scope;
    type Value = P::Value;
    type Role = P::Role;
    type Shape = P::Shape;
    fn path(&self) -> Path {
        self.0.path()
    }
}

/// Never implemented; the bound only produces an error message.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a condition on a field of a variant must be inside the closure",
    label = "outside of the closure, the variant is not known",
    note = "`p.payment().card(|c| c.number().eq(\"1\"))`"
)]
pub trait OutsideClosure {}

/// Declares operators that fail to compile with a remedy. Without them, rustc would suggest methods of `Iterator` with the same
/// names.
macro_rules! outside_closure_errors {
    ($place:ident<$($param:ident),+>: $scope:ty) => {
        $crate::language::field::outside_closure_errors! {
            $place<$($param),+>: $scope, eq ne gt gte lt lte is_in not_in contains starts_with
        }
    };
    ($place:ident<P, S>: $scope:ty, $($operator:ident)*) => {
        impl<P: Place, S> $place<P, S> {
            $($crate::language::field::outside_closure_errors!(fn $operator: $scope);)*
        }
    };
    ($place:ident<E, P>: $scope:ty, $($operator:ident)*) => {
        impl<E, P: Place> $place<E, P> {
            $($crate::language::field::outside_closure_errors!(fn $operator: $scope);)*
        }
    };
    (fn $operator:ident: $scope:ty) => {
        #[doc(hidden)]
        pub fn $operator<V>(&self, _: V) -> Filter<$scope>
        where
            P: OutsideClosure,
        {
            Filter::all()
        }
    };
}
pub(crate) use outside_closure_errors;
outside_closure_errors!(InVariant<P, S>: P::Scope);

/// The fields of a struct beside the tag of an enum: an internally tagged newtype variant.
///
/// No path holds the struct alone, so the struct cannot be compared or set, but its fields can.
#[derive(Debug)]
pub struct FieldsBesideTag<F>(F);

impl<F: FromPath> FromPath for FieldsBesideTag<F> {
    fn from_path(path: Path) -> Self {
        Self(F::from_path(path.beside_tag()))
    }
}

impl<F> Deref for FieldsBesideTag<F> {
    type Target = F;
    fn deref(&self) -> &F {
        &self.0
    }
}

/// Results that a closure about a variant may return where the place of the enum has the shape `S`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a condition on a variant must be met by one and the same element",
    label = "inside an array",
    note = "in a filter, select one element: `p.payments().any(|payment| payment.card(|c| …))`; in an update, name it: \
         `p.payments().at(i).card(|c| c.number())`"
)]
pub trait AllowedAt<S> {}
#[diagnostic::do_not_recommend]
impl AllowedAt<shape::One> for closure_result::Condition {}
#[diagnostic::do_not_recommend]
impl AllowedAt<shape::One> for closure_result::Location {}
// A join reads every element; an update requires a different shape.
#[diagnostic::do_not_recommend]
impl AllowedAt<shape::Many> for closure_result::Location {}

/// The enums in a document: their paths and variants.
///
/// A save compares these, so that a change of the variant never mixes fields of two variants.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct VariantMap {
    path: String,
    found: HashMap<String, Option<Tag>>,
    /// The stored names of all variants of a document that is an enum.
    known: Vec<&'static str>,
    /// The references in the document, if requested.
    references: Option<Vec<FoundReference>>,
}

/// A reference in a document, with its path.
#[derive(Debug)]
pub(crate) struct FoundReference {
    pub(crate) path: String,
    pub(crate) to: &'static Model,
    pub(crate) id: RawBson,
}

impl VariantMap {
    /// Returns the references in a document.
    pub(crate) fn references_in<T: Document>(document: &T) -> Vec<FoundReference> {
        let mut variants = Self {
            references: Some(Vec::new()),
            ..Self::default()
        };
        document.variants(&mut variants);
        variants.references.unwrap_or_default()
    }

    /// Records a reference.
    pub(crate) fn add_reference<T: Document>(&mut self, id: &T::Id) {
        if let Some(references) = &mut self.references
            && let Ok(id) = encode_value(id)
        {
            references.push(FoundReference {
                path: self.path.clone(),
                to: &T::MODEL,
                id,
            });
        }
    }

    /// Visits a field.
    pub fn field(&mut self, name: &str, visit: impl FnOnce(&mut Self)) {
        let before = self.path.len();
        if before > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        visit(self);
        self.path.truncate(before);
    }

    /// Visits an element of an array.
    pub fn element(&mut self, index: usize, visit: impl FnOnce(&mut Self)) {
        self.field(&index.to_string(), visit);
    }

    /// Records the variant of a value.
    pub fn variant(&mut self, tag: Tag) {
        self.found.insert(self.path.clone(), Some(tag));
    }

    /// Records an enum or a set that a save writes as a whole.
    pub fn whole(&mut self) {
        self.found.insert(self.path.clone(), None);
    }

    /// Records the stored names that a variant of the document has.
    pub fn known(&mut self, fields: &'static [(&'static str, &'static str)]) {
        self.known.extend(fields.iter().map(|(_, stored)| stored));
    }

    /// Returns the stored names of all variants of the document.
    pub(crate) fn known_names(&self) -> &[&'static str] {
        &self.known
    }

    /// Returns the enum at a path, if any. The inner `None` is an enum or a set that a save writes as a whole.
    pub(crate) fn enum_at(&self, path: &str) -> Option<Option<Tag>> {
        self.found.get(path).copied()
    }
}
