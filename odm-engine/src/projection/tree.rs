//! The fields that a projection names, as a tree, and what it makes of a document.

use std::collections::HashMap;

use bson::raw::{CStr, CString};
use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::Mode;
use super::slice::Slice;
use crate::expression::Computation;
use crate::filter::ElemMatch;
use crate::path::{Part, Path};
use crate::value::growth;
use crate::{Error, Result, value};

/// How many fields are looked for one after the other.
const FEW: usize = 16;

/// Fields by name.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// In the order in which the projection names them.
    fields: Vec<(CString, Branch)>,
    /// Where they are, once they are more than a [`FEW`].
    places: HashMap<Box<str>, usize>,
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

/// Whether a document has had a field of the projection.
#[derive(Clone, Copy)]
enum Met<'d> {
    Not,
    Placed,
    /// Its place is behind those of the document.
    Later(RawBsonRef<'d>),
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
        let known = self.place(part.name());
        let known = known.and_then(|at| self.fields.get_mut(at));
        let computes = matches!(leaf, Leaf::Computed(_));
        let collision = match (known, rest.is_empty()) {
            (None, true) => {
                self.push(name(part)?, Branch::Leaf(leaf));
                None
            }
            (None, false) => {
                let mut inner = Tree::default();
                inner.insert(rest, leaf)?;
                self.push(name(part)?, Branch::Inner(inner));
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
        let place = self.place(part.name());
        match place.and_then(|at| self.fields.get(at)) {
            Some((_, Branch::Leaf(_))) => rest.is_empty(),
            Some((_, Branch::Inner(inner))) => inner.has_leaf(rest),
            None => false,
        }
    }

    /// Whether a path begins with this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.place(name).is_some()
    }

    fn place(&self, name: &str) -> Option<usize> {
        if self.fields.len() > FEW {
            return self.places.get(name).copied();
        }
        self.fields.iter().position(|(own, _)| own.as_str() == name)
    }

    fn push(&mut self, name: CString, branch: Branch) {
        self.fields.push((name, branch));
        let known = self.places.len();
        if self.fields.len() > FEW {
            let new = self.fields.iter().enumerate().skip(known);
            self.places
                .extend(new.map(|(at, (name, _))| (name.as_str().into(), at)));
        }
    }

    /// The paths, if they are all plainly named.
    pub(super) fn included(&self) -> Option<Vec<Path>> {
        let mut paths = Vec::new();
        for (name, branch) in &self.fields {
            match branch {
                Branch::Leaf(Leaf::Named) => paths.push(Path::new(name.as_str())),
                Branch::Leaf(_) => return None,
                Branch::Inner(inner) => {
                    let inner = inner.included()?;
                    let below =
                        |path: &Path| Path::new(&format!("{}.{}", name.as_str(), path.as_str()));
                    paths.extend(inner.iter().map(below));
                }
            }
        }
        Some(paths)
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
        let mut met = vec![Met::Not; self.fields.len()];
        for (name, value) in document.into_iter().flat_map(elements) {
            let place = self.place(name.as_str());
            let known = place.and_then(|at| Some((self.fields.get(at)?, met.get_mut(at)?)));
            let Some(((_, branch), met)) = known else {
                if keeps(name) {
                    output.append(name, value);
                }
                continue;
            };
            if branch.comes_last(pass.mode) {
                *met = Met::Later(value);
                continue;
            }
            *met = Met::Placed;
            if let Some(value) = branch.of(value, pass)? {
                output.append(name, &value);
                growth::check_size(output.as_bytes().len())?;
            }
        }
        for ((name, branch), met) in self.fields.iter().zip(met) {
            let value = match (branch, met) {
                (_, Met::Placed) => None,
                (Branch::Leaf(Leaf::Computed(computation)), _) => {
                    computation.of(pass.root)?.into_bson()
                }
                (Branch::Leaf(Leaf::ElemMatch(elements)), Met::Later(value)) => {
                    first_match(elements, value)
                }
                (Branch::Inner(inner), _) if inner.computes => {
                    Some(inner.document(None, pass, &|_| false)?.into())
                }
                _ => None,
            };
            if let Some(value) = value {
                output.append(name, &value);
                growth::check_size(output.as_bytes().len())?;
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
            (_, Mode::Include) => None,
        })
    }

    fn array(&self, array: &RawArray, pass: Pass<'_>) -> Result<RawArrayBuf> {
        let mut output = RawArrayBuf::new();
        for item in value::items(array) {
            if let Some(item) = self.value(item, pass)? {
                output.push(item);
                growth::check_size(output.as_bytes().len())?;
            }
        }
        Ok(output)
    }
}

impl Branch {
    /// Whether what comes of a field does not take its place, but stands behind all that is included:
    /// what is computed there, and elements that were found.
    fn comes_last(&self, mode: Mode) -> bool {
        mode == Mode::Include
            && matches!(self, Branch::Leaf(Leaf::ElemMatch(_) | Leaf::Computed(_)))
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
