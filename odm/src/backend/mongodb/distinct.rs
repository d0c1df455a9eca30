//! Distinct values.

use ::mongodb::{
    ClientSession, Database,
    action::Action,
    bson::{Document, doc},
    error::{Error as DriverError, ErrorKind as DriverErrorKind},
};
use bson::{RawBson, RawDocumentBuf};

use super::{
    cursor::{Batches, Opened},
    decode, error, milliseconds,
};
use crate::{Error, ErrorKind, Result, backend::operation::Distinct};

/// MongoDB's number for values that do not fit in one reply.
const TOO_BIG: i32 = 17217;

/// What became of a read of distinct values.
pub(super) enum Values {
    /// All of them.
    All(Vec<RawBson>),
    /// There are more than one reply can hold.
    TooBig,
}

/// See [`Executor::distinct`](crate::backend::Executor::distinct).
///
/// The command has the shortest way to few values, through an index, but it answers in one reply of 16 MiB at most.
pub(super) async fn distinct(
    database: &Database,
    distinct: &Distinct,
    session: &mut ClientSession,
) -> Result<Values> {
    let collection = database.collection::<Document>(&distinct.collection);
    let action = collection
        .distinct(&distinct.path, decode(&distinct.filter)?)
        .optional(distinct.max_time, |action, max_time| {
            action.max_time(milliseconds(max_time))
        });
    let values = match action.session(session).await {
        Ok(values) => values,
        Err(failure) if is_too_big(&failure) => return Ok(Values::TooBig),
        Err(failure) => {
            return Err(error::from_driver(failure).with_collection(&*distinct.collection));
        }
    };
    let values = values.into_iter().map(RawBson::try_from);
    let values = values.collect::<Result<_, _>>();
    values.map(Values::All).map_err(crate::error::encode)
}

fn is_too_big(failure: &DriverError) -> bool {
    matches!(&*failure.kind, DriverErrorKind::Command(command) if command.code == TOO_BIG)
}

/// The same values as groups of a pipeline, in any number of replies.
pub(super) async fn groups(
    database: &Database,
    distinct: &Distinct,
    session: &mut ClientSession,
) -> Result<Opened> {
    let stages = stages(distinct).map_err(|error| error.with_collection(&*distinct.collection))?;
    let collection = database.collection::<Document>(&distinct.collection);
    let action = collection
        .aggregate(stages)
        .allow_disk_use(true)
        .optional(Batches::Full.size(None), |action, size| {
            action.batch_size(size)
        })
        .optional(distinct.max_time, |action, max_time| {
            action.max_time(milliseconds(max_time))
        });
    let opened = match action.session(&mut *session).batch().await {
        Ok(rest) => Opened::new(rest, session).await,
        Err(failure) => Err(error::from_driver(failure)),
    };
    opened.map_err(|error| error.with_collection(&*distinct.collection))
}

/// The value of a group.
pub(super) fn value_of(group: &RawDocumentBuf) -> Result<RawBson> {
    let value = group.get("_id").map_err(crate::error::encode)?;
    value
        .map(RawBson::from)
        .ok_or_else(|| Error::new(ErrorKind::Backend, "MongoDB sent a group without its value"))
}

/// The stages that group the values at the path as the command `distinct` does: arrays on the way and at the end are unwound once, a
/// missing value is left out, and null is a value.
fn stages(distinct: &Distinct) -> Result<Vec<Document>> {
    let names: Vec<_> = distinct.path.split('.').collect();
    if names
        .iter()
        .any(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    {
        let message = "the distinct values are more than 16 MB, and cannot be read in parts at a position of an array";
        return Err(Error::new(ErrorKind::Unsupported, message).with_path(&*distinct.path));
    }
    let mut stages = Vec::new();
    if !distinct.filter.is_empty() {
        stages.push(doc! { "$match": decode(&distinct.filter)? });
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
            // An expression would look into arrays inside of arrays on the way.
            false => doc! { "$match": { "$expr": { "$eq": [{ "$type": &value }, "object"] } } },
            true => doc! { "$match": { "$expr": { "$ne": [{ "$type": &value }, "missing"] } } },
        });
    }
    stages.push(doc! { "$group": { "_id": format!("${}", distinct.path) } });
    Ok(stages)
}
