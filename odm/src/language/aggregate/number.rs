//! Numbers that can be summed, and the types of sums and averages.

use bson::{Decimal128, RawBsonRef};

use crate::{Error, ErrorKind, Result};

/// Numbers that can be summed.
///
/// The sum of integers of any width is an `i64`, and the average is an `f64`. Sums and averages of `f64` are `f64`; sums and
/// averages of `Decimal128` are `Decimal128`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number: it has no sum and no average",
    label = "cannot be summed",
    note = "`count` counts documents; `min` and `max` work on every type with an order"
)]
pub trait Summable {
    /// The type of a sum.
    type Sum: NumericResult;
    /// The type of an average.
    type Mean: NumericResult;
}

macro_rules! summable {
    ($($number:ty => $sum:ty, $mean:ty;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl Summable for $number {
            type Sum = $sum;
            type Mean = $mean;
        }
    )*};
}
summable! {
    i8 => i64, f64;
    i16 => i64, f64;
    i32 => i64, f64;
    i64 => i64, f64;
    u8 => i64, f64;
    u16 => i64, f64;
    u32 => i64, f64;
    u64 => i64, f64;
    f32 => f64, f64;
    f64 => f64, f64;
    Decimal128 => Decimal128, Decimal128;
}

/// A number that a database computed. The database returns the smallest BSON type that can hold the number.
pub trait NumericResult: Sized + Send + 'static {
    /// Converts a BSON number.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the type cannot hold the number.
    fn from_bson(value: RawBsonRef<'_>) -> Result<Self>;
}

impl NumericResult for i64 {
    fn from_bson(value: RawBsonRef<'_>) -> Result<Self> {
        match value {
            RawBsonRef::Int32(number) => Ok(number.into()),
            RawBsonRef::Int64(number) => Ok(number),
            // The database returns a sum that overflows `i64` as a double.
            other => Err(does_not_fit(other, "i64")),
        }
    }
}

impl NumericResult for u64 {
    fn from_bson(value: RawBsonRef<'_>) -> Result<Self> {
        Self::try_from(i64::from_bson(value)?).map_err(|_| does_not_fit(value, "u64"))
    }
}

impl NumericResult for f64 {
    fn from_bson(value: RawBsonRef<'_>) -> Result<Self> {
        match value {
            RawBsonRef::Double(number) => Ok(number),
            RawBsonRef::Int32(number) => Ok(number.into()),
            #[expect(
                clippy::cast_precision_loss,
                reason = "as the database adds integers to doubles"
            )]
            RawBsonRef::Int64(number) => Ok(number as Self),
            other => Err(does_not_fit(other, "f64")),
        }
    }
}

impl NumericResult for Decimal128 {
    fn from_bson(value: RawBsonRef<'_>) -> Result<Self> {
        let text = match value {
            RawBsonRef::Decimal128(number) => return Ok(number),
            RawBsonRef::Int32(number) => number.to_string(),
            RawBsonRef::Int64(number) => number.to_string(),
            other => return Err(does_not_fit(other, "Decimal128")),
        };
        text.parse().map_err(|_| does_not_fit(value, "Decimal128"))
    }
}

fn does_not_fit(value: RawBsonRef<'_>, ty: &str) -> Error {
    Error::new(
        ErrorKind::Invalid,
        format!("the result {value:?} does not fit into `{ty}`: use a `pipeline`"),
    )
}
