//! Aggregations.

use ::mongodb::{ClientSession, Database, action::Action, bson::Document, options::Hint};
use bson::RawDocumentBuf;

use super::{
    cursor::{BatchSize, OpenedRead},
    error,
    read_options::with_read_options,
    to_driver_document,
};
use crate::{Result, backend::operation::AggregateOperation};

/// Opens the cursor of an aggregation: [`Executor::aggregate`](crate::backend::Executor::aggregate).
pub(super) async fn open_aggregate(
    database: &Database,
    aggregate: AggregateOperation,
    batches: BatchSize,
    session: &mut ClientSession,
) -> Result<OpenedRead> {
    let collection = database.collection::<Document>(&aggregate.collection);
    aggregate.ensure_reads()?;
    let stages = to_driver_stages(&aggregate.pipeline)?;
    let variables = match aggregate.variables.is_empty() {
        true => None,
        false => Some(to_driver_document(&aggregate.variables)?),
    };
    let action = collection
        .aggregate(stages)
        .optional(variables, |action, variables| action.let_vars(variables))
        .optional(batches.to_driver_size(None), |action, size| {
            action.batch_size(size)
        });
    let action = with_read_options!(action, aggregate.options)
        .optional(aggregate.options.hint, |action, name| {
            action.hint(Hint::Name(name))
        });
    let opened = match action.session(&mut *session).batch().await {
        Ok(rest) => OpenedRead::new(rest, session).await,
        Err(failure) => Err(error::from_driver(failure)),
    };
    opened.map_err(|error| error.with_collection(aggregate.collection))
}

/// Converts stages to the driver's type.
pub(super) fn to_driver_stages(stages: &[RawDocumentBuf]) -> Result<Vec<Document>> {
    stages
        .iter()
        .map(|stage| to_driver_document(stage))
        .collect()
}
