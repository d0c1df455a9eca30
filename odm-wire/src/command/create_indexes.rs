//! `{ createIndexes: "c", indexes: [{ key, name, … }] }`: new indexes.

use bson::{RawDocumentBuf, raw::cstr};
use odm_engine::Index;

use super::{Command, number};
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::{CommandError, Result};

pub(super) const COMMAND: Command = Command::write("createIndexes", run);

fn run(operation: &Operation, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    let collection = arguments.collection("createIndexes")?;
    let specifications = arguments.required_documents("indexes")?;
    // The indexes are complete when the command returns.
    arguments.accept(&["commitQuorum", "ignoreUnknownIndexOptions"]);
    arguments.finish()?;
    if specifications.is_empty() {
        let message = "Must specify at least one index to create";
        return Err(CommandError::bad_value(message));
    }
    let indexes = specifications.iter().map(|index| index_from(index));
    let indexes = indexes.collect::<Result<Vec<_>>>()?;
    let name = operation.engine_name_to_write(&collection)?;
    let database = operation.database();
    let before = database.list_indexes(&name)?.len();
    database.create_indexes(&name, &indexes)?;
    let after = database.list_indexes(&name)?.len();
    let mut reply = RawDocumentBuf::new();
    reply.append(cstr!("numIndexesBefore"), number(before.max(1) as u64));
    reply.append(cstr!("numIndexesAfter"), number(after as u64));
    if before == after {
        reply.append(cstr!("note"), "all indexes already exist");
    } else {
        reply.append(cstr!("createdCollectionAutomatically"), before == 0);
        // All members of the replica set, which are this server.
        reply.append(cstr!("commitQuorum"), "votingMembers");
    }
    Ok(reply)
}

/// Reads the definition of an index. The earlier field `ns` has no meaning.
fn index_from(specification: &bson::RawDocument) -> Result<Index> {
    if specification.get("ns")?.is_none() {
        return Ok(Index::from_document(specification)?);
    }
    let mut without_namespace = RawDocumentBuf::new();
    for element in specification {
        let (name, value) = element?;
        if name.as_str() != "ns" {
            without_namespace.append(name, value);
        }
    }
    Ok(Index::from_document(&without_namespace)?)
}
