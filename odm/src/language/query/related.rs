//! Conditions on documents of another model: the targets of a reference, or the children of the document.

use std::borrow::Cow;

use bson::{RawBson, RawDocumentBuf};

use super::{
    filter::FilterNode,
    render::{append_field, render_filter},
};
use crate::{Error, ErrorKind, Result, language::field::Path, schema::Model};

/// A condition on related documents: at least one of them exists and meets the condition.
#[derive(Debug, Clone)]
pub(crate) struct RelatedCondition {
    pub(crate) relation: Relation,
    /// The path of the reference: in the document for targets, and in the children for children.
    pub(crate) reference: Path,
    /// The model of the related documents.
    pub(crate) model: &'static Model,
    /// The condition on a related document.
    pub(crate) condition: FilterNode,
}

/// The direction from a document to the related documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// The documents that the document refers to.
    Targets,
    /// The documents that refer to the document.
    Children,
}

impl From<RelatedCondition> for FilterNode {
    fn from(related: RelatedCondition) -> Self {
        Self::Related(Box::new(related))
    }
}

pub(super) fn has_related(node: &FilterNode) -> bool {
    match node {
        FilterNode::Related(_) => true,
        FilterNode::And(nodes) | FilterNode::Or(nodes) => nodes.iter().any(has_related),
        FilterNode::Not(node) | FilterNode::Element(_, node) => has_related(node),
        FilterNode::All
        | FilterNode::Test(..)
        | FilterNode::Variant(..)
        | FilterNode::Expression(_)
        | FilterNode::Invalid(_) => false,
    }
}

/// Returns the node with a readable operator for each condition on related documents, for messages and hashes. No database
/// understands these operators.
pub(crate) fn description(node: &FilterNode) -> Cow<'_, FilterNode> {
    if !has_related(node) {
        return Cow::Borrowed(node);
    }
    Cow::Owned(match node {
        FilterNode::And(nodes) => FilterNode::And(describe_all(nodes)),
        FilterNode::Or(nodes) => FilterNode::Or(describe_all(nodes)),
        FilterNode::Not(node) => FilterNode::Not(Box::new(description(node).into_owned())),
        FilterNode::Element(path, node) => {
            FilterNode::Element(path.clone(), Box::new(description(node).into_owned()))
        }
        FilterNode::Related(related) => match related.describe() {
            Ok(node) => node,
            Err(error) => FilterNode::Invalid(error),
        },
        other => other.clone(),
    })
}

fn describe_all(nodes: &[FilterNode]) -> Vec<FilterNode> {
    let nodes = nodes.iter();
    nodes.map(|node| description(node).into_owned()).collect()
}

impl RelatedCondition {
    fn describe(&self) -> Result<FilterNode> {
        let mut operand = RawDocumentBuf::new();
        append_field(&mut operand, "collection", self.model.collection)?;
        let (path, operator) = match self.relation {
            Relation::Targets => (self.reference.clone(), "$targets"),
            Relation::Children => {
                append_field(&mut operand, "reference", self.reference.dotted()?)?;
                (Path::ROOT.subfield("_id"), "$children")
            }
        };
        let filter = render_filter(&description(&self.condition))?;
        append_field(&mut operand, "filter", filter)?;
        Ok(FilterNode::Test(path, operator, RawBson::Document(operand)))
    }
}

/// Returns the error of an operation that does not resolve conditions on related documents.
pub(super) fn unresolved_error(related: &RelatedCondition) -> Error {
    let advice = match related.relation {
        Relation::Targets => "read the ids by a query first, and compare the reference by `is_in`",
        Relation::Children => {
            "read the ids of the parents by a query first, and compare the `_id` by `is_in`"
        }
    };
    let message = format!(
        "this call cannot answer a condition on `{}`: {advice}",
        related.model.collection
    );
    Error::new(ErrorKind::Unsupported, message)
}
