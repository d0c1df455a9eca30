//! `{ distinct: "c", key: "a.b", query: { … } }`: the distinct values of a field.

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use odm_engine::Distinct;

use super::Command;
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::{CommandError, Result};

pub(super) const COMMAND: Command = Command::read("distinct", run)
    .in_transaction()
    .with_snapshots();

/// The maximum size of all values, as on MongoDB.
const MAX_VALUES_BYTES: usize = 16 << 20;

fn run(operation: &Operation, arguments: Arguments) -> Result<RawDocumentBuf> {
    let (collection, distinct) = parse(arguments)?;
    let name = operation.engine_name(&collection)?;
    let values = operation.engine().distinct_values(&name, &distinct)?;
    let mut reply = RawArrayBuf::new();
    for value in values {
        reply.push(value);
        if reply.as_bytes().len() > MAX_VALUES_BYTES {
            return Err(CommandError::new(17217, "distinct too big, 16mb cap"));
        }
    }
    Ok(rawdoc! { "values": reply })
}

/// Reads the arguments.
pub(super) fn parse(mut arguments: Arguments) -> Result<(String, Distinct)> {
    let collection = arguments.collection("distinct")?;
    let distinct = Distinct {
        path: arguments.required_text("key")?,
        filter: arguments.document("query")?.unwrap_or_default(),
        collation: arguments.collation()?,
    };
    arguments.refuse(&["hint"])?;
    arguments.finish()?;
    Ok((collection, distinct))
}
