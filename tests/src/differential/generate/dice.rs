//! Random numbers from a seed.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A generator of random numbers.
pub(super) struct Dice(ChaCha8Rng);

impl Dice {
    /// Creates the generator of a world.
    pub(super) fn new(seed: u64, world: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(world);
        Self(rng)
    }

    /// Returns true with a probability in percent.
    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.0.random_range(0..100) < percent
    }

    /// Returns a number from 0, less than `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end.max(1))
    }

    /// Returns a number from `first` to `last`.
    pub(super) fn between(&mut self, first: usize, last: usize) -> usize {
        self.0.random_range(first..=last)
    }

    /// Returns a number from `first` to `last`.
    pub(super) fn number(&mut self, first: i32, last: i32) -> i32 {
        self.0.random_range(first..=last)
    }

    /// Returns a random element. The slice must not be empty.
    pub(super) fn pick<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.below(all.len())]
    }

    /// Returns a random element, or `None` for an empty slice.
    pub(super) fn choose<'t, T>(&mut self, all: &'t [T]) -> Option<&'t T> {
        all.get(self.below(all.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_world_determine_the_numbers() {
        let numbers = |seed, world| {
            let mut dice = Dice::new(seed, world);
            (0..8).map(|_| dice.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(1, 2), numbers(1, 2));
        assert_ne!(numbers(1, 2), numbers(1, 3));
        assert_ne!(numbers(1, 2), numbers(2, 2));
    }
}
