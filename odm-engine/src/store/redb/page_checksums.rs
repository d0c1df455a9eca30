//! Checksums of pages.
//!
//! redb verifies its pages when it repairs a file, but not on a read. A damaged page, or a page that was exchanged with another
//! page, would misdirect a search, and an existing document would not be found. So the file has one page of checksums before each
//! group of [`PAGES_PER_GROUP`] redb pages. Every page read from the file is verified before redb uses it. A checksum covers the
//! page number, too.
//!
//! A commit with two syncs, as with quick repair, makes the checksums durable before its pages belong to the database. After a commit
//! with one sync, a crash can lose the checksums and keep the pages. redb then verifies every page by its own checksums before it
//! uses the file. During that repair, this module adopts the checksums of the pages that it reads
//! ([`PageChecksums::begin_repair`]).

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;
use twox_hash::XxHash3_64;

/// The size of a page in bytes, both of redb and of checksums.
pub(super) const PAGE_SIZE_BYTES: u64 = 4096;

const PAGE_BUFFER_BYTES: usize = 4096;

/// The number of redb pages with their checksums in one page, at 8 bytes for each checksum.
const PAGES_PER_GROUP: u64 = 512;

const CHECKSUMS_PER_GROUP: usize = 512;

/// The number of groups kept in memory, at 4 KiB each. They cover 16 GiB of the file.
const MAX_CACHED_CHECKSUM_GROUPS: usize = 8192;

/// The checksums of the pages of one file.
#[derive(Debug)]
pub(super) struct PageChecksums {
    positions: PagePositions,
    groups: Mutex<HashMap<u64, ChecksumGroup>>,
    is_repairing: AtomicBool,
}

/// Where the file has the pages of redb and of checksums.
#[derive(Debug, Clone, Copy)]
pub(super) struct PagePositions {
    /// The bytes between the page with the header and the first group.
    pub(super) log_bytes: u64,
}

#[derive(Debug)]
struct ChecksumGroup {
    checksums: Box<[u64; CHECKSUMS_PER_GROUP]>,
    /// Whether the checksums differ from the file's.
    is_changed: bool,
}

/// Consecutive redb pages that are also consecutive in the file.
struct PageRun {
    first: u64,
    pages: usize,
}

impl PageChecksums {
    pub(super) fn new(positions: PagePositions) -> PageChecksums {
        PageChecksums {
            positions,
            groups: Mutex::default(),
            is_repairing: AtomicBool::new(false),
        }
    }

    pub(super) fn positions(&self) -> PagePositions {
        self.positions
    }

    /// Reads whole pages. Returns the number of the first page that differs from its checksum.
    pub(super) fn read_pages(
        &self,
        storage: &dyn StorageBackend,
        offset: u64,
        out: &mut [u8],
    ) -> io::Result<Option<u64>> {
        let mut damaged = None;
        let mut rest = out;
        for run in split_into_runs(offset, rest.len())? {
            let (bytes, remaining) = rest.split_at_mut(run.pages * PAGE_BUFFER_BYTES);
            rest = remaining;
            storage.read(self.positions.page_offset(run.first), bytes)?;
            let computed = compute_checksums(run.first, bytes);
            let mut groups = self.lock_groups();
            let group = self.load_group(&mut groups, storage, group_of(run.first))?;
            let start = index_of(run.first);
            let stored = group.checksums.iter_mut().skip(start);
            for (page, (stored, computed)) in (run.first..).zip(stored.zip(computed)) {
                if *stored == computed {
                    continue;
                }
                if self.is_repairing.load(Ordering::Acquire) {
                    *stored = computed;
                    group.is_changed = true;
                } else {
                    damaged = damaged.or(Some(page));
                }
            }
        }
        Ok(damaged)
    }

    /// Writes whole pages. The next [`flush`](Self::flush) writes their checksums.
    pub(super) fn write_pages(
        &self,
        storage: &dyn StorageBackend,
        offset: u64,
        data: &[u8],
    ) -> io::Result<()> {
        let mut rest = data;
        for run in split_into_runs(offset, rest.len())? {
            let (bytes, remaining) = rest.split_at(run.pages * PAGE_BUFFER_BYTES);
            rest = remaining;
            let written = compute_checksums(run.first, bytes);
            storage.write(self.positions.page_offset(run.first), bytes)?;
            let mut groups = self.lock_groups();
            let group = self.load_group(&mut groups, storage, group_of(run.first))?;
            let stored = group.checksums.iter_mut().skip(index_of(run.first));
            for (stored, written) in stored.zip(written) {
                *stored = written;
            }
            group.is_changed = true;
        }
        Ok(())
    }

    /// Writes the changed checksums.
    pub(super) fn flush(&self, storage: &dyn StorageBackend) -> io::Result<()> {
        let mut groups = self.lock_groups();
        for (
            group,
            ChecksumGroup {
                checksums,
                is_changed,
            },
        ) in groups.iter_mut()
        {
            if !*is_changed {
                continue;
            }
            let bytes: Vec<u8> = checksums.iter().flat_map(|sum| sum.to_be_bytes()).collect();
            storage.write(self.positions.group_offset(*group), &bytes)?;
            *is_changed = false;
        }
        if groups.len() > MAX_CACHED_CHECKSUM_GROUPS {
            groups.clear();
        }
        Ok(())
    }

    /// Drops checksums that were not flushed.
    pub(super) fn discard_unflushed(&self) {
        self.lock_groups().clear();
    }

    /// Starts to adopt the checksums of all pages read, because redb verifies these pages itself.
    pub(super) fn begin_repair(&self) {
        self.is_repairing.store(true, Ordering::Release);
    }

    /// Starts to verify pages again on each read.
    pub(super) fn end_repair(&self) {
        self.is_repairing.store(false, Ordering::Release);
    }

    /// Returns the checksums of a group, and reads them from the file on first use.
    fn load_group<'g>(
        &self,
        groups: &'g mut HashMap<u64, ChecksumGroup>,
        storage: &dyn StorageBackend,
        group: u64,
    ) -> io::Result<&'g mut ChecksumGroup> {
        use std::collections::hash_map::Entry;
        match groups.entry(group) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let mut bytes = [0; PAGE_BUFFER_BYTES];
                storage.read(self.positions.group_offset(group), &mut bytes)?;
                let mut checksums = Box::new([0; CHECKSUMS_PER_GROUP]);
                for (checksum, bytes) in checksums.iter_mut().zip(bytes.as_chunks().0) {
                    *checksum = u64::from_be_bytes(*bytes);
                }
                Ok(entry.insert(ChecksumGroup {
                    checksums,
                    is_changed: false,
                }))
            }
        }
    }

    /// Locks the groups. Checksums are complete at every point where a thread can panic.
    fn lock_groups(&self) -> MutexGuard<'_, HashMap<u64, ChecksumGroup>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PagePositions {
    /// Returns the length of the file for a length that redb sees.
    pub(super) fn file_len(self, len: u64) -> u64 {
        let pages = len.div_ceil(PAGE_SIZE_BYTES);
        match pages.checked_sub(2) {
            // The header alone, without a log and without a group of pages.
            None => len,
            Some(last) => self.log_bytes + (pages + last / PAGES_PER_GROUP + 1) * PAGE_SIZE_BYTES,
        }
    }

    /// Returns the length that redb sees of a file. Bytes after the last whole page are ignored.
    pub(super) fn redb_len(self, file_len: u64) -> u64 {
        if file_len < PAGE_SIZE_BYTES {
            return 0;
        }
        let pages_after_header =
            (file_len - PAGE_SIZE_BYTES).saturating_sub(self.log_bytes) / PAGE_SIZE_BYTES;
        let (groups, rest) = (
            pages_after_header / (PAGES_PER_GROUP + 1),
            pages_after_header % (PAGES_PER_GROUP + 1),
        );
        (1 + groups * PAGES_PER_GROUP + rest.saturating_sub(1)) * PAGE_SIZE_BYTES
    }

    /// Returns the offset of a redb page in the file.
    fn page_offset(self, page: u64) -> u64 {
        self.log_bytes + (page + group_of(page) + 1) * PAGE_SIZE_BYTES
    }

    fn group_offset(self, group: u64) -> u64 {
        self.log_bytes + (1 + group * (PAGES_PER_GROUP + 1)) * PAGE_SIZE_BYTES
    }
}

fn group_of(page: u64) -> u64 {
    page.saturating_sub(1) / PAGES_PER_GROUP
}

fn index_of(page: u64) -> usize {
    usize::try_from(page.saturating_sub(1) % PAGES_PER_GROUP).unwrap_or_default()
}

/// Splits a range of pages by group.
fn split_into_runs(offset: u64, len: usize) -> io::Result<impl Iterator<Item = PageRun>> {
    if offset < PAGE_SIZE_BYTES
        || !offset.is_multiple_of(PAGE_SIZE_BYTES)
        || !len.is_multiple_of(PAGE_BUFFER_BYTES)
    {
        let message = format!("{len} bytes at offset {offset} are not whole pages");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let mut first = offset / PAGE_SIZE_BYTES;
    let mut remaining = len / PAGE_BUFFER_BYTES;
    Ok(std::iter::from_fn(move || {
        let pages = remaining.min(CHECKSUMS_PER_GROUP - index_of(first));
        let run = PageRun { first, pages };
        remaining -= pages;
        first += pages as u64;
        (pages > 0).then_some(run)
    }))
}

fn compute_checksums(first: u64, bytes: &[u8]) -> Vec<u64> {
    let pages = (first..).zip(bytes.chunks_exact(PAGE_BUFFER_BYTES));
    pages
        .map(|(page, bytes)| XxHash3_64::oneshot_with_seed(page, bytes))
        .collect()
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    const WITHOUT_LOG: PagePositions = PagePositions { log_bytes: 0 };

    #[test]
    fn lengths_lead_to_each_other() {
        let with_log = PagePositions {
            log_bytes: 8 * PAGE_SIZE_BYTES,
        };
        for positions in [WITHOUT_LOG, with_log] {
            let (file_len, redb_len) =
                (|len| positions.file_len(len), |len| positions.redb_len(len));
            for pages in (1..5000).chain([512 * 513, 512 * 513 + 1]) {
                let len = pages * PAGE_SIZE_BYTES;
                assert_eq!(redb_len(file_len(len)), len, "{pages}");
                let rest = PAGE_SIZE_BYTES - 1;
                assert_eq!(redb_len(file_len(len) + rest), len, "{pages}");
            }
            assert_eq!(redb_len(0), 0);
            assert_eq!(redb_len(PAGE_SIZE_BYTES - 1), 0);
            // A log, or a page of checksums, without a following page adds no redb page.
            let start = PAGE_SIZE_BYTES + positions.log_bytes;
            assert_eq!(redb_len(start), PAGE_SIZE_BYTES);
            assert_eq!(redb_len(start + PAGE_SIZE_BYTES), PAGE_SIZE_BYTES);
            for (redb_pages, pages_after_log) in [
                (2, 2),
                (PAGES_PER_GROUP + 1, PAGES_PER_GROUP + 1),
                (PAGES_PER_GROUP + 2, PAGES_PER_GROUP + 3),
            ] {
                let expected = start + pages_after_log * PAGE_SIZE_BYTES;
                assert_eq!(file_len(redb_pages * PAGE_SIZE_BYTES), expected);
            }
        }
    }

    #[test]
    fn a_swapped_page_is_detected() {
        let storage = InMemoryBackend::new();
        storage
            .set_len(WITHOUT_LOG.file_len(2000 * PAGE_SIZE_BYTES))
            .unwrap();
        let checksums = PageChecksums::new(WITHOUT_LOG);
        let pages: Vec<u8> = (0..1100_usize * PAGE_BUFFER_BYTES)
            .map(|n| (n / 7) as u8)
            .collect();
        checksums
            .write_pages(&storage, 300 * PAGE_SIZE_BYTES, &pages)
            .unwrap();
        checksums.flush(&storage).unwrap();

        let read = |page: u64, pages: usize| {
            let mut out = vec![0; pages * PAGE_BUFFER_BYTES];
            let damaged = PageChecksums::new(WITHOUT_LOG)
                .read_pages(&storage, page * PAGE_SIZE_BYTES, &mut out)
                .unwrap();
            (out, damaged)
        };
        let (read_pages, damaged) = read(300, 1100);
        assert!(read_pages == pages && damaged.is_none());

        let (first, second) = (WITHOUT_LOG.page_offset(400), WITHOUT_LOG.page_offset(1031));
        let mut bytes = [vec![0; PAGE_BUFFER_BYTES], vec![0; PAGE_BUFFER_BYTES]];
        storage.read(first, &mut bytes[0]).unwrap();
        storage.read(second, &mut bytes[1]).unwrap();
        storage.write(first, &bytes[1]).unwrap();
        storage.write(second, &bytes[0]).unwrap();
        assert_eq!(read(300, 1100).1, Some(400));
        assert_eq!(read(401, 700).1, Some(1031));
        assert_eq!(read(401, 100).1, None);

        // A repair adopts checksums, because redb verifies the pages itself.
        let repairing = PageChecksums::new(WITHOUT_LOG);
        repairing.begin_repair();
        let mut out = vec![0; PAGE_BUFFER_BYTES];
        assert_eq!(
            repairing
                .read_pages(&storage, 400 * PAGE_SIZE_BYTES, &mut out)
                .unwrap(),
            None
        );
        repairing.flush(&storage).unwrap();
        assert_eq!(read(400, 1).1, None);
        assert_eq!(read(1031, 1).1, Some(1031));
    }
}
