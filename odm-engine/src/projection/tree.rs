//! The fields that a projection names, as a tree, and what it makes of a document.

use bson::raw::{CStr, CString};
use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::Mode;
use super::slice::Slice;
use crate::expression::Computation;
use crate::filter::ElemMatch;
use crate::path::Part;
use crate::{Error, Result, value};

/// Fields by name, in the order in which the projection names them.
#[derive(Debug, Default)]
pub(super) struct Tree {
    fields: Vec<(CString, Branch)>,
    /// Whether a field in here or below is computed.
    computes: bool,
}

#[derive(Debug)]
enum Branch {
    Leaf(Leaf),
    Inner(Tree),
}

/// What the projection says about a field.
#[derive(Debug)]
pub(super) enum Leaf {
    /// It is included or excluded, as the mode says.
    Named,
    Slice(Slice),
    ElemMatch(ElemMatch),
    Computed(Computation),
}

/// Why a path cannot be added to a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Collision {
    /// It leads into a path that is there.
    Inside,
    /// It is there already, or something inside it.
    Around,
}

/// What is the same for all levels of a document.
#[derive(Clone, Copy)]
struct Pass<'d> {
    root: &'d RawDocument,
    mode: Mode,
}

impl Tree {
    /// Adds a path. The answer is why that cannot be.
    ///
    /// # Errors
    /// A name with a null byte in it.
    pub(super) fn insert(&mut self, parts: &[Part], leaf: Leaf) -> Result<Option<Collision>> {
        let Some((part, rest)) = parts.split_first() else {
            return Ok(None);
        };
        let known = self
            .fields
            .iter_mut()
            .find(|(name, _)| name.as_str() == part.name());
        let computes = matches!(leaf, Leaf::Computed(_));
        let collision = match (known, rest.is_empty()) {
            (None, true) => {
                self.fields.push((name(part)?, Branch::Leaf(leaf)));
                None
            }
            (None, false) => {
                let mut inner = Tree::default();
                inner.insert(rest, leaf)?;
                self.fields.push((name(part)?, Branch::Inner(inner)));
                None
            }
            (Some((_, Branch::Inner(inner))), false) => inner.insert(rest, leaf)?,
            (Some((_, Branch::Leaf(_))), false) => Some(Collision::Inside),
            (Some(_), true) => Some(Collision::Around),
        };
        self.computes |= computes;
        Ok(collision)
    }

    /// Whether the projection says something about the path itself, rather than about what is inside it.
    pub(super) fn has_leaf(&self, parts: &[Part]) -> bool {
        let Some((part, rest)) = parts.split_first() else {
            return false;
        };
        let mut fields = self.fields.iter();
        match fields.find(|(name, _)| name.as_str() == part.name()) {
            Some((_, Branch::Leaf(_))) => rest.is_empty(),
            Some((_, Branch::Inner(inner))) => inner.has_leaf(rest),
            None => false,
        }
    }

    /// What the projection leaves of a whole document, and adds to it.
    ///
    /// # Errors
    /// What expressions fail with.
    pub(super) fn apply(
        &self,
        document: &RawDocument,
        mode: Mode,
        id: bool,
    ) -> Result<RawDocumentBuf> {
        let pass = Pass {
            root: document,
            mode,
        };
        let keeps = |name: &CStr| match name.as_str() {
            "_id" => id,
            _ => mode == Mode::Exclude,
        };
        self.document(Some(document), pass, &keeps)
    }

    /// A document at any level; `None` for one that is only made for what is computed in it.
    fn document(
        &self,
        document: Option<&RawDocument>,
        pass: Pass<'_>,
        keeps: &dyn Fn(&CStr) -> bool,
    ) -> Result<RawDocumentBuf> {
        let mut output = RawDocumentBuf::new();
        // The fields that have their place already.
        let mut placed = vec![false; self.fields.len()];
        for (name, value) in document.into_iter().flat_map(elements) {
            let known = self.fields.iter().zip(&mut placed);
            let known = known
                .into_iter()
                .find(|((own, _), _)| own.as_str() == name.as_str());
            let Some(((_, branch), placed)) = known else {
                if keeps(name) {
                    output.append(name, value);
                }
                continue;
            };
            if branch.comes_last(value, pass.mode) {
                continue;
            }
            *placed = true;
            if let Some(value) = branch.of(value, pass)? {
                output.append(name, &value);
            }
        }
        for ((name, branch), placed) in self.fields.iter().zip(placed) {
            if placed {
                continue;
            }
            let value = match branch {
                Branch::Leaf(Leaf::Computed(computation)) => computation.of(pass.root)?.into_bson(),
                Branch::Leaf(Leaf::ElemMatch(elements)) => document
                    .and_then(|document| value::get(document, name.as_str()))
                    .and_then(|value| first_match(elements, value)),
                Branch::Inner(inner) if inner.computes => {
                    Some(inner.document(None, pass, &|_| false)?.into())
                }
                _ => None,
            };
            if let Some(value) = value {
                output.append(name, &value);
            }
        }
        Ok(output)
    }

    /// What is left of a value whose parts the projection names. `None` for nothing at all.
    fn value(&self, value: RawBsonRef<'_>, pass: Pass<'_>) -> Result<Option<RawBson>> {
        Ok(match (value, pass.mode) {
            (RawBsonRef::Document(document), mode) => {
                let inner = self.document(Some(document), pass, &|_| mode == Mode::Exclude)?;
                Some(inner.into())
            }
            (RawBsonRef::Array(array), _) => Some(self.array(array, pass)?.into()),
            // What is computed in it takes the place of what has no fields.
            _ if self.computes => Some(self.document(None, pass, &|_| false)?.into()),
            (value, Mode::Exclude) => Some(value.into()),
            (_, Mode::Include) if self.only_slices() => Some(value.into()),
            (_, Mode::Include) => None,
        })
    }

    fn array(&self, array: &RawArray, pass: Pass<'_>) -> Result<RawArrayBuf> {
        let mut output = RawArrayBuf::new();
        for item in value::items(array) {
            if let Some(item) = self.value(item, pass)? {
                output.push(item);
            }
        }
        Ok(output)
    }

    fn only_slices(&self) -> bool {
        self.fields.iter().all(|(_, branch)| match branch {
            Branch::Leaf(Leaf::Slice(_)) => true,
            Branch::Leaf(_) => false,
            Branch::Inner(inner) => inner.only_slices(),
        })
    }
}

impl Branch {
    /// Whether what comes of a field does not take its place, but stands behind all that is included:
    /// what is computed there, and elements that were found.
    fn comes_last(&self, value: RawBsonRef<'_>, mode: Mode) -> bool {
        let has_fields = matches!(value, RawBsonRef::Document(_) | RawBsonRef::Array(_));
        mode == Mode::Include
            && match self {
                Branch::Leaf(leaf) => matches!(leaf, Leaf::ElemMatch(_) | Leaf::Computed(_)),
                Branch::Inner(inner) => inner.computes && !has_fields,
            }
    }

    /// What comes of a field's value. `None` for nothing at all.
    fn of(&self, value: RawBsonRef<'_>, pass: Pass<'_>) -> Result<Option<RawBson>> {
        Ok(match (self, value) {
            (Branch::Inner(inner), value) => inner.value(value, pass)?,
            (Branch::Leaf(Leaf::Named), value) => {
                (pass.mode == Mode::Include).then(|| value.into())
            }
            (Branch::Leaf(Leaf::Slice(slice)), RawBsonRef::Array(array)) => {
                Some(slice.apply(array).into())
            }
            (Branch::Leaf(Leaf::Slice(_)), value) => Some(value.into()),
            (Branch::Leaf(Leaf::ElemMatch(elements)), value) => first_match(elements, value),
            (Branch::Leaf(Leaf::Computed(computation)), _) => {
                computation.of(pass.root)?.into_bson()
            }
        })
    }
}

/// An array of the first element that matches.
fn first_match(elements: &ElemMatch, value: RawBsonRef<'_>) -> Option<RawBson> {
    let array = value.as_array()?;
    let at = elements.position(array)?;
    let found: RawArrayBuf = value::items(array).skip(at).take(1).collect();
    Some(found.into())
}

fn name(part: &Part) -> Result<CString> {
    let refused = |_| Error::server(16411, "the path of a field has no null byte");
    CString::try_from(part.name()).map_err(refused)
}

fn elements(document: &RawDocument) -> impl Iterator<Item = (&CStr, RawBsonRef<'_>)> {
    document
        .iter_elements()
        .map_while(|element| element.ok())
        .map_while(|element| Some((element.key(), element.value().ok()?)))
}
