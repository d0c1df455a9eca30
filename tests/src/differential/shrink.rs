//! Makes a difference small: takes away what it does not need.

use std::time::{Duration, Instant};

use bson::{Bson, Document};

use super::pair::{Asked, Difference, Pair};
use super::step::Step;

/// A small case that still shows a difference.
pub(super) struct Small {
    /// The operations, each with MongoDB's answer, the last of which differs.
    pub(super) steps: Vec<(Step, Option<Document>)>,
    pub(super) difference: Difference,
}

impl Small {
    /// What tells it from others, roughly: the operation, its operators and the codes.
    pub(super) fn kind(&self) -> String {
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

/// Takes away operations, documents, fields, array elements and branches while the difference persists, for as long as
/// `patience` lasts.
///
/// # Errors
///
/// As [`Pair::ask`].
pub(super) fn shrink(
    history: &[Step],
    difference: Difference,
    patience: Duration,
    pair: &mut Pair,
) -> Result<Small, String> {
    let mut shrinking = Shrinking {
        signature: difference.signature(),
        steps: history.to_vec(),
        difference,
        deadline: Instant::now() + patience,
        pair,
    };
    shrinking.begin_at_state()?;
    shrinking.steps()?;
    while shrinking.values()? && !shrinking.is_late() {
        shrinking.steps()?;
    }
    shrinking.finish()
}

struct Shrinking<'p> {
    steps: Vec<Step>,
    difference: Difference,
    signature: (bool, Option<i64>, Option<i64>),
    deadline: Instant,
    pair: &'p mut Pair,
}

impl Shrinking<'_> {
    /// Puts the state before the last operation in the place of what led to it.
    fn begin_at_state(&mut self) -> Result<(), String> {
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
        let mut steps = state.steps();
        steps.push(last);
        self.accept(steps)?;
        Ok(())
    }

    /// Leaves operations out, many at once first.
    fn steps(&mut self) -> Result<(), String> {
        let mut size = self.steps.len() / 2;
        while size > 0 && !self.is_late() {
            let mut at = 0;
            // The last one is the one that differs.
            while at + size < self.steps.len() && !self.is_late() {
                let mut fewer = self.steps.clone();
                fewer.drain(at..at + size);
                if !self.accept(fewer)? {
                    at += size;
                }
            }
            size /= 2;
        }
        Ok(())
    }

    /// Makes arguments smaller; returns whether any was.
    fn values(&mut self) -> Result<bool, String> {
        let mut any = false;
        let mut at = self.steps.len();
        while at > 0 {
            at -= 1;
            let mut skip = 0;
            while !self.is_late() {
                let Some(step) = self.steps.get(at) else {
                    break;
                };
                // The smaller ones come largest cut first.
                let mut smaller = smaller_documents(&step.args).into_iter().skip(skip);
                let Some(args) = smaller.next() else {
                    break;
                };
                let mut steps = self.steps.clone();
                if let Some(step) = steps.get_mut(at) {
                    step.args = args;
                }
                if self.accept(steps)? {
                    any = true;
                } else {
                    skip += 1;
                }
            }
        }
        Ok(any)
    }

    /// Takes `steps` if they show the difference too.
    fn accept(&mut self, steps: Vec<Step>) -> Result<bool, String> {
        self.pair.reset()?;
        for (at, step) in steps.iter().enumerate() {
            match self.pair.ask(step) {
                Ok(Asked::Same | Asked::Open) => {}
                Ok(Asked::Different(difference)) => {
                    if difference.signature() != self.signature {
                        return Ok(false);
                    }
                    self.steps = steps.get(..=at).unwrap_or_default().to_vec();
                    self.difference = difference;
                    return Ok(true);
                }
                // What cannot be asked shows nothing.
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    fn is_late(&self) -> bool {
        Instant::now() > self.deadline
    }

    /// Asks once more, for the answers on the way.
    fn finish(self) -> Result<Small, String> {
        self.pair.reset()?;
        let mut steps = Vec::new();
        for step in self.steps {
            let answer = self.pair.ask_mongodb(&step);
            steps.push((step, answer));
        }
        self.pair.reset()?;
        Ok(Small {
            steps,
            difference: self.difference,
        })
    }
}

/// Documents that are this one with a piece less.
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
    fn every_piece_is_taken_away_once() {
        let smaller = smaller_documents(&doc! { "a": [1, { "b": 2 }], "c": 3 });
        assert!(smaller.contains(&doc! { "a": [1, { "b": 2 }] }));
        assert!(smaller.contains(&doc! { "a": [1, {}], "c": 3 }));
        assert!(smaller.contains(&doc! { "a": [1], "c": 3 }));
        assert_eq!(smaller_values(&bson!(1)), []);
    }
}
