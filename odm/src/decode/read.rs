//! A deserializer of stored values that knows where it is, and gives every map in one form: serde's code for a model is compiled once
//! for each form of a map that it may be read from, and `bson` has eight.

use std::fmt;

use bson::{Bson, Deserializer as OfOwned, RawArray, RawBsonRef, RawDocument, raw::RawElement};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
    value::{BorrowedStrDeserializer, MapDeserializer},
};

/// What does not fit, and where.
#[derive(Debug)]
pub(super) struct Misfit(Box<(bson::error::Error, Vec<String>)>);

impl Misfit {
    /// One step further out.
    #[cold]
    fn inside(mut self, of: impl fmt::Display) -> Self {
        self.0.1.push(of.to_string());
        self
    }

    pub(super) fn error(&self) -> &bson::error::Error {
        &self.0.0
    }

    /// The dotted path; none where it is about the whole document.
    pub(super) fn path(&self) -> Option<String> {
        let steps: Vec<_> = self.0.1.iter().rev().map(String::as_str).collect();
        Some(steps.join(".")).filter(|path| !path.is_empty())
    }
}

impl From<bson::error::Error> for Misfit {
    fn from(error: bson::error::Error) -> Self {
        Self(Box::new((error, Vec::new())))
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error().fmt(f)
    }
}

impl std::error::Error for Misfit {}

impl serde::de::Error for Misfit {
    fn custom<M: fmt::Display>(message: M) -> Self {
        bson::error::Error::custom(message).into()
    }
}

type Result<T> = std::result::Result<T, Misfit>;

/// A stored value.
pub(super) struct Value<'de>(RawBsonRef<'de>);

impl<'de> Value<'de> {
    #[inline]
    pub(super) fn of(document: &'de RawDocument) -> Self {
        Self(RawBsonRef::Document(document))
    }

    /// A value of a type of BSON's own, which the types of `bson` know how to read.
    fn owned(self) -> Result<OfOwned> {
        Ok(OfOwned::new(Bson::try_from(self.0)?))
    }

    /// Such a value, apart from what is in most documents: it needs room.
    #[inline(never)]
    fn read_owned<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        Ok(self.owned()?.deserialize_any(visitor)?)
    }

    fn unexpected(&self) -> Unexpected<'de> {
        match self.0 {
            RawBsonRef::Int32(value) => Unexpected::Signed(value.into()),
            RawBsonRef::Int64(value) => Unexpected::Signed(value),
            RawBsonRef::Double(value) => Unexpected::Float(value),
            RawBsonRef::String(value) => Unexpected::Str(value),
            RawBsonRef::Boolean(value) => Unexpected::Bool(value),
            RawBsonRef::Null => Unexpected::Unit,
            RawBsonRef::Document(_) => Unexpected::Map,
            RawBsonRef::Array(_) => Unexpected::Seq,
            RawBsonRef::Binary(value) => Unexpected::Bytes(value.bytes),
            RawBsonRef::ObjectId(_) => Unexpected::Other("an ObjectId"),
            RawBsonRef::DateTime(_) => Unexpected::Other("a date"),
            RawBsonRef::Decimal128(_) => Unexpected::Other("a decimal"),
            RawBsonRef::Timestamp(_) => Unexpected::Other("a timestamp"),
            _ => Unexpected::Other("a value of another BSON type"),
        }
    }
}

impl<'de> IntoDeserializer<'de, Misfit> for Value<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            RawBsonRef::Int32(value) => visitor.visit_i32(value),
            RawBsonRef::Int64(value) => visitor.visit_i64(value),
            RawBsonRef::Double(value) => visitor.visit_f64(value),
            RawBsonRef::String(value) => visitor.visit_borrowed_str(value),
            RawBsonRef::Boolean(value) => visitor.visit_bool(value),
            RawBsonRef::Null => visitor.visit_unit(),
            RawBsonRef::Document(value) => visitor.visit_map(Entries::of(value)),
            RawBsonRef::Array(value) => visitor.visit_seq(Elements::of(value)),
            RawBsonRef::Binary(value) if value.subtype == bson::spec::BinarySubtype::Generic => {
                visitor.visit_borrowed_bytes(value.bytes)
            }
            // `bson` itself would make texts of dates here, which not every date has.
            RawBsonRef::DateTime(value) => {
                let millis = Value(RawBsonRef::Int64(value.timestamp_millis()));
                visitor.visit_map(MapDeserializer::new([("$date", millis)].into_iter()))
            }
            RawBsonRef::JavaScriptCodeWithScope(value) => {
                let (code, scope) = (
                    RawBsonRef::String(value.code),
                    RawBsonRef::Document(value.scope),
                );
                let both = [("$code", Value(code)), ("$scope", Value(scope))];
                visitor.visit_map(MapDeserializer::new(both.into_iter()))
            }
            _ => self.read_owned(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            RawBsonRef::String(value) => visitor.visit_borrowed_str(value),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_map(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            RawBsonRef::Document(value) => visitor.visit_map(Entries::of(value)),
            _ => Err(Misfit::invalid_type(self.unexpected(), &visitor)),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            RawBsonRef::Array(value) => visitor.visit_seq(Elements::of(value)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            RawBsonRef::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            // What reads an ObjectId asks for its bytes.
            RawBsonRef::ObjectId(id) => visitor.visit_bytes(&id.bytes()),
            // Types of bytes also read texts, by which no filter would find them.
            RawBsonRef::String(_) => Err(Misfit::invalid_type(self.unexpected(), &visitor)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        // As above.
        if name.contains("uuid") && matches!(self.0, RawBsonRef::String(_)) {
            return Err(Misfit::invalid_type(self.unexpected(), &"a UUID"));
        }
        // By such names the types of `bson` tell its deserializers what they are.
        match name.starts_with("$__") {
            true => Ok(self.owned()?.deserialize_newtype_struct(name, visitor)?),
            false => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match self.0 {
            RawBsonRef::String(variant) => visitor.visit_enum(variant.into_deserializer()),
            RawBsonRef::Document(value) => visitor.visit_enum(Entries::of(value)),
            _ => Err(Misfit::invalid_type(self.unexpected(), &visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str byte_buf unit unit_struct
        tuple tuple_struct identifier
    }
}

/// The fields of a document.
struct Entries<'de> {
    left: bson::raw::RawIter<'de>,
    at: Option<RawElement<'de>>,
}

impl<'de> Entries<'de> {
    #[inline]
    fn of(document: &'de RawDocument) -> Self {
        Self {
            left: document.iter_elements(),
            at: None,
        }
    }

    #[inline]
    fn next(&mut self) -> Result<Option<&'de str>> {
        self.at = self.left.next().transpose()?;
        Ok(self.at.as_ref().map(|element| element.key().as_str()))
    }

    /// Reads the value of the field that it is at.
    fn read<T>(&self, read: impl FnOnce(Value<'de>) -> Result<T>) -> Result<T> {
        let Some(element) = &self.at else {
            return Err(Misfit::custom("a value is asked for before its name"));
        };
        let value = element.value().map_err(Misfit::from);
        value
            .and_then(|value| read(Value(value)))
            .map_err(|error| error.inside(element.key().as_str()))
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Misfit;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let name = self.next()?.map(BorrowedStrDeserializer::new);
        name.map(|name| seed.deserialize(name)).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        self.read(|value| seed.deserialize(value))
    }
}

impl<'de> EnumAccess<'de> for Entries<'de> {
    type Error = Misfit;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(mut self, seed: V) -> Result<(V::Value, Self)> {
        let Some(name) = self.next()? else {
            return Err(Misfit::custom("an empty document names no variant"));
        };
        let variant = seed.deserialize(BorrowedStrDeserializer::<Misfit>::new(name))?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for Entries<'de> {
    type Error = Misfit;

    fn unit_variant(self) -> Result<()> {
        let message = "the variant has no content: it is stored as a string, not in a document";
        Err(Misfit::custom(message))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value> {
        self.read(|value| seed.deserialize(value))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value> {
        self.read(|value| value.deserialize_seq(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.read(|value| value.deserialize_map(visitor))
    }
}

/// The elements of an array.
struct Elements<'de> {
    left: bson::raw::RawArrayIter<'de>,
    read: usize,
}

impl<'de> Elements<'de> {
    #[inline]
    fn of(array: &'de RawArray) -> Self {
        Self {
            left: array.into_iter(),
            read: 0,
        }
    }
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Misfit;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let Some(element) = self.left.next() else {
            return Ok(None);
        };
        let value = element.map_err(Misfit::from);
        let read = value.and_then(|value| seed.deserialize(Value(value)));
        let read = read.map_err(|error| error.inside(self.read))?;
        self.read += 1;
        Ok(Some(read))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use bson::{
        Binary, DateTime, Decimal128, Document, RawArrayBuf, RawBson, RawDocumentBuf, Regex,
        Timestamp, Uuid, doc, oid::ObjectId, spec::BinarySubtype,
    };
    use serde::{Deserialize, Serialize, de::DeserializeOwned};

    use super::*;

    fn read<T: DeserializeOwned>(document: &RawDocument) -> Result<T> {
        T::deserialize(Value::of(document))
    }

    /// What is read of it is what `bson` reads of it.
    #[track_caller]
    fn is_as_by_bson<T: DeserializeOwned + PartialEq + fmt::Debug>(document: &Document) {
        let raw = RawDocumentBuf::try_from(document).unwrap();
        let by_bson: T = bson::deserialize_from_slice(raw.as_bytes()).unwrap();
        assert_eq!(read::<T>(&raw).unwrap(), by_bson);
    }

    fn of_every_type() -> Document {
        doc! {
            "i32": 5, "i64": -7_i64, "f64": 1.5, "text": "a", "yes": true, "null": Bson::Null,
            "id": ObjectId::from_bytes([7; 12]),
            "now": DateTime::from_millis(1_700_000_000_123),
            "first": DateTime::MIN, "last": DateTime::MAX,
            "decimal": "1.25".parse::<Decimal128>().unwrap(),
            "bytes": Binary { subtype: BinarySubtype::Generic, bytes: vec![1, 2] },
            "tagged": Binary { subtype: BinarySubtype::UserDefined(0x81), bytes: vec![3] },
            "uuid": Uuid::from_bytes([9; 16]),
            "timestamp": Timestamp { time: 1, increment: u32::MAX },
            "regex": Regex { pattern: bson::raw::cstr!("a.*").into(), options: bson::raw::cstr!("i").into() },
            "code": Bson::JavaScriptCode("f()".into()),
            "scoped": bson::JavaScriptCodeWithScope { code: "f()".into(), scope: doc! { "a": DateTime::MAX } },
            "symbol": Bson::Symbol("s".into()),
            "undefined": Bson::Undefined, "least": Bson::MinKey, "most": Bson::MaxKey,
            "inner": { "a": [1, { "b": DateTime::MAX }, [2]] },
        }
    }

    #[test]
    fn every_type_is_read() {
        is_as_by_bson::<Document>(&of_every_type());
        is_as_by_bson::<HashMap<String, Bson>>(&of_every_type());
        is_as_by_bson::<RawDocumentBuf>(&of_every_type());
        is_as_by_bson::<BTreeMap<String, RawBson>>(&doc! { "a": DateTime::MAX, "b": [{ "c": 1 }] });
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Typed {
        i32: u64,
        i64: i8,
        f64: f32,
        text: char,
        yes: bool,
        null: Option<String>,
        id: ObjectId,
        now: DateTime,
        first: DateTime,
        last: Option<DateTime>,
        decimal: Decimal128,
        bytes: Binary,
        tagged: Binary,
        uuid: Uuid,
        timestamp: Timestamp,
        regex: Regex,
        inner: Inner,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Inner {
        a: (i32, BTreeMap<String, DateTime>, Vec<u8>),
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Raw {
        inner: RawDocumentBuf,
        now: RawBson,
        #[serde(flatten)]
        others: BTreeMap<String, Bson>,
    }

    #[test]
    fn fields_are_read_as_their_types() {
        is_as_by_bson::<Typed>(&of_every_type());
        is_as_by_bson::<Raw>(&of_every_type());
        let arrays = doc! { "a": [1, { "b": 2 }], "b": [[DateTime::MAX]] };
        is_as_by_bson::<BTreeMap<String, RawArrayBuf>>(&arrays);
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Shape {
        Point,
        Circle(f64),
        Line(i32, i32),
        Text { at: DateTime, of: ObjectId },
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "kind")]
    enum Tagged {
        Empty,
        Full {
            id: ObjectId,
            until: Option<DateTime>,
        },
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(i64),
        Named { name: String },
    }

    #[test]
    fn enums_are_read() {
        let shapes = doc! {
            "a": "Point", "b": { "Circle": 2.5 }, "c": { "Line": [1, 2] },
            "d": { "Text": { "at": DateTime::MAX, "of": ObjectId::from_bytes([1; 12]) } },
        };
        is_as_by_bson::<BTreeMap<String, Shape>>(&shapes);
        let id = ObjectId::from_bytes([2; 12]);
        let full = doc! { "kind": "Full", "id": id, "until": DateTime::from_millis(5) };
        is_as_by_bson::<BTreeMap<String, Tagged>>(&doc! { "a": { "kind": "Empty" }, "b": full });
        is_as_by_bson::<BTreeMap<String, Either>>(&doc! { "a": 5_i64, "b": { "name": "n" } });
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "it is never read whole")]
    struct Nested {
        rooms: Vec<BTreeMap<String, Shape>>,
        id: Option<ObjectId>,
    }

    #[test]
    fn what_does_not_fit_has_a_path() {
        let wrong = |document: Document| {
            let raw = RawDocumentBuf::try_from(&document).unwrap();
            let misfit = read::<Nested>(&raw).unwrap_err();
            (misfit.path(), misfit.to_string())
        };
        let (path, text) =
            wrong(doc! { "rooms": [{ "a": "Point" }, { "b": { "Line": [1, "2"] } }] });
        assert_eq!(path.as_deref(), Some("rooms.1.b.Line.1"));
        assert!(
            text.contains("invalid type: string \"2\", expected i32"),
            "{text}"
        );
        let (path, text) = wrong(doc! { "rooms": [], "id": 5 });
        assert_eq!(path.as_deref(), Some("id"));
        assert!(text.contains("invalid type: integer `5`"), "{text}");
        let (path, text) = wrong(doc! { "id": Bson::Null });
        assert_eq!(path, None);
        assert!(text.contains("missing field `rooms`"), "{text}");
        let (path, text) = wrong(doc! { "rooms": [DateTime::MAX] });
        assert_eq!(path.as_deref(), Some("rooms.0"));
        assert!(
            text.contains("invalid type: a date, expected a map"),
            "{text}"
        );
    }
}
