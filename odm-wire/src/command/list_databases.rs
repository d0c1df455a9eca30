//! `{ listDatabases: 1 }`: the databases with collections.

use std::collections::BTreeSet;

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};

use super::{Command, long};
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::documents;
use crate::error::{CommandError, Result, code};

pub(super) const COMMAND: Command = Command::read("listDatabases", run);

fn run(operation: &Operation, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    if operation.options.database != "admin" {
        let message = "listDatabases may only be run against the admin database.";
        return Err(CommandError::new(code::UNAUTHORIZED, message));
    }
    arguments.accept(&["listDatabases", "authorizedDatabases"]);
    let name_only = arguments.flag("nameOnly")?;
    let filter = arguments.document("filter")?;
    arguments.finish()?;
    let database = operation.database();
    let collections = database.list_collections()?;
    let namespaces = &operation.server.namespaces;
    let names: BTreeSet<_> = collections
        .iter()
        .map(|name| namespaces.namespace_of(name).database)
        .collect();
    // All databases share one file.
    let bytes = long(database.file_bytes()?.unwrap_or(0));
    let names = names.iter().map(|name| match name_only {
        true => rawdoc! { "name": name.as_str() },
        false => rawdoc! { "name": name.as_str(), "sizeOnDisk": bytes, "empty": false },
    });
    let databases = documents::matching(database, names.collect(), filter)?;
    let databases: RawArrayBuf = databases.into_iter().collect();
    match name_only {
        true => Ok(rawdoc! { "databases": databases }),
        false => Ok(rawdoc! {
            "databases": databases,
            "totalSize": bytes,
            "totalSizeMb": bytes >> 20,
        }),
    }
}
