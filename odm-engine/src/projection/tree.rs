//! The tree of the fields in a projection, and its application to documents.

use std::collections::HashMap;

use bson::raw::{CStr, CString};
use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::ProjectionMode;
use super::layout::Layout;
use super::slice::SliceRange;
use crate::expression::Computation;
use crate::filter::ElemMatch;
use crate::path::{Path, PathPart};
use crate::value::growth;
use crate::{Error, Result, value};

/// The maximum number of fields that are searched linearly.
const MAX_LINEAR_FIELDS: usize = 16;

/// The projected fields by name.
#[derive(Debug, Default)]
pub(super) struct ProjectionTree {
    /// The fields in the order of the projection.
    fields: Vec<(CString, TreeBranch)>,
    /// The index of each field by name. Filled only for more than [`MAX_LINEAR_FIELDS`] fields.
    places: HashMap<Box<str>, usize>,
    /// Whether a field at this level or below is computed.
    has_computed: bool,
}

#[derive(Debug)]
enum TreeBranch {
    Leaf(FieldProjection),
    Inner(ProjectionTree),
}

/// The projection of a single field.
#[derive(Debug)]
pub(super) enum FieldProjection {
    /// The field is included or excluded, depending on the mode.
    Named,
    Slice(SliceRange),
    ElemMatch(ElemMatch),
    Computed(Computation),
}

/// The reason why a path cannot be added to a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathCollision {
    /// The path lies inside a path of the tree.
    Inside,
    /// The path is in the tree already, or a path inside it.
    Around,
}

/// Whether the document has had a field of the projection.
#[derive(Clone, Copy)]
enum FieldState<'d> {
    Not,
    Placed,
    /// The field moves after the document's own fields.
    Later(RawBsonRef<'d>),
}

/// The state shared by all levels of a document.
#[derive(Clone, Copy)]
struct ProjectionPass<'d> {
    root: &'d RawDocument,
    mode: ProjectionMode,
}

impl ProjectionTree {
    /// Adds a path to the tree. Returns the collision that prevents the addition, if any.
    ///
    /// # Errors
    /// A name contains a null byte.
    pub(super) fn insert_path(
        &mut self,
        parts: &[PathPart],
        leaf: FieldProjection,
    ) -> Result<Option<PathCollision>> {
        let Some((part, rest)) = parts.split_first() else {
            return Ok(None);
        };
        let known = self.field_index(part.name());
        let known = known.and_then(|at| self.fields.get_mut(at));
        let is_computed = matches!(leaf, FieldProjection::Computed(_));
        let collision = match (known, rest.is_empty()) {
            (None, true) => {
                self.push_field(part_name(part)?, TreeBranch::Leaf(leaf));
                None
            }
            (None, false) => {
                let mut inner = ProjectionTree::default();
                inner.insert_path(rest, leaf)?;
                self.push_field(part_name(part)?, TreeBranch::Inner(inner));
                None
            }
            (Some((_, TreeBranch::Inner(inner))), false) => inner.insert_path(rest, leaf)?,
            (Some((_, TreeBranch::Leaf(_))), false) => Some(PathCollision::Inside),
            (Some(_), true) => Some(PathCollision::Around),
        };
        self.has_computed |= is_computed;
        Ok(collision)
    }

    /// Returns whether the tree has an entry for the path itself, instead of for a path inside it.
    pub(super) fn has_leaf(&self, parts: &[PathPart]) -> bool {
        let Some((part, rest)) = parts.split_first() else {
            return false;
        };
        let place = self.field_index(part.name());
        match place.and_then(|at| self.fields.get(at)) {
            Some((_, TreeBranch::Leaf(_))) => rest.is_empty(),
            Some((_, TreeBranch::Inner(inner))) => inner.has_leaf(rest),
            None => false,
        }
    }

    /// Returns whether a path starts with this name.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.field_index(name).is_some()
    }

    fn field_index(&self, name: &str) -> Option<usize> {
        if self.fields.len() > MAX_LINEAR_FIELDS {
            return self.places.get(name).copied();
        }
        self.fields
            .iter()
            .position(|(known, _)| known.as_str() == name)
    }

    fn push_field(&mut self, name: CString, branch: TreeBranch) {
        self.fields.push((name, branch));
        let known = self.places.len();
        if self.fields.len() > MAX_LINEAR_FIELDS {
            let new = self.fields.iter().enumerate().skip(known);
            self.places
                .extend(new.map(|(at, (name, _))| (name.as_str().into(), at)));
        }
    }

    /// Returns the paths if no field is computed or sliced.
    pub(super) fn included_paths(&self) -> Option<Vec<Path>> {
        let mut paths = Vec::new();
        for (name, branch) in &self.fields {
            match branch {
                TreeBranch::Leaf(FieldProjection::Named) => paths.push(Path::new(name.as_str())),
                TreeBranch::Leaf(_) => return None,
                TreeBranch::Inner(inner) => {
                    let inner = inner.included_paths()?;
                    let inner_names =
                        |path: &Path| Path::new(&format!("{}.{}", name.as_str(), path.as_str()));
                    paths.extend(inner.iter().map(inner_names));
                }
            }
        }
        Some(paths)
    }

    /// Projects a whole document: keeps, removes and adds fields. With a layout, fields that are added again get their old
    /// positions.
    ///
    /// # Errors
    /// An expression fails.
    pub(super) fn apply(
        &self,
        document: &RawDocument,
        mode: ProjectionMode,
        id: bool,
        layout: Option<&mut Layout>,
    ) -> Result<RawDocumentBuf> {
        let pass = ProjectionPass {
            root: document,
            mode,
        };
        let keeps_field = |name: &CStr| match name.as_str() {
            "_id" => id,
            _ => mode == ProjectionMode::Exclude,
        };
        self.project_document(Some(document), pass, &keeps_field, layout)
    }

    /// Adds the names of a tree. Returns whether a path was in this tree already, or collides with a path of this tree.
    pub(super) fn merge_names(&mut self, other: &ProjectionTree) -> bool {
        let mut collides = false;
        for (name, branch) in &other.fields {
            let known = self.field_index(name.as_str());
            let known = known.and_then(|at| self.fields.get_mut(at));
            match (known, branch) {
                (None, TreeBranch::Leaf(_)) => {
                    let leaf = TreeBranch::Leaf(FieldProjection::Named);
                    self.push_field(name.clone(), leaf);
                }
                (None, TreeBranch::Inner(inner)) => {
                    let mut merged = ProjectionTree::default();
                    merged.merge_names(inner);
                    self.push_field(name.clone(), TreeBranch::Inner(merged));
                }
                (Some((_, TreeBranch::Inner(known))), TreeBranch::Inner(inner)) => {
                    collides |= known.merge_names(inner);
                }
                (Some(_), _) => collides = true,
            }
        }
        collides
    }

    /// Projects a document at any level. `None` is an absent document that is created only for
    /// computed fields.
    fn project_document(
        &self,
        document: Option<&RawDocument>,
        pass: ProjectionPass<'_>,
        keeps_field: &dyn Fn(&CStr) -> bool,
        mut layout: Option<&mut Layout>,
    ) -> Result<RawDocumentBuf> {
        if let (Some(layout), Some(document)) = (&mut layout, document) {
            layout.record_fields(document);
        }
        let mut output = RawDocumentBuf::new();
        let mut states = vec![FieldState::Not; self.fields.len()];
        for (name, value) in document.into_iter().flat_map(raw_elements) {
            let place = self.field_index(name.as_str());
            let known = place.and_then(|at| Some((self.fields.get(at)?, states.get_mut(at)?)));
            let Some(((_, branch), states)) = known else {
                if keeps_field(name) {
                    output.append(name, value);
                }
                continue;
            };
            if branch.comes_last(pass.mode) {
                *states = FieldState::Later(value);
                continue;
            }
            *states = FieldState::Placed;
            let inner = branch.layout_of(name, layout.as_deref_mut());
            if let Some(value) = branch.project_field(value, pass, inner)? {
                output.append(name, &value);
                growth::check_size(output.as_bytes().len())?;
            }
        }
        for ((name, branch), states) in self.fields.iter().zip(states) {
            let value = match (branch, states) {
                (_, FieldState::Placed) => None,
                (TreeBranch::Leaf(FieldProjection::Computed(computation)), _) => {
                    computation.evaluate(pass.root)?.into_bson()
                }
                (
                    TreeBranch::Leaf(FieldProjection::ElemMatch(elements)),
                    FieldState::Later(value),
                ) => first_match(elements, value),
                (TreeBranch::Inner(inner), _) if inner.has_computed => {
                    Some(inner.project_document(None, pass, &|_| false, None)?.into())
                }
                _ => None,
            };
            if let Some(value) = value {
                output.append(name, &value);
                growth::check_size(output.as_bytes().len())?;
            }
        }
        Ok(match layout {
            Some(layout) => layout.arrange_fields(output),
            None => output,
        })
    }

    /// Projects a value with nested projected fields. `None` if nothing remains.
    fn project_value(
        &self,
        value: RawBsonRef<'_>,
        pass: ProjectionPass<'_>,
        layout: Option<&mut Layout>,
    ) -> Result<Option<RawBson>> {
        Ok(match (value, pass.mode) {
            (RawBsonRef::Document(document), mode) => {
                let keeps_field = |_: &CStr| mode == ProjectionMode::Exclude;
                let inner = self.project_document(Some(document), pass, &keeps_field, layout)?;
                Some(inner.into())
            }
            (RawBsonRef::Array(array), _) => Some(self.project_array(array, pass, layout)?.into()),
            // Computed fields inside replace a value that has no fields.
            _ if self.has_computed => {
                Some(self.project_document(None, pass, &|_| false, None)?.into())
            }
            (value, ProjectionMode::Exclude) => Some(value.into()),
            (_, ProjectionMode::Include) => None,
        })
    }

    fn project_array(
        &self,
        array: &RawArray,
        pass: ProjectionPass<'_>,
        mut layout: Option<&mut Layout>,
    ) -> Result<RawArrayBuf> {
        let mut output = RawArrayBuf::new();
        for (index, item) in value::items(array).enumerate() {
            let inner = layout
                .as_mut()
                .map(|layout| layout.inner(&index.to_string()));
            if let Some(item) = self.project_value(item, pass, inner)? {
                output.push(item);
                growth::check_size(output.as_bytes().len())?;
            }
        }
        Ok(output)
    }
}

impl TreeBranch {
    /// Returns whether the result is appended after all included fields, as for computed fields and
    /// `$elemMatch`.
    fn comes_last(&self, mode: ProjectionMode) -> bool {
        mode == ProjectionMode::Include
            && matches!(
                self,
                TreeBranch::Leaf(FieldProjection::ElemMatch(_) | FieldProjection::Computed(_))
            )
    }

    /// Returns the layout inside a field that this branch changes in place.
    fn layout_of<'l>(&self, name: &CStr, layout: Option<&'l mut Layout>) -> Option<&'l mut Layout> {
        let layout = layout?;
        match self {
            TreeBranch::Inner(_) => Some(layout.inner(name.as_str())),
            TreeBranch::Leaf(_) => {
                layout.forget_inner(name.as_str());
                None
            }
        }
    }

    /// Projects the value of a field. `None` if nothing remains.
    fn project_field(
        &self,
        value: RawBsonRef<'_>,
        pass: ProjectionPass<'_>,
        layout: Option<&mut Layout>,
    ) -> Result<Option<RawBson>> {
        Ok(match (self, value) {
            (TreeBranch::Inner(inner), value) => inner.project_value(value, pass, layout)?,
            (TreeBranch::Leaf(FieldProjection::Named), value) => {
                (pass.mode == ProjectionMode::Include).then(|| value.into())
            }
            (TreeBranch::Leaf(FieldProjection::Slice(slice)), RawBsonRef::Array(array)) => {
                Some(slice.apply_to(array).into())
            }
            (TreeBranch::Leaf(FieldProjection::Slice(_)), value) => Some(value.into()),
            (TreeBranch::Leaf(FieldProjection::ElemMatch(elements)), value) => {
                first_match(elements, value)
            }
            (TreeBranch::Leaf(FieldProjection::Computed(computation)), _) => {
                computation.evaluate(pass.root)?.into_bson()
            }
        })
    }
}

/// Returns an array with the first element that matches.
fn first_match(elements: &ElemMatch, value: RawBsonRef<'_>) -> Option<RawBson> {
    let array = value.as_array()?;
    let at = elements.first_match(array)?;
    let selected: RawArrayBuf = value::items(array).skip(at).take(1).collect();
    Some(selected.into())
}

fn part_name(part: &PathPart) -> Result<CString> {
    let rejection = |_| Error::with_server_code(16411, "a field path cannot contain a null byte");
    CString::try_from(part.name()).map_err(rejection)
}

fn raw_elements(document: &RawDocument) -> impl Iterator<Item = (&CStr, RawBsonRef<'_>)> {
    document
        .iter_elements()
        .map_while(|element| element.ok())
        .map_while(|element| Some((element.key(), element.value().ok()?)))
}
