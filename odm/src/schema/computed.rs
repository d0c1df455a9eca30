//! Computed fields as plain data, and the compile-time checks of their types.

pub(crate) mod evaluate;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bson::Decimal128;

use crate::{
    language::field::{AlwaysStored, Elem, FromPath, Path, Place, role, shape},
    metadata::rollup::{ENTRY_SORT_VALUE, STATE_COUNT, STATE_SUM, rollup_state_path},
    model::document::Stored,
};

/// A field that is computed from other fields of its document.
#[derive(Debug, Clone, Copy)]
pub struct ComputedField {
    /// The Rust name of the field.
    pub field: &'static str,
    /// The stored name of the field.
    pub stored: &'static str,
    /// Returns the computation of the field.
    pub computation: fn() -> Computation,
}

/// The computation of a value.
#[derive(Debug, Clone)]
pub struct Computation {
    pub(crate) kind: ComputationKind,
    pub(crate) term: Term,
}

impl Computation {
    /// Creates the computation of an average from the state of the rollup. The average of no values is null.
    #[must_use]
    pub fn average(stored: &str) -> Self {
        let part = |name| Term::Value(format!("{}.{name}", rollup_state_path(stored)));
        let average = part(STATE_SUM).divided_by(part(STATE_COUNT));
        Self {
            kind: ComputationKind::Float,
            term: average.or_if_zero_divisor(Term::Null),
        }
    }

    /// Creates the computation of a minimum or maximum from the state of the rollup. Without children, the value is null.
    #[must_use]
    pub fn extreme(stored: &str) -> Self {
        let list = rollup_state_path(stored);
        Self {
            kind: ComputationKind::Stored,
            term: Term::First(list, ENTRY_SORT_VALUE.to_owned()),
        }
    }

    /// Creates the computation of a field with the type `R`.
    #[must_use]
    pub fn from_term<R: ComputedValue>(term: Term) -> Self {
        Self {
            kind: R::KIND,
            term,
        }
    }

    /// Returns the places that the computation reads.
    pub(crate) fn list_inputs(&self) -> Vec<ComputedInput> {
        let mut inputs = Vec::new();
        self.term.collect_inputs("", &mut inputs);
        inputs
    }
}

/// A place that a computation reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ComputedInput {
    /// A value at a dotted stored path.
    Value(String),
    /// The number of elements or keys at a dotted stored path.
    Len(String),
}

impl ComputedInput {
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Value(path) | Self::Len(path) => path,
        }
    }
}

/// The type of a computation: that of the computed field.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComputationKind {
    /// An int64. A result outside its range is an error.
    Whole,
    /// A double.
    Float,
    /// A decimal with 34 digits.
    #[cfg(feature = "engine")]
    Decimal,
    /// A text.
    Text,
    /// A value as another field stores it.
    Stored,
}

/// A term of a computation.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub enum Term {
    Whole(i64),
    Float(f64),
    Text(String),
    Null,
    /// The value at a place of the document. A missing number counts as 0, and a missing text as empty.
    Value(String),
    /// The number at a place of an array element. An empty place is the element itself.
    ElementValue(String),
    /// The number of elements of an array, or of keys of a map.
    Len(String),
    Add(Box<[Term; 2]>),
    Subtract(Box<[Term; 2]>),
    Multiply(Box<[Term; 2]>),
    /// A quotient. Without a value if the divisor is 0.
    Divide(Box<[Term; 2]>),
    /// The first term or, if a divisor in this term is 0, the second term.
    IfZeroDivisor(Box<[Term; 2]>),
    /// The sum of a term over the elements of an array.
    Sum(String, Box<Term>),
    /// A text with the letters A to Z in lower case.
    Lower(Box<Term>),
    /// A text without white space at both ends.
    Trim(Box<Term>),
    /// The texts in sequence.
    Concat(Vec<Term>),
    /// The value at a place of the first element of an array, or null.
    First(String, String),
}

/// The characters that [`Term::Trim`] removes: the white space of Unicode, as `str::trim` does.
pub(crate) const WHITE_SPACE: &str = "\t\n\u{b}\u{c}\r \u{85}\u{a0}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\u{2005}\u{2006}\u{2007}\u{2008}\u{2009}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}";

impl Term {
    /// Returns the term for a number of the document.
    #[must_use]
    pub fn value(place: impl Place) -> Self {
        Self::Value(place.path().to_string())
    }

    /// Returns the term for a number of an array element.
    #[must_use]
    pub fn element_value(place: impl Place) -> Self {
        Self::ElementValue(place.path().to_string())
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

    #[must_use]
    pub fn divided_by(self, divisor: Self) -> Self {
        Self::Divide(Box::new([self, divisor]))
    }

    /// Returns this term, with another value if a divisor is 0.
    #[must_use]
    pub fn or_if_zero_divisor(self, default: Self) -> Self {
        Self::IfZeroDivisor(Box::new([self, default]))
    }

    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    #[must_use]
    pub fn lower(self) -> Self {
        Self::Lower(Box::new(self))
    }

    #[must_use]
    pub fn trim(self) -> Self {
        Self::Trim(Box::new(self))
    }

    /// Returns the sum of this term over the elements of an array.
    #[must_use]
    pub fn sum_over(self, array: impl Place) -> Self {
        Self::Sum(array.path().to_string(), Box::new(self))
    }

    fn collect_inputs(&self, array: &str, inputs: &mut Vec<ComputedInput>) {
        match self {
            Self::Whole(_) | Self::Float(_) | Self::Text(_) | Self::Null => {}
            Self::Value(place) | Self::First(place, _) => {
                inputs.push(ComputedInput::Value(place.clone()))
            }
            Self::Len(place) => inputs.push(ComputedInput::Len(place.clone())),
            Self::ElementValue(place) if place.is_empty() => {
                inputs.push(ComputedInput::Value(array.to_owned()))
            }
            Self::ElementValue(place) => {
                inputs.push(ComputedInput::Value(format!("{array}.{place}")))
            }
            Self::Add(terms)
            | Self::Subtract(terms)
            | Self::Multiply(terms)
            | Self::Divide(terms)
            | Self::IfZeroDivisor(terms) => {
                terms
                    .iter()
                    .for_each(|term| term.collect_inputs(array, inputs));
            }
            Self::Concat(terms) => terms
                .iter()
                .for_each(|term| term.collect_inputs(array, inputs)),
            Self::Lower(term) | Self::Trim(term) => term.collect_inputs(array, inputs),
            Self::Sum(array, term) => term.collect_inputs(array, inputs),
        }
    }
}

/// A type that a computed field can have.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a computed field cannot be a `{Self}`",
    label = "not an `i64`, `f64`, `Decimal128` or `String`",
    note = "compute whole numbers in an `i64`, floating-point numbers in an `f64`, decimals in a `Decimal128` (with the feature `engine`), and texts in a `String`"
)]
pub trait ComputedValue {
    /// The type of the computation.
    const KIND: ComputationKind;
}
#[diagnostic::do_not_recommend]
impl ComputedValue for i64 {
    const KIND: ComputationKind = ComputationKind::Whole;
}
#[diagnostic::do_not_recommend]
impl ComputedValue for f64 {
    const KIND: ComputationKind = ComputationKind::Float;
}
// Decimal arithmetic needs the engine's decimal functions.
#[cfg(feature = "engine")]
#[diagnostic::do_not_recommend]
impl ComputedValue for Decimal128 {
    const KIND: ComputationKind = ComputationKind::Decimal;
}
#[diagnostic::do_not_recommend]
impl ComputedValue for String {
    const KIND: ComputationKind = ComputationKind::Text;
}

/// A type of computed field with arithmetic.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a computed `{Self}` has no arithmetic",
    label = "not a number",
    note = "join texts with `concat(first, \" \", last)`"
)]
pub trait NumberValue: ComputedValue {}
#[diagnostic::do_not_recommend]
impl NumberValue for i64 {}
#[diagnostic::do_not_recommend]
impl NumberValue for f64 {}
#[cfg(feature = "engine")]
#[diagnostic::do_not_recommend]
impl NumberValue for Decimal128 {}

/// A type of computed field with a division.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a computed `{Self}` cannot divide",
    label = "not an `f64`",
    note = "compute a quotient in an `f64`"
)]
pub trait QuotientValue: ComputedValue {}
#[diagnostic::do_not_recommend]
impl QuotientValue for f64 {}

/// A type of computed field with functions of texts.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a computed `{Self}` cannot use texts",
    label = "not a `String`",
    note = "`lower`, `trim`, `concat` and texts in quotes compute a `String`"
)]
pub trait TextValue: ComputedValue {}
#[diagnostic::do_not_recommend]
impl TextValue for String {}

/// Checks that a computed `R` has arithmetic. Derived code calls this function.
#[doc(hidden)]
pub fn ensure_number<R: NumberValue>() {}

/// Checks that a computed `R` can divide. Derived code calls this function.
#[doc(hidden)]
pub fn ensure_divides<R: QuotientValue>() {}

/// Checks that a computed `R` is a text. Derived code calls this function.
#[doc(hidden)]
pub fn ensure_text<R: TextValue>() {}

/// A type of value that a computed field of type `R` can use.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be used in a computed `{R}`",
    label = "wrong kind of value",
    note = "an `i64` is computed from whole numbers, an `f64` from whole numbers and `f64`, a `Decimal128` from whole numbers and `Decimal128`, a `String` from texts; a missing or null number counts as 0, and a missing or null text as empty"
)]
pub trait CountsIn<R> {}
#[diagnostic::do_not_recommend]
impl<T: CountsIn<R>, R> CountsIn<R> for Option<T> {}

macro_rules! integer_counts {
    ($($t:ty)*) => {$(
        #[diagnostic::do_not_recommend]
        impl CountsIn<i64> for $t {}
        #[diagnostic::do_not_recommend]
        impl CountsIn<f64> for $t {}
        #[diagnostic::do_not_recommend]
        impl CountsIn<Decimal128> for $t {}
    )*};
}
integer_counts!(i8 i16 i32 i64 u8 u16 u32 u64);

#[diagnostic::do_not_recommend]
impl CountsIn<f64> for f64 {}
#[diagnostic::do_not_recommend]
impl CountsIn<f64> for f32 {}
#[diagnostic::do_not_recommend]
impl CountsIn<Decimal128> for Decimal128 {}
#[diagnostic::do_not_recommend]
impl CountsIn<String> for String {}

/// A type with a length: an array or a map.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` has no length to compute with",
    label = "neither an array nor a map",
    note = "`len(…)` counts the elements of an array, or the keys of a map"
)]
pub trait HasLength {}
#[diagnostic::do_not_recommend]
impl<T> HasLength for Vec<T> {}
#[diagnostic::do_not_recommend]
impl<T> HasLength for BTreeSet<T> {}
#[diagnostic::do_not_recommend]
impl<T, S> HasLength for HashSet<T, S> {}
#[diagnostic::do_not_recommend]
impl<K, V> HasLength for BTreeMap<K, V> {}
#[diagnostic::do_not_recommend]
impl<K, V, S> HasLength for HashMap<K, V, S> {}
#[diagnostic::do_not_recommend]
impl<T: HasLength> HasLength for Option<T> {}

/// The roles of fields that a computed field can use.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a computed field cannot use a field with the role `{Self}`",
    label = "a managed field",
    note = "copies, inverses, versions and timestamps change without a write of the application: use a `#[snapshot(from = …)]`, or compute when reading"
)]
pub trait ComputedFrom {}
#[diagnostic::do_not_recommend]
impl ComputedFrom for role::Own {}
#[diagnostic::do_not_recommend]
impl ComputedFrom for role::Id {}
#[diagnostic::do_not_recommend]
impl ComputedFrom for role::IdPartField {}
#[diagnostic::do_not_recommend]
impl ComputedFrom for role::ShardKeyField {}
#[diagnostic::do_not_recommend]
impl ComputedFrom for role::SequenceKey {}
#[diagnostic::do_not_recommend]
impl ComputedFrom for role::SequenceNumber {}
#[diagnostic::do_not_recommend]
impl ComputedFrom for role::Snapshot {}
#[diagnostic::do_not_recommend]
impl ComputedFrom for role::Computed {}
#[diagnostic::do_not_recommend]
impl ComputedFrom for role::RolledUp {}

/// The shapes of fields that a computed field can use: one value, not one for each array element.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a computed field needs one value here, not one for each element of an array",
    label = "inside an array",
    note = "add the values up with `sum(lines.price)` if the array is a field of the document; for an array of arrays, compute when reading"
)]
pub trait SingleValue {}
#[diagnostic::do_not_recommend]
impl SingleValue for shape::One {}
// For a field with serde's `default`, the compiler reports the error of `AlwaysStored`.
impl<S> SingleValue for shape::Defaulted<S> where shape::SerdeDefault<S>: AlwaysStored {}

/// Checks that a computed `R` can use a value of a document or an element. Derived code calls this function.
#[doc(hidden)]
pub fn ensure_counts<R, P>(_: P)
where
    P: Place<Value: CountsIn<R>, Role: ComputedFrom, Shape: SingleValue>,
{
}

/// Checks that a computed `R` can use a number in the declaration. Derived code calls this function.
#[doc(hidden)]
pub fn ensure_literal_counts<R, L: CountsIn<R>>(_: L) {}

/// Checks that a place has a length. Derived code calls this function.
#[doc(hidden)]
pub fn ensure_length<P>(_: P)
where
    P: Place<Value: HasLength, Role: ComputedFrom, Shape: SingleValue>,
{
}

/// An array with elements to add up.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` has no elements to add up",
    label = "not an array",
    note = "`sum(lines.price)` adds up the elements of an array; to add several fields, write `sum(a, b)` or `a + b`"
)]
pub trait SummableArray {
    /// The type of the elements.
    type Item: Stored;
}
#[diagnostic::do_not_recommend]
impl<T: Stored> SummableArray for Vec<T> {
    type Item = T;
}
#[diagnostic::do_not_recommend]
impl<T: SummableArray> SummableArray for Option<T> {
    type Item = T::Item;
}

/// The fields of an element in the array at the place `P`.
#[doc(hidden)]
pub type FieldsOfElement<P> = <<<P as Place>::Value as SummableArray>::Item as Stored>::Fields<
    Elem<<P as Place>::Scope>,
    <P as Place>::Role,
    shape::One,
>;

/// Returns the fields of an array element. Derived code calls this function.
#[doc(hidden)]
#[must_use]
pub fn element_fields_at<P>(_: P) -> FieldsOfElement<P>
where
    P: Place<Scope: 'static, Role: 'static, Value: SummableArray>,
{
    FromPath::from_path(Path::ROOT)
}
