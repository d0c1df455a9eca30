//! The values that a condition admits in an index, as intervals of their encodings.

mod limit;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use bson::{RawArray, RawArrayBuf, RawBsonRef, RawDocumentBuf};

use limit::{Limit, after_text, bracket_limits};

use crate::direction::Direction;
use crate::error::Result;
use crate::filter::{CompareOperator, Comparison, Membership, Test};
use crate::index::hashed::hash;
use crate::key::value::{collated_brackets, encode, encode_text_prefix, type_bracket};
use crate::pattern::Regex;
use crate::store::{KeyRange, after_prefix};
use crate::value::Number;

/// The encodings from a start, included, to an end, excluded. A key lies in it by its beginning, so
/// that what follows in a compound key does not matter.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    start: Box<[u8]>,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// One value alone, and what people are told of it, if that is not what `start` says.
    Point(Option<Box<Limit>>),
    Range(Box<Range>),
}

#[derive(Clone, Debug)]
struct Range {
    /// `None` is above everything.
    end: Option<Vec<u8>>,
    /// What people are told of `start`.
    low: Option<Limit>,
    /// What people are told of `end`.
    high: Option<Limit>,
}

/// Disjoint intervals in ascending order. A clone shares them: there may be a million.
#[derive(Clone, Debug)]
pub(super) struct Bounds(Arc<Vec<Interval>>);

impl Bounds {
    /// Every value.
    pub(super) fn all() -> Bounds {
        Bounds::from([Interval::range(Vec::new(), None)])
    }

    /// A superset of the encodings of the values that pass the test, or `None` if that is every one.
    pub(super) fn of(test: &Test) -> Result<Option<Bounds>> {
        let mut intervals = Vec::new();
        let is_bounded = match test {
            Test::Compare(comparison) => add_comparison(comparison, &mut intervals)?,
            Test::In(membership) => add_membership(membership, &mut intervals)?,
            Test::Regex(regex) => {
                add_regex(regex, &mut intervals);
                true
            }
            Test::ElemMatch(_) | Test::Exists | Test::Other(_) => false,
        };
        Ok(is_bounded.then(|| Bounds::merged(intervals)))
    }

    /// The values that lie in any of these.
    pub(super) fn any_of(all: &[&Bounds]) -> Bounds {
        Bounds::merged(
            all.iter()
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
        matches!(self.intervals(), [only] if only.is_point())
    }

    pub(super) fn is_all(&self) -> bool {
        matches!(self.intervals(), [only] if only.start.is_empty() && only.end().is_none())
    }

    /// The values that lie in both.
    pub(super) fn intersect(&self, other: &Bounds) -> Bounds {
        if self.is_all() {
            return other.clone();
        }
        if other.is_all() {
            return self.clone();
        }
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        // Both are sorted and disjoint: the one that ends first meets nothing further on.
        while let (Some(a), Some(b)) = (ours.peek(), theirs.peek()) {
            both.extend(a.intersect(b));
            if a.ends_before(b) {
                ours.next();
            } else {
                theirs.next();
            }
        }
        Bounds::merged(both)
    }

    /// The same values as a descending field encodes them.
    pub(super) fn in_direction(&self, direction: Direction) -> Bounds {
        match direction {
            Direction::Ascending => self.clone(),
            Direction::Descending => self.0.iter().rev().map(Interval::complement).collect(),
        }
    }

    /// The same values as a hashed field encodes them: their hashes, which have no ranges.
    pub(super) fn hashed(&self) -> Bounds {
        if !self.are_points() {
            return Bounds::all();
        }
        let mut points: Vec<_> = self.0.iter().map(Interval::hashed).collect();
        points.sort_by(|a, b| a.start.cmp(&b.start));
        points.dedup_by(|a, b| a.start == b.start);
        points.into_iter().collect()
    }

    /// Whether a [wildcard index](crate::index::wildcard) has entries for all of these values: not for
    /// documents that have fields, nor for null where it `stands_for_missing` fields. As on MongoDB, arrays
    /// are not looked for either, unless they are empty.
    pub(super) fn are_leaves(&self, stands_for_missing: bool) -> bool {
        let empty = Interval::bracket(RawBsonRef::Document(&RawDocumentBuf::new()));
        let null = Interval::bracket(RawBsonRef::Null);
        let arrays = Bounds::arrays();
        self.0.iter().all(|interval| {
            let meets = |other: &Interval| interval.intersect(other).is_some();
            let is_empty_value = interval.is_point() && is_empty_value(&interval.start);
            let is_missing = stands_for_missing && meets(&null);
            is_empty_value || !meets(&empty) && !arrays.0.iter().any(meets) && !is_missing
        })
    }

    /// Whether some strings, or values that may have strings in them, lie in these bounds, and others do not.
    pub(super) fn tell_strings_apart(&self) -> bool {
        let (first, end) = collated_brackets();
        self.0.iter().any(|interval| {
            let (start, until) = (&*interval.start, interval.end());
            let (first, end) = (&[first][..], &[end][..]);
            let meets = start < end && until.as_deref().is_none_or(|until| until > first);
            let has_all = start <= first && until.as_deref().is_none_or(|until| until >= end);
            meets && !has_all
        })
    }

    /// All arrays, as they are indexed if they are in other ones.
    pub(super) fn arrays() -> Bounds {
        let array = RawBsonRef::Array(&RawArrayBuf::new());
        Bounds::from([Interval::bracket(array)])
    }

    /// How well these bounds narrow a field down: points first, everything last.
    pub(super) fn looseness(&self) -> (u8, usize) {
        if self.are_points() {
            (0, self.0.len())
        } else if self.is_all() {
            (3, 0)
        } else {
            // An end within the bracket of a type is a value; the others are a tag alone.
            let values = |bytes: &[u8]| bytes.len() > 1;
            let both = |interval: &Interval| {
                values(&interval.start) && interval.end().as_deref().is_some_and(values)
            };
            (if self.0.iter().all(both) { 1 } else { 2 }, self.0.len())
        }
    }

    fn merged(mut intervals: Vec<Interval>) -> Bounds {
        intervals.sort_by(|a, b| a.start.cmp(&b.start));
        intervals.dedup_by(|later, last| {
            let overlaps = last.overlaps(later);
            if overlaps {
                last.extend_to(later);
            }
            overlaps
        });
        Bounds(Arc::new(intervals))
    }
}

impl<const N: usize> From<[Interval; N]> for Bounds {
    fn from(intervals: [Interval; N]) -> Bounds {
        Bounds(Arc::new(intervals.into()))
    }
}

impl FromIterator<Interval> for Bounds {
    fn from_iter<I: IntoIterator<Item = Interval>>(intervals: I) -> Bounds {
        Bounds(Arc::new(intervals.into_iter().collect()))
    }
}

impl Interval {
    fn point(value: RawBsonRef<'_>) -> Result<Interval> {
        Ok(Interval {
            start: encoded(value)?.into(),
            kind: Kind::Point(Some(Box::new(Limit::included(value)))),
        })
    }

    /// The value with this encoding.
    fn encoded_point(encoding: &[u8]) -> Interval {
        Interval {
            start: encoding.into(),
            kind: Kind::Point(None),
        }
    }

    fn range(start: Vec<u8>, end: Option<Vec<u8>>) -> Interval {
        let range = Range {
            end,
            low: None,
            high: None,
        };
        Interval {
            start: start.into(),
            kind: Kind::Range(Box::new(range)),
        }
    }

    pub(super) fn start(&self) -> &[u8] {
        &self.start
    }

    /// `None` is above everything.
    fn end(&self) -> Option<Cow<'_, [u8]>> {
        match &self.kind {
            Kind::Point(_) => after_prefix(&self.start).map(Cow::Owned),
            Kind::Range(range) => range.end.as_deref().map(Cow::Borrowed),
        }
    }

    pub(super) fn is_point(&self) -> bool {
        matches!(self.kind, Kind::Point(_))
    }

    /// The keys that begin with `prefix`, and then have an encoding in the interval.
    pub(super) fn below(&self, prefix: &[u8]) -> KeyRange {
        KeyRange {
            start: [prefix, &self.start].concat(),
            end: match self.end() {
                Some(end) => Some([prefix, &end].concat()),
                None => after_prefix(prefix),
            },
        }
    }

    /// All values that sort with this one's type, but for NaN.
    fn bracket(value: RawBsonRef<'_>) -> Interval {
        let (first, end) = type_bracket(value);
        let is_number = Number::from_bson(value).is_some();
        let (low, high) = bracket_limits(value);
        Interval {
            // NaN has the first tag of numbers.
            start: Box::new([first + u8::from(is_number)]),
            kind: Kind::Range(Box::new(Range {
                end: Some(vec![end]),
                low,
                high,
            })),
        }
    }

    /// The same values as a descending field encodes them. Nobody is told of it.
    fn complement(&self) -> Interval {
        let complement = |bytes: &[u8]| bytes.iter().map(|byte| !byte).collect::<Vec<_>>();
        let start = complement(&self.start);
        if self.is_point() {
            return Interval::encoded_point(&start);
        }
        // Complementing turns "begins with this, or is above" into "begins with it, or is below".
        let end = self.end();
        let lowest = end.and_then(|end| after_prefix(&complement(&end)));
        Interval::range(lowest.unwrap_or_default(), after_prefix(&start))
    }

    /// The hash of a point.
    fn hashed(&self) -> Interval {
        let hash = hash(&self.start);
        let shown = RawBsonRef::Int64(i64::from_be_bytes(hash));
        Interval {
            start: Box::new(hash),
            kind: Kind::Point(Some(Box::new(Limit::included(shown)))),
        }
    }

    fn ends_before(&self, other: &Interval) -> bool {
        match (self.end(), other.end()) {
            (Some(own), Some(other)) => own < other,
            (own, _) => own.is_some(),
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
        // A point has nothing in it but itself.
        if let Some(point) = [later, earlier].into_iter().find(|one| one.is_point()) {
            return Some(point.clone());
        }
        Some(Interval {
            start: later.start.clone(),
            kind: Kind::Range(Box::new(Range {
                end: end.map(Cow::into_owned),
                low: later.low(),
                high: first_to_end.high(),
            })),
        })
    }

    /// What people are told of the start.
    fn low(&self) -> Option<Limit> {
        match &self.kind {
            Kind::Point(Some(shown)) => Some((**shown).clone()),
            Kind::Point(None) => Limit::decoded(&self.start),
            Kind::Range(range) => range.low.clone(),
        }
    }

    /// What people are told of the end.
    fn high(&self) -> Option<Limit> {
        match &self.kind {
            Kind::Point(_) => self.low(),
            Kind::Range(range) => range.high.clone(),
        }
    }

    fn overlaps(&self, later: &Interval) -> bool {
        let gap = |end: &[u8]| match (*later.start).cmp(end) {
            Ordering::Less => false,
            // Two points side by side remain two points.
            Ordering::Equal => self.is_point() || later.is_point(),
            Ordering::Greater => true,
        };
        !self.end().as_deref().is_some_and(gap)
    }

    fn extend_to(&mut self, later: &Interval) {
        if self.is_point() && later.is_point() && self.start == later.start {
            return;
        }
        let (low, own_end) = (self.low(), self.end().map(Cow::into_owned));
        let is_longer = own_end.as_ref().is_some_and(|end| {
            let later = later.end();
            later.is_none_or(|later| *later > **end)
        });
        let (end, high) = match is_longer {
            true => (later.end().map(Cow::into_owned), later.high()),
            false => (own_end, self.high()),
        };
        self.kind = Kind::Range(Box::new(Range { end, low, high }));
    }
}

/// Whether this is the encoding of an empty document or array.
fn is_empty_value(start: &[u8]) -> bool {
    let document = RawDocumentBuf::new();
    let array = RawArrayBuf::new();
    let values = [RawBsonRef::Document(&document), RawBsonRef::Array(&array)];
    let mut encoded = values.into_iter().map(encoded);
    encoded.any(|encoded| encoded.is_ok_and(|encoded| encoded == start))
}

/// Adds what a comparison admits; the answer is whether that is not everything.
fn add_comparison(comparison: &Comparison, intervals: &mut Vec<Interval>) -> Result<bool> {
    let value = comparison.value.as_raw_bson_ref();
    if comparison.operator == CompareOperator::Eq {
        add_equal(value, intervals)?;
        return Ok(true);
    }
    match value {
        // Everything lies between the ends; and an array is compared as a whole, but indexed by its elements.
        RawBsonRef::MinKey | RawBsonRef::MaxKey | RawBsonRef::Array(_) => return Ok(false),
        RawBsonRef::Null => {
            add_equal(value, intervals)?;
            return Ok(true);
        }
        _ => {}
    }
    if Number::from_bson(value).is_some_and(Number::is_nan) {
        // NaN is neither less nor greater than anything, and equal to itself.
        add_equal(value, intervals)?;
        return Ok(true);
    }
    let mut interval = Interval::bracket(value);
    let key = encoded(value)?;
    let (included, excluded) = (Limit::included(value), Limit::excluded(value));
    if let Kind::Range(range) = &mut interval.kind {
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

fn add_membership(membership: &Membership, intervals: &mut Vec<Interval>) -> Result<bool> {
    for value in membership.values() {
        add_equal(value.as_raw_bson_ref(), intervals)?;
    }
    intervals.extend(membership.encodings().map(Interval::encoded_point));
    for pattern in membership.patterns() {
        add_regex(pattern, intervals);
    }
    Ok(true)
}

fn add_equal(value: RawBsonRef<'_>, intervals: &mut Vec<Interval>) -> Result<()> {
    match value {
        // Undefined matches null, too.
        RawBsonRef::Null => intervals.push(Interval::point(RawBsonRef::Undefined)?),
        // An equal array is indexed by its elements; as an element of another one, it is whole.
        RawBsonRef::Array(array) => intervals.push(Interval::point(first_key(array)?)?),
        _ => {}
    }
    intervals.push(Interval::point(value)?);
    Ok(())
}

/// One of the values under which an array is indexed.
fn first_key(array: &RawArray) -> Result<RawBsonRef<'_>> {
    let first = array.into_iter().next().transpose()?;
    Ok(first.unwrap_or(RawBsonRef::Undefined))
}

/// A pattern matches strings, and regular expressions that are equal to it.
fn add_regex(regex: &Regex, intervals: &mut Vec<Interval>) {
    let mut strings = Interval::bracket(RawBsonRef::String(""));
    if let (Some(prefix), Kind::Range(range)) = (regex.prefix(), &mut strings.kind) {
        let mut start = Vec::new();
        encode_text_prefix(prefix, &mut start);
        range.end = after_prefix(&start);
        strings.start = start.into();
        range.low = Some(Limit::included(RawBsonRef::String(prefix)));
        range.high = after_text(prefix).map(|after| Limit::excluded(RawBsonRef::String(&after)));
    }
    intervals.push(strings);
    let same_type = RawBsonRef::RegularExpression(bson::raw::RawRegexRef {
        pattern: bson::raw::cstr!(""),
        options: bson::raw::cstr!(""),
    });
    intervals.push(Interval::bracket(same_type));
}

fn encoded(value: RawBsonRef<'_>) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    encode(value, Direction::Ascending, &mut key)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;
    use crate::filter::{Expression, Filter};

    fn bounds(filter: RawDocumentBuf) -> Option<Bounds> {
        let filter = Filter::parse(&filter).unwrap();
        match filter.expression() {
            Expression::Field(_, test) => Bounds::of(test).unwrap(),
            Expression::And(all) => match all.as_slice() {
                [Expression::Field(_, test)] => Bounds::of(test).unwrap(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn contains(bounds: &Bounds, value: RawBsonRef<'_>, direction: Direction) -> bool {
        let mut key = Vec::new();
        encode(value, direction, &mut key).unwrap();
        key.extend_from_slice(b"what follows");
        bounds
            .in_direction(direction)
            .intervals()
            .iter()
            .any(|interval| *interval.start <= *key && interval.end().is_none_or(|end| *key < *end))
    }

    #[test]
    fn ranges_hold_what_they_say_in_both_directions() {
        let range = bounds(rawdoc! { "a": { "$gt": 5 } }).unwrap();
        for direction in [Direction::Ascending, Direction::Descending] {
            let has = |value| contains(&range, value, direction);
            assert!(has(RawBsonRef::Double(5.5)) && has(RawBsonRef::Int64(1 << 60)));
            assert!(!has(RawBsonRef::Double(5.0)) && !has(RawBsonRef::Int32(-1)));
            assert!(!has(RawBsonRef::String("x")) && !has(RawBsonRef::Null));
        }
        let range = bounds(rawdoc! { "a": { "$lte": "m" } }).unwrap();
        for direction in [Direction::Ascending, Direction::Descending] {
            let has = |value| contains(&range, value, direction);
            assert!(has(RawBsonRef::String("m")) && has(RawBsonRef::String("")));
            assert!(!has(RawBsonRef::String("m\0")) && !has(RawBsonRef::Int32(1)));
        }
    }

    #[test]
    fn equal_values_are_points() {
        let set = bounds(rawdoc! { "a": { "$in": [3, 1, 1.0, "x"] } }).unwrap();
        assert!(set.are_points());
        assert_eq!(set.intervals().len(), 3);
        assert!(bounds(rawdoc! { "a": 1 }).unwrap().is_one_point());
        assert!(
            !bounds(rawdoc! { "a": bson::RawBson::Null })
                .unwrap()
                .is_one_point()
        );
    }

    #[test]
    fn a_prefix_bounds_a_pattern() {
        let prefix = bounds(rawdoc! { "a": { "$regex": "^ab" } }).unwrap();
        let has = |text| contains(&prefix, RawBsonRef::String(text), Direction::Ascending);
        assert!(has("ab") && has("abc") && has("ab\0"));
        assert!(!has("a") && !has("ac") && !has("b"));
    }

    #[test]
    fn two_ranges_intersect() {
        let above = bounds(rawdoc! { "a": { "$gte": 5 } }).unwrap();
        let below = bounds(rawdoc! { "a": { "$lt": 7 } }).unwrap();
        let both = above.intersect(&below);
        let has = |value| contains(&both, RawBsonRef::Int32(value), Direction::Ascending);
        assert!(has(5) && has(6) && !has(4) && !has(7));
        assert_eq!(both.looseness().0, 1);
        let none = bounds(rawdoc! { "a": 9 }).unwrap().intersect(&both);
        assert!(none.intervals().is_empty());
    }

    #[test]
    fn a_hashed_field_has_points_only() {
        let points = bounds(rawdoc! { "a": { "$in": [1, 1.0, "x"] } }).unwrap();
        let hashed = points.hashed();
        assert!(hashed.are_points());
        assert_eq!(hashed.intervals().len(), 2);
        assert!(hashed.intervals().is_sorted_by_key(|point| &point.start));
        let range = bounds(rawdoc! { "a": { "$gt": 1 } }).unwrap();
        assert!(range.hashed().is_all());
    }

    #[test]
    fn what_a_wildcard_index_has_no_entries_for_is_told() {
        let are_leaves = |filter, missing| bounds(filter).unwrap().are_leaves(missing);
        for filter in [
            rawdoc! { "a": { "$gt": 1 } },
            rawdoc! { "a": { "$in": [1, {}, []] } },
            rawdoc! { "a": { "$regex": "x" } },
            rawdoc! { "a": { "$in": [] } },
        ] {
            assert!(are_leaves(filter, true));
        }
        for filter in [
            rawdoc! { "a": { "b": 1 } },
            rawdoc! { "a": { "$in": [1, [2]] } },
            rawdoc! { "a": { "$gte": {} } },
            rawdoc! { "a": { "$in": [1, (bson::RawBson::Null)] } },
        ] {
            assert!(!are_leaves(filter, true));
        }
        assert!(are_leaves(rawdoc! { "a": (bson::RawBson::Null) }, false));
        assert!(!Bounds::all().are_leaves(true));
    }

    #[test]
    fn people_see_values() {
        let shown = |filter| bounds(filter).unwrap().to_string();
        assert_eq!(shown(rawdoc! { "a": 5 }), "[5, 5]");
        assert_eq!(shown(rawdoc! { "a": { "$gt": 5 } }), "(5, inf]");
        assert_eq!(
            shown(rawdoc! { "a": { "$in": ["x", 1] } }),
            "[1, 1], [\"x\", \"x\"]"
        );
        assert_eq!(shown(rawdoc! { "a": { "$lt": "m" } }), "[\"\", \"m\")");
        let above = bounds(rawdoc! { "a": { "$gte": 3 } }).unwrap();
        let below = bounds(rawdoc! { "a": { "$lt": 7 } }).unwrap();
        assert_eq!(above.intersect(&below).to_string(), "[3, 7)");
        assert_eq!(Bounds::all().to_string(), "[MinKey, MaxKey]");
    }
}
