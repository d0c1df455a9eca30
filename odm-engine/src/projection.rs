//! Projections: what of a document is returned.
//!
//! A projection either says what to include or what to exclude. Beside that, `$slice`,
//! `$elemMatch` and positional `$` return a part of an array.
//!
//! ```json
//! { "name": 1, "comments": { "$slice": -3 } }
//! ```

mod computed;
mod parse;
mod positional;
mod slice;
mod tree;

use bson::{RawDocument, RawDocumentBuf};

use crate::filter::Filter;
use crate::path::Path;
use crate::{Result, value};

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

impl Projection {
    /// Reads a projection. The empty one keeps everything.
    ///
    /// # Errors
    /// Paths that collide, inclusion mixed with exclusion, malformed operators, with MongoDB's
    /// codes; computed fields are not supported.
    pub(crate) fn parse(projection: &RawDocument) -> Result<Projection> {
        value::check(projection)?;
        parse::projection(projection)
    }

    /// What is left of a document that `filter` has found.
    ///
    /// # Errors
    /// Positional `$` where the filter matched no array element.
    pub(crate) fn apply(&self, document: &RawDocument, filter: &Filter) -> Result<RawDocumentBuf> {
        let Some(path) = &self.positional else {
            return Ok(self.tree.apply_root(document, self.mode, self.id));
        };
        let document = positional::only_matched(path, document, filter.position(document))?;
        Ok(self.tree.apply_root(&document, self.mode, self.id))
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
        Projection::parse(&projection)
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
        let code = |projection: RawDocumentBuf| Projection::parse(&projection).unwrap_err().code();
        assert_eq!(code(rawdoc! { "a": 1, "b": 0 }), Some(31254));
        assert_eq!(code(rawdoc! { "a": 0, "b": 1 }), Some(31253));
        assert_eq!(code(rawdoc! { "a": 1, "a.b": 1 }), Some(31249));
        assert_eq!(code(rawdoc! { "a.b": 1, "a": 1 }), Some(31250));
    }
}
