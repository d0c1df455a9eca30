//! Pipelines.

use ::mongodb::{ClientSession, Database, action::Action, bson::Document};
use bson::RawDocumentBuf;

use super::{
    cursor::{Batches, Opened},
    decode, error, milliseconds,
};
use crate::{Error, ErrorKind, Result, backend::operation::Aggregate};

/// See [`Executor::aggregate`](crate::backend::Executor::aggregate).
pub(super) async fn aggregate(
    database: &Database,
    aggregate: Aggregate,
    batches: Batches,
    session: &mut ClientSession,
) -> Result<Opened> {
    let collection = database.collection::<Document>(&aggregate.collection);
    let stages = stages(&aggregate.pipeline)?;
    if let Some(name) = stages
        .iter()
        .flat_map(Document::keys)
        .find(|name| writes(name))
    {
        let message = format!("the stage {name} writes, and an aggregation only reads");
        return Err(
            Error::new(ErrorKind::Unsupported, message).with_collection(aggregate.collection)
        );
    }
    let variables = match aggregate.variables.is_empty() {
        true => None,
        false => Some(decode(&aggregate.variables)?),
    };
    let action = collection
        .aggregate(stages)
        .optional(variables, |action, variables| action.let_vars(variables))
        .optional(batches.size(None), |action, size| action.batch_size(size))
        .optional(aggregate.max_time, |action, max_time| {
            action.max_time(milliseconds(max_time))
        });
    let opened = match action.session(&mut *session).batch().await {
        Ok(rest) => Opened::new(rest, session).await,
        Err(failure) => Err(error::from_driver(failure)),
    };
    opened.map_err(|error| error.with_collection(aggregate.collection))
}

/// Stages as the driver wants them.
pub(super) fn stages(stages: &[RawDocumentBuf]) -> Result<Vec<Document>> {
    stages.iter().map(|stage| decode(stage)).collect()
}

fn writes(stage: &str) -> bool {
    matches!(stage, "$merge" | "$out")
}
