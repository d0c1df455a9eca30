//! Pipelines on documents that are not in a collection, such as lists of collections.

use bson::{RawArrayBuf, RawBson, RawDocumentBuf, rawdoc};
use odm_engine::{Aggregate, Database};

use crate::error::Result;

/// The name of the collection of a pipeline without a collection, as on MongoDB. No collection can have this name.
pub(crate) const NO_COLLECTION: &str = "$cmd.aggregate";

/// Returns a pipeline that runs stages on some documents.
pub(crate) fn pipeline_on(
    documents: impl IntoIterator<Item = RawDocumentBuf>,
    stages: &[RawDocumentBuf],
) -> Vec<RawDocumentBuf> {
    // A literal: the documents can have values that look like expressions.
    let documents = documents.into_iter();
    let documents: RawArrayBuf = documents
        .map(|document| rawdoc! { "$literal": document })
        .collect();
    let mut pipeline = vec![documents_stage(documents)];
    pipeline.extend_from_slice(stages);
    pipeline
}

/// Returns the first stage of a pipeline without a collection: the operand of `$documents` as the input. The engine has
/// `$documents` only in nested pipelines, so the stage is a union of a collection that does not exist with the documents.
pub(crate) fn documents_stage(documents: impl Into<RawBson>) -> RawDocumentBuf {
    rawdoc! { "$unionWith": { "pipeline": [{ "$documents": documents.into() }] } }
}

/// Returns the documents that match a filter.
///
/// # Errors
/// The filter is not valid.
pub(crate) fn matching(
    database: &Database,
    documents: Vec<RawDocumentBuf>,
    filter: Option<RawDocumentBuf>,
) -> Result<Vec<RawDocumentBuf>> {
    let Some(filter) = filter.filter(|filter| !filter.is_empty()) else {
        return Ok(documents);
    };
    let aggregate = Aggregate {
        pipeline: pipeline_on(documents, &[rawdoc! { "$match": filter }]),
        ..Aggregate::default()
    };
    let found = database.aggregate(NO_COLLECTION, &aggregate)?;
    Ok(found.collect::<Result<_, _>>()?)
}
