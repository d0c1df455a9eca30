//! What one index can do for a query.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Question;
use super::access::{Access, IdAccess, IndexAccess, Plan, Walk};
use super::bounds::Bounds;
use super::conditions::{Condition, Demands, Element};
use super::covering::{covers, is_covered};
use super::ranges::Ranges;
use super::wildcard::{Places, Sought};
use crate::catalog::Collection;
use crate::direction::Direction;
use crate::error::Result;
use crate::index::wildcard::Coverage;
use crate::index::{ID_INDEX, IndexState};
use crate::key;
use crate::path::Path;
use crate::sort::Sort;
use crate::store::{KeyRange, Snapshot, View};

/// How many ranges several fields may have together; where there would be more, later fields are left
/// unbounded.
pub(super) const MAX_RANGES: usize = 10_000;

/// How many ranges are walked at once, as on MongoDB.
const MAX_MERGED: usize = 200;

/// How many conditions on one field are combined; the filter looks after all of them.
const MAX_CONDITIONS: usize = 64;

/// A scan of one index.
pub(super) struct Scan {
    state: Arc<IndexState>,
    fields: Vec<FieldBounds>,
    /// Of a wildcard index, the entries for a path, whose values are the only field.
    places: Option<Places>,
    /// In which direction a walk gives the order, and how many leading fields have to be merged for it.
    order: Option<(Direction, usize)>,
    /// The fields that have array elements.
    arrays: Vec<usize>,
    is_covered: bool,
    /// Whether it has nothing of those documents without its first field, which are not asked for.
    leaves_out: bool,
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
    pub(super) is_sorted: bool,
    is_covered: bool,
    /// Among equals, the smaller index.
    width: std::cmp::Reverse<usize>,
}

impl Scan {
    /// The best scan of this index, whether or not it is of any use; none of a wildcard index that has
    /// nothing for the demands.
    pub(super) fn of(
        view: &View,
        collection: &Collection,
        state: &Arc<IndexState>,
        demands: &Demands<'_>,
        question: &Question<'_>,
    ) -> Result<Option<Scan>> {
        let arrays = multikey_fields(view, collection, state)?;
        if let Some(coverage) = &state.coverage {
            return Scan::of_wildcard(state, coverage, demands, question, !arrays.is_empty());
        }
        let has_array = |field: usize| arrays.contains(&field);
        let mut fields: Vec<FieldBounds> = Vec::with_capacity(state.paths.len());
        for (number, path) in state.paths.iter().enumerate() {
            let conditions = demands
                .conditions
                .iter()
                .filter(|condition| condition.path == path.as_str() && answers(state, condition))
                .take(MAX_CONDITIONS);
            let mut next = if has_array(number) {
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
            if state.index.is_hashed(path.as_str()) {
                next.bounds = next.bounds.hashed();
            }
            fields.push(next);
        }
        let has_parts = arrays.is_empty() && collection.has_parts(state);
        let leaves_out = state.index.sparse && demands.wants_existing(state);
        let mut scan = Scan {
            state: Arc::clone(state),
            fields,
            places: None,
            order: None,
            arrays: Vec::new(),
            is_covered: has_parts
                && question.reads.are_covered_by(&state.paths)
                && covers(&state.paths, question.filter.expression()),
            leaves_out,
        };
        if let Some(sort) = question.sort {
            scan.order = scan.order_for(sort, &arrays);
            let mut sorted_by = sort.fields().map(|(path, _)| path);
            scan.is_covered &=
                scan.order.is_some() || sorted_by.all(|path| is_covered(path, &state.paths));
        }
        scan.arrays = arrays;
        Ok(Some(scan))
    }

    /// The best scan of a wildcard index: of the values at one path.
    fn of_wildcard(
        state: &Arc<IndexState>,
        coverage: &Coverage,
        demands: &Demands<'_>,
        question: &Question<'_>,
        has_arrays: bool,
    ) -> Result<Option<Scan>> {
        let mut by_path: BTreeMap<&str, Vec<&Condition>> = BTreeMap::new();
        for condition in &demands.conditions {
            // No element of an array is missing.
            let is_element = condition.element.as_ref().is_some_and(Element::is_itself);
            if condition.bounds.are_leaves(!is_element) && answers(state, condition) {
                let known = by_path.entry(&condition.path).or_default();
                known.extend((known.len() < MAX_CONDITIONS).then_some(condition));
            }
        }
        let mut best: Option<(FieldBounds, Places)> = None;
        for (path, conditions) in by_path {
            let conditions = conditions.into_iter();
            let field = if has_arrays {
                one_of(conditions, &[])
            } else {
                all_of(conditions)
            };
            let is_better = best
                .as_ref()
                .is_none_or(|(best, _)| field.bounds.looseness() < best.bounds.looseness());
            if is_better {
                let sought = Sought::Value(&field.bounds);
                let places = Places::of(state, coverage, path, sought, has_arrays)?;
                best = places.map(|places| (field, places)).or(best);
            }
        }
        for path in &demands.existing {
            if best.is_none() {
                let places = Places::of(state, coverage, path, Sought::Anything, has_arrays)?;
                let field = all_of([].into_iter());
                best = places.map(|places| (field, places));
            }
        }
        Ok(best.map(|(field, places)| {
            let sort = question.sort.filter(|_| state.collator.is_none());
            let order = sort.and_then(|sort| {
                let mut fields = sort.fields();
                let is_sorted = !has_arrays && places.is_one_path;
                match (fields.next(), fields.next()) {
                    (Some((path, direction)), None) if is_sorted && *path == places.path => {
                        Some((direction, 0))
                    }
                    _ => None,
                }
            });
            Scan {
                state: Arc::clone(state),
                fields: vec![field],
                order,
                arrays: if has_arrays || !places.is_one_path {
                    vec![0]
                } else {
                    Vec::new()
                },
                is_covered: false,
                leaves_out: false,
                places: Some(places),
            }
        }))
    }

    pub(super) fn name(&self) -> &str {
        &self.state.index.name
    }

    /// Whether it reads less than all of the documents, or gives the order.
    pub(super) fn is_useful(&self) -> bool {
        self.order.is_some() || self.leaves_out || self.is_bounded()
    }

    pub(super) fn is_bounded(&self) -> bool {
        self.places.is_some() || self.is_narrow()
    }

    /// Whether it is bounded by more than that something is there.
    pub(super) fn is_narrow(&self) -> bool {
        let first = self.fields.first();
        first.is_some_and(|field| !field.bounds.is_all())
    }

    pub(super) fn is_covered(&self) -> bool {
        self.is_covered
    }

    /// Whether one document can have several entries.
    pub(super) fn has_arrays(&self) -> bool {
        !self.arrays.is_empty()
    }

    /// Whether a field has array elements.
    pub(super) fn is_array(&self, field: usize) -> bool {
        self.arrays.contains(&field)
    }

    /// The one value, encoded, that a field has in all that is walked.
    pub(super) fn point(&self, field: usize) -> Option<&[u8]> {
        let bounds = &self.fields.get(field)?.bounds;
        match bounds.intervals() {
            [only] if only.is_point() => Some(only.start()),
            _ => None,
        }
    }

    /// The ranges of keys to walk, in ascending order.
    pub(super) fn key_ranges(&self) -> impl Iterator<Item = KeyRange> + use<> {
        self.ranges(0, Direction::Ascending).map(|(range, _)| range)
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
            is_bounded_and_sorted: self.is_bounded() && self.order.is_some(),
            range: next.map_or(0, |field| 3_u8.saturating_sub(field.bounds.looseness().0)),
            is_sorted: self.order.is_some(),
            is_covered: self.is_covered,
            // The path is a field, too.
            width: std::cmp::Reverse(self.fields.len() + usize::from(self.places.is_some())),
        }
    }

    pub(super) fn into_plan(mut self) -> Plan {
        let (direction, merged) = self.order.unwrap_or((Direction::Ascending, 0));
        let is_sorted = self.order.is_some();
        let is_id = self.state.id == ID_INDEX;
        let multikey = self.has_arrays();
        let bounds = self.describe();
        let rejected = Vec::new();
        if is_id && self.fields.iter().all(|field| field.bounds.are_points()) {
            let ranges = self.ranges(0, direction);
            let ids = IdAccess {
                keys: Box::new(ranges.map(|(range, _)| range.start)),
                state: self.state,
                is_covered: self.is_covered,
                bounds,
            };
            return Plan {
                access: Access::Ids(ids),
                is_sorted,
                rejected,
            };
        }
        let walk = match self.places.take() {
            Some(places) if direction == Direction::Descending => {
                Walk::InTurn(Box::new(places.ranges.into_iter().rev()))
            }
            Some(places) => Walk::InTurn(Box::new(places.ranges.into_iter())),
            None if merged > 0 => Walk::Merged(self.ranges(merged, direction).collect()),
            None => Walk::InTurn(Box::new(self.ranges(0, direction).map(|(range, _)| range))),
        };
        Plan {
            access: Access::Index(IndexAccess {
                state: self.state,
                walk,
                direction,
                multikey,
                is_covered: self.is_covered,
                bounds,
            }),
            is_sorted,
            rejected,
        }
    }

    /// What is walked of each field, for people.
    pub(super) fn describe(&self) -> Vec<String> {
        let paths = match &self.places {
            Some(places) => std::slice::from_ref(&places.path),
            None => self.state.paths.as_slice(),
        };
        let fields = paths.iter().map(Path::as_str).zip(&self.fields);
        fields
            .map(|(path, field)| format!("{path}: {}", field.bounds))
            .collect()
    }

    /// The direction in which a walk gives this order, if one does, and the number of leading fields whose
    /// ranges have to be merged for that.
    fn order_for(&self, sort: &Sort, arrays: &[usize]) -> Option<(Direction, usize)> {
        // Its strings have an order of their own.
        if self.state.collator.is_some() {
            return None;
        }
        if let Some(direction) = self.sorts(sort, arrays, 0) {
            return Some((direction, 0));
        }
        // Below each point the keys are in order, and so they are all together when merged.
        let bounded = self.fields.iter().filter(|field| !field.bounds.is_all());
        let counts = bounded.map(|field| field.bounds.intervals().len());
        if counts.fold(1, usize::saturating_mul) > MAX_MERGED {
            return None;
        }
        for (number, field) in self.fields.iter().enumerate() {
            if !field.bounds.are_points() {
                return None;
            }
            let merged = number + 1;
            if let Some(direction) = self.sorts(sort, arrays, merged) {
                return Some((direction, merged));
            }
        }
        None
    }

    /// The direction in which a walk gives this order, if one does, where each of the first `merged`
    /// fields has one value at a time.
    fn sorts(&self, sort: &Sort, arrays: &[usize], merged: usize) -> Option<Direction> {
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
                if is_constant || number < merged {
                    continue;
                }
                return None;
            }
            // A document with an array has its place by its least or greatest element, and the walk may
            // meet another one first. Hashes have an order of their own.
            if arrays.contains(&number) || self.state.index.is_hashed(path.as_str()) {
                return None;
            }
            if !is_constant {
                let needed = if own == direction {
                    Direction::Ascending
                } else {
                    Direction::Descending
                };
                // What is merged is out of order itself.
                if number < merged || walk.is_some_and(|walk| walk != needed) {
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

    /// The ranges of keys to walk, each with the length of the beginning that the first `merged` fields make up.
    fn ranges(&self, merged: usize, direction: Direction) -> Ranges {
        let mut bounded: Vec<Bounds> = Vec::new();
        let mut count = 1_usize;
        for (field, (_, own)) in self.fields.iter().zip(&self.state.index.keys) {
            let more = count.saturating_mul(field.bounds.intervals().len());
            let is_too_many = count > 1 && more > MAX_RANGES;
            if field.bounds.is_all() || is_too_many {
                break;
            }
            count = more;
            bounded.push(field.bounds.in_direction(*own));
            if !field.bounds.are_points() {
                break;
            }
        }
        Ranges::new(self.state.prefix.clone(), bounded, merged, direction)
    }
}

/// Whether the index has the values of a condition where their encodings are. An index with a collation has keys
/// in the place of strings.
fn answers(state: &IndexState, condition: &Condition) -> bool {
    state.collator.is_none() || !condition.bounds.tell_strings_apart()
}

/// Each interval below what its keys begin with.
pub(super) fn join<'j>(
    prefix: &'j [u8],
    bounds: &'j Bounds,
) -> impl Iterator<Item = KeyRange> + 'j {
    let intervals = bounds.intervals().iter();
    intervals.map(move |interval| interval.below(prefix))
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
