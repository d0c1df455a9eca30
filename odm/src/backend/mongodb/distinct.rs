//! Distinct values.

use ::mongodb::{
    ClientSession, Database,
    action::Action,
    bson::{Bson, Document, doc},
    error::{Error as DriverError, ErrorKind as DriverErrorKind},
};
use bson::{RawBson, RawDocumentBuf};

use super::{
    cursor::{BatchSize, OpenedRead},
    error,
    read_options::with_read_options,
    to_driver_document,
};
use crate::{Error, ErrorKind, Result, backend::operation::DistinctOperation};

/// MongoDB's code for distinct values that do not fit in one reply.
const DISTINCT_TOO_BIG_CODE: i32 = 17217;

/// The result of the `distinct` command.
pub(super) enum DistinctValues {
    /// All distinct values.
    All(Vec<RawBson>),
    /// The distinct values do not fit in one reply.
    TooBig,
}

/// Reads the distinct values of a field: [`Executor::distinct`](crate::backend::Executor::distinct).
///
/// The command is the fastest read of a few values from an index, but its reply is limited to 16 MiB.
pub(super) async fn read_distinct(
    database: &Database,
    distinct: &DistinctOperation,
    session: &mut ClientSession,
) -> Result<DistinctValues> {
    let collection = database.collection::<Document>(&distinct.collection);
    distinct.options.ensure_no_hint("`distinct`")?;
    let action = collection.distinct(&distinct.path, to_driver_document(&distinct.filter)?);
    let action = with_read_options!(action, distinct.options);
    let values = match action.session(session).await {
        Ok(values) => values,
        Err(failure) if is_too_big(&failure) => return Ok(DistinctValues::TooBig),
        Err(failure) => {
            return Err(error::from_driver(failure).with_collection(&*distinct.collection));
        }
    };
    // The key of an empty array in an index is `undefined`, which the command returns as a value of the index.
    let values = values
        .into_iter()
        .filter(|value| !matches!(value, Bson::Undefined));
    let values = values.map(RawBson::try_from);
    let values = values.collect::<Result<_, _>>();
    values
        .map(DistinctValues::All)
        .map_err(crate::error::from_bson)
}

fn is_too_big(failure: &DriverError) -> bool {
    matches!(&*failure.kind, DriverErrorKind::Command(command) if command.code == DISTINCT_TOO_BIG_CODE)
}

/// Reads the distinct values as groups of a pipeline, in any number of replies.
pub(super) async fn open_groups(
    database: &Database,
    distinct: &DistinctOperation,
    session: &mut ClientSession,
) -> Result<OpenedRead> {
    let stages =
        group_stages(distinct).map_err(|error| error.with_collection(&*distinct.collection))?;
    let collection = database.collection::<Document>(&distinct.collection);
    let action = collection.aggregate(stages).allow_disk_use(true).optional(
        BatchSize::FullReplies.to_driver_size(None),
        |action, size| action.batch_size(size),
    );
    let action = with_read_options!(action, distinct.options);
    let opened = match action.session(&mut *session).batch().await {
        Ok(rest) => OpenedRead::new(rest, session).await,
        Err(failure) => Err(error::from_driver(failure)),
    };
    opened.map_err(|error| error.with_collection(&*distinct.collection))
}

/// Returns the value of a group.
pub(super) fn group_value(group: &RawDocumentBuf) -> Result<RawBson> {
    let value = group.get("_id").map_err(crate::error::from_bson)?;
    value
        .map(RawBson::from)
        .ok_or_else(|| Error::new(ErrorKind::Backend, "MongoDB sent a group without its value"))
}

/// Returns the stages that group the values at the path as the `distinct` command does.
///
/// Arrays inside and at the end of the path are unwound once, a missing value is left out, and null is a value.
fn group_stages(distinct: &DistinctOperation) -> Result<Vec<Document>> {
    let names: Vec<_> = distinct.path.split('.').collect();
    if names
        .iter()
        .any(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    {
        let message = "the distinct values exceed 16 MB, which MongoDB cannot return for a path with an array position: narrow the filter, or use a path without a position";
        return Err(Error::new(ErrorKind::Unsupported, message).with_path(&*distinct.path));
    }
    let mut stages = Vec::new();
    if !distinct.filter.is_empty() {
        stages.push(doc! { "$match": to_driver_document(&distinct.filter)? });
    }
    for depth in 1..=names.len() {
        let path = names
            .iter()
            .take(depth)
            .copied()
            .collect::<Vec<_>>()
            .join(".");
        let value = format!("${path}");
        stages.push(doc! { "$unwind": { "path": &value, "preserveNullAndEmptyArrays": true } });
        stages.push(match depth == names.len() {
            // The expression of the last stage would also look into nested arrays, so match objects only.
            false => doc! { "$match": { "$expr": { "$eq": [{ "$type": &value }, "object"] } } },
            true => doc! { "$match": { "$expr": { "$ne": [{ "$type": &value }, "missing"] } } },
        });
    }
    stages.push(doc! { "$group": { "_id": format!("${}", distinct.path) } });
    Ok(stages)
}
