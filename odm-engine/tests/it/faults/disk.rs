//! A disk in memory that fails, or loses its power, at a chosen operation.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// What happens at the operation that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It reports an error and does nothing; those after it are carried out.
    Once,
    /// It reports an error, and so does every one after it.
    Forever,
    /// The power goes: of what was not synced, the disk keeps some writes and loses others.
    Power { seed: u64 },
}

/// A storage for redb. Writes, syncs and changes of the length are counted; reads never fail.
#[derive(Clone, Debug)]
pub(crate) struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// What is read back.
    current: Vec<u8>,
    /// What survives a loss of power for certain.
    synced: Vec<u8>,
    /// What has been done since, in order.
    pending: Vec<Change>,
    operations: u64,
    written: usize,
    /// The operation that fails, counted from 0.
    fault: Option<(u64, Fault)>,
    /// Whether every operation fails.
    is_out: bool,
    /// How many blocks there are, and those that the content takes: the others have never been written to.
    capacity: Option<usize>,
    blocks: BTreeSet<usize>,
}

/// What a file system gives to a file at a time.
const BLOCK: usize = 4096;

#[derive(Clone, Debug)]
enum Change {
    Length(usize),
    Write(usize, Vec<u8>),
}

/// The part of a write that a disk carries out as a whole.
const SECTOR: usize = 512;

impl Disk {
    /// A disk with this content.
    pub(crate) fn new(content: Vec<u8>) -> Disk {
        Disk(Arc::new(Mutex::new(State {
            current: content.clone(),
            synced: content,
            ..State::default()
        })))
    }

    /// An empty disk that fails at operation `at`, counted from 0.
    pub(crate) fn failing(at: u64, fault: Fault) -> Disk {
        let disk = Disk::new(Vec::new());
        disk.state().fault = Some((at, fault));
        disk
    }

    /// An empty disk with room for so many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Disk {
        let disk = Disk::new(Vec::new());
        disk.set_capacity(bytes);
        disk
    }

    /// Gives the disk another size.
    pub(crate) fn set_capacity(&self, bytes: usize) {
        self.state().capacity = Some(bytes / BLOCK);
    }

    /// Takes away all room that the content does not take.
    pub(crate) fn fill_up(&self) {
        let mut state = self.state();
        state.capacity = Some(state.blocks.len());
    }

    /// How many bytes the content takes.
    pub(crate) fn used(&self) -> usize {
        self.state().blocks.len() * BLOCK
    }

    /// Lets every operation fail, or none.
    pub(crate) fn set_out(&self, is_out: bool) {
        self.state().is_out = is_out;
    }

    /// Lets the operation behind so many from now on fail, once.
    pub(crate) fn fail_after(&self, operations: u64) {
        let mut state = self.state();
        state.fault = Some((state.operations + operations, Fault::Once));
    }

    /// Lets no operation fail.
    pub(crate) fn heal(&self) {
        self.state().fault = None;
    }

    pub(crate) fn content(&self) -> Vec<u8> {
        self.state().current.clone()
    }

    /// How many bytes were written.
    pub(crate) fn written(&self) -> usize {
        self.state().written
    }

    /// How many operations there were.
    pub(crate) fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Whether the operation that fails has been reached.
    pub(crate) fn has_failed(&self) -> bool {
        let state = self.state();
        state.fault.is_some_and(|(at, _)| state.operations > at)
    }

    /// The disk as the next process finds it.
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

    /// Takes the blocks of a range, as far as there are some left; the result is where it ends.
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

    /// Whole writes, single sectors of them, or nothing: whatever chance says.
    fn after_power_loss(&self, seed: u64) -> Vec<u8> {
        let mut content = self.synced.clone();
        let mut chance = Chance(seed);
        for change in &self.pending {
            match change {
                Change::Length(_) => apply(&mut content, change),
                Change::Write(offset, bytes) => {
                    let fate = chance.next(4);
                    let end = offset + bytes.len();
                    if content.len() < end {
                        content.resize(end, 0);
                    }
                    for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                        let is_kept = match fate {
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

/// The same numbers for the same seed (splitmix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % below
    }
}
