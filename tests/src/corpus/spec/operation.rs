//! Translation of operations in the unified test format to operations of the corpus.

use std::collections::BTreeSet;

use bson::{Bson, Document, doc, oid::ObjectId};

use crate::corpus::backend::Backend;
use crate::corpus::operation::{NotOffered, Operation};
use crate::corpus::{document, documents};

/// The state of a case while the operations run.
pub(super) struct CaseRun<'b> {
    backend: &'b mut dyn Backend,
    /// The sessions with an open transaction. Without a transaction, a session has no effect.
    open: BTreeSet<String>,
}

/// The outcome of an operation, in the terms of the unified format.
#[derive(Debug)]
pub(super) enum StepOutcome {
    Answer(Bson),
    /// An error, with the result of the writes before the error.
    Error {
        error: Document,
        answer: Bson,
    },
}

impl<'b> CaseRun<'b> {
    pub(super) fn new(backend: &'b mut dyn Backend) -> Self {
        Self {
            backend,
            open: BTreeSet::new(),
        }
    }

    pub(super) fn step(&mut self, step: &Document) -> Result<StepOutcome, NotOffered> {
        let is_true = |value: Option<&Bson>| value == Some(&Bson::Boolean(true));
        if is_true(document(step, "expectError").get("isClientError"))
            || is_true(document(step, "observedError").get("client"))
        {
            return Err(NotOffered::new("what a driver checks by itself"));
        }
        let text = |name| step.get_str(name).unwrap_or_default();
        let (object, name) = (text("object"), text("name"));
        let mut args = document(step, "arguments").clone();
        match object {
            "session" => self.transaction(text("id"), name, &args),
            "testRunner" => self.assertion(name, &args),
            "collection" => {
                let session = take_text(&mut args, "session");
                self.on_collection(text("collection"), name, args, session)
            }
            "database" => {
                let session = take_text(&mut args, "session");
                let Some(collection) = take_text(&mut args, "collection") else {
                    return Err(NotOffered::new(format!("{name} of a database")));
                };
                let name = match name {
                    "createCollection" => "create",
                    "dropCollection" => "drop",
                    other => return Err(NotOffered::new(other)),
                };
                self.run_operation(&collection, name, &args, session.as_deref(), |_| Bson::Null)
            }
            other => Err(NotOffered::new(format!("{name} of a {other}"))),
        }
    }

    /// Starts or ends a transaction. The write concern is ignored, because durability does not change the result of a case.
    fn transaction(
        &mut self,
        id: &str,
        name: &str,
        args: &Document,
    ) -> Result<StepOutcome, NotOffered> {
        let known = ["readConcern", "writeConcern"];
        if let Some(other) = args.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(NotOffered::new(format!("{name} with {other}")));
        }
        if name == "endSession" {
            return Err(NotOffered::new(name));
        }
        // The default of a driver. A server can create a collection in a transaction only with this level.
        let concern = args.get("readConcern").cloned();
        let concern = concern.unwrap_or_else(|| doc! { "level": "local" }.into());
        let args = match name {
            "startTransaction" => doc! { "readConcern": concern },
            _ => Document::new(),
        };
        let operation = Operation {
            session: Some(id),
            ..Operation::new("", name, &args)
        };
        let answer = self.backend.run(&operation)?;
        match name {
            "startTransaction" => drop(self.open.insert(id.to_owned())),
            _ => drop(self.open.remove(id)),
        }
        Ok(to_outcome(answer, |_| Bson::Null))
    }

    fn assertion(&mut self, name: &str, args: &Document) -> Result<StepOutcome, NotOffered> {
        let text = |name| args.get_str(name).unwrap_or_default();
        let collection = text("collectionName");
        let (look, list, wanted) = match name {
            "assertCollectionExists" | "assertCollectionNotExists" => {
                ("listCollections", "names", Bson::from(collection))
            }
            "assertIndexExists" | "assertIndexNotExists" => {
                ("listIndexes", "indexes", Bson::from(text("indexName")))
            }
            other => return Err(NotOffered::new(other)),
        };
        let none = Document::new();
        let answer = self.backend.run(&Operation::new(collection, look, &none))?;
        let listed = answer.get_array(list).map_or(&[][..], Vec::as_slice);
        let is_there = listed.iter().any(|entry| {
            let named = entry.as_document().and_then(|index| index.get("name"));
            named.unwrap_or(entry) == &wanted
        });
        if is_there == name.ends_with("NotExists") {
            let error = doc! { "message": format!("{name} does not hold") };
            return Ok(StepOutcome::Error {
                error,
                answer: Bson::Null,
            });
        }
        Ok(StepOutcome::Answer(Bson::Null))
    }

    fn on_collection(
        &mut self,
        collection: &str,
        name: &str,
        mut args: Document,
        session: Option<String>,
    ) -> Result<StepOutcome, NotOffered> {
        let session = session.as_deref();
        // The batch size changes only the transport of the answer.
        args.remove("batchSize");
        if let Some(when) = take_text(&mut args, "returnDocument") {
            args.insert("returnDocument", when.to_lowercase());
        }
        rename(&mut args, "fieldName", "field");
        match name {
            "find" | "aggregate" => {
                self.run_operation(collection, name, &args, session, answer_field("docs"))
            }
            "findOne" => {
                args.insert("limit", 1);
                self.run_operation(collection, "find", &args, session, |answer| {
                    documents(answer, "docs").next().cloned().into()
                })
            }
            "distinct" => {
                self.run_operation(collection, name, &args, session, answer_field("values"))
            }
            "count" | "countDocuments" | "estimatedDocumentCount" => {
                self.run_operation(collection, "count", &args, session, answer_field("count"))
            }
            "findOneAndUpdate" | "findOneAndReplace" | "findOneAndDelete" => {
                self.run_operation(collection, name, &args, session, answer_field("value"))
            }
            "createIndex" => {
                let session = session.filter(|session| self.open.contains(*session));
                rename(&mut args, "keys", "key");
                if !args.contains_key("name") {
                    args.insert("name", default_name(document(&args, "key")));
                }
                let name = args.get("name").cloned().unwrap_or(Bson::Null);
                let indexes = doc! { "indexes": [args] };
                self.run_operation(collection, "createIndexes", &indexes, session, |_| name)
            }
            "dropIndex" => {
                rename(&mut args, "name", "index");
                self.run_operation(collection, "dropIndexes", &args, session, |_| Bson::Null)
            }
            "listIndexes" => {
                self.run_operation(collection, name, &args, session, answer_field("indexes"))
            }
            "bulkWrite" => self.bulk_write(collection, args, session),
            _ => self.write(collection, name, args, session, |answer| answer.into()),
        }
    }

    /// Runs a single write, and translates the answer to the names of the unified format.
    fn write(
        &mut self,
        collection: &str,
        name: &str,
        mut args: Document,
        session: Option<&str>,
        shape: impl FnOnce(Document) -> Bson,
    ) -> Result<StepOutcome, NotOffered> {
        let mut inserted = Document::new();
        if name.starts_with("insert") {
            let given = match name {
                "insertOne" => Bson::Array(args.remove("document").into_iter().collect()),
                _ => args.remove("documents").unwrap_or(Bson::Null),
            };
            let given = given.as_array().cloned().unwrap_or_default();
            let given: Vec<_> = given.into_iter().map(with_id).collect();
            for (position, document) in given.iter().enumerate() {
                let id = document
                    .as_document()
                    .and_then(|document| document.get("_id"));
                inserted.insert(position.to_string(), id.cloned());
            }
            args.insert("documents", given);
        }
        let command = match name {
            "insertOne" => "insertMany",
            other => other,
        };
        self.run_operation(collection, command, &args, session, |answer| {
            shape(match name {
                "insertOne" => doc! { "insertedId": inserted.get("0"), "insertedCount": answer.get("inserted") },
                // A driver implements `insertMany` as a bulk write, so errors contain the result of a bulk write.
                "insertMany" => {
                    let mut shaped = no_writes();
                    shaped.insert("insertedIds", inserted);
                    shaped.insert("insertedCount", answer.get("inserted").cloned());
                    shaped
                }
                "deleteOne" | "deleteMany" => doc! { "deletedCount": answer.get("deleted") },
                _ => {
                    let upserted = answer.get("upsertedId");
                    let mut shaped = doc! {
                        "matchedCount": answer.get("matched"),
                        "modifiedCount": answer.get("modified"),
                        "upsertedCount": i32::from(upserted.is_some()),
                    };
                    if let Some(id) = upserted {
                        shaped.insert("upsertedId", id.clone());
                    }
                    shaped
                }
            })
        })
    }

    /// Runs the writes in order. If `ordered` is true, the first error ends the bulk write.
    fn bulk_write(
        &mut self,
        collection: &str,
        mut args: Document,
        session: Option<&str>,
    ) -> Result<StepOutcome, NotOffered> {
        let is_ordered = args.remove("ordered") != Some(Bson::Boolean(false));
        let requests = args.remove("requests");
        if let Some(other) = args.keys().next() {
            return Err(NotOffered::new(format!("bulkWrite with {other}")));
        }
        let mut total = no_writes();
        let mut first_error = None;
        let requests = requests.as_ref().and_then(Bson::as_array);
        for (position, request) in requests.into_iter().flatten().enumerate() {
            let one = request
                .as_document()
                .and_then(|request| request.iter().next());
            let Some((name, Bson::Document(args))) = one else {
                return Err(NotOffered::new("a bulkWrite of something else"));
            };
            let done = self.write(collection, name, args.clone(), session, Bson::from)?;
            let (answer, error) = match done {
                StepOutcome::Answer(answer) => (answer, None),
                StepOutcome::Error { error, answer } => (answer, Some(error)),
            };
            if let Bson::Document(answer) = &answer {
                add_to_total(&mut total, answer, position);
            }
            first_error = first_error.or(error);
            if first_error.is_some() && is_ordered {
                break;
            }
        }
        let answer = Bson::Document(total);
        Ok(match first_error {
            Some(error) => StepOutcome::Error { error, answer },
            None => StepOutcome::Answer(answer),
        })
    }

    fn run_operation(
        &mut self,
        collection: &str,
        name: &str,
        args: &Document,
        session: Option<&str>,
        shape: impl FnOnce(&Document) -> Bson,
    ) -> Result<StepOutcome, NotOffered> {
        let operation = Operation {
            session: session.filter(|session| self.open.contains(*session)),
            ..Operation::new(collection, name, args)
        };
        let answer = self.backend.run(&operation)?;
        Ok(to_outcome(answer, shape))
    }
}

fn to_outcome(mut answer: Document, shape: impl FnOnce(&Document) -> Bson) -> StepOutcome {
    let error = answer.remove("error");
    let shaped = shape(&answer);
    match error {
        Some(Bson::Document(error)) => StepOutcome::Error {
            error,
            answer: shaped,
        },
        _ => StepOutcome::Answer(shaped),
    }
}

fn answer_field(name: &'static str) -> impl FnOnce(&Document) -> Bson {
    move |answer| answer.get(name).cloned().unwrap_or(Bson::Null)
}

/// Returns the answer of a bulk write without effect.
fn no_writes() -> Document {
    doc! {
        "insertedCount": 0, "matchedCount": 0, "modifiedCount": 0, "deletedCount": 0,
        "upsertedCount": 0, "upsertedIds": {}, "insertedIds": {},
    }
}

/// Adds the answer of a request to the total.
fn add_to_total(total: &mut Document, answer: &Document, position: usize) {
    for (name, count) in answer {
        let so_far = total.get_i32(name).ok();
        let count = count.as_i32().or_else(|| count.as_i64()?.try_into().ok());
        if let (Some(so_far), Some(count)) = (so_far, count) {
            total.insert(name, so_far + count);
        }
    }
    for (one, all) in [("upsertedId", "upsertedIds"), ("insertedId", "insertedIds")] {
        if let (Some(id), Ok(ids)) = (answer.get(one), total.get_document_mut(all)) {
            ids.insert(position.to_string(), id.clone());
        }
    }
}

/// Adds an `_id` to a document without `_id`, as a driver does.
fn with_id(document: Bson) -> Bson {
    match document {
        Bson::Document(document) if !document.contains_key("_id") => {
            let mut with_id = doc! { "_id": ObjectId::new() };
            with_id.extend(document);
            with_id.into()
        }
        other => other,
    }
}

fn default_name(keys: &Document) -> String {
    let parts = keys
        .iter()
        .map(|(path, direction)| format!("{path}_{direction}"));
    parts.collect::<Vec<_>>().join("_")
}

fn rename(args: &mut Document, from: &str, to: &str) {
    if let Some(value) = args.remove(from) {
        args.insert(to, value);
    }
}

fn take_text(args: &mut Document, name: &str) -> Option<String> {
    match args.remove(name)? {
        Bson::String(text) => Some(text),
        other => {
            args.insert(name, other);
            None
        }
    }
}
