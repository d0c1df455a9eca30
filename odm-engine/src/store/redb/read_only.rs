//! A storage that leaves its file unchanged.
//!
//! redb writes when it opens a file: it marks the file as open, and repairs the file after a crash. This storage keeps the written
//! pages in memory, and reads all other pages from the file. The file can be opened without the permission to write.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::{BackendError, StorageBackend};

use super::page_checksums::PAGE_SIZE_BYTES;

/// The size of a page in memory.
const PAGE_BYTES: usize = 4096;

/// The largest size of all pages in memory. A repair writes about 1 byte for each 500 bytes of the file.
const MAX_CHANGED_BYTES: usize = 256 << 20;

pub(super) struct ReadOnlyStorage<S> {
    storage: S,
    /// `None` before the first access. redb locks the file before the first access.
    changes: Mutex<Option<ChangedPages>>,
}

/// The differences between the file and the storage that redb sees.
struct ChangedPages {
    /// The length that redb sees.
    len: u64,
    /// The length of the part of the file that redb sees. Later bytes were cut off.
    visible_len: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE_BYTES]>>,
}

impl<S: StorageBackend> ReadOnlyStorage<S> {
    pub(super) fn new(storage: S) -> ReadOnlyStorage<S> {
        ReadOnlyStorage {
            storage,
            changes: Mutex::default(),
        }
    }

    /// Runs `access` on the changes.
    fn with_changes<T>(
        &self,
        access: impl FnOnce(&mut ChangedPages) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut changes = self.lock_changes();
        if changes.is_none() {
            let len = self.storage.len()?;
            *changes = Some(ChangedPages {
                len,
                visible_len: len,
                pages: BTreeMap::new(),
            });
        }
        match changes.as_mut() {
            Some(changes) => access(changes),
            None => Err(io::Error::other("the length of the file is not known")),
        }
    }

    fn lock_changes(&self) -> MutexGuard<'_, Option<ChangedPages>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads from the file. Bytes after `visible_len` are zero.
    fn read_file(&self, visible_len: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let visible = visible_len.saturating_sub(offset);
        let visible = usize::try_from(visible).map_or(out.len(), |bytes| bytes.min(out.len()));
        let (from_file, cut_off) = out.split_at_mut(visible);
        cut_off.fill(0);
        match from_file.is_empty() {
            true => Ok(()),
            false => self.storage.read(offset, from_file),
        }
    }

    fn write_page(
        &self,
        changes: &mut ChangedPages,
        page: u64,
        at: usize,
        data: &[u8],
    ) -> io::Result<()> {
        if !changes.pages.contains_key(&page) {
            if (changes.pages.len() + 1) * PAGE_BYTES > MAX_CHANGED_BYTES {
                let message = "the file needs a repair that does not fit into memory; open it once \
                     with `Database::open`, or compact it";
                return Err(io::Error::other(message));
            }
            let mut content = Box::new([0; PAGE_BYTES]);
            let offset = page * PAGE_SIZE_BYTES;
            self.read_file(changes.visible_len, offset, content.as_mut_slice())?;
            changes.pages.insert(page, content);
        }
        let content = changes.pages.get_mut(&page);
        let target = content.and_then(|content| content.get_mut(at..at + data.len()));
        if let Some(target) = target {
            target.copy_from_slice(data);
        }
        Ok(())
    }
}

impl ChangedPages {
    /// Copies the bytes of changed pages over the bytes of the file.
    fn apply(&self, offset: u64, out: &mut [u8]) {
        for (page, at, range) in split_into_pages(offset, out.len()) {
            let Some(content) = self.pages.get(&page) else {
                continue;
            };
            let bytes = content.get(at..at + range.len());
            if let (Some(bytes), Some(target)) = (bytes, out.get_mut(range)) {
                target.copy_from_slice(bytes);
            }
        }
    }

    fn set_len(&mut self, len: u64) {
        self.visible_len = self.visible_len.min(len);
        self.len = len;
        self.pages.split_off(&len.div_ceil(PAGE_SIZE_BYTES));
        let last = self.pages.get_mut(&(len / PAGE_SIZE_BYTES));
        let kept = usize::try_from(len % PAGE_SIZE_BYTES).unwrap_or(PAGE_BYTES);
        // Bytes that were cut off must not come back when the file grows again.
        if let Some(rest) = last.and_then(|last| last.get_mut(kept..)) {
            rest.fill(0);
        }
    }
}

/// Splits a range of the file by pages. Returns for each page its number, the start in the page, and the range of the buffer.
fn split_into_pages(
    offset: u64,
    len: usize,
) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= len {
            return None;
        }
        let position = offset + done as u64;
        let at = usize::try_from(position % PAGE_SIZE_BYTES).unwrap_or_default();
        let step = (PAGE_BYTES - at).min(len - done);
        let range = done..done + step;
        done += step;
        Some((position / PAGE_SIZE_BYTES, at, range))
    })
}

impl<S: StorageBackend> StorageBackend for ReadOnlyStorage<S> {
    fn len(&self) -> io::Result<u64> {
        self.with_changes(|changes| Ok(changes.len))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let visible_len = self.with_changes(|changes| {
            let end = offset.checked_add(out.len() as u64);
            match end.is_some_and(|end| end <= changes.len) {
                true => Ok(changes.visible_len),
                false => Err(io::ErrorKind::UnexpectedEof.into()),
            }
        })?;
        self.read_file(visible_len, offset, out)?;
        self.with_changes(|changes| {
            changes.apply(offset, out);
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with_changes(|changes| {
            changes.set_len(len);
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with_changes(|changes| {
            for (page, at, range) in split_into_pages(offset, data.len()) {
                let part = data.get(range).unwrap_or_default();
                self.write_page(changes, page, at, part)?;
            }
            changes.len = changes.len.max(offset + data.len() as u64);
            Ok(())
        })
    }

    fn close(&self) -> io::Result<()> {
        self.storage.close()
    }

    /// Takes a shared lock: several processes may read the file at once, and none may write it.
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.storage.try_lock_shared_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.storage.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.lock_shared_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.storage.query_lock_range(start, end)
    }
}

impl<S> fmt::Debug for ReadOnlyStorage<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadOnlyStorage").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redb::backends::InMemoryBackend;

    use super::*;

    #[derive(Clone, Debug)]
    enum Operation {
        Write(u64, Vec<u8>),
        SetLen(u64),
        Read(u64, usize),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            (0..20_000_u64, 1..9_000_usize, any::<u8>())
                .prop_map(|(at, len, byte)| Operation::Write(at, vec![byte; len])),
            (0..30_000_u64).prop_map(Operation::SetLen),
            (0..20_000_u64, 1..9_000_usize).prop_map(|(at, len)| Operation::Read(at, len)),
        ]
    }

    proptest! {
        /// A storage in memory gets the same operations.
        #[test]
        fn the_storage_reads_its_writes_and_the_file_stays(operations in prop::collection::vec(operation(), 1..30)) {
            let content: Vec<u8> = (0..10_000_u32).map(|at| at.to_le_bytes()[0]).collect();
            let [file, expected] = [InMemoryBackend::new(), InMemoryBackend::new()];
            for storage in [&file, &expected] {
                storage.set_len(content.len() as u64).unwrap();
                storage.write(0, &content).unwrap();
            }
            let storage = ReadOnlyStorage::new(file);
            for operation in operations {
                match operation {
                    Operation::Write(at, data) => {
                        let end = at + data.len() as u64;
                        if end > expected.len().unwrap() {
                            expected.set_len(end).unwrap();
                        }
                        expected.write(at, &data).unwrap();
                        storage.write(at, &data).unwrap();
                    }
                    Operation::SetLen(len) => {
                        expected.set_len(len).unwrap();
                        storage.set_len(len).unwrap();
                    }
                    Operation::Read(at, len) => {
                        let (mut found, mut wanted) = (vec![1; len], vec![2; len]);
                        let is_inside = at + len as u64 <= expected.len().unwrap();
                        prop_assert_eq!(storage.read(at, &mut found).is_ok(), is_inside);
                        if is_inside {
                            expected.read(at, &mut wanted).unwrap();
                            prop_assert_eq!(found, wanted);
                        }
                    }
                }
                prop_assert_eq!(storage.len().unwrap(), expected.len().unwrap());
            }
            let mut unchanged = vec![0; content.len()];
            storage.storage.read(0, &mut unchanged).unwrap();
            prop_assert_eq!(unchanged, content);
        }
    }
}
