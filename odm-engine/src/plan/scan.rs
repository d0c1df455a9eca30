//! A scan of one index for a query.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::PlanRequest;
use super::access::{AccessPath, IndexAccess, IndexWalk, KeyAccess, QueryPlan};
use super::bounds::ValueBounds;
use super::conditions::{ElementScope, FilterCondition, FilterDemands};
use super::covering::{covers_filter, covers_path};
use super::ranges::KeyRanges;
use super::wildcard::{WildcardRanges, WildcardTarget};
use crate::catalog::Collection;
use crate::direction::Direction;
use crate::error::Result;
use crate::index::wildcard::Coverage;
use crate::index::{ID_INDEX, IndexState};
use crate::key;
use crate::path::Path;
use crate::sort::Sort;
use crate::store::{KeyRange, Snapshot, StoreView};

/// The maximum number of ranges for combinations of several fields. Later fields that would exceed the limit stay unbounded.
pub(super) const MAX_KEY_RANGES: usize = 10_000;

/// The maximum number of ranges merged in one walk, as on MongoDB.
const MAX_MERGED_RANGES: usize = 200;

/// The maximum number of fields with a look-up of the marker for each field. A search of a range costs as much as two look-ups.
const MAX_MARKER_LOOKUPS: usize = 2;

/// The maximum number of combined conditions on one field. The filter still checks all conditions.
const MAX_FIELD_CONDITIONS: usize = 64;

/// A scan of one index.
pub(super) struct IndexScan {
    state: Arc<IndexState>,
    fields: Vec<FieldBounds>,
    /// For a wildcard index: the ranges for one path. The values at that path are the only field.
    wildcard_ranges: Option<WildcardRanges>,
    /// The direction in which a walk gives the order, and the number of leading fields to merge for that.
    order: Option<(Direction, usize)>,
    /// The fields with array elements.
    arrays: Vec<usize>,
    is_covered: bool,
    /// Whether the index has no entries for documents without its first field, and the filter rejects these documents.
    skips_missing: bool,
}

/// The bounds of the fields of one scan.
pub(crate) struct ScanBounds {
    state: Arc<IndexState>,
    /// The path of a scan of a wildcard index.
    wildcard_path: Option<Path>,
    fields: Vec<FieldBounds>,
}

struct FieldBounds {
    bounds: ValueBounds,
    element: Option<ElementScope>,
}

/// The quality of a scan. A greater value is better; earlier fields are more important.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ScanMerit {
    /// Whether every field of a unique index is pinned to single values.
    pub(super) is_unique_lookup: bool,
    /// The number of leading fields that are pinned to single values.
    points: usize,
    is_bounded_and_sorted: bool,
    /// How narrow the range on the next field is.
    range: u8,
    pub(super) is_sorted: bool,
    is_covered: bool,
    /// The smaller index wins among equal scans.
    width: std::cmp::Reverse<usize>,
}

impl IndexScan {
    /// Returns the best scan of this index, useful or not. Returns `None` for a wildcard index without a matching path.
    pub(super) fn for_request(
        view: &StoreView,
        collection: &Collection,
        state: &Arc<IndexState>,
        demands: &FilterDemands<'_>,
        question: &PlanRequest<'_>,
    ) -> Result<Option<IndexScan>> {
        let arrays = multikey_fields(view, collection, state)?;
        if let Some(coverage) = &state.coverage {
            return IndexScan::for_wildcard(state, coverage, demands, question, !arrays.is_empty());
        }
        let has_array = |field: usize| arrays.contains(&field);
        let mut fields: Vec<FieldBounds> = Vec::with_capacity(state.paths.len());
        for (number, path) in state.paths.iter().enumerate() {
            let conditions = demands
                .conditions
                .iter()
                .filter(|condition| condition.path == path.as_str() && can_answer(state, condition))
                .take(MAX_FIELD_CONDITIONS);
            let mut next = if has_array(number) {
                let first = path.parts().first();
                // Fields that may take their values from different elements of the same array.
                let related_scopes: Vec<_> = fields
                    .iter()
                    .zip(&state.paths)
                    .enumerate()
                    .filter(|(other, (field, other_path))| {
                        has_array(*other)
                            && !field.bounds.is_unbounded()
                            && other_path.parts().first() == first
                    })
                    .map(|(_, (field, _))| field.element.as_ref())
                    .collect();
                narrowest_element(conditions, &related_scopes)
            } else {
                combine_all(conditions)
            };
            if state.index.is_hashed(path.as_str()) {
                next.bounds = next.bounds.hash_points();
            }
            fields.push(next);
        }
        let has_parts = arrays.is_empty() && collection.has_parts(state);
        let omits_documents = state.index.sparse && demands.requires_first_field(state);
        let mut scan = IndexScan {
            state: Arc::clone(state),
            fields,
            wildcard_ranges: None,
            order: None,
            arrays: Vec::new(),
            is_covered: has_parts
                && question.reads.is_covered_by(&state.paths)
                && covers_filter(&state.paths, question.filter.parsed_conditions()),
            skips_missing: omits_documents,
        };
        if let Some(sort) = question.sort {
            scan.order = scan.order_for(sort, &arrays);
            let mut sorted_by = sort.directed_paths().map(|(path, _)| path);
            scan.is_covered &=
                scan.order.is_some() || sorted_by.all(|path| covers_path(path, &state.paths));
        }
        scan.arrays = arrays;
        Ok(Some(scan))
    }

    /// Returns the best scan of a wildcard index, over the values at one path.
    fn for_wildcard(
        state: &Arc<IndexState>,
        coverage: &Coverage,
        demands: &FilterDemands<'_>,
        question: &PlanRequest<'_>,
        has_arrays: bool,
    ) -> Result<Option<IndexScan>> {
        let mut by_path: BTreeMap<&str, Vec<&FilterCondition>> = BTreeMap::new();
        for condition in &demands.conditions {
            // An array element is never missing.
            let is_element = condition
                .element
                .as_ref()
                .is_some_and(ElementScope::is_whole_element);
            if condition.bounds.are_wildcard_leaves(!is_element) && can_answer(state, condition) {
                let known = by_path.entry(&condition.path).or_default();
                known.extend((known.len() < MAX_FIELD_CONDITIONS).then_some(condition));
            }
        }
        let mut best: Option<(FieldBounds, WildcardRanges)> = None;
        for (path, conditions) in by_path {
            let conditions = conditions.into_iter();
            let field = if has_arrays {
                narrowest_element(conditions, &[])
            } else {
                combine_all(conditions)
            };
            let is_better = best
                .as_ref()
                .is_none_or(|(best, _)| field.bounds.looseness() < best.bounds.looseness());
            if is_better {
                let target = WildcardTarget::Value(&field.bounds);
                let places = WildcardRanges::for_path(state, coverage, path, target, has_arrays)?;
                best = places.map(|places| (field, places)).or(best);
            }
        }
        for path in &demands.existing {
            if best.is_none() {
                let places = WildcardRanges::for_path(
                    state,
                    coverage,
                    path,
                    WildcardTarget::Anything,
                    has_arrays,
                )?;
                let field = combine_all([].into_iter());
                best = places.map(|places| (field, places));
            }
        }
        Ok(best.map(|(field, places)| {
            let sort = question.sort.filter(|sort| sorts_like(state, sort));
            let order = sort.and_then(|sort| {
                let mut fields = sort.directed_paths();
                let is_sorted = !has_arrays && places.is_one_path;
                match (fields.next(), fields.next()) {
                    (Some((path, direction)), None) if is_sorted && *path == places.path => {
                        Some((direction, 0))
                    }
                    _ => None,
                }
            });
            IndexScan {
                state: Arc::clone(state),
                fields: vec![field],
                order,
                arrays: if has_arrays || !places.is_one_path {
                    vec![0]
                } else {
                    Vec::new()
                },
                is_covered: false,
                skips_missing: false,
                wildcard_ranges: Some(places),
            }
        }))
    }

    pub(super) fn index_name(&self) -> &str {
        &self.state.index.name
    }

    /// Whether the scan reads fewer documents than a collection scan, or gives the order.
    pub(super) fn is_useful(&self) -> bool {
        self.order.is_some() || self.skips_missing || self.is_bounded()
    }

    pub(super) fn is_bounded(&self) -> bool {
        self.wildcard_ranges.is_some() || self.is_narrow()
    }

    /// Whether the scan is bounded by more than the existence of a field.
    pub(super) fn is_narrow(&self) -> bool {
        let first = self.fields.first();
        first.is_some_and(|field| !field.bounds.is_unbounded())
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

    /// Returns the encoded value of a field, if all scanned entries have the same value.
    pub(super) fn point_at(&self, field: usize) -> Option<&[u8]> {
        let bounds = &self.fields.get(field)?.bounds;
        match bounds.intervals() {
            [interval] if interval.is_point() => Some(interval.start()),
            _ => None,
        }
    }

    /// Returns the key ranges of the scan, in ascending order.
    pub(super) fn key_ranges(&self) -> impl Iterator<Item = KeyRange> + use<> {
        self.bounded_ranges(0, Direction::Ascending)
            .map(|(range, _)| range)
    }

    pub(super) fn merit(&self) -> ScanMerit {
        let points = self
            .fields
            .iter()
            .take_while(|field| field.bounds.are_points())
            .count();
        let next = self.fields.get(points);
        ScanMerit {
            is_unique_lookup: self.state.index.unique && points == self.fields.len(),
            points,
            is_bounded_and_sorted: self.is_bounded() && self.order.is_some(),
            range: next.map_or(0, |field| 3_u8.saturating_sub(field.bounds.looseness().0)),
            is_sorted: self.order.is_some(),
            is_covered: self.is_covered,
            // The path counts as a field.
            width: std::cmp::Reverse(
                self.fields.len() + usize::from(self.wildcard_ranges.is_some()),
            ),
        }
    }

    pub(super) fn into_plan(mut self) -> QueryPlan {
        let (direction, merged) = self.order.unwrap_or((Direction::Ascending, 0));
        let is_sorted = self.order.is_some();
        let multikey = self.has_arrays();
        let rejected = Vec::new();
        if self.looks_up_keys() {
            let ranges = self.bounded_ranges(0, direction);
            let keys = KeyAccess {
                keys: Box::new(ranges.map(|(range, _)| range.start)),
                is_covered: self.is_covered,
                state: Arc::clone(&self.state),
                bounds: self.into_bounds(),
            };
            return QueryPlan {
                access: AccessPath::Keys(keys),
                is_sorted,
                rejected,
            };
        }
        let walk = match &mut self.wildcard_ranges {
            Some(places) => {
                let ranges = std::mem::take(&mut places.ranges).into_iter();
                match direction {
                    Direction::Ascending => IndexWalk::Sequential(Box::new(ranges)),
                    Direction::Descending => IndexWalk::Sequential(Box::new(ranges.rev())),
                }
            }
            None if merged > 0 => {
                IndexWalk::Merged(self.bounded_ranges(merged, direction).collect())
            }
            None => IndexWalk::Sequential(Box::new(
                self.bounded_ranges(0, direction).map(|(range, _)| range),
            )),
        };
        QueryPlan {
            access: AccessPath::Index(IndexAccess {
                state: Arc::clone(&self.state),
                walk,
                direction,
                multikey,
                is_covered: self.is_covered,
                bounds: vec![self.into_bounds()],
            }),
            is_sorted,
            rejected,
        }
    }

    /// Whether the scan consists of complete keys of a unique index, so that no search of ranges is necessary.
    fn looks_up_keys(&self) -> bool {
        match self.fields.as_slice() {
            [only] => self.state.index.unique && !self.has_arrays() && only.bounds.are_points(),
            _ => false,
        }
    }

    /// Returns the bounds of each field, for explain.
    pub(super) fn into_bounds(self) -> ScanBounds {
        ScanBounds {
            state: self.state,
            wildcard_path: self.wildcard_ranges.map(|places| places.path),
            fields: self.fields,
        }
    }

    /// Returns how a walk gives this order: the direction, and the number of leading fields with ranges to merge. `None` if no
    /// walk gives the order.
    fn order_for(&self, sort: &Sort, arrays: &[usize]) -> Option<(Direction, usize)> {
        if !sorts_like(&self.state, sort) {
            return None;
        }
        if let Some(direction) = self.sort_direction(sort, arrays, 0) {
            return Some((direction, 0));
        }
        // The keys below each point are in order, so merging all points gives one ordered sequence.
        let bounded = self
            .fields
            .iter()
            .filter(|field| !field.bounds.is_unbounded());
        let counts = bounded.map(|field| field.bounds.intervals().len());
        if counts.fold(1, usize::saturating_mul) > MAX_MERGED_RANGES {
            return None;
        }
        for (number, field) in self.fields.iter().enumerate() {
            if !field.bounds.are_points() {
                return None;
            }
            let merged = number + 1;
            if let Some(direction) = self.sort_direction(sort, arrays, merged) {
                return Some((direction, merged));
            }
        }
        None
    }

    /// Returns the direction in which a walk gives this order, if each of the first `merged` fields has one value at a time.
    fn sort_direction(&self, sort: &Sort, arrays: &[usize], merged: usize) -> Option<Direction> {
        let mut sort_fields = sort.directed_paths().peekable();
        let mut scan_direction = None;
        let index = self
            .state
            .paths
            .iter()
            .zip(&self.state.index.keys)
            .zip(&self.fields);
        for (number, ((path, (_, index_direction)), field)) in index.enumerate() {
            let Some((next, direction)) = sort_fields.peek() else {
                break;
            };
            let is_constant = field.bounds.is_one_point();
            if *next != path {
                if is_constant || number < merged {
                    continue;
                }
                return None;
            }
            // The order uses the least or greatest element of an array, and the walk may visit a different element first. Hashes
            // are in no useful order.
            if arrays.contains(&number) || self.state.index.is_hashed(path.as_str()) {
                return None;
            }
            if !is_constant {
                let needed = if index_direction == direction {
                    Direction::Ascending
                } else {
                    Direction::Descending
                };
                // Merged fields are not in order themselves.
                if number < merged
                    || scan_direction.is_some_and(|scan_direction| scan_direction != needed)
                {
                    return None;
                }
                scan_direction = Some(needed);
            }
            sort_fields.next();
        }
        sort_fields
            .peek()
            .is_none()
            .then_some(scan_direction.unwrap_or(Direction::Ascending))
    }

    /// Returns the key ranges of the scan. Each range has the length of the prefix that consists of the first `merged` fields.
    fn bounded_ranges(&self, merged: usize, direction: Direction) -> KeyRanges {
        let mut bounded: Vec<ValueBounds> = Vec::new();
        let mut count = 1_usize;
        for (field, (_, index_direction)) in self.fields.iter().zip(&self.state.index.keys) {
            let new_count = count.saturating_mul(field.bounds.intervals().len());
            let is_too_many = count > 1 && new_count > MAX_KEY_RANGES;
            if field.bounds.is_unbounded() || is_too_many {
                break;
            }
            count = new_count;
            bounded.push(field.bounds.in_direction(*index_direction));
            if !field.bounds.are_points() {
                break;
            }
        }
        KeyRanges::new(self.state.prefix.clone(), bounded, merged, direction)
    }
}

impl ScanBounds {
    /// Describes the bounds of each field, for explain.
    pub(crate) fn describe(&self) -> impl Iterator<Item = String> {
        let paths = match &self.wildcard_path {
            Some(path) => std::slice::from_ref(path),
            None => self.state.paths.as_slice(),
        };
        let fields = paths.iter().map(Path::as_str).zip(&self.fields);
        fields.map(|(path, field)| format!("{path}: {}", field.bounds))
    }
}

/// Whether the index contains the encodings of the values in a condition. An index with a collation contains collation keys in place of
/// strings, so such an index answers a condition of the same collation. Any other condition needs bounds that concern no strings.
fn can_answer(state: &IndexState, condition: &FilterCondition) -> bool {
    let collation = state.index.collation.as_ref();
    match &condition.order {
        Some(order) => order.collation() == collation,
        None => collation.is_none() || !condition.bounds.splits_strings(),
    }
}

/// Whether the entries of an index have the order of strings that the query requests.
fn sorts_like(state: &IndexState, sort: &Sort) -> bool {
    state.index.collation.as_ref() == sort.value_order().collation()
}

/// Returns the key range of each interval after a common prefix.
pub(super) fn ranges_with_prefix<'j>(
    prefix: &'j [u8],
    bounds: &'j ValueBounds,
) -> impl Iterator<Item = KeyRange> + 'j {
    let intervals = bounds.intervals().iter();
    intervals.map(move |interval| interval.with_key_prefix(prefix))
}

/// Combines all conditions on a field with a single value.
fn combine_all<'c>(conditions: impl Iterator<Item = &'c FilterCondition>) -> FieldBounds {
    let combined = conditions.fold(ValueBounds::unbounded(), |bounds, condition| {
        bounds.intersect(&condition.bounds)
    });
    FieldBounds {
        bounds: combined,
        element: None,
    }
}

/// Returns the narrowest condition on an array field. A different element of the array may fulfil each condition, so only
/// conditions on the same element combine.
///
/// `related_scopes` has the already bounded fields with values from the same array. The result must be compatible with the elements of
/// these fields.
fn narrowest_element<'c>(
    conditions: impl Iterator<Item = &'c FilterCondition> + Clone,
    related_scopes: &[Option<&ElementScope>],
) -> FieldBounds {
    let is_compatible = |condition: &&FilterCondition| {
        related_scopes
            .iter()
            .all(|other| match (&condition.element, other) {
                (Some(element), Some(other)) => element.combines_with(other),
                _ => false,
            })
    };
    let candidates = conditions.filter(is_compatible);
    let combined = candidates.clone().map(|condition| {
        let same = candidates
            .clone()
            .filter(|other| match (&condition.element, &other.element) {
                (Some(element), Some(other)) => element.is_same_value(other),
                _ => false,
            });
        FieldBounds {
            bounds: same.fold(condition.bounds.clone(), |bounds, other| {
                bounds.intersect(&other.bounds)
            }),
            element: condition.element.clone(),
        }
    });
    combined
        .min_by_key(|field| field.bounds.looseness())
        .unwrap_or(FieldBounds {
            bounds: ValueBounds::unbounded(),
            element: None,
        })
}

/// Returns the fields of the index with array elements in this state of the database.
fn multikey_fields(
    view: &StoreView,
    collection: &Collection,
    state: &IndexState,
) -> Result<Vec<usize>> {
    if state.id == ID_INDEX {
        // An `_id` cannot be an array.
        return Ok(Vec::new());
    }
    if state.paths.len() <= MAX_MARKER_LOOKUPS {
        let mut marked = Vec::new();
        for field in (0_u8..).take(state.paths.len()) {
            let marker = key::for_multikey(collection.id, state.id, field);
            if view.get(&marker)?.is_some() {
                marked.push(usize::from(field));
            }
        }
        return Ok(marked);
    }
    let range = KeyRange::with_prefix(&key::multikey_prefix(collection.id, state.id));
    let fields = view.range(range, Direction::Ascending).map(|entry| {
        let (key, _) = entry?;
        Ok(key.last().map_or(0, |field| usize::from(*field)))
    });
    fields.collect()
}
