//! The report of a run: the differences and the totals.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use bson::{Bson, doc};

use super::shrink::MinimizedCase;
use super::step::COLLECTIONS;

/// The totals of a run.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) operations: u64,
    pub(super) differences: usize,
    /// The number of operations that failed, and the number of operations without effect or result.
    pub(super) errors: u64,
    pub(super) empty_results: u64,
    /// The number of operations that were skipped, because MongoDB does not define the result.
    pub(super) undetermined: u64,
    /// The number of queries that failed differently, where MongoDB does not define how the query fails.
    pub(super) differing_failures: u64,
    not_offered: BTreeMap<String, u64>,
}

impl Report {
    pub(super) fn not_offered(&mut self, reason: String) {
        *self.not_offered.entry(reason).or_default() += 1;
    }

    /// Returns the reasons why operations were not offered, with counts.
    pub(super) fn not_offered_reasons(&self) -> String {
        let line = |(reason, count)| format!("{count:8} {reason}\n");
        self.not_offered.iter().map(line).collect()
    }

    pub(super) fn summary(&self, seed: u64, took: Duration) -> String {
        let Self {
            operations,
            differences,
            errors,
            empty_results: nothing,
            undetermined,
            differing_failures: open,
            not_offered,
        } = self;
        let not_offered: u64 = not_offered.values().sum();
        let seconds = took.as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "it is for people")]
        let rate = *operations as f64 / seconds;
        format!(
            "answers: {errors} errors, {nothing} that say nothing, {open} that failed otherwise and may\n\
             not asked: {not_offered} not offered, {undetermined} not determined; {seconds:.0} s, {rate:.0} operations/s\n\
             {operations} operations, {differences} differences (seed {seed})"
        )
    }
}

/// Returns a difference as text, with a case that reproduces the difference. The corpus runner accepts the case as a file.
pub(super) fn difference_text(seed: u64, world: u64, small: &MinimizedCase) -> String {
    let mut text = format!("difference in world {world} of seed {seed}\n");
    for (step, _) in &small.steps {
        let session = step.session.as_ref();
        let session = session.map_or_else(String::new, |name| format!(" in {name}"));
        // Formatting a string cannot fail.
        let _ = writeln!(
            text,
            "  {}.{}{session} {}",
            step.collection,
            step.name,
            json(&step.args.clone().into())
        );
    }
    let difference = &small.difference;
    let state = match &difference.holds {
        Some(collection) => format!("; then {collection} holds"),
        None => String::new(),
    };
    let (mongodb, engine) = (
        json(&difference.mongodb.clone().into()),
        json(&difference.engine.clone().into()),
    );
    let _ = write!(
        text,
        "  MongoDB{state}  {mongodb}\n  the engine{state}  {engine}\n  "
    );
    let steps: Vec<_> = small
        .steps
        .iter()
        .map(|(step, expect)| step.to_document(expect.as_ref()))
        .collect();
    let mut case = doc! { "id": format!("{seed}-{world}"), "docs": [], "steps": steps };
    if difference.holds.as_deref() == Some(COLLECTIONS[0])
        && let Some(documents) = difference.mongodb.get("docs")
    {
        case.insert("after", documents.clone());
    }
    let _ = writeln!(text, "{}", json(&case.into()));
    text
}

fn json(value: &Bson) -> String {
    value.clone().into_canonical_extjson().to_string()
}
