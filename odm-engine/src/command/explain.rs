use std::sync::Arc;

use super::find::Query;
use super::matches::Matches;
use super::{Find, Reading};
use crate::error::Result;
use crate::plan::Access;

/// How a query finds its documents, and what that takes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explain {
    /// Where the documents come from.
    pub stage: Stage,
    /// The names of the indexes that are used: several for the branches of an `$or`.
    pub indexes: Vec<String>,
    /// What part of each index is walked, one text for each of its fields: `age: [3, 7)`.
    pub bounds: Vec<String>,
    /// The names of the indexes that would have served as well, and were found to be worse.
    pub rejected: Vec<String>,
    /// Whether the index has all that is asked for, so that no document is read.
    pub covered: bool,
    /// Whether the order comes from the index, or needs none.
    pub sorted_by_index: bool,
    /// How many index entries are read.
    pub keys_examined: u64,
    /// How many documents are read.
    pub documents_examined: u64,
    /// How many documents match: all of them if they are to be sorted, otherwise no more than skip and limit ask for.
    pub returned: u64,
}

/// Where the documents of a query come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// There is no such collection.
    Nothing,
    /// Every document of the collection is read.
    CollectionScan,
    /// Documents are looked up by their `_id`.
    IdLookup,
    /// Ranges of an index are walked.
    IndexScan,
    /// The branches of an `$or` are looked up one by one.
    Union,
}

pub(crate) fn run(reading: Reading<'_>, name: &str, find: &Find) -> Result<Explain> {
    let query = Query::parse(find)?;
    let mut explain = Explain {
        stage: Stage::Nothing,
        indexes: Vec::new(),
        bounds: Vec::new(),
        rejected: Vec::new(),
        covered: false,
        sorted_by_index: query.sort.is_none(),
        keys_examined: 0,
        documents_examined: 0,
        returned: 0,
    };
    let Some(collection) = reading.catalog.get(name) else {
        return Ok(explain);
    };
    let plan = query.plan(reading, collection)?;
    explain.sorted_by_index |= plan.is_sorted;
    explain.rejected.clone_from(&plan.rejected);
    explain.covered = plan.access.is_covered();
    explain.describe(&plan.access);
    let wanted = query.last().filter(|_| explain.sorted_by_index);
    let mut matches = Matches::new(reading.view, collection, plan, Arc::clone(&query.filter));
    while wanted.is_none_or(|wanted| explain.returned < wanted)
        && let Some(found) = matches.next()
    {
        found?;
        explain.returned += 1;
    }
    explain.keys_examined = matches.examined().keys;
    explain.documents_examined = matches.examined().documents;
    Ok(explain)
}

impl Explain {
    fn describe(&mut self, access: &Access) {
        match access {
            Access::Collection(_) => self.stage = Stage::CollectionScan,
            Access::Ids(ids) => {
                self.stage = Stage::IdLookup;
                self.indexes.push(ids.state.index.name.clone());
                self.bounds.extend(ids.bounds.iter().cloned());
            }
            Access::Index(index) => {
                self.stage = Stage::IndexScan;
                self.indexes.push(index.state.index.name.clone());
                self.bounds.extend(index.bounds.iter().cloned());
            }
            Access::Union(branches) => {
                branches.iter().for_each(|branch| self.describe(branch));
                self.stage = Stage::Union;
            }
        }
    }
}
