//! Minimizes a difference: removes every part that the difference does not need.

use std::time::{Duration, Instant};

use bson::{Bson, Document};

use super::pair::{AskOutcome, Difference, Pair};
use super::step::Step;

/// A minimized case that still shows a difference.
pub(super) struct MinimizedCase {
    /// The operations with the answers of MongoDB. The answers to the last operation differ.
    pub(super) steps: Vec<(Step, Option<Document>)>,
    pub(super) difference: Difference,
}

impl MinimizedCase {
    /// Returns a rough key for similar cases: the operation, the operators and the error codes.
    pub(super) fn similarity_key(&self) -> String {
        let last = self.steps.last().map(|(step, _)| step);
        let mut operators = Vec::new();
        if let Some(step) = last {
            collect_operators(&step.args, &mut operators);
        }
        operators.sort_unstable();
        operators.dedup();
        let name = last.map(|step| step.name.as_str());
        format!("{name:?} {operators:?} {:?}", self.difference.signature())
    }
}

/// Removes operations, documents, fields, array elements and branches while the difference persists, until the time limit
/// `patience`.
///
/// # Errors
///
/// Returns the errors of [`Pair::ask`].
pub(super) fn shrink(
    history: &[Step],
    difference: Difference,
    patience: Duration,
    pair: &mut Pair,
) -> Result<MinimizedCase, String> {
    let mut shrinking = Minimizer {
        signature: difference.signature(),
        steps: history.to_vec(),
        difference,
        deadline: Instant::now() + patience,
        pair,
    };
    shrinking.try_state_as_history()?;
    shrinking.steps()?;
    while shrinking.shrink_arguments()? && !shrinking.is_out_of_time() {
        shrinking.steps()?;
    }
    shrinking.finish()
}

struct Minimizer<'p> {
    steps: Vec<Step>,
    difference: Difference,
    signature: (bool, Option<i64>, Option<i64>),
    deadline: Instant,
    pair: &'p mut Pair,
}

impl Minimizer<'_> {
    /// Replaces the history by the steps that build the state before the last operation.
    fn try_state_as_history(&mut self) -> Result<(), String> {
        let Some((last, before)) = self.steps.split_last() else {
            return Ok(());
        };
        let last = last.clone();
        if last.session.is_some() {
            return Ok(());
        }
        self.pair.reset()?;
        for step in before {
            self.pair.ask(step)?;
        }
        let state = self.pair.state().clone();
        let mut remove_steps = state.steps();
        remove_steps.push(last);
        self.try_steps(remove_steps)?;
        Ok(())
    }

    /// Removes operations, in large groups first.
    fn steps(&mut self) -> Result<(), String> {
        let mut size = self.steps.len() / 2;
        while size > 0 && !self.is_out_of_time() {
            let mut at = 0;
            // The last operation shows the difference, so that operation stays.
            while at + size < self.steps.len() && !self.is_out_of_time() {
                let mut fewer = self.steps.clone();
                fewer.drain(at..at + size);
                if !self.try_steps(fewer)? {
                    at += size;
                }
            }
            size /= 2;
        }
        Ok(())
    }

    /// Minimizes arguments. Returns whether an argument changed.
    fn shrink_arguments(&mut self) -> Result<bool, String> {
        let mut any = false;
        let mut at = self.steps.len();
        while at > 0 {
            at -= 1;
            let mut skip = 0;
            while !self.is_out_of_time() {
                let Some(step) = self.steps.get(at) else {
                    break;
                };
                // The smaller arguments are ordered by the size of the removed part, largest first.
                let mut smaller = smaller_documents(&step.args).into_iter().skip(skip);
                let Some(args) = smaller.next() else {
                    break;
                };
                let mut steps = self.steps.clone();
                if let Some(step) = steps.get_mut(at) {
                    step.args = args;
                }
                if self.try_steps(steps)? {
                    any = true;
                } else {
                    skip += 1;
                }
            }
        }
        Ok(any)
    }

    /// Accepts `steps` if the steps show the same difference.
    fn try_steps(&mut self, steps: Vec<Step>) -> Result<bool, String> {
        self.pair.reset()?;
        for (at, step) in steps.iter().enumerate() {
            match self.pair.ask(step) {
                Ok(AskOutcome::Same | AskOutcome::Open) => {}
                Ok(AskOutcome::Different(difference)) => {
                    if difference.signature() != self.signature {
                        return Ok(false);
                    }
                    self.steps = steps.get(..=at).unwrap_or_default().to_vec();
                    self.difference = difference;
                    return Ok(true);
                }
                // Steps that cannot run show no difference.
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    fn is_out_of_time(&self) -> bool {
        Instant::now() > self.deadline
    }

    /// Runs the steps again to collect the answers of MongoDB.
    fn finish(self) -> Result<MinimizedCase, String> {
        self.pair.reset()?;
        let mut steps = Vec::new();
        for step in self.steps {
            let answer = self.pair.ask_mongodb(&step);
            steps.push((step, answer));
        }
        self.pair.reset()?;
        Ok(MinimizedCase {
            steps,
            difference: self.difference,
        })
    }
}

/// Returns the documents that are smaller by a single piece.
fn smaller_documents(document: &Document) -> Vec<Document> {
    let mut smaller = Vec::new();
    for name in document.keys() {
        let mut without = document.clone();
        without.remove(name);
        smaller.push(without);
    }
    for (name, value) in document {
        for value in smaller_values(value) {
            let mut with = document.clone();
            with.insert(name, value);
            smaller.push(with);
        }
    }
    smaller
}

fn smaller_values(value: &Bson) -> Vec<Bson> {
    match value {
        Bson::Document(document) => smaller_documents(document)
            .into_iter()
            .map(Bson::Document)
            .collect(),
        Bson::Array(values) => {
            let mut smaller = Vec::new();
            let half = values.len() / 2;
            if half > 1 {
                smaller.extend(values.chunks(half).map(|part| Bson::Array(part.to_vec())));
            }
            for at in 0..values.len() {
                let mut without = values.clone();
                without.remove(at);
                smaller.push(Bson::Array(without));
            }
            for (at, value) in values.iter().enumerate() {
                for value in smaller_values(value) {
                    let mut with = values.clone();
                    if let Some(place) = with.get_mut(at) {
                        *place = value;
                    }
                    smaller.push(Bson::Array(with));
                }
            }
            smaller
        }
        Bson::String(text) if text.len() > 1 => vec![Bson::String("a".to_owned())],
        _ => Vec::new(),
    }
}

fn collect_operators<'d>(document: &'d Document, found: &mut Vec<&'d str>) {
    for (name, value) in document {
        if name.starts_with('$') {
            found.push(name);
        }
        match value {
            Bson::Document(inner) => collect_operators(inner, found),
            Bson::Array(values) => values
                .iter()
                .filter_map(Bson::as_document)
                .for_each(|inner| collect_operators(inner, found)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{bson, doc};

    use super::*;

    #[test]
    fn every_part_is_removed_once() {
        let smaller = smaller_documents(&doc! { "a": [1, { "b": 2 }], "c": 3 });
        assert!(smaller.contains(&doc! { "a": [1, { "b": 2 }] }));
        assert!(smaller.contains(&doc! { "a": [1, {}], "c": 3 }));
        assert!(smaller.contains(&doc! { "a": [1], "c": 3 }));
        assert_eq!(smaller_values(&bson!(1)), []);
    }
}
