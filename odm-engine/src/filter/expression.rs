//! What a filter says, as a tree.

use std::fmt;

use bson::{RawBsonRef, RawDocument};

use super::expr::Expr;
use super::{CompareOperator, Comparison, ElemMatch, Membership};
use crate::Result;
use crate::path::{Leaf, Path};
use crate::pattern::Regex;

/// Conditions on a document.
#[derive(Debug)]
pub(crate) enum Expression {
    /// All of them hold. None at all is always true.
    And(Vec<Expression>),
    /// Any of them holds. None at all is never true.
    Or(Vec<Expression>),
    /// None of them holds.
    Nor(Vec<Expression>),
    /// It does not hold.
    Not(Box<Expression>),
    /// One of the values that the path reaches passes the test.
    Field(Path, Test),
    /// An aggregation expression is true.
    Expr(Expr),
}

/// Conditions on a single value.
#[derive(Debug)]
pub(crate) enum Predicate {
    /// All of them hold. None at all is always true.
    All(Vec<Predicate>),
    /// It does not hold.
    Not(Box<Predicate>),
    /// The value passes the test.
    Test(Test),
    /// Never true.
    Never,
}

/// One condition on a value. Those that the planner can use have a variant of their own.
#[derive(Debug)]
pub(crate) enum Test {
    Compare(Comparison),
    ElemMatch(ElemMatch),
    Exists,
    In(Membership),
    Other(Box<dyn Operator>),
    Regex(Regex),
}

/// A condition on a value that only matching has to understand.
pub(crate) trait Operator: fmt::Debug + Send + Sync {
    /// Whether a value passes; `None` is a missing one.
    fn matches(&self, value: Option<RawBsonRef<'_>>) -> bool;

    /// Whether an array is tested element by element, or only itself.
    fn leaf(&self) -> Leaf {
        Leaf::Expand
    }

    /// The place of the operator among the conditions of a filter: see [`Expression::rank`].
    fn rank(&self) -> u8;

    /// Whether it is only for fields that exist, and MongoDB looks for these in an index of all fields.
    fn seeks_existing(&self) -> bool {
        false
    }
}

impl Expression {
    /// Whether a document matches. Sets the position of the array element that decided it, if
    /// there is one; callers ignore what is set if the answer is no.
    ///
    /// # Errors
    /// What an `$expr` fails with; there are no others.
    pub(crate) fn matches(
        &self,
        document: &RawDocument,
        position: &mut Option<usize>,
    ) -> Result<bool> {
        Ok(match self {
            Expression::And(all) => {
                for inner in all {
                    if !inner.matches(document, position)? {
                        return Ok(false);
                    }
                }
                true
            }
            Expression::Or(any) => match any.as_slice() {
                // Which branch decides is unspecified, so only a sole one sets the position.
                [only] => only.matches(document, position)?,
                any => any_matches(any, document)?,
            },
            Expression::Nor(none) => !any_matches(none, document)?,
            Expression::Not(inner) => !inner.matches(document, &mut None)?,
            Expression::Field(path, test) => {
                path.walk(document, test.leaf(), &mut |value, outer| {
                    let mut inner = None;
                    let matches = test.matches(value, &mut inner);
                    if matches && let Some(index) = outer.or(inner) {
                        *position = Some(index);
                    }
                    matches
                })
            }
            Expression::Expr(expr) => expr.matches(document)?,
        })
    }
}

impl Expression {
    /// The conditions that all hold, without the conjunctions around them.
    pub(super) fn conjuncts<'e>(&'e self, found: &mut Vec<&'e Expression>) {
        match self {
            Expression::And(all) => all.iter().for_each(|inner| inner.conjuncts(found)),
            Expression::Or(any) if any.len() == 1 => {
                any.iter().for_each(|inner| inner.conjuncts(found));
            }
            other => found.push(other),
        }
    }

    /// The order in which MongoDB looks at conditions that all have to hold: by operator, then by path.
    pub(super) fn rank(&self) -> (u8, &str) {
        match self {
            Expression::And(_) => (0, ""),
            Expression::Or(_) => (1, ""),
            Expression::Field(path, test) => (test.rank(), path.as_str()),
            Expression::Not(_) => (18, ""),
            Expression::Nor(_) => (19, ""),
            Expression::Expr(_) => (21, ""),
        }
    }
}

fn any_matches(any: &[Expression], document: &RawDocument) -> Result<bool> {
    for inner in any {
        if inner.matches(document, &mut None)? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Predicate {
    /// Whether a value by itself, arrays not entered, meets the conditions.
    pub(crate) fn matches(&self, value: Option<RawBsonRef<'_>>) -> bool {
        match self {
            Predicate::All(all) => all.iter().all(|inner| inner.matches(value)),
            Predicate::Not(inner) => !inner.matches(value),
            Predicate::Test(test) => test.matches(value, &mut None),
            Predicate::Never => false,
        }
    }

    /// The conditions, asked of what a path reaches.
    pub(super) fn at(self, path: &Path) -> Expression {
        match self {
            Predicate::All(all) => {
                Expression::And(all.into_iter().map(|inner| inner.at(path)).collect())
            }
            Predicate::Not(inner) => Expression::Not(Box::new(inner.at(path))),
            Predicate::Test(test) => Expression::Field(path.clone(), test),
            Predicate::Never => Expression::Or(Vec::new()),
        }
    }

    /// A condition that is no more than a test.
    pub(super) fn other(operator: impl Operator + 'static) -> Predicate {
        Predicate::Test(Test::Other(Box::new(operator)))
    }

    /// The opposite.
    pub(super) fn negated(self) -> Predicate {
        Predicate::Not(Box::new(self))
    }
}

impl Test {
    /// Whether a value passes. Sets the position of the element that decided it, if the test is
    /// one on array elements.
    pub(crate) fn matches(
        &self,
        value: Option<RawBsonRef<'_>>,
        position: &mut Option<usize>,
    ) -> bool {
        match self {
            Test::Compare(comparison) => comparison.matches(value),
            Test::ElemMatch(elements) => match value {
                Some(RawBsonRef::Array(array)) => {
                    let found = elements.position(array);
                    if found.is_some() {
                        *position = found;
                    }
                    found.is_some()
                }
                _ => false,
            },
            Test::Exists => value.is_some(),
            Test::In(membership) => membership.matches(value),
            Test::Other(operator) => operator.matches(value),
            Test::Regex(regex) => value.is_some_and(|value| regex.matches(value)),
        }
    }

    /// Whether the test is only for fields that exist, and an index of all fields serves to find these.
    pub(crate) fn seeks_existing(&self) -> bool {
        match self {
            Test::Exists => true,
            Test::Other(operator) => operator.seeks_existing(),
            Test::Compare(_) | Test::ElemMatch(_) | Test::In(_) | Test::Regex(_) => false,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Test::ElemMatch(ElemMatch::Document(_)) => 2,
            Test::ElemMatch(ElemMatch::Value(_)) => 3,
            Test::Compare(comparison) => match comparison.operator {
                CompareOperator::Eq => 5,
                CompareOperator::Lte => 6,
                CompareOperator::Lt => 7,
                CompareOperator::Gt => 8,
                CompareOperator::Gte => 9,
            },
            Test::Regex(_) => 10,
            Test::Exists => 12,
            // MongoDB makes an equality of a list of one.
            Test::In(membership) if membership.only_value().is_some() => 5,
            Test::In(_) => 13,
            Test::Other(operator) => operator.rank(),
        }
    }

    fn leaf(&self) -> Leaf {
        match self {
            Test::ElemMatch(_) => Leaf::Whole,
            Test::Other(operator) => operator.leaf(),
            Test::Compare(_) | Test::Exists | Test::In(_) | Test::Regex(_) => Leaf::Expand,
        }
    }
}
