//! `{ distinct: "c", key: "a.b", query: { … } }`: the distinct values of a field.

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};

use super::Command;
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::{CommandError, Result};

pub(super) const COMMAND: Command = Command::read("distinct", run).in_transaction();

/// The maximum size of all values, as on MongoDB.
const MAX_VALUES_BYTES: usize = 16 << 20;

/// A parsed `distinct`.
pub(super) struct Distinct {
    pub(super) collection: String,
    path: String,
    pub(super) filter: RawDocumentBuf,
}

fn run(operation: &Operation, arguments: Arguments) -> Result<RawDocumentBuf> {
    let distinct = Distinct::parse(arguments)?;
    let name = operation.engine_name(&distinct.collection)?;
    let values = operation
        .engine()
        .distinct(&name, &distinct.path, &distinct.filter)?;
    let mut reply = RawArrayBuf::new();
    for value in values {
        reply.push(value);
        if reply.as_bytes().len() > MAX_VALUES_BYTES {
            return Err(CommandError::new(17217, "distinct too big, 16mb cap"));
        }
    }
    Ok(rawdoc! { "values": reply })
}

impl Distinct {
    pub(super) fn parse(mut arguments: Arguments) -> Result<Distinct> {
        arguments.collation()?;
        let distinct = Distinct {
            collection: arguments.collection("distinct")?,
            path: arguments.required_text("key")?,
            filter: arguments.document("query")?.unwrap_or_default(),
        };
        arguments.refuse(&["hint"])?;
        arguments.finish()?;
        Ok(distinct)
    }
}
