//! The types of values that update operators accept.

use std::collections::{BTreeSet, HashSet};

use bson::{Decimal128, RawBson};

use crate::{
    Result,
    language::query::encode_value,
    model::document::{Overflow, Stored},
};

/// Numbers that `inc` and `mul` can change by a `V`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be incremented or multiplied by `{V}`",
    label = "expected a number of the same type"
)]
pub trait Increment<V>: Stored {
    /// Encodes the amount as stored.
    ///
    /// # Errors
    ///
    /// [`Encode`](crate::ErrorKind::Encode) for a number beyond BSON's integers.
    fn encode_amount(amount: V) -> Result<RawBson>;

    /// Returns the stored numbers for which the operation leaves the range of the type, or `None` if no number does.
    #[doc(hidden)]
    fn out_of_range(operation: Arithmetic, amount: &V) -> Option<OutOfRange> {
        let _ = (operation, amount);
        None
    }
}

/// An arithmetic update operator.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// `$inc`.
    Add,
    /// `$mul`.
    Multiply,
}

/// The stored numbers for which an operation leaves the range of the type.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct OutOfRange {
    /// Numbers below this bound.
    pub less_than: Option<RawBson>,
    /// Numbers above this bound.
    pub greater_than: Option<RawBson>,
    /// A missing number, which counts as 0.
    pub missing: bool,
    /// Whether every backend itself refuses a result outside the range.
    pub is_checked_by_backend: bool,
    /// The name and the range of the type, for error messages.
    pub of: &'static str,
}

/// The range of an integer type, as far as BSON can store the type.
#[derive(Debug, Clone, Copy)]
pub(super) struct IntegerRange {
    pub(super) low: i64,
    pub(super) high: i64,
    pub(super) type_label: &'static str,
}

impl IntegerRange {
    pub(super) fn out_of_range_by(self, operation: Arithmetic, amount: i128) -> Option<OutOfRange> {
        let (low, high) = (i128::from(self.low), i128::from(self.high));
        // `least` and `greatest` bound the numbers that stay in the range. `from_missing` is the result for a missing number.
        let (least, greatest, from_missing) = match operation {
            Arithmetic::Add => (low - amount, high - amount, amount),
            Arithmetic::Multiply if amount == 0 => return None,
            Arithmetic::Multiply if amount > 0 => (low / amount, high / amount, 0),
            Arithmetic::Multiply => (high / amount, low / amount, 0),
        };
        // A stored number is never beyond the ends of an `i64`, so clamp the bound.
        let end = |bound: i128| {
            let bound = bound.clamp(i64::MIN.into(), i64::MAX.into());
            i64::try_from(bound).ok().map(RawBson::Int64)
        };
        let out = OutOfRange {
            less_than: end(least).filter(|_| least > low),
            greater_than: end(greatest).filter(|_| greatest < high),
            missing: !(low..=high).contains(&from_missing),
            is_checked_by_backend: (self.low, self.high) == (i64::MIN, i64::MAX),
            of: self.type_label,
        };
        let is_any = out.less_than.is_some() || out.greater_than.is_some() || out.missing;
        is_any.then_some(out)
    }
}

macro_rules! numbers {
    ($($number:ty, $amount:ty;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl Increment<$amount> for $number {
            fn encode_amount(amount: $amount) -> Result<RawBson> {
                encode_value(&amount)
            }
        }
        #[diagnostic::do_not_recommend]
        impl Increment<$amount> for Option<$number> {
            fn encode_amount(amount: $amount) -> Result<RawBson> {
                encode_value(&amount)
            }
        }
    )*};
}
numbers! {
    f32, f32;
    f64, f64;
    Decimal128, Decimal128;
}

macro_rules! integers {
    ($($number:ty, $amount:ty, $type_label:literal: $low:expr, $high:expr;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl Increment<$amount> for $number {
            fn encode_amount(amount: $amount) -> Result<RawBson> {
                encode_value(&amount)
            }

            fn out_of_range(operation: Arithmetic, amount: &$amount) -> Option<OutOfRange> {
                const RANGE: IntegerRange = IntegerRange { low: $low, high: $high, type_label: $type_label };
                RANGE.out_of_range_by(operation, i128::from(*amount))
            }
        }
        #[diagnostic::do_not_recommend]
        impl Increment<$amount> for Option<$number> {
            fn encode_amount(amount: $amount) -> Result<RawBson> {
                encode_value(&amount)
            }

            fn out_of_range(operation: Arithmetic, amount: &$amount) -> Option<OutOfRange> {
                <$number as Increment<$amount>>::out_of_range(operation, amount)
            }
        }
    )*};
}
integers! {
    i8, i8, "`i8`, -128 to 127": i8::MIN as i64, i8::MAX as i64;
    i16, i16, "`i16`, -32768 to 32767": i16::MIN as i64, i16::MAX as i64;
    i32, i32, "`i32`, -2147483648 to 2147483647": i32::MIN as i64, i32::MAX as i64;
    i64, i64, "`i64`, -9223372036854775808 to 9223372036854775807": i64::MIN, i64::MAX;
    u8, u8, "`u8`, 0 to 255": 0, u8::MAX as i64;
    u16, u16, "`u16`, 0 to 65535": 0, u16::MAX as i64;
    // The amount of an unsigned type is signed, so that `inc` can subtract.
    u32, i64, "`u32`, 0 to 4294967295": 0, u32::MAX as i64;
    u64, i64, "`u64`, which BSON stores from 0 to 9223372036854775807": 0, i64::MAX;
}

/// Arrays and sets with elements that an update can add and remove.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an array that can grow or shrink",
    label = "has no elements to add or to remove",
    note = "such an array is a `Vec`, a `BTreeSet` or a `HashSet`; use `set` to change a single value, or an element of a `[T; N]`"
)]
pub trait ArrayValue: Stored {
    /// The type of the elements.
    type Item: Stored;
}

/// Arrays with an end to append to, which can have equal elements: no sets.
#[diagnostic::on_unimplemented(
    message = "cannot append to a `{Self}`",
    label = "not a `Vec`",
    note = "use `add_to_set` for a `BTreeSet` or a `HashSet`, and `set` to change a single value, or an element of a `[T; N]`"
)]
pub trait Appendable: ArrayValue {}

/// Arrays with all elements in the document, which have an order and a last element.
#[diagnostic::on_unimplemented(
    message = "the elements of `{Self}` have no first and last one in the document",
    label = "cannot be sorted, and has no ends to pop",
    note = "an overflow array supports a push at the end, and a pull by values and conditions; a set supports `add_to_set` and \
         `pull`"
)]
pub trait ResidentArray: Appendable {}

macro_rules! arrays {
    ($([$($parameters:tt)*] $array:ty: $($property:ident)*;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<T: Stored, $($parameters)*> ArrayValue for $array
        where
            $array: Stored,
        {
            type Item = T;
        }
        $(
            #[diagnostic::do_not_recommend]
            impl<T: Stored> $property for $array {}
        )*
    )*};
}
arrays! {
    [] Vec<T>: Appendable ResidentArray;
    [] Overflow<T>: Appendable;
    [] BTreeSet<T>:;
    [H: 'static] HashSet<T, H>:;
}

#[diagnostic::do_not_recommend]
impl<L: ArrayValue> ArrayValue for Option<L> {
    type Item = L::Item;
}

#[diagnostic::do_not_recommend]
impl<L: Appendable> Appendable for Option<L> {}

#[diagnostic::do_not_recommend]
impl<L: ResidentArray> ResidentArray for Option<L> {}

/// Types of fields that can be missing.
#[diagnostic::on_unimplemented(
    message = "a `{Self}` field cannot be removed",
    label = "the document could not be read without this field",
    note = "make the field an `Option`, or set another value"
)]
pub trait OptionalValue: Stored {}

#[diagnostic::do_not_recommend]
impl<T: Stored> OptionalValue for Option<T> {}
