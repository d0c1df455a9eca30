//! Projections: the fields of a document that a query returns.
//!
//! A projection either includes or excludes fields. An inclusion can also add computed fields. In a
//! query, `$slice`, `$elemMatch` and positional `$` return a part of an array.
//!
//! ```json
//! { "name": 1, "total": { "$sum": "$prices" }, "comments": { "$slice": -3 } }
//! ```

mod additions;
mod layout;
mod parse;
mod positional;
mod slice;
mod tree;

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use crate::expression::Environment;
use crate::filter::Filter;
use crate::path::Path;
use crate::pattern::PatternScope;
use crate::{Result, value};

pub(crate) use additions::AddedFields;
pub(crate) use layout::Layout;
use tree::ProjectionTree;

/// A parsed projection.
#[derive(Debug)]
pub(crate) struct Projection {
    mode: ProjectionMode,
    /// Whether `_id` is returned.
    id: bool,
    tree: ProjectionTree,
    /// The array that positional `$` reduces to the element that the filter matched.
    positional: Option<Path>,
}

/// Whether the named fields are included or excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProjectionMode {
    Include,
    Exclude,
}

/// The place of a projection, which decides the allowed operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProjectionContext {
    /// In a query, where array operators are allowed and the projection may be empty.
    Query,
    /// In a `$project` stage.
    Stage,
}

impl Projection {
    /// Parses the projection of a query. An empty projection keeps everything.
    ///
    /// # Errors
    /// Paths that collide, a mix of inclusion and exclusion, and malformed operators and
    /// expressions. Codes are MongoDB's.
    pub(crate) fn parse(
        projection: &RawDocument,
        environment: &Arc<Environment>,
    ) -> Result<Projection> {
        value::check_document(projection)?;
        let _patterns = PatternScope::enter();
        parse::parse_projection(projection, ProjectionContext::Query, environment)
    }

    /// Parses the projection of a `$project` stage.
    ///
    /// # Errors
    /// See [`parse`](Projection::parse). Also, the projection is empty.
    pub(crate) fn parse_stage(
        projection: &RawDocument,
        environment: &Arc<Environment>,
    ) -> Result<Projection> {
        parse::parse_projection(projection, ProjectionContext::Stage, environment)
    }

    /// Returns whether the projection has a positional `$` and so needs the filter.
    pub(crate) fn is_positional(&self) -> bool {
        self.positional.is_some()
    }

    /// Returns the included paths if the projection only includes paths. The planner then reads no
    /// other fields.
    pub(crate) fn included_paths(&self) -> Option<Vec<Path>> {
        if self.mode == ProjectionMode::Exclude || self.positional.is_some() {
            return None;
        }
        let mut paths = self.tree.included_paths()?;
        if self.id {
            paths.push(Path::new("_id"));
        }
        Some(paths)
    }

    /// Projects a document that `filter` matched.
    ///
    /// # Errors
    /// The projection is positional and the filter matched no array element, or an expression
    /// fails.
    pub(crate) fn apply(&self, document: &RawDocument, filter: &Filter) -> Result<RawDocumentBuf> {
        let Some(path) = &self.positional else {
            return self.apply_without_filter(document);
        };
        let position = filter.matched_position_as_written(document)?;
        let reduced = positional::only_matched(path, document, position)?;
        self.tree.apply(&reduced, self.mode, self.id, None)
    }

    /// Returns an exclusion as a change of fields that keeps positions. `None` for an inclusion.
    pub(crate) fn as_field_change(&self) -> Option<FieldChange<'_>> {
        let is_exclusion = self.mode == ProjectionMode::Exclude && self.positional.is_none();
        is_exclusion.then_some(FieldChange {
            tree: &self.tree,
            keeps_id: self.id,
        })
    }

    /// Projects a document with a projection that has no positional `$`.
    ///
    /// # Errors
    /// An expression fails.
    pub(crate) fn apply_without_filter(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        self.tree.apply(document, self.mode, self.id, None)
    }
}

/// A stage that removes or adds fields, and leaves all other fields in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldChange<'p> {
    tree: &'p ProjectionTree,
    keeps_id: bool,
}

impl FieldChange<'_> {
    /// Returns the changed document. Fields that are added again get their old positions.
    ///
    /// # Errors
    /// An expression fails.
    pub(crate) fn apply(
        self,
        document: &RawDocument,
        layout: &mut Layout,
    ) -> Result<RawDocumentBuf> {
        self.tree.apply(
            document,
            ProjectionMode::Exclude,
            self.keeps_id,
            Some(layout),
        )
    }
}

/// The paths that a sequence of stages removes or adds.
#[derive(Debug, Default)]
pub(crate) struct ChangedPaths {
    tree: ProjectionTree,
    excludes_id: bool,
}

impl ChangedPaths {
    /// Adds the paths of a stage. Returns whether the stage and an earlier stage change the same field.
    pub(crate) fn add_stage(&mut self, change: FieldChange<'_>) -> bool {
        let restores_id = self.excludes_id && change.tree.has_name("_id");
        self.excludes_id |= !change.keeps_id;
        self.tree.merge_names(change.tree) || restores_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    fn project_sample(projection: RawDocumentBuf) -> RawDocumentBuf {
        let document = rawdoc! {
            "_id": 1, "a": { "b": 2, "c": 3 }, "d": [{ "e": 4, "f": 5 }, 6], "g": [1, 2, 3]
        };
        let filter = Filter::parse(&rawdoc! { "g": { "$gt": 1 } }).unwrap();
        Projection::parse(&projection, &Arc::default())
            .unwrap()
            .apply(&document, &filter)
            .unwrap()
    }

    #[test]
    fn fields_are_included_through_arrays() {
        assert_eq!(
            project_sample(rawdoc! { "d.e": 1, "a": { "b": true } }),
            rawdoc! { "_id": 1, "a": { "b": 2 }, "d": [{ "e": 4 }] }
        );
        assert_eq!(
            project_sample(rawdoc! { "a.x": 1, "_id": 0 }),
            rawdoc! { "a": {} }
        );
    }

    #[test]
    fn fields_are_excluded_through_arrays() {
        assert_eq!(
            project_sample(rawdoc! { "d.e": 0, "a": 0, "_id": 0 }),
            rawdoc! { "d": [{ "f": 5 }, 6], "g": [1, 2, 3] }
        );
        assert_eq!(
            project_sample(rawdoc! { "a.b": 0, "d": 0, "g": 0 }),
            rawdoc! { "_id": 1, "a": { "c": 3 } }
        );
    }

    #[test]
    fn arrays_are_returned_in_part() {
        assert_eq!(
            project_sample(rawdoc! { "g.$": 1 }),
            rawdoc! { "_id": 1, "g": [2] }
        );
        assert_eq!(
            project_sample(rawdoc! { "g": { "$elemMatch": { "$gt": 2 } } }),
            rawdoc! { "_id": 1, "g": [3] }
        );
        assert_eq!(
            project_sample(rawdoc! { "g": { "$slice": [1, 5] }, "a": 1 }),
            rawdoc! { "_id": 1, "a": { "b": 2, "c": 3 }, "g": [2, 3] }
        );
        // An inclusion leaves out a value without fields, also on the path to a slice.
        assert_eq!(
            project_sample(rawdoc! { "_id": 1, "d.e": { "$slice": 1 } }),
            rawdoc! { "_id": 1, "d": [{ "e": 4 }] }
        );
        assert_eq!(
            project_sample(rawdoc! { "_id": 1, "g.x": { "$slice": 1 } }),
            rawdoc! { "_id": 1, "g": [] }
        );
    }

    #[test]
    fn contradictions_are_refused() {
        let code = |projection: RawDocumentBuf| {
            Projection::parse(&projection, &Arc::default())
                .unwrap_err()
                .code()
        };
        assert_eq!(code(rawdoc! { "a": 1, "b": 0 }), Some(31254));
        assert_eq!(code(rawdoc! { "a": 0, "b": 1 }), Some(31253));
        assert_eq!(code(rawdoc! { "a": 1, "a.b": 1 }), Some(31249));
        assert_eq!(code(rawdoc! { "a.b": 1, "a": 1 }), Some(31250));
    }
}
