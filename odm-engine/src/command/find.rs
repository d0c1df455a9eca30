use std::sync::Arc;

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::matches::Matches;
use super::{Reading, parse_order, variables};
use crate::catalog::Collection;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::filter::Filter;
use crate::plan::{self, Hint, Plan, Question, Reads};
use crate::projection::Projection;
use crate::sort::{Sort, Sorter};
use crate::value;

/// A query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Find {
    /// What the documents must match; empty for all.
    pub filter: RawDocumentBuf,
    /// Which fields to return; all if `None`.
    pub projection: Option<RawDocumentBuf>,
    /// The order; unspecified if `None`.
    pub sort: Option<RawDocumentBuf>,
    /// How many documents to pass over.
    pub skip: u64,
    /// How many documents to return at most; all if `None`.
    pub limit: Option<u64>,
    /// The values of the variables that expressions read as `$$name`.
    pub variables: RawDocumentBuf,
    /// The index to use: its name, its key, or `{ $natural: 1 }` or `-1` for none; chosen if `None`.
    pub hint: Option<RawBson>,
}

/// A query, parsed.
pub(super) struct Query {
    pub(super) filter: Arc<Filter>,
    pub(super) sort: Option<Sort>,
    projection: Option<Projection>,
    skip: u64,
    limit: Option<u64>,
    hint: Option<Hint>,
}

pub(crate) fn run(reading: Reading<'_>, name: &str, find: &Find) -> Result<Cursor> {
    Query::parse(find)?.run(reading, name)
}

impl Query {
    pub(super) fn parse(find: &Find) -> Result<Query> {
        let environment = variables::environment(&find.variables)?;
        // In this order, as several may be refused.
        let filter = Filter::parse_in(&find.filter, &environment)?;
        let projection = find
            .projection
            .as_deref()
            .map(|projection| Projection::parse(projection, &environment))
            .transpose()?;
        let (sort, hint) = parse_order(find.sort.as_deref(), find.hint.as_ref())?;
        let sort = sort.filter(|_| find.skip > 0 || !is_one_id(&find.filter));
        Ok(Query {
            filter: Arc::new(filter),
            sort,
            projection,
            skip: find.skip,
            limit: find.limit,
            hint,
        })
    }

    /// How the documents are found.
    pub(super) fn plan(&self, reading: Reading<'_>, collection: &Collection) -> Result<Plan> {
        let included = self.projection.as_ref().and_then(Projection::included);
        let question = Question {
            filter: &self.filter,
            sort: self.sort.as_ref(),
            hint: self.hint.as_ref(),
            reads: included.map_or(Reads::Document, Reads::Paths),
        };
        plan::choose(reading.view, collection, &question)
    }

    fn run(self, reading: Reading<'_>, name: &str) -> Result<Cursor> {
        let Some(collection) = reading.catalog.get(name) else {
            return Ok(Cursor::new(std::iter::empty()));
        };
        let plan = self.plan(reading, collection)?;
        let to_sort = self.sort.as_ref().filter(|_| !plan.is_sorted);
        let mut matches = Matches::new(reading.view, collection, plan, Arc::clone(&self.filter));
        match to_sort {
            Some(sort) => {
                let mut sorter = Sorter::new(sort, self.last());
                for found in &mut matches {
                    sorter.add(found?.document()?)?;
                }
                let sorted = sorter.finish().map(Ok);
                Ok(self.page(sorted))
            }
            None => {
                let copy = |document: &RawDocument| document.to_owned();
                Ok(self.page(matches.map(move |found| found?.document().map(copy))))
            }
        }
    }

    /// How many documents are looked at, those that are skipped included.
    pub(super) fn last(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_add(self.skip))
    }

    fn page(
        self,
        documents: impl Iterator<Item = Result<RawDocumentBuf>> + Send + 'static,
    ) -> Cursor {
        let mut left = self.skip;
        // An error is not skipped.
        let behind = documents.filter(move |document| {
            let is_skipped = left > 0 && document.is_ok();
            left -= u64::from(is_skipped);
            !is_skipped
        });
        let limit = self.limit.and_then(|limit| usize::try_from(limit).ok());
        let page = behind.take(limit.unwrap_or(usize::MAX));
        match self.projection {
            Some(projection) => {
                let filter = self.filter;
                Cursor::new(page.map(move |document| projection.apply(&document?, &filter)))
            }
            None => Cursor::new(page),
        }
    }
}

/// Whether a filter says what `_id` is, and nothing else. As on MongoDB, one document is not sorted, unless there is something
/// to skip.
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
