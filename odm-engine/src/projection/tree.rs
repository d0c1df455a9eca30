//! The fields that a projection names, as a tree, and what it makes of a document.

use bson::raw::{CStr, CString};
use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::Mode;
use super::slice::Slice;
use crate::filter::ElemMatch;
use crate::path::Part;
use crate::{Error, Result, value};

/// Fields by name, in the order in which the projection names them.
#[derive(Debug, Default)]
pub(super) struct Tree(Vec<(Box<str>, Branch)>);

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
        let at = self.0.iter().position(|(name, _)| **name == *part.name());
        match (at.and_then(|at| self.0.get_mut(at)), rest.is_empty()) {
            (None, true) => self.0.push((part.name().into(), Branch::Leaf(leaf))),
            (None, false) => {
                let mut inner = Tree::default();
                inner.insert(rest, path, leaf)?;
                self.0.push((part.name().into(), Branch::Inner(inner)));
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
            // Elements found count as computed, and what is computed comes last.
            for (name, branch) in &self.0 {
                if let Branch::Leaf(Leaf::ElemMatch(_)) = branch
                    && let Some(value) = value::get(document, name)
                    && let Ok(name) = CString::try_from(&**name)
                {
                    Self::append(&mut output, &name, value, Some(branch), mode);
                }
            }
        }
        output
    }

    /// Whether the projection names this very path, rather than paths inside it.
    pub(super) fn has_leaf(&self, parts: &[Part]) -> bool {
        match parts.split_first() {
            Some((part, rest)) => match self.get(part.name()) {
                Some(Branch::Leaf(_)) => rest.is_empty(),
                Some(Branch::Inner(inner)) => inner.has_leaf(rest),
                None => false,
            },
            None => false,
        }
    }

    /// Whether a path begins with this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn get(&self, name: &str) -> Option<&Branch> {
        self.0
            .iter()
            .find(|(own, _)| **own == *name)
            .map(|(_, branch)| branch)
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
            (_, Mode::Include) => None,
        }
    }

    fn apply_array(&self, array: &RawArray, mode: Mode) -> RawArrayBuf {
        value::items(array)
            .filter_map(|item| self.apply(item, mode))
            .collect()
    }
}

fn elements(document: &RawDocument) -> impl Iterator<Item = (&CStr, RawBsonRef<'_>)> {
    document
        .iter_elements()
        .map_while(|element| element.ok())
        .map_while(|element| Some((element.key(), element.value().ok()?)))
}
