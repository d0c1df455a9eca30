use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use bson::{RawDocumentBuf, rawdoc};
use odm::backend::operation::CollectionDefinition;
use odm_engine::{Database, Find};
use serde_json::{Value, json};

use super::{ensure_collection, open_read_only};
use crate::arguments::DumpArguments;
use crate::dump_format::{
    DOCUMENTS_SUFFIX, METADATA_SUFFIX, file_stem, metadata_of, metadata_of_definition,
};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::place::Place;
use crate::server::Server;

pub(super) fn run(arguments: &DumpArguments, output: &mut Output) -> Result<()> {
    let target = arguments.directory.join(database_name(arguments)?);
    let collection = arguments.collection.as_deref();
    let counts = match &arguments.from {
        Place::File(file) => {
            let database = open_read_only(file)?;
            let collections = match collection {
                Some(collection) => {
                    ensure_collection(&database, file, collection)?;
                    vec![collection.to_owned()]
                }
                None => database.list_collections()?,
            };
            dump_all(arguments, &target, collections, |collection, folder| {
                let documents = dump_collection(&database, &collection, folder)?;
                Ok((collection, documents))
            })?
        }
        Place::Server(url) => {
            let server = Server::connect(url)?;
            let definitions = match collection {
                Some(collection) => vec![server.definition(collection)?],
                None => server.definitions()?,
            };
            dump_all(arguments, &target, definitions, |definition, folder| {
                let documents = dump_from_server(&server, &definition, folder)?;
                Ok((definition.name, documents))
            })?
        }
    };
    for (collection, documents) in counts {
        match output.is_json() {
            true => {
                output.json_line(&json!({ "collection": collection, "documents": documents }))?
            }
            false => output.line(format_args!("{collection}: {documents} documents"))?,
        }
    }
    Ok(())
}

/// Dumps collections into a folder, which gets its name at the end. Returns their names and numbers of documents.
fn dump_all<C>(
    arguments: &DumpArguments,
    target: &Path,
    collections: Vec<C>,
    dump: impl Fn(C, &Path) -> Result<(String, u64)>,
) -> Result<Vec<(String, u64)>> {
    let folder = UnfinishedFolder::create(&arguments.directory, target)?;
    let counts = collections
        .into_iter()
        .map(|collection| dump(collection, &folder.path));
    let counts = counts.collect::<Result<Vec<_>>>()?;
    folder.finish(target)?;
    Ok(counts)
}

/// Returns the name of the folder of the database.
fn database_name(arguments: &DumpArguments) -> Result<String> {
    let name = arguments.database.clone();
    let name = name
        .or_else(|| arguments.from.database_name())
        .unwrap_or_default();
    let is_valid = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\']);
    match is_valid {
        true => Ok(name),
        false => Err(Failure::Usage(format!(
            "'{name}' cannot be the name of a database; choose a name with --database"
        ))),
    }
}

/// Writes both files of a collection of a file. Returns the number of documents.
fn dump_collection(database: &Database, collection: &str, folder: &Path) -> Result<u64> {
    let find = Find {
        hint: Some(rawdoc! { "$natural": 1 }.into()),
        ..Find::default()
    };
    let documents = write_documents(collection, database.find(collection, &find)?, folder)?;
    let metadata = metadata_of(collection, &database.list_indexes(collection)?)?;
    write_metadata(collection, &metadata, folder)?;
    Ok(documents)
}

/// Writes both files of a collection of a server. A view has no documents. Returns the number of documents.
fn dump_from_server(
    server: &Server,
    definition: &CollectionDefinition,
    folder: &Path,
) -> Result<u64> {
    let name = &definition.name;
    let documents = match definition.kind.as_str() {
        "collection" => write_documents(name, server.documents(name, None)?, folder)?,
        "view" => 0,
        kind => {
            let message =
                format!("the collection {name} of the type {kind} cannot be dumped; use mongodump");
            return Err(Failure::problem(message));
        }
    };
    write_metadata(name, &metadata_of_definition(definition)?, folder)?;
    Ok(documents)
}

/// Writes the file of the documents. Returns the number of documents.
fn write_documents<E>(
    collection: &str,
    documents: impl IntoIterator<Item = Result<RawDocumentBuf, E>>,
    folder: &Path,
) -> Result<u64>
where
    Failure: From<E>,
{
    let path = folder.join(format!("{}{DOCUMENTS_SUFFIX}", file_stem(collection)));
    let failure = |error: io::Error| Failure::io("cannot write", &path, &error);
    let mut writer = BufWriter::with_capacity(256 << 10, create(&path)?);
    let mut count = 0;
    for document in documents {
        writer.write_all(document?.as_bytes()).map_err(failure)?;
        count += 1;
    }
    finish_file(writer).map_err(failure)?;
    Ok(count)
}

/// Writes the file of the options and indexes.
fn write_metadata(collection: &str, metadata: &Value, folder: &Path) -> Result<()> {
    let path = folder.join(format!("{}{METADATA_SUFFIX}", file_stem(collection)));
    let failure = |error: io::Error| Failure::io("cannot write", &path, &error);
    let mut writer = BufWriter::new(create(&path)?);
    serde_json::to_writer(&mut writer, metadata).map_err(|error| failure(error.into()))?;
    finish_file(writer).map_err(failure)
}

fn create(path: &Path) -> Result<File> {
    // Two names can be the same name in a file system without upper case.
    let file = File::create_new(path);
    file.map_err(|error| Failure::io("cannot create", path, &error))
}

/// Makes a file durable.
fn finish_file(writer: BufWriter<File>) -> io::Result<()> {
    let file = writer
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    file.sync_all()
}

/// A folder with a temporary name. The drop removes a folder without its final name.
struct UnfinishedFolder {
    path: PathBuf,
}

impl UnfinishedFolder {
    /// Creates the folder beside `target`.
    fn create(directory: &Path, target: &Path) -> Result<UnfinishedFolder> {
        if target.exists() {
            return Err(Failure::problem(format!(
                "{} exists; choose another directory, or remove the earlier dump",
                target.display()
            )));
        }
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        // The state is random. The number of the process is the same in each container.
        let random = RandomState::new().hash_one(target);
        let path = directory.join(format!(".{name}.{random:016x}.unfinished"));
        let created = fs::create_dir_all(directory).and_then(|()| fs::create_dir(&path));
        created.map_err(|error| Failure::io("cannot create", &path, &error))?;
        Ok(UnfinishedFolder { path })
    }

    /// Gives the folder its final name.
    fn finish(self, target: &Path) -> Result<()> {
        let renamed = sync_directory(&self.path)
            .and_then(|()| fs::rename(&self.path, target))
            .and_then(|()| target.parent().map_or(Ok(()), sync_directory));
        renamed.map_err(|error| Failure::io("cannot create", target, &error))
    }
}

impl Drop for UnfinishedFolder {
    fn drop(&mut self) {
        // After a rename there is no such folder. Ignore other errors: the name tells that the dump is not complete.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Makes the names in a directory durable.
fn sync_directory(directory: &Path) -> io::Result<()> {
    match cfg!(unix) {
        true => File::open(directory)?.sync_all(),
        false => Ok(()),
    }
}
