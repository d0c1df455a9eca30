//! The write-ahead log: a part of the file with one record for each commit since the last checkpoint.
//!
//! A checkpoint stores the [start](LogStart) of the log in the database, with a random generation. Each later record begins with this
//! generation and a sequence number. So records of earlier generations, and text of users in old bytes, are never taken for records. A crash between a
//! checkpoint and the first later record does no harm: the database has a new generation, and the log has no record of it.
//!
//! | part of a record | bytes |
//! |---|---|
//! | generation | 16 |
//! | sequence number, from 0 | 8 |
//! | sequence number of the first record that may not be synced yet | 8 |
//! | length of the changes | 4 |
//! | XXH3 hash of the other parts | 8 |
//! | for each change: length of the key, length of the value or `ff ff ff ff` for a removed key, key, value | 4, 4, … |

use std::io;
use std::sync::Arc;

use memchr::memmem;
use twox_hash::XxHash3_64;

use super::database_file::{DatabaseFile, is_storage_full};
use crate::error::{Error, Result};
use crate::store::Changes;

/// The length of the log in a new file.
pub(crate) const LOG_BYTES: u64 = 4 << 20;

/// The divisor of the log's length that gives the largest record. Larger commits are checkpoints, because they would be written twice
/// and fill the log. Inserts of 1,000 documents in one call take 1.7 times as long with 8 as with 2.
const MAX_RECORD_DIVISOR: u64 = 2;

/// How many bytes of a new file's log are written before records use them. A file system needs long to sync a block that was never
/// written.
const ALLOCATION_BYTES: usize = 128 << 10;

const GENERATION_BYTES: usize = 16;
const SEQUENCE_OFFSET: usize = GENERATION_BYTES;
const SYNCED_OFFSET: usize = SEQUENCE_OFFSET + size_of::<u64>();
const LENGTH_OFFSET: usize = SYNCED_OFFSET + size_of::<u64>();
const CHECKSUM_OFFSET: usize = LENGTH_OFFSET + size_of::<u32>();
const HEADER_BYTES: usize = CHECKSUM_OFFSET + size_of::<u64>();

/// The length of a value that says that the key is removed.
const REMOVED: u32 = u32::MAX;

/// Identifies the records since a checkpoint. Random, so that nobody can write a document that looks like a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Generation([u8; GENERATION_BYTES]);

impl Generation {
    fn random() -> Generation {
        Generation(rand::random())
    }

    fn from_bytes(bytes: &[u8]) -> Option<Generation> {
        bytes.try_into().ok().map(Generation)
    }

    fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The first record that the file does not contain. A commit of the file stores this value, and so makes the records before it
/// obsolete.
///
/// A checkpoint contains all records, and starts a new generation. A [large commit](crate::store::LargeCommit) contains the records
/// up to its start, and the later records stay valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct LogStart {
    generation: Generation,
    /// The position in the log, in bytes.
    position: u64,
    /// The sequence number.
    sequence: u64,
}

impl LogStart {
    /// Returns the start of an empty log with a new generation.
    pub(in crate::store) fn of_new_generation() -> LogStart {
        LogStart {
            generation: Generation::random(),
            position: 0,
            sequence: 0,
        }
    }

    /// Reads a stored value. The value has only the generation if the log starts with its first record.
    pub(in crate::store) fn from_bytes(bytes: &[u8]) -> Option<LogStart> {
        let (generation, rest) = bytes.split_at_checked(GENERATION_BYTES)?;
        let (position, sequence) = match rest.as_chunks() {
            ([], []) => (0, 0),
            ([position, sequence], []) => {
                (u64::from_be_bytes(*position), u64::from_be_bytes(*sequence))
            }
            _ => return None,
        };
        Some(LogStart {
            generation: Generation::from_bytes(generation)?,
            position,
            sequence,
        })
    }

    pub(in crate::store) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.generation.as_bytes().to_vec();
        if self.sequence > 0 {
            bytes.extend_from_slice(&self.position.to_be_bytes());
            bytes.extend_from_slice(&self.sequence.to_be_bytes());
        }
        bytes
    }
}

/// The log of an open file.
pub(in crate::store) struct WriteAheadLog {
    file: Arc<DatabaseFile>,
    generation: Generation,
    /// The position of the first record that the file does not contain.
    start: u64,
    /// The position of the next record.
    end: u64,
    /// The sequence number of the next record.
    sequence: u64,
    /// The sequence number of the first record that may not be synced yet.
    synced: u64,
    /// The number of failed syncs of the file that the log knows of.
    failed_syncs: u64,
    /// The bytes from the start that certainly have blocks on the disk.
    allocated: u64,
    /// Whether the record at the end was written with an unknown outcome.
    has_unknown_record: bool,
}

/// An encoded record without its place in the log.
pub(in crate::store) struct Record(Vec<u8>);

impl Record {
    /// The length in bytes.
    pub(in crate::store) fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

impl WriteAheadLog {
    /// Opens the log of a file, and returns the changes of its records. A power loss may have kept records after a lost record: these
    /// are erased, because a later record in place of the lost record would make them valid.
    ///
    /// # Errors
    /// I/O. Damaged, if a synced record has changed.
    pub(super) fn open(
        file: Arc<DatabaseFile>,
        start: LogStart,
    ) -> Result<(WriteAheadLog, Changes)> {
        let bytes = file.read_whole_log();
        let bytes = bytes.map_err(|error| file.convert_io(error))?;
        let generation = start.generation;
        let mut log = WriteAheadLog::new(file, start);
        let mut changes = Changes::new();
        let position = usize::try_from(start.position).ok();
        let rest = position.and_then(|position| bytes.get(position..));
        let mut rest = rest.ok_or_else(|| Error::damaged("the log starts behind its end"))?;
        while let Some((record, after)) = split_record(rest, generation, log.sequence) {
            if add_changes(record, &mut changes).is_none() {
                return Err(Error::damaged("a record of the log has a wrong form"));
            }
            log.sequence += 1;
            log.end += (rest.len() - after.len()) as u64;
            rest = after;
        }
        log.synced = log.sequence;
        let later_records = synced_before_later_records(rest, generation);
        if later_records.iter().any(|synced| *synced > log.sequence) {
            let message = "a record of the log does not match its checksum";
            return Err(Error::damaged(message));
        }
        if !later_records.is_empty() {
            let length = without_zeros(rest).len();
            let erased = log.file.write_log(log.end, &vec![0; length]);
            let erased = erased.and_then(|()| log.file.sync_log(&mut log.failed_syncs));
            erased.map_err(|error| log.file.convert_io(error))?;
        }
        Ok((log, changes))
    }

    /// Returns a log without records.
    pub(super) fn new(file: Arc<DatabaseFile>, start: LogStart) -> WriteAheadLog {
        WriteAheadLog {
            failed_syncs: file.failed_syncs(),
            file,
            generation: start.generation,
            start: start.position,
            end: start.position,
            sequence: start.sequence,
            synced: start.sequence,
            allocated: 0,
            has_unknown_record: false,
        }
    }

    /// The length of all records, in bytes.
    pub(in crate::store) fn len(&self) -> u64 {
        self.end - self.start
    }

    /// The position of the next record, in bytes.
    pub(in crate::store) fn end(&self) -> u64 {
        self.end
    }

    /// The used share of the log, from 0 to 1.
    pub(in crate::store) fn used_share(&self) -> f64 {
        let per_mille = self.end * 1_000 / self.file.log_bytes().max(1);
        f64::from(u16::try_from(per_mille).unwrap_or(u16::MAX)) / 1_000.0
    }

    /// The start of the log after a commit of the file that contains all records up to now.
    pub(in crate::store) fn next_start(&self) -> LogStart {
        LogStart {
            generation: self.generation,
            position: self.end,
            sequence: self.sequence,
        }
    }

    /// Whether the log takes a record with changes of this length.
    pub(in crate::store) fn has_room_for(&self, payload_len: usize) -> bool {
        let (capacity, len) = (self.file.log_bytes(), HEADER_BYTES + payload_len);
        len as u64 <= capacity / MAX_RECORD_DIVISOR && self.end + len as u64 <= capacity
    }

    /// Returns the record of a commit; `None` if the commit is better written by a checkpoint.
    pub(in crate::store) fn record_of(&self, changes: &Changes) -> Option<Record> {
        let change_len = |(key, value): (&Arc<[u8]>, &Option<Arc<[u8]>>)| {
            2 * size_of::<u32>() + key.len() + value.as_ref().map_or(0, |value| value.len())
        };
        let payload_len = changes.iter().map(change_len).sum::<usize>();
        if !self.has_room_for(payload_len) {
            return None;
        }
        let len = HEADER_BYTES + payload_len;
        let mut record = Vec::with_capacity(len);
        record.extend_from_slice(self.generation.as_bytes());
        record.extend_from_slice(&self.sequence.to_be_bytes());
        record.extend_from_slice(&self.synced.to_be_bytes());
        record.extend_from_slice(&u32::try_from(len - HEADER_BYTES).ok()?.to_be_bytes());
        record.extend_from_slice(&[0; size_of::<u64>()]);
        for (key, value) in changes {
            let value_len = match value {
                Some(value) => u32::try_from(value.len()).ok()?,
                None => REMOVED,
            };
            record.extend_from_slice(&u32::try_from(key.len()).ok()?.to_be_bytes());
            record.extend_from_slice(&value_len.to_be_bytes());
            record.extend_from_slice(key);
            record.extend_from_slice(value.as_deref().unwrap_or_default());
        }
        let checksum = checksum_of(&record);
        if let Some(field) = record.get_mut(CHECKSUM_OFFSET..HEADER_BYTES) {
            field.copy_from_slice(&checksum.to_be_bytes());
        }
        Some(Record(record))
    }

    /// Writes a record, and makes the record durable if `syncs` is set. After an error,
    /// [`erase_unknown_record`](Self::erase_unknown_record) must succeed before the next record.
    pub(in crate::store) fn append(&mut self, record: &Record, syncs: bool) -> io::Result<()> {
        if !self.has_unsynced_records() {
            // A sync that failed before can have lost no record.
            self.failed_syncs = self.file.failed_syncs();
        }
        let end = self.end + record.len();
        let allocated = self.allocate(end);
        // On a full disk, there is no record to erase, and no space for the erasure.
        self.has_unknown_record = !allocated.as_ref().is_err_and(is_storage_full);
        allocated?;
        self.file.write_log(self.end, &record.0)?;
        if syncs {
            self.file.sync_log(&mut self.failed_syncs)?;
            self.synced = self.sequence + 1;
        }
        self.has_unknown_record = false;
        self.end = end;
        self.sequence += 1;
        Ok(())
    }

    /// Writes zeros behind a record that ends at `end`, if the record needs new blocks.
    fn allocate(&mut self, end: u64) -> io::Result<()> {
        if end > self.allocated {
            let next = (end + ALLOCATION_BYTES as u64).min(self.file.log_bytes());
            let zeros = usize::try_from(next - end).map_err(io::Error::other)?;
            self.file.write_log(end, &vec![0; zeros])?;
            self.allocated = next;
        }
        Ok(())
    }

    /// Makes all records durable.
    pub(in crate::store) fn sync(&mut self) -> io::Result<()> {
        if self.has_unsynced_records() {
            self.file.sync_log(&mut self.failed_syncs)?;
            self.synced = self.sequence;
        }
        Ok(())
    }

    /// Whether a record may not be durable yet.
    pub(in crate::store) fn has_unsynced_records(&self) -> bool {
        self.synced < self.sequence
    }

    /// Whether a record with an unknown outcome may be in the log.
    pub(in crate::store) fn has_unknown_record(&self) -> bool {
        self.has_unknown_record
    }

    /// Makes sure that a record with an unknown outcome is not in the log.
    pub(in crate::store) fn erase_unknown_record(&mut self) -> io::Result<()> {
        if self.has_unknown_record {
            self.file.write_log(self.end, &[0; HEADER_BYTES])?;
            self.file.sync_log(&mut self.failed_syncs)?;
            self.has_unknown_record = false;
        }
        Ok(())
    }

    /// Drops the records before `start`, which a commit of the file has stored.
    pub(in crate::store) fn move_start(&mut self, start: LogStart) {
        if start.generation == self.generation {
            self.start = start.position;
            return;
        }
        self.generation = start.generation;
        self.start = start.position;
        self.end = start.position;
        self.sequence = start.sequence;
        self.synced = start.sequence;
        self.has_unknown_record = false;
    }
}

/// Splits the bytes of a log into the payload of the first record and the rest; `None` if there is no such record.
fn split_record(bytes: &[u8], generation: Generation, sequence: u64) -> Option<(&[u8], &[u8])> {
    let after_generation = bytes.strip_prefix(generation.as_bytes())?;
    let found = u64::from_be_bytes(*after_generation.first_chunk()?);
    let length = u32::from_be_bytes(*bytes.get(LENGTH_OFFSET..)?.first_chunk()?);
    let stored = u64::from_be_bytes(*bytes.get(CHECKSUM_OFFSET..)?.first_chunk()?);
    let (record, rest) = bytes.split_at_checked(HEADER_BYTES + usize::try_from(length).ok()?)?;
    let is_valid = found == sequence && stored == checksum_of(record);
    is_valid.then(|| (record.get(HEADER_BYTES..).unwrap_or_default(), rest))
}

/// Finds the valid records in a part of the log, at any place. Returns for each record the sequence number of the first record that
/// may not have been synced before.
fn synced_before_later_records(bytes: &[u8], generation: Generation) -> Vec<u64> {
    let number = |candidate: &[u8], at: usize| -> Option<u64> {
        let bytes = candidate.get(at..)?.first_chunk()?;
        Some(u64::from_be_bytes(*bytes))
    };
    let starts = memmem::find_iter(without_zeros(bytes), generation.as_bytes());
    let candidates = starts.filter_map(|at| bytes.get(at..));
    let synced = candidates.filter_map(|candidate| {
        split_record(candidate, generation, number(candidate, SEQUENCE_OFFSET)?)?;
        number(candidate, SYNCED_OFFSET)
    });
    synced.collect()
}

/// Returns the bytes without the blocks of zeros at the end: most of the log was never written.
fn without_zeros(mut bytes: &[u8]) -> &[u8] {
    const ZEROS: [u8; 4096] = [0; 4096];
    while let Some((rest, block)) = bytes.split_last_chunk()
        && *block == ZEROS
    {
        bytes = rest;
    }
    bytes
}

fn add_changes(mut payload: &[u8], changes: &mut Changes) -> Option<()> {
    while !payload.is_empty() {
        let (key_len, rest) = payload.split_first_chunk()?;
        let (value_len, rest) = rest.split_first_chunk()?;
        let value_len = u32::from_be_bytes(*value_len);
        let key_len = usize::try_from(u32::from_be_bytes(*key_len)).ok()?;
        let (key, rest) = rest.split_at_checked(key_len)?;
        if value_len == REMOVED {
            changes.insert(key.into(), None);
            payload = rest;
        } else {
            let (value, rest) = rest.split_at_checked(usize::try_from(value_len).ok()?)?;
            changes.insert(key.into(), Some(value.into()));
            payload = rest;
        }
    }
    Some(())
}

/// Returns the checksum of a record, whose checksum field is ignored.
fn checksum_of(record: &[u8]) -> u64 {
    let (header, payload) = record.split_at(HEADER_BYTES.min(record.len()));
    let header = header.get(..CHECKSUM_OFFSET).unwrap_or(header);
    XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(header), payload)
}

#[cfg(test)]
mod tests {
    use redb::StorageBackend;
    use redb::backends::InMemoryBackend;

    use super::super::database_file::FileHandle;
    use super::*;

    /// A value of 16 bytes is the start of a log of an earlier engine, or of a log without a large commit.
    #[test]
    fn a_start_is_stored_in_two_lengths() {
        let first = LogStart::of_new_generation();
        let later = LogStart {
            position: 5000,
            sequence: 7,
            ..first
        };
        for (start, length) in [(first, 16), (later, 32)] {
            let bytes = start.to_bytes();
            assert_eq!(bytes.len(), length);
            assert_eq!(LogStart::from_bytes(&bytes), Some(start));
            assert_eq!(LogStart::from_bytes(&bytes[1..]), None);
        }
        assert_eq!(LogStart::from_bytes(&[0; 24]), None);
    }

    /// Opens the log and returns the first bytes of the keys of its changes.
    fn open(file: &Arc<DatabaseFile>, start: LogStart) -> (WriteAheadLog, Vec<u8>) {
        let opened = WriteAheadLog::open(Arc::clone(file), start);
        let (log, changes) = opened.unwrap();
        (log, changes.keys().map(|key| key[0]).collect())
    }

    /// A power loss loses a relaxed record and keeps the records behind. New records of the same length take the place of the lost
    /// record, and the kept records must not follow the new records.
    #[test]
    fn records_behind_a_lost_record_never_come_back() {
        let file = DatabaseFile::new(InMemoryBackend::new(), "data".into(), 1 << 20);
        let file = Arc::new(file);
        let (handle, _) = FileHandle::new(Arc::clone(&file));
        assert_eq!(handle.len().unwrap(), 0);
        handle.set_len(8 << 12).unwrap();
        let start = LogStart::of_new_generation();
        let append = |log: &mut WriteAheadLog, key: u8, syncs: bool| {
            let value: Arc<[u8]> = vec![key; 50_000].into();
            let changes = Changes::unit([key].as_slice().into(), Some(value));
            let record = log.record_of(&changes).unwrap();
            log.append(&record, syncs).unwrap();
            record.len()
        };
        let mut log = WriteAheadLog::new(Arc::clone(&file), start);
        append(&mut log, 0, true);
        let length = (1..10)
            .map(|key| append(&mut log, key, false))
            .max()
            .unwrap();
        assert_eq!(open(&file, start).1, (0..10).collect::<Vec<_>>());

        file.write_log(length, &[0; HEADER_BYTES]).unwrap();
        let (mut log, keys) = open(&file, start);
        assert_eq!(keys, [0]);
        // A second power loss keeps the new record, and nothing else that the process wrote.
        let mut kept = vec![0; 100_000];
        file.read_log(2 * length, &mut kept).unwrap();
        append(&mut log, 20, false);
        file.write_log(2 * length, &kept).unwrap();
        assert_eq!(open(&file, start).1, [0, 20]);
        // The first record was synced before the second record was written.
        file.write_log(0, &[0; HEADER_BYTES]).unwrap();
        let damaged = WriteAheadLog::open(file, start);
        assert!(damaged.err().unwrap().is_damaged());
    }
}
