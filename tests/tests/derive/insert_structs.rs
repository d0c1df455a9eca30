//! Insert structs are read as serde's derive reads a struct with the same fields.

use std::fmt::Debug;

use odm::{
    bson::{self, Bson, Document},
    prelude::*,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
struct Place {
    street: String,
    floor: Option<i32>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "visits", version)]
struct Visit {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(rename = "who")]
    name: String,
    note: Option<String>,
    #[serde(default)]
    #[embed(max = 10)]
    tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rating: Option<f64>,
    #[embed]
    place: Place,
    version: i64,
}

/// The same fields, read by serde's derive.
#[allow(dead_code, reason = "only `Debug` reads the fields")]
mod derived {
    use super::*;

    #[derive(Debug, Deserialize)]
    pub(super) struct NewVisit {
        #[serde(rename = "_id")]
        id: i64,
        #[serde(rename = "who")]
        name: String,
        note: Option<String>,
        #[serde(default)]
        tags: Vec<String>,
        #[serde(default)]
        rating: Option<f64>,
        place: Place,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct NewStrict {
        #[serde(rename = "_id")]
        id: i64,
        name: String,
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "strict", version, deny_unknown_fields)]
struct Strict {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    version: i64,
}

fn text<T: Debug, E: ToString>(result: Result<T, E>) -> Result<String, String> {
    let result = result.map(|value| format!("{value:?}"));
    result.map_err(|error| error.to_string())
}

/// Returns the same value or error of both types, from JSON text and from BSON.
fn read_alike<T: Debug + DeserializeOwned, D: Debug + DeserializeOwned>(
    json: &str,
) -> Result<String, String> {
    let read = text(serde_json::from_str::<T>(json));
    assert_eq!(read, text(serde_json::from_str::<D>(json)), "{json}");
    if let Ok(value) = serde_json::from_str::<Value>(json) {
        let by_value = text(serde_json::from_value::<T>(value.clone()));
        assert_eq!(
            by_value,
            text(serde_json::from_value::<D>(value.clone())),
            "{json}"
        );
        let bson = Bson::try_from(value).unwrap();
        let by_bson = text(bson::deserialize_from_bson::<T>(bson.clone()));
        assert_eq!(
            by_bson,
            text(bson::deserialize_from_bson::<D>(bson)),
            "{json}"
        );
    }
    read
}

#[test]
fn insert_structs_are_read_as_by_serde() {
    let place = r#""place": { "street": "x" }"#;
    let read = read_alike::<NewVisit, derived::NewVisit>;
    let mut outcomes = Vec::new();
    for fields in [
        r#""_id": 1, "who": "Ann", "note": "hi", "tags": ["a"], "rating": 2.5"#,
        r#""who": "Ann", "_id": 1"#,
        r#""_id": 1, "who": "Ann", "note": null, "rating": null"#,
        r#""_id": 1, "who": "Ann", "other": [1, { "a": 2 }], "version": 7"#,
        r#""_id": 1"#,
        r#""_id": 1, "name": "Ann""#,
        r#""_id": 1, "who": "Ann", "who": "Bob""#,
        r#""_id": 1, "_id": 1, "who": "Ann""#,
        r#""_id": "1", "who": "Ann""#,
        r#""_id": 1, "who": null"#,
        r#""_id": 1, "who": "Ann", "tags": null"#,
        r#""_id": 1, "who": "Ann", "tags": [7]"#,
        r#""_id": 1.5, "who": "Ann""#,
        r#""_id": 1, "who": "Ann", "place": {}"#,
    ] {
        outcomes.push(read(&format!("{{ {fields}, {place} }}")).is_ok());
        outcomes.push(read(&format!("{{ {fields} }}")).is_ok());
    }
    for other in [
        r#"[1, "Ann", null, [], 2.5, ["x", 1]]"#,
        r#"[1, "Ann", "hi", ["a"], null, { "street": "x" }]"#,
        r#"[1, "Ann", "hi", ["a"], null, { "street": "x" }, 7]"#,
        r#"[1, "Ann", "hi"]"#,
        "[]",
        "7",
        "null",
        "\"text\"",
        "{",
        r#"{ "_id": 1, "who": "#,
    ] {
        outcomes.push(read(other).is_ok());
    }
    let accepted = outcomes.iter().filter(|accepted| **accepted).count();
    assert_eq!(accepted, 6, "{outcomes:?}");
}

#[test]
fn unknown_fields_are_denied_as_by_serde() {
    let read = read_alike::<NewStrict, derived::NewStrict>;
    read(r#"{ "_id": 1, "name": "a" }"#).unwrap();
    read(r#"[1, "a"]"#).unwrap();
    for json in [
        r#"{ "_id": 1, "name": "a", "version": 2 }"#,
        r#"{ "_id": 1, "other": "a" }"#,
        r#"{ "other": 1 }"#,
    ] {
        let error = read(json).unwrap_err();
        assert!(error.contains("unknown field"), "{error}");
    }
}

/// A struct that flattens an insert struct gives it only the fields that it has no field for.
#[test]
fn an_insert_struct_can_be_flattened() {
    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only `Debug` reads the fields")]
    struct Request<N> {
        token: String,
        #[serde(flatten)]
        new: N,
    }
    let json = json!({ "token": "t", "_id": 1, "name": "a" }).to_string();
    let flattened = read_alike::<Request<NewStrict>, Request<derived::NewStrict>>(&json);
    assert!(flattened.unwrap().contains("name: \"a\""));
    let missing = json!({ "token": "t", "name": "a" }).to_string();
    read_alike::<Request<NewStrict>, Request<derived::NewStrict>>(&missing).unwrap_err();
}

/// Formats without names of fields give their positions, and formats with names as bytes give the bytes.
#[test]
fn names_can_be_positions_or_bytes() {
    use serde::de::{
        IntoDeserializer,
        value::{BytesDeserializer, Error, MapDeserializer, U64Deserializer},
    };
    fn by_position<T: DeserializeOwned + Debug>(names: [u64; 2]) -> Result<String, String> {
        let keys = names.map(|name| -> U64Deserializer<Error> { name.into_deserializer() });
        text(T::deserialize(MapDeserializer::new(
            keys.into_iter().zip([1_i64, 1]),
        )))
    }
    fn by_bytes<T: DeserializeOwned + Debug>(names: [&[u8]; 2]) -> Result<String, String> {
        let keys = names.map(|name| -> BytesDeserializer<'_, Error> { name.into_deserializer() });
        text(T::deserialize(MapDeserializer::new(
            keys.into_iter().zip([1_i64, 1]),
        )))
    }
    for names in [[0, 1], [0, 7], [1, 0], [0, 0]] {
        assert_eq!(
            by_position::<NewStrict>(names),
            by_position::<derived::NewStrict>(names),
            "{names:?}"
        );
    }
    let names: [[&[u8]; 2]; 3] = [[b"_id", b"name"], [b"_id", b"other"], [b"_id", b"\xff"]];
    for names in names {
        assert_eq!(
            by_bytes::<NewStrict>(names),
            by_bytes::<derived::NewStrict>(names)
        );
    }
}

#[test]
fn missing_ids_are_errors_of_documents_too() {
    let error = bson::deserialize_from_document::<NewVisit>(Document::new()).unwrap_err();
    assert!(error.to_string().contains("missing field `_id`"), "{error}");
}
