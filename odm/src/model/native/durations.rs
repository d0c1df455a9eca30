//! Durations, stored as milliseconds: the unit of the difference of two BSON dates.

use std::{fmt, time::Duration};

use bson::RawBson;
use serde::{
    Deserialize, Deserializer,
    de::{
        Error, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};

use super::{NativeForm, native_values};
use crate::{
    ErrorKind, Result as OdmResult,
    language::{field::ElementSortKey, query::Operand},
};

impl NativeForm for Duration {
    type Form = i64;

    fn to_form(&self) -> Result<i64, impl fmt::Display> {
        i64::try_from(self.as_millis())
            .map_err(|_| format!("{self:?} is out of range for milliseconds in an int64"))
    }

    fn from_form(millis: i64) -> Result<Self, impl fmt::Display> {
        u64::try_from(millis)
            .map(Self::from_millis)
            .map_err(|_| format!("a `Duration` cannot be negative: {millis} milliseconds"))
    }
}
native_values!(Duration: [NUMBER], rounds: true, deserialize_own_or_millis);

#[diagnostic::do_not_recommend]
impl ElementSortKey for Duration {}

#[diagnostic::do_not_recommend]
impl Operand for Duration {
    type As = Self;

    /// A comparison with the difference of two dates is exact: a part of a millisecond would change its result.
    fn encode_operand(&self) -> OdmResult<RawBson> {
        if !self.subsec_nanos().is_multiple_of(1_000_000) {
            let message = format!(
                "{self:?} is not a whole number of milliseconds, the precision of BSON dates"
            );
            return Err(crate::Error::new(ErrorKind::Invalid, message));
        }
        let millis = self.to_form();
        let millis =
            millis.map_err(|error| crate::Error::new(ErrorKind::Encode, error.to_string()))?;
        Ok(millis.into())
    }
}

/// Deserializes a duration from its own form or, inside a tagged enum, from the stored number.
fn deserialize_own_or_millis<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Duration, D::Error> {
    struct OwnOrMillis;

    impl<'de> Visitor<'de> for OwnOrMillis {
        type Value = Duration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a duration")
        }

        fn visit_i64<E: Error>(self, millis: i64) -> Result<Duration, E> {
            Duration::from_form(millis).map_err(E::custom)
        }

        fn visit_u64<E: Error>(self, millis: u64) -> Result<Duration, E> {
            Ok(Duration::from_millis(millis))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Duration, A::Error> {
            Duration::deserialize(SeqAccessDeserializer::new(seq))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Duration, A::Error> {
            Duration::deserialize(MapAccessDeserializer::new(map))
        }
    }
    deserializer.deserialize_any(OwnOrMillis)
}
