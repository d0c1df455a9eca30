//! A generator of overlapping transactions.
//!
//! The outcome must not depend on timing. So transactions change documents by `_id`: the second transaction to write a document
//! gets a conflict at once. A write outside the transactions would wait for a transaction that holds the document. So outside
//! writes avoid these documents, and are omitted if a unique index could make a write wait. Both transactions begin with a read,
//! because MongoDB takes the snapshot at the first operation.

use bson::{Bson, Document, doc};

use super::{StepGenerator, insert};
use crate::differential::pair::State;
use crate::differential::step::{COLLECTIONS, Step};

const SESSIONS: [&str; 2] = ["s1", "s2"];

impl StepGenerator {
    /// Returns the interleaved steps of two transactions.
    pub(super) fn transactions(&mut self, state: &State) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut open: Vec<&str> = Vec::new();
        let mut waiting = SESSIONS.to_vec();
        // The ids that the transactions have touched, in any collection.
        let mut touched: Vec<Bson> = Vec::new();
        let is_unique = |index: &Document| index.contains_key("unique");
        let has_unique = state.indexes.values().flatten().any(is_unique);
        let count = self.dice.between(4, 12);
        for at in 0..count {
            if !waiting.is_empty() && (open.is_empty() || at < 3 || self.dice.chance(20)) {
                let session = waiting.remove(0);
                steps.push(begin_step(session));
                steps.push(
                    Step::new(COLLECTIONS[0], "find", Document::new()).in_transaction(session),
                );
                open.push(session);
                continue;
            }
            let collection = *self.dice.pick(&COLLECTIONS);
            let empty = Vec::new();
            let documents = state.documents.get(collection).unwrap_or(&empty);
            if self.dice.chance(15) {
                if !has_unique && self.dice.chance(60) {
                    let id = self.stored_id(documents);
                    if !touched.contains(&id) {
                        steps.push(self.write_by_id(collection, id, documents));
                    }
                } else {
                    steps.push(self.find(collection, documents));
                }
                continue;
            }
            let Some(session) = self.dice.choose(&open).copied() else {
                continue;
            };
            let step = if self.dice.chance(35) {
                self.find(collection, documents)
            } else {
                let id = match self.dice.choose(&touched).cloned() {
                    Some(id) if self.dice.chance(40) => id,
                    _ => self.stored_id(documents),
                };
                touched.push(id.clone());
                self.write_by_id(collection, id, documents)
            };
            steps.push(step.in_transaction(session));
            if self.dice.chance(8) {
                open.retain(|other| *other != session);
                steps.push(self.end_step(session));
            }
        }
        for session in open {
            steps.push(self.end_step(session));
        }
        steps
    }

    fn end_step(&mut self, session: &str) -> Step {
        let name = if self.dice.chance(70) {
            "commitTransaction"
        } else {
            "abortTransaction"
        };
        step_in_session(name, session)
    }

    /// Returns a write that touches only the document with this `_id`.
    fn write_by_id(&mut self, collection: &str, id: Bson, documents: &[Document]) -> Step {
        let filter = doc! { "_id": id.clone() };
        match self.dice.below(10) {
            0 | 1 => Step::new(collection, "deleteOne", doc! { "filter": filter }),
            2..4 => {
                let document = self.document(id);
                insert(collection, vec![document.into()])
            }
            4 => {
                let replacement = self.fields();
                Step::new(
                    collection,
                    "replaceOne",
                    doc! { "filter": filter, "replacement": replacement },
                )
            }
            _ => {
                let mut step = self.update(collection, documents);
                step.name = "updateOne".to_owned();
                step.args.remove("upsert");
                if step.args.contains_key("replacement") {
                    step.name = "replaceOne".to_owned();
                }
                let mut pinned = filter;
                if let Some(filter) = step.document("filter") {
                    let others = filter.clone().into_iter();
                    pinned.extend(others.filter(|(name, _)| name != "_id"));
                }
                step.args.insert("filter", pinned);
                step
            }
        }
    }
}

/// Starts a transaction with the read concern `local`. A transaction reads a single state with any read concern. With `snapshot`,
/// the state would be durable, but the latest writes could be missing.
fn begin_step(session: &str) -> Step {
    let args = doc! { "readConcern": { "level": "local" } };
    Step::new(COLLECTIONS[0], "startTransaction", args).in_transaction(session)
}

fn step_in_session(name: &str, session: &str) -> Step {
    Step::new(COLLECTIONS[0], name, Document::new()).in_transaction(session)
}
