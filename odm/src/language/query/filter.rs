//! Filters: conditions on documents.

use std::{marker::PhantomData, ops};

use bson::{RawArrayBuf, RawBson, RawDocumentBuf};

use super::{
    RelatedCondition,
    related::{description, has_related},
    render,
};
use crate::{
    Error, Result, error,
    language::field::{Path, Tag},
};

/// A condition on documents of the model `M`, or on elements of an array of `M`.
///
/// Field operators create filters; `&`, `|` and `!` combine filters. A value in a filter is never read as an operator, even if
/// the value is user input.
///
/// ```
/// # use odm::prelude::*;
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "posts")]
/// # struct Post { #[serde(rename = "_id")] id: i64, author: String, votes: i64, draft: bool }
/// # type Db = odm::Database<Blog>;
/// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
/// # fn f(db: &Db) {
/// db.find::<Post>().filter(|p| p.author().eq("alex") & (p.votes().gte(10) | !p.draft().eq(true)));
/// # }
/// ```
#[must_use = "a filter does nothing until it is given to a query or an update"]
pub struct Filter<M> {
    node: FilterNode,
    of: PhantomData<fn() -> M>,
}

/// The expression tree of a [`Filter`].
#[derive(Debug, Clone)]
pub(crate) enum FilterNode {
    /// Matches every document.
    All,
    /// Applies an operator with a value at a path.
    Test(Path, &'static str, RawBson),
    /// The value at a path is of this variant of an enum.
    Variant(Path, Tag),
    /// One element of the array at a path meets the condition.
    Element(Path, Box<FilterNode>),
    /// An expression that is true for the document: `$expr`.
    Expression(RawBson),
    /// A condition on documents of another model. Resolved to conditions on the document itself before the filter is rendered.
    Related(Box<RelatedCondition>),
    And(Vec<FilterNode>),
    Or(Vec<FilterNode>),
    Not(Box<FilterNode>),
    /// A value with an encoding error, which is returned when the filter is used.
    Invalid(Error),
}

impl<M> Filter<M> {
    /// Returns a filter that matches every document. `update_many` and `delete_many` require a filter, so that a forgotten
    /// condition does not change all documents.
    pub fn all() -> Self {
        Self::from_node(FilterNode::All)
    }

    pub(crate) fn from_node(node: FilterNode) -> Self {
        Self {
            node,
            of: PhantomData,
        }
    }

    pub(crate) fn into_node(self) -> FilterNode {
        self.node
    }

    /// Returns the filter document for MongoDB.
    ///
    /// # Errors
    ///
    /// [`Encode`](crate::ErrorKind::Encode) or [`Invalid`](crate::ErrorKind::Invalid) for a value, a pattern or a map key that a
    /// filter cannot contain; [`Unsupported`](crate::ErrorKind::Unsupported) for a condition on related documents, such as
    /// `p.category().matches(…)`, which only a query or a write can answer.
    pub fn to_raw(&self) -> Result<RawDocumentBuf> {
        render::render_filter(&self.node)
    }
}

impl<M> Clone for Filter<M> {
    fn clone(&self) -> Self {
        Self::from_node(self.node.clone())
    }
}

impl<M> std::fmt::Debug for Filter<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let readable = render::render_filter(&description(&self.node))
            .and_then(|raw| bson::Document::try_from(raw).map_err(error::from_bson));
        match readable {
            Ok(document) => write!(f, "Filter({document})"),
            Err(error) => write!(f, "Filter({error:?})"),
        }
    }
}

impl<M> ops::BitAnd for Filter<M> {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self::from_node(self.node.and(other.node))
    }
}

impl<M> ops::BitOr for Filter<M> {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self::from_node(match (self.node, other.node) {
            (FilterNode::All, _) | (_, FilterNode::All) => FilterNode::All,
            (FilterNode::Or(mut a), FilterNode::Or(b)) => {
                a.extend(b);
                FilterNode::Or(a)
            }
            (FilterNode::Or(mut a), b) => {
                a.push(b);
                FilterNode::Or(a)
            }
            (a, b) => FilterNode::Or(vec![a, b]),
        })
    }
}

impl<M> ops::Not for Filter<M> {
    type Output = Self;
    fn not(self) -> Self {
        Self::from_node(FilterNode::Not(Box::new(self.node)))
    }
}

impl FilterNode {
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, node) | (node, Self::All) => node,
            (Self::And(mut a), Self::And(b)) => {
                a.extend(b);
                Self::And(a)
            }
            (Self::And(mut a), b) => {
                a.push(b);
                Self::And(a)
            }
            (a, b) => Self::And(vec![a, b]),
        }
    }
}

impl FilterNode {
    /// Returns whether the node has a condition on documents of another model.
    pub(crate) fn has_related(&self) -> bool {
        has_related(self)
    }

    /// Combines the node with alternatives.
    ///
    /// The equality conditions are repeated in each alternative. A database can then use an index with the common fields first
    /// for each alternative, instead of reading all documents with the common fields.
    pub(crate) fn and_alternatives(self, alternatives: Self) -> Self {
        let Self::Or(alternatives) = alternatives else {
            return self.and(alternatives);
        };
        let nodes = match self {
            Self::And(nodes) => nodes,
            node => vec![node],
        };
        let is_equality = |node: &Self| matches!(node, Self::Test(_, "$eq", _));
        let (common, rest): (Vec<_>, Vec<_>) = nodes.into_iter().partition(is_equality);
        let each = alternatives.into_iter().map(|alternative| {
            let common = common.iter().cloned();
            common.fold(Self::All, Self::and).and(alternative)
        });
        rest.into_iter()
            .fold(Self::All, Self::and)
            .and(Self::Or(each.collect()))
    }
}

/// The result of a filter closure: a filter, or an option of a filter, where `None` means no condition.
#[diagnostic::on_unimplemented(
    message = "expected a condition on `{M}`, got `{Self}`",
    label = "not a `Filter<{M}>`",
    note = "conditions come from a field's operators, such as `p.votes().gt(3)`; combine them by `&`, `|` and `!`, not by `&&` \
         and `||`",
    note = "a condition on the target of a reference is `p.author().matches(|a| a.name().eq(…))`, or a condition on a copy of the field"
)]
pub trait IntoFilter<M> {
    /// Returns the filter, if any.
    fn into_filter(self) -> Option<Filter<M>>;
}

#[diagnostic::do_not_recommend]
impl<M> IntoFilter<M> for Filter<M> {
    fn into_filter(self) -> Option<Self> {
        Some(self)
    }
}

#[diagnostic::do_not_recommend]
impl<M> IntoFilter<M> for Option<Filter<M>> {
    fn into_filter(self) -> Self {
        self
    }
}

/// Returns the condition that an operator holds at a path.
pub(crate) fn field_test<M>(
    path: &Path,
    operator: &'static str,
    value: Result<RawBson>,
) -> Filter<M> {
    Filter::from_node(match value {
        Ok(value) => nested_test(path, operator, value),
        Err(error) => FilterNode::Invalid(error.with_path(path.to_string())),
    })
}

/// Returns a test at a path, which may pass through an array inside an array. MongoDB has no path for such a place, so the test
/// becomes a condition on an element of the outer array.
pub(super) fn nested_test(path: &Path, operator: &'static str, value: RawBson) -> FilterNode {
    let Some((outer, inner)) = path.split_nested_array() else {
        return value_test(path, operator, value);
    };
    let any = |operator, value| element_match(&outer, nested_test(&inner, operator, value));
    match (operator, value) {
        // A negation holds for all elements, so the negation must enclose the element condition.
        ("$ne", value) => FilterNode::Not(Box::new(any("$eq", value))),
        ("$nin", value) => FilterNode::Not(Box::new(any("$in", value))),
        // Different elements may contain the values.
        ("$all", RawBson::Array(values)) => {
            let values = values.into_iter().flatten().map(RawBson::from);
            let each = values.map(|value| any("$eq", value));
            match each.reduce(FilterNode::and) {
                Some(all) => all,
                None => any("$in", RawArrayBuf::new().into()),
            }
        }
        (operator, value) => any(operator, value),
    }
}

/// Returns a test that compares values only. In a list, MongoDB reads a regular expression as a pattern, and rejects documents
/// that look like operators. With `$eq`, both are values.
fn value_test(path: &Path, operator: &'static str, value: RawBson) -> FilterNode {
    let equal = |value: RawBson| FilterNode::Test(path.clone(), "$eq", value);
    match (operator, value) {
        ("$ne", value) if is_special(&value) => FilterNode::Not(Box::new(equal(value))),
        ("$in" | "$nin" | "$all", RawBson::Array(values))
            if (&values)
                .into_iter()
                .flatten()
                .any(|value| is_special(&value.into())) =>
        {
            let values = values.into_iter().flatten().map(RawBson::from);
            if operator == "$all" {
                return FilterNode::And(values.map(equal).collect());
            }
            let any = FilterNode::Or(values.map(equal).collect());
            match operator {
                "$in" => any,
                _ => FilterNode::Not(Box::new(any)),
            }
        }
        (operator, value) => FilterNode::Test(path.clone(), operator, value),
    }
}

/// Returns whether MongoDB may read the value as a pattern or as an operator.
pub(super) fn is_special(value: &RawBson) -> bool {
    match value {
        RawBson::RegularExpression(_) => true,
        RawBson::Document(document) => document
            .iter_elements()
            .next()
            .is_some_and(|first| first.is_ok_and(|first| first.key().as_str().starts_with('$'))),
        _ => false,
    }
}

/// Returns the condition that one element of the array at a path meets the condition.
pub(crate) fn element_match(path: &Path, condition: FilterNode) -> FilterNode {
    match path.split_nested_array() {
        None => FilterNode::Element(path.clone(), Box::new(condition)),
        Some((outer, inner)) => element_match(&outer, element_match(&inner, condition)),
    }
}
