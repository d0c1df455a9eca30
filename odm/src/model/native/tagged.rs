//! Values of other crates inside tagged enums.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeSeed, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};

/// Deserializes a `T` from its own form, or from a `B` of BSON.
///
/// For a tagged enum, serde buffers the fields before it knows the variant, and then treats BSON as a text format. A BSON date is
/// then a document (`{"$date": …}`), which differs from the type's own form.
pub(super) fn deserialize_own_or_bson<'de, T, B, D, E>(
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

macro_rules! visit_values {
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

    visit_values!(visit_str: &str, visit_i64: i64, visit_u64: u64, visit_f64: f64);

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<T, A::Error> {
        T::deserialize(SeqAccessDeserializer::new(seq))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut rest: A) -> Result<T, A::Error> {
        let key: Option<String> = rest.next_key()?;
        let is_bson = key
            .as_deref()
            .is_some_and(|key| key.starts_with("$date") || key.starts_with("$numberDecimal"));
        let map = MapAccessDeserializer::new(ReplayedMap { key, rest });
        if is_bson {
            (self.convert)(B::deserialize(map)?).map_err(Error::custom)
        } else {
            // A `serde_json` number with arbitrary precision.
            T::deserialize(map)
        }
    }
}

/// A map with a key that has been read already.
struct ReplayedMap<A> {
    key: Option<String>,
    rest: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for ReplayedMap<A> {
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
