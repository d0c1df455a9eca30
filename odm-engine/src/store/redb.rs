//! The store on disk: one file, with one redb table.
//!
//! redb verifies its pages in a repair after a crash, but not on a read. So every [page](page_checksums) has a checksum
//! that is verified when the page is read from the file. Every [value](value_checksum) has a checksum, too. The checksums of
//! documents and index entries are verified by a validation and a backup only, if the pages have checksums. The format version has no
//! checksum, because engines of every version must be able to read it.
//!
//! redb refuses all writes after an I/O error. The store then reopens the file in the state after the last successful commit. On
//! a full disk, the store accepts only commits that free space, and uses a reserve of disk space for these commits.

mod database_file;
mod page_checksums;
mod read_only;
mod value_checksum;
mod write_ahead_log;

pub(super) use value_checksum::CHECKSUM_BYTES as VALUE_CHECKSUM_BYTES;
pub(crate) use write_ahead_log::LOG_BYTES;
pub(super) use write_ahead_log::{LogStart, WriteAheadLog};

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use database_file::{DatabaseFile, FileHandle, RefusedStorage, is_storage_full};
use redb::backends::FileBackend;
use redb::{
    Builder, CompactionError, Database, DatabaseError, OwnedAccessGuard, OwnedRange, ReadOnlyTable,
    ReadableDatabase, ReadableTable, StorageBackend, Table, TableDefinition, TableError,
};

use super::{
    Changes, CommitError, CommitWriter, Entries, FORMAT_VERSION, KeyRange, LargeCommit,
    PAGE_CHECKSUMS_VERSION, Snapshot, SpaceUse, StoredBytes, VALUE_CHECKSUMS_VERSION,
    read_format_version, snapshot_contains,
};
use crate::direction::Direction;
use crate::error::{Error, ErrorKind, Result};
use crate::key;

/// The table that holds the whole keyspace.
const TABLE: TableDefinition<'static, &'static [u8], &'static [u8]> =
    TableDefinition::new("odm-engine");

/// The size of redb's page cache. The cache holds the inner nodes of large files and a working set. A larger cache would
/// duplicate the cache of the operating system.
const CACHE_BYTES: usize = 64 << 20;

/// How much the reserve for the log grows at a time.
const LOG_RESERVE_STEP_BYTES: u64 = 512 << 10;

/// A file with the keyspace. Snapshots keep the file open, unless the file is closed explicitly.
pub(crate) struct RedbStore {
    file: Arc<DatabaseFile>,
    /// `None` once the store is closed.
    open_database: RwLock<Option<OpenDatabase>>,
    /// Whether the disk is full, so that only commits that free space are accepted.
    is_full: AtomicBool,
    /// Whether another file has taken the path, so that the content is needed only by the snapshots.
    is_replaced: AtomicBool,
    /// `None` for a storage that is no file.
    named: Mutex<Option<NamedFile>>,
}

/// The path of a file, and its metadata when it was opened or got this path.
struct NamedFile {
    /// Absolute, without symbolic links where the file system can resolve them.
    path: PathBuf,
    metadata: Metadata,
}

/// Returns the file on a storage, with a log of the usual length if this is a new file.
fn new_file(storage: FileBackend, name: String) -> DatabaseFile {
    DatabaseFile::new(storage, name, LOG_BYTES)
}

/// Returns the storage as redb sees it, without the pages of checksums.
pub(crate) fn redb_storage(storage: impl StorageBackend) -> impl StorageBackend {
    let file = DatabaseFile::new(storage, "the storage".into(), 0);
    FileHandle::new(Arc::new(file)).0
}

/// Whether two descriptions are about the same file.
#[cfg(unix)]
fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;

    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Windows has no stable interface for the identity of a file.
#[cfg(not(unix))]
fn is_same_file(_one: &Metadata, _other: &Metadata) -> bool {
    true
}

/// An open redb database on the file.
struct OpenDatabase {
    database: Database,
    /// Set to stop `database` from accessing the file after the file is reopened.
    is_over: Arc<AtomicBool>,
    /// Whether the values have checksums.
    has_value_checksums: bool,
}

impl RedbStore {
    /// Opens the file at `path`, or creates it with an empty keyspace.
    ///
    /// # Errors
    /// In use (by this or another process), foreign file, damaged, I/O.
    pub(crate) fn open(path: &Path) -> Result<Arc<RedbStore>> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        RedbStore::open_path(&options, path, path, new_file)
    }

    /// Opens the file at `path`, which exists.
    ///
    /// # Errors
    /// See [`open`](RedbStore::open).
    pub(crate) fn open_existing(path: &Path) -> Result<Arc<RedbStore>> {
        RedbStore::open_path(File::options().read(true).write(true), path, path, new_file)
    }

    /// Creates a file that only its owner can access. Follows no symbolic link. The messages of errors have the path `reported`.
    ///
    /// # Errors
    /// In use: the file exists. I/O, storage full.
    pub(crate) fn create_private(path: &Path, reported: &Path) -> Result<Arc<RedbStore>> {
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        RedbStore::open_path(&options, path, reported, new_file)
    }

    /// Opens the file at `path` for reads. The file stays unchanged.
    ///
    /// # Errors
    /// In use (by a writer), foreign file, damaged, I/O.
    pub(crate) fn open_read_only(path: &Path) -> Result<Arc<RedbStore>> {
        RedbStore::open_path(
            File::options().read(true),
            path,
            path,
            DatabaseFile::read_only,
        )
    }

    fn open_path(
        options: &OpenOptions,
        path: &Path,
        reported: &Path,
        on_storage: fn(FileBackend, String) -> DatabaseFile,
    ) -> Result<Arc<RedbStore>> {
        let name = reported.display().to_string();
        let failure = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                let message = format!("{name} was created meanwhile; try again later");
                Error::new(ErrorKind::InUse, None, message)
            }
            _ => Error::io("cannot open", &name, error),
        };
        let file = options.open(path).map_err(failure)?;
        let opened = file.metadata().map_err(failure)?;
        // Some file systems cannot resolve a path.
        let absolute = fs::canonicalize(path).or_else(|_| std::path::absolute(path));
        let absolute = absolute.map_err(failure)?;
        // `FileBackend::new` does not access the file yet.
        let storage = FileBackend::new(file)
            .map_err(|error| Error::io("cannot open", &name, error.to_string()))?;
        let store = RedbStore::open_file(on_storage(storage, name))?;
        *store.lock_named() = Some(NamedFile {
            path: absolute,
            metadata: opened,
        });
        store.ensure_current()?;
        Ok(store)
    }

    /// Refuses a file that has lost its path. Between the open and the lock, a compaction can replace the file, and writes to the old
    /// file would be lost.
    pub(crate) fn ensure_current(&self) -> Result<()> {
        let named = self.lock_named();
        let Some(NamedFile { path, metadata }) = &*named else {
            return Ok(());
        };
        let name = self.file.name();
        let current = path.metadata();
        let current = current.map_err(|error| Error::io("cannot open", name, error))?;
        if is_same_file(&current, metadata) {
            return Ok(());
        }
        let message = format!("{name} was replaced while it was opened; open it again");
        Err(Error::new(ErrorKind::InUse, None, message))
    }

    /// Moves the file to `path`. Replaces a file with this path.
    ///
    /// # Errors
    /// In use: the file has lost its old path. I/O.
    pub(crate) fn rename(&self, path: &Path) -> Result<()> {
        self.ensure_current()?;
        let mut named = self.lock_named();
        let Some(named) = &mut *named else {
            return Ok(());
        };
        let renamed = fs::rename(&named.path, path);
        let current = fs::metadata(path).ok();
        let current = current.filter(|current| is_same_file(current, &named.metadata));
        // On a network file system, a rename can succeed and return an error.
        if let Err(error) = renamed
            && (cfg!(not(unix)) || current.is_none())
        {
            return Err(self.convert_io(error));
        }
        named.path = path.to_owned();
        // Without new metadata, the old ones belong to the same file.
        if let Some(current) = current {
            named.metadata = current;
        }
        Ok(())
    }

    /// Says that another file has the path now. The close then leaves the rest of this file unwritten.
    pub(super) fn mark_replaced(&self) {
        self.is_replaced.store(true, Ordering::Release);
    }

    /// The path of the file as the caller gave it, for messages.
    pub(crate) fn name(&self) -> &str {
        self.file.name()
    }

    /// The absolute path of the file; `None` for a storage that is no file.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.lock_named().as_ref().map(|named| named.path.clone())
    }

    fn lock_named(&self) -> MutexGuard<'_, Option<NamedFile>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the file that `storage` represents, or creates it. A new file gets a log of `log_bytes`.
    ///
    /// # Errors
    /// See [`open`](RedbStore::open).
    pub(crate) fn open_storage(
        storage: impl StorageBackend,
        log_bytes: u64,
    ) -> Result<Arc<RedbStore>> {
        RedbStore::open_file(DatabaseFile::new(storage, "the storage".into(), log_bytes))
    }

    /// Opens the file that `storage` represents for reads.
    ///
    /// # Errors
    /// See [`open_read_only`](RedbStore::open_read_only).
    pub(crate) fn open_storage_read_only(storage: impl StorageBackend) -> Result<Arc<RedbStore>> {
        RedbStore::open_file(DatabaseFile::read_only(storage, "the storage".into()))
    }

    fn open_file(file: DatabaseFile) -> Result<Arc<RedbStore>> {
        let file = Arc::new(file);
        let opened = OpenDatabase::open(&file)?;
        let is_new = file.catch_redb_panic(|| opened.is_new(&file))?;
        let store = Arc::new(RedbStore {
            file,
            open_database: RwLock::new(Some(opened)),
            is_full: AtomicBool::new(false),
            is_replaced: AtomicBool::new(false),
            named: Mutex::new(None),
        });
        // The creation of a file has two commits. After a crash in between, the file has no format version.
        if store.is_read_only() && (is_new || store.format_version()?.is_none()) {
            return Err(store.file.empty_file_error());
        }
        if is_new {
            let committed = store.commit(&Changes::new());
            committed.map_err(CommitError::into_error)?;
        }
        store.detect_checksums()?;
        Ok(store)
    }

    /// Returns the format version; `None` if the file has no version yet.
    fn format_version(self: &Arc<Self>) -> Result<Option<u32>> {
        read_format_version(self.snapshot()?.as_ref())
    }

    /// The version of a new file with the layout of this file. The creation of the file may have begun with an older engine.
    pub(super) fn new_format(&self) -> u32 {
        match (self.has_log(), self.file.has_page_checksums()) {
            (true, _) => FORMAT_VERSION,
            (false, true) => PAGE_CHECKSUMS_VERSION,
            (false, false) => VALUE_CHECKSUMS_VERSION,
        }
    }

    /// Derives from the format version whether values and pages have checksums.
    fn detect_checksums(self: &Arc<Self>) -> Result<()> {
        let Some(version) = self.format_version()? else {
            return Ok(());
        };
        let is_newer = version > FORMAT_VERSION;
        let has_page_checksums = version >= PAGE_CHECKSUMS_VERSION;
        let has_log = version >= FORMAT_VERSION;
        let is_matching = has_page_checksums == self.file.has_page_checksums()
            && has_log == (self.file.log_bytes() > 0);
        if !is_newer && !is_matching {
            let reason = format!("format version {version} does not match the layout of the file");
            return Err(Error::damaged(reason));
        }
        let mut opened = self
            .open_database
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = opened.as_mut() {
            opened.has_value_checksums = version >= VALUE_CHECKSUMS_VERSION;
        }
        Ok(())
    }

    fn lock_open_database(&self) -> RwLockReadGuard<'_, Option<OpenDatabase>> {
        self.open_database
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the changes of a commit in one redb transaction. Rolls back on an error.
    fn write_once(&self, commit: &LargeCommit<'_>) -> Result<(), CommitError> {
        let opened = self.lock_open_database();
        let Some(opened) = &*opened else {
            return Err(CommitError::Undone(Error::closed()));
        };
        let file = &self.file;
        let begin_result = file.catch_redb_panic(|| {
            let begun = opened.database.begin_write();
            let mut transaction = begun.map_err(|error| file.convert_error(error))?;
            // Without this, redb reads the whole file when it opens the file after a crash. With a log, commits of redb are rare.
            // On a disk with little space, the pages for the list of free pages may be missing.
            transaction.set_quick_repair(self.has_log() && !file.is_scarce());
            Ok(transaction)
        });
        let transaction = begin_result.map_err(CommitError::Unknown)?;
        let written = file.catch_redb_panic(|| {
            let table = transaction
                .open_table(TABLE)
                .map_err(|error| file.convert_error(error))?;
            let mut writer = TableWriter {
                table,
                file,
                has_value_checksums: opened.has_value_checksums,
            };
            commit.write_to(&mut writer)
        });
        if let Err(error) = written {
            let aborted = file.catch_redb_panic(|| {
                transaction
                    .abort()
                    .map_err(|error| file.convert_error(error))
            });
            return Err(match aborted {
                Ok(()) => CommitError::Undone(error),
                Err(_) => CommitError::Unknown(error),
            });
        }
        file.catch_redb_panic(|| {
            transaction
                .commit()
                .map_err(|error| file.convert_error(error))
        })
        .map_err(CommitError::Unknown)
    }

    /// Writes the changes. If the outcome is unknown, reopens the file to find out whether the commit was written.
    fn write_and_recover(self: &Arc<Self>, commit: &LargeCommit<'_>) -> Result<(), CommitError> {
        let error = match self.write_once(commit) {
            Err(CommitError::Unknown(error)) => error,
            known => return known,
        };
        let is_written = self
            .reopen()
            .and_then(|()| snapshot_contains(self.snapshot()?.as_ref(), commit.changes));
        match is_written {
            Ok(true) => Ok(()),
            Ok(false) => Err(CommitError::Undone(error.into_rolled_back())),
            Err(_) => Err(CommitError::Unknown(error.into_outcome_unknown())),
        }
    }

    /// Returns the log of the file and the changes of its records; `None` if the file has no log, no commit yet, or a newer format
    /// with a log of a different meaning.
    ///
    /// # Errors
    /// Damaged, I/O.
    pub(super) fn open_log(self: &Arc<Self>) -> Result<Option<(WriteAheadLog, Changes)>> {
        let stored = self.snapshot()?.get(&key::for_log_start())?;
        let is_known = self
            .format_version()?
            .is_none_or(|version| version <= FORMAT_VERSION);
        let (Some(stored), true) = (stored, self.has_log() && is_known) else {
            return Ok(None);
        };
        let start = LogStart::from_bytes(&stored)
            .ok_or_else(|| Error::damaged("the start of the log has a wrong length"))?;
        WriteAheadLog::open(Arc::clone(&self.file), start).map(Some)
    }

    /// Returns a log without records, for a file that has no commit yet.
    pub(super) fn new_log(&self, start: LogStart) -> WriteAheadLog {
        WriteAheadLog::new(Arc::clone(&self.file), start)
    }

    /// The length of the log; 0 if the file has no log.
    pub(super) fn log_bytes(&self) -> u64 {
        self.file.log_bytes()
    }

    /// Whether the file has a place for a log.
    pub(super) fn has_log(&self) -> bool {
        self.file.log_bytes() > 0
    }

    /// Whether a log of `bytes` can certainly be moved to its final place. Takes a reserve from the disk for this.
    pub(super) fn has_room_for_log(&self, bytes: u64) -> bool {
        let size = (2 * bytes).next_multiple_of(LOG_RESERVE_STEP_BYTES);
        !self.is_full.load(Ordering::Acquire) && self.file.extend_reserve_to(size)
    }

    /// Says that the log is empty, so that the reserve may shrink.
    pub(super) fn end_log_reserve(&self) {
        self.file.end_log_reserve();
    }

    /// Commits changes that may use the reserve. The disk counts as full until the reserve is complete again: other changes must
    /// leave the rest of the disk to the reserve.
    pub(super) fn commit_from_reserve(
        self: &Arc<Self>,
        changes: &Changes,
    ) -> Result<(), CommitError> {
        self.is_full.store(true, Ordering::Release);
        let committed = self.commit(changes);
        let is_full = committed.is_err() || !self.file.fill_reserve();
        self.is_full.store(is_full, Ordering::Release);
        committed
    }

    /// Moves all pages to the start of the file, and cuts the free pages off the end. redb doubles a growing file, so up to a half of
    /// a new file can be free. The store has no snapshots during the call.
    ///
    /// # Errors
    /// I/O, storage full, closed. The store is closed then.
    pub(crate) fn shrink(&self) -> Result<()> {
        let mut slot = self
            .open_database
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let mut opened = slot.take().ok_or_else(Error::closed)?;
        self.file.catch_redb_panic(|| {
            let compacted = opened.database.compact();
            compacted.map(drop).map_err(|error| match error {
                CompactionError::Storage(error) => self.file.convert_error(error),
                error => Error::io("cannot compact", self.file.name(), error.to_string()),
            })
        })?;
        // redb stores the list of free pages when it closes the file. Without the list, redb reads the whole file when it opens
        // the file after a crash.
        let has_value_checksums = opened.has_value_checksums;
        opened.close(&self.file);
        *slot = Some(OpenDatabase {
            has_value_checksums,
            ..OpenDatabase::open(&self.file)?
        });
        Ok(())
    }

    /// Whether the file was opened only for reads.
    pub(super) fn is_read_only(&self) -> bool {
        self.file.is_read_only()
    }

    /// The length of the file in bytes.
    pub(crate) fn file_bytes(&self) -> Result<u64> {
        let len = self.file.storage_len();
        len.map_err(|error| self.convert_io(error))
    }

    /// The permissions that the file had when it was opened.
    pub(super) fn permissions(&self) -> Option<Permissions> {
        let named = self.lock_named();
        named.as_ref().map(|named| named.metadata.permissions())
    }

    /// Returns the error of an access to the log.
    pub(super) fn convert_io(&self, error: io::Error) -> Error {
        self.file.convert_io(error)
    }

    fn commit_any(self: &Arc<Self>, commit: &LargeCommit<'_>) -> Result<(), CommitError> {
        if self.is_read_only() {
            return Err(CommitError::Undone(Error::read_only()));
        }
        let rejection = |error| CommitError::Undone(self.convert_io(error));
        self.file.check_owner().map_err(rejection)?;
        if self.is_full.load(Ordering::Acquire) {
            self.file.release_reserve().map_err(rejection)?;
        } else {
            self.file.fill_reserve_if_due();
        }
        let mut written = self.write_and_recover(commit);
        if let Err(CommitError::Undone(error)) = &written
            && error.is_storage_full()
            && !self.is_full.swap(true, Ordering::AcqRel)
        {
            let retry = match commit.space {
                SpaceUse::OfChanges => self
                    .snapshot()
                    .and_then(|base| Self::frees_space(commit.changes, base.as_ref())),
                SpaceUse::Frees => Ok(true),
                SpaceUse::Grows => Ok(false),
            };
            if retry.is_ok_and(|frees_space| frees_space) && self.file.release_reserve().is_ok() {
                written = self.write_and_recover(commit);
            }
        }
        if self.is_full.load(Ordering::Acquire) {
            self.file.fill_reserve();
            // The freed space is inside the file, and only the next write can find out whether it suffices.
            self.is_full.store(written.is_err(), Ordering::Release);
        }
        written
    }

    /// Whether the changes remove at least as many bytes as they add. Ignores the change log, which drops about as much as it
    /// gains, and marks for removals.
    fn frees_space(changes: &Changes, base: &dyn Snapshot) -> Result<bool> {
        let mut added = 0_usize;
        let mut removed = 0_usize;
        for (key, value) in changes
            .iter()
            .filter(|(key, _)| !key::is_of_change_log(key) && !key::is_removal_mark(key))
        {
            if let Some(value) = value {
                added += key.len() + value.len();
            }
            if let Some(old) = base.get(key)? {
                removed += key.len() + old.len();
            }
        }
        Ok(added <= removed)
    }
}

impl RedbStore {
    /// Returns the state after the last commit.
    ///
    /// # Errors
    /// Closed, damaged, I/O.
    pub(super) fn snapshot(self: &Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        let opened = self.lock_open_database();
        let opened = opened.as_ref().ok_or_else(Error::closed)?;
        self.file.catch_redb_panic(|| {
            let read = opened
                .database
                .begin_read()
                .map_err(|error| self.file.convert_error(error))?;
            let table = read
                .open_table(TABLE)
                .map_err(|error| self.file.convert_error(error))?;
            Ok(Arc::new(RedbSnapshot {
                table: Arc::new(table),
                store: Arc::clone(self),
                checks: ValueChecks {
                    have_checksums: opened.has_value_checksums,
                    verify_on_read: !self.file.has_page_checksums(),
                },
            }) as Arc<dyn Snapshot>)
        })
    }

    /// Writes the changes of a small commit, atomically and durably.
    pub(super) fn commit(self: &Arc<Self>, changes: &Changes) -> Result<(), CommitError> {
        self.file.begin_commit(false);
        self.commit_any(&LargeCommit::of(changes))
    }

    /// Writes a large commit, atomically and durably.
    pub(crate) fn commit_large(
        self: &Arc<Self>,
        commit: &LargeCommit<'_>,
    ) -> Result<(), CommitError> {
        self.file.begin_commit(true);
        self.commit_any(commit)
    }

    /// Opens the file again, in the state of the last commit that was written.
    ///
    /// # Errors
    /// I/O, damaged, closed.
    pub(super) fn reopen(&self) -> Result<()> {
        let mut opened = self
            .open_database
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(current) = opened.as_mut() else {
            return Err(Error::closed());
        };
        let rolled_back = self.file.roll_back();
        rolled_back.map_err(|error| self.convert_io(error))?;
        let reopened = OpenDatabase::open(&self.file)?;
        // Set before the old database is dropped: the drop would write to the file.
        current.is_over.store(true, Ordering::Release);
        let is_sealed = current.has_value_checksums;
        let previous = std::mem::replace(
            current,
            OpenDatabase {
                has_value_checksums: is_sealed,
                ..reopened
            },
        );
        previous.close(&self.file);
        Ok(())
    }

    /// Refuses changes if the disk is known to be full.
    ///
    /// # Errors
    /// Storage full.
    pub(super) fn check_space(&self, changes: &Changes, base: &dyn Snapshot) -> Result<()> {
        if !self.is_full.load(Ordering::Acquire) || Self::frees_space(changes, base)? {
            return Ok(());
        }
        if !self.file.has_room() {
            let error =
                Error::storage_full(self.file.name(), "there was no room for an earlier write");
            return Err(error.into_rolled_back());
        }
        self.is_full.store(false, Ordering::Release);
        Ok(())
    }

    /// Closes the file. Later use of the store or its snapshots is an error.
    pub(crate) fn close(&self) {
        let mut opened = self
            .open_database
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if self.is_read_only() || self.is_replaced.load(Ordering::Acquire) {
            // redb writes data on close, which has no reader: it would stay in memory, or in a file without a path.
            if let Some(opened) = opened.as_ref() {
                opened.is_over.store(true, Ordering::Release);
            }
        } else {
            // The data that redb writes on close avoids a repair at the next open. Release the reserve to make room for that data.
            let _ = self.file.release_reserve();
        }
        if let Some(opened) = opened.take() {
            opened.close(&self.file);
        }
        self.file.close();
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        self.close();
    }
}

impl OpenDatabase {
    /// Opens the file, or creates it.
    fn open(file: &Arc<DatabaseFile>) -> Result<OpenDatabase> {
        let (handle, is_finished) = FileHandle::new(Arc::clone(file));
        let repaired = Arc::clone(file);
        let database = file.catch_redb_panic(|| {
            Builder::new()
                .set_cache_size(CACHE_BYTES)
                .set_repair_callback(move |_| repaired.begin_repair())
                .create_with_backend(handle)
                .map_err(|error| file.convert_open_error(error))
        });
        file.finish_open();
        Ok(OpenDatabase {
            database: database?,
            is_over: is_finished,
            has_value_checksums: true,
        })
    }

    /// Whether the file has no commit yet.
    ///
    /// # Errors
    /// The file has tables, but not the engine's table.
    fn is_new(&self, file: &DatabaseFile) -> Result<bool> {
        let read = self
            .database
            .begin_read()
            .map_err(|error| file.convert_error(error))?;
        match read.open_table(TABLE) {
            Ok(_) => Ok(false),
            Err(TableError::Storage(error)) => Err(file.convert_error(error)),
            Err(TableError::TableDoesNotExist(_)) => {
                let tables = read
                    .list_tables()
                    .map_err(|error| file.convert_error(error))?;
                let multimap_tables = read
                    .list_multimap_tables()
                    .map_err(|error| file.convert_error(error))?;
                match tables.count() + multimap_tables.count() {
                    0 => Ok(true),
                    _ => Err(file.foreign_file_error()),
                }
            }
            Err(_) => Err(file.foreign_file_error()),
        }
    }

    /// Closes the database. redb reads and writes pages on close, so damaged pages may cause a panic.
    fn close(self, file: &DatabaseFile) {
        let _ = file.catch_redb_panic(|| {
            drop(self.database);
            Ok(())
        });
    }
}

struct TableWriter<'t> {
    table: Table<'t, &'static [u8], &'static [u8]>,
    file: &'t DatabaseFile,
    has_value_checksums: bool,
}

impl CommitWriter for TableWriter<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if !value_checksum::has_checksum(self.has_value_checksums, key) {
            let inserted = self.table.insert(key, value);
            return inserted
                .map(drop)
                .map_err(|error| self.file.convert_error(error));
        }
        let length = value.len() + value_checksum::CHECKSUM_BYTES;
        let slot = self.table.insert_reserve(key, length);
        let mut room = slot.map_err(|error| self.file.convert_error(error))?;
        value_checksum::write_with_checksum(key, value, room.as_mut());
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<()> {
        let removed = self.table.remove(key);
        removed
            .map(drop)
            .map_err(|error| self.file.convert_error(error))
    }

    fn contains_key(&self, key: &[u8]) -> Result<bool> {
        let value = self.table.get(key);
        Ok(value
            .map_err(|error| self.file.convert_error(error))?
            .is_some())
    }

    fn remove_range(&mut self, range: &KeyRange) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let removed = self
            .table
            .retain_in::<&[u8], _>(range.as_bounds(), |_, _| false);
        removed.map_err(|error| self.file.convert_error(error))
    }
}

/// A redb read transaction, which the table keeps alive.
struct RedbSnapshot {
    table: Arc<ReadOnlyTable<&'static [u8], &'static [u8]>>,
    store: Arc<RedbStore>,
    checks: ValueChecks,
}

/// The checksums of the values of a snapshot.
#[derive(Clone, Copy)]
struct ValueChecks {
    have_checksums: bool,
    /// Whether a read of a document or an entry of an index verifies the checksum. In a file with checksums of pages, the page
    /// is verified when it is read from the file, so only a validation and a backup verify these values.
    verify_on_read: bool,
}

impl Snapshot for RedbSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<StoredBytes>> {
        self.store.file.catch_redb_panic(|| {
            let value = self
                .table
                .get_owned(key)
                .map_err(|error| self.store.file.convert_error(error))?;
            value
                .map(|value| self.checks.read_value(key, value))
                .transpose()
        })
    }

    fn range(&self, range: KeyRange, direction: Direction) -> Entries {
        if range.is_empty() {
            return Box::new(std::iter::empty());
        }
        match self.store.file.catch_redb_panic(|| {
            self.table
                .range_owned::<&[u8]>(range.as_bounds())
                .map_err(|error| self.store.file.convert_error(error))
        }) {
            Ok(entries) => Box::new(RedbEntries {
                entries: Some(entries),
                direction,
                store: Arc::clone(&self.store),
                checks: self.checks,
            }),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }

    fn verifying(&self) -> Option<Arc<dyn Snapshot>> {
        Some(Arc::new(RedbSnapshot {
            table: Arc::clone(&self.table),
            store: Arc::clone(&self.store),
            checks: ValueChecks {
                verify_on_read: true,
                ..self.checks
            },
        }))
    }
}

struct RedbEntries {
    /// `None` after an error.
    entries: Option<OwnedRange<&'static [u8], &'static [u8]>>,
    direction: Direction,
    store: Arc<RedbStore>,
    checks: ValueChecks,
}

impl Iterator for RedbEntries {
    type Item = Result<(StoredBytes, StoredBytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entries = self.entries.as_mut()?;
        let next = self.store.file.catch_redb_panic(|| {
            let next = match self.direction {
                Direction::Ascending => entries.next(),
                Direction::Descending => entries.next_back(),
            };
            let next = next
                .transpose()
                .map_err(|error| self.store.file.convert_error(error))?;
            let Some((key, value)) = next else {
                return Ok(None);
            };
            let value = self.checks.read_value(key.value(), value)?;
            Ok(Some((StoredBytes::Page(key), value)))
        });
        if next.is_err() {
            self.entries = None;
        }
        next.transpose()
    }
}

impl ValueChecks {
    /// Accesses the slice of the page once inside of the panic guard. Later accesses have the same bounds and cannot panic.
    ///
    /// # Errors
    /// Damaged.
    fn read_value(self, key: &[u8], value: OwnedAccessGuard<&'static [u8]>) -> Result<StoredBytes> {
        let stored = value.value();
        if !value_checksum::has_checksum(self.have_checksums, key) {
            return Ok(StoredBytes::Page(value));
        }
        if self.verify_on_read || !key::is_document_or_index_entry(key) {
            value_checksum::verify_checksum(key, stored)?;
        }
        Ok(StoredBytes::PageWithChecksum(value))
    }
}

impl DatabaseFile {
    /// Calls redb and turns a panic into an error. redb trusts the pages of its file and panics on some damaged pages.
    ///
    /// A panic leaves no state in use: a snapshot only reads, and a write transaction is aborted.
    fn catch_redb_panic<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(self.inconsistent_error()))
    }

    fn inconsistent_error(&self) -> Error {
        Error::damaged(match self.damaged_page() {
            Some(page) => format!("page {page} of {} differs from its checksum", self.name()),
            None => format!("the pages of {} are inconsistent", self.name()),
        })
    }

    fn foreign_file_error(&self) -> Error {
        let message = format!(
            "{} is not a database of this engine; use the path of a database, or of a file to create",
            self.name()
        );
        Error::new(ErrorKind::ForeignFile, None, message)
    }

    fn empty_file_error(&self) -> Error {
        let message = format!(
            "{} is empty or has no commit yet; open it with `Database::open` to create a database",
            self.name()
        );
        Error::new(ErrorKind::ForeignFile, None, message)
    }

    fn convert_open_error(&self, error: DatabaseError) -> Error {
        match error {
            DatabaseError::DatabaseAlreadyOpen => {
                let remedy = match self.is_read_only() {
                    true => {
                        "close that database, or read a copy that the program makes with `Database::backup`"
                    }
                    false => "close that database, or share its handle",
                };
                let message = format!(
                    "{} is open already, in this or another process; {remedy}",
                    self.name()
                );
                Error::new(ErrorKind::InUse, None, message)
            }
            error => self.convert_error(error),
        }
    }

    fn convert_io(&self, error: io::Error) -> Error {
        self.convert_error(redb::Error::Io(error))
    }

    fn convert_error(&self, error: impl Into<redb::Error>) -> Error {
        let name = self.name();
        match error.into() {
            redb::Error::DatabaseClosed => Error::closed(),
            redb::Error::Corrupted(reason) => match self.damaged_page() {
                Some(_) => self.inconsistent_error(),
                None => Error::damaged(format!("{name}: {reason}")),
            },
            redb::Error::PreviousIo => {
                let message = "an earlier access failed; the next write tries to reopen the file";
                Error::io("cannot read or write", name, message)
            }
            redb::Error::Io(error) => {
                let rejection = error.get_ref().and_then(|error| error.downcast_ref());
                match (rejection, error.kind()) {
                    (Some(RefusedStorage::Foreign), _) => self.foreign_file_error(),
                    (Some(rejection @ RefusedStorage::Forked { .. }), _) => Error::new(
                        ErrorKind::InUse,
                        None,
                        format!("{name} cannot be used: {rejection}"),
                    ),
                    (None, io::ErrorKind::UnexpectedEof) => {
                        Error::damaged(format!("{name} ends too early"))
                    }
                    (None, io::ErrorKind::InvalidData) => {
                        Error::damaged(format!("{name}: {error}"))
                    }
                    (None, _) if is_storage_full(&error) => Error::storage_full(name, error),
                    (None, _) => Error::io("cannot read or write", name, error),
                }
            }
            error => Error::io("cannot read or write", name, error.to_string()),
        }
    }
}
