//! `{ killCursors: "c", cursors: [ids] }`: closes cursors.

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocumentBuf, rawdoc};

use super::{Access, Command};
use crate::arguments::Arguments;
use crate::dispatch::InlineCall;
use crate::error::Result;
use crate::namespace::Namespace;

pub(super) const COMMAND: Command = Command::inline("killCursors", Access::Read, run);

fn run(call: InlineCall<'_>, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    let namespace = Namespace {
        database: call.options.database.clone(),
        collection: arguments.collection("killCursors")?,
    };
    let ids = match arguments.value("cursors") {
        Some(RawBson::Array(ids)) => ids,
        Some(other) => return Err(arguments.wrong_type("cursors", &other, "array")),
        None => return Err(arguments.missing("cursors")),
    };
    arguments.finish()?;
    let (mut killed, mut not_found) = (RawArrayBuf::new(), RawArrayBuf::new());
    for id in &ids {
        let id = match id? {
            RawBsonRef::Int64(id) => id,
            RawBsonRef::Int32(id) => id.into(),
            other => return Err(arguments.wrong_type("cursors", &other.into(), "long")),
        };
        match call.server.cursors.close(id, Some(&namespace)) {
            true => killed.push(id),
            false => not_found.push(id),
        }
    }
    let (alive, unknown) = (RawArrayBuf::new(), RawArrayBuf::new());
    Ok(rawdoc! {
        "cursorsKilled": killed,
        "cursorsNotFound": not_found,
        "cursorsAlive": alive,
        "cursorsUnknown": unknown,
    })
}
