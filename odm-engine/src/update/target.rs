//! The paths of updates, and the resolution of their dynamic components in a document.

use std::cmp::Ordering;

use bson::raw::CString;
use bson::{RawBsonRef, RawDocument};

use super::array_filter::ArrayFilters;
use super::changed_places::SelectedElements;
use crate::{Error, Result, value};

/// A path of an update, with dynamic components.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UpdatePath(Vec<UpdatePathPart>);

/// A component of an [`UpdatePath`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UpdatePathPart {
    Name(PathName),
    /// `$`: the element that the filter matched.
    Matched,
    /// `$[]`: every element.
    Each,
    /// `$[name]`: the elements that match the array filter of this name.
    Filtered(String),
}

/// The name of a field, or a position in an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathName {
    text: CString,
    index: Option<usize>,
}

impl UpdatePath {
    /// Parses a path.
    ///
    /// # Errors
    /// An empty path or component (code 56), `$` as the first component or twice (code 2), or too
    /// many components (code 15).
    pub(super) fn parse(path: &str) -> Result<UpdatePath> {
        if path.is_empty() {
            return Err(Error::with_server_code(
                56,
                "an empty update path is not valid",
            ));
        }
        if path.split('.').count() > value::MAX_NESTING_DEPTH {
            let message = format!(
                "an update path can have at most {} components",
                value::MAX_NESTING_DEPTH
            );
            return Err(Error::with_server_code(15, message));
        }
        let steps = path
            .split('.')
            .map(|part| UpdatePathPart::parse(part, path));
        let target = UpdatePath(steps.collect::<Result<_>>()?);
        if !matches!(target.0.first(), Some(UpdatePathPart::Name(_))) {
            let message = format!("the update path '{path}' cannot start with a position");
            return Err(Error::bad_value(message));
        }
        if target
            .0
            .iter()
            .filter(|step| **step == UpdatePathPart::Matched)
            .count()
            > 1
        {
            let message = format!("the update path '{path}' has more than one '$'");
            return Err(Error::bad_value(message));
        }
        Ok(target)
    }

    /// Iterates over the names of the path. A dynamic part is `None`.
    pub(super) fn names(&self) -> impl Iterator<Item = Option<&str>> {
        self.0.iter().map(|part| match part {
            UpdatePathPart::Name(name) => Some(name.as_str()),
            _ => None,
        })
    }

    pub(super) fn has_dynamic_parts(&self) -> bool {
        !self
            .0
            .iter()
            .all(|step| matches!(step, UpdatePathPart::Name(_)))
    }

    /// Returns the names of the array filters that the path refers to.
    pub(super) fn filter_names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|step| match step {
            UpdatePathPart::Filtered(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Returns whether two paths cannot be updated together: a path contains the other, or only one
    /// path has a `$[…]` at the first difference.
    ///
    /// For sorted paths, a comparison with the neighbors is sufficient.
    pub(super) fn conflicts_with(&self, other: &UpdatePath) -> bool {
        let is_many = |step: &UpdatePathPart| {
            matches!(step, UpdatePathPart::Each | UpdatePathPart::Filtered(_))
        };
        match self.0.iter().zip(&other.0).find(|(a, b)| a != b) {
            Some((a, b)) => is_many(a) != is_many(b),
            None => true,
        }
    }

    /// Resolves the dynamic components to the paths in a document.
    ///
    /// `matched` returns the position for `$`. The elements selected by `$[]` and `$[name]` are
    /// recorded in `selections`.
    ///
    /// A path that cannot be resolved is returned with an error (code 2): `$` without a position,
    /// or `$[]` and `$[name]` on a value that is not an array.
    ///
    /// # Errors
    /// `matched` fails.
    pub(super) fn resolve_paths(
        &self,
        document: &RawDocument,
        matched: &mut dyn FnMut() -> Result<Option<usize>>,
        filters: &ArrayFilters,
        selections: &mut SelectedElements,
    ) -> Result<Vec<(Vec<PathName>, Result<()>)>> {
        // After the last dynamic component, values are no longer needed.
        let is_dynamic = |step: &UpdatePathPart| !matches!(step, UpdatePathPart::Name(_));
        let dynamic = self.0.iter().rposition(is_dynamic);
        // The paths so far, each with the value at its end.
        let mut paths = vec![(Vec::new(), Some(RawBsonRef::Document(document)))];
        let mut finished = Vec::new();
        for (at, step) in self.0.iter().enumerate() {
            let is_needed = dynamic.is_some_and(|last| at < last);
            let mut next = Vec::with_capacity(paths.len());
            for (path, value) in paths {
                let mut push = |name: PathName, value| {
                    let mut longer: Vec<PathName> = path.clone();
                    longer.push(name);
                    next.push((longer, value));
                };
                match step {
                    UpdatePathPart::Name(name) => {
                        let value = value.filter(|_| is_needed);
                        push(
                            name.clone(),
                            value.and_then(|value| child_value(value, name)),
                        )
                    }
                    UpdatePathPart::Matched => match matched()? {
                        Some(index) => {
                            let name = PathName::from_position(index);
                            push(
                                name.clone(),
                                value.and_then(|value| child_value(value, &name)),
                            );
                        }
                        None => {
                            let message =
                                "'$' needs a filter that matches through an array element";
                            finished.push((path, Err(Error::bad_value(message))));
                        }
                    },
                    UpdatePathPart::Each | UpdatePathPart::Filtered(_) => {
                        match array_at(&path, value) {
                            Ok(array) => {
                                for (index, item) in value::items(array).enumerate() {
                                    let chosen = match step {
                                        UpdatePathPart::Filtered(name) => {
                                            filters.matches_element(name, item)
                                        }
                                        _ => true,
                                    };
                                    if chosen {
                                        selections.record_element(&path, index);
                                        push(PathName::from_position(index), Some(item));
                                    }
                                }
                            }
                            Err(error) => finished.push((path, Err(error))),
                        }
                    }
                }
            }
            paths = next;
        }
        finished.extend(paths.into_iter().map(|(path, _)| (path, Ok(()))));
        Ok(finished)
    }
}

impl std::fmt::Display for UpdatePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(".")?;
            }
            match step {
                UpdatePathPart::Name(name) => f.write_str(name.as_str())?,
                UpdatePathPart::Matched => f.write_str("$")?,
                UpdatePathPart::Each => f.write_str("$[]")?,
                UpdatePathPart::Filtered(name) => write!(f, "$[{name}]")?,
            }
        }
        Ok(())
    }
}

impl UpdatePathPart {
    fn parse(part: &str, path: &str) -> Result<UpdatePathPart> {
        match part {
            "" => {
                let message = format!("the update path '{path}' has an empty field name");
                Err(Error::with_server_code(56, message))
            }
            "$" => Ok(UpdatePathPart::Matched),
            "$[]" => Ok(UpdatePathPart::Each),
            part => match part
                .strip_prefix("$[")
                .and_then(|rest| rest.strip_suffix(']'))
            {
                Some(identifier) => Ok(UpdatePathPart::Filtered(identifier.to_owned())),
                None => PathName::new(part).map(UpdatePathPart::Name),
            },
        }
    }
}

impl PathName {
    pub(super) fn new(text: &str) -> Result<PathName> {
        let text = CString::try_from(text)
            .map_err(|_| Error::bad_value("field names cannot contain a null byte"))?;
        // As on MongoDB, "01" is a position in updates, but a field name in filters.
        let digits = text.as_str().bytes().all(|byte| byte.is_ascii_digit());
        let index = digits.then(|| text.as_str().parse().ok()).flatten();
        Ok(PathName { text, index })
    }

    pub(super) fn as_str(&self) -> &str {
        self.text.as_str()
    }

    pub(super) fn to_cstring(&self) -> CString {
        CString::from(&*self.text)
    }

    pub(super) fn index(&self) -> Option<usize> {
        self.index
    }

    fn from_position(index: usize) -> PathName {
        // Digits contain no null byte, so the conversion succeeds.
        let text =
            CString::try_from(index.to_string()).unwrap_or_else(|_| bson::raw::cstr!("0").into());
        PathName {
            text,
            index: Some(index),
        }
    }
}

/// Positions are ordered by number, because fields are created in this order.
impl Ord for PathName {
    fn cmp(&self, other: &PathName) -> Ordering {
        match (self.index, other.index) {
            (Some(a), Some(b)) => a.cmp(&b).then_with(|| self.as_str().cmp(other.as_str())),
            _ => self.as_str().cmp(other.as_str()),
        }
    }
}

impl PartialOrd for PathName {
    fn partial_cmp(&self, other: &PathName) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Formats a resolved path with dots.
pub(super) fn dotted_path(path: &[PathName]) -> String {
    path.iter()
        .map(PathName::as_str)
        .collect::<Vec<_>>()
        .join(".")
}

/// Returns the length of the array at a path, or 0 if the value is not an array.
pub(super) fn length_at(document: &RawDocument, path: &[PathName]) -> usize {
    let start = RawBsonRef::Document(document);
    let value = path.iter().try_fold(start, child_value);
    let array = value.and_then(|value| value.as_array());
    array.map_or(0, |array| value::items(array).count())
}

fn child_value<'d>(value: RawBsonRef<'d>, name: &PathName) -> Option<RawBsonRef<'d>> {
    match value {
        RawBsonRef::Document(document) => value::get(document, name.as_str()),
        RawBsonRef::Array(array) => value::items(array).nth(name.index?),
        _ => None,
    }
}

fn array_at<'d>(path: &[PathName], value: Option<RawBsonRef<'d>>) -> Result<&'d bson::RawArray> {
    match value {
        Some(RawBsonRef::Array(array)) => Ok(array),
        Some(other) => Err(Error::bad_value(format!(
            "'{}' must be an array for '$[]' to apply, but is of type {}",
            dotted_path(path),
            value::type_name(other)
        ))),
        None => Err(Error::bad_value(format!(
            "the path '{}' must exist for '$[]' to apply",
            dotted_path(path)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_paths_have_their_codes() {
        let code = |path: &str| UpdatePath::parse(path).unwrap_err().code();
        assert_eq!(code(""), Some(56));
        assert_eq!(code("a..b"), Some(56));
        assert_eq!(code("$.a"), Some(2));
        assert_eq!(code("a.$.b.$"), Some(2));
        assert_eq!(code(&"a.".repeat(1_000_000)), Some(15));
    }

    #[test]
    fn positions_are_ordered_by_number() {
        let target = |path| UpdatePath::parse(path).unwrap();
        assert!(target("a.2") < target("a.10"));
        assert!(target("a.b").conflicts_with(&target("a.b.c")));
        assert!(target("a.0.x").conflicts_with(&target("a.$[].y")));
        assert!(!target("a.0").conflicts_with(&target("a.1")));
    }
}
