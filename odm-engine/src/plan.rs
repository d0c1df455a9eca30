//! The query planner: chooses the cheapest access to the matching documents.
//!
//! The planner extracts conditions that every matching document fulfils, and tries each index on them. It ranks indexes by
//! leading fields pinned to single values, then by a range, then by the requested order. The best scan returns all matching
//! documents and possibly more, so the filter checks each candidate again.

mod access;
mod bounds;
mod conditions;
mod covering;
mod hint;
mod merged;
mod ordered;
mod ranges;
mod records;
mod scan;
mod table_scan;
mod wildcard;

use std::sync::Arc;

use crate::catalog::Collection;
use crate::direction::Direction;
use crate::error::Result;
use crate::filter::{Filter, FilterExpression};
use crate::index::IndexState;
use crate::sort::Sort;
use crate::store::StoreView;

pub(crate) use access::{AccessPath, IndexAccess, IndexWalk, QueryPlan};
use conditions::FilterDemands;
pub(crate) use covering::ReadSet;
pub(crate) use hint::{IndexHint, parse_natural};
pub(crate) use records::{
    CandidateRecords, ExaminedCounts, RecordContent, missing_document_error, read_document,
};
use scan::IndexScan;
pub(crate) use scan::ScanBounds;

/// The maximum number of `$or` branches that are planned separately.
const MAX_PLANNED_BRANCHES: usize = 100;

/// The request for a plan: filter, order, hint and fields to read.
#[derive(Clone)]
pub(crate) struct PlanRequest<'q> {
    pub(crate) filter: &'q Filter,
    pub(crate) sort: Option<&'q Sort>,
    pub(crate) hint: Option<&'q IndexHint>,
    pub(crate) reads: ReadSet,
}

impl<'q> PlanRequest<'q> {
    /// Returns a request for whole documents in any order.
    pub(crate) fn new(filter: &'q Filter) -> PlanRequest<'q> {
        PlanRequest {
            filter,
            sort: None,
            hint: None,
            reads: ReadSet::Document,
        }
    }
}

/// Chooses a plan for a request.
///
/// # Errors
/// No index matches the hint; no index is usable and collection scans are [forbidden](crate::Database::set_notablescan).
pub(crate) fn choose_plan(
    view: &StoreView,
    collection: &Collection,
    question: &PlanRequest<'_>,
) -> Result<QueryPlan> {
    let planner = QueryPlanner {
        view,
        collection,
        question,
    };
    let demands = FilterDemands::from_expression(question.filter.parsed_conditions())?;
    let plan = match question.hint {
        Some(hint) => planner.plan_hinted(hint, &demands)?,
        None => planner.plan_best(&demands)?,
    };
    if matches!(plan.access, AccessPath::Collection(_)) && collection.policy().forbids_scans() {
        let expression = question.filter.parsed_conditions();
        return Err(table_scan::scan_refused_error(
            collection,
            expression,
            &demands,
            question.sort,
        ));
    }
    Ok(plan)
}

struct QueryPlanner<'p> {
    view: &'p StoreView,
    collection: &'p Collection,
    question: &'p PlanRequest<'p>,
}

impl QueryPlanner<'_> {
    fn plan_hinted(
        &self,
        hint: &IndexHint,
        plain_demands: &FilterDemands<'_>,
    ) -> Result<QueryPlan> {
        let Some(state) = hint.find_index(self.collection)? else {
            let direction = match hint {
                IndexHint::Natural(direction) => *direction,
                _ => Direction::Ascending,
            };
            return Ok(QueryPlan::collection_scan(direction));
        };
        // As on MongoDB, a hinted index is used even if it lacks some of the matching documents.
        let mut demands = plain_demands.clone();
        demands.add_common_bounds()?;
        let scan =
            IndexScan::for_request(self.view, self.collection, state, &demands, self.question)?;
        match scan {
            None => self.plan_hinted_wildcard(state, plain_demands),
            Some(_) if state.coverage.is_some() && !self.is_complete(state) => {
                Err(wildcard::no_ranges_error(state))
            }
            Some(scan) => Ok(scan.into_plan()),
        }
    }

    /// Plans one scan of a hinted wildcard index for each branch of an `$or`. The index has no scan for the filter as a whole.
    ///
    /// # Errors
    /// The index has no scan for a branch. As on MongoDB, a wildcard index is never scanned as a whole, because it may lack
    /// documents.
    fn plan_hinted_wildcard(
        &self,
        state: &Arc<IndexState>,
        plain_demands: &FilterDemands<'_>,
    ) -> Result<QueryPlan> {
        let indexes = std::slice::from_ref(state);
        let union = self.best_union(plain_demands, indexes)?;
        union.ok_or_else(|| wildcard::no_ranges_error(state))
    }

    fn plan_best(&self, plain_demands: &FilterDemands<'_>) -> Result<QueryPlan> {
        let mut demands = plain_demands.clone();
        demands.add_common_bounds()?;
        let indexes = self.collection.indexes.as_slice();
        let (best, rejected) = self.best_scan(&demands, self.question, indexes)?;
        let is_bounded = |scan: &Option<IndexScan>| scan.as_ref().is_some_and(IndexScan::is_narrow);
        // Conditions common to all branches of an `$or` are weaker than the branches. So a scan by common conditions counts as
        // best only if a scan without them is bounded, too.
        let is_best = is_bounded(&best)
            && (plain_demands.choices.is_empty()
                || is_bounded(&self.best_scan(plain_demands, self.question, indexes)?.0));
        // An ordered walk through the branches is better than a scan that needs a sort or reads everything.
        let is_worse = |scan: &IndexScan| !is_best || scan.merit().is_sorted;
        let in_order = if best.as_ref().is_none_or(is_worse) {
            self.best_ordered_walk(plain_demands)?
        } else {
            None
        };
        let union = if is_best || in_order.is_some() {
            None
        } else {
            self.best_union(plain_demands, indexes)?
        };
        let plan = in_order.or(union).or(best.map(IndexScan::into_plan));
        let plan = plan.unwrap_or_else(|| QueryPlan::collection_scan(Direction::Ascending));
        Ok(QueryPlan { rejected, ..plan })
    }

    /// Returns the best scan among these indexes, and the names of the rejected indexes.
    fn best_scan(
        &self,
        demands: &FilterDemands<'_>,
        question: &PlanRequest<'_>,
        indexes: &[Arc<IndexState>],
    ) -> Result<(Option<IndexScan>, Vec<String>)> {
        let mut best: Option<IndexScan> = None;
        let mut rejected = Vec::new();
        for state in indexes {
            let is_usable = !state.index.hidden
                && is_relevant(state, demands, question.sort)
                && self.is_complete(state);
            if !is_usable {
                continue;
            }
            let scan =
                IndexScan::for_request(self.view, self.collection, state, demands, question)?;
            let Some(scan) = scan.filter(IndexScan::is_useful) else {
                continue;
            };
            let worse = match best.take() {
                Some(known) if scan.merit() <= known.merit() => {
                    best = Some(known);
                    Some(scan)
                }
                known => {
                    best = Some(scan);
                    known
                }
            };
            rejected.extend(worse.map(|scan| scan.index_name().to_owned()));
            // A look-up in the index of `_id` cannot be beaten, and this index comes first.
            if best
                .as_ref()
                .is_some_and(|best| best.merit().is_unique_lookup)
            {
                break;
            }
        }
        Ok((best, rejected))
    }

    /// Returns one scan for each branch of an `$or`, if every branch has a bounded scan.
    fn best_union(
        &self,
        demands: &FilterDemands<'_>,
        indexes: &[Arc<IndexState>],
    ) -> Result<Option<QueryPlan>> {
        for branches in &demands.choices {
            if let Some(accesses) = self.scan_branches(branches, indexes)? {
                return Ok(Some(QueryPlan {
                    access: AccessPath::Union(accesses),
                    is_sorted: false,
                    rejected: Vec::new(),
                }));
            }
        }
        Ok(None)
    }

    fn scan_branches(
        &self,
        branches: &[FilterExpression],
        indexes: &[Arc<IndexState>],
    ) -> Result<Option<Vec<AccessPath>>> {
        if branches.len() > MAX_PLANNED_BRANCHES {
            return Ok(None);
        }
        let mut accesses = Vec::with_capacity(branches.len());
        for branch in branches {
            let question = PlanRequest::new(self.question.filter);
            let mut demands = FilterDemands::from_expression(question.filter.parsed_conditions())?;
            demands.add_expression(branch)?;
            match self.best_scan(&demands, &question, indexes)?.0 {
                Some(scan) if scan.is_bounded() => accesses.push(scan.into_plan().access),
                _ => return Ok(None),
            }
        }
        Ok(Some(accesses))
    }

    /// Whether the index has entries for all matching documents.
    fn is_complete(&self, state: &Arc<IndexState>) -> bool {
        let is_sparse = state.index.sparse;
        let filter = self.question.filter;
        // An implication for byte-wise strings may fail under a collation.
        let implies_partial =
            |partial| state.partial_collator().is_none() && filter.implies(partial);
        state.partial.as_ref().is_none_or(implies_partial)
            && (!is_sparse || state.paths.iter().any(|path| filter.requires_path(path)))
    }
}

/// Whether the request concerns the first field of an index.
fn is_relevant(state: &IndexState, demands: &FilterDemands<'_>, sort: Option<&Sort>) -> bool {
    let conditions = &demands.conditions;
    let first = state.paths.first().map(|path| path.as_str());
    // A wildcard index may cover any path.
    state.coverage.is_some()
        || sort.is_some()
        || state.index.sparse && demands.requires_first_field(state)
        || conditions
            .iter()
            .any(|condition| Some(condition.path.as_str()) == first)
}
