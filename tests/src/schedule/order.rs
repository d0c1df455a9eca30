//! Who is next: at random, or in every order that there is.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What happens next.
pub(super) enum Next {
    /// The operation at this position among those that wait.
    Goes(usize),
    /// The process whose operation that is dies before it.
    Dies(usize),
    /// Time passes.
    Nothing,
}

/// Picks the order of what several processes do.
pub(super) trait Order: Send {
    /// The process, of so many, that stops to wait for what it has begun.
    fn stops(&mut self, processes: usize) -> Option<usize>;

    /// What is next of the operations that wait, which are given by their processes in the order in which they came; at least one.
    fn next(&mut self, waiting: &[usize]) -> Next;
}

/// An order that a seed picks, with deaths in two of three.
pub(super) struct Random {
    random: ChaCha8Rng,
    /// One operation of so many is one before which its process dies; none if nobody dies.
    deaths: Option<u32>,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            deaths: (!seed.is_multiple_of(3)).then_some(25),
        }
    }
}

impl Order for Random {
    fn stops(&mut self, processes: usize) -> Option<usize> {
        let deaths = self.deaths?;
        let stops = self.random.random_range(0..2 * deaths) == 0;
        stops.then(|| self.random.random_range(0..processes))
    }

    fn next(&mut self, waiting: &[usize]) -> Next {
        let next = self.random.random_range(0..waiting.len());
        let deaths = self.deaths;
        match deaths.is_some_and(|deaths| self.random.random_range(0..deaths) == 0) {
            true => Next::Dies(next),
            false => Next::Goes(next),
        }
    }
}

/// The first process pauses once, before one of its operations, until the others have come to their end.
#[derive(Debug)]
pub(super) struct Late {
    /// How many of its operations come before.
    before: usize,
    /// For how long nothing has waited but what pauses.
    alone: u32,
    is_over: bool,
}

impl Late {
    /// Somebody who waits for another begins again before that.
    const PATIENCE: u32 = 1_000;

    pub(super) fn new(before: usize) -> Self {
        Self {
            before,
            alone: 0,
            is_over: false,
        }
    }

    /// Whether there was such an operation.
    pub(super) fn has_paused(&self) -> bool {
        self.is_over
    }
}

impl Order for Late {
    fn stops(&mut self, _: usize) -> Option<usize> {
        None
    }

    fn next(&mut self, waiting: &[usize]) -> Next {
        let (mut all, mut others) = (waiting.iter(), waiting.iter());
        let first = all.position(|process| *process == 0);
        let other = others.position(|process| *process != 0);
        match (first, other) {
            (Some(first), _) if self.before > 0 => {
                self.before -= 1;
                Next::Goes(first)
            }
            (_, Some(other)) => {
                self.alone = 0;
                Next::Goes(other)
            }
            (Some(first), None) if self.is_over => Next::Goes(first),
            _ => {
                self.alone += 1;
                self.is_over = self.alone > Self::PATIENCE;
                Next::Nothing
            }
        }
    }
}

/// Every order in which a process is interrupted so many times at most, one after the other.
///
/// Whoever has nothing to do is not interrupted: what is next then is always open.
#[derive(Debug, Default)]
pub(super) struct Walk {
    switches: usize,
    /// The choices of the order that is walked now: which one, of how many.
    path: Vec<(usize, usize)>,
    position: usize,
    last: Option<usize>,
    left: usize,
}

impl Walk {
    pub(super) fn new(switches: usize) -> Self {
        Self {
            switches,
            left: switches,
            ..Self::default()
        }
    }

    /// Goes on to the next order; false if that was the last.
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

impl Order for Walk {
    fn stops(&mut self, _: usize) -> Option<usize> {
        None
    }

    fn next(&mut self, waiting: &[usize]) -> Next {
        let own = |(_, process): &(usize, &usize)| Some(**process) == self.last;
        let (mut open, others): (Vec<_>, Vec<_>) = waiting.iter().enumerate().partition(own);
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
        Next::Goes(next)
    }
}
