//! The types that are stored as one value, and what each can be asked.

use bson::{Binary, Bson, DateTime, Decimal128, Document, Timestamp, Uuid, oid::ObjectId};

use super::Field;
use crate::{
    document::{Stored, kind},
    projection::{Projection, Reads},
    query::Brackets,
    schema::{Closed, Schema},
};

/// What can be compared by `gt` and its like.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no order to compare by",
    label = "use `eq`, `ne`, `is_in` or `exists`"
)]
pub trait Ordered {}
#[diagnostic::do_not_recommend]
impl<T: Ordered> Ordered for Option<T> {}

/// What the elements of an array that overflows can be in the order of.
#[diagnostic::on_unimplemented(
    message = "no array is kept in the order of a `{Self}`",
    label = "numbers, `String`, dates, `ObjectId`, `Uuid`, and an `Option` of these, are what elements are ordered by",
    note = "a decimal number can be kept as a whole number of its smallest unit"
)]
pub trait Sorts: Ordered {}
#[diagnostic::do_not_recommend]
impl<T: Sorts> Sorts for Option<T> {}

/// What can be asked for prefixes and patterns.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no text",
    label = "prefixes and patterns are for `String`",
    note = "use `eq`, `is_in`, or `between` for what has an order"
)]
pub trait Text {}
#[diagnostic::do_not_recommend]
impl Text for String {}

/// What `inc`, `mul`, `min` and `max` can change by a value of its own type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no number",
    label = "only numbers can be calculated with"
)]
pub trait Numeric {}

/// What `bit_and`, `bit_or` and `bit_xor` can change.
#[diagnostic::on_unimplemented(message = "`{Self}` is no integer", label = "has no bits to change")]
pub trait Bits {}

/// What `touch` can set to the server's time.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no date",
    label = "cannot hold a time",
    note = "a date is a `DateTime` or an `Option<DateTime>`"
)]
pub trait Date {}
#[diagnostic::do_not_recommend]
impl Date for DateTime {}
#[diagnostic::do_not_recommend]
impl Date for Option<DateTime> {}

macro_rules! scalars {
    ($($t:ty $([$($bracket:ident)*])?: $($is:ident)*;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl Stored for $t {
            type Kind = kind::Value;
            type Fields<M: 'static, R: 'static, S: 'static> = Field<M, $t, R, S>;
            type ShapeWithDefault<S: 'static> = crate::field::shape::Defaulted<S>;
            type New = Self;
            $(const BRACKETS: Brackets = Brackets::NONE$(.or(Brackets::$bracket))*;)?
        }
        impl<S: Schema> Closed<S> for $t {}
        #[diagnostic::do_not_recommend]
        impl Projection for $t {
            type Of = Self;
            const READS: Reads = Reads::Whole;
        }
        $(
            #[diagnostic::do_not_recommend]
            impl $is for $t {}
        )*
    )*};
}

// Integers of more than 63 bits have no place in BSON: a `u64` is stored as an int64, or refused when it is too large.
scalars! {
    bool [BOOL]:;
    i8 [NUMBER]: Ordered Sorts Numeric Bits;
    i16 [NUMBER]: Ordered Sorts Numeric Bits;
    i32 [NUMBER]: Ordered Sorts Numeric Bits;
    i64 [NUMBER]: Ordered Sorts Numeric Bits;
    u8 [NUMBER]: Ordered Sorts Numeric Bits;
    u16 [NUMBER]: Ordered Sorts Numeric Bits;
    u32 [NUMBER]: Ordered Sorts Numeric Bits;
    u64 [NUMBER]: Ordered Sorts Numeric Bits;
    f32 [NAN NUMBER]: Ordered Sorts Numeric;
    f64 [NAN NUMBER]: Ordered Sorts Numeric;
    Decimal128 [NAN NUMBER]: Ordered Numeric;
    String [STRING]: Ordered Sorts;
    ObjectId [OBJECT_ID]: Ordered Sorts;
    DateTime [DATE]: Ordered Sorts;
    Timestamp [TIMESTAMP]: Ordered Sorts;
    Uuid [BINARY]: Ordered Sorts;
    Binary [BINARY]:;
    Bson:;
    Document [OBJECT]:;
}
