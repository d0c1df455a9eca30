//! A compaction: a copy of a file without free pages takes the place of the file.
//!
//! No commit runs meanwhile. The store holds the lock of the old file until the copy has the path of the file, and holds the lock of
//! the copy from its creation on. So no other process can open the file meanwhile. A rename replaces the file atomically: after a
//! crash, the path belongs to the old file or to the complete copy.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::backup::{self, UnfinishedCopy};
use crate::commit::Committer;
use crate::error::{Error, ErrorKind, Result};
use crate::store::logged::{FileWithLog, LoggedStore};
use crate::store::redb::RedbStore;
use crate::store::{StoreView, no_file_to_compact};

/// The lengths of a file before and after a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionReport {
    /// The length of the file before the compaction, in bytes.
    pub bytes_before: u64,
    /// The length of the file after the compaction, in bytes.
    pub bytes_after: u64,
}

/// Compacts the closed file at `path`. See [`Database::compact_file`](crate::Database::compact_file).
pub(crate) fn compact_closed_file(path: &Path) -> Result<CompactionReport> {
    let name = path.display().to_string();
    let length = || -> Result<u64> {
        let metadata = fs::metadata(path);
        let metadata = metadata.map_err(|error| Error::io("cannot compact", &name, error))?;
        Ok(metadata.len())
    };
    let bytes_before = length()?;
    if bytes_before == 0 {
        let message = format!("{name} is empty; use the path of a database");
        return Err(Error::new(ErrorKind::ForeignFile, None, message));
    }
    let store = LoggedStore::open(RedbStore::open_existing(path)?)?;
    let committer = Committer::open(Box::new(store))?;
    let compacted = committer.compact();
    // Releases the reserve of disk space too.
    committer.close();
    compacted?;
    Ok(CompactionReport {
        bytes_before,
        bytes_after: length()?,
    })
}

/// Writes `content` to a new file, which takes the place of `original`. The new file has the owner and the permissions of the old file.
/// The path of the new file is not durable yet.
///
/// # Errors
/// The storage is no file, or the file has lost its path. The errors of a [copy](UnfinishedCopy::write). The path belongs to the old
/// file then, and the old file is unchanged.
pub(crate) fn replace_file(
    original: &Arc<RedbStore>,
    content: &StoreView,
) -> Result<(FileWithLog, CompactionReport)> {
    let Some(path) = original.path() else {
        return Err(no_file_to_compact());
    };
    let failure = |error: io::Error| Error::io("cannot compact", original.name(), error);
    let before = fs::metadata(&path).map_err(failure)?;
    // After the rename, a directory that cannot be synced would fail every later write.
    backup::sync_directory(&path).map_err(failure)?;
    // Writers wait for the end of the compaction.
    let copy = UnfinishedCopy::write(content, &path, &|| false)?;
    copy.shrink()?;
    copy.set_owner(&before)
        .and_then(|()| copy.set_permissions(before.permissions()))
        .map_err(failure)?;
    let compact = FileWithLog::open(Arc::clone(copy.store()))?;
    let report = CompactionReport {
        bytes_before: original.file_bytes()?,
        bytes_after: compact.file.file_bytes()?,
    };
    // After this check, only a program that ignores the lock can replace the file.
    original.ensure_current()?;
    copy.replace(&path)?;
    Ok((compact, report))
}
