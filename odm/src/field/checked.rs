//! What is checked of a document that is written.

use super::Path;
use crate::{Error, Result};

/// A place in a document that is checked, and the paths that are written: what stands elsewhere is stored already, and
/// stays as it is.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct Checked<'w> {
    path: Path,
    /// None if the whole document is written.
    written: Option<&'w [String]>,
}

impl<'w> Checked<'w> {
    /// A value or a document that is written as a whole.
    pub const WHOLE: Checked<'static> = Checked {
        path: Path::ROOT,
        written: None,
    };

    /// A document of which these paths are written.
    pub(crate) fn written(paths: &'w [String]) -> Self {
        Self {
            path: Path::ROOT,
            written: Some(paths),
        }
    }

    /// A field of it.
    #[must_use]
    pub fn then(&self, name: &'static str) -> Self {
        Self {
            path: self.path.then(name),
            ..*self
        }
    }

    /// A value of a map in it.
    pub(crate) fn key(&self, key: &str) -> Self {
        Self {
            path: self.path.append(key),
            ..*self
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The error of this place, with its path; none if the place is not written.
    pub(crate) fn refuse(&self, error: Error) -> Result<()> {
        let path = self.path.to_string();
        let is_at = |written: &String| {
            let rest = path.strip_prefix(written.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        match self.written {
            Some(written) if !written.iter().any(is_at) => Ok(()),
            _ if path.is_empty() => Err(error),
            _ => Err(error.with_path(path)),
        }
    }
}
