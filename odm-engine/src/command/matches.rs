use std::sync::Arc;
use std::thread;

use bson::RawDocument;

use crate::catalog::Collection;
use crate::error::Result;
use crate::filter::Filter;
use crate::interrupt;
use crate::key::RecordId;
use crate::plan::{CandidateRecords, ExaminedCounts, QueryPlan, RecordContent};
use crate::store::StoreView;

/// How many candidates a search examines before it yields the processor.
///
/// Some schedulers do not move a waiting thread to an idle processor until their next tick, milliseconds later. So a thread that
/// wakes from the fsync of a commit would wait for a long search on its processor.
const CANDIDATES_PER_TURN: u32 = 64;

/// The turns of a search on its processor.
pub(super) struct SearchTurn {
    /// The number of candidates until the next yield.
    remaining: u32,
}

impl SearchTurn {
    pub(super) fn new() -> SearchTurn {
        SearchTurn {
            remaining: CANDIDATES_PER_TURN,
        }
    }

    /// Counts a candidate, and checks the interrupts.
    ///
    /// # Errors
    /// Cancelled, timed out, would block.
    pub(super) fn count_candidate(&mut self) -> Result<()> {
        if self.remaining == 0 {
            self.remaining = CANDIDATES_PER_TURN;
            thread::yield_now();
        }
        self.remaining -= 1;
        interrupt::check()
    }
}

/// An iterator over the documents that match a filter, found by a plan.
pub(super) struct MatchIterator {
    records: CandidateRecords,
    filter: Arc<Filter>,
    turn: SearchTurn,
}

/// A stored document that matches.
pub(super) struct MatchedDocument {
    pub(super) record: RecordId,
    content: RecordContent,
}

impl MatchIterator {
    pub(super) fn new(
        view: &StoreView,
        collection: &Collection,
        plan: QueryPlan,
        filter: Arc<Filter>,
    ) -> MatchIterator {
        MatchIterator {
            records: CandidateRecords::new(view.clone(), collection, plan.access),
            filter,
            turn: SearchTurn::new(),
        }
    }

    /// The numbers of keys and documents examined so far.
    pub(super) fn examined(&self) -> ExaminedCounts {
        self.records.examined
    }
}

impl Iterator for MatchIterator {
    type Item = Result<MatchedDocument>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Err(interrupted) = self.turn.count_candidate() {
                return Some(Err(interrupted));
            }
            let (record, content) = match self.records.next()? {
                Ok(candidate) => candidate,
                Err(error) => return Some(Err(error)),
            };
            let candidate = MatchedDocument { record, content };
            let matches = candidate
                .as_document()
                .and_then(|document| self.filter.matches(document));
            match matches {
                Ok(true) => return Some(Ok(candidate)),
                Ok(false) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl MatchedDocument {
    /// Returns the document, or the part that the query reads if a covering index found the match.
    pub(super) fn as_document(&self) -> Result<&RawDocument> {
        self.content.as_document()
    }
}
