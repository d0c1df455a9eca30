use std::sync::Arc;

use bson::{RawBson, RawDocument, RawDocumentBuf};

use super::matches::Matches;
use super::sorted::Sorter;
use super::{Reading, parse_hint};
use crate::catalog::Collection;
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::plan::{self, Hint, Plan, Question, Reads, natural};
use crate::projection::Projection;
use crate::sort::Sort;

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
        let mut hint = parse_hint(find.hint.as_ref())?;
        let mut sort = None;
        if let Some(specification) = find.sort.as_deref() {
            match natural(specification, "sort")? {
                // The order of insertion is a way to the documents, and leaves room for no other.
                Some(direction) => {
                    let natural = Hint::Natural(direction);
                    if hint.as_ref().is_some_and(|hint| *hint != natural) {
                        let message = "a sort by '$natural' allows no other hint";
                        return Err(Error::bad_value(message));
                    }
                    hint = Some(natural);
                }
                None => sort = Some(Sort::parse(specification)?),
            }
        }
        let projection = find
            .projection
            .as_deref()
            .map(Projection::parse)
            .transpose()?;
        Ok(Query {
            filter: Arc::new(Filter::parse(&find.filter)?),
            sort: sort.filter(|sort| !sort.is_empty()),
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
    fn last(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_add(self.skip))
    }

    fn page(
        self,
        documents: impl Iterator<Item = Result<RawDocumentBuf>> + Send + 'static,
    ) -> Cursor {
        let skip = usize::try_from(self.skip).unwrap_or(usize::MAX);
        let limit = self.limit.and_then(|limit| usize::try_from(limit).ok());
        let page = documents.skip(skip).take(limit.unwrap_or(usize::MAX));
        match self.projection {
            Some(projection) => {
                let filter = self.filter;
                Cursor::new(page.map(move |document| projection.apply(&document?, &filter)))
            }
            None => Cursor::new(page),
        }
    }
}
