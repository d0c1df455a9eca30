//! Conversions between BSON and MongoDB's extended JSON, version 2.

use bson::{Bson, Document, RawDocument, RawDocumentBuf};
use serde_json::Value;

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

/// Returns a document as relaxed extended JSON.
pub(crate) fn to_relaxed(document: &RawDocument) -> Result<Value> {
    Ok(Bson::Document(decode(document)?).into_relaxed_extjson())
}

/// Returns a document as canonical extended JSON.
pub(crate) fn to_canonical(document: Document) -> Value {
    Bson::Document(document).into_canonical_extjson()
}

/// Returns a value as relaxed extended JSON.
pub(crate) fn value_to_relaxed(value: Bson) -> Value {
    value.into_relaxed_extjson()
}

/// Decodes a document.
pub(crate) fn decode(document: &RawDocument) -> Result<Document> {
    let decoded = Document::try_from(document);
    decoded.map_err(|error| Failure::problem(format!("a document cannot be read: {error}")))
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
