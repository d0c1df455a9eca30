mod server_restore;

use std::path::Path;
use std::time::Duration;

use bson::RawDocumentBuf;
use indicatif::ProgressBar;
use odm_engine::{Count, Database};
use serde_json::json;

use crate::arguments::RestoreArguments;
use crate::dump_format::{
    DumpTarget, DumpedCollection, DumpedDocuments, find_database, is_of_id, read_collections,
};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::place::Place;
use crate::progress;

/// The largest number of documents of one insert.
const MAX_BATCH_DOCUMENTS: usize = 1_000;

/// The size of the documents at which an insert runs, in bytes.
const MAX_BATCH_BYTES: usize = 8 << 20;

/// Longer than any restore. Documents must not expire before their number is verified.
const NO_EXPIRY: Duration = Duration::from_secs(60 * 60 * 24 * 365);

pub(super) fn run(arguments: &RestoreArguments, output: &mut Output) -> Result<()> {
    let folder = find_database(&arguments.directory, arguments.database.as_deref())?;
    let target = match &arguments.to {
        Place::File(_) => DumpTarget::File,
        Place::Server(_) => DumpTarget::Server,
    };
    let collections = read_collections(&folder, target)?;
    let counts = match &arguments.to {
        Place::File(file) if arguments.dry_run => check_only(file, arguments.drop, &collections)?,
        Place::File(file) => restore(file, arguments.drop, &collections)?,
        Place::Server(url) => server_restore::run(url, arguments, &collections)?,
    };
    // A closed output must not end a restore, so the output comes last.
    let mut reports = collections.iter().zip(counts);
    reports.try_for_each(|(collection, documents)| report(collection, documents, output))
}

/// Checks the dump without a write to the file. Returns the numbers of documents.
fn check_only(file: &Path, drops: bool, collections: &[DumpedCollection]) -> Result<Vec<u64>> {
    if file.exists() {
        let database = super::open_read_only(file)?;
        ensure_replaceable(&database, collections, drops)?;
    }
    check_dump(file, collections)
}

/// Checks the dump, and then restores the dump into the file. Returns the numbers of documents.
fn restore(file: &Path, drops: bool, collections: &[DumpedCollection]) -> Result<Vec<u64>> {
    // A file that cannot be opened ends the restore before the long check. A new file is created after the check.
    let existing = file.exists().then(|| open(file)).transpose()?;
    if let Some(database) = &existing {
        ensure_replaceable(database, collections, drops)?;
    }
    check_dump(file, collections)?;
    let database = match existing {
        Some(database) => database,
        None => open(file)?,
    };
    if drops {
        for collection in collections {
            database.drop_collection(&collection.name)?;
        }
    }
    let counts = restore_collections(&database, collections, "restore")?;
    database.close();
    Ok(counts)
}

fn open(file: &Path) -> Result<Database> {
    Database::open(file).map_err(|error| Failure::open(file, &error))
}

/// Restores the dump into a temporary database beside the file, so that nothing is dropped for a dump that cannot be restored. Every
/// rule of the engine is checked: valid documents, unique keys, names, indexes. Returns the numbers of documents.
fn check_dump(file: &Path, collections: &[DumpedCollection]) -> Result<Vec<u64>> {
    let parent = file.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    // Only the owner can open the folder.
    let folder = tempfile::Builder::new()
        .prefix(".odm-restore-check-")
        .tempdir_in(parent)
        .map_err(|error| Failure::io("cannot create a folder in", parent, &error))?;
    let database = open(&folder.path().join("check.odm"))?;
    let checked = restore_collections(&database, collections, "check");
    database.close();
    checked.map_err(|failure| Failure::Problem(format!("{failure}; nothing was written")))
}

fn restore_collections(
    database: &Database,
    collections: &[DumpedCollection],
    action: &'static str,
) -> Result<Vec<u64>> {
    database.set_expiry_period(NO_EXPIRY);
    let bar = progress_bar(collections, action);
    let counts = collections
        .iter()
        .map(|collection| restore_collection(database, collection, &bar));
    let counts = counts.collect();
    bar.finish_and_clear();
    counts
}

/// Makes sure that the collections of the dump have no documents, unless they are dropped.
fn ensure_replaceable(
    database: &Database,
    collections: &[DumpedCollection],
    drops: bool,
) -> Result<()> {
    if drops {
        return Ok(());
    }
    let one = Count {
        limit: Some(1),
        ..Count::default()
    };
    for DumpedCollection { name, .. } in collections {
        if database.count(name, &one)? > 0 {
            return Err(Failure::problem(format!(
                "the collection {name} has documents; nothing was written; use --drop to replace all collections of the dump"
            )));
        }
    }
    Ok(())
}

/// Inserts the documents, and then creates the indexes. Returns the number of documents.
fn restore_collection(
    database: &Database,
    collection: &DumpedCollection,
    bar: &ProgressBar,
) -> Result<u64> {
    let name = &collection.name;
    bar.set_message(name.clone());
    if !database.list_collections()?.contains(name) {
        let created = database.create_collection(name);
        created.map_err(|error| Failure::problem(format!("the collection {name}: {error}")))?;
    }
    let mut restored = 0;
    let mut batch = Batch::default();
    for document in DumpedDocuments::open(&collection.documents_path)? {
        batch.add(document?);
        if batch.is_full() {
            restored += batch.insert(database, name, restored, bar)?;
        }
    }
    restored += batch.insert(database, name, restored, bar)?;
    database
        .create_indexes(name, &collection.indexes)
        .map_err(|error| Failure::problem(format!("the indexes of {name}: {error}")))?;
    verify(database, collection, restored)?;
    Ok(restored)
}

/// Compares the numbers of documents and indexes with the dump.
fn verify(database: &Database, collection: &DumpedCollection, restored: u64) -> Result<()> {
    let name = &collection.name;
    let stored = database.count(name, &Count::default())?;
    if stored != restored {
        return Err(Failure::problem(format!(
            "the collection {name} has {stored} documents after the restore, not {restored}; another program may write to the file"
        )));
    }
    let stored = database.list_indexes(name)?;
    let mut indexes = collection.indexes.iter();
    match indexes.find(|index| stored.iter().all(|stored| stored.name != index.name)) {
        Some(index) => Err(Failure::problem(format!(
            "the collection {name} has no index {} after the restore",
            index.name
        ))),
        None => Ok(()),
    }
}

/// Documents that are inserted together.
#[derive(Default)]
struct Batch {
    documents: Vec<RawDocumentBuf>,
    bytes: usize,
}

impl Batch {
    fn add(&mut self, document: RawDocumentBuf) {
        self.bytes += document.as_bytes().len();
        self.documents.push(document);
    }

    fn is_full(&self) -> bool {
        self.documents.len() >= MAX_BATCH_DOCUMENTS || self.bytes >= MAX_BATCH_BYTES
    }

    /// Inserts and removes all documents of the batch. `before` documents were inserted before. Returns the number of documents.
    fn insert(
        &mut self,
        database: &Database,
        collection: &str,
        before: u64,
        bar: &ProgressBar,
    ) -> Result<u64> {
        let Batch { documents, bytes } = std::mem::take(self);
        let count = documents.len() as u64;
        let inserted = database.insert(collection, documents);
        let inserted =
            inserted.map_err(|error| Failure::problem(format!("{collection}: {error}")))?;
        if let Some(failure) = inserted.failures.first() {
            let number = before + failure.position as u64 + 1;
            return Err(Failure::problem(format!(
                "document {number} of {collection} cannot be inserted: {}",
                failure.error
            )));
        }
        bar.inc(bytes as u64);
        Ok(count)
    }
}

fn report(collection: &DumpedCollection, documents: u64, output: &mut Output) -> Result<()> {
    let name = &collection.name;
    let definitions = collection.definition.indexes.iter();
    let indexes = definitions.filter(|index| !is_of_id(index)).count();
    match output.is_json() {
        true => output.json_line(&json!({
            "collection": name,
            "documents": documents,
            "indexes": indexes,
        })),
        false => output.line(format_args!(
            "{name}: {documents} documents, {indexes} indexes besides the index of _id"
        )),
    }
}

/// Returns a bar of the bytes of the dump.
fn progress_bar(collections: &[DumpedCollection], action: &'static str) -> ProgressBar {
    let bytes = collections.iter().map(|collection| collection.bytes).sum();
    let bar = progress::progress_bar(bytes, "{prefix} {msg} {wide_bar} {bytes}/{total_bytes}");
    bar.with_prefix(action)
}
