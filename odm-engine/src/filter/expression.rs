//! The parsed conditions of a filter, as a tree.

use std::fmt;

use bson::{RawBsonRef, RawDocument};

use super::collated::{CollatedOperand, CollatedTest};
use super::expr::ExprCondition;
use super::{CompareOperator, Comparison, ElemMatch, Membership};
use crate::Result;
use crate::path::{LeafArrayMode, Path};
use crate::pattern::Regex;

/// Conditions on a document.
#[derive(Debug)]
pub(crate) enum FilterExpression {
    /// All conditions hold. An empty list is always true.
    And(Vec<FilterExpression>),
    /// Any condition holds. An empty list is never true.
    Or(Vec<FilterExpression>),
    /// No condition holds.
    Nor(Vec<FilterExpression>),
    /// The condition does not hold.
    Not(Box<FilterExpression>),
    /// A value at the path passes the test.
    Field(Path, ValueTest),
    /// An aggregation expression is true.
    Expr(ExprCondition),
}

/// Conditions on a single value.
#[derive(Debug)]
pub(crate) enum ValuePredicate {
    /// All conditions hold. An empty list is always true.
    All(Vec<ValuePredicate>),
    /// The condition does not hold.
    Not(Box<ValuePredicate>),
    /// The value passes the test.
    Test(ValueTest),
    /// The condition is never true.
    Never,
}

/// A single test of a value. Tests that the planner understands have a variant of their own.
#[derive(Debug)]
pub(crate) enum ValueTest {
    Collated(CollatedTest),
    Compare(Comparison),
    ElemMatch(ElemMatch),
    Exists,
    In(Membership),
    Other(Box<dyn OpaqueTest>),
    Regex(Regex),
}

/// A test of a value that the planner does not understand.
pub(crate) trait OpaqueTest: fmt::Debug + Send + Sync {
    /// Returns whether a value passes. `None` is a missing value.
    fn matches_value(&self, value: Option<RawBsonRef<'_>>) -> bool;

    /// Returns whether arrays are tested element by element or only as a whole.
    fn leaf_mode(&self) -> LeafArrayMode {
        LeafArrayMode::Expand
    }

    /// Returns the rank of the operator among conditions: see [`FilterExpression::match_rank`].
    fn match_rank(&self) -> u8;

    /// Returns whether the test passes only for existing fields, so that MongoDB finds candidates
    /// in a wildcard index.
    fn requires_existing(&self) -> bool {
        false
    }
}

impl FilterExpression {
    /// Returns whether a document matches. Sets `position` to the array element that matched, if
    /// any. Callers ignore `position` if the result is false.
    ///
    /// # Errors
    /// An `$expr` fails.
    pub(crate) fn matches(
        &self,
        document: &RawDocument,
        position: &mut Option<usize>,
    ) -> Result<bool> {
        Ok(match self {
            FilterExpression::And(all) => {
                for inner in all {
                    if !inner.matches(document, position)? {
                        return Ok(false);
                    }
                }
                true
            }
            FilterExpression::Or(any) => match any.as_slice() {
                // Which branch matches is unspecified, so only a single branch sets the position.
                [only] => only.matches(document, position)?,
                any => any_matches(any, document)?,
            },
            FilterExpression::Nor(none) => !any_matches(none, document)?,
            FilterExpression::Not(inner) => !inner.matches(document, &mut None)?,
            FilterExpression::Field(path, test) => {
                path.walk(document, test.leaf_mode(), &mut |value, outer| {
                    let mut inner = None;
                    let matches = test.matches(value, &mut inner);
                    if matches && let Some(index) = outer.or(inner) {
                        *position = Some(index);
                    }
                    matches
                })
            }
            FilterExpression::Expr(expr) => expr.matches(document)?,
        })
    }
}

impl FilterExpression {
    /// Collects the conditions of nested conjunctions.
    pub(super) fn collect_conjuncts<'e>(&'e self, conjuncts: &mut Vec<&'e FilterExpression>) {
        match self {
            FilterExpression::And(all) => all
                .iter()
                .for_each(|inner| inner.collect_conjuncts(conjuncts)),
            FilterExpression::Or(any) if any.len() == 1 => {
                any.iter()
                    .for_each(|inner| inner.collect_conjuncts(conjuncts));
            }
            other => conjuncts.push(other),
        }
    }

    /// Returns the rank by which MongoDB orders conditions of a conjunction: by operator, then by
    /// path.
    pub(super) fn match_rank(&self) -> (u8, &str) {
        match self {
            FilterExpression::And(_) => (0, ""),
            FilterExpression::Or(_) => (1, ""),
            FilterExpression::Field(path, test) => (test.match_rank(), path.as_str()),
            FilterExpression::Not(_) => (18, ""),
            FilterExpression::Nor(_) => (19, ""),
            FilterExpression::Expr(_) => (21, ""),
        }
    }
}

fn comparison_rank(comparison: &Comparison) -> u8 {
    match comparison.operator {
        CompareOperator::Eq => 5,
        CompareOperator::Lte => 6,
        CompareOperator::Lt => 7,
        CompareOperator::Gt => 8,
        CompareOperator::Gte => 9,
    }
}

fn any_matches(any: &[FilterExpression], document: &RawDocument) -> Result<bool> {
    for inner in any {
        if inner.matches(document, &mut None)? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl ValuePredicate {
    /// Returns whether a value meets the conditions. Array elements are not tested.
    pub(crate) fn matches(&self, value: Option<RawBsonRef<'_>>) -> bool {
        match self {
            ValuePredicate::All(all) => all.iter().all(|inner| inner.matches(value)),
            ValuePredicate::Not(inner) => !inner.matches(value),
            ValuePredicate::Test(test) => test.matches(value, &mut None),
            ValuePredicate::Never => false,
        }
    }

    /// Applies the conditions to the values at a path.
    pub(super) fn at_path(self, path: &Path) -> FilterExpression {
        match self {
            ValuePredicate::All(all) => {
                FilterExpression::And(all.into_iter().map(|inner| inner.at_path(path)).collect())
            }
            ValuePredicate::Not(inner) => FilterExpression::Not(Box::new(inner.at_path(path))),
            ValuePredicate::Test(test) => FilterExpression::Field(path.clone(), test),
            ValuePredicate::Never => FilterExpression::Or(Vec::new()),
        }
    }

    /// Wraps a test that the planner does not understand.
    pub(super) fn from_opaque(operator: impl OpaqueTest + 'static) -> ValuePredicate {
        ValuePredicate::Test(ValueTest::Other(Box::new(operator)))
    }

    /// Returns the negation.
    pub(super) fn negated(self) -> ValuePredicate {
        ValuePredicate::Not(Box::new(self))
    }
}

impl ValueTest {
    /// Returns whether a value passes. A test of array elements sets `position` to the element that
    /// passed.
    pub(crate) fn matches(
        &self,
        value: Option<RawBsonRef<'_>>,
        position: &mut Option<usize>,
    ) -> bool {
        match self {
            ValueTest::Collated(collated) => collated.matches(value),
            ValueTest::Compare(comparison) => comparison.matches(value),
            ValueTest::ElemMatch(elements) => match value {
                Some(RawBsonRef::Array(array)) => {
                    let first_match = elements.first_match(array);
                    if first_match.is_some() {
                        *position = first_match;
                    }
                    first_match.is_some()
                }
                _ => false,
            },
            ValueTest::Exists => value.is_some(),
            ValueTest::In(membership) => membership.matches(value),
            ValueTest::Other(operator) => operator.matches_value(value),
            ValueTest::Regex(regex) => value.is_some_and(|value| regex.matches(value)),
        }
    }

    /// Returns whether the test passes only for existing fields, so that a wildcard index can find
    /// candidates.
    pub(crate) fn requires_existing(&self) -> bool {
        match self {
            ValueTest::Exists => true,
            ValueTest::Other(operator) => operator.requires_existing(),
            ValueTest::Collated(_)
            | ValueTest::Compare(_)
            | ValueTest::ElemMatch(_)
            | ValueTest::In(_)
            | ValueTest::Regex(_) => false,
        }
    }

    fn match_rank(&self) -> u8 {
        match self {
            ValueTest::ElemMatch(ElemMatch::Document(_)) => 2,
            ValueTest::ElemMatch(ElemMatch::Value(_)) => 3,
            ValueTest::Collated(collated) => match collated.operand() {
                CollatedOperand::Compare(comparison) => comparison_rank(comparison),
                CollatedOperand::In { .. } if collated.equal_value().is_some() => 5,
                CollatedOperand::In { .. } => 13,
            },
            ValueTest::Compare(comparison) => comparison_rank(comparison),
            ValueTest::Regex(_) => 10,
            ValueTest::Exists => 12,
            // MongoDB turns an `$in` with one value into an equality.
            ValueTest::In(membership) if membership.only_value().is_some() => 5,
            ValueTest::In(_) => 13,
            ValueTest::Other(operator) => operator.match_rank(),
        }
    }

    fn leaf_mode(&self) -> LeafArrayMode {
        match self {
            ValueTest::ElemMatch(_) => LeafArrayMode::Whole,
            ValueTest::Other(operator) => operator.leaf_mode(),
            ValueTest::Collated(_)
            | ValueTest::Compare(_)
            | ValueTest::Exists
            | ValueTest::In(_)
            | ValueTest::Regex(_) => LeafArrayMode::Expand,
        }
    }
}
