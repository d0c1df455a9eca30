//! The commands, one file each.

mod aggregate;
mod backup;
mod collections;
mod compact;
mod copy;
mod count;
mod dump;
mod explain;
mod export;
mod find;
mod indexes;
mod restore;
mod serve;
mod stats;
mod validate;

use std::path::Path;

use bson::RawDocumentBuf;
use odm_engine::Database;

use crate::arguments::Command;
use crate::extended_json::Relaxed;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// Runs a command.
pub(crate) fn run(command: Command, output: &mut Output) -> Result<()> {
    match command {
        Command::Stats { file } => stats::run(&file, output),
        Command::Collections { file } => collections::run(&file, output),
        Command::Indexes { file, collection } => indexes::run(&file, collection.as_deref(), output),
        Command::Find(arguments) => find::run(&arguments, output),
        Command::Count {
            file,
            collection,
            filter,
        } => count::run(&file, &collection, filter.as_deref(), output),
        Command::Explain {
            file,
            collection,
            filter,
        } => explain::run(&file, &collection, &filter, output),
        Command::Aggregate {
            file,
            collection,
            pipeline,
        } => aggregate::run(&file, &collection, &pipeline, output),
        Command::Validate { file } => validate::run(&file, output),
        Command::Backup { file, copy } => backup::run(&file, &copy, output),
        Command::Compact { file } => compact::run(&file, output),
        Command::Copy(arguments) => copy::run(&arguments, output),
        Command::Dump(arguments) => dump::run(&arguments, output),
        Command::Restore(arguments) => restore::run(&arguments, output),
        Command::Export(arguments) => export::run(&arguments, output),
        Command::Serve(arguments) => serve::run(&arguments, output),
    }
}

/// Opens a file for reads.
fn open_read_only(file: &Path) -> Result<Database> {
    Database::open_read_only(file).map_err(|error| Failure::open(file, &error))
}

/// Opens a file for reads, and checks that a collection exists.
fn open_collection(file: &Path, collection: &str) -> Result<Database> {
    let database = open_read_only(file)?;
    ensure_collection(&database, file, collection)?;
    Ok(database)
}

/// Refuses the name of a collection that does not exist. The engine treats such a collection as empty, which hides a wrong name.
fn ensure_collection(database: &Database, file: &Path, collection: &str) -> Result<()> {
    let names = database.list_collections()?;
    if names.iter().any(|name| name == collection) {
        return Ok(());
    }
    let known = match names.is_empty() {
        true => "the file has no collections".to_owned(),
        false => format!("the collections are {}", names.join(", ")),
    };
    let file = file.display();
    Err(Failure::problem(format!(
        "{file} has no collection {collection}; {known}"
    )))
}

/// Prints documents as relaxed extended JSON, one on each line.
fn print_documents<E>(
    documents: impl Iterator<Item = Result<RawDocumentBuf, E>>,
    output: &mut Output,
) -> Result<()>
where
    Failure: From<E>,
{
    for document in documents {
        output.json_line(&Relaxed(&document?))?;
    }
    Ok(())
}
