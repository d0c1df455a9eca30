//! A compaction: a copy of a closed file without free pages takes the place of the file.
//!
//! The compaction holds the lock of the file until the copy has the name of the file, and holds the lock of the copy from its
//! creation on. So no other process can open the file meanwhile. A rename replaces the name atomically: after a crash, the name
//! belongs to the old file or to the complete copy.

use std::fs;
use std::io;
use std::path::Path;

use crate::backup::{self, UnfinishedCopy};
use crate::commit::Committer;
use crate::error::{Error, ErrorKind, Result};
use crate::store::logged::LoggedStore;
use crate::store::redb::RedbStore;

/// The lengths of a file before and after a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionReport {
    /// The length of the file before the compaction, in bytes.
    pub bytes_before: u64,
    /// The length of the file after the compaction, in bytes.
    pub bytes_after: u64,
}

/// Replaces the file at `path` by a copy without free pages. See [`Database::compact_file`](crate::Database::compact_file).
pub(crate) fn compact_file(path: &Path) -> Result<CompactionReport> {
    let name = path.display().to_string();
    let failure = |error: io::Error| Error::io("cannot compact", &name, error);
    // A rename over a symbolic link would replace the link.
    let path = fs::canonicalize(path).map_err(failure)?;
    let before = fs::metadata(&path).map_err(failure)?;
    if before.len() == 0 {
        let message = format!("{name} is empty; use the path of a database");
        return Err(Error::new(ErrorKind::ForeignFile, None, message));
    }
    let store = LoggedStore::open(RedbStore::open(&path)?)?;
    let original = Committer::open(Box::new(store))?;
    let copy = UnfinishedCopy::write(&original.state().view, &path)?;
    copy.shrink()?;
    copy.set_owner(&before)
        .and_then(|()| copy.set_permissions(before.permissions()))
        .and_then(|()| copy.replace(&path))
        .and_then(|()| backup::sync_directory(&path))
        .map_err(failure)?;
    copy.close();
    original.close();
    Ok(CompactionReport {
        bytes_before: before.len(),
        bytes_after: fs::metadata(&path).map_err(failure)?.len(),
    })
}
