//! Types that are stored as one value, and their operators.

use std::sync::Arc;

use bson::{Binary, Bson, DateTime, Decimal128, Document, Timestamp, Uuid, oid::ObjectId};

use super::Field;
use crate::{
    language::query::Brackets,
    model::{
        document::{Stored, kind},
        projection::{ProjectedFields, Projection},
    },
    schema::{Schema, TargetsInSchema},
};

/// Types with an order, for `gt` and similar operators.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no order for comparisons",
    label = "use `eq`, `ne`, `is_in` or `exists`"
)]
pub trait Ordered {}
#[diagnostic::do_not_recommend]
impl<T: Ordered> Ordered for Option<T> {}

/// Types by which the elements of an overflow array can be sorted.
#[diagnostic::on_unimplemented(
    message = "an overflow array cannot be sorted by a `{Self}`",
    label = "elements are sorted by numbers, `String`, dates, `ObjectId`, `Uuid`, or an `Option` of these",
    note = "store a decimal number as an integer of its smallest unit"
)]
pub trait ElementSortKey: Ordered {}
#[diagnostic::do_not_recommend]
impl<T: ElementSortKey> ElementSortKey for Option<T> {}

/// Types that support prefixes and patterns.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a text",
    label = "prefixes and patterns need a `String`, a `Box<str>` or an `Arc<str>`",
    note = "use `eq`, `is_in`, or `between` for ordered types"
)]
pub trait Text {}

/// Types that `bit_and`, `bit_or` and `bit_xor` can change.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an integer",
    label = "has no bits to change"
)]
pub trait Bits {}

/// Types that `current_date` can set to the server's time.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a date",
    label = "cannot hold a time",
    note = "a date is a `DateTime`, a `chrono::DateTime<Utc>`, a `time::OffsetDateTime`, a `jiff::Timestamp`, or an `Option` of \
         these; a date without a time cannot hold a time, and a newtype is set by `set`"
)]
pub trait Date {}
#[diagnostic::do_not_recommend]
impl Date for DateTime {}
#[diagnostic::do_not_recommend]
impl Date for Option<DateTime> {}

macro_rules! scalars {
    ($($t:ty $([$($bracket:ident)*])?: $($property:ident)*;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl Stored for $t {
            type Kind = kind::Value;
            type Fields<M: 'static, R: 'static, S: 'static> = Field<M, $t, R, S>;
            type ShapeWithDefault<S: 'static> = crate::language::field::shape::Defaulted<S>;
            type New = Self;
            $(const BRACKETS: Brackets = Brackets::NONE$(.or(Brackets::$bracket))*;)?
        }
        impl<S: Schema> TargetsInSchema<S> for $t {}
        #[diagnostic::do_not_recommend]
        impl Projection for $t {
            type Of = Self;
            const FIELDS: ProjectedFields = ProjectedFields::Whole;
        }
        $(
            #[diagnostic::do_not_recommend]
            impl $property for $t {}
        )*
    )*};
}

// BSON has no integers above 63 bits: a `u64` is stored as an int64, and a larger value is an encoding error.
scalars! {
    bool [BOOL]:;
    i8 [NUMBER]: Ordered ElementSortKey Bits;
    i16 [NUMBER]: Ordered ElementSortKey Bits;
    i32 [NUMBER]: Ordered ElementSortKey Bits;
    i64 [NUMBER]: Ordered ElementSortKey Bits;
    u8 [NUMBER]: Ordered ElementSortKey Bits;
    u16 [NUMBER]: Ordered ElementSortKey Bits;
    u32 [NUMBER]: Ordered ElementSortKey Bits;
    u64 [NUMBER]: Ordered ElementSortKey Bits;
    f32 [NAN NUMBER]: Ordered ElementSortKey;
    f64 [NAN NUMBER]: Ordered ElementSortKey;
    Decimal128 [NAN NUMBER]: Ordered;
    String [STRING]: Ordered ElementSortKey Text;
    Box<str> [STRING]: Ordered ElementSortKey Text;
    Arc<str> [STRING]: Ordered ElementSortKey Text;
    ObjectId [OBJECT_ID]: Ordered ElementSortKey;
    DateTime [DATE]: Ordered ElementSortKey;
    Timestamp [TIMESTAMP]: Ordered ElementSortKey;
    Uuid [BINARY]: Ordered ElementSortKey;
    Binary [BINARY]:;
    Bson:;
    Document [OBJECT]:;
}
