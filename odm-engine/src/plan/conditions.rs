//! The conditions of a filter that an index can answer.

use crate::error::Result;
use crate::filter::{ElemMatch, Expression, Predicate, Test};
use crate::index::IndexState;
use crate::path::Path;

use super::MAX_BRANCHES;
use super::bounds::Bounds;

/// How many bytes the paths of the conditions can have together. A filter may have one long path and
/// many conditions on it; what is left out here, the filter still looks after.
const MAX_PATH_BYTES: usize = 16 << 20;

/// A condition that every document that matches fulfils.
#[derive(Clone)]
pub(super) struct Condition {
    pub(super) path: String,
    pub(super) bounds: Bounds,
    /// The `$elemMatch` it is in, if it is in one.
    pub(super) element: Option<Element>,
}

/// What is known of a condition in an `$elemMatch`: one element fulfils all conditions of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Element {
    group: usize,
    /// The first component of the path within the element; empty for the element itself.
    first: String,
}

impl Element {
    /// Whether an array's element that fulfils both conditions has one key for both.
    pub(super) fn goes_with(&self, other: &Element) -> bool {
        self.group == other.group && self.first != other.first
    }

    /// Whether the condition is about an element itself.
    pub(super) fn is_itself(&self) -> bool {
        self.first.is_empty()
    }

    /// Whether both conditions are about one and the same value.
    pub(super) fn is_same_value(&self, other: &Element) -> bool {
        self == other && self.first.is_empty()
    }
}

/// What a filter demands: conditions that all hold, and choices of which one branch each holds.
#[derive(Clone, Default)]
pub(super) struct Demands<'f> {
    pub(super) conditions: Vec<Condition>,
    pub(super) choices: Vec<&'f [Expression]>,
    /// The paths that lead to something in every document that matches, as far as no bounds say more.
    pub(super) existing: Vec<String>,
    groups: usize,
    path_bytes: usize,
}

impl<'f> Demands<'f> {
    pub(super) fn of(expression: &'f Expression) -> Result<Demands<'f>> {
        let mut demands = Demands::default();
        demands.add(expression)?;
        Ok(demands)
    }

    /// Adds what follows from the choices: where every branch bounds the same path, one of those bounds
    /// holds, as in `{ $or: [{ date: { $gt: d } }, { date: d, _id: { $gt: i } }] }`.
    pub(super) fn add_common(&mut self) -> Result<()> {
        for branches in self.choices.clone() {
            if branches.len() > MAX_BRANCHES {
                continue;
            }
            let branches: Vec<Demands<'_>> =
                branches.iter().map(Demands::of).collect::<Result<_>>()?;
            let Some((first, others)) = branches.split_first() else {
                continue;
            };
            let mut paths: Vec<&str> = first
                .conditions
                .iter()
                .map(|condition| condition.path.as_str())
                .collect();
            paths.sort_unstable();
            paths.dedup();
            for path in paths {
                let all: Option<Vec<&Bounds>> = std::iter::once(first)
                    .chain(others)
                    .map(|branch| branch.best_of(path))
                    .collect();
                if let Some(all) = all {
                    self.conditions.push(Condition {
                        path: path.to_owned(),
                        bounds: Bounds::any_of(&all),
                        element: None,
                    });
                }
            }
        }
        Ok(())
    }

    /// Whether all that match have the first field of an index.
    pub(super) fn wants_existing(&self, state: &IndexState) -> bool {
        let first = state.paths.first().map(Path::as_str);
        let mut existing = self.existing.iter();
        existing.any(|path| Some(path.as_str()) == first)
    }

    /// The narrowest bounds of a path.
    fn best_of(&self, path: &str) -> Option<&Bounds> {
        let own = self
            .conditions
            .iter()
            .filter(|condition| condition.path == path);
        own.map(|condition| &condition.bounds)
            .min_by_key(|bounds| bounds.looseness())
    }

    /// Adds what `expression` demands.
    pub(super) fn add(&mut self, expression: &'f Expression) -> Result<()> {
        match expression {
            Expression::And(all) => all.iter().try_for_each(|inner| self.add(inner)),
            Expression::Or(any) => match any.as_slice() {
                [only] => self.add(only),
                any => {
                    self.choices.push(any);
                    Ok(())
                }
            },
            // A position may lead to an array in an array, which an index holds as one value.
            Expression::Field(path, Test::ElemMatch(_)) if has_position(path) => Ok(()),
            // Where a position is also seen as a field's name, it is missing: filters look at both
            // ways, an index only follows the position.
            Expression::Field(path, test)
                if has_position(path) && test.matches(None, &mut None) =>
            {
                Ok(())
            }
            Expression::Field(path, Test::ElemMatch(elements)) => {
                self.groups += 1;
                match elements {
                    ElemMatch::Document(inner) => self.add_element(path.as_str(), inner),
                    ElemMatch::Value(inner) => self.add_value(path.as_str(), inner),
                }
            }
            Expression::Field(path, test) => self.push(&[path.as_str()], test, None),
            Expression::Expr(expr) => self.add(expr.implied()),
            Expression::Nor(_) | Expression::Not(_) => Ok(()),
        }
    }

    fn add_element(&mut self, array: &str, expression: &Expression) -> Result<()> {
        match expression {
            Expression::And(all) => all
                .iter()
                .try_for_each(|inner| self.add_element(array, inner)),
            Expression::Field(path, test) => {
                let Some(first) = path.parts().first() else {
                    return Ok(());
                };
                // A position in the element is not the position that an index would follow.
                if first.index().is_some() || has_position(path) {
                    return Ok(());
                }
                let element = Element {
                    group: self.groups,
                    first: first.name().to_owned(),
                };
                self.push(&[array, ".", path.as_str()], test, Some(element))
            }
            Expression::Or(_) | Expression::Nor(_) | Expression::Not(_) | Expression::Expr(_) => {
                Ok(())
            }
        }
    }

    fn add_value(&mut self, array: &str, predicate: &Predicate) -> Result<()> {
        match predicate {
            Predicate::All(all) => all
                .iter()
                .try_for_each(|inner| self.add_value(array, inner)),
            Predicate::Test(test) => {
                let element = Element {
                    group: self.groups,
                    first: String::new(),
                };
                self.push(&[array], test, Some(element))
            }
            Predicate::Not(_) | Predicate::Never => Ok(()),
        }
    }

    fn push(&mut self, path: &[&str], test: &Test, element: Option<Element>) -> Result<()> {
        self.path_bytes += path.iter().map(|part| part.len()).sum::<usize>();
        if self.path_bytes > MAX_PATH_BYTES {
            return Ok(());
        }
        if let Some(bounds) = Bounds::of(test)? {
            self.conditions.push(Condition {
                path: path.concat(),
                bounds,
                element,
            });
        } else if test.seeks_existing() {
            self.existing.push(path.concat());
        }
        Ok(())
    }
}

/// Whether a component of the path may be a position in an array.
fn has_position(path: &Path) -> bool {
    path.parts()
        .iter()
        .skip(1)
        .any(|part| part.index().is_some())
}
