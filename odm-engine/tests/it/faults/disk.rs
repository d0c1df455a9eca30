//! A disk in memory that fails or loses power at a chosen operation.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The operation returns an error and does nothing. Later operations succeed.
    Once,
    /// The operation and all later operations return an error.
    Forever,
    /// A power loss: the disk keeps some of the unsynced writes and loses the rest.
    Power { seed: u64 },
}

/// A storage for redb. Counts writes, syncs and changes of the length. Reads never fail.
#[derive(Clone, Debug)]
pub(crate) struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The content that reads return.
    current: Vec<u8>,
    /// The content that certainly survives a power loss.
    synced: Vec<u8>,
    /// The changes since the last sync, in order.
    pending: Vec<Change>,
    operations: u64,
    written: usize,
    /// The operation that fails, counted from 0, and the kind of failure.
    fault: Option<(u64, Fault)>,
    /// Whether every operation fails.
    is_out: bool,
    /// How long a sync takes.
    sync_time: Duration,
    /// The number of blocks on the disk; unlimited if `None`.
    capacity: Option<usize>,
    /// The blocks in use. The remaining blocks were never written.
    blocks: BTreeSet<usize>,
}

/// The allocation unit of a file system, in bytes.
const BLOCK: usize = 4096;

#[derive(Clone, Debug)]
enum Change {
    Length(usize),
    Write(usize, Vec<u8>),
}

/// The unit that a disk writes atomically, in bytes.
const SECTOR: usize = 512;

impl Disk {
    /// Returns a disk with this content.
    pub(crate) fn new(content: Vec<u8>) -> Disk {
        Disk(Arc::new(Mutex::new(State {
            current: content.clone(),
            synced: content,
            ..State::default()
        })))
    }

    /// Returns an empty disk that fails at operation `at`, counted from 0.
    pub(crate) fn failing(at: u64, fault: Fault) -> Disk {
        let disk = Disk::new(Vec::new());
        disk.state().fault = Some((at, fault));
        disk
    }

    /// Returns an empty disk with a capacity of `bytes`.
    pub(crate) fn with_capacity(bytes: usize) -> Disk {
        let disk = Disk::new(Vec::new());
        disk.set_capacity(bytes);
        disk
    }

    /// Changes the capacity of the disk.
    pub(crate) fn set_capacity(&self, bytes: usize) {
        self.state().capacity = Some(bytes / BLOCK);
    }

    /// Reduces the capacity to the blocks in use.
    pub(crate) fn fill_up(&self) {
        let mut state = self.state();
        state.capacity = Some(state.blocks.len());
    }

    /// Returns the size of the blocks in use, in bytes.
    pub(crate) fn used(&self) -> usize {
        self.state().blocks.len() * BLOCK
    }

    /// Sets how long a sync takes.
    pub(crate) fn set_sync_time(&self, time: Duration) {
        self.state().sync_time = time;
    }

    /// Makes every operation fail, or ends the failure.
    pub(crate) fn set_out(&self, is_out: bool) {
        self.state().is_out = is_out;
    }

    /// Makes one operation fail, after the given number of further operations.
    pub(crate) fn fail_after(&self, operations: u64) {
        let mut state = self.state();
        state.fault = Some((state.operations + operations, Fault::Once));
    }

    /// Loses power after the given number of further operations.
    pub(crate) fn lose_power_after(&self, operations: u64, seed: u64) {
        let mut state = self.state();
        state.fault = Some((state.operations + operations, Fault::Power { seed }));
    }

    /// Removes the fault.
    pub(crate) fn heal(&self) {
        self.state().fault = None;
    }

    pub(crate) fn content(&self) -> Vec<u8> {
        self.state().current.clone()
    }

    /// Returns the number of written bytes.
    pub(crate) fn written(&self) -> usize {
        self.state().written
    }

    /// Whether a power loss would lose a change.
    pub(crate) fn has_unsynced_changes(&self) -> bool {
        !self.state().pending.is_empty()
    }

    /// Returns the number of operations.
    pub(crate) fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Whether the failing operation has been reached.
    pub(crate) fn has_failed(&self) -> bool {
        let state = self.state();
        state.fault.is_some_and(|(at, _)| state.operations > at)
    }

    /// Returns the disk after a restart.
    pub(crate) fn restarted(&self) -> Disk {
        let state = self.state();
        match state.fault {
            Some((_, Fault::Power { seed })) => Disk::new(state.after_power_loss(seed)),
            _ => Disk(Arc::new(Mutex::new(State {
                current: state.current.clone(),
                synced: state.current.clone(),
                capacity: state.capacity,
                blocks: state.blocks.clone(),
                ..State::default()
            }))),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl State {
    fn begin(&mut self) -> io::Result<()> {
        let number = self.operations;
        self.operations += 1;
        let fails = match self.fault {
            None => false,
            Some((at, Fault::Once)) => number == at,
            Some((at, Fault::Forever | Fault::Power { .. })) => number >= at,
        };
        if fails || self.is_out {
            return Err(io::Error::other("the disk failed"));
        }
        Ok(())
    }

    /// Allocates the blocks of a range, as far as the capacity allows. Returns the end of the allocated range.
    fn take_blocks(&mut self, start: usize, end: usize) -> usize {
        let Some(capacity) = self.capacity else {
            return end;
        };
        for block in start / BLOCK..end.div_ceil(BLOCK) {
            if !self.blocks.contains(&block) && self.blocks.len() >= capacity {
                return (block * BLOCK).max(start);
            }
            self.blocks.insert(block);
        }
        end
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.current, &change);
        self.pending.push(change);
    }

    /// Returns the content after a power loss. The seed decides which unsynced writes and sectors survive.
    fn after_power_loss(&self, seed: u64) -> Vec<u8> {
        let mut content = self.synced.clone();
        let mut chance = Chance(seed);
        for change in &self.pending {
            match change {
                Change::Length(_) => apply(&mut content, change),
                Change::Write(offset, bytes) => {
                    let action = chance.next(4);
                    let end = offset + bytes.len();
                    if content.len() < end {
                        content.resize(end, 0);
                    }
                    for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                        let is_kept = match action {
                            0 => true,
                            1 => false,
                            _ => chance.next(2) == 0,
                        };
                        if is_kept {
                            let at = offset + number * SECTOR;
                            content[at..at + sector.len()].copy_from_slice(sector);
                        }
                    }
                }
            }
        }
        content
    }
}

fn apply(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Length(length) => content.resize(*length, 0),
        Change::Write(offset, bytes) => {
            content[*offset..offset + bytes.len()].copy_from_slice(bytes);
        }
    }
}

impl redb::StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = start
            .checked_add(out.len())
            .and_then(|end| state.current.get(start..end));
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let length = usize::try_from(len).map_err(io::Error::other)?;
        let mut state = self.state();
        state.begin()?;
        state.blocks = state
            .blocks
            .iter()
            .copied()
            .take_while(|block| block * BLOCK < length)
            .collect();
        state.change(Change::Length(length));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let time = self.state().sync_time;
        if !time.is_zero() {
            std::thread::sleep(time);
        }
        let mut state = self.state();
        state.begin()?;
        state.synced = state.current.clone();
        state.pending.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let mut state = self.state();
        state.begin()?;
        let end = state.take_blocks(start, start + data.len());
        let written = data.get(..end - start).unwrap_or(data);
        state.written += written.len();
        state.change(Change::Write(start, written.to_vec()));
        if written.len() < data.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

/// A deterministic random generator (splitmix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}
