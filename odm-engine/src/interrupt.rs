//! Ending operations that take too long, or whose caller has gone.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// How many steps an operation takes before it looks at its interrupts: a step is a document that is looked at, or an
/// operator that is evaluated.
const STEPS: u32 = 16;

/// Ends operations before they are done: when another thread says so, or at a deadline.
///
/// An operation looks at this between documents and within long stages and expressions. A read ends with an error of
/// kind [`Cancelled`](crate::ErrorKind::Cancelled) or [`TimedOut`](crate::ErrorKind::TimedOut); a write too, and then
/// has changed nothing. Once a write has its changes together, it is carried out.
///
/// A clone is the same interrupt.
///
/// ```
/// use std::time::Duration;
/// use bson::rawdoc;
/// use odm_engine::{Database, Find, Interrupt};
///
/// let database = Database::memory();
/// let documents = (0..1000).map(|n| rawdoc! { "_id": n }).collect();
/// database.insert("numbers", documents)?.all()?;
///
/// let limit = Interrupt::after(Duration::from_secs(10));
/// let cursor = limit.run(|| database.find("numbers", &Find::default()))?;
/// // The cursor keeps to the limit as well.
/// assert_eq!(cursor.count(), 1000);
///
/// let interrupt = Interrupt::new();
/// let mut cursor = interrupt.run(|| database.find("numbers", &Find::default()))?;
/// interrupt.cancel();
/// let error = cursor.find_map(Result::err).expect("it was cancelled");
/// assert!(error.is_cancelled());
/// # Ok::<(), odm_engine::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_cancelled: AtomicBool,
    deadline: Option<Instant>,
}

impl Interrupt {
    /// An interrupt without a deadline.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    /// An interrupt with a deadline.
    pub fn at(deadline: Instant) -> Interrupt {
        Interrupt(Arc::new(Shared {
            is_cancelled: AtomicBool::new(false),
            deadline: Some(deadline),
        }))
    }

    /// An interrupt whose deadline is so far from now.
    pub fn after(limit: Duration) -> Interrupt {
        // What ends after the end of time does not end.
        Instant::now()
            .checked_add(limit)
            .map_or_else(Interrupt::new, Interrupt::at)
    }

    /// Ends the operations. Those that begin later end at once.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Calls a function whose operations on any database end with this interrupt, as do the cursors that they return,
    /// wherever these are read. Calls can be nested: then each of the interrupts ends the operations.
    pub fn run<T>(&self, operations: impl FnOnce() -> T) -> T {
        let _entered = Entered::new(std::slice::from_ref(self));
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
    static CURRENT: RefCell<Vec<Interrupt>> = const { RefCell::new(Vec::new()) };
    static STEPS_LEFT: Cell<u32> = const { Cell::new(0) };
}

/// Takes one step of an operation.
///
/// # Errors
/// Cancelled, timed out.
#[inline]
pub(crate) fn check() -> Result<()> {
    let left = STEPS_LEFT.get();
    if left > 0 {
        STEPS_LEFT.set(left - 1);
        return Ok(());
    }
    check_all()
}

#[cold]
fn check_all() -> Result<()> {
    STEPS_LEFT.set(STEPS);
    CURRENT.with_borrow(|current| current.iter().try_for_each(Interrupt::check))
}

/// The interrupts that an operation was begun under, for what it does later.
#[derive(Clone)]
pub(crate) struct Interrupts(Vec<Interrupt>);

impl Interrupts {
    pub(crate) fn current() -> Interrupts {
        Interrupts(CURRENT.with_borrow(Vec::clone))
    }

    pub(crate) fn run<T>(&self, operation: impl FnOnce() -> T) -> T {
        if self.0.is_empty() {
            return operation();
        }
        let _entered = Entered::new(&self.0);
        operation()
    }
}

/// While this lives, some more interrupts are current.
struct Entered {
    before: usize,
}

impl Entered {
    fn new(interrupts: &[Interrupt]) -> Entered {
        // The first step looks at them.
        STEPS_LEFT.set(0);
        CURRENT.with_borrow_mut(|current| {
            let before = current.len();
            current.extend_from_slice(interrupts);
            Entered { before }
        })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| current.truncate(self.before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> Result<()> {
        (0..=STEPS).try_for_each(|_| check())
    }

    #[test]
    fn interrupts_end_with_their_call() {
        let (outer, inner) = (Interrupt::new(), Interrupt::new());
        outer.run(|| {
            steps().unwrap();
            inner.run(|| {
                outer.cancel();
                assert!(steps().unwrap_err().is_cancelled());
            });
            assert!(steps().unwrap_err().is_cancelled());
        });
        steps().unwrap();
        assert!(inner.run(steps).is_ok());
        let unwound = std::panic::catch_unwind(|| outer.run(|| panic!("in between")));
        assert!(unwound.is_err());
        steps().unwrap();
    }

    #[test]
    fn a_deadline_is_kept_to() {
        let passed = Interrupt::at(Instant::now());
        let error = passed.run(check).unwrap_err();
        assert!(error.is_timed_out());
        assert_eq!(error.code(), Some(50));
        assert!(Interrupt::after(Duration::MAX).run(steps).is_ok());
    }
}
