//! The store on disk: one file, with one table of redb.
//!
//! redb verifies its pages when it opens a file after a crash, not when it reads them. So every [page](page_checksums)
//! has a checksum that is verified when it is read from the file, and every [value](seal) one that is verified when it
//! is read at all, but for the version of the format, which any engine can read.
//!
//! redb takes no further write after an I/O error, so the store opens the file anew after one, as it was after the last
//! commit that succeeded. When the disk is full, only commits that free space are carried out, with the help of a
//! reserve.

mod database_file;
mod page_checksums;
mod seal;

pub(super) use seal::LENGTH as SEAL_LENGTH;

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use database_file::{DatabaseFile, Handle, Refused};
use redb::backends::FileBackend;
use redb::{
    Builder, Database, DatabaseError, OwnedAccessGuard, OwnedRange, ReadOnlyTable,
    ReadableDatabase, ReadableTable, StorageBackend, Table, TableDefinition, TableError,
};

use super::{Bulk, Bytes, Changes, CommitError, Entries, KeyRange, Snapshot, Store, Writer, holds};
use crate::direction::Direction;
use crate::error::{Error, ErrorKind, Result};
use crate::key;

/// The table that holds the whole keyspace.
const TABLE: TableDefinition<'static, &'static [u8], &'static [u8]> =
    TableDefinition::new("odm-engine");

/// Pages kept in memory. Enough for the inner nodes of large files and a working set; more would
/// only duplicate the cache of the operating system.
const CACHE_BYTES: usize = 128 << 20;

/// The first version of the format with checksums of values. A file of an older one goes on without.
const FIRST_SEALED: u32 = 3;

/// The first version of the format with checksums of pages.
const FIRST_WITH_PAGE_CHECKSUMS: u32 = 4;

pub(crate) struct RedbStore {
    file: Arc<DatabaseFile>,
    /// `None` once the store is closed.
    opened: RwLock<Option<Opened>>,
    /// Whether the disk is full: only commits that free space are carried out.
    is_full: AtomicBool,
}

/// What redb sees of a storage.
pub(crate) fn redb_storage(storage: impl StorageBackend) -> impl StorageBackend {
    let file = DatabaseFile::new(storage, "the storage".into());
    Handle::new(Arc::new(file)).0
}

/// The file as redb has it open.
struct Opened {
    database: Database,
    /// Ends what `database` does to the file.
    is_over: Arc<AtomicBool>,
    /// Whether the values have checksums.
    is_sealed: bool,
}

impl RedbStore {
    /// Opens the file at `path`, or creates it with an empty keyspace.
    ///
    /// # Errors
    /// In use (by this or another process), foreign file, damaged, I/O.
    pub(crate) fn open(path: &Path) -> Result<RedbStore> {
        let name = path.display().to_string();
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path);
        let file = file.map_err(|error| Error::io("cannot open", &name, error))?;
        // It does nothing with the file yet.
        let storage = FileBackend::new(file)
            .map_err(|error| Error::io("cannot open", &name, error.to_string()))?;
        RedbStore::on(DatabaseFile::new(storage, name))
    }

    /// Opens the file that `storage` stands for, or creates it.
    ///
    /// # Errors
    /// As [`open`](RedbStore::open).
    pub(crate) fn open_storage(storage: impl StorageBackend) -> Result<RedbStore> {
        RedbStore::on(DatabaseFile::new(storage, "the storage".into()))
    }

    fn on(file: DatabaseFile) -> Result<RedbStore> {
        let file = Arc::new(file);
        let opened = Opened::open(&file)?;
        let is_new = file.unpanicked(|| opened.is_new(&file))?;
        let store = RedbStore {
            file,
            opened: RwLock::new(Some(opened)),
            is_full: AtomicBool::new(false),
        };
        if is_new {
            match store.commit(&Changes::new(), &|_| Ok(())) {
                Ok(()) => {}
                Err(CommitError::Undone(error) | CommitError::Unknown(error)) => return Err(error),
            }
        }
        store.set_version()?;
        Ok(store)
    }

    /// Finds out from the version of the format which checksums there are.
    fn set_version(&self) -> Result<()> {
        let version = self.snapshot()?.get(&key::format())?;
        let version = version.as_deref().and_then(<[u8]>::first_chunk);
        let Some(version) = version.map(|version| u32::from_be_bytes(*version)) else {
            return Ok(());
        };
        let is_newer = version > FIRST_WITH_PAGE_CHECKSUMS;
        let has_page_checksums = version == FIRST_WITH_PAGE_CHECKSUMS;
        if !is_newer && has_page_checksums != self.file.has_page_checksums() {
            let what = format!("its version {version} does not fit its pages");
            return Err(Error::damaged(what));
        }
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = opened.as_mut() {
            opened.is_sealed = version >= FIRST_SEALED;
        }
        Ok(())
    }

    fn opened(&self) -> RwLockReadGuard<'_, Option<Opened>> {
        self.opened.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes, or leaves everything as it is.
    fn write(&self, changes: &Changes, bulk: Bulk<'_>) -> Result<(), CommitError> {
        let opened = self.opened();
        let Some(opened) = &*opened else {
            return Err(CommitError::Undone(Error::closed()));
        };
        let file = &self.file;
        let begun = file.unpanicked(|| {
            opened
                .database
                .begin_write()
                .map_err(|error| file.error(error))
        });
        let transaction = begun.map_err(CommitError::Unknown)?;
        let written = file.unpanicked(|| {
            let table = transaction
                .open_table(TABLE)
                .map_err(|error| file.error(error))?;
            let mut writer = TableWriter {
                table,
                file,
                is_sealed: opened.is_sealed,
            };
            bulk(&mut writer)?;
            for (key, value) in changes {
                match value {
                    Some(value) => writer.put(key, value)?,
                    None => writer.remove(key)?,
                }
            }
            Ok(())
        });
        if let Err(error) = written {
            let aborted =
                file.unpanicked(|| transaction.abort().map_err(|error| file.error(error)));
            return Err(match aborted {
                Ok(()) => CommitError::Undone(error),
                Err(_) => CommitError::Unknown(error),
            });
        }
        file.unpanicked(|| transaction.commit().map_err(|error| file.error(error)))
            .map_err(CommitError::Unknown)
    }

    /// Writes, and opens the file anew if that is needed to know what became of it.
    fn write_and_recover(&self, changes: &Changes, bulk: Bulk<'_>) -> Result<(), CommitError> {
        let error = match self.write(changes, bulk) {
            Err(CommitError::Unknown(error)) => error,
            known => return known,
        };
        let is_written = self
            .reopen()
            .and_then(|()| holds(self.snapshot()?.as_ref(), changes));
        match is_written {
            Ok(true) => Ok(()),
            Ok(false) => Err(CommitError::Undone(error.undone())),
            Err(_) => Err(CommitError::Unknown(error.unknown())),
        }
    }

    /// Whether the changes remove more than they add. The change log does not count: it forgets as much as it takes
    /// on.
    fn frees_space(changes: &Changes, base: &dyn Snapshot) -> Result<bool> {
        let mut added = 0_usize;
        let mut removed = 0_usize;
        for (key, value) in changes
            .iter()
            .filter(|(key, _)| !key::is_of_change_log(key))
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

impl Store for RedbStore {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        let opened = self.opened();
        let opened = opened.as_ref().ok_or_else(Error::closed)?;
        self.file.unpanicked(|| {
            let read = opened
                .database
                .begin_read()
                .map_err(|error| self.file.error(error))?;
            let table = read
                .open_table(TABLE)
                .map_err(|error| self.file.error(error))?;
            Ok(Arc::new(RedbSnapshot {
                table,
                file: Arc::clone(&self.file),
                is_sealed: opened.is_sealed,
            }) as Arc<dyn Snapshot>)
        })
    }

    fn commit(&self, changes: &Changes, bulk: Bulk<'_>) -> Result<(), CommitError> {
        let refuse = |error| CommitError::Undone(self.file.error(redb::Error::Io(error)));
        self.file.check_owner().map_err(refuse)?;
        if self.is_full.load(Ordering::Acquire) {
            self.file.release_reserve().map_err(refuse)?;
        } else {
            self.file.fill_reserve_if_due();
        }
        let mut written = self.write_and_recover(changes, bulk);
        if let Err(CommitError::Undone(error)) = &written
            && error.is_storage_full()
            && !self.is_full.swap(true, Ordering::AcqRel)
        {
            let retry = self
                .snapshot()
                .and_then(|base| Self::frees_space(changes, base.as_ref()));
            if retry.is_ok_and(|frees_space| frees_space) && self.file.release_reserve().is_ok() {
                written = self.write_and_recover(changes, bulk);
            }
        }
        if self.is_full.load(Ordering::Acquire) {
            self.file.fill_reserve();
            // What it has freed is free within the file: only the next write can find out how much.
            self.is_full.store(written.is_err(), Ordering::Release);
        }
        written
    }

    fn reopen(&self) -> Result<()> {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        let Some(current) = opened.as_mut() else {
            return Err(Error::closed());
        };
        let rolled_back = self.file.roll_back();
        rolled_back.map_err(|error| self.file.error(redb::Error::Io(error)))?;
        let anew = Opened::open(&self.file)?;
        // Before it is dropped, which would write to the file.
        current.is_over.store(true, Ordering::Release);
        let is_sealed = current.is_sealed;
        let former = std::mem::replace(current, Opened { is_sealed, ..anew });
        former.close(&self.file);
        Ok(())
    }

    fn admit(&self, changes: &Changes, base: &dyn Snapshot) -> Result<()> {
        if !self.is_full.load(Ordering::Acquire) || Self::frees_space(changes, base)? {
            return Ok(());
        }
        if !self.file.has_room() {
            let error =
                Error::storage_full(self.file.name(), "there was no room for an earlier write");
            return Err(error.undone());
        }
        self.is_full.store(false, Ordering::Release);
        Ok(())
    }

    fn close(&self) {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        // redb writes what it needs to open the file without a repair: there should be room for it.
        let _ = self.file.release_reserve();
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

impl Opened {
    /// Opens the file, or creates it.
    fn open(file: &Arc<DatabaseFile>) -> Result<Opened> {
        let (handle, is_over) = Handle::new(Arc::clone(file));
        let repaired = Arc::clone(file);
        let database = file.unpanicked(|| {
            Builder::new()
                .set_cache_size(CACHE_BYTES)
                .set_repair_callback(move |_| repaired.begin_repair())
                .create_with_backend(handle)
                .map_err(|error| file.open_error(error))
        });
        file.opened();
        Ok(Opened {
            database: database?,
            is_over,
            is_sealed: true,
        })
    }

    /// Whether nothing has been committed yet.
    ///
    /// # Errors
    /// The file has tables, and none of them is ours.
    fn is_new(&self, file: &DatabaseFile) -> Result<bool> {
        let read = self
            .database
            .begin_read()
            .map_err(|error| file.error(error))?;
        match read.open_table(TABLE) {
            Ok(_) => Ok(false),
            Err(TableError::Storage(error)) => Err(file.error(error)),
            Err(TableError::TableDoesNotExist(_)) => {
                let tables = read.list_tables().map_err(|error| file.error(error))?;
                let multimap_tables = read
                    .list_multimap_tables()
                    .map_err(|error| file.error(error))?;
                match tables.count() + multimap_tables.count() {
                    0 => Ok(true),
                    _ => Err(file.foreign()),
                }
            }
            Err(_) => Err(file.foreign()),
        }
    }

    /// Closing a database writes to its file as well, and reads pages for that which may be damaged.
    fn close(self, file: &DatabaseFile) {
        let _ = file.unpanicked(|| {
            drop(self.database);
            Ok(())
        });
    }
}

struct TableWriter<'t> {
    table: Table<'t, &'static [u8], &'static [u8]>,
    file: &'t DatabaseFile,
    is_sealed: bool,
}

impl TableWriter<'_> {
    fn remove(&mut self, key: &[u8]) -> Result<()> {
        let removed = self.table.remove(key);
        removed.map(drop).map_err(|error| self.file.error(error))
    }
}

impl Writer for TableWriter<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if !seal::applies(self.is_sealed, key) {
            let inserted = self.table.insert(key, value);
            return inserted.map(drop).map_err(|error| self.file.error(error));
        }
        let length = value.len() + seal::LENGTH;
        let reserved = self.table.insert_reserve(key, length);
        let mut room = reserved.map_err(|error| self.file.error(error))?;
        seal::write(key, value, room.as_mut());
        Ok(())
    }

    fn has(&self, key: &[u8]) -> Result<bool> {
        let found = self.table.get(key);
        Ok(found.map_err(|error| self.file.error(error))?.is_some())
    }

    fn remove_range(&mut self, range: &KeyRange) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let removed = self
            .table
            .retain_in::<&[u8], _>(range.bounds(), |_, _| false);
        removed.map_err(|error| self.file.error(error))
    }
}

/// A read transaction of redb, which the table keeps alive.
struct RedbSnapshot {
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
    file: Arc<DatabaseFile>,
    is_sealed: bool,
}

impl Snapshot for RedbSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.file.unpanicked(|| {
            let value = self
                .table
                .get_owned(key)
                .map_err(|error| self.file.error(error))?;
            value
                .map(|value| read(self.is_sealed, key, value))
                .transpose()
        })
    }

    fn range(&self, range: KeyRange, direction: Direction) -> Entries {
        if range.is_empty() {
            return Box::new(std::iter::empty());
        }
        match self.file.unpanicked(|| {
            self.table
                .range_owned::<&[u8]>(range.bounds())
                .map_err(|error| self.file.error(error))
        }) {
            Ok(entries) => Box::new(RedbEntries {
                entries: Some(entries),
                direction,
                file: Arc::clone(&self.file),
                is_sealed: self.is_sealed,
            }),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }
}

struct RedbEntries {
    /// `None` after an error.
    entries: Option<OwnedRange<&'static [u8], &'static [u8]>>,
    direction: Direction,
    file: Arc<DatabaseFile>,
    is_sealed: bool,
}

impl Iterator for RedbEntries {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entries = self.entries.as_mut()?;
        let next = self.file.unpanicked(|| {
            let next = match self.direction {
                Direction::Ascending => entries.next(),
                Direction::Descending => entries.next_back(),
            };
            let next = next.transpose().map_err(|error| self.file.error(error))?;
            let Some((key, value)) = next else {
                return Ok(None);
            };
            let value = read(self.is_sealed, key.value(), value)?;
            Ok(Some((Bytes::Page(key), value)))
        });
        if next.is_err() {
            self.entries = None;
        }
        next.transpose()
    }
}

/// Reads a page's slices once where a panic is caught; later reads find the same bounds.
fn read(is_sealed: bool, key: &[u8], value: OwnedAccessGuard<&'static [u8]>) -> Result<Bytes> {
    if !seal::applies(is_sealed, key) {
        let _ = value.value();
        return Ok(Bytes::Page(value));
    }
    seal::check(key, value.value())?;
    Ok(Bytes::Sealed(value))
}

impl DatabaseFile {
    /// Calls redb, which trusts the pages of its file and panics over some that are damaged.
    ///
    /// It leaves no state behind that we use: a snapshot only reads, and a write transaction is aborted.
    fn unpanicked<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(self.inconsistent()))
    }

    fn inconsistent(&self) -> Error {
        Error::damaged(match self.damaged_page() {
            Some(page) => format!("page {page} of {} differs from its checksum", self.name()),
            None => format!("the pages of {} are inconsistent", self.name()),
        })
    }

    fn foreign(&self) -> Error {
        let message = format!(
            "{} is not a database of this engine; give the path of one, or of a file to create",
            self.name()
        );
        Error::new(ErrorKind::ForeignFile, None, message)
    }

    fn open_error(&self, error: DatabaseError) -> Error {
        match error {
            DatabaseError::DatabaseAlreadyOpen => {
                let message = format!(
                    "{} is open elsewhere, in this process or another one; close it there, \
                     or share that database",
                    self.name()
                );
                Error::new(ErrorKind::InUse, None, message)
            }
            error => self.error(error),
        }
    }

    fn error(&self, error: impl Into<redb::Error>) -> Error {
        let name = self.name();
        match error.into() {
            redb::Error::DatabaseClosed => Error::closed(),
            redb::Error::Corrupted(what) => match self.damaged_page() {
                Some(_) => self.inconsistent(),
                None => Error::damaged(format!("{name}: {what}")),
            },
            redb::Error::PreviousIo => {
                let message = "an earlier access has failed";
                Error::io("cannot go on reading or writing", name, message)
            }
            redb::Error::Io(error) => {
                let refused = error.get_ref().and_then(|error| error.downcast_ref());
                match (refused, error.kind()) {
                    (Some(Refused::Foreign), _) => self.foreign(),
                    (Some(refused @ Refused::Forked { .. }), _) => Error::new(
                        ErrorKind::InUse,
                        None,
                        format!("{name} cannot be used: {refused}"),
                    ),
                    (None, io::ErrorKind::UnexpectedEof) => {
                        Error::damaged(format!("{name} ends too early"))
                    }
                    (None, io::ErrorKind::InvalidData) => {
                        Error::damaged(format!("{name}: {error}"))
                    }
                    (
                        None,
                        io::ErrorKind::StorageFull
                        | io::ErrorKind::QuotaExceeded
                        | io::ErrorKind::FileTooLarge,
                    ) => Error::storage_full(name, error),
                    (None, _) => Error::io("cannot read or write", name, error),
                }
            }
            error => Error::io("cannot read or write", name, error.to_string()),
        }
    }
}
