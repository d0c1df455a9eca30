use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use mongodb::{Client, ClientSession, Database, error::Error, options::ReadConcern};
use tokio::runtime::Runtime;

use super::Backend;
use crate::corpus::operation::{NotOffered, Operation};
use crate::mongod::{self, Server};

/// More documents than any case has, so that a single batch contains all results.
const MAX_BATCH_DOCUMENTS: i32 = 100_000;

/// A real MongoDB, with one database that is emptied for every case.
pub(super) struct Mongodb {
    runtime: Runtime,
    client: Client,
    database: Database,
    sessions: BTreeMap<String, ClientSession>,
    /// The server of this backend, or `None` for the shared server of the test process.
    _server: Option<Server>,
    /// The empty collections of the last case. The server keeps the files of a dropped collection open for minutes. Too many open
    /// files would stop the server from opening new collections.
    empty_collections: BTreeSet<String>,
}

impl Mongodb {
    /// Connects to the replica set of the test process, because a replica set has transactions.
    pub(super) fn connect() -> Result<Self, String> {
        let runtime = Runtime::new().map_err(|error| error.to_string())?;
        let url = runtime.block_on(async { mongod::replica_set().await.fresh_url() });
        Self::connect_to(&url, runtime, None)
    }

    /// Starts a separate replica set.
    pub(super) fn start() -> Result<Self, String> {
        let runtime = Runtime::new().map_err(|error| error.to_string())?;
        let server = runtime.block_on(Server::start(mongod::Kind::ReplicaSet))?;
        Self::connect_to(&server.fresh_url(), runtime, Some(server))
    }

    fn connect_to(url: &str, runtime: Runtime, server: Option<Server>) -> Result<Self, String> {
        let connected = runtime.block_on(async {
            let client = Client::with_uri_str(url).await?;
            // No data has to survive a crash.
            let relaxed =
                doc! { "setDefaultRWConcern": 1, "defaultWriteConcern": { "w": 1, "j": false } };
            client.database("admin").run_command(relaxed).await?;
            Ok(client)
        });
        let client: Client = connected.map_err(|error: Error| error.to_string())?;
        let database = client.default_database().ok_or("the URL has no database")?;
        Ok(Self {
            runtime,
            client,
            database,
            sessions: BTreeMap::new(),
            _server: server,
            empty_collections: BTreeSet::new(),
        })
    }

    /// Returns the reply to a command, with an error as the field `error`.
    fn command(&mut self, command: Document, session: Option<&str>) -> Document {
        let session = session.and_then(|name| self.sessions.get_mut(name));
        let sent = self.database.run_command(command);
        let reply = self.runtime.block_on(async {
            match session {
                Some(session) => sent.session(session).await,
                None => sent.await,
            }
        });
        reply.unwrap_or_else(|error| doc! { "error": recorded_error(&error) })
    }

    fn transaction(&mut self, operation: &Operation<'_>) -> Result<Document, NotOffered> {
        let name = operation.session.unwrap_or_default();
        let (client, sessions) = (&self.client, &mut self.sessions);
        let ended: Result<(), Error> = self.runtime.block_on(async {
            if operation.name == "startTransaction" {
                let mut session = client.start_session().await?;
                let concern = super::super::document(operation.args, "readConcern");
                let begin = session.start_transaction();
                // The read concern that the corpus was recorded with, unless the case sets a read concern.
                let concern = match concern.get_str("level") {
                    Ok(level) => ReadConcern::custom(level),
                    Err(_) => ReadConcern::snapshot(),
                };
                begin.read_concern(concern).await?;
                sessions.insert(name.to_owned(), session);
            } else if let Some(session) = sessions.get_mut(name) {
                if operation.name == "commitTransaction" {
                    return session.commit_transaction().await;
                }
                session.abort_transaction().await?;
                sessions.remove(name);
            }
            Ok(())
        });
        match ended {
            Ok(()) => Ok(doc! { "ok": true }),
            Err(error) if error.server_response().is_none() => {
                Err(NotOffered::new(format!("what the driver refuses: {error}")))
            }
            Err(error) => Ok(doc! { "error": recorded_error(&error) }),
        }
    }
}

impl Backend for Mongodb {
    fn reset(&mut self) -> Result<(), String> {
        self.runtime
            .block_on(async {
                for (_, mut session) in std::mem::take(&mut self.sessions) {
                    // A session that has already ended cannot be aborted, and the error does not matter.
                    let _ = session.abort_transaction().await;
                }
                for name in self.database.list_collection_names().await? {
                    let collection = self.database.collection::<Document>(&name);
                    collection.delete_many(doc! {}).await?;
                    collection.drop_indexes().await?;
                    self.empty_collections.insert(name);
                }
                Ok(())
            })
            .map_err(|error: Error| error.to_string())
    }

    fn run(&mut self, operation: &Operation<'_>) -> Result<Document, NotOffered> {
        if operation.name == "create" && self.empty_collections.remove(operation.collection) {
            return Ok(doc! { "ok": true });
        }
        // Drop the remaining collections, which the case has not created.
        for name in std::mem::take(&mut self.empty_collections) {
            self.command(doc! { "drop": name }, None);
        }
        if operation.name.ends_with("Transaction") {
            return self.transaction(operation);
        }
        if let Some(name) = operation.session
            && !self.sessions.contains_key(name)
        {
            let reason = "a transaction that was aborted: the driver would run this outside of it";
            return Err(NotOffered::new(reason));
        }
        let command = command(operation)?;
        let reply = self.command(command, operation.session);
        Ok(recorded_part(operation, reply))
    }

    fn insert_and_read(
        &mut self,
        document: RawDocumentBuf,
    ) -> Result<Option<RawDocumentBuf>, NotOffered> {
        if Document::try_from(&document).is_err() {
            return Err(NotOffered::new("malformed bytes, which a server may take"));
        }
        let failed = |error: Error| NotOffered::new(error.to_string());
        self.runtime.block_on(async {
            let insert = rawdoc! { "insert": "c", "documents": [document] };
            let reply = self.database.run_raw_command(insert).await;
            if !reply.is_ok_and(|reply| !reply.contains_key("writeErrors")) {
                return Ok(None);
            }
            let stored = self.database.collection::<RawDocumentBuf>("c");
            stored.find_one(doc! {}).await.map_err(failed)
        })
    }
}

/// Returns the command for an operation: the arguments of the corpus under the names of MongoDB.
fn command(operation: &Operation<'_>) -> Result<Document, NotOffered> {
    let collection = operation.collection;
    let args = |names: &[(&str, &str)]| {
        let mut args = Document::new();
        for (name, value) in operation.args {
            let renamed = names.iter().find(|(corpus, _)| corpus == name);
            let name = renamed.map_or(name.as_str(), |(_, command)| command);
            args.insert(name, value.clone());
        }
        args
    };
    // Variables and comments belong to the whole command, not to a single write of the command.
    let write = |name: &str, list: &str, mut one: Document| {
        let shared = ["let", "comment"].map(|name| (name.to_owned(), one.remove(name)));
        let shared = shared.into_iter();
        let mut command = doc! { name: collection, list: [one] };
        command.extend(shared.filter_map(|(name, value)| Some((name, value?))));
        command
    };
    let with = |mut command: Document, args: Document| {
        command.extend(args);
        command
    };
    let update = |multi: bool| {
        let names = [("filter", "q"), ("update", "u"), ("replacement", "u")];
        write(
            "update",
            "updates",
            with(doc! { "multi": multi }, args(&names)),
        )
    };
    let delete = |limit: i32| {
        write(
            "delete",
            "deletes",
            with(doc! { "limit": limit }, args(&[("filter", "q")])),
        )
    };
    Ok(match operation.name {
        "find" => with(
            doc! { "find": collection, "batchSize": MAX_BATCH_DOCUMENTS },
            args(&[]),
        ),
        // The `count` command is not available in transactions.
        "count" if operation.session.is_some() => {
            let stage = |name: &str, value: &str| Some(doc! { name: operation.args.get(value)? });
            let stages = [
                stage("$match", "filter"),
                stage("$skip", "skip"),
                stage("$limit", "limit"),
                Some(doc! { "$group": { "_id": null, "n": { "$sum": 1 } } }),
            ];
            let pipeline: Vec<_> = stages.into_iter().flatten().collect();
            doc! { "aggregate": collection, "pipeline": pipeline, "cursor": {} }
        }
        "count" => with(doc! { "count": collection }, args(&[("filter", "query")])),
        "distinct" => with(
            doc! { "distinct": collection },
            args(&[("field", "key"), ("filter", "query")]),
        ),
        "aggregate" => with(
            doc! { "aggregate": collection, "cursor": { "batchSize": MAX_BATCH_DOCUMENTS } },
            args(&[]),
        ),
        "insertMany" => with(doc! { "insert": collection }, args(&[])),
        "updateOne" | "replaceOne" => update(false),
        "updateMany" => update(true),
        "deleteOne" => delete(1),
        "deleteMany" => delete(0),
        "findOneAndUpdate" | "findOneAndReplace" | "findOneAndDelete" => {
            let names = [
                ("filter", "query"),
                ("projection", "fields"),
                ("replacement", "update"),
            ];
            let mut args = args(&names);
            let after = args
                .remove("returnDocument")
                .is_some_and(|when| when == "after".into());
            match operation.name {
                "findOneAndDelete" => args.insert("remove", true),
                _ => args.insert("new", after),
            };
            with(doc! { "findAndModify": collection }, args)
        }
        "create" => with(doc! { "create": collection }, args(&[])),
        "drop" => with(doc! { "drop": collection }, args(&[])),
        "listCollections" => doc! { "listCollections": 1 },
        "createIndexes" => with(doc! { "createIndexes": collection }, args(&[])),
        "dropIndexes" => with(doc! { "dropIndexes": collection }, args(&[])),
        "listIndexes" => {
            doc! { "listIndexes": collection, "cursor": { "batchSize": MAX_BATCH_DOCUMENTS } }
        }
        other => return Err(NotOffered::new(other)),
    })
}

/// Returns the part of a reply that the corpus records.
fn recorded_part(operation: &Operation<'_>, mut reply: Document) -> Document {
    if operation.name == "listIndexes" && reply.contains_key("error") {
        // The collection does not exist.
        return doc! { "indexes": [] };
    }
    // The collection does not exist, as the operation requires.
    let is_gone = |error: &Document| error.get_i32("code").is_ok_and(|code| code == 26);
    if operation.name == "drop" && reply.get_document("error").is_ok_and(is_gone) {
        return doc! { "ok": true };
    }
    if reply.contains_key("error") {
        return reply;
    }
    let mut answer = Document::new();
    let n = reply.get_i32("n").unwrap_or(0);
    match operation.name {
        "find" | "aggregate" => drop(answer.insert("docs", first_batch(&reply))),
        "listIndexes" => drop(answer.insert("indexes", first_batch(&reply))),
        "listCollections" => {
            let collections = super::super::document(&reply, "cursor");
            let named = super::super::documents(collections, "firstBatch");
            let names = named.filter_map(|found| found.get("name").cloned());
            answer.insert("names", names.collect::<Vec<_>>());
        }
        "count" if operation.session.is_some() => {
            let groups = first_batch(&reply);
            let group = groups
                .as_array()
                .and_then(|groups| groups.first()?.as_document());
            let counted = group.and_then(|group| group.get("n").cloned());
            answer.insert("count", counted.unwrap_or(0.into()));
        }
        "count" => drop(answer.insert("count", n)),
        "distinct" => drop(answer.insert("values", reply.remove("values"))),
        "insertMany" => drop(answer.insert("inserted", n)),
        "deleteOne" | "deleteMany" => drop(answer.insert("deleted", n)),
        "updateOne" | "updateMany" | "replaceOne" => {
            let upserted = super::super::documents(&reply, "upserted").next();
            let matched = if upserted.is_some() { 0 } else { n };
            answer.insert("matched", matched);
            answer.insert("modified", reply.get_i32("nModified").unwrap_or(0));
            if let Some(id) = upserted.and_then(|upserted| upserted.get("_id")) {
                answer.insert("upsertedId", id.clone());
            }
        }
        "findOneAndUpdate" | "findOneAndReplace" | "findOneAndDelete" => {
            answer.insert("value", reply.remove("value"));
            let last = super::super::document(&reply, "lastErrorObject");
            if let Some(updated) = last.get("updatedExisting") {
                answer.insert("updatedExisting", updated.clone());
            }
            if let Some(id) = last.get("upserted") {
                answer.insert("upsertedId", id.clone());
            }
        }
        _ => {}
    }
    let errors: Vec<_> = super::super::documents(&reply, "writeErrors")
        .cloned()
        .collect();
    if let Some(first) = errors.first() {
        answer.insert("error", first.clone());
        answer.insert("errors", errors);
    }
    answer
}

fn first_batch(reply: &Document) -> Bson {
    let cursor = super::super::document(reply, "cursor");
    cursor.get("firstBatch").cloned().unwrap_or(Bson::Null)
}

/// Returns an error as the corpus records errors, from the response of the server.
fn recorded_error(error: &Error) -> Document {
    let sent = error
        .server_response()
        .and_then(|response| Document::try_from(response).ok());
    sent.unwrap_or_else(|| doc! { "message": error.to_string() })
}
