//! Conversions between BSON and MongoDB's extended JSON, version 2.

use std::error::Error;

use bson::{Bson, DateTime, Document, RawBsonRef, RawDocument, RawDocumentBuf};
use serde::ser::{Error as _, SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::failure::{Failure, Result};

/// Parses an argument with a document, in relaxed or canonical form.
pub(crate) fn parse_document(argument: &str, text: &str) -> Result<RawDocumentBuf> {
    match parse(argument, text)? {
        Bson::Document(document) => encode(argument, &document),
        _ => Err(Failure::Usage(format!(
            "the {argument} is not a document; write {{…}}"
        ))),
    }
}

/// Parses an argument with an array of documents.
pub(crate) fn parse_documents(argument: &str, text: &str) -> Result<Vec<RawDocumentBuf>> {
    let wrong_type = || {
        let message = format!("the {argument} is not an array of documents; write [{{…}}, {{…}}]");
        Failure::Usage(message)
    };
    let Bson::Array(elements) = parse(argument, text)? else {
        return Err(wrong_type());
    };
    let elements = elements.iter().map(|element| match element {
        Bson::Document(document) => encode(argument, document),
        _ => Err(wrong_type()),
    });
    elements.collect()
}

/// The last date with a text in relaxed extended JSON, in milliseconds: the end of the year 9999.
const MAX_TEXT_DATE: i64 = 253_402_300_799_999;

/// Serializes as a document in relaxed extended JSON. The fields are those of the document, also fields with the same name.
pub(crate) struct Relaxed<'a>(pub(crate) &'a RawDocument);

impl Serialize for Relaxed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for element in self.0.iter_elements() {
            let element = element.map_err(S::Error::custom)?;
            let value = element.value().map_err(S::Error::custom)?;
            map.serialize_entry(element.key().as_str(), &RelaxedValue(value))?;
        }
        map.end()
    }
}

/// Serializes as a value in relaxed extended JSON.
pub(crate) struct RelaxedValue<'a>(pub(crate) RawBsonRef<'a>);

impl Serialize for RelaxedValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            RawBsonRef::Document(document) => Relaxed(document).serialize(serializer),
            RawBsonRef::Array(array) => {
                let mut sequence = serializer.serialize_seq(None)?;
                for element in array {
                    let element = element.map_err(S::Error::custom)?;
                    sequence.serialize_element(&RelaxedValue(element))?;
                }
                sequence.end()
            }
            RawBsonRef::JavaScriptCodeWithScope(code) => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("$code", code.code)?;
                map.serialize_entry("$scope", &Relaxed(code.scope))?;
                map.end()
            }
            RawBsonRef::DateTime(date) if !has_text(date) => {
                let milliseconds = date.timestamp_millis().to_string();
                json!({ "$date": { "$numberLong": milliseconds } }).serialize(serializer)
            }
            value => {
                let value = Bson::try_from(value).map_err(S::Error::custom)?;
                value.into_relaxed_extjson().serialize(serializer)
            }
        }
    }
}

/// Whether the text of a date is the date: `bson` replaces later dates by the end of the year 9999.
pub(crate) fn has_text(date: DateTime) -> bool {
    date.timestamp_millis() <= MAX_TEXT_DATE
}

/// Returns a document as relaxed extended JSON.
pub(crate) fn to_relaxed(document: &RawDocument) -> Result<Value> {
    serde_json::to_value(Relaxed(document)).map_err(|error| unreadable(&error))
}

/// Returns the failure of a document that is not valid BSON.
pub(crate) fn unreadable(error: &dyn Error) -> Failure {
    Failure::problem(format!("a document cannot be read: {error}"))
}

/// Returns a document as canonical extended JSON.
pub(crate) fn to_canonical(document: Document) -> Value {
    Bson::Document(document).into_canonical_extjson()
}

/// Decodes a document.
pub(crate) fn decode(document: &RawDocument) -> Result<Document> {
    let decoded = Document::try_from(document);
    decoded.map_err(|error| unreadable(&error))
}

fn parse(argument: &str, text: &str) -> Result<Bson> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| Failure::Usage(format!("the {argument} is not JSON: {error}")))?;
    Bson::try_from(value)
        .map_err(|error| Failure::Usage(format!("the {argument} is not extended JSON: {error}")))
}

fn encode(argument: &str, document: &Document) -> Result<RawDocumentBuf> {
    let encoded = RawDocumentBuf::try_from(document);
    encoded.map_err(|error| Failure::Usage(format!("the {argument} cannot be encoded: {error}")))
}
