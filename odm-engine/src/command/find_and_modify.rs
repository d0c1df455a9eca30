use std::sync::Arc;

use bson::{RawBson, RawDocument, RawDocumentBuf};

use super::find::is_one_id;
use super::matches::{Match, Matches};
use super::{parse_order, update, variables};
use crate::catalog::Collection;
use crate::document;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::overlay::Overlay;
use crate::plan::{self, Hint, Question};
use crate::projection::Projection;
use crate::sort::{Sort, SortKey};
use crate::update::Update;

/// A change to one document, which is returned in the same step.
///
/// ```
/// use bson::rawdoc;
/// use odm_engine::{Database, FindAndModify, Modification};
///
/// let database = Database::memory();
/// let jobs = [(1, 5), (2, 9)].map(|(id, priority)| rawdoc! { "_id": id, "priority": priority });
/// database.insert("jobs", jobs.to_vec())?.all()?;
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
    /// What the document must match; empty for any.
    pub filter: RawDocumentBuf,
    /// Which document comes first; unspecified if `None`.
    pub sort: Option<RawDocumentBuf>,
    /// Which fields to return; all if `None`.
    pub projection: Option<RawDocumentBuf>,
    /// What becomes of the document.
    pub modification: Modification,
    /// The values of the variables that expressions read as `$$name`.
    pub variables: RawDocumentBuf,
    /// The index to use: its name, its key, or `{ $natural: 1 }` or `-1` for none; chosen if `None`.
    pub hint: Option<RawBson>,
}

/// What a [`FindAndModify`] does to the document.
#[derive(Clone, Debug, PartialEq)]
pub enum Modification {
    /// Changes it, and returns it as it was before or as it is now.
    Update {
        /// Update operators, or the document to put in place.
        update: RawDocumentBuf,
        /// Stages instead of `update`, as those of an [`Update`](crate::Update).
        pipeline: Option<Vec<RawDocumentBuf>>,
        /// What the `$[name]` in the paths of the update refer to.
        array_filters: Vec<RawDocumentBuf>,
        /// Whether to insert a document if none matches.
        upsert: bool,
        /// Whether to return the document as it is now rather than as it was before.
        return_new: bool,
    },
    /// Deletes it, and returns it as it was.
    Delete,
}

/// What a [`FindAndModify`] did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FindAndModifyReport {
    /// The document. `None` if none matched, also if one was inserted and that is not to be returned.
    pub document: Option<RawDocumentBuf>,
    /// Whether a document matched.
    pub matched: bool,
    /// The `_id` of the document that was inserted because none matched.
    pub upserted_id: Option<RawBson>,
}

impl FindAndModify {
    /// One that takes any of the documents that match, and returns all of its fields.
    pub fn new(filter: RawDocumentBuf, modification: Modification) -> FindAndModify {
        FindAndModify {
            filter,
            sort: None,
            projection: None,
            modification,
            variables: RawDocumentBuf::new(),
            hint: None,
        }
    }
}

pub(crate) fn run(
    overlay: &mut Overlay,
    name: &str,
    command: &FindAndModify,
) -> Result<FindAndModifyReport> {
    let environment = variables::environment(&command.variables)?;
    // As on MongoDB, where one document needs no order: what is said about it is not even looked at,
    // unless for a projection.
    let projects = command
        .projection
        .as_ref()
        .is_some_and(|projection| !projection.is_empty());
    let sort = command.sort.as_deref();
    let sort = sort.filter(|_| projects || !is_one_id(&command.filter));
    let query = |is_upsert| -> Result<Query> {
        let filter = update::parse_filter(&command.filter, is_upsert, &environment)?;
        let (sort, hint) = parse_order(sort, command.hint.as_ref())?;
        let projection = command.projection.as_deref();
        let projection = projection
            .map(|projection| Projection::parse(projection, &environment))
            .transpose()?;
        let sort = sort.filter(|_| !is_one_id(&command.filter));
        Ok(Query {
            filter: Arc::new(filter),
            sort,
            hint,
            projection,
        })
    };
    match &command.modification {
        Modification::Delete => delete(overlay, name, &query(false)?),
        Modification::Update {
            update,
            pipeline,
            array_filters,
            upsert,
            return_new,
        } => {
            // The update first, as both may be refused.
            let update = match pipeline {
                Some(stages) => Update::parse_pipeline(stages, array_filters, &environment)?,
                None => Update::parse(update, array_filters)?,
            };
            let query = query(*upsert)?;
            let is_positional = Projection::is_positional;
            if *return_new && query.projection.as_ref().is_some_and(is_positional) {
                let message = "cannot use a positional projection and return the new document";
                return Err(Error::bad_value(message));
            }
            let updated = change(overlay, name, &query, &update, *return_new)?;
            match updated {
                Some(report) => Ok(report),
                None if *upsert => insert(overlay, name, &query, &update, *return_new),
                None => Ok(FindAndModifyReport::default()),
            }
        }
    }
}

fn delete(overlay: &mut Overlay, name: &str, query: &Query) -> Result<FindAndModifyReport> {
    let Some((collection, found)) = query.first(overlay, name)? else {
        return Ok(FindAndModifyReport::default());
    };
    let old = found.document()?;
    overlay.remove(&collection, found.record, old)?;
    Ok(FindAndModifyReport {
        document: Some(query.project(old)?),
        matched: true,
        upserted_id: None,
    })
}

/// `None` if no document matches.
fn change(
    overlay: &mut Overlay,
    name: &str,
    query: &Query,
    update: &Update,
    return_new: bool,
) -> Result<Option<FindAndModifyReport>> {
    let Some((collection, found)) = query.first(overlay, name)? else {
        return Ok(None);
    };
    let old = found.document()?;
    let new = update.apply(old, &query.filter)?;
    if let Some(new) = &new {
        overlay.replace(&collection, found.record, old, new)?;
    }
    let shown = match &new {
        Some(new) if return_new => &*new.document,
        _ => old,
    };
    Ok(Some(FindAndModifyReport {
        document: Some(query.project(shown)?),
        matched: true,
        upserted_id: None,
    }))
}

fn insert(
    overlay: &mut Overlay,
    name: &str,
    query: &Query,
    update: &Update,
    return_new: bool,
) -> Result<FindAndModifyReport> {
    let inserted = update::upsert(overlay, name, update, &query.filter)?;
    let shown = return_new.then(|| query.project(&inserted));
    Ok(FindAndModifyReport {
        document: shown.transpose()?,
        matched: false,
        upserted_id: Some(document::id(&inserted)?.into()),
    })
}

/// Which document is meant, and what of it is returned.
struct Query {
    filter: Arc<Filter>,
    sort: Option<Sort>,
    hint: Option<Hint>,
    projection: Option<Projection>,
}

impl Query {
    /// The first document that matches, with its collection.
    fn first(&self, overlay: &Overlay, name: &str) -> Result<Option<(Arc<Collection>, Match)>> {
        let Some(collection) = overlay.collection(name) else {
            return Ok(None);
        };
        let view = overlay.view();
        let question = Question {
            sort: self.sort.as_ref(),
            hint: self.hint.as_ref(),
            ..Question::new(&self.filter)
        };
        let plan = plan::choose(view, &collection, &question)?;
        let to_sort = self.sort.as_ref().filter(|_| !plan.is_sorted);
        let mut matches = Matches::new(view, &collection, plan, Arc::clone(&self.filter));
        let first = match to_sort {
            None => matches.next().transpose()?,
            Some(sort) => smallest(matches, sort)?,
        };
        Ok(first.map(|found| (collection, found)))
    }

    fn project(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        match &self.projection {
            Some(projection) => projection.apply(document, &self.filter),
            None => Ok(document.to_owned()),
        }
    }
}

/// The match that a sort puts first.
fn smallest(matches: Matches, sort: &Sort) -> Result<Option<Match>> {
    let mut smallest: Option<(SortKey, Match)> = None;
    for found in matches {
        let found = found?;
        let key = sort.key(found.document()?)?;
        let is_smaller = |(other, _): &(SortKey, Match)| sort.compare(&key, other).is_lt();
        if smallest.as_ref().is_none_or(is_smaller) {
            smallest = Some((key, found));
        }
    }
    Ok(smallest.map(|(_, found)| found))
}
