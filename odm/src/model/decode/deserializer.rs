//! A deserializer of stored values that records the path of an error.
//!
//! All maps have a single type here. Rust compiles serde's code for a model once for each map type, and `bson` has eight.

use std::fmt;

use bson::{Bson, Deserializer as BsonDeserializer, RawBsonRef, RawDocument};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
    value::{BorrowedStrDeserializer, MapDeserializer},
};

use super::elements::{Element, Elements};

/// A decoding error with its path.
#[derive(Debug)]
pub(super) struct DecodeError(Box<(bson::error::Error, Vec<String>)>);

impl DecodeError {
    /// Prepends a step to the path.
    #[cold]
    fn at_step(mut self, step: impl fmt::Display) -> Self {
        self.0.1.push(step.to_string());
        self
    }

    pub(super) fn error(&self) -> &bson::error::Error {
        &self.0.0
    }

    /// Returns the dotted path; `None` for an error about the whole document.
    pub(super) fn path(&self) -> Option<String> {
        let steps: Vec<_> = self.0.1.iter().rev().map(String::as_str).collect();
        Some(steps.join(".")).filter(|path| !path.is_empty())
    }
}

impl From<bson::error::Error> for DecodeError {
    fn from(error: bson::error::Error) -> Self {
        Self(Box::new((error, Vec::new())))
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error().fmt(f)
    }
}

impl std::error::Error for DecodeError {}

impl serde::de::Error for DecodeError {
    fn custom<M: fmt::Display>(message: M) -> Self {
        bson::error::Error::custom(message).into()
    }
}

type Result<T> = std::result::Result<T, DecodeError>;

/// A stored value.
pub(super) enum StoredValue<'de> {
    /// The elements of an array.
    Array(&'de RawDocument),
    /// A value that is not an array.
    Other(RawBsonRef<'de>),
}

impl<'de> From<RawBsonRef<'de>> for StoredValue<'de> {
    fn from(value: RawBsonRef<'de>) -> Self {
        match value {
            RawBsonRef::Array(array) => match RawDocument::from_bytes(array.as_bytes()) {
                Ok(elements) => Self::Array(elements),
                // `RawArray` always has a valid header.
                Err(_) => Self::Other(RawBsonRef::Undefined),
            },
            value => Self::Other(value),
        }
    }
}

impl<'de> StoredValue<'de> {
    #[inline]
    pub(super) fn from_document(document: &'de RawDocument) -> Self {
        Self::Other(RawBsonRef::Document(document))
    }

    /// Whether all values of the type have the same size.
    pub(super) fn has_fixed_size(&self) -> bool {
        matches!(
            self,
            StoredValue::Other(
                RawBsonRef::Int32(_)
                    | RawBsonRef::Int64(_)
                    | RawBsonRef::Double(_)
                    | RawBsonRef::Boolean(_)
                    | RawBsonRef::ObjectId(_)
                    | RawBsonRef::DateTime(_)
                    | RawBsonRef::Decimal128(_)
            )
        )
    }

    /// Returns `bson`'s own deserializer, which reads BSON-specific types.
    fn bson_deserializer(self) -> Result<BsonDeserializer> {
        let value = match self {
            StoredValue::Array(elements) => {
                // The elements of an array may have equal names, which a document would not keep.
                let elements = elements.iter_elements();
                let elements = elements.map(|element| Bson::try_from(element?.value()?));
                Bson::Array(elements.collect::<bson::error::Result<_>>()?)
            }
            StoredValue::Other(value) => Bson::try_from(value)?,
        };
        Ok(BsonDeserializer::new(value))
    }

    /// Reads a BSON-specific type. Not inlined, because such types are rare and need much stack space.
    #[inline(never)]
    fn read_bson_type<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        Ok(self.bson_deserializer()?.deserialize_any(visitor)?)
    }

    fn unexpected_type(&self) -> Unexpected<'de> {
        let value = match self {
            StoredValue::Array(_) => return Unexpected::Seq,
            StoredValue::Other(value) => value,
        };
        match *value {
            RawBsonRef::Int32(value) => Unexpected::Signed(value.into()),
            RawBsonRef::Int64(value) => Unexpected::Signed(value),
            RawBsonRef::Double(value) => Unexpected::Float(value),
            RawBsonRef::String(value) => Unexpected::Str(value),
            RawBsonRef::Boolean(value) => Unexpected::Bool(value),
            RawBsonRef::Null => Unexpected::Unit,
            RawBsonRef::Document(_) => Unexpected::Map,
            RawBsonRef::Binary(value) => Unexpected::Bytes(value.bytes),
            RawBsonRef::ObjectId(_) => Unexpected::Other("an ObjectId"),
            RawBsonRef::DateTime(_) => Unexpected::Other("a date"),
            RawBsonRef::Decimal128(_) => Unexpected::Other("a decimal"),
            RawBsonRef::Timestamp(_) => Unexpected::Other("a timestamp"),
            _ => Unexpected::Other("a value of another BSON type"),
        }
    }
}

impl<'de> IntoDeserializer<'de, DecodeError> for StoredValue<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for StoredValue<'de> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let value = match self {
            StoredValue::Array(elements) => {
                return visitor.visit_seq(ArrayElements::from_elements(elements));
            }
            StoredValue::Other(value) => value,
        };
        match value {
            RawBsonRef::Int32(value) => visitor.visit_i32(value),
            RawBsonRef::Int64(value) => visitor.visit_i64(value),
            RawBsonRef::Double(value) => visitor.visit_f64(value),
            RawBsonRef::String(value) => visitor.visit_borrowed_str(value),
            RawBsonRef::Boolean(value) => visitor.visit_bool(value),
            RawBsonRef::Null => visitor.visit_unit(),
            RawBsonRef::Document(value) => visitor.visit_map(DocumentFields::from_document(value)),
            RawBsonRef::Binary(value) if value.subtype == bson::spec::BinarySubtype::Generic => {
                visitor.visit_borrowed_bytes(value.bytes)
            }
            // `bson` would convert dates to texts here, which fails for dates out of range.
            RawBsonRef::DateTime(value) => {
                let millis = StoredValue::Other(RawBsonRef::Int64(value.timestamp_millis()));
                visitor.visit_map(MapDeserializer::new([("$date", millis)].into_iter()))
            }
            RawBsonRef::JavaScriptCodeWithScope(value) => {
                let (code, scope) = (
                    RawBsonRef::String(value.code),
                    RawBsonRef::Document(value.scope),
                );
                let both = [("$code", code), ("$scope", scope)];
                let both = both.map(|(name, value)| (name, StoredValue::Other(value)));
                visitor.visit_map(MapDeserializer::new(both.into_iter()))
            }
            _ => StoredValue::Other(value).read_bson_type(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self {
            StoredValue::Other(RawBsonRef::String(value)) => visitor.visit_borrowed_str(value),
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
        match self {
            StoredValue::Other(RawBsonRef::Document(value)) => {
                visitor.visit_map(DocumentFields::from_document(value))
            }
            _ => Err(DecodeError::invalid_type(self.unexpected_type(), &visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self {
            StoredValue::Other(RawBsonRef::Null) => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self {
            // ObjectIds are requested as bytes.
            StoredValue::Other(RawBsonRef::ObjectId(id)) => visitor.visit_bytes(&id.bytes()),
            // Byte types would also read texts, which filters for bytes never find.
            StoredValue::Other(RawBsonRef::String(_)) => {
                Err(DecodeError::invalid_type(self.unexpected_type(), &visitor))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        // A UUID must not be read from a text either.
        if name.contains("uuid") && matches!(self, StoredValue::Other(RawBsonRef::String(_))) {
            return Err(DecodeError::invalid_type(self.unexpected_type(), &"a UUID"));
        }
        // The types of `bson` pass their identity to the deserializer in such names.
        match name.starts_with("$__") {
            true => Ok(self
                .bson_deserializer()?
                .deserialize_newtype_struct(name, visitor)?),
            false => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match self {
            StoredValue::Other(RawBsonRef::String(variant)) => {
                visitor.visit_enum(variant.into_deserializer())
            }
            StoredValue::Other(RawBsonRef::Document(value)) => {
                visitor.visit_enum(DocumentFields::from_document(value))
            }
            _ => Err(DecodeError::invalid_type(self.unexpected_type(), &visitor)),
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
        seq tuple tuple_struct identifier
    }
}

/// The fields of a document.
struct DocumentFields<'de> {
    remaining: Elements<'de>,
    current: Option<Element<'de>>,
}

impl<'de> DocumentFields<'de> {
    #[inline]
    fn from_document(document: &'de RawDocument) -> Self {
        Self {
            remaining: Elements::new(document),
            current: None,
        }
    }

    #[inline]
    fn next_name(&mut self) -> Result<Option<&'de str>> {
        self.current = self.remaining.next()?;
        Ok(self.current.as_ref().map(Element::name))
    }

    /// Reads the value of the current field.
    fn read_value<T>(&mut self, read: impl FnOnce(StoredValue<'de>) -> Result<T>) -> Result<T> {
        let Some(element) = self.current.take() else {
            return Err(DecodeError::custom(
                "a map value was requested before its key",
            ));
        };
        let name = element.name();
        let value = element.into_value();
        value.and_then(read).map_err(|error| error.at_step(name))
    }
}

impl<'de> MapAccess<'de> for DocumentFields<'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let name = self.next_name()?.map(BorrowedStrDeserializer::new);
        name.map(|name| seed.deserialize(name)).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        self.read_value(|value| seed.deserialize(value))
    }
}

impl<'de> EnumAccess<'de> for DocumentFields<'de> {
    type Error = DecodeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(mut self, seed: V) -> Result<(V::Value, Self)> {
        let Some(name) = self.next_name()? else {
            return Err(DecodeError::custom("an empty document names no variant"));
        };
        let variant = seed.deserialize(BorrowedStrDeserializer::<DecodeError>::new(name))?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for DocumentFields<'de> {
    type Error = DecodeError;

    fn unit_variant(self) -> Result<()> {
        let message = "the variant has no content: it is stored as a string, not in a document";
        Err(DecodeError::custom(message))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(mut self, seed: T) -> Result<T::Value> {
        self.read_value(|value| seed.deserialize(value))
    }

    fn tuple_variant<V: Visitor<'de>>(mut self, _len: usize, visitor: V) -> Result<V::Value> {
        self.read_value(|value| value.deserialize_seq(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        mut self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.read_value(|value| value.deserialize_map(visitor))
    }
}

/// The elements of an array.
struct ArrayElements<'de> {
    remaining: Elements<'de>,
    count: usize,
}

impl<'de> ArrayElements<'de> {
    #[inline]
    fn from_elements(elements: &'de RawDocument) -> Self {
        Self {
            remaining: Elements::new(elements),
            count: 0,
        }
    }
}

impl<'de> SeqAccess<'de> for ArrayElements<'de> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let next = self.remaining.next();
        let Some(element) = next.map_err(|error| error.at_step(self.count))? else {
            return Ok(None);
        };
        let value = element.into_value();
        let decoded = value.and_then(|value| seed.deserialize(value));
        let decoded = decoded.map_err(|error| error.at_step(self.count))?;
        self.count += 1;
        Ok(Some(decoded))
    }

    fn size_hint(&self) -> Option<usize> {
        self.remaining.estimate_count()
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

    fn decode_raw<T: DeserializeOwned>(document: &RawDocument) -> Result<T> {
        T::deserialize(StoredValue::from_document(document))
    }

    /// Asserts that the deserializer and `bson` read equal values.
    #[track_caller]
    fn assert_same_as_bson<T: DeserializeOwned + PartialEq + fmt::Debug>(document: &Document) {
        let raw = RawDocumentBuf::try_from(document).unwrap();
        let by_bson: T = bson::deserialize_from_slice(raw.as_bytes()).unwrap();
        assert_eq!(decode_raw::<T>(&raw).unwrap(), by_bson);
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

    /// The names of the elements of an array have no meaning. A stored array may repeat a name.
    #[test]
    fn elements_with_equal_names_are_kept() {
        #[derive(Debug, Deserialize, PartialEq)]
        struct Arrays {
            raw: RawArrayBuf,
            bson: Vec<i32>,
        }
        let mut elements = RawDocumentBuf::new();
        elements.append(bson::raw::cstr!("0"), 1);
        elements.append(bson::raw::cstr!("0"), 2);
        // An array has the bytes of a document, and a different type.
        let mut document = RawDocumentBuf::new();
        document.append(bson::raw::cstr!("raw"), elements.clone());
        document.append(bson::raw::cstr!("bson"), elements);
        let mut bytes = document.into_bytes();
        for name in [&b"\x03raw\0"[..], b"\x03bson\0"] {
            let at = bytes.windows(name.len()).position(|window| window == name);
            bytes[at.unwrap()] = 0x04;
        }
        let document = RawDocumentBuf::from_bytes(bytes).unwrap();
        let arrays: Arrays = decode_raw(&document).unwrap();
        assert_eq!(arrays.bson, [1, 2]);
        assert_eq!(arrays.raw.into_iter().count(), 2);
    }

    #[test]
    fn the_name_of_each_element_is_checked() {
        #[derive(Debug, Deserialize)]
        struct Arrays {
            #[expect(dead_code, reason = "never decoded")]
            array: Vec<Bson>,
        }
        let document = doc! { "array": [1, Timestamp { time: 1, increment: 2 }, 2] };
        for name in [b'0', b'1', b'2'] {
            let mut bytes = RawDocumentBuf::try_from(&document).unwrap().into_bytes();
            let at = bytes.windows(2).rposition(|window| window == [name, 0]);
            bytes[at.unwrap()] = 0xFF;
            let document = RawDocumentBuf::from_bytes(bytes).unwrap();
            let error = decode_raw::<Arrays>(&document).unwrap_err();
            let step = char::from(name);
            assert_eq!(error.path(), Some(format!("array.{step}")), "{error}");
        }
    }

    #[test]
    fn every_type_is_read() {
        assert_same_as_bson::<Document>(&of_every_type());
        assert_same_as_bson::<HashMap<String, Bson>>(&of_every_type());
        assert_same_as_bson::<RawDocumentBuf>(&of_every_type());
        assert_same_as_bson::<BTreeMap<String, RawBson>>(
            &doc! { "a": DateTime::MAX, "b": [{ "c": 1 }] },
        );
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct EveryType {
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
        inner: InnerDocument,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct InnerDocument {
        a: (i32, BTreeMap<String, DateTime>, Vec<u8>),
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct RawValues {
        inner: RawDocumentBuf,
        now: RawBson,
        #[serde(flatten)]
        others: BTreeMap<String, Bson>,
    }

    #[test]
    fn fields_are_read_as_their_types() {
        assert_same_as_bson::<EveryType>(&of_every_type());
        assert_same_as_bson::<RawValues>(&of_every_type());
        let arrays = doc! { "a": [1, { "b": 2 }], "b": [[DateTime::MAX]] };
        assert_same_as_bson::<BTreeMap<String, RawArrayBuf>>(&arrays);
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
    enum TaggedShape {
        Empty,
        Full {
            id: ObjectId,
            until: Option<DateTime>,
        },
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum NumberOrName {
        Number(i64),
        Named { name: String },
    }

    #[test]
    fn enums_are_read() {
        let shapes = doc! {
            "a": "Point", "b": { "Circle": 2.5 }, "c": { "Line": [1, 2] },
            "d": { "Text": { "at": DateTime::MAX, "of": ObjectId::from_bytes([1; 12]) } },
        };
        assert_same_as_bson::<BTreeMap<String, Shape>>(&shapes);
        let id = ObjectId::from_bytes([2; 12]);
        let full = doc! { "kind": "Full", "id": id, "until": DateTime::from_millis(5) };
        assert_same_as_bson::<BTreeMap<String, TaggedShape>>(
            &doc! { "a": { "kind": "Empty" }, "b": full },
        );
        assert_same_as_bson::<BTreeMap<String, NumberOrName>>(
            &doc! { "a": 5_i64, "b": { "name": "n" } },
        );
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only errors are read")]
    struct NestedRooms {
        rooms: Vec<BTreeMap<String, Shape>>,
        id: Option<ObjectId>,
    }

    #[test]
    fn errors_have_a_path() {
        let mismatch_of = |document: Document| {
            let raw = RawDocumentBuf::try_from(&document).unwrap();
            let misfit = decode_raw::<NestedRooms>(&raw).unwrap_err();
            (misfit.path(), misfit.to_string())
        };
        let (path, text) =
            mismatch_of(doc! { "rooms": [{ "a": "Point" }, { "b": { "Line": [1, "2"] } }] });
        assert_eq!(path.as_deref(), Some("rooms.1.b.Line.1"));
        assert!(
            text.contains("invalid type: string \"2\", expected i32"),
            "{text}"
        );
        let (path, text) = mismatch_of(doc! { "rooms": [], "id": 5 });
        assert_eq!(path.as_deref(), Some("id"));
        assert!(text.contains("invalid type: integer `5`"), "{text}");
        let (path, text) = mismatch_of(doc! { "id": Bson::Null });
        assert_eq!(path, None);
        assert!(text.contains("missing field `rooms`"), "{text}");
        let (path, text) = mismatch_of(doc! { "rooms": [DateTime::MAX] });
        assert_eq!(path.as_deref(), Some("rooms.0"));
        assert!(
            text.contains("invalid type: a date, expected a map"),
            "{text}"
        );
    }
}
