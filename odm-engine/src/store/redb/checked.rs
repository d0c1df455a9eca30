//! A storage that is looked at before redb trusts it.

use std::fmt;
use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{BackendError, StorageBackend};

/// The first bytes of every redb file.
const MAGIC: [u8; 9] = *b"redb\x1A\x0A\xA9\x0D\x0A";

/// Where redb's header ends for certain.
const AFTER_HEADER: u64 = 512;

/// More than the length that redb creates a file with.
const MAX_CREATED: u64 = 64 << 20;

/// A storage that is refused if it has foreign content, and emptied if its creation was interrupted:
/// redb writes its magic number last.
///
/// Both happens when redb first asks for the length, as it holds its locks then.
#[derive(Debug)]
pub(super) struct Checked<S> {
    storage: S,
    is_checked: AtomicBool,
}

/// The content is not redb's.
#[derive(Debug)]
pub(super) struct Foreign;

impl<S: StorageBackend> Checked<S> {
    pub(super) fn new(storage: S) -> Checked<S> {
        Checked {
            storage,
            is_checked: AtomicBool::new(false),
        }
    }

    /// The length after the check.
    fn check(&self) -> io::Result<u64> {
        let length = self.storage.len()?;
        let mut magic = [0; MAGIC.len()];
        if length >= MAGIC.len() as u64 {
            self.storage.read(0, &mut magic)?;
        }
        if length == 0 || magic == MAGIC {
            return Ok(length);
        }
        if magic != [0; MAGIC.len()] || length > MAX_CREATED || !self.is_zero_from(AFTER_HEADER)? {
            return Err(io::Error::other(Foreign));
        }
        self.storage.set_len(0)?;
        Ok(0)
    }

    fn is_zero_from(&self, start: u64) -> io::Result<bool> {
        let length = self.storage.len()?;
        let mut chunk = vec![0; 64 << 10];
        let mut at = start;
        while at < length {
            let rest = usize::try_from(length - at).unwrap_or(usize::MAX);
            chunk.truncate(rest);
            self.storage.read(at, &mut chunk)?;
            if chunk.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += chunk.len() as u64;
        }
        Ok(length > start)
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a database")
    }
}

impl std::error::Error for Foreign {}

impl<S: StorageBackend> StorageBackend for Checked<S> {
    fn len(&self) -> io::Result<u64> {
        if self.is_checked.load(Ordering::Acquire) {
            return self.storage.len();
        }
        let length = self.check()?;
        self.is_checked.store(true, Ordering::Release);
        Ok(length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.storage.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.storage.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.storage.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.storage.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.storage.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.storage.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.storage.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.lock_range(start, end)
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
