//! The branches of an `$or` as ranges of one index that are walked in order: what a page begins behind.

use std::sync::Arc;

use super::access::{Access, IndexAccess, Plan, Walk};
use super::conditions::Demands;
use super::scan::{MAX_RANGES, Merit, Scan};
use super::{MAX_BRANCHES, Planner};
use crate::direction::Direction;
use crate::error::Result;
use crate::filter::Expression;
use crate::index::IndexState;
use crate::sort::Sort;
use crate::store::KeyRange;

impl Planner<'_> {
    /// One walk through the ranges of all branches of an `$or` that gives the order, if there is one:
    /// `{ $or: [{ date: { $gt: d } }, { date: d, _id: { $gt: i } }] }` in the order of `date` and `_id`.
    pub(super) fn best_in_order(&self, demands: &Demands<'_>) -> Result<Option<Plan>> {
        let Some(sort) = self.question.sort else {
            return Ok(None);
        };
        let mut best: Option<(Merit, Plan)> = None;
        for branches in &demands.choices {
            if branches.is_empty() || branches.len() > MAX_BRANCHES {
                continue;
            }
            for state in &self.collection.indexes {
                // Entries of these kinds are not in the order of their fields.
                let is_plain = !state.index.is_wildcard()
                    && state.index.hashed.is_none()
                    && state.collator.is_none();
                if state.index.hidden || !is_plain || !self.is_complete(state) {
                    continue;
                }
                let found = self.in_order(state, branches, sort)?;
                if let Some((merit, plan)) = found
                    && best.as_ref().is_none_or(|(known, _)| merit > *known)
                {
                    best = Some((merit, plan));
                }
            }
        }
        Ok(best.map(|(_, plan)| plan))
    }

    /// The walk through one index, and how good the worst of its branches is.
    fn in_order(
        &self,
        state: &Arc<IndexState>,
        branches: &[Expression],
        sort: &Sort,
    ) -> Result<Option<(Merit, Plan)>> {
        let mut scans = Vec::with_capacity(branches.len());
        for branch in branches {
            let mut demands = Demands::of(self.question.filter.expression())?;
            demands.add(branch)?;
            let scan = Scan::of(self.view, self.collection, state, &demands, self.question)?;
            match scan.filter(Scan::is_bounded) {
                Some(scan) => scans.push(scan),
                None => return Ok(None),
            }
        }
        let Some(direction) = common_order(state, &scans, sort) else {
            return Ok(None);
        };
        let Some(merit) = scans.iter().map(Scan::merit).min() else {
            return Ok(None);
        };
        let ranges = scans.iter().flat_map(Scan::key_ranges);
        let ranges: Vec<_> = ranges.take(MAX_RANGES + 1).collect();
        if ranges.len() > MAX_RANGES {
            return Ok(None);
        }
        let mut ranges = disjoint(ranges);
        if direction == Direction::Descending {
            ranges.reverse();
        }
        let access = Access::Index(IndexAccess {
            state: Arc::clone(state),
            walk: Walk::InTurn(Box::new(ranges.into_iter())),
            direction,
            multikey: scans.iter().any(Scan::has_arrays),
            is_covered: scans.iter().all(Scan::is_covered),
            bounds: scans.iter().flat_map(Scan::describe).collect(),
        });
        let plan = Plan {
            access,
            is_sorted: true,
            rejected: Vec::new(),
        };
        Ok(Some((merit, plan)))
    }
}

/// The direction in which a walk through the ranges of all scans together gives the order.
///
/// Each field of the index is one of the order, in its turn and in one direction with the others, or has one and the
/// same value in all ranges.
fn common_order(state: &IndexState, scans: &[Scan], sort: &Sort) -> Option<Direction> {
    let mut wanted = sort.fields().peekable();
    let mut walk = None;
    let fields = state.paths.iter().zip(&state.index.keys).enumerate();
    for (number, (path, (_, own))) in fields {
        let Some((next, direction)) = wanted.peek() else {
            break;
        };
        if *next == path {
            let needed = if own == direction {
                Direction::Ascending
            } else {
                Direction::Descending
            };
            let is_array = scans.iter().any(|scan| scan.is_array(number));
            if is_array || walk.is_some_and(|walk| walk != needed) {
                return None;
            }
            walk = Some(needed);
            wanted.next();
            continue;
        }
        let mut points = scans.iter().map(|scan| scan.point(number));
        let first = points.next()??;
        if points.any(|point| point != Some(first)) {
            return None;
        }
    }
    wanted.peek().is_none().then_some(walk).flatten()
}

/// The same keys as ranges that have none in common, in ascending order.
fn disjoint(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.sort_by(|a, b| a.start.cmp(&b.start));
    let mut disjoint: Vec<KeyRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match disjoint.last_mut() {
            Some(last) if last.end.as_ref().is_none_or(|end| range.start < *end) => {
                let is_longer = match (&range.end, &last.end) {
                    (_, None) => false,
                    (None, Some(_)) => true,
                    (Some(end), Some(last)) => end > last,
                };
                if is_longer {
                    last.end = range.end;
                }
            }
            _ => disjoint.push(range),
        }
    }
    disjoint
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_ranges_become_one() {
        let range = |start: u8, end: Option<u8>| KeyRange {
            start: vec![start],
            end: end.map(|end| vec![end]),
        };
        assert_eq!(
            disjoint(vec![
                range(7, None),
                range(1, Some(3)),
                range(2, Some(5)),
                range(2, Some(3)),
                range(5, Some(6)),
                range(9, Some(10))
            ]),
            [range(1, Some(5)), range(5, Some(6)), range(7, None)]
        );
    }
}
