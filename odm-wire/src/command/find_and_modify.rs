//! `{ findAndModify: "c", query, update }`: changes one document, and returns it.

use bson::{RawBson, RawDocumentBuf, raw::cstr, rawdoc};
use odm_engine::{FindAndModify, Modification};

use super::find::not_empty;
use super::write::parse_operand;
use super::{Command, number};
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::{CommandError, Result, code};

pub(super) const COMMAND: Command = Command::write("findAndModify", run)
    .with_aliases(&["findandmodify"])
    .in_transaction()
    .retryable();

fn run(operation: &Operation, arguments: Arguments) -> Result<RawDocumentBuf> {
    let (collection, command) = parse(arguments)?;
    let name = operation.engine_name_to_write(&collection)?;
    let report = operation.engine().find_and_modify(&name, &command)?;
    let changed = report.matched || report.upserted_id.is_some();
    let mut last_error = rawdoc! { "n": number(u64::from(changed)) };
    if matches!(command.modification, Modification::Update { .. }) {
        last_error.append(cstr!("updatedExisting"), report.matched);
    }
    if let Some(id) = report.upserted_id {
        last_error.append(cstr!("upserted"), id);
    }
    let value = report.document.map_or(RawBson::Null, RawBson::Document);
    Ok(rawdoc! { "lastErrorObject": last_error, "value": value })
}

fn parse(mut arguments: Arguments) -> Result<(String, FindAndModify)> {
    let collection = arguments.collection("findAndModify")?;
    arguments.accept(&["bypassDocumentValidation"]);
    let removes = arguments.flag("remove")?;
    let (upsert, return_new) = (arguments.flag("upsert")?, arguments.flag("new")?);
    let array_filters = arguments.documents("arrayFilters")?;
    let update = arguments.value("update");
    let invalid = |message: &str| Err(CommandError::new(code::FAILED_TO_PARSE, message));
    let modification = match (removes, update) {
        (true, Some(_)) => return invalid("Cannot specify both an update and remove=true"),
        (true, None) if upsert => {
            return invalid("Cannot specify both upsert=true and remove=true");
        }
        (true, None) if return_new => {
            return invalid(
                "Cannot specify both new=true and remove=true; 'remove' always returns the deleted document",
            );
        }
        (true, None) if array_filters.is_some() => {
            return invalid("Cannot specify arrayFilters and remove=true");
        }
        (true, None) => Modification::Delete,
        (false, None) => return invalid("Either an update or remove=true must be specified"),
        (false, Some(update)) => {
            let (update, pipeline) = parse_operand(update)?;
            Modification::Update {
                update,
                pipeline,
                array_filters: array_filters.unwrap_or_default(),
                upsert,
                return_new,
            }
        }
    };
    let command = FindAndModify {
        filter: arguments.document("query")?.unwrap_or_default(),
        sort: not_empty(arguments.document("sort")?),
        projection: not_empty(arguments.document("fields")?),
        modification,
        variables: arguments.document("let")?.unwrap_or_default(),
        hint: arguments.hint()?,
        collation: arguments.collation()?,
    };
    arguments.finish()?;
    Ok((collection, command))
}
