//! The check and the repair of computed fields and caseless texts.

use bson::{Bson, RawBson, RawBsonRef, RawDocumentBuf, doc};

use super::{computing_stages, equality_condition};
use crate::{
    Result,
    backend::operation::{DocumentChange, Stage, UpdateOperation},
    error,
    language::query::{id_filter, same_bytes, single_field_document},
    metadata::caseless_path,
    model::caseless::value_without_case,
    schema::{
        Model,
        computed::evaluate::{evaluate_field, with_field},
        upgrade,
    },
    session::access::{ModelAccess, add_condition},
    write::{
        metadata_update::{MetadataUpdate, apply_update, parse_document, to_raw_value, value_at},
        narrow_filter,
    },
};

/// A computed field with a wrong value.
#[derive(Debug, Clone)]
pub(crate) struct WrongComputedField {
    pub(crate) path: String,
    pub(crate) actual: Bson,
    /// The expected value; `None` if the value does not fit into the field.
    pub(crate) expected: Option<Bson>,
}

/// Returns the computed fields of a document that have a wrong value.
pub(crate) fn find_wrong_fields(
    model: &Model,
    stored: &RawDocumentBuf,
) -> Result<Vec<WrongComputedField>> {
    if model.computed.is_empty() && model.caseless.is_empty() {
        return Ok(Vec::new());
    }
    let current = upgrade::upgrade_for_read(model, stored)?;
    let mut corrected = current.clone().into_owned();
    let mut findings = Vec::new();
    for field in model.computed {
        let expected = evaluate_field(field, &corrected).ok();
        let actual = current.get(field.stored).map_err(error::from_bson)?;
        if let Some(expected) = &expected {
            let expected = to_raw_value(expected)?;
            if actual.is_some_and(|actual| is_equal_value(actual, expected.as_raw_bson_ref())) {
                continue;
            }
            // Compute later fields from the expected value, not from the wrong one.
            corrected = with_field(&corrected, field.stored, expected)?;
        }
        findings.push(WrongComputedField {
            path: field.stored.to_owned(),
            actual: actual
                .map_or(Ok(Bson::Null), Bson::try_from)
                .map_err(error::from_bson)?,
            expected,
        });
    }
    if model.caseless.is_empty() {
        return Ok(findings);
    }
    let document = parse_document(&current)?;
    for field in model.caseless {
        let path = caseless_path(field);
        let expected = value_without_case(document.get(field)).map_or(Bson::Null, Bson::String);
        let actual = value_at(&document, &path).cloned().unwrap_or(Bson::Null);
        if actual != expected {
            findings.push(WrongComputedField {
                path,
                actual,
                expected: Some(expected),
            });
        }
    }
    Ok(findings)
}

/// Whether two values are equal. Zeros are equal, and so are NaNs: the sign does not matter.
fn is_equal_value(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> bool {
    match (a, b) {
        (RawBsonRef::Double(a), RawBsonRef::Double(b)) => a == b || a.is_nan() && b.is_nan(),
        (a, b) => same_bytes(a, b),
    }
}

/// Computes the fields of a document again, if the field at `path` still has the value that was found. Returns whether the
/// document changed.
pub(crate) async fn recompute_fields(
    access: ModelAccess<'_>,
    document: &RawBson,
    path: &str,
    actual: &Bson,
) -> Result<bool> {
    let model = access.model;
    let mut caseless = model.caseless.iter();
    if let Some(field) = caseless.find(|field| caseless_path(field) == path) {
        return store_caseless_again(access, document, field).await;
    }
    let fields: Vec<_> = model.computed.iter().map(|field| field.stored).collect();
    let mut filter = id_filter(document);
    add_condition(&mut filter, path, equality_condition(actual)?)?;
    narrow_filter(access, &mut filter).await?;
    let update = UpdateOperation {
        collection: model.collection.into(),
        filter,
        change: DocumentChange::Pipeline(computing_stages(model, &fields)?),
        multi: false,
        upsert: false,
        origin: Stage::COMPUTED.step("compute again"),
    };
    let result = access.update(update).await;
    let result =
        result.map_err(|error| error::naming_model(model)(super::expression_error(error)))?;
    Ok(result.modified > 0)
}

/// Stores the caseless form of a text again. A concurrent write of the text stores the caseless form by itself, so the update requires
/// the text that was read.
async fn store_caseless_again(
    access: ModelAccess<'_>,
    document: &RawBson,
    field: &str,
) -> Result<bool> {
    let mut filter = id_filter(document);
    let find = access
        .find_matching(&filter)
        .with_origin(Stage::COMPUTED.step("read the text"))
        .with_projection(single_field_document(field, 1)?);
    let found = access.find_all(find).await?;
    let Some(found) = found.first().map(|raw| parse_document(raw)).transpose()? else {
        return Ok(false);
    };
    let text = found.get(field);
    add_condition(
        &mut filter,
        field,
        equality_condition(text.unwrap_or(&Bson::Null))?,
    )?;
    let path = caseless_path(field);
    let update = match value_without_case(text) {
        Some(caseless) => doc! { "$set": { path: caseless } },
        None => doc! { "$unset": { path: "" } },
    };
    let origin = Stage::COMPUTED.step("store the caseless text again");
    Ok(apply_update(access, MetadataUpdate::new(origin, filter, update)).await? > 0)
}
