use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use super::Reading;
use super::matches::Matches;
use super::sorted::Sorter;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::filter::Filter;
use crate::plan;
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
}

/// A query, parsed.
pub(super) struct Query {
    pub(super) filter: Arc<Filter>,
    pub(super) sort: Option<Sort>,
    projection: Option<Projection>,
    skip: u64,
    limit: Option<u64>,
}

pub(crate) fn run(reading: Reading<'_>, name: &str, find: &Find) -> Result<Cursor> {
    Query::parse(find)?.run(reading, name)
}

impl Query {
    pub(super) fn parse(find: &Find) -> Result<Query> {
        let sort = find.sort.as_deref().map(Sort::parse).transpose()?;
        let projection = find
            .projection
            .as_deref()
            .map(|projection| Projection::parse(projection, &Arc::default()))
            .transpose()?;
        Ok(Query {
            filter: Arc::new(Filter::parse(&find.filter)?),
            sort: sort.filter(|sort| !sort.is_empty()),
            projection,
            skip: find.skip,
            limit: find.limit,
        })
    }

    fn run(self, reading: Reading<'_>, name: &str) -> Result<Cursor> {
        let Some(collection) = reading.catalog.get(name) else {
            return Ok(Cursor::new(std::iter::empty()));
        };
        let plan = plan::choose(reading.view, collection, &self.filter, self.sort.as_ref())?;
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
