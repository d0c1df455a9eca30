//! Tests of the engine through its public interface.

mod aggregate;
mod backup;
mod changes;
mod closing;
#[cfg(feature = "collation")]
mod collated_operations;
#[cfg(feature = "collation")]
mod collation;
mod collections;
mod compaction;
mod covered;
mod crud;
mod durability;
mod expiry;
mod faults;
mod file_size;
mod find_and_modify;
mod format;
mod hints;
mod hostile;
mod indexes;
mod interrupts;
mod limits;
mod model;
mod output;
mod planner;
mod read_only;
mod recorded;
mod scenarios;
mod stats;
mod transactions;
mod write_ahead_log;

use std::fs::File;
use std::path::Path;

use bson::{RawDocumentBuf, rawdoc};
use odm_engine::{Database, Find};
use redb::backends::FileBackend;

/// The engine's table, as described in the format document.
const TABLE: redb::TableDefinition<'_, &[u8], &[u8]> = redb::TableDefinition::new("odm-engine");

/// Opens the file of a database with redb, without the pages of checksums.
fn opened_by_redb(path: &Path) -> redb::Database {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let storage = Database::redb_storage(FileBackend::new(file).unwrap());
    redb::Builder::new().create_with_backend(storage).unwrap()
}

/// Returns all matching documents of a collection.
fn find(database: &Database, collection: &str, filter: RawDocumentBuf) -> Vec<RawDocumentBuf> {
    let find = Find {
        filter,
        ..Find::default()
    };
    let cursor = database
        .find(collection, &find)
        .expect("the query is valid");
    cursor
        .collect::<Result<_, _>>()
        .expect("the documents can be read")
}

fn all(database: &Database, collection: &str) -> Vec<RawDocumentBuf> {
    find(database, collection, rawdoc! {})
}
