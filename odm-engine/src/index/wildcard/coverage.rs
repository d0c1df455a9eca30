//! The set of paths that a wildcard index covers.

use std::collections::BTreeMap;

use bson::{RawBsonRef, RawDocument};

use super::path_prefix;
use crate::error::{Error, Result, code};
use crate::index::Index;
use crate::path::Path;
use crate::sort::check_field_path;
use crate::value::{self, Number};

/// The covered paths. Equivalent definitions are equal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Coverage {
    mode: CoverageMode,
    named: NamedPaths,
}

/// Whether the named paths are included or excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CoverageMode {
    Include,
    Exclude,
}

/// Named paths as a tree of components. A node without children is the end of a path.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NamedPaths(BTreeMap<String, NamedPaths>);

/// The indexed part of a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum PathCover<'c> {
    Everything,
    Nothing,
    /// The named fields, or all except these.
    Part(CoverageMode, &'c NamedPaths),
}

impl Coverage {
    /// Returns the coverage of a wildcard index.
    ///
    /// # Errors
    /// A projection that MongoDB refuses.
    pub(crate) fn of_index(index: &Index) -> Result<Coverage> {
        let path = index.keys.first().map(|(path, _)| path.as_str());
        match (path.and_then(path_prefix), &index.wildcard_projection) {
            (Some(_), Some(_)) => {
                let message = "wildcardProjection is only for an index on '$**'";
                Err(Error::with_server_code(code::FAILED_TO_PARSE, message))
            }
            (Some(root), None) => {
                let mut named = NamedPaths::default();
                named.insert_path(root);
                Ok(Coverage {
                    mode: CoverageMode::Include,
                    named,
                })
            }
            (None, Some(projection)) => Coverage::from_projection(projection),
            (None, None) => Ok(CoverageParser::default().into_coverage()),
        }
    }

    fn from_projection(projection: &RawDocument) -> Result<Coverage> {
        if projection.is_empty() {
            let message = "wildcardProjection cannot be empty; leave it out";
            return Err(Error::with_server_code(code::FAILED_TO_PARSE, message));
        }
        value::check_document(projection)?;
        let mut parser = CoverageParser::default();
        parser.parse_fields("", projection)?;
        Ok(parser.into_coverage())
    }

    /// Whether every value at the path is indexed. Excluded fields inside of the value may be missing.
    pub(crate) fn covers_path(&self, path: &Path) -> bool {
        let mut cover = self.root_cover();
        for part in path.parts() {
            cover = cover.field_cover(part.name());
        }
        cover.has_values()
    }

    pub(super) fn root_cover(&self) -> PathCover<'_> {
        PathCover::Part(self.mode, &self.named)
    }
}

impl<'c> PathCover<'c> {
    /// Returns the indexed part of a field.
    pub(super) fn field_cover(self, name: &str) -> PathCover<'c> {
        let PathCover::Part(mode, named) = self else {
            return self;
        };
        match (mode, named.0.get(name)) {
            (_, Some(inner)) if !inner.0.is_empty() => PathCover::Part(mode, inner),
            (CoverageMode::Include, Some(_)) | (CoverageMode::Exclude, None) => {
                PathCover::Everything
            }
            (CoverageMode::Include, None) | (CoverageMode::Exclude, Some(_)) => PathCover::Nothing,
        }
    }

    pub(super) fn is_nothing(self) -> bool {
        matches!(self, PathCover::Nothing)
    }

    /// Whether a value without fields is indexed.
    pub(super) fn has_values(self) -> bool {
        matches!(
            self,
            PathCover::Everything | PathCover::Part(CoverageMode::Exclude, _)
        )
    }
}

impl NamedPaths {
    /// Adds a path. Returns a collision if the path conflicts with an existing path.
    fn insert_path(&mut self, path: &str) -> Option<CoverageCollision> {
        let (name, rest) = match path.split_once('.') {
            Some((name, rest)) => (name, Some(rest)),
            None => (path, None),
        };
        let known = self.0.get_mut(name);
        match (known, rest) {
            (None, rest) => {
                let mut inner = NamedPaths::default();
                let collision = rest.and_then(|rest| inner.insert_path(rest));
                self.0.insert(name.to_owned(), inner);
                collision
            }
            (Some(inner), Some(_)) if inner.0.is_empty() => Some(CoverageCollision::Inside),
            (Some(inner), Some(rest)) => inner.insert_path(rest),
            (Some(_), None) => Some(CoverageCollision::Around),
        }
    }
}

/// Why a path cannot be added.
enum CoverageCollision {
    /// The path is inside of an existing path.
    Inside,
    /// The path exists, or contains an existing path.
    Around,
}

#[derive(Default)]
struct CoverageParser {
    /// The mode of the first path other than `_id`.
    mode: Option<CoverageMode>,
    /// The mode of `_id`, which is excluded by default.
    id: Option<CoverageMode>,
    named: NamedPaths,
}

impl CoverageParser {
    fn parse_fields(&mut self, prefix: &str, fields: &RawDocument) -> Result<()> {
        for (name, value) in value::fields(fields) {
            if prefix.is_empty() {
                self.parse_field(name, value)?;
            } else {
                self.parse_field(&format!("{prefix}.{name}"), value)?;
            }
        }
        Ok(())
    }

    fn parse_field(&mut self, path: &str, value: RawBsonRef<'_>) -> Result<()> {
        if path.contains(".$.") || path.ends_with(".$") {
            let code = if path.ends_with(".$") { 31324 } else { 31394 };
            let message = "positional '$' is not allowed in a wildcardProjection";
            return Err(Error::with_server_code(code, message));
        }
        check_field_path(path)?;
        match value {
            RawBsonRef::Document(inner) => {
                let first = value::fields(inner).next().map(|(name, _)| name);
                match first {
                    None => {
                        let message = format!("the projection of '{path}' is empty");
                        Err(Error::with_server_code(51270, message))
                    }
                    Some("$elemMatch") => {
                        let message = "$elemMatch is not allowed in a wildcardProjection";
                        Err(Error::with_server_code(168, message))
                    }
                    Some(name) if name.starts_with('$') => Err(computed_field_error(path)),
                    Some(_) => self.parse_fields(path, inner),
                }
            }
            value if is_flag(value) => self.set_mode(path, value::is_truthy(value)),
            _ => Err(computed_field_error(path)),
        }
    }

    fn set_mode(&mut self, path: &str, includes: bool) -> Result<()> {
        let mode = if includes {
            CoverageMode::Include
        } else {
            CoverageMode::Exclude
        };
        let duplicate_error = |code| {
            let message =
                format!("the projection names '{path}' twice, or both a path and its parent");
            Err(Error::with_server_code(code, message))
        };
        if path == "_id" {
            if self.named.0.contains_key("_id") {
                return duplicate_error(31250);
            }
            self.id = Some(mode);
            return Ok(());
        }
        if self.id.is_some() && path.starts_with("_id.") {
            return duplicate_error(31249);
        }
        match self.named.insert_path(path) {
            Some(CoverageCollision::Inside) => return duplicate_error(31249),
            Some(CoverageCollision::Around) => return duplicate_error(31250),
            None => {}
        }
        match (*self.mode.get_or_insert(mode), mode) {
            (CoverageMode::Include, CoverageMode::Exclude) => {
                let message =
                    format!("cannot exclude '{path}' in a projection that includes fields");
                Err(Error::with_server_code(31254, message))
            }
            (CoverageMode::Exclude, CoverageMode::Include) => {
                let message =
                    format!("cannot include '{path}' in a projection that excludes fields");
                Err(Error::with_server_code(31253, message))
            }
            _ => Ok(()),
        }
    }

    fn into_coverage(mut self) -> Coverage {
        let mode = self.mode.or(self.id).unwrap_or(CoverageMode::Exclude);
        // Name `_id` explicitly unless the mode already treats it correctly.
        if self.id.unwrap_or(CoverageMode::Exclude) == mode && !self.named.0.contains_key("_id") {
            self.named.insert_path("_id");
        }
        Coverage {
            mode,
            named: self.named,
        }
    }
}

fn is_flag(value: RawBsonRef<'_>) -> bool {
    matches!(value, RawBsonRef::Boolean(_)) || Number::from_bson(value).is_some()
}

fn computed_field_error(path: &str) -> Error {
    let message =
        format!("a wildcardProjection can only include or exclude paths; '{path}' is computed");
    Error::with_server_code(51271, message)
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    fn projection_covers(projection: RawDocumentBuf, path: &str) -> bool {
        Coverage::from_projection(&projection)
            .unwrap()
            .covers_path(&Path::new(path))
    }

    #[test]
    fn a_path_is_covered_or_not() {
        assert!(
            projection_covers(rawdoc! { "a.b": 1 }, "a.b")
                && projection_covers(rawdoc! { "a.b": 1 }, "a.b.c")
        );
        assert!(
            !projection_covers(rawdoc! { "a.b": 1 }, "a")
                && !projection_covers(rawdoc! { "a.b": 1 }, "a.c")
        );
        assert!(
            projection_covers(rawdoc! { "a.b": 0 }, "a")
                && projection_covers(rawdoc! { "a.b": 0 }, "a.c")
        );
        assert!(!projection_covers(rawdoc! { "a.b": 0 }, "a.b.c"));
        assert!(
            !projection_covers(rawdoc! { "a": 1 }, "_id")
                && !projection_covers(rawdoc! { "a": 0 }, "_id")
        );
        assert!(
            projection_covers(rawdoc! { "_id": 1 }, "_id")
                && !projection_covers(rawdoc! { "_id": 1 }, "a")
        );
        assert!(projection_covers(rawdoc! { "_id": 1, "a": 0 }, "_id"));
        assert!(
            projection_covers(rawdoc! { "_id": 0 }, "a")
                && !projection_covers(rawdoc! { "_id": 0 }, "_id")
        );
        assert!(projection_covers(rawdoc! { "a": 1, "_id": 0 }, "a"));
    }

    #[test]
    fn equivalent_projections_are_equal() {
        let same = |a: RawDocumentBuf, b: RawDocumentBuf| {
            Coverage::from_projection(&a).unwrap() == Coverage::from_projection(&b).unwrap()
        };
        assert!(same(
            rawdoc! { "a": { "b": 1, "c": true } },
            rawdoc! { "a.c": 2.5, "_id": false, "a.b": 1 }
        ));
        assert!(!same(rawdoc! { "a": 1 }, rawdoc! { "a": 0 }));
    }

    #[test]
    fn refused_projections_have_mongodb_codes() {
        let code =
            |projection: RawDocumentBuf| Coverage::from_projection(&projection).unwrap_err().code();
        assert_eq!(code(rawdoc! {}), Some(9));
        assert_eq!(code(rawdoc! { "a": 1, "b": 0 }), Some(31254));
        assert_eq!(code(rawdoc! { "a": { "b": 0, "c": 1 } }), Some(31253));
        assert_eq!(code(rawdoc! { "a": "yes" }), Some(51271));
        assert_eq!(code(rawdoc! { "_id": "yes" }), Some(51271));
        assert_eq!(code(rawdoc! { "a": { "$slice": 1 } }), Some(51271));
        assert_eq!(
            code(rawdoc! { "a": { "$elemMatch": { "b": 1 } } }),
            Some(168)
        );
        assert_eq!(code(rawdoc! { "a": {} }), Some(51270));
        assert_eq!(code(rawdoc! { "a.$": 1 }), Some(31324));
        assert_eq!(code(rawdoc! { "a": 1, "a.b": 1 }), Some(31249));
        assert_eq!(code(rawdoc! { "a.b": 1, "a": 1 }), Some(31250));
        assert_eq!(code(rawdoc! { "": 1 }), Some(40352));
        assert_eq!(code(rawdoc! { "$a": 1 }), Some(16410));
    }
}
