//! The values that a condition admits in an index, as intervals of their encodings.

use std::cmp::Ordering;
use std::fmt;

use bson::{RawArray, RawBsonRef};

use crate::direction::Direction;
use crate::error::Result;
use crate::filter::{CompareOperator, Comparison, Membership, Test};
use crate::key::value::{encode, encode_text_prefix, type_bracket};
use crate::pattern::Regex;
use crate::store::after_prefix;
use crate::value::Number;

/// The encodings from `start`, included, to `end`, excluded. A key lies in it by its beginning, so
/// that what follows in a compound key does not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) start: Vec<u8>,
    /// `None` is above everything.
    pub(super) end: Option<Vec<u8>>,
    /// Whether one value alone lies in it.
    pub(super) is_point: bool,
}

/// Disjoint intervals in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bounds(Vec<Interval>);

impl Bounds {
    /// Every value.
    pub(super) fn all() -> Bounds {
        Bounds(vec![Interval {
            start: Vec::new(),
            end: None,
            is_point: false,
        }])
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

    pub(super) fn intervals(&self) -> &[Interval] {
        &self.0
    }

    pub(super) fn are_points(&self) -> bool {
        self.0.iter().all(|interval| interval.is_point)
    }

    pub(super) fn is_one_point(&self) -> bool {
        matches!(self.0.as_slice(), [only] if only.is_point)
    }

    pub(super) fn is_all(&self) -> bool {
        matches!(self.0.as_slice(), [only] if only.start.is_empty() && only.end.is_none())
    }

    /// The values that lie in both.
    pub(super) fn intersect(&self, other: &Bounds) -> Bounds {
        let pairs = self
            .0
            .iter()
            .flat_map(|a| other.0.iter().map(move |b| (a, b)));
        let both = pairs.filter_map(|(a, b)| a.intersect(b)).collect();
        Bounds::merged(both)
    }

    /// The same values as a descending field encodes them.
    pub(super) fn in_direction(&self, direction: Direction) -> Bounds {
        match direction {
            Direction::Ascending => self.clone(),
            Direction::Descending => {
                Bounds(self.0.iter().rev().map(Interval::complement).collect())
            }
        }
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
                values(&interval.start) && interval.end.as_deref().is_some_and(values)
            };
            (if self.0.iter().all(both) { 1 } else { 2 }, self.0.len())
        }
    }

    fn merged(mut intervals: Vec<Interval>) -> Bounds {
        intervals.sort_by(|a, b| a.start.cmp(&b.start));
        let mut merged: Vec<Interval> = Vec::with_capacity(intervals.len());
        for interval in intervals {
            match merged.last_mut() {
                Some(last) if last.overlaps(&interval) => last.extend_to(interval),
                _ => merged.push(interval),
            }
        }
        Bounds(merged)
    }
}

impl Interval {
    fn point(value: RawBsonRef<'_>) -> Result<Interval> {
        let start = encoded(value)?;
        Ok(Interval {
            end: after_prefix(&start),
            start,
            is_point: true,
        })
    }

    /// All values that sort with this one's type.
    fn bracket(value: RawBsonRef<'_>) -> Interval {
        let (first, end) = type_bracket(value);
        Interval {
            start: vec![first],
            end: Some(vec![end]),
            is_point: false,
        }
    }

    fn complement(&self) -> Interval {
        let complement = |bytes: &[u8]| bytes.iter().map(|byte| !byte).collect::<Vec<_>>();
        // Complementing turns "begins with this, or is above" into "begins with it, or is below".
        let start = match &self.end {
            Some(end) => after_prefix(&complement(end)).unwrap_or_default(),
            None => Vec::new(),
        };
        Interval {
            start,
            end: after_prefix(&complement(&self.start)),
            is_point: self.is_point,
        }
    }

    fn intersect(&self, other: &Interval) -> Option<Interval> {
        let start = self.start.clone().max(other.start.clone());
        let end = match (&self.end, &other.end) {
            (Some(a), Some(b)) => Some(a.min(b).clone()),
            (end, None) | (None, end) => end.clone(),
        };
        let interval = Interval {
            is_point: self.is_point || other.is_point,
            start,
            end,
        };
        let is_empty = interval
            .end
            .as_ref()
            .is_some_and(|end| *end <= interval.start);
        (!is_empty).then_some(interval)
    }

    fn overlaps(&self, later: &Interval) -> bool {
        let gap = |end: &Vec<u8>| match later.start.cmp(end) {
            Ordering::Less => false,
            // Two points side by side remain two points.
            Ordering::Equal => self.is_point || later.is_point,
            Ordering::Greater => true,
        };
        !self.end.as_ref().is_some_and(gap)
    }

    fn extend_to(&mut self, later: Interval) {
        self.is_point &= *self == later;
        if let Some(end) = &self.end {
            self.end = later.end.map(|later| later.max(end.clone()));
        }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        match self.looseness() {
            (0, 1) => f.write_str("one value"),
            (0, _) => write!(f, "{count} values"),
            (3, _) => f.write_str("all"),
            (_, 1) => f.write_str("a range"),
            _ => write!(f, "{count} ranges"),
        }
    }
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
    let mut interval = Interval::bracket(value);
    if !Number::from_bson(value).is_some_and(Number::is_nan) {
        let key = encoded(value)?;
        match comparison.operator {
            CompareOperator::Gt => interval.start = after_prefix(&key).unwrap_or(key),
            CompareOperator::Gte => interval.start = key,
            CompareOperator::Lt => interval.end = Some(key),
            CompareOperator::Lte => interval.end = after_prefix(&key),
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
    if let Some(prefix) = regex.prefix() {
        strings.start.clear();
        encode_text_prefix(prefix, &mut strings.start);
        strings.end = after_prefix(&strings.start);
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
    use bson::{RawDocumentBuf, rawdoc};

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
            .any(|interval| {
                interval.start <= key && interval.end.as_ref().is_none_or(|end| key < *end)
            })
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
}
