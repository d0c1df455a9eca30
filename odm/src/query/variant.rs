//! Conditions on variants of enums, said in operators of MongoDB.
//!
//! An externally tagged enum is a text or a document. One element of an array that is "not a card" may be either, and
//! `$elemMatch` asks for documents in one language and for values in another: such a condition is taken apart into one
//! for each.

use std::borrow::Cow;

use super::filter::{Node, inside};
use crate::field::{Path, Tag};

/// The node without [`Node::Variant`].
pub(super) fn without_variants(node: &Node) -> Cow<'_, Node> {
    if has_variants(node) {
        Cow::Owned(said(node))
    } else {
        Cow::Borrowed(node)
    }
}

/// The condition of a `$pull` without [`Node::Variant`]; none if it takes more than one condition.
pub(super) fn of_elements(condition: &Node) -> Option<Cow<'_, Node>> {
    if !is_text_or_document(condition) {
        return Some(without_variants(condition));
    }
    let mut sides = sides(condition).into_iter();
    match (sides.next(), sides.next()) {
        (Some(only), None) => Some(Cow::Owned(only)),
        (None, _) => Some(Cow::Owned(nothing())),
        _ => None,
    }
}

fn has_variants(node: &Node) -> bool {
    match node {
        Node::Variant(..) => true,
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().any(has_variants),
        Node::Not(node) | Node::Element(_, node) => has_variants(node),
        _ => false,
    }
}

fn said(node: &Node) -> Node {
    match node {
        Node::Variant(path, tag) => test(path, *tag),
        Node::And(nodes) => nodes.iter().map(said).fold(Node::All, Node::and),
        Node::Or(nodes) => Node::Or(nodes.iter().map(said).collect()),
        Node::Not(node) => Node::Not(Box::new(said(node))),
        Node::Element(path, condition) => element(path, condition),
        other => other.clone(),
    }
}

/// The operators that ask for the variant.
fn test(path: &Path, tag: Tag) -> Node {
    match tag {
        Tag::Text(text) => inside(path, "$eq", text.into()),
        Tag::Key(name) => inside(&path.then(name), "$exists", true.into()),
        Tag::Field(name, text) => inside(&path.then(name), "$eq", text.into()),
        Tag::Other(name, known) => {
            let tag = path.then(name);
            let known: bson::RawArrayBuf = known.iter().copied().collect();
            inside(&tag, "$exists", true.into()).and(inside(&tag, "$nin", known.into()))
        }
    }
}

fn element(path: &Path, condition: &Node) -> Node {
    if !is_text_or_document(condition) {
        return Node::Element(path.clone(), Box::new(said(condition)));
    }
    let mut sides = sides(condition);
    match sides.len() {
        0 => nothing(),
        1 => Node::Element(path.clone(), Box::new(sides.remove(0))),
        _ => Node::Or(
            sides
                .into_iter()
                .map(|side| Node::Element(path.clone(), Box::new(side)))
                .collect(),
        ),
    }
}

/// Whether the condition is about elements that are values of an externally tagged enum.
fn is_text_or_document(node: &Node) -> bool {
    match node {
        Node::Variant(path, Tag::Text(_) | Tag::Key(_)) => is_itself(path),
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().any(is_text_or_document),
        Node::Not(node) => is_text_or_document(node),
        _ => false,
    }
}

/// Whether the path leads to the element, and not to those of an array that it is.
fn is_itself(path: &Path) -> bool {
    path.is_root() && path.inner().is_none()
}

/// The condition on elements that are documents and the one on those that are not, where they can be met.
fn sides(condition: &Node) -> Vec<Node> {
    let is_document = || Node::Test(Path::ROOT, "$type", "object".into());
    let mut sides = Vec::new();
    match side(condition, Side::Document) {
        Known::Never => {}
        Known::Always => sides.push(is_document()),
        Known::Where(node) => sides.push(node),
    }
    match side(condition, Side::Text) {
        Known::Never => {}
        Known::Always => sides.push(Node::Not(Box::new(is_document()))),
        Known::Where(node) if names_values(&node) => sides.push(node),
        // Documents are values too, and are none of those that are excluded.
        Known::Where(node) => sides.push(node.and(Node::Not(Box::new(is_document())))),
    }
    sides
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Document,
    Text,
}

/// A condition once it is known what the element is.
enum Known {
    Always,
    Never,
    Where(Node),
}

fn side(node: &Node, of: Side) -> Known {
    match (node, of) {
        (Node::Variant(path, tag), _) if is_itself(path) => match (tag, of) {
            (Tag::Text(_), Side::Text) | (Tag::Key(_), Side::Document) => {
                Known::Where(test(path, *tag))
            }
            (Tag::Text(_), Side::Document) | (_, Side::Text) => Known::Never,
            _ => Known::Where(test(path, *tag)),
        },
        (Node::Not(node), _) => match side(node, of) {
            Known::Always => Known::Never,
            Known::Never => Known::Always,
            Known::Where(node) => Known::Where(Node::Not(Box::new(node))),
        },
        (Node::And(nodes), _) => {
            let mut all = Node::All;
            for node in nodes {
                match side(node, of) {
                    Known::Never => return Known::Never,
                    Known::Always => {}
                    Known::Where(node) => all = all.and(node),
                }
            }
            match all {
                Node::All => Known::Always,
                all => Known::Where(all),
            }
        }
        (Node::Or(nodes), _) => {
            let mut any = Vec::new();
            for node in nodes {
                match side(node, of) {
                    Known::Always => return Known::Always,
                    Known::Never => {}
                    Known::Where(node) => any.push(node),
                }
            }
            match any.len() {
                0 => Known::Never,
                1 => Known::Where(any.remove(0)),
                _ => Known::Where(Node::Or(any)),
            }
        }
        (Node::All, _) => Known::Always,
        // A comparison with a whole value, which is a text or a document too.
        (Node::Test(path, operator @ ("$eq" | "$ne"), value), _) if path.is_root() => {
            let is_document = value.as_document().is_some();
            if is_document == (of == Side::Document) {
                Known::Where(node.clone())
            } else if *operator == "$eq" {
                Known::Never
            } else {
                Known::Always
            }
        }
        (Node::Refused(_), _) => Known::Where(node.clone()),
        (Node::Test(path, ..), _) if path.is_root() => Known::Where(node.clone()),
        // A text has no fields; and what is said of fields is said of a variant that is no text.
        (_, Side::Text) => Known::Never,
        (node, Side::Document) => Known::Where(said(node)),
    }
}

/// Whether a condition on texts is met by some that it names, and by nothing else.
fn names_values(node: &Node) -> bool {
    match node {
        Node::Test(_, "$eq" | "$in", _) => true,
        Node::And(nodes) => nodes.iter().any(names_values),
        Node::Or(nodes) => nodes.iter().all(names_values),
        _ => false,
    }
}

/// What nothing meets.
fn nothing() -> Node {
    Node::Not(Box::new(Node::All))
}
