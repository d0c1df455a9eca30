//! Reads with a condition on so many related documents that the ids do not fit into a condition.
//!
//! A `$lookup` stage adds an array to each document: empty, or with the first related document that meets the condition. The filter
//! then compares the array with the empty array. So the read is an aggregate, and works on any number of documents.

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use crate::{
    Error, ErrorKind, Result,
    backend::operation::{AggregateOperation, CountOperation, FindOperation, ReadOptions},
    language::query::{append_field, limit_stage, single_field_document},
};

/// The beginning of the names of the arrays. A number follows.
const ARRAY_NAME: &str = "_odm_related";

/// The field with the result of a count.
const COUNT: &str = "count";

/// Returns the name of the array for a lookup, by the number of the lookups before.
pub(crate) fn array_name(number: usize) -> String {
    format!("{ARRAY_NAME}{number}")
}

/// Returns the stage that adds the array with the first document in `from` that the stages return.
pub(crate) fn lookup_stage(
    from: &str,
    (local, foreign): (&str, &str),
    mut stages: Vec<RawDocumentBuf>,
    array: &str,
) -> Result<RawDocumentBuf> {
    stages.push(rawdoc! { "$limit": 1 });
    stages.push(rawdoc! { "$project": { "_id": 1 } });
    let lookup = rawdoc! {
        "from": from,
        "localField": local,
        "foreignField": foreign,
        "pipeline": array_of(stages),
        "as": array,
    };
    single_field_document("$lookup", lookup)
}

/// Whether a read needs the arrays of related documents.
pub(crate) fn is_used(options: &ReadOptions) -> bool {
    !options.lookups.is_empty()
}

/// Fails for a read that has not become an aggregate: without the arrays, the filter would match other documents.
pub(crate) fn ensure_applied(options: &ReadOptions) -> Result<()> {
    if !is_used(options) {
        return Ok(());
    }
    let message = "this kind of read cannot search related documents: narrow the condition on related documents";
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Returns a query as an aggregate.
pub(crate) fn find_as_aggregate(mut find: FindOperation) -> Result<AggregateOperation> {
    let lookups = std::mem::take(&mut find.options.lookups);
    let mut stages = Vec::new();
    // The sort comes first: an index can have the order, and then a limit ends the search for related documents.
    let sort = find.sort.map(|sort| single_field_document("$sort", sort));
    add_filter(&mut stages, find.filter, lookups, sort.transpose()?)?;
    stages.extend(limit_stage(find.limit)?);
    if let Some(projection) = find.projection {
        stages.push(single_field_document("$project", projection)?);
    }
    Ok(AggregateOperation {
        collection: find.collection,
        pipeline: stages,
        variables: RawDocumentBuf::new(),
        options: find.options,
    })
}

/// Returns a count as an aggregate, for [`counted`].
pub(crate) fn count_as_aggregate(count: CountOperation) -> Result<AggregateOperation> {
    let find = FindOperation {
        collection: count.collection,
        filter: count.filter,
        projection: None,
        sort: None,
        limit: count.limit,
        options: count.options,
    };
    let mut aggregate = find_as_aggregate(find)?;
    aggregate
        .pipeline
        .push(single_field_document("$count", COUNT)?);
    Ok(aggregate)
}

/// Returns the result of a count. Without documents, the aggregate returns no row.
pub(crate) fn counted(rows: &[RawDocumentBuf]) -> Result<u64> {
    let Some(row) = rows.first() else {
        return Ok(0);
    };
    let count = match row.get(COUNT) {
        Ok(Some(RawBsonRef::Int32(count))) => u64::try_from(count).ok(),
        Ok(Some(RawBsonRef::Int64(count))) => u64::try_from(count).ok(),
        _ => None,
    };
    count.ok_or_else(|| {
        let message = "the backend returned a malformed count: expected `{count: <integer>}`";
        Error::new(ErrorKind::Decode, message)
    })
}

/// Returns the part of a query before the search for related documents, to explain the part.
pub(crate) fn part_before(mut find: FindOperation) -> Result<FindOperation> {
    find.options.lookups.clear();
    Ok(FindOperation {
        filter: conditions_before(&find.filter)?.unwrap_or_default(),
        limit: None,
        ..find
    })
}

/// Adds the lookups of the options to an aggregate that begins with the filter.
pub(crate) fn add_lookups(aggregate: &mut AggregateOperation) -> Result<()> {
    let lookups = std::mem::take(&mut aggregate.options.lookups);
    if lookups.is_empty() {
        return Ok(());
    }
    let mut stages = std::mem::take(&mut aggregate.pipeline).into_iter();
    let filter = stages.next();
    let filter = filter
        .as_ref()
        .and_then(|stage| stage.get_document("$match").ok());
    let Some(filter) = filter.map(RawDocument::to_owned) else {
        let message = "an aggregate with a condition on related documents begins with the filter";
        return Err(Error::new(ErrorKind::Backend, message));
    };
    add_filter(&mut aggregate.pipeline, filter, lookups, None)?;
    aggregate.pipeline.extend(stages);
    Ok(())
}

/// Adds the stages of a filter: the conditions that need no array, the order, the arrays, and all conditions.
pub(crate) fn add_filter(
    stages: &mut Vec<RawDocumentBuf>,
    filter: RawDocumentBuf,
    lookups: Vec<RawDocumentBuf>,
    sort: Option<RawDocumentBuf>,
) -> Result<()> {
    let match_stage = |filter| single_field_document("$match", filter);
    if lookups.is_empty() {
        // Add no empty `$match`: some stages must come first.
        if !filter.is_empty() {
            stages.push(match_stage(filter)?);
        }
        stages.extend(sort);
        return Ok(());
    }
    if let Some(before) = conditions_before(&filter)? {
        stages.push(match_stage(before)?);
    }
    stages.extend(sort);
    let arrays = (0..lookups.len()).map(|number| RawBson::String(array_name(number)));
    let arrays: RawArrayBuf = arrays.collect();
    stages.extend(lookups);
    stages.push(match_stage(filter)?);
    stages.push(single_field_document("$unset", arrays)?);
    Ok(())
}

/// Returns the conditions of a filter that read no array of related documents. `None` without such a condition.
fn conditions_before(filter: &RawDocument) -> Result<Option<RawDocumentBuf>> {
    let mut before = RawDocumentBuf::new();
    for (name, value) in filter.iter().flatten() {
        match value {
            RawBsonRef::Array(conditions) if name == "$and" => {
                let mut kept = RawArrayBuf::new();
                for condition in conditions.into_iter().flatten() {
                    let condition = condition.as_document().map(conditions_before);
                    if let Some(condition) = condition.transpose()?.flatten() {
                        kept.push(condition);
                    }
                }
                if !kept.is_empty() {
                    append_field(&mut before, "$and", kept)?;
                }
            }
            _ if reads_array(name.as_str(), value) => {}
            _ => append_field(&mut before, name.as_str(), RawBson::from(value))?,
        }
    }
    Ok((!before.is_empty()).then_some(before))
}

/// Whether a condition reads an array of related documents.
fn reads_array(name: &str, value: RawBsonRef<'_>) -> bool {
    name.starts_with(ARRAY_NAME)
        || match value {
            RawBsonRef::Document(document) => {
                let mut fields = document.iter().flatten();
                fields.any(|(name, value)| reads_array(name.as_str(), value))
            }
            RawBsonRef::Array(values) => {
                let mut values = values.into_iter().flatten();
                values.any(|value| reads_array("", value))
            }
            _ => false,
        }
}

fn array_of(stages: Vec<RawDocumentBuf>) -> RawArrayBuf {
    stages.into_iter().map(RawBson::Document).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_without_arrays_come_first() {
        let filter = rawdoc! {
            "price": { "$gt": 3 },
            "_odm_related0": { "$ne": [] },
            "$and": [
                { "$or": [{ "_odm_related1": { "$ne": [] } }, { "price": 9 }] },
                { "stock": 1, "_odm_related1": { "$ne": [] } },
            ],
            "$nor": [{ "_odm_related1": { "$ne": [] } }],
        };
        let expected = rawdoc! { "price": { "$gt": 3 }, "$and": [{ "stock": 1 }] };
        assert_eq!(conditions_before(&filter).unwrap(), Some(expected));
        let only_arrays = rawdoc! { "_odm_related0": { "$ne": [] } };
        assert_eq!(conditions_before(&only_arrays).unwrap(), None);
    }

    #[test]
    fn a_malformed_count_is_an_error() {
        assert_eq!(counted(&[]).unwrap(), 0);
        assert_eq!(counted(&[rawdoc! { "count": 3 }]).unwrap(), 3);
        let error = counted(&[rawdoc! { "count": "3" }]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode);
    }
}
