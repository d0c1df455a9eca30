//! What one index can do for a query.

use std::sync::Arc;

use super::access::{Access, IndexAccess, Plan};
use super::bounds::Bounds;
use super::conditions::{Condition, Demands, Element};
use crate::catalog::Collection;
use crate::direction::Direction;
use crate::error::Result;
use crate::index::{ID_INDEX, IndexState};
use crate::key;
use crate::sort::Sort;
use crate::store::{KeyRange, Snapshot, View, after_prefix};

/// How many ranges several fields may have together; where there would be more, later fields are left
/// unbounded.
const MAX_RANGES: usize = 10_000;

/// How many conditions on one field are combined; the filter looks after all of them.
const MAX_CONDITIONS: usize = 64;

/// A scan of one index.
pub(super) struct Scan {
    state: Arc<IndexState>,
    fields: Vec<FieldBounds>,
    direction: Direction,
    is_sorted: bool,
    has_arrays: bool,
}

struct FieldBounds {
    bounds: Bounds,
    element: Option<Element>,
}

/// How good a scan is; greater is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Merit {
    /// Every field of a unique index is pinned down.
    pub(super) is_unique_lookup: bool,
    /// How many leading fields are pinned down to single values.
    points: usize,
    is_bounded_and_sorted: bool,
    /// How narrow the range on the next field is.
    range: u8,
    is_sorted: bool,
    /// Among equals, the smaller index.
    width: std::cmp::Reverse<usize>,
}

impl Scan {
    /// The best scan of this index, whether or not it is of any use.
    pub(super) fn of(
        view: &View,
        collection: &Collection,
        state: &Arc<IndexState>,
        demands: &Demands<'_>,
        sort: Option<&Sort>,
    ) -> Result<Scan> {
        let arrays = multikey_fields(view, collection, state)?;
        let has_array = |field: usize| arrays.contains(&field);
        let mut fields: Vec<FieldBounds> = Vec::with_capacity(state.paths.len());
        for (number, path) in state.paths.iter().enumerate() {
            let conditions = demands
                .conditions
                .iter()
                .filter(|condition| condition.path == path.as_str())
                .take(MAX_CONDITIONS);
            let next = if has_array(number) {
                let first = path.parts().first();
                // Fields that may take their values from one array, from different elements of it.
                let related: Vec<_> = fields
                    .iter()
                    .zip(&state.paths)
                    .enumerate()
                    .filter(|(other, (field, other_path))| {
                        has_array(*other)
                            && !field.bounds.is_all()
                            && other_path.parts().first() == first
                    })
                    .map(|(_, (field, _))| field.element.as_ref())
                    .collect();
                one_of(conditions, &related)
            } else {
                all_of(conditions)
            };
            fields.push(next);
        }
        let mut scan = Scan {
            state: Arc::clone(state),
            fields,
            direction: Direction::Ascending,
            is_sorted: false,
            has_arrays: !arrays.is_empty(),
        };
        if let Some(direction) = sort.and_then(|sort| scan.sorts(sort, &arrays)) {
            scan.direction = direction;
            scan.is_sorted = true;
        }
        Ok(scan)
    }

    /// Whether it reads less than all of the index, or gives the order.
    pub(super) fn is_useful(&self) -> bool {
        self.is_sorted || self.is_bounded()
    }

    pub(super) fn is_bounded(&self) -> bool {
        self.fields
            .first()
            .is_some_and(|field| !field.bounds.is_all())
    }

    pub(super) fn merit(&self) -> Merit {
        let points = self
            .fields
            .iter()
            .take_while(|field| field.bounds.are_points())
            .count();
        let next = self.fields.get(points);
        Merit {
            is_unique_lookup: self.state.index.unique && points == self.fields.len(),
            points,
            is_bounded_and_sorted: self.is_bounded() && self.is_sorted,
            range: next.map_or(0, |field| 3_u8.saturating_sub(field.bounds.looseness().0)),
            is_sorted: self.is_sorted,
            width: std::cmp::Reverse(self.fields.len()),
        }
    }

    pub(super) fn into_plan(self) -> Plan {
        let mut ranges = self.ranges();
        if self.direction == Direction::Descending {
            ranges.reverse();
        }
        let is_sorted = self.is_sorted;
        let is_id = self.state.id == ID_INDEX;
        if is_id && self.fields.iter().all(|field| field.bounds.are_points()) {
            let ids = ranges.into_iter().map(|range| range.start).collect();
            return Plan {
                access: Access::Ids(ids),
                is_sorted,
            };
        }
        let bounds = self.describe();
        Plan {
            access: Access::Index(IndexAccess {
                state: self.state,
                ranges,
                direction: self.direction,
                multikey: self.has_arrays,
                bounds,
            }),
            is_sorted,
        }
    }

    fn describe(&self) -> Vec<String> {
        let paths = self.state.paths.iter().map(|path| path.as_str());
        let fields = paths.zip(&self.fields);
        fields
            .map(|(path, field)| format!("{path}: {}", field.bounds))
            .collect()
    }

    /// The direction in which a walk gives this order, if one does.
    fn sorts(&self, sort: &Sort, arrays: &[usize]) -> Option<Direction> {
        let mut wanted = sort.fields().peekable();
        let mut walk = None;
        let index = self
            .state
            .paths
            .iter()
            .zip(&self.state.index.keys)
            .zip(&self.fields);
        for (number, ((path, (_, own)), field)) in index.enumerate() {
            let Some((next, direction)) = wanted.peek() else {
                break;
            };
            let is_constant = field.bounds.is_one_point();
            if *next != path {
                if is_constant {
                    continue;
                }
                return None;
            }
            // A document with an array has its place by its least or greatest element, and the walk may
            // meet another one first.
            if arrays.contains(&number) {
                return None;
            }
            if !is_constant {
                let needed = if own == direction {
                    Direction::Ascending
                } else {
                    Direction::Descending
                };
                if walk.is_some_and(|walk| walk != needed) {
                    return None;
                }
                walk = Some(needed);
            }
            wanted.next();
        }
        wanted
            .peek()
            .is_none()
            .then_some(walk.unwrap_or(Direction::Ascending))
    }

    /// The ranges of keys to walk, in ascending order.
    fn ranges(&self) -> Vec<KeyRange> {
        let mut prefixes = vec![self.state.prefix.clone()];
        for (field, (_, direction)) in self.fields.iter().zip(&self.state.index.keys) {
            let bounds = field.bounds.in_direction(*direction);
            let count = bounds.intervals().len().saturating_mul(prefixes.len());
            let is_too_many = prefixes.len() > 1 && count > MAX_RANGES;
            if bounds.is_all() || is_too_many {
                break;
            }
            if !bounds.are_points() {
                return join(&prefixes, &bounds);
            }
            prefixes = join(&prefixes, &bounds)
                .into_iter()
                .map(|range| range.start)
                .collect();
        }
        prefixes
            .iter()
            .map(|prefix| KeyRange::prefix(prefix))
            .collect()
    }
}

/// Each interval below each prefix.
fn join(prefixes: &[Vec<u8>], bounds: &Bounds) -> Vec<KeyRange> {
    let pairs = prefixes.iter().flat_map(|prefix| {
        bounds
            .intervals()
            .iter()
            .map(move |interval| (prefix, interval))
    });
    pairs
        .map(|(prefix, interval)| KeyRange {
            start: [prefix.as_slice(), &interval.start].concat(),
            end: match &interval.end {
                Some(end) => Some([prefix.as_slice(), end].concat()),
                None => after_prefix(prefix),
            },
        })
        .collect()
}

/// All conditions at once: the field has one value.
fn all_of<'c>(conditions: impl Iterator<Item = &'c Condition>) -> FieldBounds {
    let all = conditions.fold(Bounds::all(), |bounds, condition| {
        bounds.intersect(&condition.bounds)
    });
    FieldBounds {
        bounds: all,
        element: None,
    }
}

/// The best condition: each may be fulfilled by another element of the array.
///
/// `related` are the fields that are bounded already and take their values from the same array: only a
/// condition on the same element as theirs can be added.
fn one_of<'c>(
    conditions: impl Iterator<Item = &'c Condition> + Clone,
    related: &[Option<&Element>],
) -> FieldBounds {
    let goes_with = |condition: &&Condition| {
        related
            .iter()
            .all(|other| match (&condition.element, other) {
                (Some(own), Some(other)) => own.goes_with(other),
                _ => false,
            })
    };
    let candidates = conditions.filter(goes_with);
    let combined = candidates.clone().map(|condition| {
        let same = candidates
            .clone()
            .filter(|other| match (&condition.element, &other.element) {
                (Some(own), Some(other)) => own.is_same_value(other),
                _ => false,
            });
        FieldBounds {
            bounds: same.fold(condition.bounds.clone(), |all, other| {
                all.intersect(&other.bounds)
            }),
            element: condition.element.clone(),
        }
    });
    combined
        .min_by_key(|field| field.bounds.looseness())
        .unwrap_or(FieldBounds {
            bounds: Bounds::all(),
            element: None,
        })
}

/// The fields of the index that have array elements, as far as this state of the database goes.
fn multikey_fields(view: &View, collection: &Collection, state: &IndexState) -> Result<Vec<usize>> {
    if state.id == ID_INDEX {
        // An array cannot be an `_id`.
        return Ok(Vec::new());
    }
    let marks = KeyRange::prefix(&key::multikeys(collection.id, state.id));
    let fields = view.range(marks, Direction::Ascending).map(|mark| {
        let (key, _) = mark?;
        Ok(key.last().map_or(0, |field| usize::from(*field)))
    });
    fields.collect()
}
