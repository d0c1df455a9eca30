//! The file under redb.
//!
//! redb takes no further write after an I/O error, and can only be opened again. This module makes sure that it then
//! finds the last commit: it writes redb's header behind everything else, remembers the last one that was synced, and
//! puts that back ([`DatabaseFile::roll_back`]). It keeps some space at the end of the file for the time when the disk
//! is full, and verifies [checksums](super::page_checksums) of pages.

use std::fmt;
use std::io;
use std::ops::Bound;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use redb::{BackendError, StorageBackend};

use super::page_checksums::{self, PAGE, PageChecksums};

/// The first bytes of every redb file.
const MAGIC: [u8; 9] = *b"redb\x1A\x0A\xA9\x0D\x0A";

/// The length of redb's header.
const HEADER_BYTES: usize = 320;

/// What a disk writes as a whole: redb's header, and in a file with page checksums a mark of that, the length that redb
/// sees and the length of the reserve behind it, 8 bytes each. What else is behind that length does not matter.
const SECTOR: usize = 512;

const MARK: [u8; 16] = *b"odm-engine pages";

const MARK_AT: usize = 384;

const LEN_AT: usize = MARK_AT + MARK.len();

const RESERVE_AT: usize = LEN_AT + size_of::<u64>();

/// More than the length that redb creates a file with.
const MAX_CREATED: u64 = 64 << 20;

/// The space that is kept for a full disk: a part of the file's length within these limits. Dropping a collection
/// needs about 8 bytes for each page of 4 KiB, and a delete some pages of every index.
const RESERVE_PART: u64 = 64;
const MIN_RESERVE: u64 = 256 << 10;
const MAX_RESERVE: u64 = 16 << 20;

/// How much of the reserve is written at a time, and the least that is kept.
const RESERVE_STEP: usize = 64 << 10;

/// How long a commit does not ask again for a reserve that there was no room for.
const RETRY: Duration = Duration::from_secs(1);

/// A storage with a database in it, or an empty one.
///
/// Its content is examined when redb first asks for the length, as redb holds its locks then.
pub(super) struct DatabaseFile {
    storage: Box<dyn StorageBackend>,
    name: String,
    /// The process that opened the file.
    owner: u32,
    /// Set once the content was examined: whether pages have checksums.
    layout: OnceLock<Layout>,
    state: Mutex<State>,
    is_locked: AtomicBool,
    is_closed: AtomicBool,
    /// The first page that differed from its checksum.
    damaged: OnceLock<u64>,
}

enum Layout {
    /// A redb file, as versions 1 to 3 of the format have it.
    Plain,
    PageChecksums(PageChecksums),
}

#[derive(Default)]
struct State {
    /// The length that redb sees.
    len: u64,
    /// redb's header, which goes to the storage with the next sync.
    header: Option<Vec<u8>>,
    /// What the last sync of a header has left in the storage.
    synced: Option<Synced>,
    /// Whether the storage may have a newer header.
    is_header_ahead: bool,
    /// How many bytes behind the end are kept for a full disk.
    reserve: u64,
    /// When there was last no room for all of the reserve, and whether there was none at any time.
    short_since: Option<Instant>,
    was_short: bool,
}

struct Synced {
    /// The header, with the mark and the length.
    sector: Vec<u8>,
    len: u64,
}

/// Why a storage was refused, inside of an [`io::Error`].
#[derive(Debug)]
pub(super) enum Refused {
    /// The content is not redb's.
    Foreign,
    /// The storage was opened by another process, of which this one is a fork.
    Forked { owner: u32 },
}

impl DatabaseFile {
    pub(super) fn new(storage: impl StorageBackend, name: String) -> DatabaseFile {
        DatabaseFile {
            storage: Box::new(storage),
            name,
            owner: process::id(),
            layout: OnceLock::new(),
            state: Mutex::default(),
            is_locked: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            damaged: OnceLock::new(),
        }
    }

    /// What messages call the file.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether pages have checksums.
    pub(super) fn has_page_checksums(&self) -> bool {
        matches!(self.layout.get(), Some(Layout::PageChecksums(_)))
    }

    /// The first page that differed from its checksum, if one did.
    pub(super) fn damaged_page(&self) -> Option<u64> {
        self.damaged.get().copied()
    }

    /// Refuses to work for another process than the one that opened the file: they would overwrite each other's pages.
    pub(super) fn check_owner(&self) -> io::Result<()> {
        if self.owner == process::id() {
            return Ok(());
        }
        Err(io::Error::other(Refused::Forked { owner: self.owner }))
    }

    /// redb begins to verify all pages by checksums of its own.
    pub(super) fn begin_repair(&self) {
        if let Some(Layout::PageChecksums(checksums)) = self.layout.get() {
            checksums.begin_repair();
        }
    }

    /// redb has opened the file.
    pub(super) fn opened(&self) {
        self.is_locked.store(true, Ordering::Release);
        if let Some(Layout::PageChecksums(checksums)) = self.layout.get() {
            checksums.end_repair();
        }
    }

    /// Makes the storage what it was after the last commit that succeeded.
    pub(super) fn roll_back(&self) -> io::Result<()> {
        self.check_owner()?;
        let mut state = self.state();
        let State {
            synced: Some(synced),
            ..
        } = &mut *state
        else {
            return Err(io::Error::other("nothing was written to it yet"));
        };
        let (sector, len) = (synced.sector.clone(), synced.len);
        state.header = None;
        if let Some(Layout::PageChecksums(checksums)) = self.layout.get() {
            checksums.discard();
        }
        self.storage.set_len(self.file_len(len))?;
        state.len = len;
        state.reserve = 0;
        state.was_short = true;
        if state.is_header_ahead {
            self.storage.write(0, &sector)?;
        }
        self.storage.sync_data()?;
        state.is_header_ahead = false;
        Ok(())
    }

    /// Keeps space for the time when the disk is full; the result is whether there is enough.
    pub(super) fn fill_reserve(&self) -> bool {
        self.fill(&mut self.state())
    }

    /// The same, but not long after there was no room.
    pub(super) fn fill_reserve_if_due(&self) {
        let mut state = self.state();
        if state
            .short_since
            .is_none_or(|since| since.elapsed() >= RETRY)
        {
            self.fill(&mut state);
        }
    }

    /// Whether there is room for the reserve and for as much again.
    pub(super) fn has_room(&self) -> bool {
        let mut state = self.state();
        if !self.fill(&mut state) {
            return false;
        }
        let reserve = state.reserve;
        let has_room = self.extend_reserve(&mut state, 2 * reserve).is_ok();
        if has_room {
            // A longer reserve does no harm.
            let _ = self.storage.set_len(self.file_len(state.len) + reserve);
            state.reserve = reserve;
        }
        has_room
    }

    /// Gives up the space that was kept, for a write that must succeed on a full disk.
    pub(super) fn release_reserve(&self) -> io::Result<()> {
        self.check_owner()?;
        let mut state = self.state();
        if state.reserve > 0 {
            self.storage.set_len(self.file_len(state.len))?;
            state.reserve = 0;
        }
        Ok(())
    }

    /// Gives up the locks. In a fork of the process that opened the file they stay: they are those of both.
    pub(super) fn close(&self) {
        if self.check_owner().is_err() || self.is_closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut state = self.state();
        if state.was_short {
            let _ = self.leave_reserve(&mut state);
        }
        let _ = self.storage.close();
    }

    /// Leaves the reserve to the next process, which may find the disk full as well.
    fn leave_reserve(&self, state: &mut State) -> io::Result<()> {
        let synced = state.synced.as_ref().filter(|_| self.has_page_checksums());
        let Some(mut sector) = synced.map(|synced| synced.sector.clone()) else {
            return Ok(());
        };
        if state.is_header_ahead || !sector.starts_with(&MAGIC) {
            return Ok(());
        }
        self.fill(state);
        if let Some(noted) = sector.get_mut(RESERVE_AT..RESERVE_AT + size_of::<u64>()) {
            noted.copy_from_slice(&state.reserve.to_be_bytes());
        }
        self.storage.write(0, &sector)
    }

    /// The space is written, not only asked for: many file systems give it to a file only then.
    fn fill(&self, state: &mut State) -> bool {
        if self.check_owner().is_err() {
            return false;
        }
        let wanted = (state.len / RESERVE_PART).clamp(MIN_RESERVE, MAX_RESERVE);
        let mut size = wanted;
        while size > state.reserve.max(RESERVE_STEP as u64) {
            if self.extend_reserve(state, size).is_ok() {
                break;
            }
            size /= 2;
        }
        let is_full = state.reserve >= wanted;
        state.short_since = (!is_full).then(Instant::now);
        state.was_short |= !is_full;
        is_full
    }

    fn extend_reserve(&self, state: &mut State, size: u64) -> io::Result<()> {
        let end = self.file_len(state.len);
        let written = self.write_incompressible(end + state.reserve, end + size);
        if written.is_err() {
            // What was written of it is no use; a longer file does no harm.
            let _ = self.storage.set_len(end + state.reserve);
        } else {
            state.reserve = size;
        }
        written
    }

    fn write_incompressible(&self, start: u64, end: u64) -> io::Result<()> {
        self.storage.set_len(end)?;
        let mut bytes = Vec::with_capacity(RESERVE_STEP);
        let mut at = start;
        let mut random = at;
        while at < end {
            let step = (end - at).min(RESERVE_STEP as u64);
            bytes.clear();
            while (bytes.len() as u64) < step {
                // A linear congruential generator: file systems that compress must find nothing.
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                bytes.extend_from_slice(&random.to_be_bytes());
            }
            bytes.truncate(usize::try_from(step).unwrap_or(RESERVE_STEP));
            self.storage.write(at, &bytes)?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// The length of the content, examined once.
    fn examined(&self) -> io::Result<u64> {
        let mut state = self.state();
        if self.layout.get().is_some() {
            return Ok(state.len);
        }
        let file_len = self.storage.len()?;
        let head_bytes = usize::try_from(file_len).unwrap_or(SECTOR).min(SECTOR);
        let mut head = vec![0; head_bytes];
        self.storage.read(0, &mut head)?;
        let is_new = !head.starts_with(&MAGIC);
        if is_new && file_len > 0 {
            if !self.is_interrupted_creation(&head, file_len)? {
                return Err(io::Error::other(Refused::Foreign));
            }
            self.storage.set_len(0)?;
        }
        let has_mark = head
            .get(MARK_AT..)
            .is_some_and(|mark| mark.starts_with(&MARK));
        let layout = match is_new || has_mark {
            true => Layout::PageChecksums(PageChecksums::default()),
            false => Layout::Plain,
        };
        if !is_new {
            let noted = |at: usize| {
                let number = head.get(at..).and_then(<[u8]>::first_chunk);
                number.map_or(0, |number| u64::from_be_bytes(*number))
            };
            let whole = match &layout {
                Layout::PageChecksums(_) => page_checksums::redb_len(file_len).min(noted(LEN_AT)),
                // Bytes behind the last page are none of redb's, which would refuse them.
                Layout::Plain => file_len - file_len % PAGE,
            };
            // A file that ends in the header is a damaged one, not an empty one.
            state.len = if whole > 0 { whole } else { file_len };
            if has_mark {
                let behind = file_len.saturating_sub(page_checksums::file_len(state.len));
                state.reserve = noted(RESERVE_AT).min(behind);
            } else {
                head.truncate(HEADER_BYTES);
            }
            state.synced = Some(Synced {
                sector: head,
                len: state.len,
            });
        }
        let _first = self.layout.set(layout);
        Ok(state.len)
    }

    /// Whether redb has not come to its magic number, which it writes last.
    fn is_interrupted_creation(&self, head: &[u8], file_len: u64) -> io::Result<bool> {
        if file_len < SECTOR as u64
            || file_len > MAX_CREATED
            || !head.starts_with(&[0; MAGIC.len()])
        {
            return Ok(false);
        }
        let mut chunk = vec![0; 64 << 10];
        let mut at = SECTOR as u64;
        while at < file_len {
            let rest = usize::try_from(file_len - at).unwrap_or(usize::MAX);
            chunk.truncate(rest);
            self.storage.read(at, &mut chunk)?;
            if chunk.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += chunk.len() as u64;
        }
        Ok(file_len > SECTOR as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.check_owner()?;
        if offset == 0 {
            let state = self.state();
            if let Some(bytes) = state
                .header
                .as_ref()
                .and_then(|header| header.get(..out.len()))
            {
                out.copy_from_slice(bytes);
                return Ok(());
            }
            return self.storage.read(0, out);
        }
        let Some(Layout::PageChecksums(checksums)) = self.layout.get() else {
            return self.storage.read(offset, out);
        };
        if let Some(page) = checksums.read(self.storage.as_ref(), offset, out)? {
            // redb would take no further write after an error, and would keep the page. It fails on an empty one
            // wherever it meets it, and only there.
            let _first = self.damaged.set(page);
            out.fill(0);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check_owner()?;
        if offset == 0 {
            self.state().header = Some(data.to_vec());
            return Ok(());
        }
        match self.layout.get() {
            Some(Layout::PageChecksums(checksums)) => {
                checksums.write(self.storage.as_ref(), offset, data)
            }
            Some(Layout::Plain) | None => self.storage.write(offset, data),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.check_owner()?;
        let mut state = self.state();
        if let Some(Layout::PageChecksums(checksums)) = self.layout.get() {
            checksums.flush(self.storage.as_ref())?;
        }
        let Some(mut sector) = state.header.take() else {
            return self.storage.sync_data();
        };
        let len = state.len;
        if self.has_page_checksums() {
            sector.truncate(MARK_AT);
            sector.resize(MARK_AT, 0);
            sector.extend_from_slice(&MARK);
            sector.extend_from_slice(&len.to_be_bytes());
            sector.resize(SECTOR, 0);
        }
        state.is_header_ahead = true;
        self.storage.write(0, &sector)?;
        self.storage.sync_data()?;
        state.is_header_ahead = false;
        state.synced = Some(Synced { sector, len });
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_owner()?;
        let mut state = self.state();
        let had_reserve = state.reserve > 0;
        if had_reserve {
            // New pages are empty.
            self.storage.set_len(self.file_len(state.len.min(len)))?;
            state.reserve = 0;
        }
        self.storage.set_len(self.file_len(len))?;
        state.len = len;
        if had_reserve {
            self.fill(&mut state);
        }
        Ok(())
    }

    fn file_len(&self, len: u64) -> u64 {
        if self.has_page_checksums() {
            page_checksums::file_len(len)
        } else {
            len
        }
    }

    /// The state is complete at every point where a thread can panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DatabaseFile {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for DatabaseFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DatabaseFile").field(&self.name).finish()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Foreign => f.write_str("not a database"),
            Refused::Forked { owner } => write!(
                f,
                "the process {owner} has opened it and this process is a fork of that one; open it after the fork, \
                 in one of them"
            ),
        }
    }
}

impl std::error::Error for Refused {}

/// What one opened redb database has of a file. It ends when redb opens the file anew.
#[derive(Debug)]
pub(super) struct Handle {
    file: Arc<DatabaseFile>,
    is_over: Arc<AtomicBool>,
}

impl Handle {
    /// A handle, and what ends it.
    pub(super) fn new(file: Arc<DatabaseFile>) -> (Handle, Arc<AtomicBool>) {
        let is_over = Arc::<AtomicBool>::default();
        let handle = Handle {
            file,
            is_over: Arc::clone(&is_over),
        };
        (handle, is_over)
    }

    fn file(&self) -> io::Result<&DatabaseFile> {
        if self.is_over.load(Ordering::Acquire) {
            return Err(io::Error::other("the file was opened anew after a failure"));
        }
        Ok(&self.file)
    }

    /// The locks of the first handle are those of all.
    fn lock(
        &self,
        lock: impl FnOnce(&dyn StorageBackend) -> Result<bool, BackendError>,
    ) -> Result<bool, BackendError> {
        let file = self.file()?;
        if file.is_locked.load(Ordering::Acquire) {
            return Ok(true);
        }
        lock(file.storage.as_ref())
    }
}

impl StorageBackend for Handle {
    fn len(&self) -> io::Result<u64> {
        self.file()?.examined()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file()?.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file()?.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file()?.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file()?.write(offset, data)
    }

    /// The file stays open: another handle may follow.
    fn close(&self) -> io::Result<()> {
        Ok(())
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.lock(|storage| storage.try_lock_range(start, end))
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.lock(|storage| storage.try_lock_shared_range(start, end))
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.lock(|storage| storage.lock_range(start, end).map(|()| true))
            .map(drop)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.lock(|storage| storage.lock_shared_range(start, end).map(|()| true))
            .map(drop)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        if self.file.is_locked.load(Ordering::Acquire) {
            return Ok(());
        }
        self.file.storage.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file()?.storage.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    #[test]
    fn a_fork_reads_and_writes_nothing() {
        let mut file = DatabaseFile::new(InMemoryBackend::new(), "data".into());
        assert_eq!(file.examined().unwrap(), 0);
        file.set_len(8 * PAGE).unwrap();
        file.owner = process::id().wrapping_add(1);
        let mut page = vec![0; PAGE as usize];
        for refused in [
            file.read(PAGE, &mut page),
            file.write(PAGE, &page),
            file.write(0, &page),
            file.set_len(0),
            file.sync(),
            file.roll_back(),
            file.release_reserve(),
        ] {
            let error = refused.unwrap_err();
            assert!(error.to_string().contains("fork"), "{error}");
        }
        assert!(!file.fill_reserve());
        assert_eq!(file.storage.len().unwrap(), 9 * PAGE);
    }
}
