//! The values that a condition admits in an index, as intervals of their encodings.

mod display;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use bson::{RawArray, RawArrayBuf, RawBsonRef, RawDocumentBuf};

use display::{DisplayLimit, after_text, bracket_limits};

use crate::collation::Collator;
use crate::direction::Direction;
use crate::error::Result;
use crate::filter::{
    CollatedOperand, CollatedTest, CompareOperator, Comparison, Membership, ValueTest,
};
use crate::index::hashed::hash_encoding;
use crate::key::value::{collated_brackets, encode_collated, encode_text_prefix, type_bracket};
use crate::pattern::Regex;
use crate::store::{KeyRange, after_prefix};
use crate::value::Number;

/// An interval of encodings: the start is included, the end is excluded. A key is in the interval if its beginning is, so that
/// later fields of a compound key do not matter.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    start: Box<[u8]>,
    kind: IntervalKind,
}

#[derive(Clone, Debug)]
enum IntervalKind {
    /// A single value. The limit is shown in explain if `start` cannot be decoded to the original value.
    Point(Option<Box<DisplayLimit>>),
    Range(Box<IntervalRange>),
}

#[derive(Clone, Debug)]
struct IntervalRange {
    /// `None` means no upper limit.
    end: Option<Vec<u8>>,
    /// The limit shown in explain for `start`.
    low: Option<DisplayLimit>,
    /// The limit shown in explain for `end`.
    high: Option<DisplayLimit>,
}

/// Disjoint intervals in ascending order. Clones share the intervals, of which there may be a million.
#[derive(Clone, Debug)]
pub(super) struct ValueBounds(Arc<Vec<Interval>>);

impl ValueBounds {
    /// Returns the bounds that admit every value.
    pub(super) fn unbounded() -> ValueBounds {
        ValueBounds::from([Interval::new_range(Vec::new(), None)])
    }

    /// Returns a superset of the encodings of the values that pass the test, or `None` if the superset is unbounded.
    pub(super) fn from_test(test: &ValueTest) -> Result<Option<ValueBounds>> {
        let mut intervals = Vec::new();
        let is_bounded = match test {
            ValueTest::Collated(collated) => add_collated(collated, &mut intervals)?,
            ValueTest::Compare(comparison) => add_comparison(comparison, None, &mut intervals)?,
            ValueTest::In(membership) => add_membership(membership, &mut intervals)?,
            ValueTest::Regex(regex) => {
                add_regex(regex, &mut intervals);
                true
            }
            ValueTest::ElemMatch(_) | ValueTest::Exists | ValueTest::Other(_) => false,
        };
        Ok(is_bounded.then(|| ValueBounds::merge_intervals(intervals)))
    }

    /// Returns the union of several bounds.
    pub(super) fn union_of(bounds: &[&ValueBounds]) -> ValueBounds {
        ValueBounds::merge_intervals(
            bounds
                .iter()
                .flat_map(|bounds| bounds.0.iter().cloned())
                .collect(),
        )
    }

    pub(super) fn intervals(&self) -> &[Interval] {
        &self.0
    }

    pub(super) fn are_points(&self) -> bool {
        self.0.iter().all(Interval::is_point)
    }

    pub(super) fn is_one_point(&self) -> bool {
        matches!(self.intervals(), [interval] if interval.is_point())
    }

    pub(super) fn is_unbounded(&self) -> bool {
        matches!(self.intervals(), [interval] if interval.start.is_empty() && interval.end().is_none())
    }

    /// Returns the values that are in both bounds.
    pub(super) fn intersect(&self, other: &ValueBounds) -> ValueBounds {
        if self.is_unbounded() {
            return other.clone();
        }
        if other.is_unbounded() {
            return self.clone();
        }
        let (mut intervals, mut other_intervals) =
            (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        // Both lists are sorted and disjoint, so the interval that ends first overlaps no later interval.
        while let (Some(a), Some(b)) = (intervals.peek(), other_intervals.peek()) {
            both.extend(a.intersect(b));
            if a.ends_before(b) {
                intervals.next();
            } else {
                other_intervals.next();
            }
        }
        ValueBounds::merge_intervals(both)
    }

    /// Converts the bounds to the encoding of a field with this direction.
    pub(super) fn in_direction(&self, direction: Direction) -> ValueBounds {
        match direction {
            Direction::Ascending => self.clone(),
            Direction::Descending => self.0.iter().rev().map(Interval::complement).collect(),
        }
    }

    /// Converts the bounds to the encoding of a hashed field. Hashes have no ranges, so a range becomes unbounded.
    pub(super) fn hash_points(&self) -> ValueBounds {
        if !self.are_points() {
            return ValueBounds::unbounded();
        }
        let mut points: Vec<_> = self.0.iter().map(Interval::hash_point).collect();
        points.sort_by(|a, b| a.start.cmp(&b.start));
        points.dedup_by(|a, b| a.start == b.start);
        points.into_iter().collect()
    }

    /// Whether a [wildcard index](crate::index::wildcard) has entries for all of these values.
    ///
    /// The index has no entries for documents with fields. If `stands_for_missing` is set, null also means a missing field, which
    /// has no entry. As on MongoDB, a wildcard index is not used for arrays either, unless they are empty.
    pub(super) fn are_wildcard_leaves(&self, stands_for_missing: bool) -> bool {
        let empty = Interval::whole_type(RawBsonRef::Document(&RawDocumentBuf::new()));
        let null = Interval::whole_type(RawBsonRef::Null);
        let arrays = ValueBounds::all_arrays();
        self.0.iter().all(|interval| {
            let intersects = |other: &Interval| interval.intersect(other).is_some();
            let is_empty_value = interval.is_point() && is_empty_value(&interval.start);
            let is_missing = stands_for_missing && intersects(&null);
            is_empty_value || !intersects(&empty) && !arrays.0.iter().any(intersects) && !is_missing
        })
    }

    /// Whether the bounds contain some, but not all, of the values that a collation orders: strings, and values with strings in them.
    /// An index with another collation has these values in another order.
    pub(super) fn splits_strings(&self) -> bool {
        let (first, end) = collated_brackets();
        self.0.iter().any(|interval| {
            let (start, until) = (&*interval.start, interval.end());
            let (first, end) = (&[first][..], &[end][..]);
            let intersects = start < end && until.as_deref().is_none_or(|until| until > first);
            let has_all = start <= first && until.as_deref().is_none_or(|until| until >= end);
            intersects && !has_all
        })
    }

    /// Returns all arrays in the form in which an index contains arrays inside of arrays.
    pub(super) fn all_arrays() -> ValueBounds {
        let array = RawBsonRef::Array(&RawArrayBuf::new());
        ValueBounds::from([Interval::whole_type(array)])
    }

    /// Rates how loose the bounds are: points are the tightest, unbounded is the loosest.
    pub(super) fn looseness(&self) -> (u8, usize) {
        if self.are_points() {
            (0, self.0.len())
        } else if self.is_unbounded() {
            (3, 0)
        } else {
            // An end inside of a type's bracket encodes a value and is longer than the tag alone.
            let values = |bytes: &[u8]| bytes.len() > 1;
            let has_two_values = |interval: &Interval| {
                values(&interval.start) && interval.end().as_deref().is_some_and(values)
            };
            (
                if self.0.iter().all(has_two_values) {
                    1
                } else {
                    2
                },
                self.0.len(),
            )
        }
    }

    fn merge_intervals(mut intervals: Vec<Interval>) -> ValueBounds {
        intervals.sort_by(|a, b| a.start.cmp(&b.start));
        intervals.dedup_by(|later, last| {
            let overlaps = last.overlaps(later);
            if overlaps {
                last.extend_to(later);
            }
            overlaps
        });
        ValueBounds(Arc::new(intervals))
    }
}

impl<const N: usize> From<[Interval; N]> for ValueBounds {
    fn from(intervals: [Interval; N]) -> ValueBounds {
        ValueBounds(Arc::new(intervals.into()))
    }
}

impl FromIterator<Interval> for ValueBounds {
    fn from_iter<I: IntoIterator<Item = Interval>>(intervals: I) -> ValueBounds {
        ValueBounds(Arc::new(intervals.into_iter().collect()))
    }
}

impl Interval {
    fn from_value(value: RawBsonRef<'_>, collator: Option<&Collator>) -> Result<Interval> {
        Ok(Interval {
            start: encode_ascending(value, collator)?.into(),
            kind: IntervalKind::Point(Some(Box::new(DisplayLimit::inclusive(value)))),
        })
    }

    /// Returns the interval of the value with this encoding.
    fn encoded_point(encoding: &[u8]) -> Interval {
        Interval {
            start: encoding.into(),
            kind: IntervalKind::Point(None),
        }
    }

    fn new_range(start: Vec<u8>, end: Option<Vec<u8>>) -> Interval {
        let range = IntervalRange {
            end,
            low: None,
            high: None,
        };
        Interval {
            start: start.into(),
            kind: IntervalKind::Range(Box::new(range)),
        }
    }

    pub(super) fn start(&self) -> &[u8] {
        &self.start
    }

    /// `None` means no upper limit.
    fn end(&self) -> Option<Cow<'_, [u8]>> {
        match &self.kind {
            IntervalKind::Point(_) => after_prefix(&self.start).map(Cow::Owned),
            IntervalKind::Range(range) => range.end.as_deref().map(Cow::Borrowed),
        }
    }

    pub(super) fn is_point(&self) -> bool {
        matches!(self.kind, IntervalKind::Point(_))
    }

    /// Returns the keys that begin with `prefix`, followed by an encoding in the interval.
    pub(super) fn with_key_prefix(&self, prefix: &[u8]) -> KeyRange {
        KeyRange {
            start: [prefix, &self.start].concat(),
            end: match self.end() {
                Some(end) => Some([prefix, &end].concat()),
                None => after_prefix(prefix),
            },
        }
    }

    /// Returns all values of the same type as `value`, except for NaN.
    fn whole_type(value: RawBsonRef<'_>) -> Interval {
        let (first, end) = type_bracket(value);
        let is_number = Number::from_bson(value).is_some();
        let (low, high) = bracket_limits(value);
        Interval {
            // NaN has the first tag of numbers.
            start: Box::new([first + u8::from(is_number)]),
            kind: IntervalKind::Range(Box::new(IntervalRange {
                end: Some(vec![end]),
                low,
                high,
            })),
        }
    }

    /// Converts the interval to the encoding of a descending field. The result has no limits for explain.
    fn complement(&self) -> Interval {
        let complement = |bytes: &[u8]| bytes.iter().map(|byte| !byte).collect::<Vec<_>>();
        let start = complement(&self.start);
        if self.is_point() {
            return Interval::encoded_point(&start);
        }
        // Complementing turns "begins with the prefix or is above" into "begins with the prefix or is below".
        let end = self.end();
        let lowest = end.and_then(|end| after_prefix(&complement(&end)));
        Interval::new_range(lowest.unwrap_or_default(), after_prefix(&start))
    }

    /// Returns the interval of a point's hash.
    fn hash_point(&self) -> Interval {
        let hash = hash_encoding(&self.start);
        let value = RawBsonRef::Int64(i64::from_be_bytes(hash));
        Interval {
            start: Box::new(hash),
            kind: IntervalKind::Point(Some(Box::new(DisplayLimit::inclusive(value)))),
        }
    }

    fn ends_before(&self, other: &Interval) -> bool {
        match (self.end(), other.end()) {
            (Some(end), Some(other)) => end < other,
            (end, _) => end.is_some(),
        }
    }

    fn intersect(&self, other: &Interval) -> Option<Interval> {
        let (later, earlier) = match self.start >= other.start {
            true => (self, other),
            false => (other, self),
        };
        let first_to_end = match (self.end(), other.end()) {
            (Some(a), Some(b)) if b < a => other,
            (None, Some(_)) => other,
            _ => self,
        };
        let end = first_to_end.end();
        if end.as_ref().is_some_and(|end| **end <= *later.start) {
            return None;
        }
        // An intersection with a point is the point.
        if let Some(point) = [later, earlier]
            .into_iter()
            .find(|interval| interval.is_point())
        {
            return Some(point.clone());
        }
        Some(Interval {
            start: later.start.clone(),
            kind: IntervalKind::Range(Box::new(IntervalRange {
                end: end.map(Cow::into_owned),
                low: later.lower_limit(),
                high: first_to_end.upper_limit(),
            })),
        })
    }

    /// Returns the limit shown in explain for the start.
    fn lower_limit(&self) -> Option<DisplayLimit> {
        match &self.kind {
            IntervalKind::Point(Some(value)) => Some((**value).clone()),
            IntervalKind::Point(None) => DisplayLimit::from_encoding(&self.start),
            IntervalKind::Range(range) => range.low.clone(),
        }
    }

    /// Returns the limit shown in explain for the end.
    fn upper_limit(&self) -> Option<DisplayLimit> {
        match &self.kind {
            IntervalKind::Point(_) => self.lower_limit(),
            IntervalKind::Range(range) => range.high.clone(),
        }
    }

    fn overlaps(&self, later: &Interval) -> bool {
        let gap = |end: &[u8]| match (*later.start).cmp(end) {
            Ordering::Less => false,
            // Adjacent points stay separate points.
            Ordering::Equal => self.is_point() || later.is_point(),
            Ordering::Greater => true,
        };
        !self.end().as_deref().is_some_and(gap)
    }

    fn extend_to(&mut self, later: &Interval) {
        if self.is_point() && later.is_point() && self.start == later.start {
            return;
        }
        let (low, end) = (self.lower_limit(), self.end().map(Cow::into_owned));
        let is_longer = end.as_ref().is_some_and(|end| {
            let later = later.end();
            later.is_none_or(|later| *later > **end)
        });
        let (end, high) = match is_longer {
            true => (later.end().map(Cow::into_owned), later.upper_limit()),
            false => (end, self.upper_limit()),
        };
        self.kind = IntervalKind::Range(Box::new(IntervalRange { end, low, high }));
    }
}

/// Whether `start` encodes an empty document or array.
fn is_empty_value(start: &[u8]) -> bool {
    let document = RawDocumentBuf::new();
    let array = RawArrayBuf::new();
    let values = [RawBsonRef::Document(&document), RawBsonRef::Array(&array)];
    let mut encoded = values
        .into_iter()
        .map(|value| encode_ascending(value, None));
    encoded.any(|encoded| encoded.is_ok_and(|encoded| encoded == start))
}

/// Adds the values that a comparison admits. Returns `false` if the comparison is unbounded.
fn add_comparison(
    comparison: &Comparison,
    collator: Option<&Collator>,
    intervals: &mut Vec<Interval>,
) -> Result<bool> {
    let value = comparison.value.as_raw_bson_ref();
    if comparison.operator == CompareOperator::Eq {
        add_equal(value, collator, intervals)?;
        return Ok(true);
    }
    match value {
        // MinKey and MaxKey compare with every value. An array is compared as a whole, but indexed by its elements.
        RawBsonRef::MinKey | RawBsonRef::MaxKey | RawBsonRef::Array(_) => return Ok(false),
        RawBsonRef::Null => {
            add_equal(value, collator, intervals)?;
            return Ok(true);
        }
        _ => {}
    }
    if Number::from_bson(value).is_some_and(Number::is_nan) {
        // NaN is neither less nor greater than any value, and is equal to itself.
        add_equal(value, collator, intervals)?;
        return Ok(true);
    }
    let mut interval = Interval::whole_type(value);
    let key = encode_ascending(value, collator)?;
    let (included, excluded) = (
        DisplayLimit::inclusive(value),
        DisplayLimit::exclusive(value),
    );
    if let IntervalKind::Range(range) = &mut interval.kind {
        match comparison.operator {
            CompareOperator::Gt => {
                interval.start = after_prefix(&key).unwrap_or(key).into();
                range.low = Some(excluded);
            }
            CompareOperator::Gte => {
                interval.start = key.into();
                range.low = Some(included);
            }
            CompareOperator::Lt => {
                range.end = Some(key);
                range.high = Some(excluded);
            }
            CompareOperator::Lte => {
                range.end = after_prefix(&key);
                range.high = Some(included);
            }
            CompareOperator::Eq => {}
        }
    }
    intervals.push(interval);
    Ok(true)
}

/// Adds the values that a comparison under a collation admits. The bounds are those of an index with the same collation.
fn add_collated(collated: &CollatedTest, intervals: &mut Vec<Interval>) -> Result<bool> {
    let collator = collated.order().collator();
    match collated.operand() {
        CollatedOperand::Compare(comparison) => add_comparison(comparison, collator, intervals),
        // A pattern needs the strings, which the index does not have.
        CollatedOperand::In { patterns, .. } if !patterns.is_empty() => Ok(false),
        CollatedOperand::In { values, .. } => {
            for value in values {
                add_equal(value.as_raw_bson_ref(), collator, intervals)?;
            }
            Ok(true)
        }
    }
}

fn add_membership(membership: &Membership, intervals: &mut Vec<Interval>) -> Result<bool> {
    for value in membership.compared_values() {
        add_equal(value.as_raw_bson_ref(), None, intervals)?;
    }
    intervals.extend(membership.encodings().map(Interval::encoded_point));
    for pattern in membership.patterns() {
        add_regex(pattern, intervals);
    }
    Ok(true)
}

fn add_equal(
    value: RawBsonRef<'_>,
    collator: Option<&Collator>,
    intervals: &mut Vec<Interval>,
) -> Result<()> {
    match value {
        // Null also matches undefined.
        RawBsonRef::Null => intervals.push(Interval::from_value(RawBsonRef::Undefined, None)?),
        // An array is indexed by its elements. As an element of an enclosing array, it is indexed as a whole.
        RawBsonRef::Array(array) => {
            intervals.push(Interval::from_value(first_key(array)?, collator)?)
        }
        _ => {}
    }
    intervals.push(Interval::from_value(value, collator)?);
    Ok(())
}

/// Returns one of the values under which an array is indexed.
fn first_key(array: &RawArray) -> Result<RawBsonRef<'_>> {
    let first = array.into_iter().next().transpose()?;
    Ok(first.unwrap_or(RawBsonRef::Undefined))
}

/// Adds the values that a pattern matches: strings, and equal regular expressions.
fn add_regex(regex: &Regex, intervals: &mut Vec<Interval>) {
    let mut strings = Interval::whole_type(RawBsonRef::String(""));
    if let (Some(prefix), IntervalKind::Range(range)) = (regex.literal_prefix(), &mut strings.kind)
    {
        let mut start = Vec::new();
        encode_text_prefix(prefix, &mut start);
        range.end = after_prefix(&start);
        strings.start = start.into();
        range.low = Some(DisplayLimit::inclusive(RawBsonRef::String(prefix)));
        range.high =
            after_text(prefix).map(|after| DisplayLimit::exclusive(RawBsonRef::String(&after)));
    }
    intervals.push(strings);
    let same_type = RawBsonRef::RegularExpression(bson::raw::RawRegexRef {
        pattern: bson::raw::cstr!(""),
        options: bson::raw::cstr!(""),
    });
    intervals.push(Interval::whole_type(same_type));
}

fn encode_ascending(value: RawBsonRef<'_>, collator: Option<&Collator>) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    encode_collated(value, Direction::Ascending, collator, &mut key)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;
    use crate::filter::{Filter, FilterExpression};
    use crate::key::value::encode_value;

    fn parse_bounds(filter: RawDocumentBuf) -> Option<ValueBounds> {
        let filter = Filter::parse(&filter).unwrap();
        match filter.parsed_conditions() {
            FilterExpression::Field(_, test) => ValueBounds::from_test(test).unwrap(),
            FilterExpression::And(all) => match all.as_slice() {
                [FilterExpression::Field(_, test)] => ValueBounds::from_test(test).unwrap(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn bounds_contain(bounds: &ValueBounds, value: RawBsonRef<'_>, direction: Direction) -> bool {
        let mut key = Vec::new();
        encode_value(value, direction, &mut key).unwrap();
        key.extend_from_slice(b"later fields");
        bounds
            .in_direction(direction)
            .intervals()
            .iter()
            .any(|interval| *interval.start <= *key && interval.end().is_none_or(|end| *key < *end))
    }

    #[test]
    fn ranges_contain_their_values_in_both_directions() {
        let range = parse_bounds(rawdoc! { "a": { "$gt": 5 } }).unwrap();
        for direction in [Direction::Ascending, Direction::Descending] {
            let has = |value| bounds_contain(&range, value, direction);
            assert!(has(RawBsonRef::Double(5.5)) && has(RawBsonRef::Int64(1 << 60)));
            assert!(!has(RawBsonRef::Double(5.0)) && !has(RawBsonRef::Int32(-1)));
            assert!(!has(RawBsonRef::String("x")) && !has(RawBsonRef::Null));
        }
        let range = parse_bounds(rawdoc! { "a": { "$lte": "m" } }).unwrap();
        for direction in [Direction::Ascending, Direction::Descending] {
            let has = |value| bounds_contain(&range, value, direction);
            assert!(has(RawBsonRef::String("m")) && has(RawBsonRef::String("")));
            assert!(!has(RawBsonRef::String("m\0")) && !has(RawBsonRef::Int32(1)));
        }
    }

    #[test]
    fn equal_values_are_points() {
        let set = parse_bounds(rawdoc! { "a": { "$in": [3, 1, 1.0, "x"] } }).unwrap();
        assert!(set.are_points());
        assert_eq!(set.intervals().len(), 3);
        assert!(parse_bounds(rawdoc! { "a": 1 }).unwrap().is_one_point());
        assert!(
            !parse_bounds(rawdoc! { "a": bson::RawBson::Null })
                .unwrap()
                .is_one_point()
        );
    }

    #[test]
    fn a_prefix_bounds_a_pattern() {
        let prefix = parse_bounds(rawdoc! { "a": { "$regex": "^ab" } }).unwrap();
        let has = |text| bounds_contain(&prefix, RawBsonRef::String(text), Direction::Ascending);
        assert!(has("ab") && has("abc") && has("ab\0"));
        assert!(!has("a") && !has("ac") && !has("b"));
    }

    #[test]
    fn two_ranges_intersect() {
        let above = parse_bounds(rawdoc! { "a": { "$gte": 5 } }).unwrap();
        let below = parse_bounds(rawdoc! { "a": { "$lt": 7 } }).unwrap();
        let both = above.intersect(&below);
        let has = |value| bounds_contain(&both, RawBsonRef::Int32(value), Direction::Ascending);
        assert!(has(5) && has(6) && !has(4) && !has(7));
        assert_eq!(both.looseness().0, 1);
        let none = parse_bounds(rawdoc! { "a": 9 }).unwrap().intersect(&both);
        assert!(none.intervals().is_empty());
    }

    #[test]
    fn a_hashed_field_has_points_only() {
        let points = parse_bounds(rawdoc! { "a": { "$in": [1, 1.0, "x"] } }).unwrap();
        let hashed = points.hash_points();
        assert!(hashed.are_points());
        assert_eq!(hashed.intervals().len(), 2);
        assert!(hashed.intervals().is_sorted_by_key(|point| &point.start));
        let range = parse_bounds(rawdoc! { "a": { "$gt": 1 } }).unwrap();
        assert!(range.hash_points().is_unbounded());
    }

    #[test]
    fn bounds_without_wildcard_entries_are_detected() {
        let is_leaf_filter =
            |filter, missing| parse_bounds(filter).unwrap().are_wildcard_leaves(missing);
        for filter in [
            rawdoc! { "a": { "$gt": 1 } },
            rawdoc! { "a": { "$in": [1, {}, []] } },
            rawdoc! { "a": { "$regex": "x" } },
            rawdoc! { "a": { "$in": [] } },
        ] {
            assert!(is_leaf_filter(filter, true));
        }
        for filter in [
            rawdoc! { "a": { "b": 1 } },
            rawdoc! { "a": { "$in": [1, [2]] } },
            rawdoc! { "a": { "$gte": {} } },
            rawdoc! { "a": { "$in": [1, (bson::RawBson::Null)] } },
        ] {
            assert!(!is_leaf_filter(filter, true));
        }
        assert!(is_leaf_filter(
            rawdoc! { "a": (bson::RawBson::Null) },
            false
        ));
        assert!(!ValueBounds::unbounded().are_wildcard_leaves(true));
    }

    #[test]
    fn bounds_are_displayed_as_values() {
        let text = |filter| parse_bounds(filter).unwrap().to_string();
        assert_eq!(text(rawdoc! { "a": 5 }), "[5, 5]");
        assert_eq!(text(rawdoc! { "a": { "$gt": 5 } }), "(5, inf]");
        assert_eq!(
            text(rawdoc! { "a": { "$in": ["x", 1] } }),
            "[1, 1], [\"x\", \"x\"]"
        );
        assert_eq!(text(rawdoc! { "a": { "$lt": "m" } }), "[\"\", \"m\")");
        let above = parse_bounds(rawdoc! { "a": { "$gte": 3 } }).unwrap();
        let below = parse_bounds(rawdoc! { "a": { "$lt": 7 } }).unwrap();
        assert_eq!(above.intersect(&below).to_string(), "[3, 7)");
        assert_eq!(ValueBounds::unbounded().to_string(), "[MinKey, MaxKey]");
    }
}
