//! The paths of updates, and what their dynamic parts stand for in a document.

use std::cmp::Ordering;

use bson::raw::CString;
use bson::{RawBsonRef, RawDocument};

use super::array_filter::ArrayFilters;
use super::changed::Fans;
use crate::{Error, Result, value};

/// A path as an update writes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target(Vec<Step>);

/// One component of a [`Target`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Name(Name),
    /// `$`: the element through which the filter matched.
    Matched,
    /// `$[]`: every element.
    Each,
    /// `$[name]`: the elements that match the array filter of that name.
    Filtered(String),
}

/// The name of a field, or a position in an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    text: CString,
    index: Option<usize>,
}

impl Target {
    /// Reads a path.
    ///
    /// # Errors
    /// Empty paths and components (code 56), `$` in the first place or twice (code 2), and more
    /// components than documents nest (code 15).
    pub(super) fn parse(path: &str) -> Result<Target> {
        if path.is_empty() {
            return Err(Error::server(56, "an empty update path is not valid"));
        }
        if path.split('.').count() > value::MAX_DEPTH {
            let message = format!("an update path can have {} components", value::MAX_DEPTH);
            return Err(Error::server(15, message));
        }
        let steps = path.split('.').map(|part| Step::parse(part, path));
        let target = Target(steps.collect::<Result<_>>()?);
        if !matches!(target.0.first(), Some(Step::Name(_))) {
            let message = format!("the update path '{path}' cannot start with a position");
            return Err(Error::bad_value(message));
        }
        if target
            .0
            .iter()
            .filter(|step| **step == Step::Matched)
            .count()
            > 1
        {
            let message = format!("the update path '{path}' has more than one '$'");
            return Err(Error::bad_value(message));
        }
        Ok(target)
    }

    pub(super) fn is_dynamic(&self) -> bool {
        !self.0.iter().all(|step| matches!(step, Step::Name(_)))
    }

    /// The names of the array filters that the path refers to.
    pub(super) fn identifiers(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|step| match step {
            Step::Filtered(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Whether two paths cannot be updated at once: one leads to the other or into it, or where
    /// they part, one goes on by `$[…]` and the other does not.
    ///
    /// Among paths in their order it suffices to ask this of neighbours.
    pub(super) fn conflicts(&self, other: &Target) -> bool {
        let is_many = |step: &Step| matches!(step, Step::Each | Step::Filtered(_));
        match self.0.iter().zip(&other.0).find(|(a, b)| a != b) {
            Some((a, b)) => is_many(a) != is_many(b),
            None => true,
        }
    }

    /// The paths that this one stands for in a document.
    ///
    /// `matched` is the position that `$` stands for; `fans` learns what `$[]` and `$[name]` do. A path that leads
    /// nowhere ends there, with the reason: `$` without a position, and `$[]` or `$[name]` on what is not an array
    /// (code 2).
    ///
    /// # Errors
    /// What `matched` fails with.
    pub(super) fn resolve(
        &self,
        document: &RawDocument,
        matched: &mut dyn FnMut() -> Result<Option<usize>>,
        filters: &ArrayFilters,
        fans: &mut Fans,
    ) -> Result<Vec<(Vec<Name>, Result<()>)>> {
        // Behind the last dynamic step, nobody asks for values.
        let is_dynamic = |step: &Step| !matches!(step, Step::Name(_));
        let dynamic = self.0.iter().rposition(is_dynamic);
        // Each path found so far, with the value it leads to.
        let mut paths = vec![(Vec::new(), Some(RawBsonRef::Document(document)))];
        let mut ended = Vec::new();
        for (at, step) in self.0.iter().enumerate() {
            let is_needed = dynamic.is_some_and(|last| at < last);
            let mut next = Vec::with_capacity(paths.len());
            for (path, value) in paths {
                let mut push = |name: Name, value| {
                    let mut longer: Vec<Name> = path.clone();
                    longer.push(name);
                    next.push((longer, value));
                };
                match step {
                    Step::Name(name) => {
                        let value = value.filter(|_| is_needed);
                        push(name.clone(), value.and_then(|value| child(value, name)))
                    }
                    Step::Matched => match matched()? {
                        Some(index) => {
                            let name = Name::position(index);
                            push(name.clone(), value.and_then(|value| child(value, &name)));
                        }
                        None => {
                            let message =
                                "'$' needs a filter that matches through an array element";
                            ended.push((path, Err(Error::bad_value(message))));
                        }
                    },
                    Step::Each | Step::Filtered(_) => match array_at(&path, value) {
                        Ok(array) => {
                            for (index, item) in value::items(array).enumerate() {
                                let chosen = match step {
                                    Step::Filtered(name) => filters.matches(name, item),
                                    _ => true,
                                };
                                if chosen {
                                    fans.add(&path, index);
                                    push(Name::position(index), Some(item));
                                }
                            }
                        }
                        Err(error) => ended.push((path, Err(error))),
                    },
                }
            }
            paths = next;
        }
        ended.extend(paths.into_iter().map(|(path, _)| (path, Ok(()))));
        Ok(ended)
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(".")?;
            }
            match step {
                Step::Name(name) => f.write_str(name.as_str())?,
                Step::Matched => f.write_str("$")?,
                Step::Each => f.write_str("$[]")?,
                Step::Filtered(name) => write!(f, "$[{name}]")?,
            }
        }
        Ok(())
    }
}

impl Step {
    fn parse(part: &str, path: &str) -> Result<Step> {
        match part {
            "" => {
                let message = format!("the update path '{path}' has an empty field name");
                Err(Error::server(56, message))
            }
            "$" => Ok(Step::Matched),
            "$[]" => Ok(Step::Each),
            part => match part
                .strip_prefix("$[")
                .and_then(|rest| rest.strip_suffix(']'))
            {
                Some(identifier) => Ok(Step::Filtered(identifier.to_owned())),
                None => Name::new(part).map(Step::Name),
            },
        }
    }
}

impl Name {
    pub(super) fn new(text: &str) -> Result<Name> {
        let text = CString::try_from(text)
            .map_err(|_| Error::bad_value("field names cannot contain a null byte"))?;
        // As on MongoDB, "01" is a position here, and the name of a field in filters.
        let digits = text.as_str().bytes().all(|byte| byte.is_ascii_digit());
        let index = digits.then(|| text.as_str().parse().ok()).flatten();
        Ok(Name { text, index })
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

    fn position(index: usize) -> Name {
        // Digits hold no null byte, so the name is always there.
        let text =
            CString::try_from(index.to_string()).unwrap_or_else(|_| bson::raw::cstr!("0").into());
        Name {
            text,
            index: Some(index),
        }
    }
}

/// Positions come in the order of their numbers, as fields are created in this order.
impl Ord for Name {
    fn cmp(&self, other: &Name) -> Ordering {
        match (self.index, other.index) {
            (Some(a), Some(b)) => a.cmp(&b).then_with(|| self.as_str().cmp(other.as_str())),
            _ => self.as_str().cmp(other.as_str()),
        }
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Name) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Writes a resolved path with its dots.
pub(super) fn dotted(path: &[Name]) -> String {
    path.iter().map(Name::as_str).collect::<Vec<_>>().join(".")
}

/// How many elements the array at a path has; none if there is no array.
pub(super) fn length_at(document: &RawDocument, path: &[Name]) -> usize {
    let start = RawBsonRef::Document(document);
    let value = path.iter().try_fold(start, child);
    let array = value.and_then(|value| value.as_array());
    array.map_or(0, |array| value::items(array).count())
}

fn child<'d>(value: RawBsonRef<'d>, name: &Name) -> Option<RawBsonRef<'d>> {
    match value {
        RawBsonRef::Document(document) => value::get(document, name.as_str()),
        RawBsonRef::Array(array) => value::items(array).nth(name.index?),
        _ => None,
    }
}

fn array_at<'d>(path: &[Name], value: Option<RawBsonRef<'d>>) -> Result<&'d bson::RawArray> {
    match value {
        Some(RawBsonRef::Array(array)) => Ok(array),
        Some(other) => Err(Error::bad_value(format!(
            "'{}' must be an array for '$[]' to apply, but is of type {}",
            dotted(path),
            value::type_name(other)
        ))),
        None => Err(Error::bad_value(format!(
            "the path '{}' must exist for '$[]' to apply",
            dotted(path)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_paths_have_their_codes() {
        let code = |path: &str| Target::parse(path).unwrap_err().code();
        assert_eq!(code(""), Some(56));
        assert_eq!(code("a..b"), Some(56));
        assert_eq!(code("$.a"), Some(2));
        assert_eq!(code("a.$.b.$"), Some(2));
        assert_eq!(code(&"a.".repeat(1_000_000)), Some(15));
    }

    #[test]
    fn positions_are_ordered_by_number() {
        let target = |path| Target::parse(path).unwrap();
        assert!(target("a.2") < target("a.10"));
        assert!(target("a.b").conflicts(&target("a.b.c")));
        assert!(target("a.0.x").conflicts(&target("a.$[].y")));
        assert!(!target("a.0").conflicts(&target("a.1")));
    }
}
