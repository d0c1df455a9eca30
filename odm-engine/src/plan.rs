//! Which way to the documents is the shortest.
//!
//! A filter is read as conditions that every match fulfils. Each index is tried on them: leading fields
//! pinned to single values first, then a range, then the order that is asked for. The best scan gives
//! candidates, never too few of them; the filter has the last word on each.

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
use crate::filter::{Expression, Filter};
use crate::index::IndexState;
use crate::sort::Sort;
use crate::store::View;

pub(crate) use access::{Access, IndexAccess, Plan, Walk};
use conditions::Demands;
pub(crate) use covering::Reads;
pub(crate) use hint::{Hint, natural};
pub(crate) use records::{Content, Examined, Records};
use scan::Scan;

/// How many branches of an `$or` are planned one by one.
const MAX_BRANCHES: usize = 100;

/// What a plan is wanted for.
#[derive(Clone)]
pub(crate) struct Question<'q> {
    pub(crate) filter: &'q Filter,
    pub(crate) sort: Option<&'q Sort>,
    pub(crate) hint: Option<&'q Hint>,
    pub(crate) reads: Reads,
}

impl<'q> Question<'q> {
    /// Whole documents that match, in any order.
    pub(crate) fn new(filter: &'q Filter) -> Question<'q> {
        Question {
            filter,
            sort: None,
            hint: None,
            reads: Reads::Document,
        }
    }
}

/// Chooses how to find what is asked for.
///
/// # Errors
/// No index fits the hint; there is no index and scans are [forbidden](crate::Database::set_notablescan).
pub(crate) fn choose(
    view: &View,
    collection: &Collection,
    question: &Question<'_>,
) -> Result<Plan> {
    let planner = Planner {
        view,
        collection,
        question,
    };
    let demands = Demands::of(question.filter.expression())?;
    let plan = match question.hint {
        Some(hint) => planner.hinted(hint, &demands)?,
        None => planner.best(&demands)?,
    };
    if matches!(plan.access, Access::Collection(_)) && collection.policy().forbids_scans() {
        let expression = question.filter.expression();
        return Err(table_scan::refused(
            collection,
            expression,
            &demands,
            question.sort,
        ));
    }
    Ok(plan)
}

struct Planner<'p> {
    view: &'p View,
    collection: &'p Collection,
    question: &'p Question<'p>,
}

impl Planner<'_> {
    fn hinted(&self, hint: &Hint, plain: &Demands<'_>) -> Result<Plan> {
        let Some(state) = hint.index(self.collection)? else {
            let direction = match hint {
                Hint::Natural(direction) => *direction,
                _ => Direction::Ascending,
            };
            return Ok(Plan::collection_scan(direction));
        };
        // As on MongoDB, documents that are not in the index are not found.
        let mut demands = plain.clone();
        demands.add_common()?;
        let scan = Scan::of(self.view, self.collection, state, &demands, self.question)?;
        match scan {
            None => self.hinted_wildcard(state, plain),
            Some(_) if state.coverage.is_some() && !self.is_complete(state) => {
                Err(wildcard::useless(state))
            }
            Some(scan) => Ok(scan.into_plan()),
        }
    }

    /// A scan of a wildcard index for each branch of an `$or`, as it has nothing else for the filter.
    ///
    /// # Errors
    /// A branch has none. As on MongoDB, this index is never read as a whole: it need not have all documents.
    fn hinted_wildcard(&self, state: &Arc<IndexState>, plain: &Demands<'_>) -> Result<Plan> {
        let indexes = std::slice::from_ref(state);
        let union = self.best_union(plain, indexes)?;
        union.ok_or_else(|| wildcard::useless(state))
    }

    fn best(&self, plain: &Demands<'_>) -> Result<Plan> {
        let mut demands = plain.clone();
        demands.add_common()?;
        let indexes = self.collection.indexes.as_slice();
        let (best, rejected) = self.best_scan(&demands, self.question, indexes)?;
        let is_bounded = |scan: &Option<Scan>| scan.as_ref().is_some_and(Scan::is_narrow);
        // What the branches of an `$or` have in common says less than the branches.
        let is_best = is_bounded(&best)
            && (plain.choices.is_empty()
                || is_bounded(&self.best_scan(plain, self.question, indexes)?.0));
        // No scan that has to be sorted, or that reads everything, is as good as the branches in order.
        let is_worse = |scan: &Scan| !is_best || scan.merit().is_sorted;
        let in_order = if best.as_ref().is_none_or(is_worse) {
            self.best_in_order(plain)?
        } else {
            None
        };
        let union = if is_best || in_order.is_some() {
            None
        } else {
            self.best_union(plain, indexes)?
        };
        let plan = in_order.or(union).or(best.map(Scan::into_plan));
        let plan = plan.unwrap_or_else(|| Plan::collection_scan(Direction::Ascending));
        Ok(Plan { rejected, ..plan })
    }

    /// The best scan of one of these indexes, and the names of the indexes of the others.
    fn best_scan(
        &self,
        demands: &Demands<'_>,
        question: &Question<'_>,
        indexes: &[Arc<IndexState>],
    ) -> Result<(Option<Scan>, Vec<String>)> {
        let mut best: Option<Scan> = None;
        let mut rejected = Vec::new();
        for state in indexes {
            let is_usable = !state.index.hidden
                && is_relevant(state, demands, question.sort)
                && self.is_complete(state);
            if !is_usable {
                continue;
            }
            let scan = Scan::of(self.view, self.collection, state, demands, question)?;
            let Some(scan) = scan.filter(Scan::is_useful) else {
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
            rejected.extend(worse.map(|scan| scan.name().to_owned()));
            // Nothing is better than a look-up in the index of `_id`, which comes first.
            if best
                .as_ref()
                .is_some_and(|best| best.merit().is_unique_lookup)
            {
                break;
            }
        }
        Ok((best, rejected))
    }

    /// A scan for each branch of an `$or`, if there is one where every branch has a bounded one.
    fn best_union(
        &self,
        demands: &Demands<'_>,
        indexes: &[Arc<IndexState>],
    ) -> Result<Option<Plan>> {
        for branches in &demands.choices {
            if let Some(accesses) = self.scan_branches(branches, indexes)? {
                return Ok(Some(Plan {
                    access: Access::Union(accesses),
                    is_sorted: false,
                    rejected: Vec::new(),
                }));
            }
        }
        Ok(None)
    }

    fn scan_branches(
        &self,
        branches: &[Expression],
        indexes: &[Arc<IndexState>],
    ) -> Result<Option<Vec<Access>>> {
        if branches.len() > MAX_BRANCHES {
            return Ok(None);
        }
        let mut accesses = Vec::with_capacity(branches.len());
        for branch in branches {
            let question = Question::new(self.question.filter);
            let mut demands = Demands::of(question.filter.expression())?;
            demands.add(branch)?;
            match self.best_scan(&demands, &question, indexes)?.0 {
                Some(scan) if scan.is_bounded() => accesses.push(scan.into_plan().access),
                _ => return Ok(None),
            }
        }
        Ok(Some(accesses))
    }

    /// Whether the index has every document that matches.
    fn is_complete(&self, state: &Arc<IndexState>) -> bool {
        let is_sparse = state.index.sparse;
        let filter = self.question.filter;
        // What follows for strings byte by byte need not follow by a collation.
        let covers_partial =
            |partial| state.partial_collator().is_none() && filter.implies(partial);
        state.partial.as_ref().is_none_or(covers_partial)
            && (!is_sparse || state.paths.iter().any(|path| filter.requires(path)))
    }
}

/// Whether anything is asked of the first field of an index.
fn is_relevant(state: &IndexState, demands: &Demands<'_>, sort: Option<&Sort>) -> bool {
    let conditions = &demands.conditions;
    let first = state.paths.first().map(|path| path.as_str());
    // A wildcard index may be about any of them.
    state.coverage.is_some()
        || sort.is_some()
        || state.index.sparse && demands.wants_existing(state)
        || conditions
            .iter()
            .any(|condition| Some(condition.path.as_str()) == first)
}
