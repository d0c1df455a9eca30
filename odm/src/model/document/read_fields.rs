//! Reading of insert structs. serde's derive generates several hundred lines for a struct, and this module has the parts that do not
//! depend on the struct.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor},
};

/// A struct that is read as serde's derive reads it.
#[doc(hidden)]
pub trait ReadFields<'de>: Sized {
    /// The name of the struct.
    const NAME: &'static str;
    /// The stored names of the fields, in the order of the declaration.
    const FIELDS: &'static [&'static str];
    /// Whether an unknown field is an error.
    const DENIES_UNKNOWN_FIELDS: bool;

    /// Reads the fields.
    fn read_fields<R: FieldReader<'de>>(reader: R) -> Result<Self, R::Error>;
}

/// A reader of the fields of one struct.
#[doc(hidden)]
pub trait FieldReader<'de> {
    type Error: Error;

    /// Returns the position of the next field, or `None` after the last field.
    fn next_field(&mut self) -> Result<Option<usize>, Self::Error>;

    /// Reads the value of the field that [`next_field`](Self::next_field) has returned.
    fn read<T: Deserialize<'de>>(&mut self, value: &mut Option<T>) -> Result<(), Self::Error>;

    /// Returns the value of a field that was not read.
    fn read_missing<T: Deserialize<'de>>(&self, field: usize) -> Result<T, Self::Error>;

    /// Returns the value of a field after the last field.
    fn complete<T: Deserialize<'de>>(
        &self,
        field: usize,
        value: Option<T>,
    ) -> Result<T, Self::Error> {
        value.map_or_else(|| self.read_missing(field), Ok)
    }
}

/// Reads a struct.
#[doc(hidden)]
pub fn read_struct<'de, T: ReadFields<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_struct(T::NAME, T::FIELDS, StructVisitor(PhantomData))
}

struct StructVisitor<T>(PhantomData<T>);

impl<'de, T: ReadFields<'de>> Visitor<'de> for StructVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "struct {}", T::NAME)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::read_fields(MapReader {
            map,
            seed: FieldSeed {
                fields: T::FIELDS,
                denies_unknown_fields: T::DENIES_UNKNOWN_FIELDS,
            },
            field: "",
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<T, A::Error> {
        T::read_fields(SeqReader {
            seq,
            next: 0,
            fields: T::FIELDS,
            name: T::NAME,
        })
    }
}

/// A reader of a map with the stored names.
struct MapReader<A> {
    map: A,
    seed: FieldSeed,
    /// The last field.
    field: &'static str,
}

impl<'de, A: MapAccess<'de>> FieldReader<'de> for MapReader<A> {
    type Error = A::Error;

    fn next_field(&mut self) -> Result<Option<usize>, A::Error> {
        while let Some(known) = self.map.next_key_seed(self.seed)? {
            if let Some(position) = known {
                self.field = self.seed.fields.get(position).copied().unwrap_or_default();
                return Ok(Some(position));
            }
            self.map.next_value::<IgnoredAny>()?;
        }
        Ok(None)
    }

    fn read<T: Deserialize<'de>>(&mut self, value: &mut Option<T>) -> Result<(), A::Error> {
        if value.is_some() {
            return Err(Error::duplicate_field(self.field));
        }
        *value = Some(self.map.next_value()?);
        Ok(())
    }

    fn read_missing<T: Deserialize<'de>>(&self, field: usize) -> Result<T, A::Error> {
        let field = self.seed.fields.get(field).copied().unwrap_or_default();
        T::deserialize(MissingField(field, PhantomData))
    }
}

/// A reader of a sequence with the values of the fields.
struct SeqReader<A> {
    seq: A,
    next: usize,
    fields: &'static [&'static str],
    name: &'static str,
}

impl<'de, A: SeqAccess<'de>> FieldReader<'de> for SeqReader<A> {
    type Error = A::Error;

    fn next_field(&mut self) -> Result<Option<usize>, A::Error> {
        let field = self.next;
        self.next += 1;
        Ok((field < self.fields.len()).then_some(field))
    }

    fn read<T: Deserialize<'de>>(&mut self, value: &mut Option<T>) -> Result<(), A::Error> {
        *value = self.seq.next_element()?;
        Ok(())
    }

    fn read_missing<T: Deserialize<'de>>(&self, field: usize) -> Result<T, A::Error> {
        let (name, fields) = (self.name, self.fields.len());
        let elements = if fields == 1 { "element" } else { "elements" };
        let expected = format!("struct {name} with {fields} {elements}");
        Err(Error::invalid_length(field, &expected.as_str()))
    }
}

/// Reads the name of a field as its position. `None` for an unknown field.
#[derive(Clone, Copy)]
struct FieldSeed {
    fields: &'static [&'static str],
    denies_unknown_fields: bool,
}

impl FieldSeed {
    fn position<E: Error>(self, name: &str) -> Result<Option<usize>, E> {
        let position = self.fields.iter().position(|field| *field == name);
        match position {
            None if self.denies_unknown_fields => Err(Error::unknown_field(name, self.fields)),
            position => Ok(position),
        }
    }
}

impl<'de> DeserializeSeed<'de> for FieldSeed {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for FieldSeed {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("field identifier")
    }

    fn visit_u64<E: Error>(self, position: u64) -> Result<Option<usize>, E> {
        let known = usize::try_from(position).ok();
        let known = known.filter(|position| *position < self.fields.len());
        if known.is_none() && self.denies_unknown_fields {
            let expected = format!("field index 0 <= i < {}", self.fields.len());
            let position = Unexpected::Unsigned(position);
            return Err(Error::invalid_value(position, &expected.as_str()));
        }
        Ok(known)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Option<usize>, E> {
        self.position(name)
    }

    fn visit_bytes<E: Error>(self, name: &[u8]) -> Result<Option<usize>, E> {
        self.position(&String::from_utf8_lossy(name))
    }
}

/// The value of a missing field: `None` for an option, and an error for all other types.
struct MissingField<E>(&'static str, PhantomData<E>);

impl<'de, E: Error> Deserializer<'de> for MissingField<E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, E> {
        Err(Error::missing_field(self.0))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_none()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}
