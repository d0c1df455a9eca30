//! Places during validation of a write.

use super::Path;
use crate::{Error, Result};

/// A place in a document during validation, with the paths that a save writes. Values at other paths are stored already and stay
/// unchanged, so their violations are not reported.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct CheckedPlace<'w> {
    path: Path,
    /// The written paths; `None` if the whole document is written.
    written: Option<&'w [String]>,
}

impl<'w> CheckedPlace<'w> {
    /// A value or a document that is written as a whole.
    pub const WHOLE: CheckedPlace<'static> = CheckedPlace {
        path: Path::ROOT,
        written: None,
    };

    /// Returns the root of a document with these written paths.
    pub(crate) fn with_written_paths(paths: &'w [String]) -> Self {
        Self {
            path: Path::ROOT,
            written: Some(paths),
        }
    }

    /// Returns the place of a field.
    #[must_use]
    pub fn subfield(&self, name: &'static str) -> Self {
        Self {
            path: self.path.subfield(name),
            ..*self
        }
    }

    /// Returns the place of a map value.
    pub(crate) fn map_value(&self, key: &str) -> Self {
        Self {
            path: self.path.append_name(key),
            ..*self
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the error with the path of this place, or `Ok` if the place is not written.
    pub(crate) fn fail_if_written(&self, error: Error) -> Result<()> {
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
