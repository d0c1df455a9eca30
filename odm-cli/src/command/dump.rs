use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use bson::rawdoc;
use odm_engine::{Database, Find};
use serde_json::json;

use super::{ensure_collection, open_read_only};
use crate::arguments::DumpArguments;
use crate::dump_format::{DOCUMENTS_SUFFIX, METADATA_SUFFIX, file_stem, metadata_of};
use crate::failure::{Failure, Result};
use crate::output::Output;

pub(super) fn run(arguments: &DumpArguments, output: &mut Output) -> Result<()> {
    let database = open_read_only(&arguments.file)?;
    let collections = match &arguments.collection {
        Some(collection) => {
            ensure_collection(&database, &arguments.file, collection)?;
            vec![collection.clone()]
        }
        None => database.list_collections()?,
    };
    let target = arguments.directory.join(database_name(arguments)?);
    let folder = UnfinishedFolder::create(&arguments.directory, &target)?;
    let mut counts = Vec::new();
    for collection in collections {
        let documents = dump_collection(&database, &collection, &folder.path)?;
        counts.push((collection, documents));
    }
    folder.finish(&target)?;
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

/// Returns the name of the folder of the database.
fn database_name(arguments: &DumpArguments) -> Result<String> {
    let stem = arguments.file.file_stem();
    let stem = stem.map(|stem| stem.to_string_lossy().into_owned());
    let name = arguments.database.clone().or(stem).unwrap_or_default();
    let is_valid = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\']);
    match is_valid {
        true => Ok(name),
        false => Err(Failure::Usage(format!(
            "'{name}' cannot be the name of a database; choose a name with --database"
        ))),
    }
}

/// Writes both files of a collection. Returns the number of documents.
fn dump_collection(database: &Database, collection: &str, folder: &Path) -> Result<u64> {
    let name = file_stem(collection);
    let path = folder.join(format!("{name}{DOCUMENTS_SUFFIX}"));
    let failure = |error: io::Error| Failure::io("cannot write", &path, &error);
    let find = Find {
        hint: Some(rawdoc! { "$natural": 1 }.into()),
        ..Find::default()
    };
    let mut writer = BufWriter::with_capacity(256 << 10, create(&path)?);
    let mut documents = 0;
    for document in database.find(collection, &find)? {
        writer.write_all(document?.as_bytes()).map_err(failure)?;
        documents += 1;
    }
    finish_file(writer).map_err(failure)?;

    let path = folder.join(format!("{name}{METADATA_SUFFIX}"));
    let failure = |error: io::Error| Failure::io("cannot write", &path, &error);
    let metadata = metadata_of(collection, &database.list_indexes(collection)?)?;
    let mut writer = BufWriter::new(create(&path)?);
    serde_json::to_writer(&mut writer, &metadata).map_err(|error| failure(error.into()))?;
    finish_file(writer).map_err(failure)?;
    Ok(documents)
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
