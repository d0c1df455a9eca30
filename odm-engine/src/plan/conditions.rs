//! The conditions of a filter that an index can answer.

use crate::collation::ValueOrder;
use crate::error::Result;
use crate::filter::{ElemMatch, FilterExpression, ValuePredicate, ValueTest};
use crate::index::IndexState;
use crate::path::Path;

use super::MAX_PLANNED_BRANCHES;
use super::bounds::ValueBounds;

/// The maximum total length of the conditions' paths, in bytes. A filter may have many conditions on one long path. The planner
/// ignores further conditions, which the filter still checks.
const MAX_PATH_BYTES: usize = 16 << 20;

/// A condition that every matching document fulfils.
#[derive(Clone)]
pub(super) struct FilterCondition {
    pub(super) path: String,
    pub(super) bounds: ValueBounds,
    /// The scope of a condition inside of an `$elemMatch`.
    pub(super) element: Option<ElementScope>,
    /// The order of a comparison with strings under a collation. The bounds are then those of an index with this collation.
    pub(super) order: Option<ValueOrder>,
}

/// The scope of a condition inside of an `$elemMatch`. A single element fulfils all conditions of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ElementScope {
    group: usize,
    /// The first component of the path within the element; empty for the element itself.
    first: String,
}

impl ElementScope {
    /// Whether an element that fulfils both conditions has one key for both.
    pub(super) fn combines_with(&self, other: &ElementScope) -> bool {
        self.group == other.group && self.first != other.first
    }

    /// Whether the condition concerns the element itself.
    pub(super) fn is_whole_element(&self) -> bool {
        self.first.is_empty()
    }

    /// Whether both conditions concern the same value.
    pub(super) fn is_same_value(&self, other: &ElementScope) -> bool {
        self == other && self.first.is_empty()
    }
}

/// The demands of a filter: conditions that all hold, and choices, each with one branch that holds.
#[derive(Clone, Default)]
pub(super) struct FilterDemands<'f> {
    pub(super) conditions: Vec<FilterCondition>,
    pub(super) choices: Vec<&'f [FilterExpression]>,
    /// The paths that exist in every matching document, for tests without bounds.
    pub(super) existing: Vec<String>,
    groups: usize,
    path_bytes: usize,
}

impl<'f> FilterDemands<'f> {
    pub(super) fn from_expression(expression: &'f FilterExpression) -> Result<FilterDemands<'f>> {
        let mut demands = FilterDemands::default();
        demands.add_expression(expression)?;
        Ok(demands)
    }

    /// Adds conditions that follow from the choices. If every branch bounds the same path, the union of these bounds holds, as in
    /// `{ $or: [{ date: { $gt: d } }, { date: d, _id: { $gt: i } }] }`.
    pub(super) fn add_common_bounds(&mut self) -> Result<()> {
        for branches in self.choices.clone() {
            if branches.len() > MAX_PLANNED_BRANCHES {
                continue;
            }
            let branches: Vec<FilterDemands<'_>> = branches
                .iter()
                .map(FilterDemands::from_expression)
                .collect::<Result<_>>()?;
            let Some((first, remaining)) = branches.split_first() else {
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
                let all: Option<Vec<&ValueBounds>> = std::iter::once(first)
                    .chain(remaining)
                    .map(|branch| branch.narrowest_bounds(path))
                    .collect();
                if let Some(all) = all {
                    self.conditions.push(FilterCondition {
                        path: path.to_owned(),
                        bounds: ValueBounds::union_of(&all),
                        element: None,
                        order: None,
                    });
                }
            }
        }
        Ok(())
    }

    /// Whether all matching documents have the first field of an index.
    pub(super) fn requires_first_field(&self, state: &IndexState) -> bool {
        let first = state.paths.first().map(Path::as_str);
        let mut existing = self.existing.iter();
        existing.any(|path| Some(path.as_str()) == first)
    }

    /// Returns the narrowest bounds of a path, except for bounds under a collation.
    fn narrowest_bounds(&self, path: &str) -> Option<&ValueBounds> {
        let conditions = self
            .conditions
            .iter()
            .filter(|condition| condition.path == path && condition.order.is_none());
        conditions
            .map(|condition| &condition.bounds)
            .min_by_key(|bounds| bounds.looseness())
    }

    /// Adds the demands of `expression`.
    pub(super) fn add_expression(&mut self, expression: &'f FilterExpression) -> Result<()> {
        match expression {
            FilterExpression::And(conjuncts) => conjuncts
                .iter()
                .try_for_each(|inner| self.add_expression(inner)),
            FilterExpression::Or(branches) => match branches.as_slice() {
                [branch] => self.add_expression(branch),
                branches => {
                    self.choices.push(branches);
                    Ok(())
                }
            },
            // A position may select an array inside of an array, which an index contains as one value.
            FilterExpression::Field(path, ValueTest::ElemMatch(_)) if has_position(path) => Ok(()),
            // A filter tries a number both as a position and as a field name, and the field name is missing. An index only
            // follows the position. So a test that a missing field passes cannot use the index.
            FilterExpression::Field(path, test)
                if has_position(path) && test.matches(None, &mut None) =>
            {
                Ok(())
            }
            FilterExpression::Field(path, ValueTest::ElemMatch(elements)) => {
                self.groups += 1;
                match elements {
                    ElemMatch::Document(inner) => self.add_element_expression(path.as_str(), inner),
                    ElemMatch::Value(inner) => self.add_element_predicate(path.as_str(), inner),
                }
            }
            FilterExpression::Field(path, test) => {
                self.push_condition(&[path.as_str()], test, None)
            }
            FilterExpression::Expr(expr) => self.add_expression(expr.implied_condition()),
            FilterExpression::Nor(_) | FilterExpression::Not(_) => Ok(()),
        }
    }

    fn add_element_expression(&mut self, array: &str, expression: &FilterExpression) -> Result<()> {
        match expression {
            FilterExpression::And(conjuncts) => conjuncts
                .iter()
                .try_for_each(|inner| self.add_element_expression(array, inner)),
            FilterExpression::Field(path, test) => {
                let Some(first) = path.parts().first() else {
                    return Ok(());
                };
                // A position within the element is not the position that an index would follow.
                if first.index().is_some() || has_position(path) {
                    return Ok(());
                }
                let element = ElementScope {
                    group: self.groups,
                    first: first.name().to_owned(),
                };
                self.push_condition(&[array, ".", path.as_str()], test, Some(element))
            }
            FilterExpression::Or(_)
            | FilterExpression::Nor(_)
            | FilterExpression::Not(_)
            | FilterExpression::Expr(_) => Ok(()),
        }
    }

    fn add_element_predicate(&mut self, array: &str, predicate: &ValuePredicate) -> Result<()> {
        match predicate {
            ValuePredicate::All(predicates) => predicates
                .iter()
                .try_for_each(|inner| self.add_element_predicate(array, inner)),
            ValuePredicate::Test(test) => {
                let element = ElementScope {
                    group: self.groups,
                    first: String::new(),
                };
                self.push_condition(&[array], test, Some(element))
            }
            ValuePredicate::Not(_) | ValuePredicate::Never => Ok(()),
        }
    }

    fn push_condition(
        &mut self,
        path: &[&str],
        test: &ValueTest,
        element: Option<ElementScope>,
    ) -> Result<()> {
        self.path_bytes += path.iter().map(|part| part.len()).sum::<usize>();
        if self.path_bytes > MAX_PATH_BYTES {
            return Ok(());
        }
        if let Some(bounds) = ValueBounds::from_test(test)? {
            self.conditions.push(FilterCondition {
                path: path.concat(),
                bounds,
                element,
                order: match test {
                    ValueTest::Collated(collated) => Some(collated.order().clone()),
                    _ => None,
                },
            });
        } else if test.requires_existing() {
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
