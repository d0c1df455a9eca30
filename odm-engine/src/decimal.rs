//! Decimal128 arithmetic as MongoDB does it: results have 34 digits and are rounded half to even.
//!
//! Code that predicts what the database will compute uses these functions.

use bson::Decimal128;

use crate::value::Decimal;

/// Returns the sum of two decimals.
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

/// Returns the difference of two decimals.
#[must_use]
pub fn subtract(a: Decimal128, b: Decimal128) -> Decimal128 {
    let difference = Decimal::from_bson(a).subtract(Decimal::from_bson(b));
    difference.to_bson()
}

/// Returns the product of two decimals.
#[must_use]
pub fn multiply(a: Decimal128, b: Decimal128) -> Decimal128 {
    let product = Decimal::from_bson(a).multiply(Decimal::from_bson(b));
    product.to_bson()
}

/// Converts a whole number to a decimal.
#[must_use]
pub fn from_integer(number: i64) -> Decimal128 {
    Decimal::from_integer(number).to_bson()
}
