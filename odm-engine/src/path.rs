//! Dotted paths and the two ways to walk a path.
//!
//! A filter visits every value that a path reaches, through arrays and by position
//! ([`Path::walk`]).
//!
//! An index or a sort needs tuples of values, one for each array element, with values of one array
//! kept together ([`key_tuples`]).

mod keys;

use std::collections::HashSet;
use std::sync::Arc;

use bson::{RawArray, RawBsonRef, RawDocument};

use crate::value;

pub(crate) use keys::{KeyError, key_tuples};

/// A dotted path, such as `items.0.price`. Cloning is cheap.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Path {
    text: Arc<str>,
    parts: Arc<[PathPart]>,
}

/// A component of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PathPart {
    name: Box<str>,
    index: Option<usize>,
}

/// How a walk treats an array at the end of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeafArrayMode {
    /// Visit the elements, then the array itself.
    Expand,
    /// Visit the array only.
    Whole,
}

/// A visitor of values: receives the value (`None` if the path reaches no value) and the position
/// of the array element. Returns true to stop the walk.
pub(crate) type Visitor<'v, 'd> = dyn FnMut(Option<RawBsonRef<'d>>, Option<usize>) -> bool + 'v;

impl Path {
    /// Splits a path at its dots. Every string is a valid path, and empty components name empty
    /// fields.
    pub(crate) fn new(text: &str) -> Path {
        Path {
            text: text.into(),
            parts: text.split('.').map(PathPart::new).collect(),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn parts(&self) -> &[PathPart] {
        &self.parts
    }

    /// Returns whether this path equals `other` or lies below `other`.
    pub(crate) fn starts_with(&self, other: &Path) -> bool {
        self.parts.starts_with(&other.parts)
    }

    /// Visits every value that a filter on this path tests, until the visitor returns true. Returns
    /// whether the visitor stopped the walk.
    ///
    /// Arrays on the path are entered one level at a time: by position where the component is a
    /// number, and through their documents.
    pub(crate) fn walk<'d>(
        &self,
        document: &'d RawDocument,
        leaf: LeafArrayMode,
        visit: &mut Visitor<'_, 'd>,
    ) -> bool {
        PathWalk::new(&self.parts).walk_document(&self.parts, document, leaf, visit)
    }

    /// Returns the value at this path. Arrays are entered by position only.
    pub(crate) fn get<'d>(&self, document: &'d RawDocument) -> Option<RawBsonRef<'d>> {
        let root = RawBsonRef::Document(document);
        self.parts.iter().try_fold(root, |value, part| match value {
            RawBsonRef::Document(document) => value::get(document, &part.name),
            RawBsonRef::Array(array) => value::items(array).nth(part.index?),
            _ => None,
        })
    }

    /// Visits the values that `distinct` collects: an array at the end of the path gives its
    /// elements instead of itself.
    pub(crate) fn visit_distinct<'d>(
        &self,
        document: &'d RawDocument,
        visit: &mut dyn FnMut(RawBsonRef<'d>),
    ) {
        distinct_document(&self.parts, document, visit);
    }
}

impl PathPart {
    fn new(name: &str) -> PathPart {
        // "01" is a field name and never a position.
        let canonical = name == "0" || !name.starts_with('0');
        let digits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        PathPart {
            name: name.into(),
            index: if canonical && digits {
                name.parse().ok()
            } else {
                None
            },
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the position that this component names in an update, where "01" means 1.
    pub(crate) fn index_in_update(&self) -> Option<usize> {
        if self.is_number() {
            self.name.parse().ok()
        } else {
            None
        }
    }

    fn is_number(&self) -> bool {
        !self.name.is_empty() && self.name.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// Returns the position that this component names, if the component is a number.
    pub(crate) fn index(&self) -> Option<usize> {
        self.index
    }
}

/// The maximum number of positions in a path before visited arrays are recorded.
const MAX_UNRECORDED_POSITIONS: usize = 8;

/// A walk along a path.
///
/// If a component is both a position and a field of the element at that position, two branches meet
/// again two levels below.
///
/// With many positions, the number of branches grows exponentially, so arrays are visited once.
struct PathWalk {
    /// The arrays visited without success, by address and number of remaining components. `None` if
    /// the path has few positions.
    visited_arrays: Option<HashSet<(usize, usize)>>,
}

impl PathWalk {
    fn new(parts: &[PathPart]) -> PathWalk {
        let positions = parts.iter().filter(|part| part.index.is_some()).count();
        PathWalk {
            visited_arrays: (positions > MAX_UNRECORDED_POSITIONS).then(HashSet::new),
        }
    }

    fn walk_document<'d>(
        &mut self,
        parts: &[PathPart],
        document: &'d RawDocument,
        leaf: LeafArrayMode,
        visit: &mut Visitor<'_, 'd>,
    ) -> bool {
        let Some((part, rest)) = parts.split_first() else {
            return false;
        };
        self.walk_value(rest, value::get(document, &part.name), leaf, visit)
    }

    fn walk_value<'d>(
        &mut self,
        rest: &[PathPart],
        value: Option<RawBsonRef<'d>>,
        leaf: LeafArrayMode,
        visit: &mut Visitor<'_, 'd>,
    ) -> bool {
        match value {
            Some(RawBsonRef::Array(array)) => self.walk_array(rest, array, leaf, visit),
            Some(RawBsonRef::Document(inner)) if !rest.is_empty() => {
                self.walk_document(rest, inner, leaf, visit)
            }
            value if rest.is_empty() => visit(value, None),
            _ => visit(None, None),
        }
    }

    fn walk_array<'d>(
        &mut self,
        rest: &[PathPart],
        array: &'d RawArray,
        leaf: LeafArrayMode,
        visit: &mut Visitor<'_, 'd>,
    ) -> bool {
        if let Some(visited) = &mut self.visited_arrays
            && !visited.insert((array.as_bytes().as_ptr().addr(), rest.len()))
        {
            return false;
        }
        // As on MongoDB, a dot at the end of a path is ignored for arrays.
        let rest = if matches!(rest, [last] if last.name.is_empty()) {
            &[]
        } else {
            rest
        };
        let Some((part, after)) = rest.split_first() else {
            let expand = leaf == LeafArrayMode::Expand;
            return (expand
                && value::items(array)
                    .enumerate()
                    .any(|(index, item)| visit(Some(item), Some(index))))
                || visit(Some(RawBsonRef::Array(array)), None);
        };
        value::items(array).enumerate().any(|(index, item)| {
            // Below an implicitly entered element, the position of that element is reported. An
            // element named by the path has no position, so an array entered below may report its
            // own.
            if let RawBsonRef::Document(inner) = item {
                let implicit = &mut |value, _| visit(value, Some(index));
                if self.walk_document(rest, inner, leaf, implicit) {
                    return true;
                }
            }
            if part.index != Some(index) {
                return false;
            }
            match (after.split_first(), item) {
                (None, item) => visit(Some(item), None),
                (Some(_), RawBsonRef::Document(inner)) => {
                    self.walk_document(after, inner, leaf, visit)
                }
                (Some(_), RawBsonRef::Array(inner)) => self.walk_array(after, inner, leaf, visit),
                (Some(_), _) => false,
            }
        })
    }
}

fn distinct_document<'d>(
    parts: &[PathPart],
    document: &'d RawDocument,
    visit: &mut dyn FnMut(RawBsonRef<'d>),
) {
    if let Some((part, rest)) = parts.split_first()
        && let Some(value) = value::get(document, &part.name)
    {
        distinct_value(rest, value, visit);
    }
}

fn distinct_value<'d>(
    rest: &[PathPart],
    value: RawBsonRef<'d>,
    visit: &mut dyn FnMut(RawBsonRef<'d>),
) {
    match (value, rest.split_first()) {
        (RawBsonRef::Array(array), None) => value::items(array).for_each(visit),
        (value, None) => visit(value),
        (RawBsonRef::Document(inner), Some(_)) => distinct_document(rest, inner, visit),
        (RawBsonRef::Array(array), Some((part, after))) => match part.index {
            Some(index) => {
                if let Some(item) = value::items(array).nth(index) {
                    distinct_value(after, item, visit);
                }
            }
            // As on MongoDB, `distinct` treats "01" neither as a position nor as a field of the
            // elements.
            None if part.is_number() => {}
            None => {
                for item in value::items(array) {
                    if let RawBsonRef::Document(inner) = item {
                        distinct_document(rest, inner, visit);
                    }
                }
            }
        },
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawBson, RawDocumentBuf, rawdoc};

    fn walked_values(
        path: &str,
        document: &RawDocumentBuf,
        leaf: LeafArrayMode,
    ) -> Vec<Option<RawBson>> {
        let mut seen = Vec::new();
        Path::new(path).walk(document, leaf, &mut |value, _| {
            seen.push(value.map(RawBson::from));
            false
        });
        seen
    }

    #[test]
    fn arrays_are_entered_one_level_at_a_time() {
        let document = rawdoc! { "a": [{ "b": 1 }, [{ "b": 2 }], { "c": 3 }, 4] };
        assert_eq!(
            walked_values("a.b", &document, LeafArrayMode::Expand),
            [Some(RawBson::Int32(1)), None]
        );
        // The documents beside the named position have no field "1".
        let values = walked_values("a.1.0.b", &document, LeafArrayMode::Expand);
        assert_eq!(
            values.into_iter().flatten().collect::<Vec<_>>(),
            [RawBson::Int32(2)]
        );
    }

    #[test]
    fn a_path_of_positions_is_walked_once() {
        let mut document = rawdoc! { "0": 7 };
        for _ in 0..80 {
            document = rawdoc! { "0": [document] };
        }
        for length in [1, 80, 90, 120, 160] {
            let path = vec!["0"; length].join(".");
            assert!(walked_values(&path, &document, LeafArrayMode::Expand).len() < 1000);
        }
        let value_count = |length| {
            let values = walked_values(
                &vec!["0"; length].join("."),
                &document,
                LeafArrayMode::Expand,
            );
            values.contains(&Some(RawBson::Int32(7)))
        };
        assert!(
            value_count(81)
                && value_count(120)
                && value_count(161)
                && !value_count(80)
                && !value_count(162)
        );
    }

    #[test]
    fn a_leaf_array_gives_its_elements_and_itself() {
        let document = rawdoc! { "a": [1, 2] };
        assert_eq!(
            walked_values("a", &document, LeafArrayMode::Expand).len(),
            3
        );
        assert_eq!(walked_values("a", &document, LeafArrayMode::Whole).len(), 1);
        assert_eq!(
            walked_values("a.1", &document, LeafArrayMode::Expand),
            [Some(RawBson::Int32(2))]
        );
    }

    #[test]
    fn a_trailing_dot_expands_arrays_like_the_plain_path() {
        let document = rawdoc! { "a": [1, 2], "b": 1 };
        assert_eq!(
            walked_values("a.", &document, LeafArrayMode::Expand).len(),
            3
        );
        assert_eq!(
            walked_values("b.", &document, LeafArrayMode::Expand),
            [None]
        );
    }

    #[test]
    fn a_path_through_a_scalar_has_no_value() {
        assert_eq!(
            walked_values("a.b", &rawdoc! { "a": 1 }, LeafArrayMode::Expand),
            [None]
        );
        assert_eq!(
            walked_values("a.b", &rawdoc! { "a": [1] }, LeafArrayMode::Expand),
            []
        );
    }

    #[test]
    fn the_outermost_implicit_element_gives_the_position() {
        let document = rawdoc! { "a": [{ "b": [0] }, { "b": [0, 7] }] };
        let mut position = None;
        Path::new("a.b").walk(&document, LeafArrayMode::Expand, &mut |value, index| {
            position = index;
            value == Some(RawBsonRef::Int32(7))
        });
        assert_eq!(position, Some(1));
    }
}
