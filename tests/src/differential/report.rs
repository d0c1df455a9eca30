//! What a run says: the differences, and how many there were.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use bson::{Bson, doc};

use super::shrink::Small;
use super::step::COLLECTIONS;

/// What has been counted.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) operations: u64,
    pub(super) differences: usize,
    /// Operations that failed, and that did or found nothing.
    pub(super) errors: u64,
    pub(super) nothing: u64,
    /// Operations that were not asked, because MongoDB does not determine what they do.
    pub(super) undetermined: u64,
    /// Queries of which MongoDB leaves open how they fail, and that did so otherwise.
    pub(super) open: u64,
    not_offered: BTreeMap<String, u64>,
}

impl Report {
    pub(super) fn not_offered(&mut self, reason: String) {
        *self.not_offered.entry(reason).or_default() += 1;
    }

    /// What was not offered, a line for each.
    pub(super) fn reasons(&self) -> String {
        let line = |(reason, count)| format!("{count:8} {reason}\n");
        self.not_offered.iter().map(line).collect()
    }

    pub(super) fn summary(&self, seed: u64, took: Duration) -> String {
        let Self {
            operations,
            differences,
            errors,
            nothing,
            undetermined,
            open,
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

/// A difference, with a case of the corpus's format that shows it: the corpus runner can be given it as a file.
pub(super) fn print(seed: u64, world: u64, small: &Small) -> String {
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
    let held = match &difference.holds {
        Some(collection) => format!("; then {collection} holds"),
        None => String::new(),
    };
    let (mongodb, engine) = (
        json(&difference.mongodb.clone().into()),
        json(&difference.engine.clone().into()),
    );
    let _ = write!(
        text,
        "  MongoDB{held}  {mongodb}\n  the engine{held}  {engine}\n  "
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
