use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc, rawdoc};
use odm_engine::Database;
use odm_wire::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::{Builder, Runtime};

use crate::collections::assert_valid_bson;
use crate::generate::Generator;

const HEADER_BYTES: usize = 16;
const OP_MSG: i32 = 2013;

/// The id of the last request, by which the client recognizes the last reply.
const LAST_REQUEST: i32 = i32::MAX;

/// Tests a client that sends arbitrary bytes, or commands with arbitrary arguments and some wrong bytes. Every reply is valid, the
/// server always answers or closes the connection, and the database stays sound.
pub fn wire(data: &[u8]) {
    let mut generator = Generator::new(data);
    let input = match generator.below(4) {
        0 => data.get(1..).unwrap_or_default().to_vec(),
        _ => commands(&mut generator),
    };
    let database = Database::memory();
    let inserted = database.insert("c", vec![rawdoc! { "_id": 1, "a": 1 }]);
    let inserted = inserted.expect("it is a document").into_result();
    assert_eq!(inserted.ok(), Some(1));
    let replies = runtime().block_on(exchange(&database, &input));
    check_replies(&replies);
    database.validate().expect("the stored data is sound");
}

/// Returns a runtime with a paused clock. The clock jumps to the next deadline when all tasks wait, so a time limit takes no time.
fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    let builder = builder.enable_time().start_paused(true);
    builder.build().expect("a runtime needs no resources")
}

/// Sends the input and a last message to a server. Returns the bytes until the last reply, or until the server closes the stream.
async fn exchange(database: &Database, input: &[u8]) -> Vec<u8> {
    let (mut client, stream) = tokio::io::duplex(1 << 20);
    let server = Server::builder(database.clone()).allow_writes();
    let serve = async {
        // An error of the stream is the end of the connection.
        let _ = server.serve_stream(stream).await;
    };
    let ask = async {
        // The server may close the stream before the end of the input.
        let _ = client.write_all(input).await;
        let ping = message(LAST_REQUEST, 0, &rawdoc! { "ping": 1, "$db": "admin" });
        let _ = client.write_all(&ping).await;
        let replies = read_replies(&mut client).await;
        drop(client);
        replies
    };
    tokio::join!(ask, serve).0
}

async fn read_replies(client: &mut DuplexStream) -> Vec<u8> {
    let mut replies = Vec::new();
    loop {
        let mut header = [0; HEADER_BYTES];
        if client.read_exact(&mut header).await.is_err() {
            return replies;
        }
        let mut payload = vec![0; length_of(&header) - HEADER_BYTES];
        let read = client.read_exact(&mut payload).await;
        read.expect("a reply is whole");
        replies.extend_from_slice(&header);
        replies.extend_from_slice(&payload);
        if number(&header, 8) == LAST_REQUEST {
            return replies;
        }
    }
}

fn number(bytes: &[u8], position: usize) -> i32 {
    let bytes = bytes.get(position..position + 4).expect("a reply is whole");
    i32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

fn length_of(header: &[u8]) -> usize {
    let length = usize::try_from(number(header, 0)).expect("a length is positive");
    assert!(length > HEADER_BYTES, "a reply has a document");
    length
}

/// Every reply has a document with `ok`.
fn check_replies(mut replies: &[u8]) {
    while !replies.is_empty() {
        let (reply, rest) = replies.split_at(length_of(replies));
        let start = match number(reply, 12) {
            OP_MSG => HEADER_BYTES + 4 + 1,
            _ => HEADER_BYTES + 20,
        };
        let document = reply.get(start..).expect("a reply has a document");
        let length = usize::try_from(number(document, 0)).expect("a length is positive");
        let document = document.get(..length).expect("a document is whole");
        let document = RawDocument::from_bytes(document).expect("a reply is BSON");
        assert_valid_bson(document);
        document.get_f64("ok").expect("a reply has `ok`");
        replies = rest;
    }
}

/// Returns the bytes of an `OP_MSG`.
fn message(request: i32, flags: u32, body: &RawDocumentBuf) -> Vec<u8> {
    let length = HEADER_BYTES + 5 + body.as_bytes().len();
    let length = i32::try_from(length).expect("a body is small");
    let header = [length, request, 0, OP_MSG].map(i32::to_le_bytes);
    [
        &header.concat()[..],
        &flags.to_le_bytes(),
        &[0],
        body.as_bytes(),
    ]
    .concat()
}

/// Returns several commands, sometimes with a wrong byte.
fn commands(generator: &mut Generator<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for request in 0..=generator.below(6) {
        let command = command(generator);
        // Sometimes without a reply, and sometimes with an unknown flag.
        let flags = match generator.below(8) {
            0 => 2,
            1 => u32::from(generator.byte()),
            _ => 0,
        };
        let request = i32::try_from(request).expect("a small number");
        bytes.extend(message(request, flags, &command));
    }
    if generator.one_in(4) {
        let position = generator.below(bytes.len());
        if let Some(byte) = bytes.get_mut(position) {
            *byte = generator.byte();
        }
    }
    bytes
}

fn command(generator: &mut Generator<'_>) -> RawDocumentBuf {
    let filter = parsed(&generator.filter());
    let mut command = match generator.below(20) {
        0 => doc! { "find": "c", "filter": filter, "batchSize": generator.below(3) as i32 },
        1 => {
            doc! { "find": "c", "sort": parsed(&generator.sort()), "projection": parsed(&generator.projection()) }
        }
        2 => doc! { "getMore": generator.below(3) as i64, "collection": "c" },
        3 => doc! { "count": "c", "query": filter, "skip": generator.scalar() },
        4 => doc! { "distinct": "c", "key": generator.path(), "query": filter },
        5 => doc! { "aggregate": "c", "pipeline": generator.stages(2, &[]), "cursor": {} },
        6 => {
            doc! { "aggregate": "c", "pipeline": [{ "$changeStream": generator.document(1) }], "cursor": {} }
        }
        7 => doc! { "insert": "c", "documents": documents(generator) },
        8 => {
            doc! { "update": "c", "updates": [{ "q": filter, "u": parsed(&generator.update()), "multi": true }] }
        }
        9 => {
            doc! { "update": "c", "updates": [{ "q": filter, "u": generator.transforms(), "upsert": true }] }
        }
        10 => {
            doc! { "delete": "c", "deletes": [{ "q": filter, "limit": generator.below(3) as i32 }] }
        }
        11 => {
            doc! { "findAndModify": "c", "query": filter, "update": parsed(&generator.update()), "new": generator.one_in(2) }
        }
        12 => doc! { "createIndexes": "c", "indexes": [parsed(&generator.index().to_document())] },
        13 => doc! { "dropIndexes": "c", "index": generator.scalar() },
        14 => doc! { "explain": { "find": "c", "filter": filter }, "verbosity": "executionStats" },
        15 => doc! { "hello": 1, "speculativeAuthenticate": generator.document(2) },
        16 => doc! { "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": generator.scalar() },
        17 => doc! { "listCollections": 1, "filter": filter },
        18 => doc! { "drop": generator.path() },
        _ => doc! { "collMod": "c", "index": generator.document(2) },
    };
    command.insert("$db", ["test", "odm", "admin"][generator.below(3)]);
    add_generic_arguments(generator, &mut command);
    RawDocumentBuf::try_from(&command).unwrap_or_default()
}

fn documents(generator: &mut Generator<'_>) -> Vec<Document> {
    let documents = generator.documents();
    documents.iter().map(|document| parsed(document)).collect()
}

fn parsed(document: &RawDocument) -> Document {
    Document::try_from(document).expect("a generated document is BSON")
}

/// Adds arguments that every command has, some with wrong types, and arguments that no command has.
fn add_generic_arguments(generator: &mut Generator<'_>, command: &mut Document) {
    const NAMES: [&str; 10] = [
        "apiVersion",
        "autocommit",
        "batchSize",
        "lsid",
        "maxTimeMS",
        "readConcern",
        "startTransaction",
        "txnNumber",
        "unknown",
        "writeConcern",
    ];
    while generator.one_in(3) {
        let name = NAMES[generator.below(NAMES.len())];
        let value = match generator.one_in(2) {
            true => generator.value(2),
            false => usual_value(name),
        };
        command.insert(name, value);
    }
}

/// Returns a value that makes a transaction likely.
fn usual_value(name: &str) -> Bson {
    match name {
        "apiVersion" => "1".into(),
        "autocommit" => false.into(),
        "lsid" => {
            let subtype = bson::spec::BinarySubtype::Uuid;
            let bytes = vec![1; 16];
            doc! { "id": bson::Binary { subtype, bytes } }.into()
        }
        "startTransaction" => true.into(),
        "readConcern" => doc! { "level": "snapshot" }.into(),
        "writeConcern" => doc! { "w": 1, "j": true }.into(),
        _ => 1_i64.into(),
    }
}
