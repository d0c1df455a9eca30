//! A database file in memory.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A storage for redb. A clone is a handle to the same storage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Storage(Arc<Mutex<Vec<u8>>>);

/// The maximum file size, above the need of any target: a damaged length must not fill the memory.
const MAX_LENGTH: usize = 64 << 20;

impl Storage {
    pub(crate) fn new(content: Vec<u8>) -> Storage {
        Storage(Arc::new(Mutex::new(content)))
    }

    pub(crate) fn content(&self) -> Vec<u8> {
        self.bytes().clone()
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn range(offset: u64, length: usize) -> io::Result<std::ops::Range<usize>> {
    let start = usize::try_from(offset).map_err(io::Error::other)?;
    let end = start
        .checked_add(length)
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(start..end)
}

impl redb::StorageBackend for Storage {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes();
        let found = bytes.get(range(offset, out.len())?);
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let length = usize::try_from(len).map_err(io::Error::other)?;
        if length > MAX_LENGTH {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes().resize(length, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.bytes();
        let place = bytes.get_mut(range(offset, data.len())?);
        place
            .ok_or(io::ErrorKind::StorageFull)?
            .copy_from_slice(data);
        Ok(())
    }
}
