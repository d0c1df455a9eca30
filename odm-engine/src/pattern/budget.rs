//! The memory budget shared by the regular expressions of one filter or update.

use std::cell::Cell;

use regex::RegexBuilder;

/// The size limits of one compiled pattern, tried in ascending order. The first sufficient limit
/// counts as the size of the pattern.
const SIZE_LIMITS_BYTES: [usize; 4] = [8 << 10, 64 << 10, 1 << 20, 10 << 20];

/// The maximum total size of the compiled patterns in bytes.
const MAX_TOTAL_BYTES: usize = 128 << 20;

/// The number of patterns that may use large lazy DFA caches.
const MAX_LARGE_CACHES: usize = 32;

/// The cache size in bytes for patterns beyond that number.
const SMALL_CACHE_BYTES: usize = 64 << 10;

thread_local! {
    static SPENT_BUDGET: Cell<SpentBudget> = const { Cell::new(SpentBudget { scopes: 0, patterns: 0, bytes: 0 }) };
}

#[derive(Clone, Copy)]
struct SpentBudget {
    scopes: usize,
    patterns: usize,
    bytes: usize,
}

/// A guard that gives all patterns compiled on this thread a common budget. Nested guards share the
/// outermost budget.
pub(crate) struct PatternScope(());

impl PatternScope {
    pub(crate) fn enter() -> PatternScope {
        let mut spent = SPENT_BUDGET.get();
        if spent.scopes == 0 {
            (spent.patterns, spent.bytes) = (0, 0);
        }
        spent.scopes += 1;
        SPENT_BUDGET.set(spent);
        PatternScope(())
    }
}

impl Drop for PatternScope {
    fn drop(&mut self) {
        let mut spent = SPENT_BUDGET.get();
        spent.scopes = spent.scopes.saturating_sub(1);
        SPENT_BUDGET.set(spent);
    }
}

/// Compiles a pattern within the budget.
pub(super) fn compile_within_budget(builder: &mut RegexBuilder) -> Result<regex::Regex, String> {
    let mut spent = SPENT_BUDGET.get();
    if spent.patterns >= MAX_LARGE_CACHES {
        builder.dfa_size_limit(SMALL_CACHE_BYTES);
    }
    for size in SIZE_LIMITS_BYTES {
        if spent.bytes + size > MAX_TOTAL_BYTES {
            return Err(format!(
                "the patterns of the command take more than {MAX_TOTAL_BYTES} bytes of memory together"
            ));
        }
        match builder.size_limit(size).build() {
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(error) => return Err(error.to_string()),
            Ok(compiled) => {
                spent.patterns += 1;
                spent.bytes += size;
                SPENT_BUDGET.set(spent);
                return Ok(compiled);
            }
        }
    }
    Err("the pattern takes too much memory; use smaller repetitions".to_owned())
}
