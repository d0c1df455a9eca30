//! Values inside of enums with a tag.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeSeed, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};

/// Reads a `T` in its own form, or from a `B` of BSON.
///
/// Before serde knows the variant of an enum it puts the fields aside, and from then on takes BSON for a text format. A
/// value of BSON is a document there (`{"$date": …}`), which is none of these types in its own form.
pub(super) fn own_or_bson<'de, T, B, D, E>(
    deserializer: D,
    convert: fn(B) -> Result<T, E>,
) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    B: Deserialize<'de>,
    D: Deserializer<'de>,
    E: fmt::Display,
{
    deserializer.deserialize_any(OwnOrBson {
        convert,
        of: PhantomData,
    })
}

struct OwnOrBson<T, B, E> {
    convert: fn(B) -> Result<T, E>,
    of: PhantomData<T>,
}

macro_rules! own {
    ($($visit:ident: $value:ty),*) => {$(
        fn $visit<X: Error>(self, value: $value) -> Result<T, X> {
            T::deserialize(value.into_deserializer())
        }
    )*};
}

impl<'de, T: Deserialize<'de>, B: Deserialize<'de>, E: fmt::Display> Visitor<'de>
    for OwnOrBson<T, B, E>
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a date or a number")
    }

    own!(visit_str: &str, visit_i64: i64, visit_u64: u64, visit_f64: f64);

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<T, A::Error> {
        T::deserialize(SeqAccessDeserializer::new(seq))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut rest: A) -> Result<T, A::Error> {
        let key: Option<String> = rest.next_key()?;
        let is_bson = key
            .as_deref()
            .is_some_and(|key| key.starts_with("$date") || key.starts_with("$numberDecimal"));
        let map = MapAccessDeserializer::new(Again { key, rest });
        if is_bson {
            (self.convert)(B::deserialize(map)?).map_err(Error::custom)
        } else {
            // A number of `serde_json` with arbitrary precision.
            T::deserialize(map)
        }
    }
}

/// A map whose first key has been read already.
struct Again<A> {
    key: Option<String>,
    rest: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Again<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        match self.key.take() {
            Some(key) => seed.deserialize(key.into_deserializer()).map(Some),
            None => self.rest.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.rest.next_value_seed(seed)
    }
}
