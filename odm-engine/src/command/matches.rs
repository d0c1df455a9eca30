use std::sync::Arc;

use bson::RawDocument;

use crate::catalog::Collection;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::key::RecordId;
use crate::plan::{Examined, Plan, Records};
use crate::store::{Bytes, View};

/// The documents that match a filter, by way of a plan.
pub(super) struct Matches {
    records: Records,
    filter: Arc<Filter>,
}

/// A stored document that matches.
pub(super) struct Match {
    pub(super) record: RecordId,
    bytes: Bytes,
}

impl Matches {
    pub(super) fn new(
        view: &View,
        collection: &Collection,
        plan: Plan,
        filter: Arc<Filter>,
    ) -> Matches {
        Matches {
            records: Records::new(view.clone(), collection, plan.access),
            filter,
        }
    }

    /// What it has taken so far.
    pub(super) fn examined(&self) -> Examined {
        self.records.examined
    }
}

impl Iterator for Matches {
    type Item = Result<Match>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (record, bytes) = match self.records.next()? {
                Ok(candidate) => candidate,
                Err(error) => return Some(Err(error)),
            };
            let candidate = Match { record, bytes };
            let matches = candidate
                .document()
                .and_then(|document| self.filter.matches(document));
            match matches {
                Ok(true) => return Some(Ok(candidate)),
                Ok(false) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Match {
    pub(super) fn document(&self) -> Result<&RawDocument> {
        RawDocument::from_bytes(&*self.bytes)
            .map_err(|error| Error::damaged(format!("a document cannot be read: {error}")))
    }
}
