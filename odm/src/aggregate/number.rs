//! Numbers that can be added up, and what comes of it.

use bson::{Decimal128, RawBsonRef};

use crate::{Error, ErrorKind, Result};

/// A number that can be summed.
///
/// The sum of integers of any width is an `i64` and their average an `f64`; those of `f64` are `f64`, those of `Decimal128`
/// are `Decimal128`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no number: it has no sum and no average",
    label = "cannot be summed",
    note = "`count` counts documents, `min` and `max` are for everything that has an order"
)]
pub trait Summable {
    /// The type of a sum.
    type Sum: Answer;
    /// The type of an average.
    type Mean: Answer;
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

/// A number as a database answers with it: in the smallest type that holds it.
pub trait Answer: Sized + Send + 'static {
    /// The number.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the type cannot hold it.
    fn of(value: RawBsonRef<'_>) -> Result<Self>;
}

impl Answer for i64 {
    fn of(value: RawBsonRef<'_>) -> Result<Self> {
        match value {
            RawBsonRef::Int32(number) => Ok(number.into()),
            RawBsonRef::Int64(number) => Ok(number),
            // A sum beyond an i64 is answered as a double.
            other => Err(unfit(other, "i64")),
        }
    }
}

impl Answer for u64 {
    fn of(value: RawBsonRef<'_>) -> Result<Self> {
        Self::try_from(i64::of(value)?).map_err(|_| unfit(value, "u64"))
    }
}

impl Answer for f64 {
    fn of(value: RawBsonRef<'_>) -> Result<Self> {
        match value {
            RawBsonRef::Double(number) => Ok(number),
            RawBsonRef::Int32(number) => Ok(number.into()),
            #[expect(
                clippy::cast_precision_loss,
                reason = "as the database adds integers to doubles"
            )]
            RawBsonRef::Int64(number) => Ok(number as Self),
            other => Err(unfit(other, "f64")),
        }
    }
}

impl Answer for Decimal128 {
    fn of(value: RawBsonRef<'_>) -> Result<Self> {
        let text = match value {
            RawBsonRef::Decimal128(number) => return Ok(number),
            RawBsonRef::Int32(number) => number.to_string(),
            RawBsonRef::Int64(number) => number.to_string(),
            other => return Err(unfit(other, "Decimal128")),
        };
        text.parse().map_err(|_| unfit(value, "Decimal128"))
    }
}

fn unfit(value: RawBsonRef<'_>, ty: &str) -> Error {
    Error::new(
        ErrorKind::Invalid,
        format!("the result {value:?} does not fit into an {ty}: calculate it by a `pipeline`"),
    )
}
