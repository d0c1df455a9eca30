//! A backup: a copy of one state of a database in a new file.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::direction::Direction;
use crate::error::{Error, ErrorKind, Result};
use crate::interrupt;
use crate::key;
use crate::store::redb::RedbStore;
use crate::store::{
    Changes, CommitError, FORMAT_VERSION, KeyRange, LargeCommit, Snapshot, SpaceUse, StoreView,
};

/// The end of the name of an unfinished copy.
const UNFINISHED_SUFFIX: &str = ".unfinished";

/// How long a backup works before it pauses for the same time.
const WORK_BEFORE_PAUSE: Duration = Duration::from_millis(2);

/// The maximum pause of a backup.
const MAX_BACKUP_PAUSE: Duration = Duration::from_millis(20);

/// How many entries a backup copies between two looks at the clock.
const ENTRIES_BEFORE_CLOCK: usize = 64;

/// Writes a copy of `view` to a new file with these permissions; only the owner can access the file by default. The file has its name
/// only when the copy is complete and durable. One call runs at a time in each database. While other threads write, as `is_busy` says, the
/// copy works for half of the time.
///
/// # Errors
/// The file exists. A copy of another database to the same file is running. I/O, storage full, damaged, cancelled.
pub(crate) fn write_copy(
    view: &StoreView,
    permissions: Option<fs::Permissions>,
    path: &Path,
    is_busy: &dyn Fn() -> bool,
) -> Result<()> {
    let failure = |error: io::Error| {
        Error::io(
            "cannot write the backup",
            &path.display().to_string(),
            error,
        )
    };
    ensure_free(path).map_err(failure)?;
    let copy = UnfinishedCopy::write(view, path, is_busy)?;
    if let Some(permissions) = permissions {
        copy.set_permissions(permissions).map_err(failure)?;
    }
    // Another program may have created the file during the copy. Without the lock of the copy, another backup to the same path could
    // remove the copy, and create its own copy under the name that is renamed here.
    ensure_free(path).map_err(failure)?;
    let store = copy.replace(path)?;
    sync_directory(path).map_err(failure)?;
    store.close();
    Ok(())
}

/// A complete copy in a file with a temporary name. The drop removes the file.
pub(crate) struct UnfinishedCopy {
    path: PathBuf,
    store: Arc<RedbStore>,
    /// Whether the file has its final name. The drop leaves the file then.
    is_named: bool,
}

impl UnfinishedCopy {
    /// Writes a copy of `view` to a file beside `path`. The copy is durable and has a lock. Only its owner can access the copy. Works for
    /// half of the time while `is_busy`.
    ///
    /// # Errors
    /// A copy of another database to the same file is running. I/O, storage full, damaged, cancelled.
    pub(crate) fn write(
        view: &StoreView,
        path: &Path,
        is_busy: &dyn Fn() -> bool,
    ) -> Result<UnfinishedCopy> {
        let unfinished = unfinished_path(path);
        remove_abandoned(&unfinished)?;
        let copy = UnfinishedCopy {
            // After an error here, the file belongs to another backup.
            store: RedbStore::create_private(&unfinished, path)?,
            path: unfinished,
            is_named: false,
        };
        copy_entries(view, &copy.store, is_busy)?;
        Ok(copy)
    }

    /// Cuts the free space off the end of the copy.
    ///
    /// # Errors
    /// I/O, storage full.
    pub(crate) fn shrink(&self) -> Result<()> {
        self.store.shrink()
    }

    /// Gives the copy the owner and the group of `original`.
    #[cfg(unix)]
    pub(crate) fn set_owner(&self, original: &fs::Metadata) -> io::Result<()> {
        use std::os::unix::fs::{MetadataExt, lchown};

        let copy = fs::symlink_metadata(&self.path)?;
        if (copy.uid(), copy.gid()) == (original.uid(), original.gid()) {
            return Ok(());
        }
        lchown(&self.path, Some(original.uid()), Some(original.gid())).map_err(|error| {
            let message = format!("the copy cannot get the owner and group of the file: {error}");
            io::Error::new(error.kind(), message)
        })
    }

    #[cfg(not(unix))]
    pub(crate) fn set_owner(&self, _original: &fs::Metadata) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn set_permissions(&self, permissions: fs::Permissions) -> io::Result<()> {
        fs::set_permissions(&self.path, permissions)
    }

    /// Gives the copy its name, and returns the open file. Replaces a file with this name.
    ///
    /// # Errors
    /// I/O. In use: another backup has taken the temporary name of a damaged copy, which has no lock.
    pub(crate) fn replace(mut self, path: &Path) -> Result<Arc<RedbStore>> {
        self.store.rename(path)?;
        self.is_named = true;
        Ok(Arc::clone(&self.store))
    }

    /// The open file of the copy.
    pub(crate) fn store(&self) -> &Arc<RedbStore> {
        &self.store
    }
}

impl Drop for UnfinishedCopy {
    fn drop(&mut self) {
        if !self.is_named {
            if self.store.ensure_current().is_ok() {
                // Before the lock ends: later, the name may belong to another backup. Ignore the error. The next backup removes the file.
                let _ = fs::remove_file(&self.path);
            }
            self.store.close();
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
    match fs::symlink_metadata(unfinished) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failure(error)),
        Ok(metadata) if !metadata.is_file() => {
            let message = format!("{name} is not a file, such as a symbolic link; remove it");
            return Err(Error::new(ErrorKind::ForeignFile, None, message));
        }
        Ok(_) => {}
    }
    // The lock tells a running backup from an abandoned one. A file of another program stays, and so does a file that cannot be opened.
    let removed = match RedbStore::open_existing(unfinished) {
        // Before the lock ends: later, the name may belong to another backup.
        Ok(_locked) => fs::remove_file(unfinished),
        Err(error) if error.kind() == ErrorKind::Damaged => fs::remove_file(unfinished),
        Err(error) => return Err(error),
    };
    removed.map_err(failure)
}

/// Writes all entries in one commit, in the order of the keys. redb doubles a growing file, so the end of the file can be free.
fn copy_entries(
    view: &StoreView,
    store: &Arc<RedbStore>,
    is_busy: &dyn Fn() -> bool,
) -> Result<()> {
    let log_start = key::for_log_start();
    let dropped = key::removal_marks(view)?;
    // The new file has a log of its own, without records.
    let is_copied = |key: &[u8]| {
        *key != *log_start
            && !key::is_removal_mark(key)
            && !dropped.iter().any(|prefix| key.starts_with(prefix))
    };
    let mut version = Changes::new();
    version.insert(
        key::for_format_version().into(),
        Some(FORMAT_VERSION.to_be_bytes().as_slice().into()),
    );
    let committed = store.commit_large(&LargeCommit {
        bulk: Some(&|writer| {
            let entries = view
                .with_verification()
                .range(KeyRange::with_prefix(&[]), Direction::Ascending);
            let mut work_start = Instant::now();
            for (number, entry) in entries.enumerate() {
                interrupt::check()?;
                if number % ENTRIES_BEFORE_CLOCK == 0 && work_start.elapsed() >= WORK_BEFORE_PAUSE {
                    if is_busy() {
                        thread::sleep(work_start.elapsed().min(MAX_BACKUP_PAUSE));
                    }
                    work_start = Instant::now();
                }
                let (key, value) = entry?;
                if is_copied(&key) {
                    writer.put(&key, &value)?;
                }
            }
            Ok(())
        }),
        space: SpaceUse::Grows,
        ..LargeCommit::of(&version)
    });
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use bson::rawdoc;

    use super::*;
    use crate::{Count, Database};

    #[test]
    fn a_copy_pauses_while_others_write() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path().join("data.odm")).unwrap();
        let text = "x".repeat(500);
        let documents = (0..20_000).map(|id| rawdoc! { "_id": id, "text": text.as_str() });
        let inserted = database.insert("c", documents.collect()).unwrap();
        inserted.into_result().unwrap();
        let pauses = Cell::new(0);
        let is_busy = || {
            pauses.set(pauses.get() + 1);
            true
        };
        let path = folder.path().join("copy.odm");
        let view = &database.committer().state().view;
        let start = Instant::now();
        write_copy(view, None, &path, &is_busy).unwrap();
        assert!(pauses.get() > 0);
        // Half of the time are pauses.
        assert!(start.elapsed() >= 2 * pauses.get() * WORK_BEFORE_PAUSE);
        let copy = Database::open(&path).unwrap();
        assert_eq!(copy.count("c", &Count::default()).unwrap(), 20_000);
    }
}
