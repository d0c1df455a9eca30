//! The two sides, and what comes of asking both.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};

use super::compare::{self, Agreement};
use super::failure;
use super::mistake;
use super::step::{COLLECTIONS, Step};
use crate::corpus::backend::{self, Backend, Kind};

/// The engine and a MongoDB.
pub(super) struct Pair {
    engine: Box<dyn Backend>,
    mongodb: Box<dyn Backend>,
    state: State,
    /// How many answers were errors, and how many were no error and said nothing.
    tally: (u64, u64),
}

/// What both sides hold.
#[derive(Debug, Default, Clone)]
pub(super) struct State {
    /// The documents, by collection.
    pub(super) documents: BTreeMap<String, Vec<Document>>,
    /// The indexes as they were created, by collection.
    pub(super) indexes: BTreeMap<String, Vec<Document>>,
    /// How many transactions are open.
    pub(super) transactions: usize,
}

/// What came of an operation.
pub(super) enum Asked {
    /// Both did the same.
    Same,
    /// Both did what they may, and hold the same.
    Open,
    /// Both did what they may, and hold what MongoDB does not determine.
    Last,
    /// The engine says that it does not have this.
    NotOffered(String),
    /// MongoDB does not determine what it does; it was not asked.
    Undetermined,
    Different(Difference),
}

/// Two answers to one operation that should be the same.
#[derive(Debug, Clone)]
pub(super) struct Difference {
    pub(super) engine: Document,
    pub(super) mongodb: Document,
    /// The collection, if the answers are what the sides hold after the operation.
    pub(super) holds: Option<String>,
}

impl Pair {
    /// The first pair has the server of the test process, and each other one starts its own.
    ///
    /// # Errors
    ///
    /// There is no server.
    pub(super) fn open(engine: Kind, is_first: bool) -> Result<Self, String> {
        Ok(Self {
            engine: backend::open(engine)?,
            mongodb: if is_first {
                backend::open(Kind::Mongodb)?
            } else {
                backend::start_mongodb()?
            },
            state: State::default(),
            tally: (0, 0),
        })
    }

    /// Makes both sides empty.
    ///
    /// # Errors
    ///
    /// One of them cannot be used any longer.
    pub(super) fn reset(&mut self) -> Result<(), String> {
        self.state = State::default();
        self.engine.reset()?;
        self.mongodb.reset()
    }

    /// How many answers were errors and how many said nothing, since this was last asked: it shows whether the operations
    /// are worth asking.
    pub(super) fn take_tally(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.tally)
    }

    /// What both sides hold, as far as they are the same.
    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// Carries out an operation on both sides.
    ///
    /// # Errors
    ///
    /// MongoDB refuses what the engine offers, for a reason that no operation should have.
    pub(super) fn ask(&mut self, step: &Step) -> Result<Asked, String> {
        let indexes = self.state.indexes.get(&step.collection);
        let is_indexed = indexes.is_some_and(|indexes| !indexes.is_empty());
        let Some(way) = compare::way(step, is_indexed) else {
            return Ok(Asked::Undetermined);
        };
        let engine = match self.engine.run(&step.operation()) {
            Ok(answer) => answer,
            Err(reason) => return Ok(Asked::NotOffered(reason.to_string())),
        };
        let mut mongodb = match self.mongodb.run(&step.operation()) {
            Ok(answer) => answer,
            Err(reason) => return Err(format!("MongoDB cannot be asked {step:?}: {reason}")),
        };
        compare::trim(step, is_indexed, &mut mongodb);
        if compare::is_not_now(&mongodb) {
            return Ok(Asked::Last);
        }
        let agreement = way.compare(&mongodb, &engine);
        let is_unique = |index: &Document| index.get_bool("unique").unwrap_or_default();
        let is_unique = indexes.is_some_and(|indexes| indexes.iter().any(is_unique));
        let is_of_index = |index: &Document| mistake::is_of_index(step, index);
        let is_mistaken = mistake::is_of_pipeline(step)
            || indexes.is_some_and(|indexes| indexes.iter().any(is_of_index));
        let is_open = agreement == Agreement::Different
            && (is_mistaken
                || failure::is_open(step, is_indexed, &mongodb, &engine)
                || is_unique && failure::is_conflict_of_keys(step, &mongodb));
        if is_open && !step.is_write() && step.session.is_none() {
            return Ok(Asked::Open);
        }
        let is_last = match agreement {
            Agreement::Same => false,
            Agreement::Different if is_open => true,
            Agreement::Unlike => true,
            Agreement::Different => {
                return Ok(Asked::Different(Difference {
                    engine,
                    mongodb,
                    holds: None,
                }));
            }
        };
        let has_failed = mongodb.contains_key("error");
        self.tally.0 += u64::from(has_failed);
        self.tally.1 += u64::from(says_nothing(&mongodb));
        self.note(step, has_failed);
        if is_last {
            return Ok(Asked::Last);
        }
        let changes_nothing = !step.is_write() && !step.is_definition() && !step.is_bound()
            || step.session.is_some() && step.is_write();
        if changes_nothing {
            return Ok(Asked::Same);
        }
        for collection in COLLECTIONS {
            if (step.collection == collection || step.is_bound())
                && let Some(difference) = self.look(collection, step.is_definition())?
            {
                return Ok(Asked::Different(difference));
            }
        }
        Ok(Asked::Same)
    }

    /// Carries out an operation on MongoDB alone; none if it cannot be asked.
    pub(super) fn ask_mongodb(&mut self, step: &Step) -> Option<Document> {
        let mut answer = self.mongodb.run(&step.operation()).ok()?;
        compare::trim(step, false, &mut answer);
        Some(answer)
    }

    /// Compares what the sides hold of a collection.
    fn look(&mut self, collection: &str, at_indexes: bool) -> Result<Option<Difference>, String> {
        let looks = [("find", true), ("listIndexes", at_indexes)];
        for (look, _) in looks.into_iter().filter(|(_, wanted)| *wanted) {
            let step = Step::new(collection, look, Document::new());
            let failed = |reason| format!("{look} of {collection}: {reason}");
            let engine = self.engine.run(&step.operation()).map_err(failed)?;
            let mongodb = self.mongodb.run(&step.operation()).map_err(failed)?;
            if compare::held().compare(&mongodb, &engine) != Agreement::Same {
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

    fn note(&mut self, step: &Step, has_failed: bool) {
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

/// Whether nothing was found, counted or changed.
fn says_nothing(answer: &Document) -> bool {
    let says = |value: &Bson| match value {
        Bson::Array(values) => !values.is_empty(),
        Bson::Int32(number) => *number != 0,
        _ => true,
    };
    !answer.is_empty() && !answer.values().any(says)
}

impl State {
    /// The steps that make this state from nothing.
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
    /// What a smaller case must show as well, so that one difference does not turn into another.
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
