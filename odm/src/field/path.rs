//! The way from a document to a place in it.

use std::{borrow::Cow, fmt};

use crate::{Error, ErrorKind, Result, query::Node};

/// A dotted path of stored names, with what is known of the place that it leads to.
#[derive(Debug, Clone)]
pub struct Path {
    dotted: Cow<'static, str>,
    max: Option<usize>,
    /// A key that no path can hold, found when the path was made and reported when it is used.
    refused: Option<Error>,
    /// The place is inside of an enum's variant: it is written only where this holds.
    only_where: Option<Box<Node>>,
    /// The place has fields of one value and the tag of an enum side by side, and holds neither alone.
    beside_tag: bool,
}

impl Path {
    /// The document itself.
    pub const ROOT: Self = Self {
        dotted: Cow::Borrowed(""),
        max: None,
        refused: None,
        only_where: None,
        beside_tag: false,
    };

    /// The path to a field of what this one leads to.
    #[must_use]
    pub fn then(&self, name: &'static str) -> Self {
        if self.dotted.is_empty() {
            Self {
                dotted: Cow::Borrowed(name),
                max: None,
                refused: self.refused.clone(),
                only_where: self.only_where.clone(),
                beside_tag: false,
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
            refused: self.refused.clone(),
            only_where: self.only_where.clone(),
            beside_tag: false,
        }
    }

    /// The same place, which is there only where the condition holds.
    pub(crate) fn only_where(&self, condition: Node) -> Self {
        let condition = match self.only_where.as_deref() {
            Some(before) => before.clone().and(condition),
            None => condition,
        };
        Self {
            only_where: Some(Box::new(condition)),
            ..self.clone()
        }
    }

    /// The condition on which the place is there, if it is inside of an enum's variant.
    pub(crate) fn condition(&self) -> Option<&Node> {
        self.only_where.as_deref()
    }

    /// The same place as one of fields that are beside an enum's tag.
    pub(crate) fn beside_tag(self) -> Self {
        Self {
            beside_tag: true,
            ..self
        }
    }

    /// The path as MongoDB writes it: stored names, with dots between them.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if a map's key on the way cannot stand in a path, and for the whole of what is
    /// stored beside the tag of an enum.
    pub fn dotted(&self) -> Result<&str> {
        match &self.refused {
            Some(error) => Err(error.clone()),
            None if self.beside_tag => Err(Error::new(
                ErrorKind::Invalid,
                "the content of an internally tagged variant is stored beside the tag, so nothing holds it alone: speak of \
                 its fields, or of the enum as a whole",
            )
            .with_path(self.dotted.clone())),
            None => Ok(&self.dotted),
        }
    }

    /// How many elements the array at this place may hold, where that was declared.
    #[must_use]
    pub fn max(&self) -> Option<usize> {
        self.max
    }

    pub(crate) fn is_root(&self) -> bool {
        self.dotted.is_empty() && !self.beside_tag
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
