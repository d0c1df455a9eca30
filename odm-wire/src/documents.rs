//! Pipelines on documents that are not in a collection, such as lists of collections.

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use odm_engine::{Aggregate, Database};

use crate::error::Result;

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
    let mut pipeline = vec![rawdoc! { "$documents": documents }];
    pipeline.extend_from_slice(stages);
    pipeline
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
    let found = database.aggregate("documents", &aggregate)?;
    Ok(found.collect::<Result<_, _>>()?)
}
