use std::sync::Arc;

use bson::{RawBson, RawDocument, RawDocumentBuf};

use super::matches::MatchIterator;
use super::{parse_hint, variables};
use crate::collation::Collation;
use crate::document;
use crate::error::{Error, Result, code};
use crate::expression::Environment;
use crate::filter::Filter;
use crate::overlay::WriteOverlay;
use crate::plan::{self, PlanRequest};
use crate::update;

/// An update.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    /// The filter of the documents; an empty filter matches all.
    pub filter: RawDocumentBuf,
    /// Update operators, or a replacement document.
    pub update: RawDocumentBuf,
    /// Pipeline stages that compute the new document, instead of `update`: `$addFields`, `$project`, `$replaceRoot`,
    /// `$replaceWith`, `$set` and `$unset`.
    pub pipeline: Option<Vec<RawDocumentBuf>>,
    /// The filters for `$[name]` in the paths of the update.
    pub array_filters: Vec<RawDocumentBuf>,
    /// Whether to update all matching documents instead of the first.
    pub multi: bool,
    /// Whether to insert a document if no document matches.
    pub upsert: bool,
    /// The values of variables, which expressions read as `$$name`.
    pub variables: RawDocumentBuf,
    /// The index to use: its name, its key, or `{ $natural: 1 }` or `-1` for a collection scan. The planner chooses if `None`.
    pub hint: Option<RawBson>,
    /// The order of strings in every comparison; `None` compares byte by byte. An index serves comparisons of strings only if it has the
    /// same collation.
    pub collation: Option<Collation>,
}

/// The report of an update.
#[derive(Clone, Debug, Default)]
#[must_use = "an update of several documents can fail half-way"]
pub struct UpdateReport {
    /// The number of matching documents.
    pub matched: u64,
    /// The number of changed documents.
    pub modified: u64,
    /// The `_id` of the document inserted by an upsert.
    pub upserted_id: Option<RawBson>,
    /// The error of a document that could not be updated. Earlier documents are updated, later documents are not.
    pub failure: Option<Error>,
}

pub(crate) fn run_update(
    overlay: &mut WriteOverlay,
    name: &str,
    command: &Update,
) -> Result<UpdateReport> {
    let environment = variables::parse_environment(&command.variables, command.collation.as_ref())?;
    run_update_in(overlay, name, command, &environment)
}

/// Runs an update in the environment of another command, instead of the variables and the collation of the update.
pub(super) fn run_update_in(
    overlay: &mut WriteOverlay,
    name: &str,
    command: &Update,
    environment: &Arc<Environment>,
) -> Result<UpdateReport> {
    let array_filters = &command.array_filters;
    // Keep this order of checks: MongoDB reports an invalid update before an invalid filter.
    let update = match &command.pipeline {
        Some(stages) => update::ParsedUpdate::parse_pipeline(stages, array_filters, environment)?,
        None => update::ParsedUpdate::parse(&command.update, array_filters, environment.order())?,
    };
    let filter = Arc::new(parse_filter(&command.filter, command.upsert, environment)?);
    if command.multi && update.is_replacement() {
        let message = "a replacement is for one document; use update operators for several";
        return Err(Error::with_server_code(code::FAILED_TO_PARSE, message));
    }
    let hint = parse_hint(command.hint.as_ref())?;
    let mut report = UpdateReport::default();
    if let Some(collection) = overlay.collection(name) {
        // The view is immutable, so an updated document is not visited again.
        let view = overlay.view().clone();
        let question = PlanRequest {
            hint: hint.as_ref(),
            ..PlanRequest::new(&filter)
        };
        let plan = plan::choose_plan(&view, &collection, &question)?;
        for found_document in MatchIterator::new(&view, &collection, plan, Arc::clone(&filter)) {
            let changed = found_document.and_then(|found_document| {
                let old = found_document.as_document()?;
                match update.apply(old, &filter)? {
                    Some(new) => overlay
                        .replace(&collection, found_document.record, old, &new)
                        .map(|()| 1),
                    None => Ok(0),
                }
            });
            match changed {
                Ok(changed) => report.modified += changed,
                Err(failure) if report.modified == 0 || failure.ends_operation() => {
                    return Err(failure);
                }
                // As on MongoDB, an update of several documents is not atomic.
                Err(failure) => {
                    report.failure = Some(failure);
                    break;
                }
            }
            report.matched += 1;
            if !command.multi {
                break;
            }
        }
    }
    if report.matched == 0 && command.upsert {
        let document = upsert(overlay, name, &update, &filter)?;
        report.upserted_id = Some(document::document_id(&document)?.into());
    }
    Ok(report)
}

/// Parses the filter of an update.
pub(super) fn parse_filter(
    filter: &RawDocument,
    is_upsert: bool,
    environment: &Arc<Environment>,
) -> Result<Filter> {
    environment.parse_all(|| {
        let filter = Filter::parse_for_command(filter, environment)?;
        if is_upsert {
            filter.ensure_no_expr()?;
        }
        Ok(filter)
    })
}

/// Inserts the document of an upsert, derived from `update` and `filter`, and returns the document.
pub(super) fn upsert(
    overlay: &mut WriteOverlay,
    name: &str,
    update: &update::ParsedUpdate,
    filter: &Filter,
) -> Result<RawDocumentBuf> {
    let collection = overlay.collection_or_create(name)?;
    let document = update.upserted_document(filter)?;
    document::check_size(&document, code::UPSERT_TOO_LARGE)?;
    let document = document::prepare_for_storage(&document)?;
    overlay.insert(&collection, &document)?;
    Ok(document.into_owned())
}
