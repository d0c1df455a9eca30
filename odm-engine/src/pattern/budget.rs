//! How much memory the patterns of one filter or update may take together.

use std::cell::Cell;

use regex::RegexBuilder;

/// What one compiled pattern may take, in steps: the first that it fits into is what it is taken to need.
const SIZES: [usize; 4] = [8 << 10, 64 << 10, 1 << 20, 10 << 20];

/// What all patterns together may take.
const TOTAL: usize = 128 << 20;

/// How many patterns may keep large tables while they search.
const MANY: usize = 32;

/// The tables of the others.
const SMALL_TABLES: usize = 64 << 10;

thread_local! {
    static SPENT: Cell<Spent> = const { Cell::new(Spent { scopes: 0, patterns: 0, bytes: 0 }) };
}

#[derive(Clone, Copy)]
struct Spent {
    scopes: usize,
    patterns: usize,
    bytes: usize,
}

/// All patterns that are compiled on this thread while a scope lives share one budget, that of the
/// outermost one.
pub(crate) struct Scope(());

impl Scope {
    pub(crate) fn enter() -> Scope {
        let mut spent = SPENT.get();
        if spent.scopes == 0 {
            (spent.patterns, spent.bytes) = (0, 0);
        }
        spent.scopes += 1;
        SPENT.set(spent);
        Scope(())
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let mut spent = SPENT.get();
        spent.scopes = spent.scopes.saturating_sub(1);
        SPENT.set(spent);
    }
}

/// Compiles a pattern within the budget.
pub(super) fn compile(builder: &mut RegexBuilder) -> Result<regex::Regex, String> {
    let mut spent = SPENT.get();
    if spent.patterns >= MANY {
        builder.dfa_size_limit(SMALL_TABLES);
    }
    for size in SIZES {
        if spent.bytes + size > TOTAL {
            return Err(format!(
                "together with the other patterns it takes more than {TOTAL} bytes"
            ));
        }
        match builder.size_limit(size).build() {
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(error) => return Err(error.to_string()),
            Ok(compiled) => {
                spent.patterns += 1;
                spent.bytes += size;
                SPENT.set(spent);
                return Ok(compiled);
            }
        }
    }
    Err("it takes too much memory; use smaller repetitions".to_owned())
}
