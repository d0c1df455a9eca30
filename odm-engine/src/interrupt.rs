//! Interrupts: cancellation and deadlines of operations.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::brief;
use crate::error::{Error, Result};

/// How many steps an operation takes between two checks of its interrupts. A step is one examined document or one evaluated
/// operator.
const STEPS_PER_CHECK: u32 = 16;

/// Ends operations early: on request of another thread, or at a deadline.
///
/// An operation checks its interrupts between documents and within long stages and expressions. An interrupted operation fails
/// with an error of kind [`Cancelled`](crate::ErrorKind::Cancelled) or [`TimedOut`](crate::ErrorKind::TimedOut). An interrupted
/// write changes no data. A write that has computed all its changes is no longer interrupted.
///
/// Clones share the interrupt.
///
/// ```
/// use std::time::Duration;
/// use bson::rawdoc;
/// use odm_engine::{Database, Find, Interrupt};
///
/// let database = Database::memory();
/// let documents = (0..1000).map(|n| rawdoc! { "_id": n }).collect();
/// database.insert("numbers", documents)?.into_result()?;
///
/// let limit = Interrupt::after(Duration::from_secs(10));
/// let cursor = limit.run(|| database.find("numbers", &Find::default()))?;
/// // The cursor has the same deadline.
/// assert_eq!(cursor.count(), 1000);
///
/// let interrupt = Interrupt::new();
/// let mut cursor = interrupt.run(|| database.find("numbers", &Find::default()))?;
/// interrupt.cancel();
/// let error = cursor.find_map(Result::err).expect("the cursor was cancelled");
/// assert!(error.is_cancelled());
/// # Ok::<(), odm_engine::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<InterruptShared>);

#[derive(Debug, Default)]
struct InterruptShared {
    is_cancelled: AtomicBool,
    deadline: Option<Instant>,
}

impl Interrupt {
    /// Returns an interrupt without a deadline.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    /// Returns an interrupt with a deadline.
    pub fn at(deadline: Instant) -> Interrupt {
        Interrupt(Arc::new(InterruptShared {
            is_cancelled: AtomicBool::new(false),
            deadline: Some(deadline),
        }))
    }

    /// Returns an interrupt whose deadline is `limit` from now.
    pub fn after(limit: Duration) -> Interrupt {
        // No deadline if the sum exceeds the range of `Instant`.
        Instant::now()
            .checked_add(limit)
            .map_or_else(Interrupt::new, Interrupt::at)
    }

    /// Ends all operations of this interrupt. Later operations end at once.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Calls `operations`. This interrupt then ends all database operations of the call, and also the cursors that they return,
    /// even if a cursor is read later.
    ///
    /// Calls can be nested. Each of the nested interrupts then ends the operations.
    pub fn run<T>(&self, operations: impl FnOnce() -> T) -> T {
        let _scope = InterruptScope::new(std::slice::from_ref(self));
        operations()
    }

    fn check(&self) -> Result<()> {
        if self.0.is_cancelled.load(Ordering::Relaxed) {
            return Err(Error::cancelled());
        }
        match self.0.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(Error::timed_out()),
            _ => Ok(()),
        }
    }
}

thread_local! {
    static ACTIVE_INTERRUPTS: RefCell<Vec<Interrupt>> = const { RefCell::new(Vec::new()) };
    static STEPS_LEFT: Cell<u32> = const { Cell::new(0) };
}

/// Counts one step of the current operation, and regularly checks the interrupts.
///
/// # Errors
/// Cancelled, timed out, would block.
#[inline]
pub(crate) fn check() -> Result<()> {
    let remaining = STEPS_LEFT.get();
    if remaining > 0 {
        STEPS_LEFT.set(remaining - 1);
        return Ok(());
    }
    check_all()
}

/// Checks the interrupts of the current operation at once.
///
/// # Errors
/// Cancelled, timed out, would block.
pub(crate) fn check_now() -> Result<()> {
    check_all()
}

#[cold]
fn check_all() -> Result<()> {
    STEPS_LEFT.set(STEPS_PER_CHECK);
    brief::check_deadline()?;
    ACTIVE_INTERRUPTS.with_borrow(|current| current.iter().try_for_each(Interrupt::check))
}

/// The interrupts of an operation, kept for its later steps.
#[derive(Clone)]
pub(crate) struct InterruptSet(Vec<Interrupt>);

impl InterruptSet {
    pub(crate) fn current() -> InterruptSet {
        InterruptSet(ACTIVE_INTERRUPTS.with_borrow(Vec::clone))
    }

    pub(crate) fn run<T>(&self, operation: impl FnOnce() -> T) -> T {
        if self.0.is_empty() {
            return operation();
        }
        let _scope = InterruptScope::new(&self.0);
        operation()
    }
}

/// A guard that keeps additional interrupts active on the current thread.
struct InterruptScope {
    before: usize,
}

impl InterruptScope {
    fn new(interrupts: &[Interrupt]) -> InterruptScope {
        // The first step checks the new interrupts.
        STEPS_LEFT.set(0);
        ACTIVE_INTERRUPTS.with_borrow_mut(|current| {
            let before = current.len();
            current.extend_from_slice(interrupts);
            InterruptScope { before }
        })
    }
}

impl Drop for InterruptScope {
    fn drop(&mut self) {
        ACTIVE_INTERRUPTS.with_borrow_mut(|current| current.truncate(self.before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_steps() -> Result<()> {
        (0..=STEPS_PER_CHECK).try_for_each(|_| check())
    }

    #[test]
    fn interrupts_apply_only_during_their_call() {
        let (outer, inner) = (Interrupt::new(), Interrupt::new());
        outer.run(|| {
            take_steps().unwrap();
            inner.run(|| {
                outer.cancel();
                assert!(take_steps().unwrap_err().is_cancelled());
            });
            assert!(take_steps().unwrap_err().is_cancelled());
        });
        take_steps().unwrap();
        assert!(inner.run(take_steps).is_ok());
        let unwound = std::panic::catch_unwind(|| outer.run(|| panic!("in between")));
        assert!(unwound.is_err());
        take_steps().unwrap();
    }

    #[test]
    fn operations_end_at_their_deadline() {
        let passed = Interrupt::at(Instant::now());
        let error = passed.run(check).unwrap_err();
        assert!(error.is_timed_out());
        assert_eq!(error.code(), Some(50));
        assert!(Interrupt::after(Duration::MAX).run(take_steps).is_ok());
    }
}
