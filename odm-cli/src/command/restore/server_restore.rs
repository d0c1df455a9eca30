//! Restores into a MongoDB server.

use indicatif::ProgressBar;

use super::{Batch, progress_bar};
use crate::arguments::RestoreArguments;
use crate::dump_format::{DumpedCollection, DumpedDocuments, is_of_id};
use crate::failure::{Failure, Result};
use crate::server::Server;

/// Checks the dump, and restores the dump into a server, unless the caller wants a dry run. Returns the numbers of documents.
pub(super) fn run(
    url: &str,
    arguments: &RestoreArguments,
    collections: &[DumpedCollection],
) -> Result<Vec<u64>> {
    let server = Server::connect(url)?;
    let existing = server.definitions()?;
    for DumpedCollection { name, .. } in collections {
        let exists = existing.iter().any(|definition| definition.name == *name);
        if exists && !arguments.drop && server.count(name, Some(1))? > 0 {
            return Err(Failure::problem(format!(
                "the collection {name} has documents; nothing was written; use --drop to replace all collections of the dump"
            )));
        }
    }
    let bar = progress_bar(collections, "check");
    let counts = collections.iter().map(|collection| check(collection, &bar));
    let counts = counts.collect::<Result<Vec<_>>>()?;
    bar.finish_and_clear();
    if arguments.dry_run {
        return Ok(counts);
    }
    if arguments.drop {
        for collection in collections {
            server.drop_collection(&collection.name)?;
        }
    }
    let bar = progress_bar(collections, "restore");
    // A view is on a collection, which comes first.
    let (views, plain): (Vec<_>, Vec<_>) = collections
        .iter()
        .zip(&counts)
        .partition(|(collection, _)| collection.definition.is_view());
    for (collection, expected) in plain.into_iter().chain(views) {
        restore(&server, collection, *expected, &bar)?;
    }
    bar.finish_and_clear();
    Ok(counts)
}

/// Reads all documents. Returns their number.
fn check(collection: &DumpedCollection, bar: &ProgressBar) -> Result<u64> {
    bar.set_message(collection.name.clone());
    let mut count = 0;
    if collection.definition.is_view() {
        return Ok(count);
    }
    for document in DumpedDocuments::open(&collection.documents_path)? {
        let checked = document.and_then(|document| {
            bar.inc(document.as_bytes().len() as u64);
            match document.get("_id") {
                Ok(Some(_)) => Ok(()),
                _ => Err(Failure::problem(format!(
                    "a document of {} has no _id",
                    collection.name
                ))),
            }
        });
        checked.map_err(|failure| Failure::Problem(format!("{failure}; nothing was written")))?;
        count += 1;
    }
    Ok(count)
}

/// Inserts the documents, and then creates the indexes.
fn restore(
    server: &Server,
    collection: &DumpedCollection,
    expected: u64,
    bar: &ProgressBar,
) -> Result<()> {
    let name = &collection.name;
    bar.set_message(name.clone());
    let mut definition = collection.definition.clone();
    definition.indexes.retain(|index| !is_of_id(index));
    let mut without_indexes = definition.clone();
    without_indexes.indexes.clear();
    server.create(without_indexes)?;
    if definition.is_view() {
        return Ok(());
    }
    let mut batch = Batch::default();
    for document in DumpedDocuments::open(&collection.documents_path)? {
        batch.add(document?);
        if batch.is_full() {
            insert(server, name, &mut batch, bar)?;
        }
    }
    insert(server, name, &mut batch, bar)?;
    // Before the indexes, because documents may expire.
    let restored = server.count(name, None)?;
    if restored != expected {
        return Err(Failure::problem(format!(
            "the collection {name} has {restored} documents after the restore, and the dump has {expected}"
        )));
    }
    server.create(definition)
}

fn insert(server: &Server, name: &str, batch: &mut Batch, bar: &ProgressBar) -> Result<()> {
    let Batch { documents, bytes } = std::mem::take(batch);
    if documents.is_empty() {
        return Ok(());
    }
    server.insert(name, documents)?;
    bar.inc(bytes as u64);
    Ok(())
}
