//! Which way to the documents is the shortest.
//!
//! A filter is read as conditions that every match fulfils. Each index is tried on them: leading fields
//! pinned to single values first, then a range, then the order that is asked for. The best scan gives
//! candidates, never too few of them; the filter has the last word on each.

mod access;
mod bounds;
mod conditions;
mod records;
mod scan;

use std::sync::Arc;

use crate::catalog::Collection;
use crate::error::Result;
use crate::filter::{Expression, Filter};
use crate::index::IndexState;
use crate::sort::Sort;
use crate::store::View;

pub(crate) use access::{Access, IndexAccess, Plan};
use conditions::Demands;
pub(crate) use records::{Examined, Records};
use scan::Scan;

/// How many branches of an `$or` are planned one by one.
const MAX_BRANCHES: usize = 100;

/// Chooses how to find the documents that match `filter`, in the order of `sort` if there is one.
pub(crate) fn choose(
    view: &View,
    collection: &Collection,
    filter: &Filter,
    sort: Option<&Sort>,
) -> Result<Plan> {
    let planner = Planner {
        view,
        collection,
        filter,
    };
    let demands = Demands::of(filter.expression())?;
    let best = planner.best_scan(&demands, sort)?;
    match best {
        Some(scan) if scan.is_bounded() => Ok(scan.into_plan()),
        best => {
            if let Some(union) = planner.best_union(&demands)? {
                return Ok(union);
            }
            Ok(best.map_or_else(Plan::collection_scan, Scan::into_plan))
        }
    }
}

struct Planner<'p> {
    view: &'p View,
    collection: &'p Collection,
    filter: &'p Filter,
}

impl Planner<'_> {
    fn best_scan(&self, demands: &Demands<'_>, sort: Option<&Sort>) -> Result<Option<Scan>> {
        let mut best: Option<Scan> = None;
        for state in &self.collection.indexes {
            if !is_relevant(state, demands, sort) || !self.is_complete(state) {
                continue;
            }
            let scan = Scan::of(self.view, self.collection, state, demands, sort)?;
            let is_better = best.as_ref().is_none_or(|best| scan.merit() > best.merit());
            if scan.is_useful() && is_better {
                best = Some(scan);
            }
            // Nothing is better than a look-up in the index of `_id`, which comes first.
            if best
                .as_ref()
                .is_some_and(|best| best.merit().is_unique_lookup)
            {
                break;
            }
        }
        Ok(best)
    }

    /// A scan for each branch of an `$or`, if there is one where every branch has a bounded one.
    fn best_union(&self, demands: &Demands<'_>) -> Result<Option<Plan>> {
        for branches in &demands.choices {
            if let Some(accesses) = self.scan_branches(branches)? {
                return Ok(Some(Plan {
                    access: Access::Union(accesses),
                    is_sorted: false,
                }));
            }
        }
        Ok(None)
    }

    fn scan_branches(&self, branches: &[Expression]) -> Result<Option<Vec<Access>>> {
        if branches.len() > MAX_BRANCHES {
            return Ok(None);
        }
        let mut accesses = Vec::with_capacity(branches.len());
        for branch in branches {
            let mut demands = Demands::of(self.filter.expression())?;
            demands.add(branch)?;
            match self.best_scan(&demands, None)? {
                Some(scan) if scan.is_bounded() => accesses.push(scan.into_plan().access),
                _ => return Ok(None),
            }
        }
        Ok(Some(accesses))
    }

    /// Whether the index has every document that matches.
    fn is_complete(&self, state: &Arc<IndexState>) -> bool {
        let is_sparse = state.index.sparse;
        let covers_partial = |partial| self.filter.implies(partial);
        state.partial.as_ref().is_none_or(covers_partial)
            && (!is_sparse || state.paths.iter().any(|path| self.filter.requires(path)))
    }
}

/// Whether anything is asked of the first field of an index.
fn is_relevant(state: &IndexState, demands: &Demands<'_>, sort: Option<&Sort>) -> bool {
    let conditions = &demands.conditions;
    let first = state.paths.first().map(|path| path.as_str());
    sort.is_some()
        || conditions
            .iter()
            .any(|condition| Some(condition.path.as_str()) == first)
}
