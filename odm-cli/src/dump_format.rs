//! The files of a dump in the form of mongodump: a folder for each database, with two files for each collection.
//!
//! | file | content |
//! |---|---|
//! | `COLLECTION.bson` | the documents as BSON, one after the other |
//! | `COLLECTION.metadata.json` | the indexes as canonical extended JSON |

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use odm::backend::operation::CollectionDefinition;
use odm_engine::Index;
use serde_json::Value;
use sha1::{Digest, Sha1};

use crate::extended_json;
use crate::failure::{Failure, Result};

pub(crate) const DOCUMENTS_SUFFIX: &str = ".bson";
pub(crate) const METADATA_SUFFIX: &str = ".metadata.json";

/// The file with the writes during a dump of mongodump with `--oplog`.
const OPLOG_FILE: &str = "oplog.bson";

/// The largest document of a dump, in bytes: MongoDB's limit of 16 MiB, and 16 KiB for documents of the server.
const MAX_DOCUMENT_BYTES: usize = (16 << 20) + (16 << 10);

/// The length of the smallest document, in bytes.
const MIN_DOCUMENT_BYTES: usize = 5;

/// The longest name of a file without a suffix, in bytes. File systems allow 255 bytes, of which `.metadata.json.gz` needs 17.
const MAX_NAME_BYTES: usize = 238;

/// The length of the start of a name that is too long, in bytes.
const TRUNCATED_NAME_BYTES: usize = 208;

/// The options of a collection that have no effect in the engine.
const IGNORED_COLLECTION_OPTIONS: [&str; 3] = ["autoIndexId", "flags", "uuid"];

/// A collection in a dump.
#[derive(Debug)]
pub(crate) struct DumpedCollection {
    pub(crate) name: String,
    pub(crate) documents_path: PathBuf,
    /// The length of the file with the documents.
    pub(crate) bytes: u64,
    /// The indexes, without the index of `_id`. Empty for a dump that goes to a server.
    pub(crate) indexes: Vec<Index>,
    /// The options and indexes as in the dump.
    pub(crate) definition: CollectionDefinition,
}

/// The database into which a dump is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DumpTarget {
    /// A file of the engine. Options and indexes that the engine lacks are refused.
    File,
    /// A server, which checks options and indexes itself.
    Server,
}

/// Returns the content of the metadata file of a collection.
pub(crate) fn metadata_of(collection: &str, indexes: &[Index]) -> Result<Value> {
    let indexes = indexes.iter().map(|index| {
        let mut document = doc! { "v": index.version() };
        document.extend(extended_json::decode(&index.to_document())?);
        Ok(Bson::Document(document))
    });
    let indexes = indexes.collect::<Result<Vec<_>>>()?;
    Ok(extended_json::to_canonical(doc! {
        "indexes": indexes,
        "collectionName": collection,
        "type": "collection",
    }))
}

/// Returns the content of the metadata file of a collection or a view of a server.
pub(crate) fn metadata_of_definition(definition: &CollectionDefinition) -> Result<Value> {
    let mut indexes = Vec::new();
    if !definition.is_view() {
        indexes.push(Bson::Document(
            doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" },
        ));
    }
    for index in &definition.indexes {
        indexes.push(Bson::Document(extended_json::decode(index)?));
    }
    Ok(extended_json::to_canonical(doc! {
        "options": extended_json::decode(&definition.options)?,
        "indexes": indexes,
        "collectionName": &definition.name,
        "type": &definition.kind,
    }))
}

/// Returns the name of the files of a collection, without a suffix. As mongodump, truncates a name that would be too long for a file,
/// and adds a hash of the whole name.
pub(crate) fn file_stem(collection: &str) -> String {
    let escaped = escape_name(collection);
    match escaped.get(..TRUNCATED_NAME_BYTES) {
        Some(start) if escaped.len() > MAX_NAME_BYTES => {
            let hash = BASE64_URL_SAFE_NO_PAD.encode(Sha1::digest(collection));
            format!("{start}%24{hash}")
        }
        _ => escaped,
    }
}

/// Escapes the bytes that a value in the query of a URL cannot contain, as mongodump does. A space becomes `+`.
fn escape_name(collection: &str) -> String {
    let mut escaped = String::new();
    for byte in collection.bytes() {
        match byte {
            b' ' => escaped.push('+'),
            b'-' | b'_' | b'.' | b'~' => escaped.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

fn unescape_name(escaped: &str) -> Option<String> {
    let spaced = escaped.replace('+', " ");
    let mut parts = spaced.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Returns the folder with the collections: the directory itself, or the folder of the only or the named database.
pub(crate) fn find_database(directory: &Path, database: Option<&str>) -> Result<PathBuf> {
    let databases = databases(directory)?;
    let has_databases = !databases.is_empty();
    // mongodump writes the file beside the folders of the databases.
    if has_databases && directory.join(OPLOG_FILE).exists() {
        return Err(Failure::problem(format!(
            "{} is a dump with --oplog, whose documents are complete only with the writes in {OPLOG_FILE}, which the engine cannot \
             replay; make a dump without --oplog",
            directory.display()
        )));
    }
    if let Some(database) = database {
        return Ok(directory.join(database));
    }
    match (has_documents(directory)?, has_databases) {
        (true, true) => {
            return Err(Failure::problem(format!(
                "{} has both files that end with .bson and folders of databases; use the folder of one database",
                directory.display()
            )));
        }
        (true, false) => return Ok(directory.to_owned()),
        (false, _) => {}
    }
    match databases.as_slice() {
        [] => Err(Failure::problem(format!(
            "{} has no dump: there is no file that ends with .bson",
            directory.display()
        ))),
        [database] => Ok(database.clone()),
        several => {
            let names: Vec<_> = several.iter().map(|path| file_name(path)).collect();
            Err(Failure::Usage(format!(
                "{} has several databases ({}); select one with --database",
                directory.display(),
                names.join(", ")
            )))
        }
    }
}

/// Returns the folders in a directory that have documents.
fn databases(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut databases = Vec::new();
    for path in entries(directory)? {
        // A name that starts with a dot belongs to a dump that is not complete.
        let is_hidden = file_name(&path).starts_with('.');
        if path.is_dir() && !is_hidden && has_documents(&path)? {
            databases.push(path);
        }
    }
    Ok(databases)
}

/// Reads the list of the collections in the folder of a database, and their indexes.
pub(crate) fn read_collections(folder: &Path, target: DumpTarget) -> Result<Vec<DumpedCollection>> {
    let mut collections = Vec::new();
    for path in entries(folder)? {
        let name = file_name(&path);
        if name.ends_with(".gz") {
            return Err(Failure::problem(format!(
                "{} is compressed; decompress the files of the dump with gunzip",
                path.display()
            )));
        }
        if let Some(escaped) = name.strip_suffix(DOCUMENTS_SUFFIX) {
            collections.push(read_collection(folder, escaped, path.clone(), target)?);
        }
        if let Some(escaped) = name.strip_suffix(METADATA_SUFFIX) {
            collections.extend(read_view(folder, escaped, &path, target)?);
        }
    }
    if collections.is_empty() {
        return Err(Failure::problem(format!(
            "{} has no file that ends with .bson",
            folder.display()
        )));
    }
    ensure_different_names(&collections)?;
    Ok(collections)
}

/// Refuses two files of one collection, such as `a.bson` and `%61.bson`.
fn ensure_different_names(collections: &[DumpedCollection]) -> Result<()> {
    let mut paths = HashMap::new();
    for collection in collections {
        let path = &collection.documents_path;
        if let Some(other) = paths.insert(&collection.name, path) {
            return Err(Failure::problem(format!(
                "{} and {} are both of the collection {}",
                other.display(),
                path.display(),
                collection.name
            )));
        }
    }
    Ok(())
}

/// Reads metadata without documents. Returns `None` if there are documents. Refuses an incomplete dump, and a view for the engine.
fn read_view(
    folder: &Path,
    escaped: &str,
    metadata_path: &Path,
    target: DumpTarget,
) -> Result<Option<DumpedCollection>> {
    let documents_path = folder.join(format!("{escaped}{DOCUMENTS_SUFFIX}"));
    if documents_path.exists() {
        return Ok(None);
    }
    let wrong =
        |problem: String| Failure::problem(format!("{}: {problem}", metadata_path.display()));
    let metadata = read_metadata(metadata_path)?;
    if target == DumpTarget::Server && metadata.get_str("type").is_ok_and(|kind| kind == "view") {
        let name = name_of(escaped, &metadata).map_err(wrong)?;
        return Ok(Some(DumpedCollection {
            definition: definition_of(&name, &metadata).map_err(wrong)?,
            name,
            documents_path,
            bytes: 0,
            indexes: Vec::new(),
        }));
    }
    ensure_plain_collection(&metadata).map_err(wrong)?;
    Err(wrong(format!(
        "there is no file {escaped}{DOCUMENTS_SUFFIX}"
    )))
}

fn read_collection(
    folder: &Path,
    escaped: &str,
    documents_path: PathBuf,
    target: DumpTarget,
) -> Result<DumpedCollection> {
    let bytes = length_of_file(&documents_path)?;
    let metadata_path = folder.join(format!("{escaped}{METADATA_SUFFIX}"));
    let wrong =
        |problem: String| Failure::problem(format!("{}: {problem}", metadata_path.display()));
    if !metadata_path.exists() {
        return Err(wrong(
            "the file with the indexes is missing; write {} into this file to restore the documents without indexes".into(),
        ));
    }
    let metadata = read_metadata(&metadata_path)?;
    let name = name_of(escaped, &metadata).map_err(wrong)?;
    let definition = definition_of(&name, &metadata).map_err(wrong)?;
    let indexes = match target {
        DumpTarget::File => {
            ensure_plain_collection(&metadata).map_err(wrong)?;
            read_indexes(&definition).map_err(wrong)?
        }
        DumpTarget::Server => Vec::new(),
    };
    Ok(DumpedCollection {
        name,
        documents_path,
        bytes,
        indexes,
        definition,
    })
}

/// Returns the definition in the metadata, without the index of `_id`.
fn definition_of(name: &str, metadata: &Document) -> Result<CollectionDefinition, String> {
    let raw = |document: &Document| {
        RawDocumentBuf::try_from(document)
            .map_err(|error| format!("the metadata is not valid: {error}"))
    };
    let mut definition = CollectionDefinition::new(name);
    if let Ok(kind) = metadata.get_str("type") {
        kind.clone_into(&mut definition.kind);
    }
    if let Ok(options) = metadata.get_document("options") {
        let mut options = options.clone();
        for ignored in IGNORED_COLLECTION_OPTIONS {
            options.remove(ignored);
        }
        definition.options = raw(&options)?;
    }
    let indexes = match metadata.get("indexes") {
        None | Some(Bson::Null) => return Ok(definition),
        Some(Bson::Array(indexes)) => indexes,
        Some(_) => return Err("`indexes` is not an array".into()),
    };
    for index in indexes {
        let Bson::Document(index) = index else {
            return Err("an index is not a document".into());
        };
        definition.indexes.push(raw(index)?);
    }
    Ok(definition)
}

/// Returns the name of a collection. The metadata has the name, which matters for files with a truncated name.
fn name_of(escaped: &str, metadata: &Document) -> Result<String, String> {
    let unescaped = unescape_name(escaped);
    match metadata.get("collectionName") {
        None => unescaped.ok_or_else(|| "the name of the file cannot be read".into()),
        Some(Bson::String(name))
            if unescaped.as_ref() == Some(name) || file_stem(name) == escaped =>
        {
            Ok(name.clone())
        }
        Some(name) => Err(format!(
            "the name of the file does not belong to `collectionName`, which is {name}"
        )),
    }
}

/// Returns the length of a regular file.
fn length_of_file(path: &Path) -> Result<u64> {
    let metadata = fs::metadata(path).map_err(|error| Failure::io("cannot read", path, &error))?;
    match metadata.is_file() {
        true => Ok(metadata.len()),
        false => Err(Failure::problem(format!(
            "{} is not a file",
            path.display()
        ))),
    }
}

fn read_metadata(path: &Path) -> Result<Document> {
    length_of_file(path)?;
    let wrong = |problem: String| Failure::problem(format!("{}: {problem}", path.display()));
    let file = File::open(path).map_err(|error| Failure::io("cannot read", path, &error))?;
    let value: Value = serde_json::from_reader(BufReader::new(file))
        .map_err(|error| wrong(format!("this is not JSON: {error}")))?;
    match Bson::try_from(value) {
        Ok(Bson::Document(metadata)) => Ok(metadata),
        Ok(_) => Err(wrong("this is not a document".into())),
        Err(error) => Err(wrong(format!("this is not extended JSON: {error}"))),
    }
}

/// Refuses views, time series, and options that change what a collection accepts.
fn ensure_plain_collection(metadata: &Document) -> Result<(), String> {
    match metadata.get_str("type") {
        Ok("collection") | Err(_) => {}
        Ok(kind) => return Err(format!("the engine has no collections of the type {kind}")),
    }
    let options = metadata.get_document("options").ok();
    let mut options = options.into_iter().flatten();
    let unsupported = options.find(|(name, value)| {
        let is_off = matches!(value, Bson::Boolean(false) | Bson::Null);
        !is_off && !IGNORED_COLLECTION_OPTIONS.contains(&name.as_str())
    });
    match unsupported {
        Some((name, _)) => Err(format!(
            "the engine has no collections with the option {name}; remove the option from this file to restore the documents \
             without it"
        )),
        None => Ok(()),
    }
}

/// Returns the indexes of the engine. Each collection has the index of `_id`.
fn read_indexes(definition: &CollectionDefinition) -> Result<Vec<Index>, String> {
    let mut indexes = Vec::new();
    for index in &definition.indexes {
        let name = index.get_str("name").unwrap_or("without a name");
        let parsed = Index::from_document(index);
        let parsed =
            parsed.map_err(|error| format!("the index {name} cannot be created: {error}"))?;
        if !is_of_id(index) {
            indexes.push(parsed);
        }
    }
    Ok(indexes)
}

/// Whether a definition is the index of `_id`, which each collection has.
pub(crate) fn is_of_id(index: &RawDocument) -> bool {
    let key = index.get_document("key").map(Document::try_from);
    key.is_ok_and(|key| key.is_ok_and(|key| is_key_of_id(&key)))
}

fn is_key_of_id(key: &Document) -> bool {
    let direction = match key.get("_id") {
        Some(Bson::Int32(direction)) => i64::from(*direction),
        Some(Bson::Int64(direction)) => *direction,
        Some(Bson::Double(direction)) if *direction == 1.0 => 1,
        _ => 0,
    };
    key.len() == 1 && direction == 1
}

/// The documents of a dumped collection, read one after the other.
pub(crate) struct DumpedDocuments {
    path: PathBuf,
    file: BufReader<File>,
    /// The position of the next document.
    position: u64,
}

impl DumpedDocuments {
    pub(crate) fn open(path: &Path) -> Result<DumpedDocuments> {
        let file = File::open(path).map_err(|error| Failure::io("cannot read", path, &error))?;
        Ok(DumpedDocuments {
            path: path.to_owned(),
            file: BufReader::with_capacity(256 << 10, file),
            position: 0,
        })
    }

    fn read_next(&mut self) -> io::Result<Option<RawDocumentBuf>> {
        let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
        let mut prefix = [0; 4];
        if !self.read_prefix(&mut prefix)? {
            return Ok(None);
        }
        let length = usize::try_from(i32::from_le_bytes(prefix)).unwrap_or_default();
        if !(MIN_DOCUMENT_BYTES..=MAX_DOCUMENT_BYTES).contains(&length) {
            return Err(invalid("the length is not valid".into()));
        }
        let mut bytes = vec![0; length];
        let (start, rest) = bytes.split_at_mut(prefix.len());
        start.copy_from_slice(&prefix);
        self.file.read_exact(rest)?;
        let document = RawDocumentBuf::from_bytes(bytes);
        let document = document.map_err(|error| invalid(error.to_string()))?;
        self.position += length as u64;
        Ok(Some(document))
    }

    /// Reads the length of a document. Returns `false` at the end of the file.
    fn read_prefix(&mut self, prefix: &mut [u8]) -> io::Result<bool> {
        let first = self.file.by_ref().take(1).read(prefix)?;
        let rest = prefix.get_mut(first..).unwrap_or_default();
        match first {
            0 => Ok(false),
            _ => self.file.read_exact(rest).map(|()| true),
        }
    }
}

impl Iterator for DumpedDocuments {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.read_next().map_err(|error| {
            let problem = match error.kind() {
                io::ErrorKind::UnexpectedEof => "the file ends inside of the document".to_owned(),
                _ => error.to_string(),
            };
            let (path, position) = (self.path.display(), self.position);
            Failure::problem(format!(
                "{path}: the document at byte {position} cannot be read: {problem}"
            ))
        });
        next.transpose()
    }
}

fn has_documents(directory: &Path) -> Result<bool> {
    let paths = entries(directory)?;
    Ok(paths.iter().any(|path| {
        let name = file_name(path);
        name.ends_with(DOCUMENTS_SUFFIX) || name.ends_with(".bson.gz")
    }))
}

/// Returns the paths in a directory, in the order of the names.
fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let failure = |error: io::Error| Failure::io("cannot read", directory, &error);
    let entries = fs::read_dir(directory).map_err(failure)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<io::Result<Vec<_>>>().map_err(failure)?;
    paths.sort();
    Ok(paths)
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_in_urls() {
        // The results of Go's `url.QueryEscape`, which mongodump calls.
        for (name, escaped) in [
            ("orders", "orders"),
            ("a/b c", "a%2Fb+c"),
            ("100%", "100%25"),
            ("a;b,c?d", "a%3Bb%2Cc%3Fd"),
            ("$&+=:@-_.~", "%24%26%2B%3D%3A%40-_.~"),
            ("ä", "%C3%A4"),
        ] {
            assert_eq!(escape_name(name), escaped);
            assert_eq!(unescape_name(escaped).as_deref(), Some(name));
        }
        for wrong in ["%", "%1", "%zz", "%FF"] {
            assert_eq!(unescape_name(wrong), None);
        }
    }

    #[test]
    fn long_names_end_with_a_hash() {
        assert_eq!(file_stem(&"a".repeat(238)), "a".repeat(238));
        // printf 'a%.0s' {1..239} | sha1sum, in base64url
        let hash = "_cMIV897lX9H69gojV5ddCb0Q5Q";
        assert_eq!(
            file_stem(&"a".repeat(239)),
            format!("{}%24{hash}", "a".repeat(208))
        );
        let metadata = doc! { "collectionName": "ä".repeat(100) };
        let stem = file_stem(&"ä".repeat(100));
        assert_eq!(
            (stem.len(), name_of(&stem, &metadata)),
            (238, Ok("ä".repeat(100)))
        );
        assert!(name_of("a%24b", &metadata).is_err());
        assert_eq!(
            name_of("a%2fb", &doc! { "collectionName": "a/b" }).as_deref(),
            Ok("a/b")
        );
    }
}
