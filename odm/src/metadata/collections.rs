//! The collections of the framework: the counters of sequence numbers, and the recorded declarations of derived fields.

use std::collections::BTreeMap;

use bson::{Bson, Document, RawBsonRef, RawDocumentBuf, doc};

use crate::{
    Result,
    language::query::{append_field, single_field_document},
    model::stored::to_raw_document,
};

/// The collection of the counters: one document for each sequence. The first insert with a number of the sequence creates the
/// counter; no code deletes a counter.
pub(crate) const SEQUENCES: &str = "_odm.sequences";

/// The field of a counter with the last reserved number. Each insert with a number increments the field.
pub(crate) const LAST_NUMBER: &str = "last";

/// Returns the `_id` of the counter of a model's collection and an id prefix.
pub(crate) fn id_sequence_id(collection: &str, prefix: &str) -> Result<RawDocumentBuf> {
    to_raw_document(&doc! { "collection": collection, "prefix": prefix })
}

/// Returns the `_id` of the counter of a numbered field. `per` is the stored field that selects the sequence, and its value. With the
/// name of the field, a model with another `per` does not continue the counters of the earlier field.
pub(crate) fn field_sequence_id(
    collection: &str,
    field: &str,
    per: Option<(&str, RawBsonRef<'_>)>,
) -> Result<RawDocumentBuf> {
    let mut id = to_raw_document(&doc! { "collection": collection, "field": field })?;
    if let Some((name, value)) = per {
        append_field(&mut id, "per", single_field_document(name, value)?)?;
    }
    Ok(id)
}

/// The collection of the recorded declarations: one document for each model with derived fields, with the name of the model as
/// `_id`. A complete repair writes the document; no code deletes the document.
pub(crate) const SCHEMA: &str = "_odm.schema";

/// Reads the declarations of a model: a description of each derived field, by stored path.
pub(crate) fn declarations_from_document(stored: &Document) -> BTreeMap<String, String> {
    let fields = stored.get_array("fields").ok().into_iter().flatten();
    let declarations = fields.filter_map(|field| {
        let field = field.as_document()?;
        let (path, declaration) = (field.get_str("field"), field.get_str("declaration"));
        Some((path.ok()?.to_owned(), declaration.ok()?.to_owned()))
    });
    declarations.collect()
}

/// Returns the operand of `$set` that records the declarations of a model.
pub(crate) fn set_declarations(declarations: BTreeMap<String, String>) -> Document {
    let fields = declarations.into_iter().map(|(path, declaration)| {
        Bson::Document(doc! { "field": path, "declaration": declaration })
    });
    doc! { "fields": fields.collect::<Vec<_>>() }
}
