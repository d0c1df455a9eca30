//! Arithmetic of decimals, rounded half to even to 34 digits as by MongoDB, for whoever computes what the database would.

use bson::Decimal128;

use crate::value::Decimal;

/// The sum.
///
/// ```
/// let sum = odm_engine::decimal::add("1.50".parse()?, "2.5".parse()?);
/// assert_eq!(sum.to_string(), "4.00");
/// # Ok::<(), bson::error::Error>(())
/// ```
#[must_use]
pub fn add(a: Decimal128, b: Decimal128) -> Decimal128 {
    Decimal::from_bson(a).add(Decimal::from_bson(b)).to_bson()
}

/// The difference.
#[must_use]
pub fn subtract(a: Decimal128, b: Decimal128) -> Decimal128 {
    let difference = Decimal::from_bson(a).subtract(Decimal::from_bson(b));
    difference.to_bson()
}

/// The product.
#[must_use]
pub fn multiply(a: Decimal128, b: Decimal128) -> Decimal128 {
    let product = Decimal::from_bson(a).multiply(Decimal::from_bson(b));
    product.to_bson()
}

/// A whole number.
#[must_use]
pub fn whole(number: i64) -> Decimal128 {
    Decimal::from_integer(number).to_bson()
}
