//! The way from a document to a place in it.

use std::{borrow::Cow, fmt};

use crate::{Error, ErrorKind, Result};

/// A dotted path of stored names, with what is known of the place that it leads to.
#[derive(Debug, Clone)]
pub struct Path {
    dotted: Cow<'static, str>,
    max: Option<usize>,
    /// Whether it leads through one element of an array, which expressions do not follow.
    has_position: bool,
    /// A key that no path can hold, found when the path was made and reported when it is used.
    refused: Option<Error>,
}

impl Path {
    /// The document itself.
    pub const ROOT: Self = Self {
        dotted: Cow::Borrowed(""),
        max: None,
        has_position: false,
        refused: None,
    };

    /// The path to a field of what this one leads to.
    #[must_use]
    pub fn then(&self, name: &'static str) -> Self {
        if self.dotted.is_empty() {
            Self {
                dotted: Cow::Borrowed(name),
                max: None,
                has_position: self.has_position,
                refused: self.refused.clone(),
            }
        } else {
            self.append(name)
        }
    }

    /// The path to an array in a field, which holds at most `max` elements.
    #[must_use]
    pub fn then_bounded(&self, name: &'static str, max: usize) -> Self {
        Self {
            max: Some(max),
            ..self.then(name)
        }
    }

    /// The path to the value of a map's key, which may come from a user.
    pub(crate) fn key(&self, key: &str) -> Self {
        let mut path = self.append(key);
        if path.refused.is_none() {
            path.refused = refuse_key(key)
                .err()
                .map(|e| e.with_path(self.dotted.clone()));
        }
        path
    }

    /// The path to an element, or to all of them.
    pub(crate) fn append(&self, name: &str) -> Self {
        let dotted = if self.dotted.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.dotted)
        };
        Self {
            dotted: Cow::Owned(dotted),
            max: None,
            has_position: self.has_position,
            refused: self.refused.clone(),
        }
    }

    /// The path to the element at an index.
    pub(crate) fn at(&self, index: usize) -> Self {
        Self {
            has_position: true,
            ..self.append(&index.to_string())
        }
    }

    /// The path as an expression reads it: `$author.name`.
    ///
    /// # Errors
    ///
    /// As [`dotted`](Self::dotted), and [`Invalid`](ErrorKind::Invalid) for one element of an array: there an expression
    /// looks for a field.
    pub(crate) fn expression(&self) -> Result<String> {
        let dotted = self.dotted()?;
        if self.has_position {
            return Err(Error::new(
                ErrorKind::Invalid,
                "an aggregate is of a field, not of one element of an array: use a `pipeline`",
            )
            .with_path(dotted));
        }
        Ok(format!("${dotted}"))
    }

    /// The path as MongoDB writes it: stored names, with dots between them.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if a map's key on the way cannot stand in a path.
    pub fn dotted(&self) -> Result<&str> {
        match &self.refused {
            Some(error) => Err(error.clone()),
            None => Ok(&self.dotted),
        }
    }

    /// How many elements the array at this place may hold, where that was declared.
    #[must_use]
    pub fn max(&self) -> Option<usize> {
        self.max
    }

    pub(crate) fn is_root(&self) -> bool {
        self.dotted.is_empty()
    }
}

impl super::FromPath for Path {
    fn from_path(path: Path) -> Self {
        path
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.dotted)
    }
}

/// A key with a dot would be a path, one with a dollar an operator, and BSON ends a key at a null byte.
pub(crate) fn refuse_key(key: &str) -> Result<()> {
    let what = if key.is_empty() {
        "is empty"
    } else if key.contains('.') {
        "has a dot"
    } else if key.starts_with('$') {
        "begins with a dollar sign"
    } else if key.contains('\0') {
        "has a null byte"
    } else {
        return Ok(());
    };
    Err(Error::new(
        ErrorKind::Invalid,
        format!(
            "the map key {key:?} {what}: no document can be asked for it, so it is not stored; encode such keys"
        ),
    ))
}
