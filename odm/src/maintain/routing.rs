//! Writes of one document of a sharded model: each says on which shard it is.

use bson::{RawBsonRef, RawDocument};

use crate::{Error, ErrorKind, Result, access::Access, error, schema::Model};

/// Refuses a filter for one document that does not have the whole shard key of the model.
///
/// A router of a cluster refuses it as well, or asks all shards. It is refused wherever the model is, so that nobody learns that on
/// the cluster alone; and no write by id gets here without the key, however it was made.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid), with the path of the field.
pub(super) fn refuse_unrouted(access: &Access, model: &Model, filter: &RawDocument) -> Result<()> {
    if model.shard_key.is_empty() {
        return Ok(());
    }
    // The scope may be part of the key.
    let mut narrowed = filter.to_owned();
    access.narrow(model, &mut narrowed)?;
    let mut fields = model.shard_key.iter();
    let Some(missing) = fields.find(|field| !equates(&narrowed, field)) else {
        return Ok(());
    };
    let field = |stored: &str| {
        let mut fields = model.fields.iter();
        let field = fields.find(|(_, other)| *other == stored);
        field.map_or("", |(field, _)| field)
    };
    let key: Vec<_> = model.shard_key.iter().map(|stored| field(stored)).collect();
    let message = format!(
        "the write is of one document of a model with the shard key ({}), and its condition does not say on which shard of a cluster \
         that is: ask for one value of each field of the key, `.{}().eq(…)`, or write to all documents that match by `…_many`; \
         nothing was written",
        key.join(", "),
        field(missing),
    );
    let error = Error::new(ErrorKind::Invalid, message).with_path(*missing);
    Err(error::of(model)(error))
}

/// Whether only documents match that have one certain value in the field, as a router sees it.
fn equates(filter: &RawDocument, field: &str) -> bool {
    filter.iter().flatten().any(|(name, value)| match value {
        RawBsonRef::Document(operators) if name == field => {
            matches!(operators.get("$eq"), Ok(Some(_)))
        }
        RawBsonRef::Array(all) if name == "$and" => {
            let all = all.into_iter().flatten();
            all.filter_map(RawBsonRef::as_document)
                .any(|part| equates(part, field))
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
        let eq = || rawdoc! { "a": { "$eq": 1 } };
        for said in [
            eq(),
            rawdoc! { "b": 1, "a": { "$gt": 0, "$eq": 1 } },
            rawdoc! { "$and": [{ "b": 1 }, { "$and": [eq()] }] },
        ] {
            assert!(equates(&said, "a"), "{said:?}");
        }
        for unsaid in [
            rawdoc! {},
            rawdoc! { "a": { "$in": [1] } },
            rawdoc! { "a": { "$gte": 1, "$lte": 1 } },
            rawdoc! { "a.b": { "$eq": 1 } },
            rawdoc! { "$or": [eq()] },
            rawdoc! { "$nor": [eq()] },
            rawdoc! { "x": { "a": { "$eq": 1 } } },
        ] {
            assert!(!equates(&unsaid, "a"), "{unsaid:?}");
        }
    }
}
