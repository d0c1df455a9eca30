//! Answers from the copies beside a reference, instead of a query for its targets.
//!
//! A copy answers only if a target cannot be missing while the copy has a value. Otherwise the answer would contain deleted,
//! soft-deleted or foreign documents, which a query for the targets leaves out.

use std::sync::Arc;

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::reference_path::ReferencePath;
use crate::{
    Result,
    language::{
        field::Path,
        query::{FilterNode, RelatedCondition, append_field},
    },
    model::{
        document::Document,
        projection::{ProjectedFields, Projection},
    },
    schema::{CopiedField, Model, ReferenceCopies, SharedScope},
    session::{access::Access, scope::Scope},
};

/// Returns whether a delete rule keeps the targets of a reference alive. The path leads from the document to the reference.
fn keeps_target(model: &Model, reference: &str) -> bool {
    let mut links = model.links().iter();
    links.any(|link| link.link_field.stored == reference && link.on_delete.requires_target())
}

/// Returns the condition on targets that the access can see. A target in the scope of the referrer is in the scope of the access.
fn visible_targets(access: &Access, referrer: &Model, target: &Model) -> Result<FilterNode> {
    match SharedScope::of_models(referrer, target) {
        None => access.restriction_node(target),
        Some(_) => access
            .clone()
            .with_scope(Scope::ALL)
            .restriction_node(target),
    }
}

/// A condition on the target of a reference, as a condition on copies.
pub(super) struct ConditionOnCopies {
    pub(super) node: FilterNode,
    /// The paths that the condition compares.
    pub(super) fields: Vec<Path>,
}

impl ConditionOnCopies {
    /// Converts a condition on the target. Returns `None` if the copies cannot answer the condition.
    ///
    /// `full_path` leads from the document to the reference, also if the condition concerns an array element.
    pub(super) fn from_related(
        access: &Access,
        model: &'static Model,
        full_path: &str,
        related: &RelatedCondition,
    ) -> Result<Option<Self>> {
        let reference = &related.reference;
        if access.reads_current_copies()
            || reference.meets_array()
            || reference.variant_condition().is_some()
        {
            return Ok(None);
        }
        let visible = visible_targets(access, model, related.model)?;
        let condition = related.condition.clone().and(visible);
        let mut rewrite = CopyRewrite {
            reference,
            copies: ReferenceCopies::of_reference(model.copies, full_path),
            fields: Vec::new(),
            is_cleared_on_delete: true,
        };
        let Some(node) = rewrite.rewrite(&condition) else {
            return Ok(None);
        };
        let rejects_null = rejects_null(&node);
        let is_sound =
            keeps_target(model, full_path) || (rewrite.is_cleared_on_delete && rejects_null);
        Ok(is_sound.then(|| Self {
            // Without a reference the copies are null, which the condition must not match.
            node: match rejects_null {
                true => node,
                false => node.and(FilterNode::Test(reference.clone(), "$ne", RawBson::Null)),
            },
            fields: rewrite.fields,
        }))
    }
}

/// The conversion of a condition on a target to a condition on copies.
struct CopyRewrite<'r> {
    reference: &'r Path,
    copies: Option<ReferenceCopies>,
    fields: Vec<Path>,
    /// Whether all compared fields become null when the target is deleted.
    is_cleared_on_delete: bool,
}

impl CopyRewrite<'_> {
    fn rewrite(&mut self, node: &FilterNode) -> Option<FilterNode> {
        Some(match node {
            FilterNode::All | FilterNode::Invalid(_) => node.clone(),
            // A copy can be null where the source lacks the field.
            FilterNode::Test(_, "$exists" | "$type", _) => return None,
            FilterNode::Test(path, operator, value) => {
                FilterNode::Test(self.copy_of(path)?, operator, value.clone())
            }
            FilterNode::Variant(path, tag) => FilterNode::Variant(self.copy_of(path)?, *tag),
            FilterNode::And(nodes) => FilterNode::And(self.rewrite_all(nodes)?),
            FilterNode::Or(nodes) => FilterNode::Or(self.rewrite_all(nodes)?),
            FilterNode::Not(node) => FilterNode::Not(Box::new(self.rewrite(node)?)),
            FilterNode::Element(..) | FilterNode::Expression(_) | FilterNode::Related(_) => {
                return None;
            }
        })
    }

    fn rewrite_all(&mut self, nodes: &[FilterNode]) -> Option<Vec<FilterNode>> {
        nodes.iter().map(|node| self.rewrite(node)).collect()
    }

    /// Returns the path of the copy of a field of the target.
    fn copy_of(&mut self, source: &Path) -> Option<Path> {
        let name = source.dotted().ok()?;
        if source.meets_array() {
            return None;
        }
        let path = if name == "_id" {
            self.is_cleared_on_delete = false;
            self.reference.clone()
        } else {
            let (copy, rest) = self.copies?.copy_of(name)?;
            self.is_cleared_on_delete &= copy.clears_on_delete;
            self.reference.sibling(&format!("{}{rest}", copy.stored))
        };
        let text = path.to_string();
        if !self.fields.iter().any(|field| field.to_string() == text) {
            self.fields.push(path.clone());
        }
        Some(path)
    }
}

/// Returns whether the condition is false if all its fields are null.
fn rejects_null(node: &FilterNode) -> bool {
    match node {
        FilterNode::Test(_, "$eq" | "$gt" | "$gte" | "$lt" | "$lte", value) => {
            *value != RawBson::Null
        }
        FilterNode::Test(_, "$in", RawBson::Array(values)) => {
            !(values.into_iter().flatten()).any(|value| value == RawBsonRef::Null)
        }
        FilterNode::Test(_, "$regex", _) => true,
        FilterNode::And(nodes) => nodes.iter().any(rejects_null),
        FilterNode::Or(nodes) => !nodes.is_empty() && nodes.iter().all(rejects_null),
        FilterNode::All
        | FilterNode::Test(..)
        | FilterNode::Variant(..)
        | FilterNode::Element(..)
        | FilterNode::Expression(_)
        | FilterNode::Related(_)
        | FilterNode::Not(_)
        | FilterNode::Invalid(_) => false,
    }
}

/// The copies that contain every field of a joined projection.
#[derive(Debug, Clone)]
pub(super) struct CoveringCopies {
    model: &'static Model,
    target: &'static Model,
    /// The path of the struct with the reference and the copies.
    holder: ReferencePath,
    /// The stored name of the reference in the struct.
    reference: String,
    /// The stored name of each field in the target, with the copy. `None` is the `_id`, which the reference contains.
    fields: Vec<(&'static str, Option<&'static CopiedField>)>,
}

impl CoveringCopies {
    /// Returns the copies for a join along a reference, or `None` if the join needs a query.
    pub(super) fn of_join<R: Projection<Of: Document>>(
        model: &'static Model,
        reference: &Path,
    ) -> Option<Self> {
        let ProjectedFields::Fields(fields) = R::FIELDS else {
            return None;
        };
        let target: &'static Model = &<R::Of as Document>::MODEL;
        let path = reference.dotted().ok()?;
        if target.upgrade.is_some()
            || reference.variant_condition().is_some()
            || !keeps_target(model, path)
        {
            return None;
        }
        let copies = ReferenceCopies::of_reference(model.copies, path)?;
        let fields = fields.iter().map(|(name, _)| match *name {
            "_id" => Some(("_id", None)),
            name => match copies.copy_of(name)? {
                (copy, "") => Some((name, Some(copy))),
                _ => None,
            },
        });
        let (holder, name) = path.rsplit_once('.').unwrap_or(("", path));
        Some(Self {
            model,
            target,
            holder: ReferencePath::from_dotted(holder),
            reference: name.to_owned(),
            fields: fields.collect::<Option<_>>()?,
        })
    }

    /// Returns the stored fields that a document must contain.
    pub(super) fn needed_fields(&self) -> impl Iterator<Item = String> {
        let copies = self.fields.iter().filter_map(|(_, copy)| *copy);
        copies.map(|copy| match self.holder.dotted() {
            "" => copy.stored.to_owned(),
            holder => format!("{holder}.{}", copy.stored),
        })
    }

    /// Returns the joined documents of each parent, in the order of the references, with the fields of the projection. `None` if
    /// the access may not see every target, or if a parent lacks a copy.
    pub(super) fn targets_of(
        &self,
        access: &Access,
        parents: &Arc<Vec<RawDocumentBuf>>,
    ) -> Result<Option<Vec<Vec<RawDocumentBuf>>>> {
        let visible = visible_targets(access, self.model, self.target)?;
        if access.reads_current_copies() || !matches!(visible, FilterNode::All) {
            return Ok(None);
        }
        let targets = parents.iter().map(|parent| self.targets_in(parent));
        targets.collect::<Option<Result<_>>>().transpose()
    }

    fn targets_in(&self, parent: &RawDocument) -> Option<Result<Vec<RawDocumentBuf>>> {
        let mut targets = Vec::new();
        for holder in self.holder.find_references(parent)? {
            let holder = holder.as_document()?;
            match holder.get(&self.reference).ok()? {
                None | Some(RawBsonRef::Null) => {}
                Some(id) => match self.target_in(holder, id)? {
                    Ok(target) => targets.push(target),
                    Err(error) => return Some(Err(error)),
                },
            }
        }
        Some(Ok(targets))
    }

    fn target_in(
        &self,
        holder: &RawDocument,
        id: RawBsonRef<'_>,
    ) -> Option<Result<RawDocumentBuf>> {
        let mut target = RawDocumentBuf::new();
        for (name, copy) in &self.fields {
            let value = match copy {
                None => id,
                Some(copy) => match holder.get(copy.stored).ok()? {
                    Some(RawBsonRef::Null) | None if (copy.omits_none)() => continue,
                    // The target may store null or lack the field, and a projection may tell the difference.
                    Some(RawBsonRef::Null) => return None,
                    Some(value) => value,
                    // The document is older than the declaration of the copy.
                    None => return None,
                },
            };
            if let Err(error) = append_field(&mut target, name, RawBson::from(value)) {
                return Some(Err(error));
            }
        }
        Some(Ok(target))
    }
}
