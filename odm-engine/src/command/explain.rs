use std::sync::Arc;

use super::find::FindQuery;
use super::matches::MatchIterator;
use super::{Find, ReadState};
use crate::error::Result;
use crate::index::ID_INDEX;
use crate::plan::{AccessPath, ScanBounds};

/// How a query finds its documents, and its cost.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explain {
    /// The source of the documents.
    pub stage: ExplainStage,
    /// The names of the used indexes. A union of `$or` branches can use several.
    pub indexes: Vec<String>,
    /// The scanned part of each index, one text for each field: `age: [3, 7)`.
    pub bounds: Vec<String>,
    /// The names of usable indexes that the planner rejected as worse.
    pub rejected: Vec<String>,
    /// Whether the index has all requested fields, so that no document is read.
    pub covered: bool,
    /// Whether the order comes from the index or is not needed.
    pub sorted_by_index: bool,
    /// The number of index entries read.
    pub keys_examined: u64,
    /// The number of documents read.
    pub documents_examined: u64,
    /// The number of matching documents. Stops at skip plus limit, unless the documents must be sorted.
    pub returned: u64,
}

/// The source of a query's documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExplainStage {
    /// No source: the collection does not exist.
    Nothing,
    /// A scan of every document in the collection.
    CollectionScan,
    /// Look-ups of documents by `_id`.
    IdLookup,
    /// A scan of index ranges.
    IndexScan,
    /// A separate search for each branch of an `$or`.
    Union,
}

pub(crate) fn run_explain(reading: ReadState<'_>, name: &str, find: &Find) -> Result<Explain> {
    let query = FindQuery::parse(find)?;
    let mut explain = Explain {
        stage: ExplainStage::Nothing,
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
    let plan = query.choose_plan(reading, collection)?;
    explain.sorted_by_index |= plan.is_sorted;
    explain.rejected.clone_from(&plan.rejected);
    explain.covered = plan.access.is_covered();
    explain.add_access(&plan.access);
    let max_matches = query.max_matches().filter(|_| explain.sorted_by_index);
    let mut matches = MatchIterator::new(reading.view, collection, plan, Arc::clone(&query.filter));
    while max_matches.is_none_or(|max| explain.returned < max)
        && let Some(document) = matches.next()
    {
        document?;
        explain.returned += 1;
    }
    explain.keys_examined = matches.examined().keys;
    explain.documents_examined = matches.examined().documents;
    Ok(explain)
}

impl Explain {
    fn add_access(&mut self, access: &AccessPath) {
        match access {
            AccessPath::Collection(_) => self.stage = ExplainStage::CollectionScan,
            AccessPath::Keys(keys) => {
                self.stage = match keys.state.id {
                    ID_INDEX => ExplainStage::IdLookup,
                    _ => ExplainStage::IndexScan,
                };
                self.indexes.push(keys.state.index.name.clone());
                self.bounds.extend(keys.bounds.describe());
            }
            AccessPath::Index(index) => {
                self.stage = ExplainStage::IndexScan;
                self.indexes.push(index.state.index.name.clone());
                let bounds = index.bounds.iter();
                self.bounds.extend(bounds.flat_map(ScanBounds::describe));
            }
            AccessPath::Union(branches) => {
                branches.iter().for_each(|branch| self.add_access(branch));
                self.stage = ExplainStage::Union;
            }
        }
    }
}
