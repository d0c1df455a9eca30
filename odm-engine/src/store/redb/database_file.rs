//! The file below redb.
//!
//! redb refuses all writes after an I/O error and has to reopen the file. This module makes sure that redb then finds the last
//! commit. It writes redb's header after all other data, remembers the last synced header, and restores that header
//! ([`DatabaseFile::roll_back`]). It also keeps a reserve of space at the end of the file for a full disk, and verifies the
//! [checksums](super::page_checksums) of pages.

use std::fmt;
use std::io;
use std::mem;
use std::ops::Bound;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use redb::{BackendError, StorageBackend};

use super::page_checksums::{PAGE_SIZE_BYTES, PageChecksums, PagePositions};
use super::read_only::ReadOnlyStorage;

/// The first bytes of every redb file.
const REDB_MAGIC: [u8; 9] = *b"redb\x1A\x0A\xA9\x0D\x0A";

/// The length of redb's header.
const HEADER_BYTES: usize = 320;

/// The unit that a disk writes atomically. It holds redb's header. In a file with page checksums it also holds a marker, the
/// length that redb sees, the length of the reserve, and the length of the log, 8 bytes for each length. The remaining bytes after
/// redb's length are ignored.
const SECTOR_BYTES: usize = 512;

/// The marker of a file with page checksums and without a log, as in format version 4.
const PAGE_CHECKSUMS_MARKER: [u8; 16] = *b"odm-engine pages";

/// The marker of a file with page checksums and a log.
const LOG_MARKER: [u8; 16] = *b"odm-engine log 1";

const MARKER_OFFSET: usize = 384;

const LEN_OFFSET: usize = MARKER_OFFSET + PAGE_CHECKSUMS_MARKER.len();

const RESERVE_OFFSET: usize = LEN_OFFSET + size_of::<u64>();

const LOG_LEN_OFFSET: usize = RESERVE_OFFSET + size_of::<u64>();

/// An upper limit of the log's length, which tells a damaged header.
const MAX_LOG_BYTES: u64 = 1 << 30;

/// An upper limit of the file length during creation by redb.
const MAX_CREATED_BYTES: u64 = 64 << 20;

/// The divisor of the file's length that gives the size of the reserve for a full disk, within the two limits below.
///
/// Dropping a collection needs about 8 bytes for each page of 4 KiB, and a delete needs some pages of every index.
const RESERVE_DIVISOR: u64 = 64;
const MIN_RESERVE_BYTES: u64 = 256 << 10;
const MAX_RESERVE_BYTES: u64 = 16 << 20;

/// How many bytes of the reserve are written at a time. The reserve is never smaller.
const RESERVE_STEP_BYTES: usize = 64 << 10;

/// How many bytes of pages a commit of redb writes between two syncs. A sync of this size takes a few milliseconds, and small commits
/// to the log wait for it.
const MAX_UNSYNCED_BYTES: usize = 2 << 20;

/// How long a commit waits before it tries again to fill the reserve after the disk was full.
const RESERVE_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A storage with a redb database, or an empty storage.
///
/// The content is examined when redb first asks for the length, because redb holds its file locks by then.
pub(super) struct DatabaseFile {
    storage: Box<dyn StorageBackend>,
    name: String,
    /// Whether the storage keeps all writes in memory.
    is_read_only: bool,
    /// The process that opened the file.
    owner: u32,
    /// The length of the log if this is a new file.
    new_log_bytes: u64,
    /// Whether pages have checksums. Set when the content is examined.
    layout: OnceLock<FileLayout>,
    state: Mutex<FileState>,
    /// Held during a sync, because only one caller learns of a lost page.
    sync: Mutex<SyncState>,
    /// The number of threads that wait to sync the log.
    waiting_log_syncs: AtomicUsize,
    is_locked: AtomicBool,
    is_closed: AtomicBool,
    /// The first page that differed from its checksum.
    damaged_page: OnceLock<u64>,
}

enum FileLayout {
    /// A plain redb file, as in format versions 1 to 3.
    Plain,
    PageChecksums(PageChecksums),
}

#[derive(Default)]
struct FileState {
    /// The length that redb sees.
    len: u64,
    /// redb's header. The next sync writes it to the storage.
    header: Option<Vec<u8>>,
    /// The header and length of the last sync.
    synced: Option<SyncedHeader>,
    /// Whether the storage may have a newer header than `synced`.
    is_header_ahead: bool,
    /// The number of reserved bytes after the end of redb's data.
    reserve: u64,
    /// The part of the reserve that the log needs, at least.
    log_reserve: u64,
    /// When the disk had too little space for a log; `None` with enough space.
    scarce_since: Option<Instant>,
    /// Whether a commit may use the space of the reserve.
    is_reserve_released: bool,
    /// When the last attempt to fill the reserve failed; `None` if the last attempt succeeded.
    reserve_failed_at: Option<Instant>,
    /// Whether the disk may have been full since the file was opened.
    was_full: bool,
    /// Whether the locks of the file are released.
    is_unlocked: bool,
}

/// The syncs of the storage.
#[derive(Default)]
struct SyncState {
    /// The number of failed syncs.
    failures: u64,
    /// The number of failed syncs before the running commit of redb.
    failures_before_commit: u64,
    /// Whether the running commit of redb is large.
    is_commit_large: bool,
    /// The pages that were written since the last sync, in bytes.
    unsynced_bytes: usize,
}

impl SyncState {
    /// Returns an error if a sync has failed since there were `known` failures.
    fn ensure_no_failure_since(&self, known: u64) -> io::Result<()> {
        match self.failures == known {
            true => Ok(()),
            false => Err(io::Error::other("an earlier sync has failed")),
        }
    }
}

struct SyncedHeader {
    /// The header, followed by the marker and the length.
    sector: Vec<u8>,
    len: u64,
}

/// Why a storage was refused, wrapped in an [`io::Error`].
#[derive(Debug)]
pub(super) enum RefusedStorage {
    /// The content is not redb's.
    Foreign,
    /// A parent process opened the storage, and this process is a fork.
    Forked { owner: u32 },
}

/// Whether the storage has no space for a write.
pub(super) fn is_storage_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

impl DatabaseFile {
    /// Returns the file on a storage. A new file gets a log of `new_log_bytes`, a multiple of the page size.
    pub(super) fn new(
        storage: impl StorageBackend,
        name: String,
        new_log_bytes: u64,
    ) -> DatabaseFile {
        DatabaseFile {
            storage: Box::new(storage),
            name,
            is_read_only: false,
            owner: process::id(),
            new_log_bytes,
            layout: OnceLock::new(),
            state: Mutex::default(),
            sync: Mutex::default(),
            waiting_log_syncs: AtomicUsize::new(0),
            is_locked: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            damaged_page: OnceLock::new(),
        }
    }

    /// Returns the file on a storage that stays unchanged: all writes stay in memory.
    pub(super) fn read_only(storage: impl StorageBackend, name: String) -> DatabaseFile {
        let mut file = DatabaseFile::new(ReadOnlyStorage::new(storage), name, 0);
        file.is_read_only = true;
        file
    }

    /// Whether the storage keeps all writes in memory.
    pub(super) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// The length of the storage, with the pages of checksums, the log and the reserve.
    pub(super) fn storage_len(&self) -> io::Result<u64> {
        self.check_owner()?;
        self.storage.len()
    }

    /// The file's name in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether pages have checksums.
    pub(super) fn has_page_checksums(&self) -> bool {
        matches!(self.layout.get(), Some(FileLayout::PageChecksums(_)))
    }

    /// The length of the log; 0 if the file has no log.
    pub(super) fn log_bytes(&self) -> u64 {
        match self.layout.get() {
            Some(FileLayout::PageChecksums(checksums)) => checksums.positions().log_bytes,
            Some(FileLayout::Plain) | None => 0,
        }
    }

    /// Reads the whole log.
    pub(super) fn read_whole_log(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.log_bytes()).map_err(io::Error::other)?];
        self.read_log(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads a part of the log.
    pub(super) fn read_log(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.check_owner()?;
        self.storage
            .read(self.log_position(offset, out.len())?, out)
    }

    /// Writes a part of the log.
    pub(super) fn write_log(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check_owner()?;
        self.storage
            .write(self.log_position(offset, data.len())?, data)
    }

    /// Makes the writes to the log durable. `failed_syncs` is the number of failed syncs that the log knows of.
    ///
    /// # Errors
    /// I/O, also if another sync has failed that the log does not know of: the operating system reports a lost page once, and the
    /// lost page can be a page of the log. `failed_syncs` has the new number then.
    pub(super) fn sync_log(&self, failed_syncs: &mut u64) -> io::Result<()> {
        self.check_owner()?;
        self.waiting_log_syncs.fetch_add(1, Ordering::AcqRel);
        let mut sync = self.lock_sync();
        self.waiting_log_syncs.fetch_sub(1, Ordering::AcqRel);
        let synced = self.sync_storage(&mut sync);
        let known = mem::replace(failed_syncs, sync.failures);
        synced.and_then(|()| sync.ensure_no_failure_since(known))
    }

    /// The number of failed syncs since the file was opened.
    pub(super) fn failed_syncs(&self) -> u64 {
        self.lock_sync().failures
    }

    /// Called before a commit of redb writes its first page. Commits to the log run beside a large commit.
    pub(super) fn begin_commit(&self, is_large: bool) {
        let mut sync = self.lock_sync();
        sync.failures_before_commit = sync.failures;
        sync.is_commit_large = is_large && self.log_bytes() > 0;
    }

    /// Makes the written pages of a large commit durable if they are many. A later sync of the log, which waits for all written
    /// pages, is short then.
    fn sync_pages_if_many(&self, written: usize) -> io::Result<()> {
        let mut sync = self.lock_sync();
        sync.unsynced_bytes += written;
        if !sync.is_commit_large || sync.unsynced_bytes < MAX_UNSYNCED_BYTES {
            return Ok(());
        }
        let synced = self.sync_storage(&mut sync);
        drop(sync);
        // The mutex is not fair. Without this, the next pages would often go first.
        while self.waiting_log_syncs.load(Ordering::Acquire) > 0 {
            thread::yield_now();
        }
        synced
    }

    fn sync_storage(&self, sync: &mut SyncState) -> io::Result<()> {
        sync.unsynced_bytes = 0;
        let synced = self.storage.sync_data();
        synced.inspect_err(|_| sync.failures += 1)
    }

    fn lock_sync(&self) -> MutexGuard<'_, SyncState> {
        self.sync.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log_position(&self, offset: u64, len: usize) -> io::Result<u64> {
        let end = offset.checked_add(len as u64);
        if end.is_none_or(|end| end > self.log_bytes()) {
            let message = format!("{len} bytes at offset {offset} are not in the log");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(PAGE_SIZE_BYTES + offset)
    }

    /// The first page that differed from its checksum.
    pub(super) fn damaged_page(&self) -> Option<u64> {
        self.damaged_page.get().copied()
    }

    /// Refuses access from a fork of the process that opened the file. Two processes would overwrite each other's pages.
    pub(super) fn check_owner(&self) -> io::Result<()> {
        if self.owner == process::id() {
            return Ok(());
        }
        Err(io::Error::other(RefusedStorage::Forked {
            owner: self.owner,
        }))
    }

    /// Called when redb begins to verify all pages by its own checksums.
    pub(super) fn begin_repair(&self) {
        if let Some(FileLayout::PageChecksums(checksums)) = self.layout.get() {
            checksums.begin_repair();
        }
    }

    /// Called when redb has opened the file.
    pub(super) fn finish_open(&self) {
        self.is_locked.store(true, Ordering::Release);
        if let Some(FileLayout::PageChecksums(checksums)) = self.layout.get() {
            checksums.end_repair();
        }
    }

    /// Restores the storage to its state after the last successful commit.
    pub(super) fn roll_back(&self) -> io::Result<()> {
        self.check_owner()?;
        let mut state = self.lock_state();
        let FileState {
            synced: Some(synced),
            ..
        } = &mut *state
        else {
            return Err(io::Error::other("no header was written yet"));
        };
        let (sector, len) = (synced.sector.clone(), synced.len);
        state.header = None;
        if let Some(FileLayout::PageChecksums(checksums)) = self.layout.get() {
            checksums.discard_unflushed();
        }
        self.storage.set_len(self.file_len(len))?;
        state.len = len;
        state.reserve = 0;
        state.was_full = true;
        if state.is_header_ahead {
            self.storage.write(0, &sector)?;
        }
        let mut sync = self.lock_sync();
        self.sync_storage(&mut sync)?;
        // The pages of the failed commit do not matter any more.
        sync.failures_before_commit = sync.failures;
        state.is_header_ahead = false;
        Ok(())
    }

    /// Fills the reserve for a full disk. Returns whether the reserve is complete.
    pub(super) fn fill_reserve(&self) -> bool {
        let mut state = self.lock_state();
        state.is_reserve_released = false;
        self.fill_reserve_locked(&mut state)
    }

    /// Fills the reserve, unless the disk was full within the last second.
    pub(super) fn fill_reserve_if_due(&self) {
        let mut state = self.lock_state();
        state.is_reserve_released = false;
        if state
            .reserve_failed_at
            .is_none_or(|last_failure| last_failure.elapsed() >= RESERVE_RETRY_INTERVAL)
        {
            self.fill_reserve_locked(&mut state);
        }
    }

    /// Extends the reserve for a log that needs `size` bytes. Returns `false` if the disk has too little space for a log. Then the
    /// log gives its part of the reserve back, and one attempt in each second finds out whether the disk has space again.
    pub(super) fn extend_reserve_to(&self, size: u64) -> bool {
        let mut state = self.lock_state();
        let size = match state.scarce_since {
            Some(since) if since.elapsed() < RESERVE_RETRY_INTERVAL => return false,
            // A log without space soon after would cost more than no log.
            Some(_) => 2 * self.log_bytes(),
            None => size,
        };
        if state.reserve < size
            && (self.check_owner().is_err() || self.extend_reserve(&mut state, size).is_err())
        {
            state.was_full = true;
            state.scarce_since = Some(Instant::now());
            state.log_reserve = 0;
            self.shrink_reserve(&mut state);
            return false;
        }
        state.log_reserve = size;
        state.scarce_since = None;
        true
    }

    /// Whether the disk has too little space for a log.
    pub(super) fn is_scarce(&self) -> bool {
        self.lock_state().scarce_since.is_some()
    }

    /// Gives the part of the reserve back that no write needs.
    fn shrink_reserve(&self, state: &mut FileState) {
        let target = self.reserve_target(state);
        if state.reserve > target
            && self
                .storage
                .set_len(self.file_len(state.len) + target)
                .is_ok()
        {
            state.reserve = target;
        }
    }

    /// The size that the reserve should have.
    fn reserve_target(&self, state: &FileState) -> u64 {
        let base = (state.len / RESERVE_DIVISOR).clamp(MIN_RESERVE_BYTES, MAX_RESERVE_BYTES);
        base.max(state.log_reserve)
    }

    /// Ends the demand of the log.
    pub(super) fn end_log_reserve(&self) {
        self.lock_state().log_reserve = 0;
    }

    /// Whether the disk has room for the reserve and for the same amount again.
    pub(super) fn has_room(&self) -> bool {
        let mut state = self.lock_state();
        if !self.fill_reserve_locked(&mut state) {
            return false;
        }
        let reserve = state.reserve;
        let has_room = self.extend_reserve(&mut state, 2 * reserve).is_ok();
        if has_room {
            // Ignore the error: a longer reserve does no harm.
            let _ = self.storage.set_len(self.file_len(state.len) + reserve);
            state.reserve = reserve;
        }
        has_room
    }

    /// Releases the reserve, for a write that must succeed on a full disk.
    pub(super) fn release_reserve(&self) -> io::Result<()> {
        self.check_owner()?;
        if self.is_closed.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = self.lock_state();
        if state.reserve > 0 {
            self.storage.set_len(self.file_len(state.len))?;
            state.reserve = 0;
        }
        state.is_reserve_released = true;
        Ok(())
    }

    /// Closes the file and releases its locks. A fork keeps the locks, which it shares with its parent process.
    pub(super) fn close(&self) {
        if self.check_owner().is_err() || self.is_closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut state = self.lock_state();
        if state.was_full {
            let _ = self.record_reserve(&mut state);
        }
        let _ = self.storage.close();
        state.is_unlocked = true;
    }

    /// Records the reserve in the file, because the next process may find the disk full as well.
    fn record_reserve(&self, state: &mut FileState) -> io::Result<()> {
        let synced = state.synced.as_ref().filter(|_| self.has_page_checksums());
        let Some(mut sector) = synced.map(|synced| synced.sector.clone()) else {
            return Ok(());
        };
        if state.is_header_ahead || !sector.starts_with(&REDB_MAGIC) {
            return Ok(());
        }
        self.fill_reserve_locked(state);
        if let Some(field) = sector.get_mut(RESERVE_OFFSET..RESERVE_OFFSET + size_of::<u64>()) {
            field.copy_from_slice(&state.reserve.to_be_bytes());
        }
        self.storage.write(0, &sector)
    }

    /// Writes data into the reserve. Many file systems allocate space on a write, not when the file is extended.
    fn fill_reserve_locked(&self, state: &mut FileState) -> bool {
        if self.check_owner().is_err() {
            return false;
        }
        let target_size = self.reserve_target(state);
        let mut size = target_size;
        while size > state.reserve.max(RESERVE_STEP_BYTES as u64) {
            if self.extend_reserve(state, size).is_ok() {
                break;
            }
            size /= 2;
        }
        let is_full = state.reserve >= target_size;
        state.reserve_failed_at = (!is_full).then(Instant::now);
        state.was_full |= !is_full;
        is_full
    }

    fn extend_reserve(&self, state: &mut FileState, size: u64) -> io::Result<()> {
        if state.is_unlocked {
            // The end of the file may belong to another process.
            return Err(io::Error::other("the file is closed"));
        }
        let end = self.file_len(state.len);
        let written = self.write_incompressible(end + state.reserve, end + size);
        if written.is_err() {
            // Ignore the error: a partly written reserve is useless but harmless.
            let _ = self.storage.set_len(end + state.reserve);
        } else {
            state.reserve = size;
        }
        written
    }

    fn write_incompressible(&self, start: u64, end: u64) -> io::Result<()> {
        self.storage.set_len(end)?;
        let mut bytes = Vec::with_capacity(RESERVE_STEP_BYTES);
        let mut at = start;
        let mut random = at;
        while at < end {
            let step = (end - at).min(RESERVE_STEP_BYTES as u64);
            bytes.clear();
            while (bytes.len() as u64) < step {
                // A linear congruential generator: a compressing file system would allocate no space for compressible data.
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                bytes.extend_from_slice(&random.to_be_bytes());
            }
            bytes.truncate(usize::try_from(step).unwrap_or(RESERVE_STEP_BYTES));
            self.storage.write(at, &bytes)?;
            self.sync_pages_if_many(bytes.len())?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// Examines the content on the first call, and returns the length that redb sees.
    fn examine_content(&self) -> io::Result<u64> {
        let mut state = self.lock_state();
        if self.layout.get().is_some() {
            return Ok(state.len);
        }
        let file_len = self.storage.len()?;
        let head_bytes = usize::try_from(file_len)
            .unwrap_or(SECTOR_BYTES)
            .min(SECTOR_BYTES);
        let mut head = vec![0; head_bytes];
        self.storage.read(0, &mut head)?;
        let is_new = !head.starts_with(&REDB_MAGIC);
        if is_new && file_len > 0 {
            if !self.is_interrupted_creation(&head, file_len)? {
                return Err(io::Error::other(RefusedStorage::Foreign));
            }
            self.storage.set_len(0)?;
        }
        let field = |at: usize| {
            let number = head.get(at..).and_then(<[u8]>::first_chunk);
            number.map_or(0, |number| u64::from_be_bytes(*number))
        };
        let marker = head.get(MARKER_OFFSET..).unwrap_or_default();
        let has_log = marker.starts_with(&LOG_MARKER);
        let has_mark = has_log || marker.starts_with(&PAGE_CHECKSUMS_MARKER);
        let log_bytes = match (is_new, has_log) {
            (true, _) => self.new_log_bytes,
            (false, true) => field(LOG_LEN_OFFSET),
            (false, false) => 0,
        };
        if !log_bytes.is_multiple_of(PAGE_SIZE_BYTES) || log_bytes > MAX_LOG_BYTES {
            let message = "the length of the log is damaged";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let positions = PagePositions { log_bytes };
        let layout = match is_new || has_mark {
            true => FileLayout::PageChecksums(PageChecksums::new(positions)),
            false => FileLayout::Plain,
        };
        if !is_new {
            let redb_len = match &layout {
                FileLayout::PageChecksums(_) => positions.redb_len(file_len).min(field(LEN_OFFSET)),
                // redb refuses bytes after its last page.
                FileLayout::Plain => file_len - file_len % PAGE_SIZE_BYTES,
            };
            // A file that ends inside the header is damaged, not empty.
            state.len = if redb_len > 0 { redb_len } else { file_len };
            if has_mark {
                let remaining = file_len.saturating_sub(positions.file_len(state.len));
                state.reserve = field(RESERVE_OFFSET).min(remaining);
            } else {
                head.truncate(HEADER_BYTES);
            }
            state.synced = Some(SyncedHeader {
                sector: head,
                len: state.len,
            });
        }
        let _first = self.layout.set(layout);
        Ok(state.len)
    }

    /// Whether the creation of the file was interrupted. redb writes its magic number last.
    fn is_interrupted_creation(&self, head: &[u8], file_len: u64) -> io::Result<bool> {
        if file_len < SECTOR_BYTES as u64
            || file_len > MAX_CREATED_BYTES
            || !head.starts_with(&[0; REDB_MAGIC.len()])
        {
            return Ok(false);
        }
        let mut chunk = vec![0; 64 << 10];
        let mut at = SECTOR_BYTES as u64;
        while at < file_len {
            let rest = usize::try_from(file_len - at).unwrap_or(usize::MAX);
            chunk.truncate(rest);
            self.storage.read(at, &mut chunk)?;
            if chunk.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += chunk.len() as u64;
        }
        Ok(file_len > SECTOR_BYTES as u64)
    }

    fn read_verified(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.check_owner()?;
        if offset == 0 {
            let state = self.lock_state();
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
        let Some(FileLayout::PageChecksums(checksums)) = self.layout.get() else {
            return self.storage.read(offset, out);
        };
        if let Some(page) = checksums.read_pages(self.storage.as_ref(), offset, out)? {
            // An error would make redb refuse all further writes and keep the page in its cache. redb fails on an empty page at
            // each access, and on no other page.
            let _first = self.damaged_page.set(page);
            out.fill(0);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check_owner()?;
        if offset == 0 {
            self.lock_state().header = Some(data.to_vec());
            return Ok(());
        }
        match self.layout.get() {
            Some(FileLayout::PageChecksums(checksums)) => {
                checksums.write_pages(self.storage.as_ref(), offset, data)?;
                self.sync_pages_if_many(data.len())
            }
            Some(FileLayout::Plain) | None => self.storage.write(offset, data),
        }
    }

    fn sync_header(&self) -> io::Result<()> {
        self.check_owner()?;
        if let Some(FileLayout::PageChecksums(checksums)) = self.layout.get() {
            checksums.flush(self.storage.as_ref())?;
        }
        let (header, len) = {
            let mut state = self.lock_state();
            state.is_header_ahead |= state.header.is_some();
            (state.header.clone(), state.len)
        };
        // The state is not locked during the sync, because commits to the log extend the reserve.
        let mut sync = self.lock_sync();
        let sector = header.map(|header| self.sector_of(header, len));
        if let Some(sector) = &sector {
            self.storage.write(0, sector)?;
        }
        self.sync_storage(&mut sync)?;
        sync.ensure_no_failure_since(sync.failures_before_commit)?;
        drop(sync);
        if let Some(sector) = sector {
            let mut state = self.lock_state();
            state.header = None;
            state.is_header_ahead = false;
            state.synced = Some(SyncedHeader { sector, len });
        }
        Ok(())
    }

    /// Returns the first sector of the file: redb's header, and the lengths in a file with page checksums.
    fn sector_of(&self, header: Vec<u8>, len: u64) -> Vec<u8> {
        let mut sector = header;
        if self.has_page_checksums() {
            sector.truncate(MARKER_OFFSET);
            sector.resize(MARKER_OFFSET, 0);
            let log_bytes = self.log_bytes();
            let marker = match log_bytes {
                0 => PAGE_CHECKSUMS_MARKER,
                _ => LOG_MARKER,
            };
            sector.extend_from_slice(&marker);
            sector.extend_from_slice(&len.to_be_bytes());
            sector.resize(LOG_LEN_OFFSET, 0);
            sector.extend_from_slice(&log_bytes.to_be_bytes());
            sector.resize(SECTOR_BYTES, 0);
        }
        sector
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_owner()?;
        let mut state = self.lock_state();
        let (previous_len, previous_reserve) = (state.len, state.reserve);
        if previous_reserve > 0 {
            // Cut off the reserve first, so that redb finds new pages empty.
            self.storage.set_len(self.file_len(previous_len.min(len)))?;
            state.reserve = 0;
        }
        self.storage.set_len(self.file_len(len))?;
        state.len = len;
        // A new file has no reserve before its first commit.
        if state.synced.is_none() || state.is_reserve_released {
            return Ok(());
        }
        let is_complete = self.fill_reserve_locked(&mut state);
        if !is_complete && state.reserve < previous_reserve && len > previous_len {
            // The file must not grow at the expense of the reserve. Restore the reserve.
            self.storage.set_len(self.file_len(previous_len))?;
            (state.len, state.reserve) = (previous_len, 0);
            self.fill_reserve_locked(&mut state);
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn file_len(&self, len: u64) -> u64 {
        match self.layout.get() {
            Some(FileLayout::PageChecksums(checksums)) => checksums.positions().file_len(len),
            Some(FileLayout::Plain) | None => len,
        }
    }

    /// Locks the state. The state is complete at every point where a thread can panic.
    fn lock_state(&self) -> MutexGuard<'_, FileState> {
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

impl fmt::Display for RefusedStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RefusedStorage::Foreign => f.write_str("not a database"),
            RefusedStorage::Forked { owner } => write!(
                f,
                "process {owner} opened the file before this process was forked; open the file after the fork, \
                 in one process only"
            ),
        }
    }
}

impl std::error::Error for RefusedStorage {}

/// An open redb database's access to the file. Access ends when the file is reopened.
#[derive(Debug)]
pub(super) struct FileHandle {
    file: Arc<DatabaseFile>,
    is_over: Arc<AtomicBool>,
}

impl FileHandle {
    /// Returns a handle, and a flag that ends its access.
    pub(super) fn new(file: Arc<DatabaseFile>) -> (FileHandle, Arc<AtomicBool>) {
        let is_finished = Arc::<AtomicBool>::default();
        let handle = FileHandle {
            file,
            is_over: Arc::clone(&is_finished),
        };
        (handle, is_finished)
    }

    fn active_file(&self) -> io::Result<&DatabaseFile> {
        if self.is_over.load(Ordering::Acquire) {
            return Err(io::Error::other("the file was reopened after a failure"));
        }
        Ok(&self.file)
    }

    /// Locks through the first handle only. Later handles share its locks.
    fn lock_once(
        &self,
        lock: impl FnOnce(&dyn StorageBackend) -> Result<bool, BackendError>,
    ) -> Result<bool, BackendError> {
        let file = self.active_file()?;
        if file.is_locked.load(Ordering::Acquire) {
            return Ok(true);
        }
        lock(file.storage.as_ref())
    }
}

impl StorageBackend for FileHandle {
    fn len(&self) -> io::Result<u64> {
        self.active_file()?.examine_content()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.active_file()?.read_verified(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.active_file()?.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.active_file()?.sync_header()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.active_file()?.write_at(offset, data)
    }

    /// Leaves the file open, because the store may reopen it with a new handle.
    fn close(&self) -> io::Result<()> {
        Ok(())
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.lock_once(|storage| storage.try_lock_range(start, end))
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.lock_once(|storage| storage.try_lock_shared_range(start, end))
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.lock_once(|storage| storage.lock_range(start, end).map(|()| true))
            .map(drop)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.lock_once(|storage| storage.lock_shared_range(start, end).map(|()| true))
            .map(drop)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        if self.file.is_locked.load(Ordering::Acquire) {
            return Ok(());
        }
        self.file.storage.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.active_file()?.storage.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    #[test]
    fn a_fork_reads_and_writes_nothing() {
        let mut file = DatabaseFile::new(InMemoryBackend::new(), "data".into(), 0);
        assert_eq!(file.examine_content().unwrap(), 0);
        file.set_len(8 * PAGE_SIZE_BYTES).unwrap();
        file.owner = process::id().wrapping_add(1);
        let mut page = vec![0; PAGE_SIZE_BYTES as usize];
        for result in [
            file.read_verified(PAGE_SIZE_BYTES, &mut page),
            file.write_at(PAGE_SIZE_BYTES, &page),
            file.write_at(0, &page),
            file.set_len(0),
            file.sync_header(),
            file.roll_back(),
            file.release_reserve(),
        ] {
            let error = result.unwrap_err();
            assert!(error.to_string().contains("fork"), "{error}");
        }
        assert!(!file.fill_reserve());
        assert_eq!(file.storage.len().unwrap(), 9 * PAGE_SIZE_BYTES);
    }
}
