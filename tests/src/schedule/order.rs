//! The order of the operations in a schedule: random, or every possible order.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The next event of a schedule.
pub(super) enum NextEvent {
    /// The waiting operation at this position runs.
    Runs(usize),
    /// The process of the waiting operation at this position dies before the operation.
    Dies(usize),
    /// No operation runs, and time passes.
    Nothing,
}

/// Picks the order of the operations of several processes.
pub(super) trait ScheduleOrder: Send {
    /// Returns the process, if any, to cancel before the next event. `processes` is the number of processes.
    fn next_cancelled(&mut self, processes: usize) -> Option<usize>;

    /// Picks the next event. `waiting` has the process of each waiting operation in the order of arrival, and is not empty.
    fn next(&mut self, waiting: &[usize]) -> NextEvent;
}

/// A random order. Two of three seeds have deaths.
pub(super) struct RandomOrder {
    random: ChaCha8Rng,
    /// A process dies before one operation in this number. `None` disables deaths.
    deaths: Option<u32>,
}

impl RandomOrder {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            deaths: (!seed.is_multiple_of(3)).then_some(25),
        }
    }
}

impl ScheduleOrder for RandomOrder {
    fn next_cancelled(&mut self, processes: usize) -> Option<usize> {
        let deaths = self.deaths?;
        let stops = self.random.random_range(0..2 * deaths) == 0;
        stops.then(|| self.random.random_range(0..processes))
    }

    fn next(&mut self, waiting: &[usize]) -> NextEvent {
        let next = self.random.random_range(0..waiting.len());
        let deaths = self.deaths;
        match deaths.is_some_and(|deaths| self.random.random_range(0..deaths) == 0) {
            true => NextEvent::Dies(next),
            false => NextEvent::Runs(next),
        }
    }
}

/// An order where the first process pauses before an operation until all other processes have ended.
#[derive(Debug)]
pub(super) struct PausedFirst {
    /// The number of remaining operations of the first process before the pause.
    before: usize,
    /// The number of steps while only the paused operation waited.
    idle_steps: u32,
    is_over: bool,
}

impl PausedFirst {
    /// The maximum length of the pause, in steps. A process that waits for another process retries within this limit.
    const MAX_PAUSE_STEPS: u32 = 1_000;

    pub(super) fn new(before: usize) -> Self {
        Self {
            before,
            idle_steps: 0,
            is_over: false,
        }
    }

    /// Returns whether the first process has paused.
    pub(super) fn has_paused(&self) -> bool {
        self.is_over
    }
}

impl ScheduleOrder for PausedFirst {
    fn next_cancelled(&mut self, _: usize) -> Option<usize> {
        None
    }

    fn next(&mut self, waiting: &[usize]) -> NextEvent {
        let (mut all, mut others) = (waiting.iter(), waiting.iter());
        let first = all.position(|process| *process == 0);
        let other = others.position(|process| *process != 0);
        match (first, other) {
            (Some(first), _) if self.before > 0 => {
                self.before -= 1;
                NextEvent::Runs(first)
            }
            (_, Some(other)) => {
                self.idle_steps = 0;
                NextEvent::Runs(other)
            }
            (Some(first), None) if self.is_over => NextEvent::Runs(first),
            _ => {
                self.idle_steps += 1;
                self.is_over = self.idle_steps > Self::MAX_PAUSE_STEPS;
                NextEvent::Nothing
            }
        }
    }
}

/// Visits every order with at most `switches` interruptions of a process.
///
/// Leaving a process without a waiting operation is no interruption: any process may run next.
#[derive(Debug, Default)]
pub(super) struct AllOrders {
    switches: usize,
    /// The choices in the current order: the chosen position and the number of positions.
    path: Vec<(usize, usize)>,
    position: usize,
    last: Option<usize>,
    left: usize,
}

impl AllOrders {
    pub(super) fn new(switches: usize) -> Self {
        Self {
            switches,
            left: switches,
            ..Self::default()
        }
    }

    /// Moves to the next order. Returns false after the last order.
    pub(super) fn advance(&mut self) -> bool {
        self.path.truncate(self.position);
        (self.position, self.last, self.left) = (0, None, self.switches);
        while let Some((choice, of)) = self.path.pop() {
            if choice + 1 < of {
                self.path.push((choice + 1, of));
                return true;
            }
        }
        false
    }
}

impl ScheduleOrder for AllOrders {
    fn next_cancelled(&mut self, _: usize) -> Option<usize> {
        None
    }

    fn next(&mut self, waiting: &[usize]) -> NextEvent {
        let is_last_process = |(_, process): &(usize, &usize)| Some(**process) == self.last;
        let (mut open, others): (Vec<_>, Vec<_>) =
            waiting.iter().enumerate().partition(is_last_process);
        let is_interrupted = !open.is_empty();
        let going_on = open.len();
        if !is_interrupted || self.left > 0 {
            open.extend(others);
        }
        if self.position == self.path.len() {
            self.path.push((0, open.len()));
        }
        let (choice, _) = self.path.get(self.position).copied().unwrap_or((0, 1));
        self.position += 1;
        let choice = choice.min(open.len().saturating_sub(1));
        if is_interrupted && choice >= going_on {
            self.left -= 1;
        }
        let (next, process) = open.get(choice).copied().unwrap_or((0, &0));
        self.last = Some(*process);
        NextEvent::Runs(next)
    }
}
