use std::sync::Arc;

use bson::{RawBson, RawDocument, RawDocumentBuf};

use super::matches::Matches;
use super::{parse_hint, variables};
use crate::document;
use crate::error::{Error, Result, code};
use crate::expression::Environment;
use crate::filter::Filter;
use crate::overlay::Overlay;
use crate::plan::{self, Question};
use crate::update;

/// An update.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    /// What the documents must match; empty for all.
    pub filter: RawDocumentBuf,
    /// Update operators, or the document to put in place.
    pub update: RawDocumentBuf,
    /// Stages that make another document of each, instead of `update`: `$addFields`, `$project`, `$replaceRoot`,
    /// `$replaceWith`, `$set` and `$unset`.
    pub pipeline: Option<Vec<RawDocumentBuf>>,
    /// What the `$[name]` in the paths of the update refer to.
    pub array_filters: Vec<RawDocumentBuf>,
    /// Whether to update all that match rather than the first.
    pub multi: bool,
    /// Whether to insert a document if none matches.
    pub upsert: bool,
    /// The values of the variables that expressions read as `$$name`.
    pub variables: RawDocumentBuf,
    /// The index to use: its name, its key, or `{ $natural: 1 }` or `-1` for none; chosen if `None`.
    pub hint: Option<RawBson>,
}

/// What an update did.
#[derive(Clone, Debug, Default)]
#[must_use = "an update of several documents can fail half-way"]
pub struct UpdateReport {
    /// How many documents matched.
    pub matched: u64,
    /// How many of them are different now.
    pub modified: u64,
    /// The `_id` of the document that was inserted because none matched.
    pub upserted_id: Option<RawBson>,
    /// Why a document could not be changed, and with it none after it: those before it are.
    pub failure: Option<Error>,
}

pub(crate) fn run(overlay: &mut Overlay, name: &str, command: &Update) -> Result<UpdateReport> {
    let environment = variables::environment(&command.variables)?;
    let array_filters = &command.array_filters;
    // The update first, as both may be refused.
    let update = match &command.pipeline {
        Some(stages) => update::Update::parse_pipeline(stages, array_filters, &environment)?,
        None => update::Update::parse(&command.update, array_filters)?,
    };
    let filter = Arc::new(parse_filter(&command.filter, command.upsert, &environment)?);
    if command.multi && update.is_replacement() {
        let message = "a replacement is for one document; use update operators for several";
        return Err(Error::server(code::FAILED_TO_PARSE, message));
    }
    let hint = parse_hint(command.hint.as_ref())?;
    let mut report = UpdateReport::default();
    if let Some(collection) = overlay.collection(name) {
        // The view is frozen: no document is met again after it has changed.
        let view = overlay.view().clone();
        let question = Question {
            hint: hint.as_ref(),
            ..Question::new(&filter)
        };
        let plan = plan::choose(&view, &collection, &question)?;
        for found in Matches::new(&view, &collection, plan, Arc::clone(&filter)) {
            let changed = found.and_then(|found| {
                let old = found.document()?;
                match update.apply(old, &filter)? {
                    Some(new) => overlay
                        .replace(&collection, found.record, old, &new)
                        .map(|()| 1),
                    None => Ok(0),
                }
            });
            match changed {
                Ok(changed) => report.modified += changed,
                Err(failure) if report.modified == 0 || failure.ends_operation() => {
                    return Err(failure);
                }
                // As on MongoDB, an update of several documents is no transaction.
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
        report.upserted_id = Some(document::id(&document)?.into());
    }
    Ok(report)
}

/// Reads the filter of an update.
pub(super) fn parse_filter(
    filter: &RawDocument,
    is_upsert: bool,
    environment: &Arc<Environment>,
) -> Result<Filter> {
    environment.parse_all(|| {
        let filter = Filter::parse_in(filter, environment)?;
        if is_upsert {
            filter.check_upsert()?;
        }
        Ok(filter)
    })
}

/// Inserts the document that an update makes where `filter` has found none, and returns it.
pub(super) fn upsert(
    overlay: &mut Overlay,
    name: &str,
    update: &update::Update,
    filter: &Filter,
) -> Result<RawDocumentBuf> {
    let collection = overlay.collection_or_create(name)?;
    let document = update.upsert(filter)?;
    document::check_size(&document, code::UPSERT_TOO_LARGE)?;
    let document = document::prepare(document)?;
    overlay.insert(&collection, &document)?;
    Ok(document)
}
