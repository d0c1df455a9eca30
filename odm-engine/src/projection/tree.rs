//! The fields that a projection names, as a tree, and what it makes of a document.

use std::collections::{BTreeMap, HashMap};

use bson::raw::CStr;
use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::Mode;
use super::slice::Slice;
use crate::filter::ElemMatch;
use crate::path::Part;
use crate::{Error, Result, value};

/// How many fields are looked for one after the other.
const FEW: usize = 16;

/// Fields by name.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// In the order in which the projection names them.
    branches: Vec<(Box<str>, Branch)>,
    /// Where they are, once they are more than a [`FEW`].
    places: HashMap<Box<str>, usize>,
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
}

impl Tree {
    /// Adds a path.
    ///
    /// # Errors
    /// It leads into a path that is there (code 31249), or the other way around (code 31250).
    pub(super) fn insert(&mut self, parts: &[Part], path: &str, leaf: Leaf) -> Result<()> {
        let Some((part, rest)) = parts.split_first() else {
            return Ok(());
        };
        let at = self.place(part.name());
        match (at.and_then(|at| self.branches.get_mut(at)), rest.is_empty()) {
            (None, true) => self.push(part.name(), Branch::Leaf(leaf)),
            (None, false) => {
                let mut inner = Tree::default();
                inner.insert(rest, path, leaf)?;
                self.push(part.name(), Branch::Inner(inner));
            }
            (Some((_, Branch::Inner(inner))), false) => inner.insert(rest, path, leaf)?,
            (Some((_, Branch::Leaf(_))), false) => {
                let message = format!("the path '{path}' leads into another of the projection");
                return Err(Error::server(31249, message));
            }
            (Some(_), true) => {
                let message = format!("the projection names '{path}' twice, or a path inside it");
                return Err(Error::server(31250, message));
            }
        }
        Ok(())
    }

    /// What the projection leaves of a whole document.
    pub(super) fn apply_root(
        &self,
        document: &RawDocument,
        mode: Mode,
        id: bool,
    ) -> RawDocumentBuf {
        let mut output = RawDocumentBuf::new();
        for element in elements(document) {
            let (name, value) = element;
            let branch = self.get(name.as_str());
            if branch.is_none() && name.as_str() == "_id" {
                if id {
                    output.append(name, value);
                }
            } else if !(mode == Mode::Include
                && matches!(branch, Some(Branch::Leaf(Leaf::ElemMatch(_)))))
            {
                Self::append(&mut output, name, value, branch, mode);
            }
        }
        if mode == Mode::Include {
            // Elements found count as computed, and what is computed comes last, in the order of the
            // projection.
            let mut computed = BTreeMap::new();
            for (name, value) in elements(document) {
                if let Some(at) = self.place(name.as_str())
                    && let Some((_, branch @ Branch::Leaf(Leaf::ElemMatch(_)))) =
                        self.branches.get(at)
                {
                    computed.entry(at).or_insert((name, value, branch));
                }
            }
            for (name, value, branch) in computed.into_values() {
                Self::append(&mut output, name, value, Some(branch), mode);
            }
        }
        output
    }

    fn get(&self, name: &str) -> Option<&Branch> {
        let (_, branch) = self.branches.get(self.place(name)?)?;
        Some(branch)
    }

    fn place(&self, name: &str) -> Option<usize> {
        if self.branches.len() > FEW {
            return self.places.get(name).copied();
        }
        self.branches.iter().position(|(own, _)| **own == *name)
    }

    fn push(&mut self, name: &str, branch: Branch) {
        self.branches.push((name.into(), branch));
        let known = self.places.len();
        if self.branches.len() > FEW {
            let new = self.branches.iter().enumerate().skip(known);
            self.places
                .extend(new.map(|(at, (name, _))| (name.clone(), at)));
        }
    }

    fn append(
        output: &mut RawDocumentBuf,
        name: &CStr,
        value: RawBsonRef<'_>,
        branch: Option<&Branch>,
        mode: Mode,
    ) {
        match branch {
            None if mode == Mode::Exclude => output.append(name, value),
            Some(Branch::Leaf(Leaf::Named)) if mode == Mode::Include => output.append(name, value),
            None | Some(Branch::Leaf(Leaf::Named)) => {}
            Some(Branch::Leaf(Leaf::Slice(slice))) => match value {
                RawBsonRef::Array(array) => output.append(name, slice.apply(array)),
                value => output.append(name, value),
            },
            Some(Branch::Leaf(Leaf::ElemMatch(elements))) => {
                if let RawBsonRef::Array(array) = value
                    && let Some(at) = elements.position(array)
                {
                    output.append(
                        name,
                        value::items(array)
                            .skip(at)
                            .take(1)
                            .collect::<RawArrayBuf>(),
                    );
                }
            }
            Some(Branch::Inner(inner)) => {
                if let Some(value) = inner.apply(value, mode) {
                    output.append(name, value);
                }
            }
        }
    }

    /// What is left of a value whose parts the projection names. `None` for nothing at all.
    fn apply(&self, value: RawBsonRef<'_>, mode: Mode) -> Option<RawBson> {
        match (value, mode) {
            (RawBsonRef::Document(document), _) => {
                let mut output = RawDocumentBuf::new();
                for (name, value) in elements(document) {
                    Self::append(&mut output, name, value, self.get(name.as_str()), mode);
                }
                Some(RawBson::Document(output))
            }
            (RawBsonRef::Array(array), _) => Some(RawBson::Array(self.apply_array(array, mode))),
            (value, Mode::Exclude) => Some(value.into()),
            (_, Mode::Include) if self.only_slices() => Some(value.into()),
            (_, Mode::Include) => None,
        }
    }

    fn apply_array(&self, array: &RawArray, mode: Mode) -> RawArrayBuf {
        value::items(array)
            .filter_map(|item| self.apply(item, mode))
            .collect()
    }

    fn only_slices(&self) -> bool {
        self.branches.iter().all(|(_, branch)| match branch {
            Branch::Leaf(Leaf::Slice(_)) => true,
            Branch::Leaf(_) => false,
            Branch::Inner(inner) => inner.only_slices(),
        })
    }
}

fn elements(document: &RawDocument) -> impl Iterator<Item = (&CStr, RawBsonRef<'_>)> {
    document
        .iter_elements()
        .map_while(|element| element.ok())
        .map_while(|element| Some((element.key(), element.value().ok()?)))
}
