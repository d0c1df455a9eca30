//! `{ collStats: "c" }`, and the stage `$collStats`: the sizes of a collection. Both read the whole collection.

use bson::{DateTime, RawBsonRef, RawDocumentBuf, raw::CString, raw::cstr, rawdoc};
use odm_engine::CollectionStats;

use super::{Command, long, number};
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::{CommandError, Result, code};

pub(super) const COMMAND: Command = Command::read("collStats", run).with_aliases(&["collstats"]);

fn run(operation: &Operation, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    let collection = arguments.collection("collStats")?;
    let scale = take_scale(&mut arguments)?;
    arguments.finish()?;
    let mut reply = RawDocumentBuf::new();
    let namespace = operation.namespace(&collection).to_string();
    reply.append(cstr!("ns"), namespace);
    append_sizes(&mut reply, read(operation, &collection)?.as_ref(), scale)?;
    Ok(reply)
}

/// Takes the unit of all sizes, in bytes.
pub(super) fn take_scale(arguments: &mut Arguments) -> Result<u64> {
    match arguments.integer("scale")? {
        None => Ok(1),
        Some(scale) => u64::try_from(scale)
            .ok()
            .filter(|scale| *scale > 0)
            .ok_or_else(|| CommandError::bad_value("scale has to be >= 1")),
    }
}

fn read(operation: &Operation, collection: &str) -> Result<Option<CollectionStats>> {
    let name = operation.engine_name(collection)?;
    Ok(operation.database().collection_stats(&name)?)
}

fn append_sizes(
    reply: &mut RawDocumentBuf,
    sizes: Option<&CollectionStats>,
    scale: u64,
) -> Result<()> {
    let (documents, bytes) = sizes.map_or((0, 0), |sizes| (sizes.documents, sizes.document_bytes));
    let indexes = sizes.map_or(&[][..], |sizes| &sizes.indexes);
    let index_bytes: u64 = indexes.iter().map(|index| index.entry_bytes).sum();
    reply.append(cstr!("size"), number(bytes / scale));
    reply.append(cstr!("count"), number(documents));
    if let Some(average) = bytes.checked_div(documents) {
        reply.append(cstr!("avgObjSize"), number(average));
    }
    reply.append(cstr!("storageSize"), number(bytes / scale));
    reply.append(cstr!("capped"), false);
    reply.append(cstr!("nindexes"), number(indexes.len() as u64));
    let mut index_sizes = RawDocumentBuf::new();
    for index in indexes {
        let name = CString::try_from(index.index.name.as_str())?;
        index_sizes.append(name, number(index.entry_bytes / scale));
    }
    reply.append(cstr!("indexSizes"), index_sizes);
    reply.append(cstr!("totalIndexSize"), number(index_bytes / scale));
    reply.append(cstr!("totalSize"), number((bytes + index_bytes) / scale));
    reply.append(cstr!("scaleFactor"), number(scale));
    Ok(())
}

/// Returns the document of a stage `{ $collStats: { storageStats: {}, count: {} } }`.
pub(super) fn stage(
    operation: &Operation,
    collection: &str,
    options: RawBsonRef<'_>,
) -> Result<RawDocumentBuf> {
    let RawBsonRef::Document(options) = options else {
        let message = "$collStats must take a nested object";
        return Err(CommandError::new(code::FAILED_TO_PARSE, message));
    };
    let mut options = Arguments::nested("$collStats", options)?;
    let (storage, count) = (
        options.document("storageStats")?,
        options.document("count")?,
    );
    options.refuse(&["latencyStats", "queryExecStats"])?;
    options.finish()?;
    let sizes = read(operation, collection)?;
    if sizes.is_none() {
        return Err(CommandError::namespace_not_found(
            operation.namespace(collection),
        ));
    }
    let namespace = operation.namespace(collection).to_string();
    let mut output = rawdoc! { "ns": namespace, "localTime": DateTime::now() };
    if let Some(storage) = storage {
        let mut storage = Arguments::nested("storageStats", &storage)?;
        let scale = take_scale(&mut storage)?;
        storage.finish()?;
        let mut statistics = RawDocumentBuf::new();
        append_sizes(&mut statistics, sizes.as_ref(), scale)?;
        output.append(cstr!("storageStats"), statistics);
    }
    if count.is_some() {
        let documents = sizes.map_or(0, |sizes| sizes.documents);
        output.append(cstr!("count"), long(documents));
    }
    Ok(output)
}
