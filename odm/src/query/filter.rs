//! Conditions on documents.

use std::{marker::PhantomData, ops};

use bson::{RawArrayBuf, RawBson, RawDocumentBuf};

use super::render;
use crate::{
    Error, Result, error,
    field::{Path, Tag},
};

/// A condition on documents of the model `M`, or on elements of one of its arrays.
///
/// Made by the operators of fields and combined by `&`, `|` and `!`. A value in it is always a value: it cannot become
/// an operator, wherever it comes from.
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
    node: Node,
    of: PhantomData<fn() -> M>,
}

/// The tree behind a [`Filter`].
#[derive(Debug, Clone)]
pub(crate) enum Node {
    /// Every document.
    All,
    /// One operator with its value, at a path.
    Test(Path, &'static str, RawBson),
    /// The value at a path is of a variant of its enum.
    Variant(Path, Tag),
    /// One element of the array at a path meets the condition.
    Element(Path, Box<Node>),
    /// An expression that is true of the document: `$expr`.
    Expression(RawBson),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    /// A value that could not be encoded, reported when the filter is used.
    Refused(Error),
}

impl<M> Filter<M> {
    /// Every document: for `update_many` and `delete_many`, which ask for a condition so that none is left out by mistake.
    pub fn all() -> Self {
        Self::from_node(Node::All)
    }

    pub(crate) fn from_node(node: Node) -> Self {
        Self {
            node,
            of: PhantomData,
        }
    }

    pub(crate) fn into_node(self) -> Node {
        self.node
    }

    /// The filter as MongoDB reads it.
    ///
    /// # Errors
    ///
    /// [`Encode`](crate::ErrorKind::Encode) or [`Invalid`](crate::ErrorKind::Invalid) for a value, a pattern or a map's
    /// key that cannot be asked for.
    pub fn to_raw(&self) -> Result<RawDocumentBuf> {
        render::filter(&self.node)
    }
}

impl<M> Clone for Filter<M> {
    fn clone(&self) -> Self {
        Self::from_node(self.node.clone())
    }
}

impl<M> std::fmt::Debug for Filter<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let readable = self
            .to_raw()
            .and_then(|raw| bson::Document::try_from(raw).map_err(error::encode));
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
            (Node::All, _) | (_, Node::All) => Node::All,
            (Node::Or(mut a), Node::Or(b)) => {
                a.extend(b);
                Node::Or(a)
            }
            (Node::Or(mut a), b) => {
                a.push(b);
                Node::Or(a)
            }
            (a, b) => Node::Or(vec![a, b]),
        })
    }
}

impl<M> ops::Not for Filter<M> {
    type Output = Self;
    fn not(self) -> Self {
        Self::from_node(Node::Not(Box::new(self.node)))
    }
}

impl Node {
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

impl Node {
    /// Both, where `ways` are alternatives.
    ///
    /// What is the same for all of them is said in each. A database then looks for each way by itself, in an index that
    /// begins with the common fields, and not for all that they have in common.
    pub(crate) fn and_each(self, ways: Self) -> Self {
        let Self::Or(ways) = ways else {
            return self.and(ways);
        };
        let nodes = match self {
            Self::And(nodes) => nodes,
            node => vec![node],
        };
        let is_equality = |node: &Self| matches!(node, Self::Test(_, "$eq", _));
        let (common, rest): (Vec<_>, Vec<_>) = nodes.into_iter().partition(is_equality);
        let each = ways.into_iter().map(|way| {
            let common = common.iter().cloned();
            common.fold(Self::All, Self::and).and(way)
        });
        rest.into_iter()
            .fold(Self::All, Self::and)
            .and(Self::Or(each.collect()))
    }
}

/// What a filter closure may return: a filter, or an option of one, where `None` asks for nothing.
#[diagnostic::on_unimplemented(
    message = "expected a condition on `{M}`, got `{Self}`",
    label = "not a `Filter<{M}>`",
    note = "conditions come from a field's operators, such as `p.votes().gt(3)`, and are combined by `&`, `|` and `!`, not by `&&` and `||`"
)]
pub trait IntoFilter<M> {
    /// The filter, if any.
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

/// The condition that an operator holds at a path.
pub(crate) fn test<M>(path: &Path, operator: &'static str, value: Result<RawBson>) -> Filter<M> {
    Filter::from_node(match value {
        Ok(value) => inside(path, operator, value),
        Err(error) => Node::Refused(error.with_path(path.to_string())),
    })
}

/// No path leads through an array inside an array: such a place is one of an element of the outer one.
pub(super) fn inside(path: &Path, operator: &'static str, value: RawBson) -> Node {
    let Some((outer, inner)) = path.inner() else {
        return plain(path, operator, value);
    };
    let any = |operator, value| element(&outer, inside(&inner, operator, value));
    match (operator, value) {
        // What no element is, is not what any element is not.
        ("$ne", value) => Node::Not(Box::new(any("$eq", value))),
        ("$nin", value) => Node::Not(Box::new(any("$in", value))),
        // Each value may be another element.
        ("$all", RawBson::Array(values)) => {
            let values = values.into_iter().flatten().map(RawBson::from);
            let each = values.map(|value| any("$eq", value));
            match each.reduce(Node::and) {
                Some(all) => all,
                None => any("$in", RawArrayBuf::new().into()),
            }
        }
        (operator, value) => any(operator, value),
    }
}

/// A test that takes its value for a value. MongoDB reads a regular expression in a list as a pattern, and refuses documents
/// that look like an operator there; behind `$eq` both are values.
fn plain(path: &Path, operator: &'static str, value: RawBson) -> Node {
    let equal = |value: RawBson| Node::Test(path.clone(), "$eq", value);
    match (operator, value) {
        ("$ne", value) if is_special(&value) => Node::Not(Box::new(equal(value))),
        ("$in" | "$nin" | "$all", RawBson::Array(values))
            if (&values)
                .into_iter()
                .flatten()
                .any(|value| is_special(&value.into())) =>
        {
            let values = values.into_iter().flatten().map(RawBson::from);
            if operator == "$all" {
                return Node::And(values.map(equal).collect());
            }
            let any = Node::Or(values.map(equal).collect());
            match operator {
                "$in" => any,
                _ => Node::Not(Box::new(any)),
            }
        }
        (operator, value) => Node::Test(path.clone(), operator, value),
    }
}

/// Whether MongoDB reads it as something else than a value where it can: a pattern, or an operator.
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

/// One element of the array at a path meets the condition.
pub(crate) fn element(path: &Path, condition: Node) -> Node {
    match path.inner() {
        None => Node::Element(path.clone(), Box::new(condition)),
        Some((outer, inner)) => element(&outer, element(&inner, condition)),
    }
}
