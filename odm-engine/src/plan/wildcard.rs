//! Where a wildcard index has the values at a path.
//!
//! A position in a path has none of its own there: an element of an array has the path of the array, and
//! an array in an array is one value. So where there are arrays, a path with positions is looked for with
//! and without each of them, and arrays in the places where one was left out.

use std::collections::BTreeSet;

use super::bounds::Bounds;
use super::scan::{MAX_RANGES, join};
use crate::error::{Error, Result, code};
use crate::index::IndexState;
use crate::index::wildcard::{Coverage, encode_path};
use crate::key::value::encode_text_prefix;
use crate::path::{Part, Path};
use crate::store::KeyRange;

/// How many positions a path can have, as on MongoDB: each doubles the places where its values may be.
const MAX_POSITIONS: usize = 8;

/// What is looked for at a path.
#[derive(Clone, Copy)]
pub(super) enum Sought<'b> {
    /// A value in these bounds.
    Value(&'b Bounds),
    /// Anything, here or below.
    Anything,
}

/// The entries for a path.
pub(super) struct Places {
    pub(super) path: Path,
    /// In ascending order.
    pub(super) ranges: Vec<KeyRange>,
    /// Whether all of them have one path, so that a document without arrays has one at most.
    pub(super) is_one_path: bool,
}

impl Places {
    /// Where the index has what is sought at a path; `None` if it may have it elsewhere or not at all.
    pub(super) fn of(
        state: &IndexState,
        coverage: &Coverage,
        path: &str,
        sought: Sought<'_>,
        has_arrays: bool,
    ) -> Result<Option<Places>> {
        let path = Path::new(path);
        let Some(variants) = Variants::of(&path, has_arrays) else {
            return Ok(None);
        };
        let mut paths = variants.values.iter().chain(&variants.arrays);
        if !paths.all(|path| coverage.has(&Path::new(path))) {
            return Ok(None);
        }
        if let Sought::Value(bounds) = sought
            && variants.values.len() > 1
            && bounds
                .intervals()
                .len()
                .saturating_mul(variants.values.len())
                > MAX_RANGES
        {
            return Ok(None);
        }
        let mut ranges = Vec::new();
        for path in &variants.values {
            match sought {
                Sought::Value(bounds) => ranges.extend(join(&begin(state, path)?, bounds)),
                Sought::Anything => {
                    ranges.push(KeyRange::prefix(&begin(state, path)?));
                    let mut below = state.prefix.clone();
                    encode_text_prefix(&format!("{path}."), &mut below);
                    ranges.push(KeyRange::prefix(&below));
                }
            }
        }
        for path in &variants.arrays {
            ranges.extend(join(&begin(state, path)?, &Bounds::arrays()));
        }
        let is_one_path = variants.values.len() == 1 && matches!(sought, Sought::Value(_));
        Ok(Some(Places {
            path,
            ranges: disjoint(ranges),
            is_one_path,
        }))
    }
}

/// The error of a query that a wildcard index cannot serve, and should.
pub(super) fn useless(state: &IndexState) -> Error {
    let name = &state.index.name;
    let message =
        format!("the wildcard index {name} does not serve this query; hint another index, or none");
    Error::server(code::NO_QUERY_EXECUTION_PLANS, message)
}

/// The paths of the entries for a path.
#[derive(Debug, Default)]
struct Variants {
    /// Where its values are.
    values: BTreeSet<String>,
    /// Where arrays are that it leads into by position.
    arrays: BTreeSet<String>,
}

impl Variants {
    fn of(path: &Path, has_arrays: bool) -> Option<Variants> {
        let parts = path.parts();
        // An empty component means other things than a field's name to a filter.
        if parts.iter().any(|part| part.name().is_empty()) {
            return None;
        }
        let is_position = |part: &Part| has_arrays && part.index().is_some();
        let positions = parts
            .iter()
            .skip(1)
            .filter(|part| is_position(part))
            .count();
        // Two in a row lead into an array that is in an array.
        let mut pairs = parts.iter().skip(1).zip(parts.iter().skip(2));
        if positions > MAX_POSITIONS || pairs.any(|(a, b)| is_position(a) && is_position(b)) {
            return None;
        }
        let mut variants = Variants::default();
        let mut begun = BTreeSet::from([String::new()]);
        for (number, part) in parts.iter().enumerate() {
            let mut longer: BTreeSet<String> = begun
                .iter()
                .map(|path| match path.as_str() {
                    "" => part.name().to_owned(),
                    path => format!("{path}.{}", part.name()),
                })
                .collect();
            if number > 0 && is_position(part) {
                variants.arrays.extend(begun.iter().cloned());
                longer.append(&mut begun);
            }
            begun = longer;
        }
        variants.values = begun;
        Some(variants)
    }
}

/// What the keys of the entries of a path begin with.
fn begin(state: &IndexState, path: &str) -> Result<Vec<u8>> {
    let mut key = state.prefix.clone();
    encode_path(path, &mut key)?;
    Ok(key)
}

/// The same keys in ranges that ascend and do not meet.
fn disjoint(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.sort_by(|a, b| a.start.cmp(&b.start));
    let mut disjoint: Vec<KeyRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        let last = disjoint.last_mut();
        let meets = |last: &KeyRange| last.end.as_ref().is_none_or(|end| range.start < *end);
        match last {
            Some(last) if meets(last) => {
                // No end is behind all others.
                let is_longer = match (&last.end, &range.end) {
                    (Some(end), Some(other)) => other > end,
                    (Some(_), None) => true,
                    (None, _) => false,
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

    fn variants(path: &str, has_arrays: bool) -> Option<(Vec<String>, Vec<String>)> {
        let variants = Variants::of(&Path::new(path), has_arrays)?;
        let values = variants.values.into_iter().collect();
        Some((values, variants.arrays.into_iter().collect()))
    }

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_position_may_be_a_name_or_none() {
        let plain = Some((owned(&["a.0.b"]), owned(&[])));
        assert_eq!(variants("a.0.b", false), plain);
        let both = Some((owned(&["a.0.b", "a.b"]), owned(&["a"])));
        assert_eq!(variants("a.0.b", true), both);
        let (values, arrays) = variants("a.0.b.1", true).unwrap();
        assert_eq!(values, owned(&["a.0.b", "a.0.b.1", "a.b", "a.b.1"]));
        assert_eq!(arrays, owned(&["a", "a.0.b", "a.b"]));
        assert_eq!(variants("0", true), Some((owned(&["0"]), owned(&[]))));
        assert_eq!(variants("a.0.1", true), None);
        assert_eq!(variants("a.", false), None);
    }

    #[test]
    fn ranges_that_meet_are_one() {
        let range = |start: u8, end: Option<u8>| KeyRange {
            start: vec![start],
            end: end.map(|end| vec![end]),
        };
        let all = vec![
            range(5, Some(7)),
            range(1, Some(3)),
            range(2, Some(4)),
            range(6, None),
        ];
        assert_eq!(disjoint(all), [range(1, Some(4)), range(5, None)]);
    }
}
