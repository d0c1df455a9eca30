//! `{ collMod: "c", index: { name, expireAfterSeconds, hidden } }`: changes the definition of an index.

use std::time::Duration;

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf, raw::cstr};
use odm_engine::Index;

use super::{Command, long};
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::{CommandError, Result, code};

pub(super) const COMMAND: Command = Command::write("collMod", run);

fn run(operation: &Operation, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    let collection = arguments.collection("collMod")?;
    let name = operation.engine_name_to_write(&collection)?;
    let indexes = operation.database().list_indexes(&name)?;
    if indexes.is_empty() {
        return Err(CommandError::namespace_not_found(
            operation.namespace(&collection),
        ));
    }
    arguments.refuse(&[
        "changeStreamPreAndPostImages",
        "expireAfterSeconds",
        "pipeline",
        "validationAction",
        "validationLevel",
        "validator",
        "viewOn",
    ])?;
    let change = arguments.document("index")?;
    arguments.finish()?;
    match change {
        Some(change) => change_index(operation, &name, &indexes, &change),
        None => Ok(RawDocumentBuf::new()),
    }
}

fn change_index(
    operation: &Operation,
    collection: &str,
    indexes: &[Index],
    change: &RawDocument,
) -> Result<RawDocumentBuf> {
    let mut change = Arguments::nested("collMod.index", change)?;
    let (name, key) = (change.text("name")?, change.document("keyPattern")?);
    let expiry = change.unsigned("expireAfterSeconds")?;
    let hidden = change.optional_flag("hidden")?;
    change.refuse(&["prepareUnique", "unique"])?;
    change.finish()?;
    let has_key = |index: &Index| {
        let definition = index.to_document();
        let of_index = definition.get("key").ok().flatten();
        key.as_deref().map(RawBsonRef::Document) == of_index
    };
    let found = match &name {
        Some(name) => indexes.iter().find(|index| index.name == *name),
        None => indexes.iter().find(|index| has_key(index)),
    };
    let index = found.ok_or_else(|| {
        CommandError::new(code::INDEX_NOT_FOUND, "cannot find the index of `collMod`")
    })?;
    let database = operation.database();
    let mut reply = RawDocumentBuf::new();
    if let Some(seconds) = expiry {
        database.set_index_expiry(collection, &index.name, Duration::from_secs(seconds))?;
        if let Some(before) = index.expire_after {
            let before = RawBson::Int64(long(before.as_secs()));
            reply.append(cstr!("expireAfterSeconds_old"), before);
        }
        reply.append(cstr!("expireAfterSeconds_new"), long(seconds));
    }
    if let Some(hidden) = hidden {
        database.set_index_hidden(collection, &index.name, hidden)?;
        reply.append(cstr!("hidden_old"), index.hidden);
        reply.append(cstr!("hidden_new"), hidden);
    }
    Ok(reply)
}
