//! Rendering of conditions on enum variants to MongoDB operators.
//!
//! An externally tagged enum is stored as a text or a document. An element that is "not a card" may be either, and `$elemMatch`
//! has different syntax for documents and for values. Such a condition is split into one condition for documents and one for
//! texts.

use std::borrow::Cow;

use super::filter::{FilterNode, nested_test};
use crate::language::field::{Path, Tag};

/// Returns the node with every [`FilterNode::Variant`] expanded.
pub(super) fn without_variants(node: &FilterNode) -> Cow<'_, FilterNode> {
    if has_variants(node) {
        Cow::Owned(expand_variants(node))
    } else {
        Cow::Borrowed(node)
    }
}

/// Returns the condition of a `$pull` with every [`FilterNode::Variant`] expanded; `None` if several conditions would be needed.
pub(super) fn pull_condition(condition: &FilterNode) -> Option<Cow<'_, FilterNode>> {
    if !tests_external_tag(condition) {
        return Some(without_variants(condition));
    }
    let mut parts = split_by_kind(condition).into_iter();
    match (parts.next(), parts.next()) {
        (Some(only), None) => Some(Cow::Owned(only)),
        (None, _) => Some(Cow::Owned(match_nothing())),
        _ => None,
    }
}

fn has_variants(node: &FilterNode) -> bool {
    match node {
        FilterNode::Variant(..) => true,
        FilterNode::And(nodes) | FilterNode::Or(nodes) => nodes.iter().any(has_variants),
        FilterNode::Not(node) | FilterNode::Element(_, node) => has_variants(node),
        _ => false,
    }
}

fn expand_variants(node: &FilterNode) -> FilterNode {
    match node {
        FilterNode::Variant(path, tag) => variant_test(path, *tag),
        FilterNode::And(nodes) => nodes
            .iter()
            .map(expand_variants)
            .fold(FilterNode::All, FilterNode::and),
        FilterNode::Or(nodes) => FilterNode::Or(nodes.iter().map(expand_variants).collect()),
        FilterNode::Not(node) => FilterNode::Not(Box::new(expand_variants(node))),
        FilterNode::Element(path, condition) => expand_element(path, condition),
        other => other.clone(),
    }
}

/// Returns the tests for a variant.
fn variant_test(path: &Path, tag: Tag) -> FilterNode {
    match tag {
        Tag::Text(text) => nested_test(path, "$eq", text.into()),
        Tag::Key(name) => nested_test(&path.subfield(name), "$exists", true.into()),
        Tag::Field(name, text) => nested_test(&path.subfield(name), "$eq", text.into()),
        Tag::Other(name, known) => {
            let tag = path.subfield(name);
            let known: bson::RawArrayBuf = known.iter().copied().collect();
            nested_test(&tag, "$exists", true.into()).and(nested_test(&tag, "$nin", known.into()))
        }
    }
}

fn expand_element(path: &Path, condition: &FilterNode) -> FilterNode {
    if !tests_external_tag(condition) {
        return FilterNode::Element(path.clone(), Box::new(expand_variants(condition)));
    }
    let mut parts = split_by_kind(condition);
    match parts.len() {
        0 => match_nothing(),
        1 => FilterNode::Element(path.clone(), Box::new(parts.remove(0))),
        _ => FilterNode::Or(
            parts
                .into_iter()
                .map(|part| FilterNode::Element(path.clone(), Box::new(part)))
                .collect(),
        ),
    }
}

/// Returns whether the condition tests elements for variants of an externally tagged enum.
fn tests_external_tag(node: &FilterNode) -> bool {
    match node {
        FilterNode::Variant(path, Tag::Text(_) | Tag::Key(_)) => is_whole_element(path),
        FilterNode::And(nodes) | FilterNode::Or(nodes) => nodes.iter().any(tests_external_tag),
        FilterNode::Not(node) => tests_external_tag(node),
        _ => false,
    }
}

/// Returns whether the path is the element, and not an element of an inner array.
fn is_whole_element(path: &Path) -> bool {
    path.is_root() && path.split_nested_array().is_none()
}

/// Splits a condition into a part for elements that are documents and a part for all other elements. A part that no element can
/// meet is left out.
fn split_by_kind(condition: &FilterNode) -> Vec<FilterNode> {
    let is_document = || FilterNode::Test(Path::ROOT, "$type", "object".into());
    let mut parts = Vec::new();
    match simplify_for_element(condition, ElementKind::Document) {
        Simplified::Never => {}
        Simplified::Always => parts.push(is_document()),
        Simplified::Where(node) => parts.push(node),
    }
    match simplify_for_element(condition, ElementKind::Text) {
        Simplified::Never => {}
        Simplified::Always => parts.push(FilterNode::Not(Box::new(is_document()))),
        Simplified::Where(node) if lists_values(&node) => parts.push(node),
        // Documents are values too, and would meet a negated condition on texts.
        Simplified::Where(node) => parts.push(node.and(FilterNode::Not(Box::new(is_document())))),
    }
    parts
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ElementKind {
    Document,
    Text,
}

/// A condition, simplified for elements of one kind.
#[expect(
    clippy::large_enum_variant,
    reason = "a value is taken apart at once, and a box would cost an allocation for each condition"
)]
enum Simplified {
    Always,
    Never,
    Where(FilterNode),
}

fn simplify_for_element(node: &FilterNode, kind: ElementKind) -> Simplified {
    match (node, kind) {
        (FilterNode::Variant(path, tag), _) if is_whole_element(path) => match (tag, kind) {
            (Tag::Text(_), ElementKind::Text) | (Tag::Key(_), ElementKind::Document) => {
                Simplified::Where(variant_test(path, *tag))
            }
            (Tag::Text(_), ElementKind::Document) | (_, ElementKind::Text) => Simplified::Never,
            _ => Simplified::Where(variant_test(path, *tag)),
        },
        (FilterNode::Not(node), _) => match simplify_for_element(node, kind) {
            Simplified::Always => Simplified::Never,
            Simplified::Never => Simplified::Always,
            Simplified::Where(node) => Simplified::Where(FilterNode::Not(Box::new(node))),
        },
        (FilterNode::And(nodes), _) => {
            let mut all = FilterNode::All;
            for node in nodes {
                match simplify_for_element(node, kind) {
                    Simplified::Never => return Simplified::Never,
                    Simplified::Always => {}
                    Simplified::Where(node) => all = all.and(node),
                }
            }
            match all {
                FilterNode::All => Simplified::Always,
                all => Simplified::Where(all),
            }
        }
        (FilterNode::Or(nodes), _) => {
            let mut any = Vec::new();
            for node in nodes {
                match simplify_for_element(node, kind) {
                    Simplified::Always => return Simplified::Always,
                    Simplified::Never => {}
                    Simplified::Where(node) => any.push(node),
                }
            }
            match any.len() {
                0 => Simplified::Never,
                1 => Simplified::Where(any.remove(0)),
                _ => Simplified::Where(FilterNode::Or(any)),
            }
        }
        (FilterNode::All, _) => Simplified::Always,
        // A comparison with a whole value, which is a text or a document.
        (FilterNode::Test(path, operator @ ("$eq" | "$ne"), value), _) if path.is_root() => {
            let is_document = value.as_document().is_some();
            if is_document == (kind == ElementKind::Document) {
                Simplified::Where(node.clone())
            } else if *operator == "$eq" {
                Simplified::Never
            } else {
                Simplified::Always
            }
        }
        (FilterNode::Invalid(_), _) => Simplified::Where(node.clone()),
        (FilterNode::Test(path, ..), _) if path.is_root() => Simplified::Where(node.clone()),
        // A text has no fields, and conditions on fields concern variants that are documents.
        (_, ElementKind::Text) => Simplified::Never,
        (node, ElementKind::Document) => Simplified::Where(expand_variants(node)),
    }
}

/// Returns whether only listed texts can meet the condition.
fn lists_values(node: &FilterNode) -> bool {
    match node {
        FilterNode::Test(_, "$eq" | "$in", _) => true,
        FilterNode::And(nodes) => nodes.iter().any(lists_values),
        FilterNode::Or(nodes) => nodes.iter().all(lists_values),
        _ => false,
    }
}

/// Returns a condition that no document meets.
fn match_nothing() -> FilterNode {
    FilterNode::Not(Box::new(FilterNode::All))
}
