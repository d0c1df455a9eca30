//! Fields that are computed from others of their document, as plain data, and the proof that their types fit.

use std::collections::{BTreeMap, HashMap};

use bson::Decimal128;

use crate::{
    document::Stored,
    field::{AlwaysStored, Elem, FromPath, Path, Place, role, shape},
};

/// A field that is computed from others of its document.
#[derive(Debug, Clone, Copy)]
pub struct ComputedField {
    /// The field in Rust.
    pub field: &'static str,
    /// The field as it is stored.
    pub stored: &'static str,
    /// How it is computed.
    pub computation: fn() -> Computation,
}

/// How a value is computed.
#[derive(Debug, Clone)]
pub struct Computation {
    pub(crate) kind: Kind,
    pub(crate) term: Term,
}

impl Computation {
    /// That of a field with the type `R`.
    #[must_use]
    pub fn of<R: Computed>(term: Term) -> Self {
        Self {
            kind: R::KIND,
            term,
        }
    }

    /// The places that it looks at.
    pub(crate) fn inputs(&self) -> Vec<Input> {
        let mut found = Vec::new();
        self.term.inputs("", &mut found);
        found
    }
}

/// A place that a computation looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// What is there: stored names with dots.
    Number(String),
    /// How many elements or keys are there.
    Len(String),
}

impl Input {
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Number(path) | Self::Len(path) => path,
        }
    }
}

/// In which numbers a value is computed: those of the field that holds it.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An int64. What is beyond it is an error.
    Whole,
    /// A double.
    Float,
    /// A decimal with 34 digits.
    #[cfg(feature = "engine")]
    Decimal,
}

/// A part of what is computed.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub enum Term {
    Whole(i64),
    Float(f64),
    /// The number at a place of the document; nothing if there is none.
    Value(String),
    /// The number at a place of an element; that of the element itself if it is empty.
    Inside(String),
    /// How many elements an array has, or keys a map.
    Len(String),
    Add(Box<[Term; 2]>),
    Subtract(Box<[Term; 2]>),
    Multiply(Box<[Term; 2]>),
    /// The sum over the elements of an array.
    Sum(String, Box<Term>),
}

impl Term {
    /// A number of the document.
    #[must_use]
    pub fn value(place: impl Place) -> Self {
        Self::Value(place.path().to_string())
    }

    /// A number of an element.
    #[must_use]
    pub fn inside(place: impl Place) -> Self {
        Self::Inside(place.path().to_string())
    }

    #[must_use]
    pub fn len(place: impl Place) -> Self {
        Self::Len(place.path().to_string())
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self::Add(Box::new([self, other]))
    }

    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self::Subtract(Box::new([self, other]))
    }

    #[must_use]
    pub fn times(self, other: Self) -> Self {
        Self::Multiply(Box::new([self, other]))
    }

    /// The sum of this over the elements of an array.
    #[must_use]
    pub fn over(self, array: impl Place) -> Self {
        Self::Sum(array.path().to_string(), Box::new(self))
    }

    fn inputs(&self, array: &str, found: &mut Vec<Input>) {
        match self {
            Self::Whole(_) | Self::Float(_) => {}
            Self::Value(place) => found.push(Input::Number(place.clone())),
            Self::Len(place) => found.push(Input::Len(place.clone())),
            Self::Inside(place) if place.is_empty() => found.push(Input::Number(array.to_owned())),
            Self::Inside(place) => found.push(Input::Number(format!("{array}.{place}"))),
            Self::Add(both) | Self::Subtract(both) | Self::Multiply(both) => {
                both.iter().for_each(|term| term.inputs(array, found));
            }
            Self::Sum(array, each) => each.inputs(array, found),
        }
    }
}

/// The types of computed fields.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a computed field is no `{Self}`",
    label = "not an `i64`, `f64` or `Decimal128`",
    note = "whole numbers are added up in an `i64`, where a sum of many has room, others in an `f64`, and decimals in a `Decimal128` (with the feature `engine`)"
)]
pub trait Computed {
    /// In which numbers it is computed.
    const KIND: Kind;
}
#[diagnostic::do_not_recommend]
impl Computed for i64 {
    const KIND: Kind = Kind::Whole;
}
#[diagnostic::do_not_recommend]
impl Computed for f64 {
    const KIND: Kind = Kind::Float;
}
// The arithmetic of decimals is the engine's.
#[cfg(feature = "engine")]
#[diagnostic::do_not_recommend]
impl Computed for Decimal128 {
    const KIND: Kind = Kind::Decimal;
}

/// What counts in a field of type `R`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` does not count in a computed `{R}`",
    label = "no number of this kind",
    note = "in an `i64` count whole numbers, in an `f64` these and `f64`, in a `Decimal128` whole numbers and `Decimal128`; one that is missing or null counts as 0"
)]
pub trait CountsIn<R> {}
#[diagnostic::do_not_recommend]
impl<T: CountsIn<R>, R> CountsIn<R> for Option<T> {}

macro_rules! whole {
    ($($t:ty)*) => {$(
        #[diagnostic::do_not_recommend]
        impl CountsIn<i64> for $t {}
        #[diagnostic::do_not_recommend]
        impl CountsIn<f64> for $t {}
        #[diagnostic::do_not_recommend]
        impl CountsIn<Decimal128> for $t {}
    )*};
}
whole!(i8 i16 i32 i64 u8 u16 u32 u64);

#[diagnostic::do_not_recommend]
impl CountsIn<f64> for f64 {}
#[diagnostic::do_not_recommend]
impl CountsIn<f64> for f32 {}
#[diagnostic::do_not_recommend]
impl CountsIn<Decimal128> for Decimal128 {}

/// What has a length.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` has no length to compute with",
    label = "no array and no map",
    note = "`len(…)` counts the elements of an array, or the keys of a map"
)]
pub trait HasLength {}
#[diagnostic::do_not_recommend]
impl<T> HasLength for Vec<T> {}
#[diagnostic::do_not_recommend]
impl<K, V> HasLength for BTreeMap<K, V> {}
#[diagnostic::do_not_recommend]
impl<K, V, S> HasLength for HashMap<K, V, S> {}
#[diagnostic::do_not_recommend]
impl<T: HasLength> HasLength for Option<T> {}

/// The roles of what can be computed with.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "nothing is computed from a field with the role `{Self}`",
    label = "the framework writes it by itself",
    note = "a copy of another document, the inverse of a link, a version and a timestamp change with other writes than those of the application: take a `#[snapshot(from = …)]`, or compute when reading"
)]
pub trait ComputedFrom {}
#[diagnostic::do_not_recommend]
impl ComputedFrom for role::Own {}
#[diagnostic::do_not_recommend]
impl ComputedFrom for role::Id {}
#[diagnostic::do_not_recommend]
impl ComputedFrom for role::IdPart {}
#[diagnostic::do_not_recommend]
impl ComputedFrom for role::ShardKey {}
#[diagnostic::do_not_recommend]
impl ComputedFrom for role::Snapshot {}
#[diagnostic::do_not_recommend]
impl ComputedFrom for role::Computed {}

/// The shapes of what can be computed with.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "one value is computed with, not one for each element of an array",
    label = "inside of an array",
    note = "add them up, where the array is a field of the document: `sum(lines.price)`; in an array of arrays, compute when reading"
)]
pub trait OneValue {}
#[diagnostic::do_not_recommend]
impl OneValue for shape::One {}
// The error of a field with serde's `default` is that of `AlwaysStored`.
impl<S> OneValue for shape::Defaulted<S> where shape::SerdeDefault<S>: AlwaysStored {}

/// A number of a document or an element counts in an `R`; called by derived code.
#[doc(hidden)]
pub fn counts<R, P>(_: P)
where
    P: Place<Value: CountsIn<R>, Role: ComputedFrom, Shape: OneValue>,
{
}

/// A number in the declaration counts in an `R`; called by derived code.
#[doc(hidden)]
pub fn literal_counts<R, L: CountsIn<R>>(_: L) {}

/// A place has a length; called by derived code.
#[doc(hidden)]
pub fn has_length<P>(_: P)
where
    P: Place<Value: HasLength, Role: ComputedFrom, Shape: OneValue>,
{
}

/// What has elements to add up.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` has no elements to add up",
    label = "no array",
    note = "`sum(lines.price)` is over the elements of an array; several fields are added by `sum(a, b)` or `a + b`"
)]
pub trait Elements {
    /// The type of the elements.
    type Item: Stored;
}
#[diagnostic::do_not_recommend]
impl<T: Stored> Elements for Vec<T> {
    type Item = T;
}
#[diagnostic::do_not_recommend]
impl<T: Elements> Elements for Option<T> {
    type Item = T::Item;
}

/// What is in an element of an array.
#[doc(hidden)]
pub type InElement<P> = <<<P as Place>::Value as Elements>::Item as Stored>::Fields<
    Elem<<P as Place>::Scope>,
    <P as Place>::Role,
    shape::One,
>;

/// The fields of an element of an array; called by derived code.
#[doc(hidden)]
#[must_use]
pub fn element<P>(_: P) -> InElement<P>
where
    P: Place<Scope: 'static, Role: 'static, Value: Elements>,
{
    FromPath::from_path(Path::ROOT)
}
