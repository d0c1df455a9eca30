//! `{ dropIndexes: "c", index: "*" }`: removes indexes.

use bson::{RawBson, RawBsonRef, RawDocumentBuf, rawdoc};
use odm_engine::DropIndexes;

use super::{Command, number};
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::{CommandError, Result};

pub(super) const COMMAND: Command =
    Command::write("dropIndexes", run).with_aliases(&["deleteindexes"]);

fn run(operation: &Operation, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    let collection = arguments.collection("dropIndexes")?;
    let selection = match arguments.value("index") {
        None => return Err(arguments.missing("index")),
        Some(RawBson::String(name)) if name == "*" => DropIndexes::All,
        Some(RawBson::String(name)) => DropIndexes::Named(vec![name]),
        Some(RawBson::Document(key)) => DropIndexes::Keyed(key),
        Some(RawBson::Array(names)) => {
            let names = names.into_iter().map(|name| match name? {
                RawBsonRef::String(name) => Ok(name.to_owned()),
                other => Err(arguments.wrong_type("index", &other.into(), "string")),
            });
            DropIndexes::Named(names.collect::<Result<_>>()?)
        }
        Some(other) => return Err(arguments.wrong_type("index", &other, "string, object, array")),
    };
    arguments.finish()?;
    let name = operation.engine_name_to_write(&collection)?;
    let before = operation.database().list_indexes(&name)?.len();
    if before == 0 {
        let message = format!("ns not found {}", operation.namespace(&collection));
        return Err(CommandError::new(
            crate::error::code::NAMESPACE_NOT_FOUND,
            message,
        ));
    }
    operation.database().drop_indexes(&name, &selection)?;
    let mut reply = rawdoc! { "nIndexesWas": number(before as u64) };
    if selection == DropIndexes::All {
        reply.append(
            bson::raw::cstr!("msg"),
            "non-_id indexes dropped for collection",
        );
    }
    Ok(reply)
}
