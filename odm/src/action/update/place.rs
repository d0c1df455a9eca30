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
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl Increment<$number> for $number {
            fn amount(by: $number) -> Result<RawBson> {
                encode(&by)
            }
        }
        #[diagnostic::do_not_recommend]
        impl Increment<$number> for Option<$number> {
            fn amount(by: $number) -> Result<RawBson> {
                encode(&by)
            }
        }
    )*};
}
numbers!(i8, i16, i32, i64, u8, u16, f32, f64, Decimal128);

/// Unsigned numbers of which something can be taken away, though the amount has no sign of its own.
macro_rules! unsigned {
    ($($number:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl Increment<i64> for $number {
            fn amount(by: i64) -> Result<RawBson> {
                encode(&by)
            }
        }
        #[diagnostic::do_not_recommend]
        impl Increment<i64> for Option<$number> {
            fn amount(by: i64) -> Result<RawBson> {
                encode(&by)
            }
        }
    )*};
}
unsigned!(u32, u64);

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
