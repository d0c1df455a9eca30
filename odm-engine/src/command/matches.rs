use std::sync::Arc;
use std::thread;

use bson::RawDocument;

use crate::catalog::Collection;
use crate::error::Result;
use crate::filter::Filter;
use crate::interrupt;
use crate::key::RecordId;
use crate::plan::{Content, Examined, Plan, Records};
use crate::store::View;

/// How many candidates a search looks at before it lets others have the processor.
///
/// A thread that wakes where a long search runs, from the fsync of a commit for one, is kept waiting by some schedulers until
/// their next tick, which is milliseconds away, though another processor is idle.
const TURN: u32 = 64;

/// The documents that match a filter, by way of a plan.
pub(super) struct Matches {
    records: Records,
    filter: Arc<Filter>,
    /// How many candidates are left of its turn.
    left: u32,
}

/// A stored document that matches.
pub(super) struct Match {
    pub(super) record: RecordId,
    content: Content,
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
            left: TURN,
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
            if self.left == 0 {
                self.left = TURN;
                thread::yield_now();
            }
            self.left -= 1;
            if let Err(interrupted) = interrupt::check() {
                return Some(Err(interrupted));
            }
            let (record, content) = match self.records.next()? {
                Ok(candidate) => candidate,
                Err(error) => return Some(Err(error)),
            };
            let candidate = Match { record, content };
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
    /// The document; of one that a covering index has found, the part that the query reads.
    pub(super) fn document(&self) -> Result<&RawDocument> {
        self.content.document()
    }
}
