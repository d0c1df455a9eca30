//! `{ distinct: "c", key: "a.b", query: { … } }`: the distinct values of a field.

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};

use super::Command;
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::Result;

pub(super) const COMMAND: Command = Command::read("distinct", run).in_transaction();

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
    let values: RawArrayBuf = values.into_iter().collect();
    Ok(rawdoc! { "values": values })
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
