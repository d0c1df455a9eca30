use std::sync::Arc;

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::matches::MatchIterator;
use super::{ReadState, id_lookup, parse_order, variables};
use crate::catalog::Collection;
use crate::collation::Collation;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::filter::Filter;
use crate::plan::{self, IndexHint, PlanRequest, QueryPlan, ReadSet};
use crate::projection::Projection;
use crate::sort::{Sort, Sorter};
use crate::value;

/// A query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Find {
    /// The filter of the documents; an empty filter matches all.
    pub filter: RawDocumentBuf,
    /// The fields to return; all fields if `None`.
    pub projection: Option<RawDocumentBuf>,
    /// The order; unspecified if `None`.
    pub sort: Option<RawDocumentBuf>,
    /// The number of matching documents to skip.
    pub skip: u64,
    /// The maximum number of documents to return; unlimited if `None`.
    pub limit: Option<u64>,
    /// The values of variables, which expressions read as `$$name`.
    pub variables: RawDocumentBuf,
    /// The index to use: its name, its key, or `{ $natural: 1 }` or `-1` for a collection scan. The planner chooses if `None`.
    pub hint: Option<RawBson>,
    /// The order of strings in every comparison; `None` compares byte by byte. An index serves comparisons of strings only if it has the
    /// same collation.
    pub collation: Option<Collation>,
}

/// A parsed query.
pub(super) struct FindQuery {
    pub(super) filter: Arc<Filter>,
    pub(super) sort: Option<Sort>,
    projection: Option<Projection>,
    skip: u64,
    limit: Option<u64>,
    hint: Option<IndexHint>,
}

pub(crate) fn run_find(reading: ReadState<'_>, name: &str, find: &Find) -> Result<Cursor> {
    if let Some(condition) = id_lookup::parse_id_condition(find) {
        return id_lookup::find_by_ids(reading, name, condition, find.limit);
    }
    FindQuery::parse(find)?.run_query(reading, name)
}

impl FindQuery {
    pub(super) fn parse(find: &Find) -> Result<FindQuery> {
        let environment = variables::parse_environment(&find.variables, find.collation.as_ref())?;
        // Keep this order of checks: if several parts are invalid, MongoDB reports the error of the first.
        let filter = Filter::parse_for_command(&find.filter, &environment)?;
        let projection = find
            .projection
            .as_deref()
            .map(|projection| Projection::parse(projection, &environment))
            .transpose()?;
        let (sort, hint) = parse_order(
            find.sort.as_deref(),
            find.hint.as_ref(),
            environment.order(),
        )?;
        let sort = sort.filter(|_| {
            // Under a collation, several documents can match.
            find.skip > 0 || find.collation.is_some() || !is_one_id(&find.filter)
        });
        Ok(FindQuery {
            filter: Arc::new(filter),
            sort,
            projection,
            skip: find.skip,
            limit: find.limit,
            hint,
        })
    }

    /// Chooses a plan for the query.
    pub(super) fn choose_plan(
        &self,
        reading: ReadState<'_>,
        collection: &Collection,
    ) -> Result<QueryPlan> {
        let included = self
            .projection
            .as_ref()
            .and_then(Projection::included_paths);
        let question = PlanRequest {
            filter: &self.filter,
            sort: self.sort.as_ref(),
            hint: self.hint.as_ref(),
            reads: included.map_or(ReadSet::Document, ReadSet::Paths),
        };
        plan::choose_plan(reading.view, collection, &question)
    }

    fn run_query(self, reading: ReadState<'_>, name: &str) -> Result<Cursor> {
        let Some(collection) = reading.catalog.get(name) else {
            return Ok(Cursor::new(std::iter::empty()));
        };
        let plan = self.choose_plan(reading, collection)?;
        let to_sort = self.sort.as_ref().filter(|_| !plan.is_sorted);
        let mut matches =
            MatchIterator::new(reading.view, collection, plan, Arc::clone(&self.filter));
        match to_sort {
            Some(sort) => {
                let mut sorter = Sorter::new(sort, self.max_matches());
                for found_document in &mut matches {
                    sorter.add_document(found_document?.as_document()?)?;
                }
                let sorted = sorter.into_sorted().map(Ok);
                Ok(self.into_page(sorted))
            }
            None => {
                let copy = |document: &RawDocument| document.to_owned();
                Ok(self.into_page(
                    matches.map(move |found_document| found_document?.as_document().map(copy)),
                ))
            }
        }
    }

    /// The number of matching documents to find, including the skipped documents.
    pub(super) fn max_matches(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_add(self.skip))
    }

    fn into_page(
        self,
        documents: impl Iterator<Item = Result<RawDocumentBuf>> + Send + 'static,
    ) -> Cursor {
        let mut remaining = self.skip;
        // An error is never skipped.
        let rest = documents.filter(move |document| {
            let is_skipped = remaining > 0 && document.is_ok();
            remaining -= u64::from(is_skipped);
            !is_skipped
        });
        let limit = self.limit.and_then(|limit| usize::try_from(limit).ok());
        let page = rest.take(limit.unwrap_or(usize::MAX));
        match self.projection {
            Some(projection) => {
                let filter = self.filter;
                Cursor::new(page.map(move |document| projection.apply(&document?, &filter)))
            }
            None => Cursor::new(page),
        }
    }
}

/// Whether a filter is an equality on `_id` only. As on MongoDB, a single document is not sorted, unless the query has a skip.
pub(super) fn is_one_id(filter: &RawDocument) -> bool {
    let mut fields = value::fields(filter);
    let is_id = match fields.next() {
        Some(("_id", RawBsonRef::Document(id))) => {
            let first = value::fields(id).next();
            first.is_none_or(|(name, _)| !name.starts_with('$'))
        }
        Some(("_id", id)) => matches!(
            id,
            RawBsonRef::Int32(_)
                | RawBsonRef::Int64(_)
                | RawBsonRef::Double(_)
                | RawBsonRef::Decimal128(_)
                | RawBsonRef::String(_)
                | RawBsonRef::Binary(_)
                | RawBsonRef::ObjectId(_)
                | RawBsonRef::Boolean(_)
                | RawBsonRef::DateTime(_)
                | RawBsonRef::Timestamp(_)
                | RawBsonRef::JavaScriptCode(_)
                | RawBsonRef::JavaScriptCodeWithScope(_)
                | RawBsonRef::MinKey
                | RawBsonRef::MaxKey
        ),
        _ => false,
    };
    is_id && fields.next().is_none()
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn one_id_is_an_equality_with_a_plain_value() {
        assert!(is_one_id(&rawdoc! { "_id": 1 }));
        assert!(is_one_id(&rawdoc! { "_id": { "a": 1 } }));
        assert!(is_one_id(&rawdoc! { "_id": RawBson::MinKey }));
        for several in [
            rawdoc! {},
            rawdoc! { "_id": { "$eq": 1 } },
            rawdoc! { "_id": null },
            rawdoc! { "_id": [1] },
            rawdoc! { "_id": 1, "a": 1 },
            rawdoc! { "a": 1 },
        ] {
            assert!(!is_one_id(&several), "{several:?}");
        }
    }
}
