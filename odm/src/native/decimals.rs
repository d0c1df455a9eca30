//! Decimals.

use bson::{Decimal128, RawBson};
use rust_decimal::Decimal;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};

use super::tagged::own_or_bson;
use crate::{
    action::Increment,
    document::{Stored, kind},
    field::{Field, Numeric, Ordered},
    projection::{Projection, Reads},
    query::{Brackets, encode},
    schema::{Closed, Schema},
};

impl Stored for Decimal {
    type Kind = kind::Native;
    type Fields<M: 'static, R: 'static, S: 'static> = Field<M, Self, R, S>;
    type New = Self;
    const BRACKETS: Brackets = Brackets::NUMBER.or(Brackets::NAN);

    fn serialize_stored<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return Serialize::serialize(self, serializer);
        }
        let decimal: Decimal128 = self.to_string().parse().map_err(S::Error::custom)?;
        decimal.serialize(serializer)
    }

    fn deserialize_stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return own_or_bson(deserializer, convert);
        }
        convert(Decimal128::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

fn convert(decimal: Decimal128) -> Result<Decimal, String> {
    let text = decimal.to_string();
    let decimal = if text.contains('E') {
        Decimal::from_scientific(&text)
    } else {
        Decimal::from_str_exact(&text)
    };
    decimal.map_err(|error| format!("{text} does not fit a `rust_decimal::Decimal`: {error}"))
}

impl<S: Schema> Closed<S> for Decimal {}
#[diagnostic::do_not_recommend]
impl Projection for Decimal {
    type Of = Self;
    const READS: Reads = Reads::Whole;
}
#[diagnostic::do_not_recommend]
impl Ordered for Decimal {}
#[diagnostic::do_not_recommend]
impl Numeric for Decimal {}

#[diagnostic::do_not_recommend]
impl Increment<Decimal> for Decimal {
    fn amount(by: Decimal) -> crate::Result<RawBson> {
        encode(&by)
    }
}
#[diagnostic::do_not_recommend]
impl Increment<Decimal> for Option<Decimal> {
    fn amount(by: Decimal) -> crate::Result<RawBson> {
        encode(&by)
    }
}
