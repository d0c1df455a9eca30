//! The check and the repair of computed fields.

use bson::{Bson, RawBson, RawBsonRef, RawDocumentBuf};

use super::{computing_stages, equality_condition};
use crate::{
    Result,
    backend::operation::{DocumentChange, Stage, UpdateOperation},
    error,
    language::query::{id_filter, same_bytes},
    schema::{
        Model,
        computed::evaluate::{evaluate_field, with_field},
        upgrade,
    },
    session::access::{ModelAccess, add_condition},
    write::{metadata_update::to_raw_value, narrow_filter},
};

/// A computed field with a wrong value.
#[derive(Debug, Clone)]
pub(crate) struct WrongComputedField {
    pub(crate) path: &'static str,
    pub(crate) actual: Bson,
    /// The expected value; `None` if the value does not fit into the field.
    pub(crate) expected: Option<Bson>,
}

/// Returns the computed fields of a document that have a wrong value.
pub(crate) fn find_wrong_fields(
    model: &Model,
    stored: &RawDocumentBuf,
) -> Result<Vec<WrongComputedField>> {
    if model.computed.is_empty() {
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
            path: field.stored,
            actual: actual
                .map_or(Ok(Bson::Null), Bson::try_from)
                .map_err(error::from_bson)?,
            expected,
        });
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
