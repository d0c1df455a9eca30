//! The same commands on the server and on a real MongoDB.

use bson::{Bson, Document, doc};
use mongodb::error::ErrorKind;
use mongodb::{Client, Database};

use super::TestServer;

/// The fields of replies that differ between two servers of MongoDB too.
const SERVER_FIELDS: &[&str] = &["$clusterTime", "electionId", "opTime", "operationTime"];

/// Runs a command, and returns the reply or the error, without the message.
async fn run(database: &Database, command: &Document) -> Document {
    match database.run_command(command.clone()).await {
        Ok(mut reply) => {
            reply.retain_fields();
            reply
        }
        Err(error) => match *error.kind {
            ErrorKind::Command(failure) => {
                doc! { "code": failure.code, "codeName": failure.code_name }
            }
            _ => panic!("{command}: {error}"),
        },
    }
}

trait RetainFields {
    fn retain_fields(&mut self);
}

impl RetainFields for Document {
    /// Removes the fields that depend on the server, and the texts of errors.
    fn retain_fields(&mut self) {
        for name in SERVER_FIELDS {
            self.remove(name);
        }
        // The server repeats the write concern here.
        if let Ok(error) = self.get_document_mut("writeConcernError") {
            error.remove("errInfo");
        }
        if let Ok(errors) = self.get_array_mut("writeErrors") {
            for error in errors {
                if let Bson::Document(error) = error {
                    error.remove("errmsg");
                }
            }
        }
    }
}

/// Compares two replies. The order of fields is not part of the protocol.
fn is_same(left: &Bson, right: &Bson) -> bool {
    match (left, right) {
        (Bson::Document(left), Bson::Document(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(name, value)| right.get(name).is_some_and(|other| is_same(value, other)))
        }
        (Bson::Array(left), Bson::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(a, b)| is_same(a, b))
        }
        _ => left == right,
    }
}

fn session(name: &str) -> Vec<Document> {
    let other = format!("{name}_2");
    let other = other.as_str();
    let find = |filter: Document| doc! { "find": "c", "filter": filter };
    let update = |q: Document, u: Document| doc! { "update": "c", "updates": [{ "q": q, "u": u }] };
    let out = |collection: &str, target: Bson| doc! { "aggregate": collection, "pipeline": [{ "$out": target }], "cursor": {} };
    let changes = |level: &str| doc! { "aggregate": "docs", "pipeline": [{ "$changeStream": {} }], "cursor": {}, "readConcern": { "level": level } };
    let merge = |collection: &str, options: Bson| doc! { "aggregate": collection, "pipeline": [{ "$merge": options }], "cursor": {} };
    vec![
        doc! { "ping": 1 },
        doc! { "PING": 1 },
        doc! { "frobnicate": 1 },
        doc! { "ping": 1, "frob": 1 },
        doc! { "create": "c" },
        doc! { "create": "c" },
        doc! { "create": "" },
        doc! { "create": "a$b" },
        doc! { "insert": "c", "documents": [{ "_id": 1, "a": 1 }, { "_id": 2, "a": [1, 2] }] },
        doc! { "insert": "c", "documents": [{ "_id": 3 }, { "_id": 1 }, { "_id": 4 }] },
        doc! { "insert": "c", "documents": [{ "_id": 3 }, { "_id": 1 }, { "_id": 4 }], "ordered": false },
        doc! { "insert": "c", "documents": [] },
        doc! { "insert": "c" },
        doc! { "insert": "c", "documents": 7 },
        doc! { "insert": 7, "documents": [{}] },
        doc! { "insert": "c", "documents": [{ "_id": [1] }] },
        doc! { "insert": "c", "documents": [{ "_id": 9 }], "frob": 1 },
        find(doc! {}),
        find(doc! { "a": 2 }),
        find(doc! { "$frob": 1 }),
        find(doc! { "a": { "$frob": 1 } }),
        doc! { "find": "c", "filter": [] },
        doc! { "find": "c", "limit": "x" },
        doc! { "find": "c", "limit": -1 },
        doc! { "find": "c", "skip": -1 },
        doc! { "find": "c", "batchSize": -1 },
        doc! { "find": "c", "sort": { "_id": -1 }, "limit": 2, "projection": { "a": 1 } },
        doc! { "find": "c", "sort": { "_id": 1 }, "batchSize": 5 },
        doc! { "find": "c", "sort": { "_id": 1 }, "singleBatch": true, "batchSize": 1 },
        doc! { "find": "c", "hint": "missing" },
        doc! { "find": "c", "hint": 7 },
        doc! { "find": "c", "sort": { "a": 7 } },
        doc! { "find": "missing" },
        doc! { "find": "" },
        doc! { "find": "c", "tailable": true },
        doc! { "find": "c", "maxTimeMS": -1 },
        doc! { "find": "c", "maxTimeMS": "x" },
        doc! { "find": "c", "readConcern": { "level": "frob" } },
        doc! { "find": "c", "readConcern": { "level": "majority" }, "filter": { "_id": 1 } },
        doc! { "count": "c" },
        doc! { "count": "c", "query": { "a": 1 }, "limit": -1 },
        doc! { "count": "c", "query": { "a": 1 }, "skip": 1 },
        doc! { "count": "missing" },
        doc! { "count": "c", "query": 7 },
        doc! { "distinct": "c", "key": "a" },
        doc! { "distinct": "c", "key": "a", "query": { "_id": { "$gt": 1 } } },
        doc! { "distinct": "c" },
        update(doc! { "_id": 1 }, doc! { "$set": { "b": 1 } }),
        update(doc! { "_id": 1 }, doc! { "$set": { "b": 1 } }),
        update(doc! { "_id": 99 }, doc! { "$set": { "b": 1 } }),
        update(doc! { "_id": 1 }, doc! { "$frob": { "b": 1 } }),
        update(doc! { "_id": 1 }, doc! { "$set": { "_id": 7 } }),
        update(doc! { "_id": 1 }, doc! { "$set": { "b": 1 }, "x": 1 }),
        doc! { "update": "c", "updates": [{ "q": { "_id": 50 }, "u": { "$set": { "b": 1 } }, "upsert": true }] },
        doc! { "update": "c", "updates": [{ "q": {}, "u": { "$inc": { "n": 1 } }, "multi": true }, { "q": { "_id": 1 }, "u": { "a": 5 } }] },
        doc! { "update": "c", "updates": [{ "q": {}, "u": { "a": 1 }, "multi": true }] },
        doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": [{ "$set": { "z": "$a" } }] }] },
        doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": [{ "$set": { "z": "$$k" } }], "c": { "k": "$x" } }] },
        doc! { "update": "c", "updates": [{ "q": { "_id": 2 }, "u": { "$set": { "a.$[e]": 9 } }, "arrayFilters": [{ "e": 2 }] }] },
        doc! { "update": "c", "updates": [{ "q": { "_id": 1 } }] },
        doc! { "update": "c", "updates": [{ "u": { "$set": { "a": 1 } } }] },
        doc! { "update": "c", "updates": [{ "q": {}, "u": 7 }] },
        doc! { "update": "c", "updates": [] },
        find(doc! {}),
        doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": { "$inc": { "a": 1 } } },
        doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": { "$inc": { "a": 1 } }, "new": true, "fields": { "a": 1 } },
        doc! { "findAndModify": "c", "query": { "_id": 60 }, "update": { "$inc": { "a": 1 } }, "upsert": true },
        doc! { "findAndModify": "c", "query": { "_id": 61 }, "update": { "$inc": { "a": 1 } }, "upsert": true, "new": true },
        doc! { "findAndModify": "c", "query": { "_id": 62 }, "update": { "$inc": { "a": 1 } } },
        doc! { "findAndModify": "c", "query": { "_id": 61 }, "remove": true },
        doc! { "findAndModify": "c", "query": { "_id": 61 }, "remove": true },
        doc! { "findAndModify": "c", "query": {}, "remove": true, "new": true },
        doc! { "findAndModify": "c", "query": {}, "remove": true, "update": {} },
        doc! { "findAndModify": "c", "query": {} },
        doc! { "findandmodify": "c", "query": { "_id": 60 }, "remove": true, "sort": { "_id": 1 } },
        doc! { "delete": "c", "deletes": [{ "q": { "_id": 50 }, "limit": 1 }] },
        doc! { "delete": "c", "deletes": [{ "q": { "_id": 50 }, "limit": 2 }] },
        doc! { "delete": "c", "deletes": [{ "q": { "_id": 50 } }] },
        doc! { "delete": "missing", "deletes": [{ "q": {}, "limit": 0 }] },
        doc! { "aggregate": "c", "pipeline": [{ "$group": { "_id": null, "n": { "$sum": 1 } } }], "cursor": {} },
        doc! { "aggregate": "c", "pipeline": [{ "$sort": { "_id": 1 } }], "cursor": { "batchSize": 1000 } },
        doc! { "aggregate": "c", "pipeline": [] },
        doc! { "aggregate": "c", "pipeline": {}, "cursor": {} },
        doc! { "aggregate": "c", "pipeline": [7], "cursor": {} },
        doc! { "aggregate": "c", "pipeline": [{ "$frob": 1 }], "cursor": {} },
        doc! { "aggregate": 7, "pipeline": [], "cursor": {} },
        doc! { "aggregate": 1, "pipeline": [{ "$documents": [{ "a": 1 }] }], "cursor": {} },
        doc! { "aggregate": 1, "pipeline": [{ "$match": {} }], "cursor": {} },
        doc! { "aggregate": "c", "pipeline": [{ "$match": { "$expr": { "$eq": ["$_id", "$$id"] } } }], "let": { "id": 2 }, "cursor": {} },
        doc! { "aggregate": 1, "pipeline": [{ "$documents": [{ "_id": 1, "a": 1 }, { "_id": 2, "a": 2 }] }, { "$out": "docs" }], "cursor": {} },
        out("docs", "o".into()),
        out("docs", doc! { "db": name, "coll": "o" }.into()),
        out("docs", doc! { "db": other, "coll": "o" }.into()),
        doc! { "listIndexes": "o" },
        doc! { "find": "o", "sort": { "_id": 1 } },
        out("docs", 7.into()),
        out("docs", doc! { "coll": "o" }.into()),
        out("docs", doc! { "db": 7, "coll": "o" }.into()),
        out("docs", "".into()),
        out("docs", "system.o".into()),
        out("docs", doc! { "db": "admin", "coll": "o" }.into()),
        merge("docs", "m".into()),
        merge("docs", doc! { "into": { "coll": "m" }, "whenNotMatched": "fail" }.into()),
        merge("docs", doc! { "into": { "db": other, "coll": "m" } }.into()),
        merge("docs", doc! { "into": "m", "whenMatched": "fail" }.into()),
        merge("docs", doc! { "into": "empty", "whenNotMatched": "fail" }.into()),
        merge("docs", doc! { "into": "m", "whenMatched": "keepExisting", "whenNotMatched": "fail" }.into()),
        merge("docs", doc! { "into": "m", "whenMatched": "frob" }.into()),
        merge("docs", doc! { "into": "m", "whenMatched": 7 }.into()),
        merge("docs", doc! { "into": "m", "whenNotMatched": "frob" }.into()),
        merge("docs", doc! { "into": "m", "whenNotMatched": 7 }.into()),
        merge("docs", doc! { "into": "m", "let": { "x": "$a" }, "whenMatched": [{ "$set": { "b": ["$$x", "$$new.a"] } }] }.into()),
        merge("docs", doc! { "into": "m", "let": { "x": "$a" } }.into()),
        merge("docs", doc! { "into": "m", "let": { "new": "$a" }, "whenMatched": [] }.into()),
        merge("docs", doc! { "into": "m", "let": 7, "whenMatched": [] }.into()),
        merge("docs", doc! { "into": "m", "whenMatched": [{ "$set": { "b": "$$y" } }] }.into()),
        merge("docs", doc! { "into": "m", "whenMatched": [{ "$match": {} }] }.into()),
        merge("docs", doc! { "into": "m", "whenMatched": [{ "$frob": {} }] }.into()),
        merge("docs", doc! { "into": "m", "whenMatched": [{ "$out": "x" }] }.into()),
        merge("docs", doc! { "into": "m", "on": [] }.into()),
        merge("docs", doc! { "into": "m", "on": "a" }.into()),
        merge("docs", doc! { "into": "m", "on": ["_id", "_id"] }.into()),
        merge("docs", doc! { "into": "m", "on": [7] }.into()),
        merge("docs", doc! { "into": "m", "on": 7 }.into()),
        merge("docs", doc! { "into": "m", "frob": 7 }.into()),
        merge("docs", doc! { "into": 7 }.into()),
        merge("docs", doc! { "into": {} }.into()),
        merge("docs", doc! { "into": { "db": name } }.into()),
        merge("docs", doc! { "into": { "coll": "m", "frob": 1 } }.into()),
        merge("docs", doc! { "into": { "db": "local", "coll": "m" } }.into()),
        merge("docs", doc! {}.into()),
        merge("docs", 7.into()),
        merge("docs", "".into()),
        merge("docs", "system.m".into()),
        doc! { "find": "m", "sort": { "_id": 1 } },
        doc! { "aggregate": "docs", "pipeline": [{ "$out": "o" }, { "$limit": 1 }], "cursor": {} },
        doc! { "aggregate": "docs", "pipeline": [{ "$merge": "o" }, { "$out": "o" }], "cursor": {} },
        doc! { "aggregate": "docs", "pipeline": [{ "$facet": { "a": [{ "$out": "o" }] } }], "cursor": {} },
        doc! { "aggregate": "docs", "pipeline": [{ "$lookup": { "from": "o", "as": "x", "pipeline": [{ "$merge": "o" }] } }], "cursor": {} },
        doc! { "aggregate": "docs", "pipeline": [{ "$unionWith": { "coll": "o", "pipeline": [{ "$out": "o" }] } }], "cursor": {} },
        doc! { "aggregate": "docs", "pipeline": [{ "$changeStream": {} }, { "$out": "o" }], "cursor": {} },
        doc! { "aggregate": "docs", "pipeline": [{ "$changeStream": {} }, { "$sort": { "a": 1 } }], "cursor": {} },
        changes("local"),
        changes("available"),
        changes("linearizable"),
        changes("snapshot"),
        doc! { "aggregate": "docs", "pipeline": [{ "$out": "o" }], "cursor": {}, "readConcern": { "level": "linearizable" } },
        doc! { "aggregate": "docs", "pipeline": [{ "$out": "o" }], "cursor": {}, "readConcern": { "level": "majority" }, "writeConcern": { "w": "majority" } },
        doc! { "aggregate": "docs", "pipeline": [{ "$out": "o" }], "cursor": {}, "writeConcern": { "w": "frob" } },
        doc! { "update": "docs", "updates": [{ "q": {}, "u": [{ "$out": "o" }] }] },
        doc! { "aggregate": 1, "pipeline": [{ "$listLocalSessions": 7 }], "cursor": {} },
        doc! { "aggregate": 1, "pipeline": [{ "$listLocalSessions": { "frob": 1 } }], "cursor": {} },
        doc! { "aggregate": 1, "pipeline": [{ "$listLocalSessions": {} }, { "$limit": 1 }, { "$project": { "_id": { "$type": "$_id.uid" }, "at": { "$type": "$lastUse" } } }], "cursor": {} },
        doc! { "aggregate": "c", "pipeline": [{ "$listLocalSessions": {} }], "cursor": {} },
        doc! { "drop": "docs" },
        doc! { "drop": "m" },
        doc! { "drop": "o" },
        doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a_1" }] },
        doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a_1" }] },
        doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "other" }] },
        doc! { "createIndexes": "c", "indexes": [{ "key": { "a": -1 }, "name": "a_1" }] },
        doc! { "createIndexes": "c", "indexes": [{ "key": { "b": 1 } }] },
        doc! { "createIndexes": "c", "indexes": [{ "key": { "b": 1 }, "name": "b", "frob": 1 }] },
        doc! { "createIndexes": "c", "indexes": [] },
        doc! { "createIndexes": "new", "indexes": [{ "key": { "a": 1 }, "name": "a_1", "unique": true, "sparse": true }] },
        doc! { "listIndexes": "c" },
        doc! { "listIndexes": "new" },
        doc! { "listIndexes": "missing" },
        doc! { "insert": "new", "documents": [{ "_id": 1, "a": 1 }, { "_id": 2, "a": 1 }] },
        doc! { "findAndModify": "new", "query": { "_id": 2 }, "update": { "$set": { "a": 1 } }, "upsert": true },
        doc! { "dropIndexes": "c", "index": "missing" },
        doc! { "dropIndexes": "c", "index": "_id_" },
        doc! { "dropIndexes": "c", "index": "a_1" },
        doc! { "dropIndexes": "missing", "index": "*" },
        doc! { "dropIndexes": "new", "index": "*" },
        doc! { "dropIndexes": "c", "index": { "zzz": 1 } },
        doc! { "collMod": "missing" },
        doc! { "listCollections": 1, "nameOnly": true, "filter": { "name": "c" } },
        doc! { "listDatabases": 1 },
        doc! { "getMore": 77_i64, "collection": "c" },
        doc! { "killCursors": "c", "cursors": [77_i64] },
        doc! { "killCursors": "c" },
        doc! { "commitTransaction": 1 },
        doc! { "drop": "new" },
        doc! { "drop": "new" },
        doc! { "insert": "c", "documents": [{ "_id": 100 }], "writeConcern": { "w": -1 } },
        doc! { "endSessions": [] },
        doc! { "dropDatabase": 1 },
        doc! { "dropDatabase": 1 },
        doc! { "listCollections": 1 },
    ]
}

#[tokio::test]
async fn replies_and_errors_are_those_of_a_real_server() {
    let name = format!("odm_wire_{}", std::process::id());
    compare_servers(&name, session(&name)).await;
}

/// Runs commands on both servers, and compares the replies.
pub(crate) async fn compare_servers(name: &str, commands: Vec<Document>) {
    let real = odm_mongod::replica_set().await;
    let real = Client::with_uri_str(real.fresh_url()).await.unwrap();
    let server = TestServer::writable().await;
    let ours = server.client().await;
    let (real, ours) = (real.database(name), ours.database(name));
    let mut differences = Vec::new();
    for command in commands {
        let (expected, actual) = (run(&real, &command).await, run(&ours, &command).await);
        if !is_same(&expected.clone().into(), &actual.clone().into()) {
            differences.push(format!(
                "{command}\n  MongoDB: {expected}\n  server:  {actual}"
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
