//! What kinds of values an update can change, and by what.

use bson::{Decimal128, RawBson};

use crate::{
    Result,
    document::{Overflow, Stored},
    query::encode,
};

/// Numbers that `inc` and `mul` can change by a `V`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be incremented or multiplied by `{V}`",
    label = "a number is changed by a number of its own type"
)]
pub trait Increment<V>: Stored {
    /// The amount as it is stored.
    ///
    /// # Errors
    ///
    /// [`Encode`](crate::ErrorKind::Encode) for a number beyond BSON's integers.
    fn amount(by: V) -> Result<RawBson>;

    /// The stored numbers that the operation would take out of the range of the type; none if it takes no number there.
    #[doc(hidden)]
    fn out_of_range(operation: Arithmetic, by: &V) -> Option<OutOfRange> {
        let _ = (operation, by);
        None
    }
}

/// What an update does to a number.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// `$inc`.
    Add,
    /// `$mul`.
    Multiply,
}

/// The stored numbers that an operation would take out of the range of their type.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct OutOfRange {
    /// Those below this one.
    pub less_than: Option<RawBson>,
    /// Those above this one.
    pub greater_than: Option<RawBson>,
    /// A missing number, which counts as 0.
    pub missing: bool,
    /// Whether a backend refuses to take a number there.
    pub is_checked_by_backend: bool,
    /// The type, with its range.
    pub of: &'static str,
}

/// The range of a type of integers, as far as BSON has them.
#[derive(Debug, Clone, Copy)]
pub(super) struct IntegerRange {
    pub(super) low: i64,
    pub(super) high: i64,
    pub(super) of: &'static str,
}

impl IntegerRange {
    pub(super) fn left_by(self, operation: Arithmetic, by: i128) -> Option<OutOfRange> {
        let (low, high) = (i128::from(self.low), i128::from(self.high));
        // The least and the greatest number that stay in it, and what a missing one becomes.
        let (least, greatest, from_missing) = match operation {
            Arithmetic::Add => (low - by, high - by, by),
            Arithmetic::Multiply if by == 0 => return None,
            Arithmetic::Multiply if by > 0 => (low / by, high / by, 0),
            Arithmetic::Multiply => (high / by, low / by, 0),
        };
        // No stored number is beyond the ends of an `i64`.
        let end = |bound: i128| {
            let bound = bound.clamp(i64::MIN.into(), i64::MAX.into());
            i64::try_from(bound).ok().map(RawBson::Int64)
        };
        let out = OutOfRange {
            less_than: end(least).filter(|_| least > low),
            greater_than: end(greatest).filter(|_| greatest < high),
            missing: !(low..=high).contains(&from_missing),
            is_checked_by_backend: (self.low, self.high) == (i64::MIN, i64::MAX),
            of: self.of,
        };
        let is_any = out.less_than.is_some() || out.greater_than.is_some() || out.missing;
        is_any.then_some(out)
    }
}

macro_rules! numbers {
    ($($number:ty, $by:ty;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl Increment<$by> for $number {
            fn amount(by: $by) -> Result<RawBson> {
                encode(&by)
            }
        }
        #[diagnostic::do_not_recommend]
        impl Increment<$by> for Option<$number> {
            fn amount(by: $by) -> Result<RawBson> {
                encode(&by)
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
    ($($number:ty, $by:ty, $of:literal: $low:expr, $high:expr;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl Increment<$by> for $number {
            fn amount(by: $by) -> Result<RawBson> {
                encode(&by)
            }

            fn out_of_range(operation: Arithmetic, by: &$by) -> Option<OutOfRange> {
                const RANGE: IntegerRange = IntegerRange { low: $low, high: $high, of: $of };
                RANGE.left_by(operation, i128::from(*by))
            }
        }
        #[diagnostic::do_not_recommend]
        impl Increment<$by> for Option<$number> {
            fn amount(by: $by) -> Result<RawBson> {
                encode(&by)
            }

            fn out_of_range(operation: Arithmetic, by: &$by) -> Option<OutOfRange> {
                <$number as Increment<$by>>::out_of_range(operation, by)
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
    // Something can be taken away from them, though the amount has no sign of its own.
    u32, i64, "`u32`, 0 to 4294967295": 0, u32::MAX as i64;
    u64, i64, "`u64`, which BSON stores from 0 to 9223372036854775807": 0, i64::MAX;
}

/// Arrays, to which elements are appended and from which they are taken.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no array",
    label = "has no elements to append or to remove",
    note = "an array is a `Vec`; `set` changes a single value"
)]
pub trait List: Stored {
    /// The type of the elements.
    type Item: Stored;
}

#[diagnostic::do_not_recommend]
impl<T: Stored> List for Vec<T> {
    type Item = T;
}

#[diagnostic::do_not_recommend]
impl<L: List> List for Option<L> {
    type Item = L::Item;
}

#[diagnostic::do_not_recommend]
impl<T: Stored> List for Overflow<T> {
    type Item = T;
}

/// Arrays whose elements are all in the document: they have a last one there, and an order.
#[diagnostic::on_unimplemented(
    message = "the elements of `{Self}` are not all in one document",
    label = "has no order to sort, and no ends to take from",
    note = "an array that overflows is pushed to at its end, and pulled from by values and conditions"
)]
pub trait Sequence: List {}

#[diagnostic::do_not_recommend]
impl<T: Stored> Sequence for Vec<T> {}

#[diagnostic::do_not_recommend]
impl<L: Sequence> Sequence for Option<L> {}

/// Values that may be missing.
#[diagnostic::on_unimplemented(
    message = "a `{Self}` field cannot be removed",
    label = "the document could not be read without it",
    note = "make the field an `Option`, or set it to another value"
)]
pub trait Optional: Stored {}

#[diagnostic::do_not_recommend]
impl<T: Stored> Optional for Option<T> {}
