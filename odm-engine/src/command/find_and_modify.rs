use std::sync::Arc;

use bson::{RawBson, RawDocument, RawDocumentBuf};

use super::find::is_one_id;
use super::matches::{MatchIterator, MatchedDocument};
use super::{parse_order, update, variables};
use crate::catalog::Collection;
use crate::collation::Collation;
use crate::document;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::overlay::WriteOverlay;
use crate::plan::{self, IndexHint, PlanRequest};
use crate::projection::Projection;
use crate::sort::{Sort, SortKey};
use crate::update::ParsedUpdate;

/// A change to one document, which is returned in the same step.
///
/// ```
/// use bson::rawdoc;
/// use odm_engine::{Database, FindAndModify, Modification};
///
/// let database = Database::memory();
/// let jobs = [(1, 5), (2, 9)].map(|(id, priority)| rawdoc! { "_id": id, "priority": priority });
/// database.insert("jobs", jobs.to_vec())?.into_result()?;
/// let take = FindAndModify {
///     sort: Some(rawdoc! { "priority": -1 }),
///     ..FindAndModify::new(rawdoc! { "taken": null }, Modification::Update {
///         update: rawdoc! { "$set": { "taken": true } },
///         pipeline: None,
///         array_filters: Vec::new(),
///         upsert: false,
///         return_new: true,
///     })
/// };
/// let taken = database.find_and_modify("jobs", &take)?.document;
/// assert_eq!(taken, Some(rawdoc! { "_id": 2, "priority": 9, "taken": true }));
/// # Ok::<(), odm_engine::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FindAndModify {
    /// The filter of the document; an empty filter matches any.
    pub filter: RawDocumentBuf,
    /// The order that decides which document is first; unspecified if `None`.
    pub sort: Option<RawDocumentBuf>,
    /// The fields to return; all fields if `None`.
    pub projection: Option<RawDocumentBuf>,
    /// The change to the document.
    pub modification: Modification,
    /// The values of variables, which expressions read as `$$name`.
    pub variables: RawDocumentBuf,
    /// The index to use: its name, its key, or `{ $natural: 1 }` or `-1` for a collection scan. The planner chooses if `None`.
    pub hint: Option<RawBson>,
    /// The order of strings in every comparison; `None` compares byte by byte. An index serves comparisons of strings only if it has the
    /// same collation.
    pub collation: Option<Collation>,
}

/// The change that a [`FindAndModify`] makes.
#[derive(Clone, Debug, PartialEq)]
pub enum Modification {
    /// Updates the document, and returns the document before or after the update.
    Update {
        /// Update operators, or a replacement document.
        update: RawDocumentBuf,
        /// Pipeline stages instead of `update`, as in [`Update`](crate::Update).
        pipeline: Option<Vec<RawDocumentBuf>>,
        /// The filters for `$[name]` in the paths of the update.
        array_filters: Vec<RawDocumentBuf>,
        /// Whether to insert a document if no document matches.
        upsert: bool,
        /// Whether to return the document after the update instead of before.
        return_new: bool,
    },
    /// Deletes the document, and returns it.
    Delete,
}

/// The report of a [`FindAndModify`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FindAndModifyReport {
    /// The returned document. `None` if no document matched, unless the new document of an upsert was requested.
    pub document: Option<RawDocumentBuf>,
    /// Whether a document matched.
    pub matched: bool,
    /// The `_id` of the document inserted by an upsert.
    pub upserted_id: Option<RawBson>,
}

impl FindAndModify {
    /// Creates a command that changes any matching document and returns all of its fields.
    pub fn new(filter: RawDocumentBuf, modification: Modification) -> FindAndModify {
        FindAndModify {
            filter,
            sort: None,
            projection: None,
            modification,
            variables: RawDocumentBuf::new(),
            hint: None,
            collation: None,
        }
    }
}

pub(crate) fn run_find_and_modify(
    overlay: &mut WriteOverlay,
    name: &str,
    command: &FindAndModify,
) -> Result<FindAndModifyReport> {
    let environment = variables::parse_environment(&command.variables, command.collation.as_ref())?;
    // As on MongoDB, a filter on a single `_id` needs no order. The order is then not even checked, unless there is a projection.
    let has_projection = command
        .projection
        .as_ref()
        .is_some_and(|projection| !projection.is_empty());
    let sort = command.sort.as_deref();
    let is_one_id = command.collation.is_none() && is_one_id(&command.filter);
    let sort = sort.filter(|_| has_projection || !is_one_id);
    let query = |is_upsert| -> Result<ModifyQuery> {
        let filter = update::parse_filter(&command.filter, is_upsert, &environment)?;
        let (sort, hint) = parse_order(sort, command.hint.as_ref(), environment.order())?;
        let projection = command.projection.as_deref();
        let projection = projection
            .map(|projection| Projection::parse(projection, &environment))
            .transpose()?;
        let sort = sort.filter(|_| !is_one_id);
        Ok(ModifyQuery {
            filter: Arc::new(filter),
            sort,
            hint,
            projection,
        })
    };
    match &command.modification {
        Modification::Delete => delete_first(overlay, name, &query(false)?),
        Modification::Update {
            update,
            pipeline,
            array_filters,
            upsert,
            return_new,
        } => {
            // Keep this order of checks: MongoDB reports an invalid update before an invalid filter.
            let update = match pipeline {
                Some(stages) => ParsedUpdate::parse_pipeline(stages, array_filters, &environment)?,
                None => ParsedUpdate::parse(update, array_filters, environment.order())?,
            };
            let query = query(*upsert)?;
            let is_positional = Projection::is_positional;
            if *return_new && query.projection.as_ref().is_some_and(is_positional) {
                let message = "cannot use a positional projection and return the new document";
                return Err(Error::bad_value(message));
            }
            let updated = update_first(overlay, name, &query, &update, *return_new)?;
            match updated {
                Some(report) => Ok(report),
                None if *upsert => insert_upserted(overlay, name, &query, &update, *return_new),
                None => Ok(FindAndModifyReport::default()),
            }
        }
    }
}

fn delete_first(
    overlay: &mut WriteOverlay,
    name: &str,
    query: &ModifyQuery,
) -> Result<FindAndModifyReport> {
    let Some((collection, document)) = query.first_match(overlay, name)? else {
        return Ok(FindAndModifyReport::default());
    };
    let old = document.as_document()?;
    overlay.remove(&collection, document.record, old)?;
    Ok(FindAndModifyReport {
        document: Some(query.project_document(old)?),
        matched: true,
        upserted_id: None,
    })
}

/// Updates the first matching document. Returns `None` if no document matches.
fn update_first(
    overlay: &mut WriteOverlay,
    name: &str,
    query: &ModifyQuery,
    update: &ParsedUpdate,
    return_new: bool,
) -> Result<Option<FindAndModifyReport>> {
    let Some((collection, document)) = query.first_match(overlay, name)? else {
        return Ok(None);
    };
    let old = document.as_document()?;
    let new = update.apply(old, &query.filter)?;
    if let Some(new) = &new {
        overlay.replace(&collection, document.record, old, new)?;
    }
    let returned = match &new {
        Some(new) if return_new => &*new.document,
        _ => old,
    };
    Ok(Some(FindAndModifyReport {
        document: Some(query.project_document(returned)?),
        matched: true,
        upserted_id: None,
    }))
}

fn insert_upserted(
    overlay: &mut WriteOverlay,
    name: &str,
    query: &ModifyQuery,
    update: &ParsedUpdate,
    return_new: bool,
) -> Result<FindAndModifyReport> {
    let inserted = update::upsert(overlay, name, update, &query.filter)?;
    let returned = return_new.then(|| query.project_document(&inserted));
    Ok(FindAndModifyReport {
        document: returned.transpose()?,
        matched: false,
        upserted_id: Some(document::document_id(&inserted)?.into()),
    })
}

/// The parsed query of a find-and-modify command.
struct ModifyQuery {
    filter: Arc<Filter>,
    sort: Option<Sort>,
    hint: Option<IndexHint>,
    projection: Option<Projection>,
}

impl ModifyQuery {
    /// Returns the first matching document, with its collection.
    fn first_match(
        &self,
        overlay: &WriteOverlay,
        name: &str,
    ) -> Result<Option<(Arc<Collection>, MatchedDocument)>> {
        let Some(collection) = overlay.collection(name) else {
            return Ok(None);
        };
        let view = overlay.view();
        let question = PlanRequest {
            sort: self.sort.as_ref(),
            hint: self.hint.as_ref(),
            ..PlanRequest::new(&self.filter)
        };
        let plan = plan::choose_plan(view, &collection, &question)?;
        let to_sort = self.sort.as_ref().filter(|_| !plan.is_sorted);
        let mut matches = MatchIterator::new(view, &collection, plan, Arc::clone(&self.filter));
        let first = match to_sort {
            None => matches.next().transpose()?,
            Some(sort) => first_in_order(matches, sort)?,
        };
        Ok(first.map(|document| (collection, document)))
    }

    fn project_document(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        match &self.projection {
            Some(projection) => projection.apply(document, &self.filter),
            None => Ok(document.to_owned()),
        }
    }
}

/// Returns the match that is first in the order.
fn first_in_order(matches: MatchIterator, sort: &Sort) -> Result<Option<MatchedDocument>> {
    let mut smallest: Option<(SortKey, MatchedDocument)> = None;
    for document in matches {
        let document = document?;
        let key = sort.extract_key(document.as_document()?)?;
        let is_smaller =
            |(other, _): &(SortKey, MatchedDocument)| sort.compare(&key, other).is_lt();
        if smallest.as_ref().is_none_or(is_smaller) {
            smallest = Some((key, document));
        }
    }
    Ok(smallest.map(|(_, document)| document))
}
