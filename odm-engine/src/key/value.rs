//! The encoding of values into bytes that sort like the values.
//!
//! For any two values, comparing the encodings byte by byte gives the result of [`crate::value::compare`]. Equal values (`1`,
//! `1.0`, `Decimal128("1.00")`) have the same encoding. No encoding is a prefix of a different encoding, so encodings of several
//! fields can be concatenated. Complementing the bytes reverses the order, for a descending field.
//!
//! | type | after the tag |
//! |---|---|
//! | number | see [`number`] |
//! | string, symbol, code | bytes, `00` written as `00 FF`; then `00 01` |
//! | string with a collation | the bytes of its collation key, likewise; its tag is one more |
//! | document | per field: rank, name like a string, value; then `00` |
//! | array | per element: value; then `00` |
//! | binary | length 4, subtype 1, bytes |
//! | ObjectId | its 12 bytes |
//! | bool | `00` or `01` |
//! | date | milliseconds, 8 bytes with the sign bit flipped |
//! | timestamp | time 4, increment 4 |
//! | regex | pattern and options like strings |
//! | dbPointer | length 4, the value's bytes in BSON |
//! | code with scope | code like a string, scope like a document |

mod decode;
mod number;

use bson::raw::{RawBinaryRef, cstr};
use bson::spec::BinarySubtype;
use bson::{RawArray, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::collation::Collator;
use crate::direction::Direction;
use crate::error::{Error, Result, code};
use crate::value;

pub(crate) use decode::KeyDecoder;

/// The end of a document or array. Smaller than every tag.
const END_BYTE: u8 = 0x00;

/// The smallest tag. A tag is this number plus eight times the rank of the type. The gaps leave room for variants of a type
/// (numbers use them for the sign) and keep `00` and `FF` free.
const FIRST_TAG: u8 = 0x08;

/// The offset of the tag for a string that is encoded as its collation key.
const COLLATED_TAG_OFFSET: u8 = 1;

/// Appends the encoding of `value`, so that the encodings sort in `direction`.
///
/// # Errors
/// Bytes that are not BSON, and values that nest too deeply.
pub(crate) fn encode_value(
    value: RawBsonRef<'_>,
    direction: Direction,
    out: &mut Vec<u8>,
) -> Result<()> {
    encode_collated(value, direction, None, out)
}

/// Appends the encoding of `value` in an index. With a collator, strings are encoded as their collation keys.
///
/// # Errors
/// The errors of [`encode_value`], and a symbol with a collator: as on MongoDB, such an index has no symbols.
pub(crate) fn encode_indexed(
    value: RawBsonRef<'_>,
    direction: Direction,
    collator: Option<&Collator>,
    out: &mut Vec<u8>,
) -> Result<()> {
    if collator.is_some() && has_symbol(value) {
        let message = "a symbol cannot be in an index with a collation; store a string";
        return Err(Error::with_server_code(
            code::CANNOT_BUILD_INDEX_KEYS,
            message,
        ));
    }
    encode_collated(value, direction, collator, out)
}

/// Whether the value is a symbol, or contains a symbol.
fn has_symbol(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Symbol(_) => true,
        RawBsonRef::Document(document) => {
            value::fields(document).any(|(_, value)| has_symbol(value))
        }
        RawBsonRef::Array(array) => value::items(array).any(has_symbol),
        _ => false,
    }
}

/// Appends the encoding of `value`. With a collator, strings and symbols are encoded as the collation keys of their texts.
///
/// # Errors
/// The errors of [`encode_value`].
pub(crate) fn encode_collated(
    value: RawBsonRef<'_>,
    direction: Direction,
    collator: Option<&Collator>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let start = out.len();
    encode_ascending(value, 0, collator, out)?;
    if direction == Direction::Descending {
        for byte in out.iter_mut().skip(start) {
            *byte = !*byte;
        }
    }
    Ok(())
}

/// The tags of the value's type, as a half-open interval.
pub(crate) fn type_bracket(value: RawBsonRef<'_>) -> (u8, u8) {
    let tag = type_tag(value);
    (tag, tag.saturating_add(8))
}

fn type_tag(value: RawBsonRef<'_>) -> u8 {
    FIRST_TAG.saturating_add(value::type_rank(value).saturating_mul(8))
}

/// The tags of the types that may contain strings (strings, documents and arrays), as a half-open interval.
pub(crate) fn collated_brackets() -> (u8, u8) {
    let (first, _) = type_bracket(RawBsonRef::String(""));
    let (_, end) = type_bracket(RawBsonRef::Array(&RawArrayBuf::new()));
    (first, end)
}

fn encode_ascending(
    value: RawBsonRef<'_>,
    depth: usize,
    collator: Option<&Collator>,
    out: &mut Vec<u8>,
) -> Result<()> {
    if depth > value::MAX_NESTING_DEPTH {
        return Err(Error::with_server_code(
            code::OVERFLOW,
            "the value nests too deeply",
        ));
    }
    if let Some(number) = value::Number::from_bson(value) {
        number::encode_number(number, type_tag(value), out);
        return Ok(());
    }
    if let (RawBsonRef::String(text) | RawBsonRef::Symbol(text), Some(collator)) = (value, collator)
    {
        out.push(type_tag(value) + COLLATED_TAG_OFFSET);
        encode_bytes(&collator.key(text), out);
        return Ok(());
    }
    out.push(type_tag(value));
    match value {
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text) => {
            encode_text(text, out);
        }
        RawBsonRef::Document(document) => encode_document(document, depth, collator, out)?,
        RawBsonRef::Array(array) => encode_array(array, depth, collator, out)?,
        RawBsonRef::Binary(binary) => encode_binary(binary, out),
        RawBsonRef::ObjectId(id) => out.extend_from_slice(&id.bytes()),
        RawBsonRef::Boolean(value) => out.push(u8::from(value)),
        RawBsonRef::DateTime(date) => {
            let ordered = date.timestamp_millis().cast_unsigned() ^ (1 << 63);
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        RawBsonRef::Timestamp(timestamp) => {
            out.extend_from_slice(&timestamp.time.to_be_bytes());
            out.extend_from_slice(&timestamp.increment.to_be_bytes());
        }
        RawBsonRef::RegularExpression(regex) => {
            encode_text(regex.pattern.as_str(), out);
            encode_text(regex.options.as_str(), out);
        }
        RawBsonRef::DbPointer(_) => encode_pointer(value, out),
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            encode_text(code.code, out);
            encode_document(code.scope, depth, None, out)?;
        }
        RawBsonRef::Double(_)
        | RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Decimal128(_)
        | RawBsonRef::Null
        | RawBsonRef::Undefined
        | RawBsonRef::MinKey
        | RawBsonRef::MaxKey => {}
    }
    Ok(())
}

fn encode_text(text: &str, out: &mut Vec<u8>) {
    encode_bytes(text.as_bytes(), out);
}

fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        out.push(byte);
        if byte == 0x00 {
            out.push(0xFF);
        }
    }
    out.extend_from_slice(&[0x00, 0x01]);
}

/// Appends the common beginning of the encodings of all strings with this prefix.
pub(crate) fn encode_text_prefix(prefix: &str, out: &mut Vec<u8>) {
    out.push(type_tag(RawBsonRef::String(prefix)));
    encode_text(prefix, out);
    // Cut off the terminator.
    out.truncate(out.len().saturating_sub(2));
}

fn encode_document(
    document: &RawDocument,
    depth: usize,
    collator: Option<&Collator>,
    out: &mut Vec<u8>,
) -> Result<()> {
    for element in document.iter_elements() {
        let element = element?;
        let value = element.value()?;
        out.push(type_tag(value));
        encode_text(element.key().as_str(), out);
        encode_ascending(value, depth + 1, collator, out)?;
    }
    out.push(END_BYTE);
    Ok(())
}

fn encode_array(
    array: &RawArray,
    depth: usize,
    collator: Option<&Collator>,
    out: &mut Vec<u8>,
) -> Result<()> {
    for item in array {
        encode_ascending(item?, depth + 1, collator, out)?;
    }
    out.push(END_BYTE);
    Ok(())
}

fn encode_binary(binary: RawBinaryRef<'_>, out: &mut Vec<u8>) {
    let length = match binary.subtype {
        // The old generic subtype stores its length twice, and MongoDB's order counts both lengths.
        BinarySubtype::BinaryOld => binary.bytes.len() + 4,
        _ => binary.bytes.len(),
    };
    encode_length(length, out);
    out.push(binary.subtype.into());
    out.extend_from_slice(binary.bytes);
}

/// Encodes a dbPointer. The `bson` crate exposes its parts only as bytes of an enclosing document.
fn encode_pointer(pointer: RawBsonRef<'_>, out: &mut Vec<u8>) {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!(""), pointer);
    // Skip the document's length, the type and the empty name at the start, and the terminator at the end.
    let bytes = document.as_bytes();
    let pointer = bytes
        .get(6..bytes.len().saturating_sub(1))
        .unwrap_or_default();
    encode_length(pointer.len(), out);
    out.extend_from_slice(pointer);
}

/// Appends a length. BSON lengths have 4 bytes, so no length is truncated here.
fn encode_length(length: usize, out: &mut Vec<u8>) {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use bson::oid::ObjectId;
    use bson::{Bson, DateTime, Decimal128, RawBson, Timestamp};
    use proptest::prelude::*;

    use super::*;

    fn decoded(key: &[u8], direction: Direction) -> Option<RawBson> {
        let mut decoder = KeyDecoder::new(key);
        let value = decoder.next_value(direction)?;
        decoder.is_at_end().then_some(value)
    }

    fn encoded(value: &RawBson, direction: Direction) -> Vec<u8> {
        let mut key = Vec::new();
        encode_value(value.as_raw_bson_ref(), direction, &mut key).unwrap();
        key
    }

    fn decimal() -> impl Strategy<Value = Decimal128> {
        let digits = prop_oneof![
            any::<i64>().prop_map(i128::from),
            -10_000..10_000_i128,
            (-(10_i128.pow(34)) + 1)..10_i128.pow(34),
        ];
        let exponent = prop_oneof![-20..20_i32, -6176..=6111_i32];
        let finite = (digits, exponent).prop_map(|(digits, exponent)| {
            let text = format!("{digits}E{exponent}");
            Decimal128::from_str(&text).unwrap_or_else(|_| Decimal128::from_str("0").unwrap())
        });
        let special = ["NaN", "Infinity", "-Infinity", "-0", "0E+3"];
        let special = prop::sample::select(special.to_vec());
        prop_oneof![8 => finite, 1 => special.prop_map(|text| Decimal128::from_str(text).unwrap())]
    }

    fn number() -> impl Strategy<Value = Bson> {
        let near = prop_oneof![
            -3..3_i64,
            (1_i64 << 53) - 3..(1 << 53) + 3,
            Just(i64::MIN),
            Just(i64::MAX)
        ];
        prop_oneof![
            (-3..3_i32).prop_map(Bson::from),
            any::<i32>().prop_map(Bson::from),
            near.clone().prop_map(Bson::from),
            near.prop_map(|whole| Bson::from(whole as f64)),
            any::<i64>().prop_map(Bson::from),
            any::<f64>().prop_map(Bson::from),
            (-8..8_i32).prop_map(|quarter| Bson::from(f64::from(quarter) / 4.0)),
            Just(Bson::from(f64::NAN)),
            decimal().prop_map(Bson::Decimal128),
        ]
    }

    fn scalar() -> impl Strategy<Value = Bson> {
        let text = "[ab\\x00\u{ff}]{0,3}".prop_map(Bson::from);
        let binary =
            (0..3_u8, prop::collection::vec(any::<u8>(), 0..4)).prop_map(|(subtype, bytes)| {
                let subtype = BinarySubtype::from(subtype);
                Bson::Binary(bson::Binary { subtype, bytes })
            });
        prop_oneof![
            4 => number(),
            2 => text.clone(),
            1 => text.prop_map(|text| match text {
                Bson::String(text) => Bson::Symbol(text),
                other => other,
            }),
            1 => binary,
            1 => any::<[u8; 12]>().prop_map(|bytes| Bson::ObjectId(ObjectId::from_bytes(bytes))),
            1 => any::<bool>().prop_map(Bson::from),
            1 => any::<i64>().prop_map(|millis| Bson::DateTime(DateTime::from_millis(millis))),
            1 => (any::<u32>(), any::<u32>())
                .prop_map(|(time, increment)| Bson::Timestamp(Timestamp { time, increment })),
            1 => ("[ab]{0,2}", "[im]{0,2}").prop_map(|(pattern, options)| {
                Bson::RegularExpression(bson::Regex {
                    pattern: pattern.try_into().unwrap(),
                    options: options.try_into().unwrap(),
                })
            }),
            1 => "[ab]{0,2}".prop_map(Bson::JavaScriptCode),
            1 => ("[ab]{0,2}", "[ab]{1,2}").prop_map(|(code, name)| {
                let scope = bson::doc! { name: 1 };
                Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope { code, scope })
            }),
            1 => prop::sample::select(vec![Bson::MinKey, Bson::Undefined, Bson::Null, Bson::MaxKey]),
        ]
    }

    fn value() -> impl Strategy<Value = RawBson> {
        let value = scalar().prop_recursive(3, 12, 3, |inner| {
            let fields = prop::collection::vec(("[ab\u{ff}]{0,2}", inner.clone()), 0..3);
            prop_oneof![
                prop::collection::vec(inner, 0..3).prop_map(Bson::Array),
                fields.prop_map(|fields| Bson::Document(fields.into_iter().collect())),
            ]
        });
        value.prop_map(|value| RawBson::try_from(value).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn the_order_of_bytes_is_the_order_of_values(a in value(), b in value()) {
            let order = value::compare(a.as_raw_bson_ref(), b.as_raw_bson_ref());
            let ascending = |value| encoded(value, Direction::Ascending);
            let descending = |value| encoded(value, Direction::Descending);
            prop_assert_eq!(ascending(&a).cmp(&ascending(&b)), order);
            prop_assert_eq!(descending(&a).cmp(&descending(&b)), order.reverse());
            if order.is_ne() {
                prop_assert!(!ascending(&a).starts_with(&ascending(&b)));
            }
        }

        #[test]
        fn a_decoded_value_is_equal_to_the_encoded_one(value in value()) {
            for direction in [Direction::Ascending, Direction::Descending] {
                // Some types cannot be decoded. Every decoded value must compare equal to the encoded value.
                if let Some(decoded) = decoded(&encoded(&value, direction), direction) {
                    let order = value::compare(decoded.as_raw_bson_ref(), value.as_raw_bson_ref());
                    prop_assert!(order.is_eq(), "{:?}", decoded);
                }
            }
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            decoded(&bytes, Direction::Ascending);
            decoded(&bytes, Direction::Descending);
        }

        #[test]
        fn the_order_of_joined_values_is_that_of_their_fields(
            a in prop::collection::vec(value(), 3),
            b in prop::collection::vec(value(), 3),
            directions in prop::collection::vec(any::<bool>(), 3),
            same in 0..3_usize,
        ) {
            let directions: Vec<_> = directions
                .into_iter()
                .map(|up| if up { Direction::Ascending } else { Direction::Descending })
                .collect();
            // Give both lists the same beginning, so that later fields decide the order in some cases.
            let b: Vec<_> = a.iter().take(same).cloned().chain(b.into_iter().skip(same)).collect();
            let joined = |values: &[RawBson]| -> Vec<u8> {
                let fields = values.iter().zip(&directions);
                fields.flat_map(|(value, direction)| encoded(value, *direction)).collect()
            };
            let fields = a.iter().zip(&b).zip(&directions);
            let order = fields
                .map(|((a, b), direction)| direction.apply_to(value::compare(a.as_raw_bson_ref(), b.as_raw_bson_ref())))
                .find(|order| order.is_ne());
            prop_assert_eq!(joined(&a).cmp(&joined(&b)), order.unwrap_or(std::cmp::Ordering::Equal));
        }

        #[test]
        fn numbers_of_all_types_are_on_one_scale(a in number(), b in number()) {
            let (a, b) = (RawBson::try_from(a).unwrap(), RawBson::try_from(b).unwrap());
            let order = value::compare(a.as_raw_bson_ref(), b.as_raw_bson_ref());
            let key = |value| encoded(value, Direction::Ascending);
            prop_assert_eq!(key(&a).cmp(&key(&b)), order);
        }
    }

    /// The expected bytes follow the rule in `docs/format.md`. Do not copy them from the output of the code.
    #[test]
    fn encodings_stay_as_they_are_on_disk() {
        use Direction::{Ascending, Descending};
        let code = |code: &str| bson::JavaScriptCodeWithScope {
            code: code.into(),
            scope: bson::doc! {},
        };
        let pattern = bson::Regex {
            pattern: "a".try_into().unwrap(),
            options: "i".try_into().unwrap(),
        };
        let binary = |subtype, bytes: &[u8]| bson::Binary {
            subtype,
            bytes: bytes.to_vec(),
        };
        let md5 = BinarySubtype::Md5;
        let id = ObjectId::from_bytes(std::array::from_fn(|byte| byte as u8 + 1));
        let time = Timestamp {
            time: 1,
            increment: 2,
        };
        for (value, direction, expected) in [
            (Bson::MinKey, Ascending, "08"),
            (Bson::Undefined, Ascending, "10"),
            (Bson::Null, Ascending, "18"),
            (Bson::MaxKey, Ascending, "88"),
            (Bson::Int32(1), Ascending, "23 3ff0000000000000 00"),
            (Bson::Double(1.0), Ascending, "23 3ff0000000000000 00"),
            (Bson::Int64(1), Descending, "dc c00fffffffffffff ff"),
            (Bson::Int64(-1), Ascending, "21 c00fffffffffffff ff"),
            (
                Bson::Int64((1 << 53) + 1),
                Ascending,
                "23 4340000000000000 01 3fee 01bc16d674ec800de0b6b3a7640000",
            ),
            (Bson::Double(-0.0), Ascending, "22"),
            (Bson::Double(f64::NAN), Ascending, "20"),
            (
                Bson::Double(f64::INFINITY),
                Ascending,
                "23 7ff0000000000000 00",
            ),
            (
                Bson::Decimal128("0.1".parse().unwrap()),
                Ascending,
                "23 3fb9999999999999 01 3fde 00314dc6448d9338c15b0a00000000",
            ),
            (Bson::from("a\0"), Ascending, "28 61 00ff 0001"),
            (Bson::Symbol("a".into()), Ascending, "28 61 0001"),
            (Bson::from("a"), Descending, "d7 9e ff fe"),
            (
                bson::bson!({ "a": 1 }),
                Ascending,
                "30 20 61 0001 23 3ff0000000000000 00 00",
            ),
            (
                bson::bson!([1, {}]),
                Ascending,
                "38 23 3ff0000000000000 00 30 00 00",
            ),
            (
                binary(md5, &[0xff, 1]).into(),
                Ascending,
                "40 00000002 05 ff01",
            ),
            (
                binary(BinarySubtype::BinaryOld, &[7]).into(),
                Ascending,
                "40 00000005 02 07",
            ),
            (id.into(), Ascending, "48 0102030405060708090a0b0c"),
            (true.into(), Ascending, "50 01"),
            (
                DateTime::from_millis(0).into(),
                Ascending,
                "58 8000000000000000",
            ),
            (
                DateTime::from_millis(-1).into(),
                Ascending,
                "58 7fffffffffffffff",
            ),
            (time.into(), Ascending, "60 00000001 00000002"),
            (pattern.into(), Ascending, "68 61 0001 69 0001"),
            (Bson::JavaScriptCode("x".into()), Ascending, "78 78 0001"),
            (code("x").into(), Ascending, "80 78 0001 00"),
        ] {
            let raw = RawBson::try_from(value.clone()).unwrap();
            let key = encoded(&raw, direction);
            let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, expected.replace(' ', ""), "{value:?}");
        }
    }
}
