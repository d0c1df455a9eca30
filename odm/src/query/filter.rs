//! Conditions on documents.

use std::{marker::PhantomData, ops};

use bson::{RawBson, RawDocumentBuf};

use super::{render, variant::without_variants};
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
        render::filter(&without_variants(&self.node))
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
        Ok(value) => Node::Test(path.clone(), operator, value),
        Err(error) => Node::Refused(error.with_path(path.to_string())),
    })
}
