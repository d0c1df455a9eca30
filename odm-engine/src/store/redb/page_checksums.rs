//! Checksums of pages.
//!
//! redb verifies its pages when it repairs a file, not when it reads them. A page that was damaged or exchanged with
//! another one would send a search the wrong way: a document that is there would not be found. So the file has a page
//! of checksums before each group of [`GROUP`] pages of redb, and every page that is read from the file is verified
//! before redb follows it. A checksum covers the number of its page.
//!
//! A crash can lose the checksums of a commit and keep its pages. redb verifies every page of such a file by checksums
//! of its own before it uses it; meanwhile this module takes over what it reads ([`PageChecksums::begin_repair`]).

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;
use twox_hash::XxHash3_64;

/// The size of a page, of redb and of checksums.
pub(super) const PAGE: u64 = 4096;

const PAGE_BYTES: usize = 4096;

/// How many pages have their checksums in one page: 8 bytes for each.
const GROUP: u64 = 512;

const GROUP_PAGES: usize = 512;

/// How many groups stay in memory, at 4 KiB each. They cover 16 GiB of the file.
const MAX_GROUPS: usize = 8192;

/// The checksums of the pages of one file.
#[derive(Debug, Default)]
pub(super) struct PageChecksums {
    groups: Mutex<HashMap<u64, Group>>,
    is_repairing: AtomicBool,
}

#[derive(Debug)]
struct Group {
    checksums: Box<[u64; GROUP_PAGES]>,
    /// Whether the file has other ones.
    is_changed: bool,
}

/// Pages that follow each other in the file as they do in redb's numbering.
struct Run {
    first: u64,
    pages: usize,
}

impl PageChecksums {
    /// Reads whole pages, and returns the number of the first one that differs from its checksum.
    pub(super) fn read(
        &self,
        storage: &dyn StorageBackend,
        offset: u64,
        out: &mut [u8],
    ) -> io::Result<Option<u64>> {
        let mut damaged = None;
        let mut rest = out;
        for run in runs(offset, rest.len())? {
            let (bytes, behind) = rest.split_at_mut(run.pages * PAGE_BYTES);
            rest = behind;
            storage.read(place(run.first), bytes)?;
            let found = checksums(run.first, bytes);
            let mut groups = self.groups();
            let group = load(&mut groups, storage, group_of(run.first))?;
            let start = index_of(run.first);
            let stored = group.checksums.iter_mut().skip(start);
            for (page, (stored, found)) in (run.first..).zip(stored.zip(found)) {
                if *stored == found {
                    continue;
                }
                if self.is_repairing.load(Ordering::Acquire) {
                    *stored = found;
                    group.is_changed = true;
                } else {
                    damaged = damaged.or(Some(page));
                }
            }
        }
        Ok(damaged)
    }

    /// Writes whole pages. Their checksums follow with the next [`flush`](Self::flush).
    pub(super) fn write(
        &self,
        storage: &dyn StorageBackend,
        offset: u64,
        data: &[u8],
    ) -> io::Result<()> {
        let mut rest = data;
        for run in runs(offset, rest.len())? {
            let (bytes, behind) = rest.split_at(run.pages * PAGE_BYTES);
            rest = behind;
            let written = checksums(run.first, bytes);
            storage.write(place(run.first), bytes)?;
            let mut groups = self.groups();
            let group = load(&mut groups, storage, group_of(run.first))?;
            let stored = group.checksums.iter_mut().skip(index_of(run.first));
            for (stored, written) in stored.zip(written) {
                *stored = written;
            }
            group.is_changed = true;
        }
        Ok(())
    }

    /// Writes the checksums that have changed.
    pub(super) fn flush(&self, storage: &dyn StorageBackend) -> io::Result<()> {
        let mut groups = self.groups();
        for (
            group,
            Group {
                checksums,
                is_changed,
            },
        ) in groups.iter_mut()
        {
            if !*is_changed {
                continue;
            }
            let bytes: Vec<u8> = checksums.iter().flat_map(|sum| sum.to_be_bytes()).collect();
            storage.write(place_of_group(*group), &bytes)?;
            *is_changed = false;
        }
        if groups.len() > MAX_GROUPS {
            groups.clear();
        }
        Ok(())
    }

    /// Forgets what was not flushed.
    pub(super) fn discard(&self) {
        self.groups().clear();
    }

    /// Takes over the checksums of what is read from now on: redb verifies it.
    pub(super) fn begin_repair(&self) {
        self.is_repairing.store(true, Ordering::Release);
    }

    /// Verifies again what is read.
    pub(super) fn end_repair(&self) {
        self.is_repairing.store(false, Ordering::Release);
    }

    /// A thread that panicked here has left complete checksums.
    fn groups(&self) -> MutexGuard<'_, HashMap<u64, Group>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The length of the file for a length that redb sees.
pub(super) fn file_len(len: u64) -> u64 {
    let pages = len.div_ceil(PAGE);
    match pages.checked_sub(2) {
        // The header alone.
        None => len,
        Some(last) => (pages + last / GROUP + 1) * PAGE,
    }
}

/// The length that redb sees of a file. Bytes behind the last whole page do not count.
pub(super) fn redb_len(file_len: u64) -> u64 {
    let pages = file_len / PAGE;
    let Some(behind_header) = pages.checked_sub(1) else {
        return 0;
    };
    let (groups, rest) = (behind_header / (GROUP + 1), behind_header % (GROUP + 1));
    (1 + groups * GROUP + rest.saturating_sub(1)) * PAGE
}

fn group_of(page: u64) -> u64 {
    page.saturating_sub(1) / GROUP
}

fn index_of(page: u64) -> usize {
    usize::try_from(page.saturating_sub(1) % GROUP).unwrap_or_default()
}

/// Where a page of redb is in the file.
fn place(page: u64) -> u64 {
    (page + group_of(page) + 1) * PAGE
}

fn place_of_group(group: u64) -> u64 {
    (1 + group * (GROUP + 1)) * PAGE
}

/// The pages of a range, group by group.
fn runs(offset: u64, len: usize) -> io::Result<impl Iterator<Item = Run>> {
    if offset < PAGE || !offset.is_multiple_of(PAGE) || !len.is_multiple_of(PAGE_BYTES) {
        let message = format!("{len} bytes at {offset} are no pages");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let mut first = offset / PAGE;
    let mut left = len / PAGE_BYTES;
    Ok(std::iter::from_fn(move || {
        let pages = left.min(GROUP_PAGES - index_of(first));
        let run = Run { first, pages };
        left -= pages;
        first += pages as u64;
        (pages > 0).then_some(run)
    }))
}

fn checksums(first: u64, bytes: &[u8]) -> Vec<u64> {
    let pages = (first..).zip(bytes.chunks_exact(PAGE_BYTES));
    pages
        .map(|(page, bytes)| XxHash3_64::oneshot_with_seed(page, bytes))
        .collect()
}

/// The checksums of a group, from the file if they are not in memory.
fn load<'g>(
    groups: &'g mut HashMap<u64, Group>,
    storage: &dyn StorageBackend,
    group: u64,
) -> io::Result<&'g mut Group> {
    use std::collections::hash_map::Entry;
    match groups.entry(group) {
        Entry::Occupied(known) => Ok(known.into_mut()),
        Entry::Vacant(unknown) => {
            let mut bytes = [0; PAGE_BYTES];
            storage.read(place_of_group(group), &mut bytes)?;
            let mut checksums = Box::new([0; GROUP_PAGES]);
            for (checksum, bytes) in checksums.iter_mut().zip(bytes.as_chunks().0) {
                *checksum = u64::from_be_bytes(*bytes);
            }
            Ok(unknown.insert(Group {
                checksums,
                is_changed: false,
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    #[test]
    fn lengths_lead_to_each_other() {
        for pages in (1..5000).chain([512 * 513, 512 * 513 + 1]) {
            let len = pages * PAGE;
            assert_eq!(redb_len(file_len(len)), len, "{pages}");
            assert_eq!(redb_len(file_len(len) + PAGE - 1), len, "{pages}");
        }
        assert_eq!(redb_len(0), 0);
        assert_eq!(redb_len(PAGE - 1), 0);
        // A group that has no page yet is no page of redb.
        assert_eq!(redb_len(2 * PAGE), PAGE);
        assert_eq!(file_len(2 * PAGE), 3 * PAGE);
        assert_eq!(file_len((GROUP + 1) * PAGE), (GROUP + 2) * PAGE);
        assert_eq!(file_len((GROUP + 2) * PAGE), (GROUP + 4) * PAGE);
    }

    #[test]
    fn a_page_in_the_place_of_another_is_found() {
        let storage = InMemoryBackend::new();
        storage.set_len(file_len(2000 * PAGE)).unwrap();
        let checksums = PageChecksums::default();
        let pages: Vec<u8> = (0..1100_usize * PAGE_BYTES)
            .map(|n| (n / 7) as u8)
            .collect();
        checksums.write(&storage, 300 * PAGE, &pages).unwrap();
        checksums.flush(&storage).unwrap();

        let read = |page: u64, pages: usize| {
            let mut out = vec![0; pages * PAGE_BYTES];
            let damaged = PageChecksums::default()
                .read(&storage, page * PAGE, &mut out)
                .unwrap();
            (out, damaged)
        };
        let (found, damaged) = read(300, 1100);
        assert!(found == pages && damaged.is_none());

        let (one, other) = (place(400), place(1031));
        let mut bytes = [vec![0; PAGE_BYTES], vec![0; PAGE_BYTES]];
        storage.read(one, &mut bytes[0]).unwrap();
        storage.read(other, &mut bytes[1]).unwrap();
        storage.write(one, &bytes[1]).unwrap();
        storage.write(other, &bytes[0]).unwrap();
        assert_eq!(read(300, 1100).1, Some(400));
        assert_eq!(read(401, 700).1, Some(1031));
        assert_eq!(read(401, 100).1, None);

        // What redb verifies itself is taken over.
        let repairing = PageChecksums::default();
        repairing.begin_repair();
        let mut out = vec![0; PAGE_BYTES];
        assert_eq!(
            repairing.read(&storage, 400 * PAGE, &mut out).unwrap(),
            None
        );
        repairing.flush(&storage).unwrap();
        assert_eq!(read(400, 1).1, None);
        assert_eq!(read(1031, 1).1, Some(1031));
    }
}
