//! Numbers of documents that are older than the declaration of the sequence.

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf, doc, rawdoc};

use super::{Sequence, reserve_numbers};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{DocumentChange, OperationOrigin, Stage, UpdateOperation},
    error,
    language::query::{id_filter, single_field_document},
    model::stored::to_raw_document,
    schema::{Model, SequenceField, upgrade},
    session::access::{Access, ModelAccess, add_condition},
    write::{WriteRequest, narrow_filter},
};

/// Returns the numbered fields of a document without a number. An unreadable document is another finding.
pub(crate) fn missing_numbers(model: &Model, stored: &RawDocument) -> Vec<&'static str> {
    if model.sequences.is_empty() {
        return Vec::new();
    }
    let Ok(current) = upgrade::upgrade_for_read(model, stored) else {
        return Vec::new();
    };
    let fields = model.sequences.iter().map(|sequence| sequence.stored);
    let missing = fields.filter(|field| {
        matches!(
            current.get(*field),
            Ok(None | Some(RawBsonRef::Null | RawBsonRef::Undefined))
        )
    });
    missing.collect()
}

/// Assigns the next number to a document without a number. Returns whether the document changed.
///
/// The update requires that the number is still missing: two repairs at once assign a single number, and the second number is a
/// gap.
pub(crate) async fn assign_missing_number(
    access: ModelAccess<'_>,
    document: &RawBson,
    sequence: &SequenceField,
) -> Result<bool> {
    let model = access.model;
    let mut filter = id_filter(document);
    add_condition(&mut filter, sequence.stored, rawdoc! { "$eq": null })?;
    let Some(sequence) = find_sequence(access, filter.clone(), sequence).await? else {
        return Ok(false);
    };
    let number = reserve_numbers(access, &sequence, 1).await?;
    let update = doc! { "$set": { sequence.field: number } };
    let write = UpdateOperation {
        collection: model.collection.into(),
        filter,
        change: DocumentChange::operators(to_raw_document(&update)?),
        multi: false,
        upsert: false,
        origin: OperationOrigin::default(),
    };
    let outcome = WriteRequest::exact(model, write)
        .run(Access::clone(&access))
        .await?;
    Ok(outcome.matched > 0)
}

/// Returns the sequence of the document that a filter finds. `None` if the filter finds no document.
async fn find_sequence(
    access: ModelAccess<'_>,
    mut filter: RawDocumentBuf,
    sequence: &SequenceField,
) -> Result<Option<Sequence>> {
    let model = access.model;
    narrow_filter(access, &mut filter).await?;
    let read = sequence.per.unwrap_or("_id");
    let find = access
        .find_matching(&filter)
        .with_origin(Stage::SEQUENCES.step("read the field of `per`"))
        .with_projection(single_field_document(read, 1)?);
    let found = access.find_all(find).await?;
    let Some(document) = found.first() else {
        return Ok(None);
    };
    let Some(per) = sequence.per else {
        return Sequence::of_field(model, sequence, None).map(Some);
    };
    let key = document.get(per).map_err(error::from_bson)?;
    if key.is_none_or(|key| key == RawBsonRef::Null) {
        let message = "the document has no value that selects the sequence of its number: set the field, and repair again";
        let error = Error::new(ErrorKind::Invalid, message).with_path(per);
        return Err(error::naming_model(model)(error));
    }
    Sequence::of_field(model, sequence, key).map(Some)
}
