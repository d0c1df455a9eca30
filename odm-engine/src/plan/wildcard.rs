//! Planning for wildcard indexes: the entries for a path.
//!
//! Entries have no array positions in their paths. An element of an array has the path of the array, and an array inside of an
//! array is one value. So if there are arrays, the planner searches a path with and without each position. At each omitted
//! position it also searches for nested arrays.

use std::collections::BTreeSet;

use super::bounds::ValueBounds;
use super::scan::{MAX_KEY_RANGES, ranges_with_prefix};
use crate::error::{Error, Result, code};
use crate::index::IndexState;
use crate::index::wildcard::{Coverage, encode_path};
use crate::key::value::encode_text_prefix;
use crate::path::{Path, PathPart};
use crate::store::KeyRange;

/// The maximum number of positions in a path, as on MongoDB. Each position doubles the number of paths to search.
const MAX_PATH_POSITIONS: usize = 8;

/// The target of a search at a path.
#[derive(Clone, Copy)]
pub(super) enum WildcardTarget<'b> {
    /// A value in these bounds.
    Value(&'b ValueBounds),
    /// Any value at the path or below.
    Anything,
}

/// The entries for a path in a wildcard index.
pub(super) struct WildcardRanges {
    pub(super) path: Path,
    /// The key ranges in ascending order.
    pub(super) ranges: Vec<KeyRange>,
    /// Whether all entries have the same path, so that a document without arrays has at most one entry.
    pub(super) is_one_path: bool,
}

impl WildcardRanges {
    /// Returns the entries for a target at a path. Returns `None` if the index may lack entries or have entries elsewhere.
    pub(super) fn for_path(
        state: &IndexState,
        coverage: &Coverage,
        path: &str,
        target: WildcardTarget<'_>,
        has_arrays: bool,
    ) -> Result<Option<WildcardRanges>> {
        let path = Path::new(path);
        let Some(variants) = PathVariants::of_path(&path, has_arrays) else {
            return Ok(None);
        };
        let mut paths = variants.values.iter().chain(&variants.arrays);
        if !paths.all(|path| coverage.covers_path(&Path::new(path))) {
            return Ok(None);
        }
        if let WildcardTarget::Value(bounds) = target
            && variants.values.len() > 1
            && bounds
                .intervals()
                .len()
                .saturating_mul(variants.values.len())
                > MAX_KEY_RANGES
        {
            return Ok(None);
        }
        let mut ranges = Vec::new();
        for path in &variants.values {
            match target {
                WildcardTarget::Value(bounds) => {
                    ranges.extend(ranges_with_prefix(&entry_prefix(state, path)?, bounds))
                }
                WildcardTarget::Anything => {
                    ranges.push(KeyRange::with_prefix(&entry_prefix(state, path)?));
                    let mut prefix = state.prefix.clone();
                    encode_text_prefix(&format!("{path}."), &mut prefix);
                    ranges.push(KeyRange::with_prefix(&prefix));
                }
            }
        }
        for path in &variants.arrays {
            ranges.extend(ranges_with_prefix(
                &entry_prefix(state, path)?,
                &ValueBounds::all_arrays(),
            ));
        }
        let is_one_path = variants.values.len() == 1 && matches!(target, WildcardTarget::Value(_));
        Ok(Some(WildcardRanges {
            path,
            ranges: merge_overlapping(ranges),
            is_one_path,
        }))
    }
}

/// Returns the error for a query that a hinted wildcard index cannot serve.
pub(super) fn no_ranges_error(state: &IndexState) -> Error {
    let name = &state.index.name;
    let message = format!(
        "the wildcard index {name} cannot be used for this query; hint a different index, or remove the hint"
    );
    Error::with_server_code(code::NO_QUERY_EXECUTION_PLANS, message)
}

/// The entry paths for a path of a filter.
#[derive(Debug, Default)]
struct PathVariants {
    /// The paths of the values.
    values: BTreeSet<String>,
    /// The paths of arrays that contain an array at an omitted position.
    arrays: BTreeSet<String>,
}

impl PathVariants {
    fn of_path(path: &Path, has_arrays: bool) -> Option<PathVariants> {
        let parts = path.parts();
        // A filter does not interpret an empty component as a field name.
        if parts.iter().any(|part| part.name().is_empty()) {
            return None;
        }
        let is_position = |part: &PathPart| has_arrays && part.index().is_some();
        let positions = parts
            .iter()
            .skip(1)
            .filter(|part| is_position(part))
            .count();
        // Two consecutive positions select an element of an array inside of an array.
        let mut pairs = parts.iter().skip(1).zip(parts.iter().skip(2));
        if positions > MAX_PATH_POSITIONS || pairs.any(|(a, b)| is_position(a) && is_position(b)) {
            return None;
        }
        let mut variants = PathVariants::default();
        let mut prefixes = BTreeSet::from([String::new()]);
        for (number, part) in parts.iter().enumerate() {
            let mut extended: BTreeSet<String> = prefixes
                .iter()
                .map(|path| match path.as_str() {
                    "" => part.name().to_owned(),
                    path => format!("{path}.{}", part.name()),
                })
                .collect();
            if number > 0 && is_position(part) {
                variants.arrays.extend(prefixes.iter().cloned());
                extended.append(&mut prefixes);
            }
            prefixes = extended;
        }
        variants.values = prefixes;
        Some(variants)
    }
}

/// Returns the common prefix of the keys for a path.
fn entry_prefix(state: &IndexState, path: &str) -> Result<Vec<u8>> {
    let mut key = state.prefix.clone();
    encode_path(path, &mut key)?;
    Ok(key)
}

/// Merges overlapping ranges. The result has the same keys in ascending order.
fn merge_overlapping(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.sort_by(|a, b| a.start.cmp(&b.start));
    let mut disjoint: Vec<KeyRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        let last = disjoint.last_mut();
        let overlaps = |last: &KeyRange| last.end.as_ref().is_none_or(|end| range.start < *end);
        match last {
            Some(last) if overlaps(last) => {
                // A range without an end contains all later ranges.
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

    fn path_variants(path: &str, has_arrays: bool) -> Option<(Vec<String>, Vec<String>)> {
        let variants = PathVariants::of_path(&Path::new(path), has_arrays)?;
        let values = variants.values.into_iter().collect();
        Some((values, variants.arrays.into_iter().collect()))
    }

    fn owned_names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_position_may_be_a_name_or_none() {
        let plain = Some((owned_names(&["a.0.b"]), owned_names(&[])));
        assert_eq!(path_variants("a.0.b", false), plain);
        let both = Some((owned_names(&["a.0.b", "a.b"]), owned_names(&["a"])));
        assert_eq!(path_variants("a.0.b", true), both);
        let (values, arrays) = path_variants("a.0.b.1", true).unwrap();
        assert_eq!(values, owned_names(&["a.0.b", "a.0.b.1", "a.b", "a.b.1"]));
        assert_eq!(arrays, owned_names(&["a", "a.0.b", "a.b"]));
        assert_eq!(
            path_variants("0", true),
            Some((owned_names(&["0"]), owned_names(&[])))
        );
        assert_eq!(path_variants("a.0.1", true), None);
        assert_eq!(path_variants("a.", false), None);
    }

    #[test]
    fn adjacent_ranges_are_merged() {
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
        assert_eq!(merge_overlapping(all), [range(1, Some(4)), range(5, None)]);
    }
}
