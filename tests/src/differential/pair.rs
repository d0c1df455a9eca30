//! The engine and MongoDB side by side, and the comparison of their answers.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};

use super::compare::{self, Agreement};
use super::failure;
use super::mistake;
use super::step::{COLLECTIONS, Step};
use crate::corpus::backend::{self, Backend, BackendKind};

/// The engine and a MongoDB server.
pub(super) struct Pair {
    engine: Box<dyn Backend>,
    mongodb: Box<dyn Backend>,
    state: State,
    /// The number of error answers and the number of empty answers.
    answer_counts: (u64, u64),
}

/// The contents of both sides.
#[derive(Debug, Default, Clone)]
pub(super) struct State {
    /// The documents of each collection.
    pub(super) documents: BTreeMap<String, Vec<Document>>,
    /// The index definitions of each collection, as created.
    pub(super) indexes: BTreeMap<String, Vec<Document>>,
    /// The number of open transactions.
    pub(super) transactions: usize,
}

/// The outcome of an operation on both sides.
pub(super) enum AskOutcome {
    /// Both sides gave the same answer.
    Same,
    /// The answers differ within the allowed range, and the contents are equal.
    Open,
    /// The answers are allowed, but MongoDB does not determine the contents.
    Last,
    /// The engine does not offer the operation.
    NotOffered(String),
    /// MongoDB does not determine the result. The operation was not run.
    Undetermined,
    Different(Difference),
}

/// Two different answers to an operation that should be the same.
#[derive(Debug, Clone)]
pub(super) struct Difference {
    pub(super) engine: Document,
    pub(super) mongodb: Document,
    /// The collection, if the answers are the contents after the operation.
    pub(super) holds: Option<String>,
}

impl Pair {
    /// Opens both sides. The first pair uses the server of the test process, every later pair starts a new server.
    ///
    /// # Errors
    ///
    /// No MongoDB server is available.
    pub(super) fn open(engine: BackendKind, is_first: bool) -> Result<Self, String> {
        Ok(Self {
            engine: backend::open(engine)?,
            mongodb: if is_first {
                backend::open(BackendKind::Mongodb)?
            } else {
                backend::start_mongodb()?
            },
            state: State::default(),
            answer_counts: (0, 0),
        })
    }

    /// Empties both sides.
    ///
    /// # Errors
    ///
    /// One side can no longer be used.
    pub(super) fn reset(&mut self) -> Result<(), String> {
        self.state = State::default();
        self.engine.reset()?;
        self.mongodb.reset()
    }

    /// Returns and resets the numbers of error answers and of empty answers. The numbers show whether the generated operations
    /// are useful.
    pub(super) fn take_answer_counts(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.answer_counts)
    }

    /// Returns the contents that both sides agree on.
    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// Runs an operation on both sides and compares the answers.
    ///
    /// # Errors
    ///
    /// MongoDB cannot run an operation that the engine ran.
    pub(super) fn ask(&mut self, step: &Step) -> Result<AskOutcome, String> {
        let indexes = self.state.indexes.get(&step.collection);
        let is_indexed = indexes.is_some_and(|indexes| !indexes.is_empty());
        let Some(mode) = compare::comparison_mode(step, is_indexed) else {
            return Ok(AskOutcome::Undetermined);
        };
        let engine = match self.engine.run(&step.operation()) {
            Ok(answer) => answer,
            Err(reason) => return Ok(AskOutcome::NotOffered(reason.to_string())),
        };
        let mut mongodb = match self.mongodb.run(&step.operation()) {
            Ok(answer) => answer,
            Err(reason) => return Err(format!("MongoDB cannot be asked {step:?}: {reason}")),
        };
        compare::trim_request_details(step, is_indexed, &mut mongodb);
        if compare::is_snapshot_unavailable(&mongodb) {
            return Ok(AskOutcome::Last);
        }
        let agreement = mode.compare(&mongodb, &engine);
        let is_unique = |index: &Document| index.get_bool("unique").unwrap_or_default();
        let is_unique = indexes.is_some_and(|indexes| indexes.iter().any(is_unique));
        let is_index_bug = |index: &Document| mistake::is_index_bug(step, index);
        let is_mistaken = mistake::is_pipeline_bug(step)
            || indexes.is_some_and(|indexes| indexes.iter().any(is_index_bug));
        let is_open = agreement == Agreement::Different
            && (is_mistaken
                || failure::is_unspecified(step, is_indexed, &mongodb, &engine)
                || is_unique && failure::is_key_write_conflict(step, &mongodb));
        if is_open && !step.is_write() && step.session.is_none() {
            return Ok(AskOutcome::Open);
        }
        let is_last = match agreement {
            Agreement::Same => false,
            Agreement::Different if is_open => true,
            Agreement::Unlike => true,
            Agreement::Different => {
                return Ok(AskOutcome::Different(Difference {
                    engine,
                    mongodb,
                    holds: None,
                }));
            }
        };
        let has_failed = mongodb.contains_key("error");
        self.answer_counts.0 += u64::from(has_failed);
        self.answer_counts.1 += u64::from(is_empty_answer(&mongodb));
        self.update_state(step, has_failed);
        if is_last {
            return Ok(AskOutcome::Last);
        }
        let changes_nothing =
            !step.is_write() && !step.is_definition() && !step.is_transaction_boundary()
                || step.session.is_some() && step.is_write();
        if changes_nothing {
            return Ok(AskOutcome::Same);
        }
        for collection in COLLECTIONS {
            if (step.collection == collection || step.is_transaction_boundary())
                && let Some(difference) = self.compare_contents(collection, step.is_definition())?
            {
                return Ok(AskOutcome::Different(difference));
            }
        }
        Ok(AskOutcome::Same)
    }

    /// Runs an operation on MongoDB alone. Returns `None` if MongoDB cannot run the operation.
    pub(super) fn ask_mongodb(&mut self, step: &Step) -> Option<Document> {
        let mut answer = self.mongodb.run(&step.operation()).ok()?;
        compare::trim_request_details(step, false, &mut answer);
        Some(answer)
    }

    /// Compares the contents of a collection on both sides.
    fn compare_contents(
        &mut self,
        collection: &str,
        at_indexes: bool,
    ) -> Result<Option<Difference>, String> {
        let looks = [("find", true), ("listIndexes", at_indexes)];
        for (look, _) in looks.into_iter().filter(|(_, wanted)| *wanted) {
            let step = Step::new(collection, look, Document::new());
            let failed = |reason| format!("{look} of {collection}: {reason}");
            let engine = self.engine.run(&step.operation()).map_err(failed)?;
            let mongodb = self.mongodb.run(&step.operation()).map_err(failed)?;
            if compare::stored_comparison_mode().compare(&mongodb, &engine) != Agreement::Same {
                return Ok(Some(Difference {
                    engine,
                    mongodb,
                    holds: Some(collection.to_owned()),
                }));
            }
            if look == "find" {
                let documents = mongodb.get_array("docs").cloned().unwrap_or_default();
                let documents = documents.into_iter().filter_map(|document| match document {
                    Bson::Document(document) => Some(document),
                    _ => None,
                });
                self.state
                    .documents
                    .insert(collection.to_owned(), documents.collect());
            }
        }
        Ok(None)
    }

    fn update_state(&mut self, step: &Step, has_failed: bool) {
        let indexes = self
            .state
            .indexes
            .entry(step.collection.clone())
            .or_default();
        match step.name.as_str() {
            "createIndexes" if !has_failed => {
                let created = step
                    .args
                    .get_array("indexes")
                    .map_or(&[][..], Vec::as_slice);
                for index in created.iter().filter_map(Bson::as_document) {
                    if !indexes.contains(index) {
                        indexes.push(index.clone());
                    }
                }
            }
            "dropIndexes" if !has_failed => {
                let dropped = step.args.get("index");
                indexes.retain(|index| index.get("name") != dropped);
            }
            "startTransaction" => self.state.transactions += 1,
            "commitTransaction" | "abortTransaction" => {
                self.state.transactions = self.state.transactions.saturating_sub(1);
            }
            _ => {}
        }
    }
}

/// Returns whether the operation found, counted or changed no document.
fn is_empty_answer(answer: &Document) -> bool {
    let says = |value: &Bson| match value {
        Bson::Array(values) => !values.is_empty(),
        Bson::Int32(number) => *number != 0,
        _ => true,
    };
    !answer.is_empty() && !answer.values().any(says)
}

impl State {
    /// Returns the steps that build this state in an empty database.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<_> = COLLECTIONS
            .iter()
            .map(|collection| Step::new(collection, "create", Document::new()))
            .collect();
        let lists = [
            ("createIndexes", "indexes", &self.indexes),
            ("insertMany", "documents", &self.documents),
        ];
        for (name, argument, lists) in lists {
            for (collection, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
                steps.push(Step::new(collection, name, doc! { argument: list.clone() }));
            }
        }
        steps
    }
}

impl Difference {
    /// Returns the properties that a reduced case must keep, so that the reduction does not end at a different bug.
    pub(super) fn signature(&self) -> (bool, Option<i64>, Option<i64>) {
        let code = |answer: &Document| {
            let error = answer.get_document("error").ok()?;
            let code = error.get("code")?;
            code.as_i32().map(i64::from).or_else(|| code.as_i64())
        };
        (
            self.holds.is_some(),
            code(&self.engine),
            code(&self.mongodb),
        )
    }
}
