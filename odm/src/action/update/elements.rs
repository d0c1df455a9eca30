//! The elements of arrays that an update names by conditions: `$[name]` and `$`.

use bson::RawDocumentBuf;

use crate::{
    Error, ErrorKind, Result,
    field::{Path, Step},
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

/// A path taken apart where it goes into an array: the arrays with the conditions on their elements, and the rest.
pub(super) struct Levels {
    pub(super) arrays: Vec<(Path, Node)>,
    pub(super) rest: Path,
}

impl Elements {
    /// The path as the update writes it, with names for the elements on the way.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a key or a condition that cannot be written, and for a second `$`.
    pub(super) fn place(&mut self, path: &Path) -> Result<String> {
        path.dotted()?;
        let mut place = Path::ROOT;
        for (part, step) in path.parts() {
            if !part.is_empty() {
                place = place.append(part);
            }
            match step {
                None | Some(Step::Inside) => {}
                Some(Step::At(index)) => place = place.append(&index.to_string()),
                Some(Step::Every) => place = place.append("$[]"),
                Some(Step::Matching(condition)) => {
                    let name = self.name(condition)?;
                    place = place.append(&format!("$[{name}]"));
                }
                Some(Step::First(condition)) => {
                    self.first(&place, condition)?;
                    place = place.append("$");
                }
            }
        }
        Ok(place.dotted()?.to_owned())
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
    pub(super) fn of(path: &Path) -> Self {
        let mut arrays = Vec::new();
        let mut rest = Path::ROOT;
        for (part, step) in path.parts() {
            if !part.is_empty() {
                rest = rest.append(part);
            }
            let condition = match step {
                None | Some(Step::Inside) => continue,
                Some(Step::At(index)) => {
                    rest = rest.append(&index.to_string());
                    continue;
                }
                Some(Step::Every) => Node::All,
                Some(Step::Matching(condition) | Step::First(condition)) => Node::clone(condition),
            };
            arrays.push((std::mem::replace(&mut rest, Path::ROOT).array(), condition));
        }
        Self { arrays, rest }
    }
}

fn name(at: usize) -> String {
    format!("e{at}")
}
