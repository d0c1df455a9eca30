//! Ordered walks: the branches of an `$or` as ranges of one index, walked in order. Used by filters for the next page.

use std::sync::Arc;

use super::access::{AccessPath, IndexAccess, IndexWalk, QueryPlan};
use super::conditions::FilterDemands;
use super::scan::{IndexScan, MAX_KEY_RANGES, ScanMerit};
use super::{MAX_PLANNED_BRANCHES, QueryPlanner};
use crate::direction::Direction;
use crate::error::Result;
use crate::filter::FilterExpression;
use crate::index::IndexState;
use crate::sort::Sort;
use crate::store::KeyRange;

impl QueryPlanner<'_> {
    /// Returns the best ordered walk through the ranges of all branches of an `$or`, if an index gives the order. An example is
    /// `{ $or: [{ date: { $gt: d } }, { date: d, _id: { $gt: i } }] }`, sorted by `date` and `_id`.
    pub(super) fn best_ordered_walk(
        &self,
        demands: &FilterDemands<'_>,
    ) -> Result<Option<QueryPlan>> {
        let Some(sort) = self.question.sort else {
            return Ok(None);
        };
        let mut best: Option<(ScanMerit, QueryPlan)> = None;
        for branches in &demands.choices {
            if branches.is_empty() || branches.len() > MAX_PLANNED_BRANCHES {
                continue;
            }
            for state in &self.collection.indexes {
                // Entries of these index kinds are not in the order of their fields, or not in the order of the operation.
                let is_plain = !state.index.is_wildcard()
                    && state.index.hashed.is_none()
                    && state.collator.is_none()
                    && sort.value_order().collation().is_none();
                if state.index.hidden || !is_plain || !self.is_complete(state) {
                    continue;
                }
                let walk = self.ordered_walk(state, branches, sort)?;
                if let Some((merit, plan)) = walk
                    && best.as_ref().is_none_or(|(known, _)| merit > *known)
                {
                    best = Some((merit, plan));
                }
            }
        }
        Ok(best.map(|(_, plan)| plan))
    }

    /// Returns the walk through one index, with the merit of its worst branch.
    fn ordered_walk(
        &self,
        state: &Arc<IndexState>,
        branches: &[FilterExpression],
        sort: &Sort,
    ) -> Result<Option<(ScanMerit, QueryPlan)>> {
        let mut scans = Vec::with_capacity(branches.len());
        for branch in branches {
            let mut demands =
                FilterDemands::from_expression(self.question.filter.parsed_conditions())?;
            demands.add_expression(branch)?;
            let scan =
                IndexScan::for_request(self.view, self.collection, state, &demands, self.question)?;
            match scan.filter(IndexScan::is_bounded) {
                Some(scan) => scans.push(scan),
                None => return Ok(None),
            }
        }
        let Some(direction) = common_order(state, &scans, sort) else {
            return Ok(None);
        };
        let Some(merit) = scans.iter().map(IndexScan::merit).min() else {
            return Ok(None);
        };
        let ranges = scans.iter().flat_map(IndexScan::key_ranges);
        let ranges: Vec<_> = ranges.take(MAX_KEY_RANGES + 1).collect();
        if ranges.len() > MAX_KEY_RANGES {
            return Ok(None);
        }
        let mut ranges = merge_overlapping(ranges);
        if direction == Direction::Descending {
            ranges.reverse();
        }
        let access = AccessPath::Index(IndexAccess {
            state: Arc::clone(state),
            walk: IndexWalk::Sequential(Box::new(ranges.into_iter())),
            direction,
            multikey: scans.iter().any(IndexScan::has_arrays),
            is_covered: scans.iter().all(IndexScan::is_covered),
            bounds: scans.into_iter().map(IndexScan::into_bounds).collect(),
        });
        let plan = QueryPlan {
            access,
            is_sorted: true,
            rejected: Vec::new(),
        };
        Ok(Some((merit, plan)))
    }
}

/// Returns the direction in which a joint walk through the ranges of all scans gives the order.
///
/// Each field of the index must be the next field of the order, with the same direction as the earlier fields, or have a single
/// value in all ranges.
fn common_order(state: &IndexState, scans: &[IndexScan], sort: &Sort) -> Option<Direction> {
    let mut sort_fields = sort.directed_paths().peekable();
    let mut scan_direction = None;
    let fields = state.paths.iter().zip(&state.index.keys).enumerate();
    for (number, (path, (_, index_direction))) in fields {
        let Some((next, direction)) = sort_fields.peek() else {
            break;
        };
        if *next == path {
            let needed = if index_direction == direction {
                Direction::Ascending
            } else {
                Direction::Descending
            };
            let is_array = scans.iter().any(|scan| scan.is_array(number));
            if is_array || scan_direction.is_some_and(|scan_direction| scan_direction != needed) {
                return None;
            }
            scan_direction = Some(needed);
            sort_fields.next();
            continue;
        }
        let mut points = scans.iter().map(|scan| scan.point_at(number));
        let first = points.next()??;
        if points.any(|point| point != Some(first)) {
            return None;
        }
    }
    sort_fields
        .peek()
        .is_none()
        .then_some(scan_direction)
        .flatten()
}

/// Merges overlapping ranges. The result has the same keys in ascending order.
fn merge_overlapping(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
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
            merge_overlapping(vec![
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
