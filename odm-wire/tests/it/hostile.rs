//! Clients that break the protocol, or that use it to exhaust the server.

use std::time::{Duration, Instant};

use bson::{Document, RawDocumentBuf, doc, rawdoc};
use odm_engine::Database;
use odm_wire::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::TestServer;

const OP_MSG: i32 = 2013;
const OP_COMPRESSED: i32 = 2012;
const OP_QUERY: i32 = 2004;
const MAX_MESSAGE_BYTES: i32 = 48_000_000;
const LIMIT: Duration = Duration::from_secs(20);

fn header(length: i32, operation: i32) -> Vec<u8> {
    [length, 1, 0, operation].map(i32::to_le_bytes).concat()
}

fn op_msg(body: &RawDocumentBuf) -> Vec<u8> {
    let payload = [&[0; 5], body.as_bytes()].concat();
    let length = i32::try_from(16 + payload.len()).unwrap();
    [header(length, OP_MSG), payload].concat()
}

fn ping() -> Vec<u8> {
    op_msg(&rawdoc! { "ping": 1, "$db": "admin" })
}

async fn read_reply(stream: &mut TcpStream) -> std::io::Result<Document> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    let length = usize::try_from(i32::from_le_bytes(length)).unwrap();
    let mut rest = vec![0; length - 4];
    stream.read_exact(&mut rest).await?;
    // The rest of the header, the flags, and the kind of the section.
    Ok(bson::deserialize_from_slice(&rest[12 + 4 + 1..]).unwrap())
}

async fn connect(server: &TestServer) -> TcpStream {
    TcpStream::connect(server.address).await.unwrap()
}

async fn assert_answers(server: &TestServer) {
    let mut stream = connect(server).await;
    stream.write_all(&ping()).await.unwrap();
    let reply = timeout(LIMIT, read_reply(&mut stream))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(reply.get_f64("ok").unwrap(), 1.0);
}

#[tokio::test]
async fn bad_headers_get_an_error_and_the_end_of_the_connection() {
    let server = TestServer::writable().await;
    for (length, operation, expected) in [
        (MAX_MESSAGE_BYTES + 1, OP_MSG, "length"),
        (i32::MAX, OP_MSG, "length"),
        (-1, OP_MSG, "length"),
        (0, OP_MSG, "length"),
        (15, OP_MSG, "length"),
        (100, OP_COMPRESSED, "compressed"),
        (100, OP_QUERY + 1, "not supported"),
        (17, OP_MSG, "too short"),
    ] {
        let mut stream = connect(&server).await;
        let mut bytes = header(length, operation);
        bytes.extend_from_slice(&[0]);
        stream.write_all(&bytes).await.unwrap();
        let reply = timeout(LIMIT, read_reply(&mut stream))
            .await
            .unwrap()
            .unwrap();
        let message = reply.get_str("errmsg").unwrap();
        assert!(
            message.contains(expected),
            "{length} {operation}: {message}"
        );
        assert_eq!(reply.get_str("codeName").unwrap(), "ProtocolError");
        let mut rest = Vec::new();
        // The end of the connection, or a reset because of unread bytes.
        let end = timeout(LIMIT, stream.read_to_end(&mut rest)).await.unwrap();
        assert!(end.is_err() || rest.is_empty());
    }
    assert_answers(&server).await;
}

#[tokio::test]
async fn only_hello_may_have_the_format_of_old_servers() {
    let server = TestServer::writable().await;
    let mut stream = connect(&server).await;
    for (command, code) in [
        (rawdoc! { "isMaster": 1 }, None),
        (rawdoc! { "ping": 1 }, Some(352)),
    ] {
        let numbers = [0_i32, -1].map(i32::to_le_bytes).concat();
        let payload = [&[0; 4], &b"admin.$cmd\0"[..], &numbers, command.as_bytes()].concat();
        let length = i32::try_from(16 + payload.len()).unwrap();
        stream.write_all(&header(length, OP_QUERY)).await.unwrap();
        stream.write_all(&payload).await.unwrap();
        let mut reply = [0; 16 + 20];
        timeout(LIMIT, stream.read_exact(&mut reply))
            .await
            .unwrap()
            .unwrap();
        let length = usize::try_from(i32::from_le_bytes(reply[..4].try_into().unwrap())).unwrap();
        let mut document = vec![0; length - reply.len()];
        stream.read_exact(&mut document).await.unwrap();
        let document: Document = bson::deserialize_from_slice(&document).unwrap();
        assert_eq!(document.get_i32("code").ok(), code, "{document}");
    }
}

#[tokio::test]
async fn malformed_documents_are_errors() {
    let server = TestServer::writable().await;
    let mut deep = rawdoc! {};
    for _ in 0..5_000 {
        deep = rawdoc! { "a": deep };
    }
    let mut stream = connect(&server).await;
    for command in [
        rawdoc! { "find": "c", "filter": deep.clone(), "$db": "test" },
        rawdoc! { "insert": "c", "documents": [deep.clone()], "$db": "test" },
        rawdoc! { "aggregate": "c", "pipeline": [{ "$match": deep.clone() }], "cursor": {}, "$db": "test" },
        rawdoc! { "explain": { "explain": { "find": "c" } }, "$db": "test" },
        rawdoc! { "ping": 1 },
        rawdoc! { "$db": "test" },
        rawdoc! {},
    ] {
        stream.write_all(&op_msg(&command)).await.unwrap();
        let reply = timeout(LIMIT, read_reply(&mut stream))
            .await
            .unwrap()
            .unwrap();
        let failed = reply.get_f64("ok").unwrap() == 0.0 || reply.contains_key("writeErrors");
        assert!(failed, "{reply}");
        assert_ne!(reply.get_i32("code").unwrap_or(0), 1, "{reply}");
    }
    // A document with a wrong length inside of a message with a right length.
    let mut bytes = ping();
    bytes[21] = 200;
    stream.write_all(&bytes).await.unwrap();
    let reply = timeout(LIMIT, read_reply(&mut stream))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(reply.get_str("codeName").unwrap(), "ProtocolError");
    assert_answers(&server).await;
}

#[tokio::test]
async fn the_largest_message_is_accepted() {
    let server = TestServer::writable().await;
    let client = server.client().await;
    let text = "x".repeat(15 << 20);
    let documents = (0..3).map(|id| doc! { "_id": id, "text": &text });
    let large = client.database("test").collection::<Document>("large");
    large.insert_many(documents).await.unwrap();
    // Exactly 48,000,000 bytes: the server reads the message to its end, and answers.
    let fixed = rawdoc! { "ping": 1, "$db": "admin", "comment": "" };
    let text = "x".repeat(48_000_000 - 16 - 5 - fixed.as_bytes().len());
    let message = op_msg(&rawdoc! { "ping": 1, "$db": "admin", "comment": text });
    assert_eq!(message.len(), 48_000_000);
    let mut stream = connect(&server).await;
    stream.write_all(&message).await.unwrap();
    let reply = timeout(LIMIT, read_reply(&mut stream))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(reply.get_f64("ok").unwrap(), 1.0);
}

#[tokio::test]
async fn a_reply_over_the_limit_of_a_message_is_an_error() {
    let server = TestServer::writable().await;
    // The error of an unknown command repeats the name.
    let name = bson::raw::CString::try_from("x".repeat(47_999_900)).unwrap();
    let mut command = RawDocumentBuf::new();
    command.append(&name, 1);
    command.append(bson::raw::cstr!("$db"), "admin");
    let mut stream = connect(&server).await;
    stream.write_all(&op_msg(&command)).await.unwrap();
    let reply = timeout(LIMIT, read_reply(&mut stream))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(reply.get_str("codeName").unwrap(), "BSONObjectTooLarge");
    // The connection stays open.
    stream.write_all(&ping()).await.unwrap();
    let reply = timeout(LIMIT, read_reply(&mut stream)).await.unwrap();
    assert_eq!(reply.unwrap().get_f64("ok").unwrap(), 1.0);
}

#[tokio::test]
async fn distinct_values_have_a_maximum_size() {
    let server = TestServer::writable().await;
    let database = server.client().await.database("test");
    let large = database.collection::<Document>("large");
    for id in 0..3 {
        let text = id.to_string().repeat(6 << 20);
        large
            .insert_one(doc! { "_id": id, "text": text })
            .await
            .unwrap();
    }
    let two = large.distinct("text", doc! { "_id": { "$lt": 2 } }).await;
    assert_eq!(two.unwrap().len(), 2);
    let error = large.distinct("text", doc! {}).await.unwrap_err();
    let mongodb::error::ErrorKind::Command(failure) = *error.kind else {
        panic!("{error}");
    };
    assert_eq!(failure.code, 17217);
}

/// A check of each field against all earlier fields would stop the thread of the connection for minutes.
#[tokio::test]
async fn a_command_with_many_fields_is_refused_at_once() {
    let server = TestServer::writable().await;
    let mut command = rawdoc! { "ping": 1, "$db": "admin" };
    for field in 0..200_000 {
        let name = bson::raw::CString::try_from(format!("f{field}")).unwrap();
        command.append(&name, 1);
    }
    let mut stream = connect(&server).await;
    stream.write_all(&op_msg(&command)).await.unwrap();
    let reply = timeout(LIMIT, read_reply(&mut stream))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(reply.get_i32("code").unwrap(), 40415);
}

#[tokio::test]
async fn many_connections_open_and_close() {
    let count: usize =
        std::env::var("ODM_CONNECTIONS").map_or(1_000, |count| count.parse().unwrap());
    let server = TestServer::start(Server::builder(Database::memory()).max_connections(100)).await;
    let message = ping();
    for number in 0..count {
        let mut stream = connect(&server).await;
        // Some clients close the connection at once, in the middle of a message, or without a look at the reply.
        match number % 4 {
            0 => {}
            1 => stream
                .write_all(&message[..number % message.len()])
                .await
                .unwrap(),
            2 => stream.write_all(&message).await.unwrap(),
            _ => {
                // The server may be busy with the end of earlier connections, and close this one.
                if stream.write_all(&message).await.is_ok() {
                    let _ = timeout(LIMIT, read_reply(&mut stream)).await.unwrap();
                }
            }
        }
    }
    // All connections end.
    let started = Instant::now();
    loop {
        let client = server.client().await;
        let status = client
            .database("admin")
            .run_command(doc! { "serverStatus": 1 })
            .await;
        let current = status.ok().and_then(|status| {
            let connections = status.get_document("connections").ok()?;
            connections.get_i32("current").ok()
        });
        // The connections of this client.
        if current.is_some_and(|current| current <= 10) {
            return;
        }
        assert!(
            started.elapsed() < LIMIT,
            "{current:?} connections stay open"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_connection_over_the_limit_is_closed() {
    let server = TestServer::start(Server::builder(Database::memory()).max_connections(3)).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut stream = connect(&server).await;
        stream.write_all(&ping()).await.unwrap();
        read_reply(&mut stream).await.unwrap();
        open.push(stream);
    }
    let mut fourth = connect(&server).await;
    let mut bytes = Vec::new();
    let end = timeout(LIMIT, fourth.read_to_end(&mut bytes))
        .await
        .unwrap();
    assert!(end.is_err() || bytes.is_empty());
    drop(open.pop());
    for _ in 0..200 {
        let mut stream = connect(&server).await;
        if stream.write_all(&ping()).await.is_ok() && read_reply(&mut stream).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("a closed connection makes no room");
}

/// A client that asks for large replies and never reads must not take the memory, and must not stop other clients.
#[tokio::test]
async fn a_client_that_never_reads_does_not_stop_others() {
    let server = TestServer::writable().await;
    let client = server.client().await;
    let large = client.database("test").collection::<Document>("large");
    large
        .insert_one(doc! { "text": "x".repeat(15 << 20) })
        .await
        .unwrap();
    let find = op_msg(&rawdoc! { "find": "large", "$db": "test" });
    let mut streams = Vec::new();
    for _ in 0..30 {
        let mut stream = connect(&server).await;
        // The second and the third request wait in the buffers of the connection.
        for _ in 0..3 {
            stream.write_all(&find).await.unwrap();
        }
        streams.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let started = Instant::now();
    for _ in 0..20 {
        assert_answers(&server).await;
    }
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
}

/// The operation of a client that has gone ends, also without a time limit.
#[tokio::test]
async fn the_query_of_a_gone_client_is_cancelled() {
    let engine = Database::memory();
    let documents = (0..20_000)
        .map(|n| rawdoc! { "_id": n, "n": n % 10 })
        .collect();
    engine
        .insert("numbers", documents)
        .unwrap()
        .into_result()
        .unwrap();
    let server = TestServer::start(Server::builder(engine)).await;
    let endless = rawdoc! {
        "aggregate": "numbers",
        "pipeline": [
            { "$lookup": { "from": "numbers", "pipeline": [{ "$match": { "n": { "$lt": 5 } } }, { "$count": "n" }], "as": "all" } },
            { "$group": { "_id": null, "n": { "$sum": 1 } } },
        ],
        "cursor": {},
        "$db": "odm",
    };
    // More than the number of operations that run at once.
    for _ in 0..80 {
        let mut stream = connect(&server).await;
        stream.write_all(&op_msg(&endless)).await.unwrap();
    }
    let client = server.client().await;
    let find = client.database("odm").collection::<Document>("numbers");
    let found = timeout(LIMIT, find.find_one(doc! { "_id": 1 })).await;
    assert!(found.expect("the operations go on").unwrap().is_some());
}
