//! A backup: a copy of one state of a database in a new file.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::direction::Direction;
use crate::error::{Error, ErrorKind, Result};
use crate::interrupt;
use crate::key;
use crate::store::redb::RedbStore;
use crate::store::{Changes, CommitError, FORMAT_VERSION, KeyRange, Snapshot, Store, StoreView};

/// The end of the name of an unfinished copy.
const UNFINISHED_SUFFIX: &str = ".unfinished";

/// Writes a copy of `view` to a new file. The file has its name only when the copy is complete and durable. One call runs at a
/// time in each database.
///
/// # Errors
/// The file exists. A copy of another database to the same file is running. I/O, storage full, damaged, cancelled.
pub(crate) fn write_copy(view: &StoreView, path: &Path) -> Result<()> {
    let failure = |error: io::Error| {
        Error::io(
            "cannot write the backup",
            &path.display().to_string(),
            error,
        )
    };
    ensure_free(path).map_err(failure)?;
    let copy = UnfinishedCopy::write(view, path)?;
    copy.close();
    // Another program may have created the file during the copy.
    ensure_free(path)
        .and_then(|()| copy.replace(path))
        .and_then(|()| sync_directory(path))
        .map_err(failure)
}

/// A complete copy in a file with a temporary name. The drop removes a file that still has the temporary name.
pub(crate) struct UnfinishedCopy {
    path: PathBuf,
    store: RedbStore,
    is_named: Cell<bool>,
}

impl UnfinishedCopy {
    /// Writes a copy of `view` to a file beside `path`. The copy is durable and has a lock.
    ///
    /// # Errors
    /// A copy of another database to the same file is running. I/O, storage full, damaged, cancelled.
    pub(crate) fn write(view: &StoreView, path: &Path) -> Result<UnfinishedCopy> {
        let unfinished = unfinished_path(path);
        remove_abandoned(&unfinished)?;
        let copy = UnfinishedCopy {
            // After an error here, the file belongs to another backup.
            store: RedbStore::open(&unfinished)?,
            path: unfinished,
            is_named: Cell::new(false),
        };
        copy_entries(view, &copy.store)?;
        Ok(copy)
    }

    /// Cuts the free space off the end of the copy.
    ///
    /// # Errors
    /// I/O, storage full.
    pub(crate) fn shrink(&self) -> Result<()> {
        self.store.shrink()
    }

    pub(crate) fn set_permissions(&self, permissions: fs::Permissions) -> io::Result<()> {
        fs::set_permissions(&self.path, permissions)
    }

    /// Gives the copy its name. Replaces a file with this name.
    pub(crate) fn replace(&self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.is_named.set(true);
        Ok(())
    }

    /// Closes the copy, which releases the lock.
    pub(crate) fn close(&self) {
        self.store.close();
    }
}

impl Drop for UnfinishedCopy {
    fn drop(&mut self) {
        self.store.close();
        if !self.is_named.get() {
            // Ignore the error. The next backup removes the file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn ensure_free(path: &Path) -> io::Result<()> {
    match path.try_exists()? {
        true => Err(io::ErrorKind::AlreadyExists.into()),
        false => Ok(()),
    }
}

fn unfinished_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(UNFINISHED_SUFFIX);
    name.into()
}

/// Removes the unfinished copy of a process that died.
fn remove_abandoned(unfinished: &Path) -> Result<()> {
    let name = unfinished.display().to_string();
    let failure = |error: io::Error| Error::io("cannot remove", &name, error);
    if !unfinished.try_exists().map_err(failure)? {
        return Ok(());
    }
    match RedbStore::open(unfinished) {
        // The lock tells a running backup from an abandoned one. A file of another program stays.
        Err(error) if matches!(error.kind(), ErrorKind::InUse | ErrorKind::ForeignFile) => {
            Err(error)
        }
        _ => fs::remove_file(unfinished).map_err(failure),
    }
}

/// Writes all entries in one commit, in the order of the keys, so that the file has no gaps.
fn copy_entries(view: &StoreView, store: &RedbStore) -> Result<()> {
    let log_generation = key::for_log_generation();
    let mut version = Changes::new();
    version.insert(
        key::for_format_version().into(),
        Some(FORMAT_VERSION.to_be_bytes().as_slice().into()),
    );
    let committed = store.commit(
        &version,
        Some(&|writer| {
            for entry in view
                .with_verification()
                .range(KeyRange::with_prefix(&[]), Direction::Ascending)
            {
                interrupt::check()?;
                let (key, value) = entry?;
                // The new file has a log of its own, without records.
                if *key != *log_generation {
                    writer.put(&key, &value)?;
                }
            }
            Ok(())
        }),
    );
    committed.map_err(CommitError::into_error)
}

/// Makes the name of a file durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = parent.unwrap_or(Path::new("."));
    if cfg!(unix) {
        fs::File::open(directory)?.sync_all()?;
    }
    Ok(())
}
