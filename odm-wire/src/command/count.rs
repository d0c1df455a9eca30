//! `{ count: "c", query: { … } }`: the number of matching documents.

use bson::RawDocumentBuf;
use bson::raw::cstr;
use odm_engine::Count;

use super::{Command, number};
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::Result;

pub(super) const COMMAND: Command = Command::read("count", run);

fn run(operation: &Operation, arguments: Arguments) -> Result<RawDocumentBuf> {
    let (collection, count) = parse(arguments)?;
    let name = operation.engine_name(&collection)?;
    let counted = operation.engine().count(&name, &count)?;
    let mut reply = RawDocumentBuf::new();
    reply.append(cstr!("n"), number(counted));
    Ok(reply)
}

/// Reads the arguments.
pub(super) fn parse(mut arguments: Arguments) -> Result<(String, Count)> {
    let collection = arguments.collection("count")?;
    arguments.accept(&["fields"]);
    let limit = arguments.integer("limit")?.unwrap_or(0);
    let count = Count {
        filter: arguments.document("query")?.unwrap_or_default(),
        skip: arguments.unsigned("skip")?.unwrap_or(0),
        // As on MongoDB, a negative limit is as a positive limit, and zero is no limit.
        limit: Some(limit.unsigned_abs()).filter(|limit| *limit > 0),
        hint: arguments.hint()?,
        collation: arguments.collation()?,
    };
    arguments.finish()?;
    Ok((collection, count))
}
