//! Work on many documents, on several cores.

use std::{
    num::NonZero,
    panic,
    sync::{Mutex, OnceLock, PoisonError},
    thread,
};

use crate::Result;

/// The number of items of a thread that is worth its start.
const MIN_ITEMS: usize = 250;

/// The maximum number of threads. Other operations of the program need the other cores.
const MAX_THREADS: usize = 4;

/// Applies a function to items, and returns the results in the order of the items. Many items are shared by several threads.
///
/// # Errors
///
/// The first error in the order of the items.
pub(crate) fn map<I, R>(items: I, work: impl Fn(I::Item) -> Result<R> + Sync) -> Result<Vec<R>>
where
    I: ExactSizeIterator<Item: Send>,
    R: Send,
{
    let threads = match items.len() < 2 * MIN_ITEMS {
        true => 1,
        false => cores(),
    };
    map_on(threads.min(MAX_THREADS), items, work)
}

/// Returns the number of cores of this process.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

/// As [`map`], on up to `threads` threads.
fn map_on<I, R>(
    threads: usize,
    mut items: I,
    work: impl Fn(I::Item) -> Result<R> + Sync,
) -> Result<Vec<R>>
where
    I: ExactSizeIterator<Item: Send>,
    R: Send,
{
    let threads = threads.min(items.len() / MIN_ITEMS);
    if threads < 2 {
        return items.map(work).collect();
    }
    let per_thread = items.len().div_ceil(threads);
    let mut parts = Vec::with_capacity(threads);
    while items.len() > 0 {
        let part: Vec<_> = items.by_ref().take(per_thread).collect();
        parts.push(Mutex::new(Some(part)));
    }
    let run = |part: &Mutex<Option<Vec<I::Item>>>| {
        let part = part.lock().unwrap_or_else(PoisonError::into_inner).take();
        let results = part.into_iter().flatten().map(&work);
        results.collect::<Result<Vec<R>>>()
    };
    let run = &run;
    thread::scope(|scope| {
        let started = parts.iter().skip(1).map(|part| {
            let thread = thread::Builder::new().name("odm parallel".to_owned());
            (part, thread.spawn_scoped(scope, move || run(part)))
        });
        let started: Vec<_> = started.collect();
        let mut results = parts.first().map_or_else(|| Ok(Vec::new()), run)?;
        for (part, thread) in started {
            results.extend(match thread {
                Ok(thread) => thread
                    .join()
                    .unwrap_or_else(|panic| panic::resume_unwind(panic))?,
                // The system has no more threads.
                Err(_) => run(part)?,
            });
        }
        Ok(results)
    })
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, sync::Mutex};

    use super::*;
    use crate::{Error, ErrorKind};

    #[test]
    fn results_have_the_order_of_the_items() {
        for (len, expected_threads) in [(0, 1), (1, 1), (2 * MIN_ITEMS - 1, 1), (1_003, 3)] {
            let threads = Mutex::new(HashSet::new());
            let results = map_on(3, 0..len, |item| {
                threads.lock().unwrap().insert(thread::current().id());
                Ok(2 * item)
            });
            assert!(
                results
                    .unwrap()
                    .into_iter()
                    .eq((0..len).map(|item| 2 * item))
            );
            let threads = threads.into_inner().unwrap().len();
            assert_eq!(threads, expected_threads.min(len), "{len}");
        }
    }

    #[test]
    fn the_first_error_is_returned() {
        let results = map_on(3, 0..1_000, |item| match item {
            700 | 900 => Err(Error::new(ErrorKind::Invalid, item.to_string())),
            item => Ok(item),
        });
        assert!(results.unwrap_err().to_string().contains("700"));
    }

    #[test]
    #[should_panic(expected = "item 999")]
    fn a_panic_reaches_the_caller() {
        let _ = map_on(2, 0..1_000, |item| {
            assert!(item < 999, "item {item}");
            Ok(item)
        });
    }
}
