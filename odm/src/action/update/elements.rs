//! Array elements that an update selects by conditions: `$[name]` and `$`.

use bson::RawDocumentBuf;

use crate::{
    Error, ErrorKind, Result,
    language::{
        field::{NullableKind, Path, PathStep},
        query::{FilterNode, may_set_position, render_array_filter, to_raw},
    },
};

/// The conditions on array elements in the paths of one update.
#[derive(Debug, Clone, Default)]
pub(super) struct ElementConditions {
    /// The distinct conditions of `$[name]`: rendered as an array filter with the name `e`, and as a filter.
    matching: Vec<(RawDocumentBuf, FilterNode)>,
    /// The condition that selects the element of `$`: as a filter, and rendered.
    first: Option<(FilterNode, RawDocumentBuf)>,
}

/// A path, split at the arrays in which an update selects elements.
#[derive(Debug, Clone)]
pub(super) struct Levels {
    arrays: Vec<Level>,
    /// The path after the last array.
    pub(super) rest: Path,
    /// The condition on the document that the parents of the place exist.
    pub(super) required: FilterNode,
    /// The maps along the path that may be null, each with the number of arrays before the map.
    null_maps: Vec<(usize, Path)>,
    /// Whether elements of the array may be in chunk documents.
    pub(super) may_spill: bool,
}

/// An array along the path, with the condition on the elements that the update changes.
#[derive(Debug, Clone)]
struct Level {
    array: Path,
    /// The condition on the changed elements. Includes the condition that the parents of the place exist in the element.
    condition: FilterNode,
    /// Whether the update changes only the first matching element.
    is_first: bool,
}

impl ElementConditions {
    /// Returns the path for the update operator, with a position for each array: `$`, `$[]` or `$[name]`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a condition that cannot be rendered, and for a second `$`.
    pub(super) fn operator_path(&mut self, levels: &Levels) -> Result<String> {
        let mut place = Path::ROOT;
        let join = |place: &Path, part: &Path| match part.is_root() {
            true => place.clone(),
            false => place.append_name(&part.to_string()),
        };
        for level in &levels.arrays {
            place = join(&place, &level.array);
            if level.is_first {
                self.select_first_element(&place, &level.condition)?;
                place = place.append_name("$");
            } else if matches!(level.condition, FilterNode::All) {
                place = place.append_name("$[]");
            } else {
                let name = self.add_array_filter(&level.condition)?;
                place = place.append_name(&format!("$[{name}]"));
            }
        }
        Ok(join(&place, &levels.rest).dotted()?.to_owned())
    }

    /// Returns the condition that the filter of the update needs, so that `$` selects an element.
    pub(super) fn selection_condition(&self) -> FilterNode {
        self.first
            .as_ref()
            .map_or(FilterNode::All, |(condition, _)| condition.clone())
    }

    /// Rejects a further condition on array elements: the condition could make `$` select a wrong element.
    pub(super) fn ensure_no_further_condition(&self, condition: &FilterNode) -> Result<()> {
        if self.first.is_some() && may_set_position(condition) {
            return Err(Error::new(
                ErrorKind::Invalid,
                "an update with `first_matching` has another condition on array elements, and MongoDB does not define which element `$` would select: move the condition into `first_matching`, or use `matching`",
            ));
        }
        Ok(())
    }

    /// Returns the array filters of the update.
    pub(super) fn array_filters(&self) -> Result<Vec<RawDocumentBuf>> {
        let named = self.matching.iter().enumerate();
        named
            .map(|(at, (_, condition))| render_array_filter(condition, &array_filter_name(at)))
            .collect()
    }

    /// Returns the name of the array filter for a condition. Equal conditions share a name.
    fn add_array_filter(&mut self, condition: &FilterNode) -> Result<String> {
        let written = render_array_filter(condition, "e")?;
        let before = self
            .matching
            .iter()
            .position(|(other, _)| *other == written);
        let at = before.unwrap_or_else(|| {
            self.matching.push((written, condition.clone()));
            self.matching.len() - 1
        });
        Ok(array_filter_name(at))
    }

    fn select_first_element(&mut self, array: &Path, condition: &FilterNode) -> Result<()> {
        if matches!(condition, FilterNode::All) {
            return Err(Error::new(
                ErrorKind::Invalid,
                "`first_matching` has no condition: add a condition, or use `at(0)` for the first element",
            ));
        }
        let element =
            FilterNode::Element(array.clone().holding_array(), Box::new(condition.clone()));
        let written = to_raw(&element)?;
        if written
            .get("$or")
            .is_ok_and(|alternatives| alternatives.is_some())
        {
            return Err(Error::new(
                ErrorKind::Invalid,
                "`first_matching` cannot select an element by alternative conditions on the element itself: write one condition with `is_in` or `between`, or use `matching`",
            ));
        }
        match &self.first {
            Some((_, other)) if *other != written => Err(Error::new(
                ErrorKind::Invalid,
                "an update can use only one `first_matching` element: use `matching` or `at` for the others, or a second update",
            )),
            _ => {
                self.first = Some((element, written));
                Ok(())
            }
        }
    }
}

impl Levels {
    /// Splits a path at its arrays.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a map key that cannot be part of a path.
    pub(super) fn split_at_arrays(path: &Path) -> Result<Self> {
        path.dotted()?;
        let mut levels = Self {
            arrays: Vec::new(),
            rest: Path::ROOT,
            required: FilterNode::All,
            null_maps: Vec::new(),
            may_spill: path.may_spill(),
        };
        let at = |place: &str| match place {
            "" => Path::ROOT,
            place => Path::ROOT.append_name(place),
        };
        // The condition that the parents of a part exist applies to the elements of the array before that part.
        for part in path.selection_levels() {
            let mut required = FilterNode::All;
            for (place, holder) in part.holders {
                let kind = match holder {
                    NullableKind::Document => "object",
                    NullableKind::Array => "array",
                    NullableKind::Map => {
                        levels.null_maps.push((levels.arrays.len(), at(place)));
                        continue;
                    }
                };
                required = required.and(FilterNode::Test(at(place), "$type", kind.into()));
            }
            for index in part.indexes {
                required = required.and(FilterNode::Test(at(index), "$exists", true.into()));
            }
            match levels.arrays.last_mut() {
                Some(before) => before.condition = before.condition.clone().and(required),
                None => levels.required = required,
            }
            match part.elements {
                None => levels.rest = at(part.place),
                Some(step) => levels.arrays.push(Level {
                    array: at(part.place),
                    condition: match step {
                        PathStep::Matching(condition) | PathStep::First(condition) => {
                            FilterNode::clone(condition)
                        }
                        PathStep::At(_) | PathStep::Element | PathStep::Every => FilterNode::All,
                    },
                    is_first: matches!(step, PathStep::First(_)),
                }),
            }
        }
        Ok(levels)
    }

    /// Returns the paths to the maps along this path that may be null.
    pub(super) fn null_maps(&self) -> impl Iterator<Item = Self> {
        let maps = self.null_maps.iter();
        maps.map(|(arrays, place)| Self {
            arrays: self.arrays.iter().take(*arrays).cloned().collect(),
            rest: place.clone(),
            required: self.required.clone(),
            null_maps: Vec::new(),
            may_spill: self.may_spill,
        })
    }

    /// Returns the same path with a further condition on the elements of the last array, or on the document without an array.
    pub(super) fn with_element_condition(&self, condition: &FilterNode) -> Self {
        let mut levels = self.clone();
        match levels.arrays.last_mut() {
            Some(last) => last.condition = last.condition.clone().and(condition.clone()),
            None => levels.required = levels.required.and(condition.clone()),
        }
        levels
    }

    /// Returns the condition that no place of this path meets the condition. The condition applies to the elements of the last
    /// array.
    pub(super) fn no_place_condition(&self, condition: FilterNode) -> FilterNode {
        let matches = self.any_place_condition(0, condition);
        match (matches, self.arrays.is_empty()) {
            (FilterNode::Not(opposite), true) => *opposite,
            (matches, _) => FilterNode::Not(Box::new(matches)),
        }
    }

    /// Returns the condition on an element of the first array that a place in the element meets the condition. Returns `None`
    /// without an array.
    pub(super) fn first_element_condition(&self, condition: FilterNode) -> Option<FilterNode> {
        let first = self.arrays.first()?;
        let matches = self.any_place_condition(1, condition);
        Some(first.condition.clone().and(matches))
    }

    /// Returns the condition that one of the places meets a condition. Skips the first `skipped_levels` arrays.
    fn any_place_condition(&self, skipped_levels: usize, condition: FilterNode) -> FilterNode {
        let arrays = self.arrays.iter().skip(skipped_levels).rev();
        arrays.fold(condition, |inner, level| {
            let element = level.condition.clone().and(inner);
            FilterNode::Element(level.array.clone().holding_array(), Box::new(element))
        })
    }
}

fn array_filter_name(at: usize) -> String {
    format!("e{at}")
}
