//! Dotted paths and the two ways in which they are walked.
//!
//! A filter sees every value that a path reaches, through arrays and by position
//! ([`Path::walk`]). An index or a sort sees tuples of values, one tuple for each array element,
//! with values of one array kept together ([`key_tuples`]).

mod keys;

use std::collections::HashSet;
use std::sync::Arc;

use bson::{RawArray, RawBsonRef, RawDocument};

use crate::value;

pub(crate) use keys::{KeyError, key_tuples};

/// A dotted path, such as `items.0.price`. A clone costs nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Path {
    text: Arc<str>,
    parts: Arc<[Part]>,
}

/// One component of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    name: Box<str>,
    index: Option<usize>,
}

/// What a walk does with an array at the end of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaf {
    /// Visit its elements, then the array itself.
    Expand,
    /// Visit the array only.
    Whole,
}

/// Sees a value (`None` if the path leads nowhere) and the position of the array element that it
/// was found in; answers whether the walk can stop.
pub(crate) type Visitor<'v, 'd> = dyn FnMut(Option<RawBsonRef<'d>>, Option<usize>) -> bool + 'v;

impl Path {
    /// Splits a path at its dots. Every string is a path; empty components name empty fields.
    pub(crate) fn new(text: &str) -> Path {
        Path {
            text: text.into(),
            parts: text.split('.').map(Part::new).collect(),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Whether this path is `other` or leads to something inside it.
    pub(crate) fn starts_with(&self, other: &Path) -> bool {
        self.parts.starts_with(&other.parts)
    }

    /// Visits every value that a filter on this path looks at, until the visitor says stop.
    ///
    /// Arrays along the path are entered, one level each time: by position where the component
    /// is a number, and through their documents. Returns whether the visitor stopped the walk.
    pub(crate) fn walk<'d>(
        &self,
        document: &'d RawDocument,
        leaf: Leaf,
        visit: &mut Visitor<'_, 'd>,
    ) -> bool {
        Walk::new(&self.parts).document(&self.parts, document, leaf, visit)
    }

    /// The value at this path, arrays on the way being entered by position only.
    pub(crate) fn get<'d>(&self, document: &'d RawDocument) -> Option<RawBsonRef<'d>> {
        let root = RawBsonRef::Document(document);
        self.parts.iter().try_fold(root, |value, part| match value {
            RawBsonRef::Document(document) => value::get(document, &part.name),
            RawBsonRef::Array(array) => value::items(array).nth(part.index?),
            _ => None,
        })
    }

    /// The values that `distinct` collects: leaf arrays give their elements instead of themselves.
    pub(crate) fn distinct<'d>(
        &self,
        document: &'d RawDocument,
        visit: &mut dyn FnMut(RawBsonRef<'d>),
    ) {
        distinct_document(&self.parts, document, visit);
    }
}

impl Part {
    fn new(name: &str) -> Part {
        // "01" names a field and never a position, as positions are compared by their names.
        let canonical = name == "0" || !name.starts_with('0');
        let digits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        Part {
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

    /// The position that this component names in an update, where "01" is 1.
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

    /// The position that this component names, if it is a number.
    pub(crate) fn index(&self) -> Option<usize> {
        self.index
    }
}

/// How many positions a path can have before it is noted where it has led already.
const MAX_POSITIONS: usize = 8;

/// A walk along a path.
///
/// Where a component is both a position and a field of the element at it, two ways lead on, and they
/// meet again two levels below. With many positions the ways are too many to go each of them.
struct Walk {
    /// The arrays that have been entered without success, by address, each with what remained of the
    /// path. `None` if the path has too few positions to need it.
    entered: Option<HashSet<(usize, usize)>>,
}

impl Walk {
    fn new(parts: &[Part]) -> Walk {
        let positions = parts.iter().filter(|part| part.index.is_some()).count();
        Walk {
            entered: (positions > MAX_POSITIONS).then(HashSet::new),
        }
    }

    fn document<'d>(
        &mut self,
        parts: &[Part],
        document: &'d RawDocument,
        leaf: Leaf,
        visit: &mut Visitor<'_, 'd>,
    ) -> bool {
        let Some((part, rest)) = parts.split_first() else {
            return false;
        };
        self.value(rest, value::get(document, &part.name), leaf, visit)
    }

    fn value<'d>(
        &mut self,
        rest: &[Part],
        value: Option<RawBsonRef<'d>>,
        leaf: Leaf,
        visit: &mut Visitor<'_, 'd>,
    ) -> bool {
        match value {
            Some(RawBsonRef::Array(array)) => self.array(rest, array, leaf, visit),
            Some(RawBsonRef::Document(inner)) if !rest.is_empty() => {
                self.document(rest, inner, leaf, visit)
            }
            value if rest.is_empty() => visit(value, None),
            _ => visit(None, None),
        }
    }

    fn array<'d>(
        &mut self,
        rest: &[Part],
        array: &'d RawArray,
        leaf: Leaf,
        visit: &mut Visitor<'_, 'd>,
    ) -> bool {
        if let Some(entered) = &mut self.entered
            && !entered.insert((array.as_bytes().as_ptr().addr(), rest.len()))
        {
            return false;
        }
        // As on MongoDB, a dot at the end of a path asks an array for no more than its own name does.
        let rest = if matches!(rest, [last] if last.name.is_empty()) {
            &[]
        } else {
            rest
        };
        let Some((part, after)) = rest.split_first() else {
            let expand = leaf == Leaf::Expand;
            return (expand
                && value::items(array)
                    .enumerate()
                    .any(|(index, item)| visit(Some(item), Some(index))))
                || visit(Some(RawBsonRef::Array(array)), None);
        };
        value::items(array).enumerate().any(|(index, item)| {
            // Below an element that was entered implicitly, that element's position is the one to
            // report; one that the path names has none, below it counts whatever is entered next.
            if let RawBsonRef::Document(inner) = item {
                let implicit = &mut |value, _| visit(value, Some(index));
                if self.document(rest, inner, leaf, implicit) {
                    return true;
                }
            }
            if part.index != Some(index) {
                return false;
            }
            match (after.split_first(), item) {
                (None, item) => visit(Some(item), None),
                (Some(_), RawBsonRef::Document(inner)) => self.document(after, inner, leaf, visit),
                (Some(_), RawBsonRef::Array(inner)) => self.array(after, inner, leaf, visit),
                (Some(_), _) => false,
            }
        })
    }
}

fn distinct_document<'d>(
    parts: &[Part],
    document: &'d RawDocument,
    visit: &mut dyn FnMut(RawBsonRef<'d>),
) {
    if let Some((part, rest)) = parts.split_first()
        && let Some(value) = value::get(document, &part.name)
    {
        distinct_value(rest, value, visit);
    }
}

fn distinct_value<'d>(rest: &[Part], value: RawBsonRef<'d>, visit: &mut dyn FnMut(RawBsonRef<'d>)) {
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
            // "01" is no position, and elements have no such field for `distinct`, as on MongoDB.
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

    fn walked(path: &str, document: &RawDocumentBuf, leaf: Leaf) -> Vec<Option<RawBson>> {
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
            walked("a.b", &document, Leaf::Expand),
            [Some(RawBson::Int32(1)), None]
        );
        // The documents beside the named position have no field "1".
        let found = walked("a.1.0.b", &document, Leaf::Expand);
        assert_eq!(
            found.into_iter().flatten().collect::<Vec<_>>(),
            [RawBson::Int32(2)]
        );
    }

    #[test]
    fn a_path_of_positions_is_not_walked_every_way() {
        let mut document = rawdoc! { "0": 7 };
        for _ in 0..80 {
            document = rawdoc! { "0": [document] };
        }
        for length in [1, 80, 90, 120, 160] {
            let path = vec!["0"; length].join(".");
            assert!(walked(&path, &document, Leaf::Expand).len() < 1000);
        }
        let reached = |length| {
            let found = walked(&vec!["0"; length].join("."), &document, Leaf::Expand);
            found.contains(&Some(RawBson::Int32(7)))
        };
        assert!(reached(81) && reached(120) && reached(161) && !reached(80) && !reached(162));
    }

    #[test]
    fn a_leaf_array_gives_its_elements_and_itself() {
        let document = rawdoc! { "a": [1, 2] };
        assert_eq!(walked("a", &document, Leaf::Expand).len(), 3);
        assert_eq!(walked("a", &document, Leaf::Whole).len(), 1);
        assert_eq!(
            walked("a.1", &document, Leaf::Expand),
            [Some(RawBson::Int32(2))]
        );
    }

    #[test]
    fn a_dot_at_the_end_says_nothing_about_arrays() {
        let document = rawdoc! { "a": [1, 2], "b": 1 };
        assert_eq!(walked("a.", &document, Leaf::Expand).len(), 3);
        assert_eq!(walked("b.", &document, Leaf::Expand), [None]);
    }

    #[test]
    fn a_path_through_a_scalar_leads_nowhere() {
        assert_eq!(walked("a.b", &rawdoc! { "a": 1 }, Leaf::Expand), [None]);
        assert_eq!(walked("a.b", &rawdoc! { "a": [1] }, Leaf::Expand), []);
    }

    #[test]
    fn the_outermost_implicit_element_gives_the_position() {
        let document = rawdoc! { "a": [{ "b": [0] }, { "b": [0, 7] }] };
        let mut position = None;
        Path::new("a.b").walk(&document, Leaf::Expand, &mut |value, index| {
            position = index;
            value == Some(RawBsonRef::Int32(7))
        });
        assert_eq!(position, Some(1));
    }
}
