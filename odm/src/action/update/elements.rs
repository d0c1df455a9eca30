//! The elements of arrays that an update names by conditions: `$[name]` and `$`.

use bson::RawDocumentBuf;

use crate::{
    Error, ErrorKind, Result,
    field::{Holder, Path, Step},
    query::{Node, array_filter, records_a_position, to_raw},
};

/// The conditions on elements that the paths of one update bring along.
#[derive(Debug, Clone, Default)]
pub(super) struct Elements {
    /// Each condition once, as an array filter of the name `e`, and as it was made.
    matching: Vec<(RawDocumentBuf, Node)>,
    /// The condition behind `$`, and how it is written.
    first: Option<(Node, RawDocumentBuf)>,
}

/// A path taken apart where an update names elements of an array.
#[derive(Debug, Clone)]
pub(super) struct Levels {
    arrays: Vec<Level>,
    /// The path after the last array.
    pub(super) rest: Path,
    /// That the places on the way are there, as far as that is a condition on the document.
    pub(super) required: Node,
    /// The maps on the way that may be null, by how many arrays stand before them.
    null_maps: Vec<(usize, Path)>,
    /// Whether some of the elements may be in chunk documents.
    pub(super) may_spill: bool,
}

/// An array on the way, with the elements that the update changes.
#[derive(Debug, Clone)]
struct Level {
    array: Path,
    /// The elements that meet this condition, and in which the places on the way are there.
    condition: Node,
    /// Only the first of them.
    is_first: bool,
}

impl Elements {
    /// The path as the update writes it, with names for the elements on the way.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a condition that cannot be written, and for a second `$`.
    pub(super) fn place(&mut self, levels: &Levels) -> Result<String> {
        let mut place = Path::ROOT;
        let under = |place: &Path, part: &Path| match part.is_root() {
            true => place.clone(),
            false => place.append(&part.to_string()),
        };
        for level in &levels.arrays {
            place = under(&place, &level.array);
            if level.is_first {
                self.first(&place, &level.condition)?;
                place = place.append("$");
            } else if matches!(level.condition, Node::All) {
                place = place.append("$[]");
            } else {
                let name = self.name(&level.condition)?;
                place = place.append(&format!("$[{name}]"));
            }
        }
        Ok(under(&place, &levels.rest).dotted()?.to_owned())
    }

    /// The condition that the update's filter needs for `$` to name an element.
    pub(super) fn condition(&self) -> Node {
        self.first
            .as_ref()
            .map_or(Node::All, |(condition, _)| condition.clone())
    }

    /// Refuses a condition that would make `$` name an element that it was not asked for.
    pub(super) fn check(&self, condition: &Node) -> Result<()> {
        if self.first.is_some() && records_a_position(condition) {
            return Err(Error::new(
                ErrorKind::Invalid,
                "an update that names the `first_matching` element has no other condition that an element of an array meets: MongoDB does \
                 not say which of the two it would change; say it in the condition of `first_matching`, or use `matching`",
            ));
        }
        Ok(())
    }

    /// The array filters.
    pub(super) fn array_filters(&self) -> Result<Vec<RawDocumentBuf>> {
        let named = self.matching.iter().enumerate();
        named
            .map(|(at, (_, condition))| array_filter(condition, &name(at)))
            .collect()
    }

    /// The name of the elements that meet the condition; the same condition has the same name.
    fn name(&mut self, condition: &Node) -> Result<String> {
        let written = array_filter(condition, "e")?;
        let before = self
            .matching
            .iter()
            .position(|(other, _)| *other == written);
        let at = before.unwrap_or_else(|| {
            self.matching.push((written, condition.clone()));
            self.matching.len() - 1
        });
        Ok(name(at))
    }

    fn first(&mut self, array: &Path, condition: &Node) -> Result<()> {
        if matches!(condition, Node::All) {
            return Err(Error::new(
                ErrorKind::Invalid,
                "`first_matching` without a condition: `at(0)` names the first element of all",
            ));
        }
        let element = Node::Element(array.clone().array(), Box::new(condition.clone()));
        let written = to_raw(&element)?;
        if written.get("$or").is_ok_and(|or| or.is_some()) {
            return Err(Error::new(
                ErrorKind::Invalid,
                "MongoDB cannot say which is the first element that meets one of several conditions on the element itself: say \
                 them as one, by `is_in` or `between`, or use `matching`",
            ));
        }
        match &self.first {
            Some((_, other)) if *other != written => Err(Error::new(
                ErrorKind::Invalid,
                "one update can name one `first_matching` element; use `matching` or `at` for the others, or a second update",
            )),
            _ => {
                self.first = Some((element, written));
                Ok(())
            }
        }
    }
}

impl Levels {
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a map's key that no path can have.
    pub(super) fn of(path: &Path) -> Result<Self> {
        path.dotted()?;
        let mut levels = Self {
            arrays: Vec::new(),
            rest: Path::ROOT,
            required: Node::All,
            null_maps: Vec::new(),
            may_spill: path.may_spill(),
        };
        let at = |place: &str| match place {
            "" => Path::ROOT,
            place => Path::ROOT.append(place),
        };
        // That the places of a part are there is a condition on the elements that the part before it ends with.
        for part in path.levels() {
            let mut required = Node::All;
            for (place, holder) in part.holders {
                let kind = match holder {
                    Holder::Document => "object",
                    Holder::Array => "array",
                    Holder::Map => {
                        levels.null_maps.push((levels.arrays.len(), at(place)));
                        continue;
                    }
                };
                required = required.and(Node::Test(at(place), "$type", kind.into()));
            }
            for index in part.indexes {
                required = required.and(Node::Test(at(index), "$exists", true.into()));
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
                        Step::Matching(condition) | Step::First(condition) => {
                            Node::clone(condition)
                        }
                        Step::At(_) | Step::Inside | Step::Every => Node::All,
                    },
                    is_first: matches!(step, Step::First(_)),
                }),
            }
        }
        Ok(levels)
    }

    /// The ways to the maps on the way that may be null.
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

    /// The same way, of which the last elements meet a further condition.
    pub(super) fn and(&self, condition: &Node) -> Self {
        let mut levels = self.clone();
        match levels.arrays.last_mut() {
            Some(last) => last.condition = last.condition.clone().and(condition.clone()),
            None => levels.required = levels.required.and(condition.clone()),
        }
        levels
    }

    /// The condition that none of the places meets a condition, which speaks about the last elements on the way.
    pub(super) fn none_meets(&self, condition: Node) -> Node {
        match (self.meets(0, condition), self.arrays.is_empty()) {
            (Node::Not(opposite), true) => *opposite,
            (meets, _) => Node::Not(Box::new(meets)),
        }
    }

    /// The condition on an element of the first array that one of the places in it meets a condition; none without an array.
    pub(super) fn element_meets(&self, condition: Node) -> Option<Node> {
        let first = self.arrays.first()?;
        Some(first.condition.clone().and(self.meets(1, condition)))
    }

    /// The condition that one of the places meets a condition, seen from behind so many of the arrays.
    fn meets(&self, behind: usize, condition: Node) -> Node {
        let arrays = self.arrays.iter().skip(behind).rev();
        arrays.fold(condition, |inner, level| {
            let element = level.condition.clone().and(inner);
            Node::Element(level.array.clone().array(), Box::new(element))
        })
    }
}

fn name(at: usize) -> String {
    format!("e{at}")
}
