//! The store on disk: one redb file with one table.
//!
//! redb verifies its pages when it opens a file after a crash, not when it reads them. So every value has a
//! [checksum](seal) of its own, but for the version of the format, which any engine can read.

mod checked;
mod seal;

pub(super) use seal::LENGTH as SEAL_LENGTH;

use std::fs::File;
use std::io::ErrorKind as IoErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use checked::{Checked, Foreign};
use redb::backends::FileBackend;
use redb::{
    Builder, Database, DatabaseError, OwnedAccessGuard, OwnedRange, ReadOnlyTable,
    ReadableDatabase, StorageBackend, StorageError, TableDefinition, TableError,
};

use super::{Bytes, Changes, Entries, KeyRange, Snapshot, Store};
use crate::direction::Direction;
use crate::error::{Error, ErrorKind, Result};
use crate::key;

/// The table that holds the whole keyspace.
const TABLE: TableDefinition<'static, &'static [u8], &'static [u8]> =
    TableDefinition::new("odm-engine");

/// Pages kept in memory. Enough for the inner nodes of large files and a working set; more would
/// only duplicate the cache of the operating system.
const CACHE_BYTES: usize = 128 << 20;

/// The first version of the format with checksums. A file of an older one goes on without.
const FIRST_SEALED: u32 = 3;

pub(crate) struct RedbStore {
    /// Taken when the store is dropped, and only then.
    database: Option<Database>,
    /// Whether the values have checksums.
    is_sealed: bool,
}

impl RedbStore {
    /// Opens the file at `path`, or creates it with an empty keyspace.
    ///
    /// # Errors
    /// In use (by this or another process), foreign file, damaged, I/O.
    pub(crate) fn open(path: &Path) -> Result<RedbStore> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(Error::io)?;
        let storage = FileBackend::new(file).map_err(|error| open_error(path, error))?;
        RedbStore::on(storage, path)
    }

    /// Opens the file that `storage` stands for, or creates it.
    ///
    /// # Errors
    /// As [`open`](RedbStore::open).
    pub(crate) fn open_storage(storage: impl StorageBackend) -> Result<RedbStore> {
        RedbStore::on(storage, Path::new("the storage"))
    }

    fn on(storage: impl StorageBackend, path: &Path) -> Result<RedbStore> {
        let database = unpanicked(|| {
            Builder::new()
                .set_cache_size(CACHE_BYTES)
                .create_with_backend(Checked::new(storage))
                .map_err(|error| open_error(path, error))
        })?;
        let database = Some(database);
        let mut store = RedbStore {
            database,
            is_sealed: true,
        };
        if unpanicked(|| store.is_new(path))? {
            store.commit(&Changes::new())?;
        }
        let version = store.snapshot()?.get(&key::format())?;
        let version = version.as_deref().and_then(<[u8]>::first_chunk);
        store.is_sealed =
            version.is_none_or(|version| u32::from_be_bytes(*version) >= FIRST_SEALED);
        Ok(store)
    }

    /// Whether nothing has been committed yet.
    ///
    /// # Errors
    /// The file has tables, and none of them is ours.
    fn is_new(&self, path: &Path) -> Result<bool> {
        let read = self.database()?.begin_read().map_err(store_error)?;
        match read.open_table(TABLE) {
            Ok(_) => Ok(false),
            Err(TableError::Storage(error)) => Err(store_error(error)),
            Err(TableError::TableDoesNotExist(_)) => {
                let is_empty = read.list_tables().map_err(store_error)?.next().is_none()
                    && read
                        .list_multimap_tables()
                        .map_err(store_error)?
                        .next()
                        .is_none();
                if is_empty {
                    Ok(true)
                } else {
                    Err(foreign(path))
                }
            }
            Err(_) => Err(foreign(path)),
        }
    }
}

impl Store for RedbStore {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        unpanicked(|| {
            let read = self.database()?.begin_read().map_err(store_error)?;
            let table = read.open_table(TABLE).map_err(store_error)?;
            let is_sealed = self.is_sealed;
            Ok(Arc::new(RedbSnapshot { table, is_sealed }) as Arc<dyn Snapshot>)
        })
    }

    fn commit(&self, changes: &Changes) -> Result<()> {
        unpanicked(|| self.write(changes))
    }
}

impl Drop for RedbStore {
    /// Closing a file writes to it as well, and reads pages for that which may be damaged.
    fn drop(&mut self) {
        let database = self.database.take();
        let _ = unpanicked(|| {
            drop(database);
            Ok(())
        });
    }
}

impl RedbStore {
    fn database(&self) -> Result<&Database> {
        self.database
            .as_ref()
            .ok_or_else(|| Error::damaged("it is closed"))
    }

    fn write(&self, changes: &Changes) -> Result<()> {
        let write = self.database()?.begin_write().map_err(store_error)?;
        {
            let mut table = write.open_table(TABLE).map_err(store_error)?;
            for (key, value) in changes {
                let Some(value) = value else {
                    table.remove(key.as_ref()).map_err(store_error)?;
                    continue;
                };
                if !seal::applies(self.is_sealed, key) {
                    table
                        .insert(key.as_ref(), value.as_ref())
                        .map_err(store_error)?;
                    continue;
                }
                let length = value.len() + seal::LENGTH;
                let mut room = table
                    .insert_reserve(key.as_ref(), length)
                    .map_err(store_error)?;
                seal::write(key, value, room.as_mut());
            }
        }
        write.commit().map_err(store_error)
    }
}

/// A read transaction of redb, which the table keeps alive.
struct RedbSnapshot {
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
    is_sealed: bool,
}

impl Snapshot for RedbSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        unpanicked(|| {
            let value = self.table.get_owned(key).map_err(store_error)?;
            value
                .map(|value| read(self.is_sealed, key, value))
                .transpose()
        })
    }

    fn range(&self, range: KeyRange, direction: Direction) -> Entries {
        if range.is_empty() {
            return Box::new(std::iter::empty());
        }
        match unpanicked(|| {
            self.table
                .range_owned::<&[u8]>(range.bounds())
                .map_err(store_error)
        }) {
            Ok(entries) => Box::new(RedbEntries {
                entries: Some(entries),
                direction,
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
    is_sealed: bool,
}

impl Iterator for RedbEntries {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entries = self.entries.as_mut()?;
        let next = unpanicked(|| {
            let next = match self.direction {
                Direction::Ascending => entries.next(),
                Direction::Descending => entries.next_back(),
            };
            let Some((key, value)) = next.transpose().map_err(store_error)? else {
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

/// Calls redb, which trusts the pages of its file and panics over some that are damaged.
///
/// It leaves no state behind that we use: a snapshot only reads, and a store that has failed to commit
/// is not written to again.
fn unpanicked<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(Error::damaged("its pages are inconsistent")))
}

fn foreign(path: &Path) -> Error {
    let message = format!(
        "{} is not a database of this engine; give the path of one, or of a file to create",
        path.display()
    );
    Error::new(ErrorKind::ForeignFile, None, message)
}

fn open_error(path: &Path, error: DatabaseError) -> Error {
    match error {
        DatabaseError::DatabaseAlreadyOpen => {
            let message = format!(
                "{} is open elsewhere, in this process or another one; close it there, \
                 or share that database",
                path.display()
            );
            Error::new(ErrorKind::InUse, None, message)
        }
        DatabaseError::Storage(StorageError::Io(error))
            if error.get_ref().is_some_and(|error| error.is::<Foreign>()) =>
        {
            foreign(path)
        }
        error => store_error(error),
    }
}

fn store_error(error: impl Into<redb::Error>) -> Error {
    match error.into() {
        redb::Error::Corrupted(what) => Error::damaged(what),
        redb::Error::Io(error) if error.kind() == IoErrorKind::UnexpectedEof => {
            Error::damaged("it ends too early")
        }
        redb::Error::Io(error) if error.kind() == IoErrorKind::InvalidData => Error::damaged(error),
        redb::Error::Io(error) => Error::io(error),
        error => Error::io(error.to_string()),
    }
}
