//! Projections: what of a document is returned.
//!
//! A projection either says what to include or what to exclude. Beside what is included there can be
//! computed fields; in a query, `$slice`, `$elemMatch` and positional `$` return a part of an array.
//!
//! ```json
//! { "name": 1, "total": { "$sum": "$prices" }, "comments": { "$slice": -3 } }
//! ```

mod additions;
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

pub(crate) use additions::Additions;
use tree::Tree;

/// A parsed projection.
#[derive(Debug)]
pub(crate) struct Projection {
    mode: Mode,
    /// Whether `_id` is returned.
    id: bool,
    tree: Tree,
    /// Where of an array only the element is returned that the filter matched.
    positional: Option<Path>,
}

/// What happens to fields that the projection names, and to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Include,
    Exclude,
}

/// Where a projection stands, which decides what it may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a query, with the operators on arrays. It may be empty.
    Query,
    /// In the stage `$project`.
    Stage,
}

impl Projection {
    /// Reads the projection of a query. The empty one keeps everything.
    ///
    /// # Errors
    /// Paths that collide, inclusion mixed with exclusion, malformed operators and expressions, with
    /// MongoDB's codes.
    pub(crate) fn parse(
        projection: &RawDocument,
        environment: &Arc<Environment>,
    ) -> Result<Projection> {
        value::check(projection)?;
        let _patterns = PatternScope::enter();
        parse::projection(projection, Place::Query, environment)
    }

    /// Reads the projection of the stage `$project`.
    ///
    /// # Errors
    /// As [`parse`](Projection::parse), and an empty one.
    pub(crate) fn parse_stage(
        projection: &RawDocument,
        environment: &Arc<Environment>,
    ) -> Result<Projection> {
        parse::projection(projection, Place::Stage, environment)
    }

    /// Whether it has a positional `$`, which looks at the document that the filter has found.
    pub(crate) fn is_positional(&self) -> bool {
        self.positional.is_some()
    }

    /// The paths that a document is read at, if the projection does no more than include paths.
    pub(crate) fn included(&self) -> Option<Vec<Path>> {
        if self.mode == Mode::Exclude || self.positional.is_some() {
            return None;
        }
        let mut paths = self.tree.included()?;
        if self.id {
            paths.push(Path::new("_id"));
        }
        Some(paths)
    }

    /// What is left of a document that `filter` has found.
    ///
    /// # Errors
    /// Positional `$` where the filter matched no array element; what expressions fail with.
    pub(crate) fn apply(&self, document: &RawDocument, filter: &Filter) -> Result<RawDocumentBuf> {
        let Some(path) = &self.positional else {
            return self.apply_plainly(document);
        };
        let position = filter.position_as_written(document)?;
        let reduced = positional::only_matched(path, document, position)?;
        self.tree.apply(&reduced, self.mode, self.id)
    }

    /// What is left of a document, by a projection that has no positional `$`.
    ///
    /// # Errors
    /// What expressions fail with.
    pub(crate) fn apply_plainly(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        self.tree.apply(document, self.mode, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    fn projected(projection: RawDocumentBuf) -> RawDocumentBuf {
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
            projected(rawdoc! { "d.e": 1, "a": { "b": true } }),
            rawdoc! { "_id": 1, "a": { "b": 2 }, "d": [{ "e": 4 }] }
        );
        assert_eq!(
            projected(rawdoc! { "a.x": 1, "_id": 0 }),
            rawdoc! { "a": {} }
        );
    }

    #[test]
    fn fields_are_excluded_through_arrays() {
        assert_eq!(
            projected(rawdoc! { "d.e": 0, "a": 0, "_id": 0 }),
            rawdoc! { "d": [{ "f": 5 }, 6], "g": [1, 2, 3] }
        );
        assert_eq!(
            projected(rawdoc! { "a.b": 0, "d": 0, "g": 0 }),
            rawdoc! { "_id": 1, "a": { "c": 3 } }
        );
    }

    #[test]
    fn arrays_are_returned_in_part() {
        assert_eq!(
            projected(rawdoc! { "g.$": 1 }),
            rawdoc! { "_id": 1, "g": [2] }
        );
        assert_eq!(
            projected(rawdoc! { "g": { "$elemMatch": { "$gt": 2 } } }),
            rawdoc! { "_id": 1, "g": [3] }
        );
        assert_eq!(
            projected(rawdoc! { "g": { "$slice": [1, 5] }, "a": 1 }),
            rawdoc! { "_id": 1, "a": { "b": 2, "c": 3 }, "g": [2, 3] }
        );
        // Where fields are included, what has none is not, on the way to a slice either.
        assert_eq!(
            projected(rawdoc! { "_id": 1, "d.e": { "$slice": 1 } }),
            rawdoc! { "_id": 1, "d": [{ "e": 4 }] }
        );
        assert_eq!(
            projected(rawdoc! { "_id": 1, "g.x": { "$slice": 1 } }),
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
