//! The paths that a wildcard index is about.

use std::collections::BTreeMap;

use bson::{RawBsonRef, RawDocument};

use super::root;
use crate::error::{Error, Result, code};
use crate::index::Index;
use crate::path::Path;
use crate::sort::check_field_path;
use crate::value::{self, Number};

/// Which paths have entries. Two definitions that say the same are equal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Coverage {
    mode: Mode,
    named: Fields,
}

/// What happens to the paths that are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Include,
    Exclude,
}

/// Named paths, component by component. A path ends where there are no further fields.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fields(BTreeMap<String, Fields>);

/// What of a value is indexed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cover<'c> {
    Everything,
    Nothing,
    /// The named fields, or all but them.
    Part(Mode, &'c Fields),
}

impl Coverage {
    /// What a wildcard index is about.
    ///
    /// # Errors
    /// A projection that MongoDB refuses.
    pub(crate) fn of(index: &Index) -> Result<Coverage> {
        let path = index.keys.first().map(|(path, _)| path.as_str());
        match (path.and_then(root), &index.wildcard_projection) {
            (Some(_), Some(_)) => {
                let message = "wildcardProjection is only for an index on '$**'";
                Err(Error::server(code::FAILED_TO_PARSE, message))
            }
            (Some(root), None) => {
                let mut named = Fields::default();
                named.insert(root);
                Ok(Coverage {
                    mode: Mode::Include,
                    named,
                })
            }
            (None, Some(projection)) => Coverage::parse(projection),
            (None, None) => Ok(Parser::default().finish()),
        }
    }

    fn parse(projection: &RawDocument) -> Result<Coverage> {
        if projection.is_empty() {
            let message = "wildcardProjection cannot be empty; leave it out";
            return Err(Error::server(code::FAILED_TO_PARSE, message));
        }
        value::check(projection)?;
        let mut parser = Parser::default();
        parser.fields("", projection)?;
        Ok(parser.finish())
    }

    /// Whether every value at the path is indexed, and all that is in it but for what is left out there.
    pub(crate) fn has(&self, path: &Path) -> bool {
        let mut cover = self.root();
        for part in path.parts() {
            cover = cover.field(part.name());
        }
        cover.has_values()
    }

    pub(super) fn root(&self) -> Cover<'_> {
        Cover::Part(self.mode, &self.named)
    }
}

impl<'c> Cover<'c> {
    /// What of a field is indexed.
    pub(super) fn field(self, name: &str) -> Cover<'c> {
        let Cover::Part(mode, named) = self else {
            return self;
        };
        match (mode, named.0.get(name)) {
            (_, Some(inner)) if !inner.0.is_empty() => Cover::Part(mode, inner),
            (Mode::Include, Some(_)) | (Mode::Exclude, None) => Cover::Everything,
            (Mode::Include, None) | (Mode::Exclude, Some(_)) => Cover::Nothing,
        }
    }

    pub(super) fn is_nothing(self) -> bool {
        matches!(self, Cover::Nothing)
    }

    /// Whether a value that is not entered is indexed.
    pub(super) fn has_values(self) -> bool {
        matches!(self, Cover::Everything | Cover::Part(Mode::Exclude, _))
    }
}

impl Fields {
    /// Adds a path; the answer is why that cannot be.
    fn insert(&mut self, path: &str) -> Option<Collision> {
        let (name, rest) = match path.split_once('.') {
            Some((name, rest)) => (name, Some(rest)),
            None => (path, None),
        };
        let known = self.0.get_mut(name);
        match (known, rest) {
            (None, rest) => {
                let mut inner = Fields::default();
                let collision = rest.and_then(|rest| inner.insert(rest));
                self.0.insert(name.to_owned(), inner);
                collision
            }
            (Some(inner), Some(_)) if inner.0.is_empty() => Some(Collision::Inside),
            (Some(inner), Some(rest)) => inner.insert(rest),
            (Some(_), None) => Some(Collision::Around),
        }
    }
}

/// Why a path cannot be added.
enum Collision {
    /// It leads into a path that is there.
    Inside,
    /// It is there already, or something inside it.
    Around,
}

#[derive(Default)]
struct Parser {
    /// Set by the first path that is included or excluded, but for `_id`.
    mode: Option<Mode>,
    /// What is said of `_id`, which is left out if nothing is.
    id: Option<Mode>,
    named: Fields,
}

impl Parser {
    fn fields(&mut self, prefix: &str, fields: &RawDocument) -> Result<()> {
        for (name, value) in value::fields(fields) {
            if prefix.is_empty() {
                self.field(name, value)?;
            } else {
                self.field(&format!("{prefix}.{name}"), value)?;
            }
        }
        Ok(())
    }

    fn field(&mut self, path: &str, value: RawBsonRef<'_>) -> Result<()> {
        if path.contains(".$.") || path.ends_with(".$") {
            let code = if path.ends_with(".$") { 31324 } else { 31394 };
            let message = "positional '$' has no place in a wildcardProjection";
            return Err(Error::server(code, message));
        }
        check_field_path(path)?;
        match value {
            RawBsonRef::Document(inner) => {
                let first = value::fields(inner).next().map(|(name, _)| name);
                match first {
                    None => {
                        let message = format!("the projection of '{path}' is empty");
                        Err(Error::server(51270, message))
                    }
                    Some("$elemMatch") => {
                        let message = "$elemMatch has no place in a wildcardProjection";
                        Err(Error::server(168, message))
                    }
                    Some(name) if name.starts_with('$') => Err(computed(path)),
                    Some(_) => self.fields(path, inner),
                }
            }
            value if is_flag(value) => self.plain(path, value::is_truthy(value)),
            _ => Err(computed(path)),
        }
    }

    fn plain(&mut self, path: &str, includes: bool) -> Result<()> {
        let mode = if includes {
            Mode::Include
        } else {
            Mode::Exclude
        };
        let twice = |code| {
            let message = format!("the projection names '{path}' twice, or a path inside it");
            Err(Error::server(code, message))
        };
        if path == "_id" {
            if self.named.0.contains_key("_id") {
                return twice(31250);
            }
            self.id = Some(mode);
            return Ok(());
        }
        if self.id.is_some() && path.starts_with("_id.") {
            return twice(31249);
        }
        match self.named.insert(path) {
            Some(Collision::Inside) => return twice(31249),
            Some(Collision::Around) => return twice(31250),
            None => {}
        }
        match (*self.mode.get_or_insert(mode), mode) {
            (Mode::Include, Mode::Exclude) => {
                let message =
                    format!("cannot exclude '{path}' in a projection that includes fields");
                Err(Error::server(31254, message))
            }
            (Mode::Exclude, Mode::Include) => {
                let message =
                    format!("cannot include '{path}' in a projection that excludes fields");
                Err(Error::server(31253, message))
            }
            _ => Ok(()),
        }
    }

    fn finish(mut self) -> Coverage {
        let mode = self.mode.or(self.id).unwrap_or(Mode::Exclude);
        // What is said of `_id` is a path like others where it is not the rule anyway.
        if self.id.unwrap_or(Mode::Exclude) == mode && !self.named.0.contains_key("_id") {
            self.named.insert("_id");
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

fn computed(path: &str) -> Error {
    let message = format!(
        "a wildcardProjection includes or excludes paths, and computes none such as '{path}'"
    );
    Error::server(51271, message)
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    fn has(projection: RawDocumentBuf, path: &str) -> bool {
        Coverage::parse(&projection).unwrap().has(&Path::new(path))
    }

    #[test]
    fn a_path_is_covered_or_not() {
        assert!(has(rawdoc! { "a.b": 1 }, "a.b") && has(rawdoc! { "a.b": 1 }, "a.b.c"));
        assert!(!has(rawdoc! { "a.b": 1 }, "a") && !has(rawdoc! { "a.b": 1 }, "a.c"));
        assert!(has(rawdoc! { "a.b": 0 }, "a") && has(rawdoc! { "a.b": 0 }, "a.c"));
        assert!(!has(rawdoc! { "a.b": 0 }, "a.b.c"));
        assert!(!has(rawdoc! { "a": 1 }, "_id") && !has(rawdoc! { "a": 0 }, "_id"));
        assert!(has(rawdoc! { "_id": 1 }, "_id") && !has(rawdoc! { "_id": 1 }, "a"));
        assert!(has(rawdoc! { "_id": 1, "a": 0 }, "_id"));
        assert!(has(rawdoc! { "_id": 0 }, "a") && !has(rawdoc! { "_id": 0 }, "_id"));
        assert!(has(rawdoc! { "a": 1, "_id": 0 }, "a"));
    }

    #[test]
    fn projections_are_the_same_if_they_say_the_same() {
        let same = |a: RawDocumentBuf, b: RawDocumentBuf| {
            Coverage::parse(&a).unwrap() == Coverage::parse(&b).unwrap()
        };
        assert!(same(
            rawdoc! { "a": { "b": 1, "c": true } },
            rawdoc! { "a.c": 2.5, "_id": false, "a.b": 1 }
        ));
        assert!(!same(rawdoc! { "a": 1 }, rawdoc! { "a": 0 }));
    }

    #[test]
    fn what_is_refused_has_its_number() {
        let code = |projection: RawDocumentBuf| Coverage::parse(&projection).unwrap_err().code();
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
