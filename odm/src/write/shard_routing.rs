//! Shard routing: a write of a single document must contain the shard key.

use bson::{RawBsonRef, RawDocument};

use crate::{Error, ErrorKind, Result, error, session::access::ModelAccess};

/// Returns an error if the filter of a single-document write lacks a field of the shard key.
///
/// A router of a cluster rejects such a write or asks all shards. The check runs on every backend, so the mistake shows before
/// the deployment to a cluster.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid), with the path of the missing field.
pub(super) fn ensure_shard_key(access: ModelAccess<'_>, filter: &RawDocument) -> Result<()> {
    let model = access.model;
    if model.shard_key.is_empty() {
        return Ok(());
    }
    // The scope field may be part of the shard key.
    let mut routed_filter = filter.to_owned();
    access.restrict_filter(model, &mut routed_filter)?;
    let mut fields = model.shard_key.iter();
    let Some(missing) = fields.find(|field| !requires_single_value(&routed_filter, field)) else {
        return Ok(());
    };
    let field = |stored: &str| {
        let mut fields = model.fields.iter();
        let field = fields.find(|(_, other)| *other == stored);
        field.map_or("", |(field, _)| field)
    };
    let key: Vec<_> = model.shard_key.iter().map(|stored| field(stored)).collect();
    let message = format!(
        "the filter of a single-document write lacks a field of the shard key ({}), so a cluster cannot route the write, and nothing was \
         written: add `.{}().eq(…)` for each field of the key, or use `…_many`",
        key.join(", "),
        field(missing),
    );
    let error = Error::new(ErrorKind::Invalid, message).with_path(*missing);
    Err(error::naming_model(model)(error))
}

/// Whether a filter requires a single value of a field, as a router recognizes.
fn requires_single_value(filter: &RawDocument, field: &str) -> bool {
    filter.iter().flatten().any(|(name, value)| match value {
        RawBsonRef::Document(operators) if name == field => {
            matches!(operators.get("$eq"), Ok(Some(_)))
        }
        RawBsonRef::Array(conditions) if name == "$and" => {
            let conditions = conditions.into_iter().flatten();
            conditions
                .filter_map(RawBsonRef::as_document)
                .any(|part| requires_single_value(part, field))
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn a_field_is_equal_to_one_value_at_the_top_or_below_an_and() {
        let equality = || rawdoc! { "a": { "$eq": 1 } };
        for filter in [
            equality(),
            rawdoc! { "b": 1, "a": { "$gt": 0, "$eq": 1 } },
            rawdoc! { "$and": [{ "b": 1 }, { "$and": [equality()] }] },
        ] {
            assert!(requires_single_value(&filter, "a"), "{filter:?}");
        }
        for filter in [
            rawdoc! {},
            rawdoc! { "a": { "$in": [1] } },
            rawdoc! { "a": { "$gte": 1, "$lte": 1 } },
            rawdoc! { "a.b": { "$eq": 1 } },
            rawdoc! { "$or": [equality()] },
            rawdoc! { "$nor": [equality()] },
            rawdoc! { "x": { "a": { "$eq": 1 } } },
        ] {
            assert!(!requires_single_value(&filter, "a"), "{filter:?}");
        }
    }
}
