//! Enums: which variant a value is of, and the fields of one variant.

use std::{collections::HashMap, marker::PhantomData, ops::Deref};

use super::{FromPath, Path, Place, shape};
use bson::{RawBson, RawBsonRef};

use crate::{
    document::Document,
    query::{Filter, Node, encode},
    schema::Model,
};

/// How a stored value says of which variant it is.
///
/// It follows from serde's representation of the enum; derived code makes it.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub enum Tag {
    /// The value is this text: a unit variant of an externally tagged enum.
    Text(&'static str),
    /// The value is a document of this field: any other variant of an externally tagged enum.
    Key(&'static str),
    /// A field of the value, by its name, holds this text.
    Field(&'static str, &'static str),
    /// A field of the value holds none of these texts: serde's `other`.
    Other(&'static str, &'static [&'static str]),
}

impl Tag {
    /// The condition that the value at `path` is of the variant.
    pub(crate) fn condition(self, path: &Path) -> Node {
        Node::Variant(path.clone(), self)
    }

    /// The condition, as a filter.
    pub fn filter<M>(self, path: &Path) -> Filter<M> {
        Filter::from_node(self.condition(path))
    }

    /// Whether a stored value is of the variant.
    pub(crate) fn is_of(self, value: RawBsonRef<'_>) -> bool {
        let field = |name| value.as_document().and_then(|of| of.get(name).ok()?);
        let text = |name| field(name).and_then(|tag: RawBsonRef<'_>| tag.as_str());
        match self {
            Self::Text(text) => value.as_str() == Some(text),
            Self::Key(name) => field(name).is_some(),
            Self::Field(name, of) => text(name) == Some(of),
            Self::Other(name, known) => {
                field(name).is_some() && text(name).is_none_or(|tag| !known.contains(&tag))
            }
        }
    }

    /// The field of the value that says it, if that is not the one that leads into the variant.
    pub(crate) fn field(self) -> Option<&'static str> {
        match self {
            Self::Text(_) | Self::Key(_) => None,
            Self::Field(name, _) | Self::Other(name, _) => Some(name),
        }
    }

    /// What is said of the variant: of its fields, whose tree `inside` makes.
    pub fn within<M, S, F, X: OfVariant<M, S>>(
        self,
        path: &Path,
        inside: impl FnOnce(Path) -> F,
        say: impl FnOnce(F) -> X,
    ) -> X::Out {
        let condition = self.condition(path);
        let fields = inside(path.only_where(condition.clone()));
        say(fields).of_variant(Filter::from_node(condition))
    }
}

/// What a closure about a variant may return: a condition, which then holds only for values of the variant, a place to
/// update, which is written only in documents whose value is of the variant, or a reference to join, which is there only
/// in those.
///
/// `S` is the shape of the place that holds the enum.
#[diagnostic::on_unimplemented(
    message = "expected a condition on `{M}` or a field to update or to join, got `{Self}`",
    label = "cannot be said of one variant",
    note = "in a filter, say a condition on the variant's fields: `p.payment().card(|c| c.number().eq(\"1\"))`; in an update and in a join, name one of its fields: `p.payment().card(|c| c.number())`; there is no order by the field of a variant, as others do not have it; and what is stored beside the tag is not set alone, but with the enum as a whole"
)]
pub trait OfVariant<M, S = shape::One> {
    /// The same, of the variant alone.
    type Out;
    /// What it is: one of [`said`].
    #[doc(hidden)]
    type Says;
    /// Says it of values that meet the condition alone.
    #[doc(hidden)]
    fn of_variant(self, condition: Filter<M>) -> Self::Out;
}

/// What is said of a variant.
#[doc(hidden)]
pub mod said {
    /// A condition, which one and the same value must meet.
    #[derive(Debug)]
    pub struct Condition;
    /// A place, which any value may have.
    #[derive(Debug)]
    pub struct Somewhere;
}

#[diagnostic::do_not_recommend]
impl<M, S> OfVariant<M, S> for Filter<M> {
    type Out = Self;
    type Says = said::Condition;
    fn of_variant(self, condition: Self) -> Self {
        condition & self
    }
}

#[diagnostic::do_not_recommend]
impl<M, S> OfVariant<M, S> for Option<Filter<M>> {
    type Out = Filter<M>;
    type Says = said::Condition;
    fn of_variant(self, condition: Filter<M>) -> Filter<M> {
        match self {
            Some(filter) => condition & filter,
            None => condition,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<P: Place, S> OfVariant<P::Scope, S> for P {
    type Out = Within<P, S>;
    type Says = said::Somewhere;
    /// The path has the condition already.
    fn of_variant(self, _: Filter<P::Scope>) -> Within<P, S> {
        Within(self, PhantomData)
    }
}

/// A place inside of a variant, for an update, which then is conditional: it applies to documents whose value is of the
/// variant; or for a join, which gives nothing for the others.
///
/// It has no conditions of its own: they are said inside of the closure. `S` is the shape of the place that holds the enum.
#[derive(Debug)]
pub struct Within<P, S = shape::One>(P, PhantomData<fn() -> S>);

#[diagnostic::do_not_recommend]
impl<P: Place, S> Place for Within<P, S> {
    type Scope = P::Scope;
    type Value = P::Value;
    type Role = P::Role;
    type Shape = P::Shape;
    fn path(&self) -> Path {
        self.0.path()
    }
}

/// What is never so: for a message.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a condition on the field of a variant is said inside of the closure",
    label = "outside of the closure, the variant is not known",
    note = "`p.payment().card(|c| c.number().eq(\"1\"))`"
)]
pub trait SaidOutside {}

/// Operators that are looked for here, some of which `Iterator` has too.
macro_rules! said_outside {
    ($place:ident<$($param:ident),+>: $scope:ty) => {
        $crate::field::said_outside! {
            $place<$($param),+>: $scope, eq ne gt gte lt lte is_in not_in contains starts_with
        }
    };
    ($place:ident<P, S>: $scope:ty, $($operator:ident)*) => {
        impl<P: Place, S> $place<P, S> {
            $($crate::field::said_outside!(fn $operator: $scope);)*
        }
    };
    ($place:ident<E, P>: $scope:ty, $($operator:ident)*) => {
        impl<E, P: Place> $place<E, P> {
            $($crate::field::said_outside!(fn $operator: $scope);)*
        }
    };
    (fn $operator:ident: $scope:ty) => {
        #[doc(hidden)]
        pub fn $operator<V>(&self, _: V) -> Filter<$scope>
        where
            P: SaidOutside,
        {
            Filter::all()
        }
    };
}
pub(crate) use said_outside;
said_outside!(Within<P, S>: P::Scope);

/// The fields of a struct that are stored beside the tag of an enum: an internally tagged newtype variant.
///
/// There is no place that holds the struct alone, so it cannot be compared or set; its fields can.
#[derive(Debug)]
pub struct Beside<F>(F);

impl<F: FromPath> FromPath for Beside<F> {
    fn from_path(path: Path) -> Self {
        Self(F::from_path(path.beside_tag()))
    }
}

impl<F> Deref for Beside<F> {
    type Target = F;
    fn deref(&self) -> &F {
        &self.0
    }
}

/// What can be said of a variant where the enum's place has the shape `S`: one of [`said`].
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "which element is of the variant? It is one and the same that must meet the condition",
    label = "leads into an array",
    note = "in a filter, ask for one element: `p.payments().any(|payment| payment.card(|c| …))`; in an update, name it: `p.payments().at(i).card(|c| c.number())`"
)]
pub trait SaidAt<S> {}
#[diagnostic::do_not_recommend]
impl SaidAt<shape::One> for said::Condition {}
#[diagnostic::do_not_recommend]
impl SaidAt<shape::One> for said::Somewhere {}
// A join looks at every element; an update asks for another shape.
#[diagnostic::do_not_recommend]
impl SaidAt<shape::Many> for said::Somewhere {}

/// What a document holds of enums: where one is, and how it says of which variant it is.
///
/// A save needs it, so that what was changed in one variant is never mixed with another.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Variants {
    path: String,
    found: HashMap<String, Option<Tag>>,
    /// The stored names that any variant of the document itself knows.
    known: Vec<&'static str>,
    /// The references, if they are looked for.
    references: Option<Vec<Referring>>,
}

/// A reference that stands in a document.
#[derive(Debug)]
pub(crate) struct Referring {
    pub(crate) path: String,
    pub(crate) to: &'static Model,
    pub(crate) id: RawBson,
}

impl Variants {
    /// The references in a document that was read.
    pub(crate) fn references<T: Document>(document: &T) -> Vec<Referring> {
        let mut found = Self {
            references: Some(Vec::new()),
            ..Self::default()
        };
        document.variants(&mut found);
        found.references.unwrap_or_default()
    }

    /// Here is a reference.
    pub(crate) fn reference<T: Document>(&mut self, id: &T::Id) {
        if let Some(references) = &mut self.references
            && let Ok(id) = encode(id)
        {
            references.push(Referring {
                path: self.path.clone(),
                to: &T::MODEL,
                id,
            });
        }
    }

    /// Looks into a field.
    pub fn field(&mut self, name: &str, look: impl FnOnce(&mut Self)) {
        let before = self.path.len();
        if before > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        look(self);
        self.path.truncate(before);
    }

    /// Looks at an element of an array.
    pub fn element(&mut self, index: usize, look: impl FnOnce(&mut Self)) {
        self.field(&index.to_string(), look);
    }

    /// Here is a value of this variant.
    pub fn variant(&mut self, tag: Tag) {
        self.found.insert(self.path.clone(), Some(tag));
    }

    /// Here is an enum that is written as a whole.
    pub fn whole(&mut self) {
        self.found.insert(self.path.clone(), None);
    }

    /// The document itself is of one of several variants, and one of them knows these fields.
    pub fn known(&mut self, fields: &'static [(&'static str, &'static str)]) {
        self.known.extend(fields.iter().map(|(_, stored)| stored));
    }

    /// The stored names that a variant of the document knows.
    pub(crate) fn all_known(&self) -> &[&'static str] {
        &self.known
    }

    /// The enum at a path, if there is one.
    pub(crate) fn at(&self, path: &str) -> Option<Option<Tag>> {
        self.found.get(path).copied()
    }
}
