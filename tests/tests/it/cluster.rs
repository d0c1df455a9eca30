//! Sharding against a fake router. The router answers like `mongos`, records the commands, and stores the shard keys of
//! collections. So the tests check only the sent commands: the router has no documents.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use bson::{Bson, Document, doc};
use odm::{backend::operation::ShardKey, prelude::*};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "orders", shard_key(customer, id))]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(rename = "c")]
    customer: String,
    total: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "visits", shard_key(region, hashed(id)))]
struct Visit {
    #[serde(rename = "_id")]
    id: i64,
    region: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "regions")]
struct Region {
    #[serde(rename = "_id")]
    id: String,
}

#[derive(Schema)]
#[schema(models(Order, Visit, Region))]
struct Shop;
type Db = odm::Database<Shop>;

fn key(fields: &[&str], hashed: Option<&str>) -> ShardKey {
    ShardKey {
        fields: fields.iter().map(ToString::to_string).collect(),
        hashed: hashed.map(ToOwned::to_owned),
    }
}

#[tokio::test]
async fn collections_are_sharded_by_the_declared_key() {
    let router = FakeRouter::start();
    let db = Db::open(router.url()).await.expect("a router");
    let capabilities = db.backend().capabilities();
    assert!(capabilities.sharding && capabilities.transactions && capabilities.change_streams);

    let report = db.sync_indexes().await.expect("sharded");
    assert_eq!(
        report.sharded,
        [
            ("orders".to_owned(), key(&["c", "_id"], None)),
            ("visits".to_owned(), key(&["region", "_id"], Some("_id"))),
        ]
    );
    assert!(report.unsharded.is_empty() && report.differently_sharded.is_empty());
    assert!(
        report
            .to_string()
            .ends_with("sharded    orders by (c, _id)\nsharded    visits by (region, hashed _id)"),
        "{report}"
    );
    // `sync_indexes` creates the index before it shards the collection, and skips models without a shard key.
    let commands = router.recorded_commands(&["createIndexes", "shardCollection"]);
    assert_eq!(
        commands,
        [
            doc! { "createIndexes": "orders", "indexes": [
                { "key": { "c": 1, "_id": 1 }, "name": "c_1__id_1", "collation": { "locale": "simple" } },
            ], "$db": "shop" },
            doc! { "shardCollection": "shop.orders", "key": { "c": 1, "_id": 1 }, "$db": "admin" },
            doc! { "createIndexes": "visits", "indexes": [
                { "key": { "region": 1, "_id": "hashed" }, "name": "region_1__id_hashed", "collation": { "locale": "simple" } },
            ], "$db": "shop" },
            doc! { "shardCollection": "shop.visits", "key": { "region": 1, "_id": "hashed" }, "$db": "admin" },
        ]
    );

    // A second call changes no collection.
    let second = db.sync_indexes().await.expect("as it is");
    assert!(
        second.sharded.is_empty() && second.differently_sharded.is_empty(),
        "{second}"
    );
    assert_eq!(router.recorded_commands(&["shardCollection"]).len(), 2);
}

#[tokio::test]
async fn differently_sharded_collections_are_unchanged() {
    let router = FakeRouter::start();
    router.shard("shop.orders", doc! { "key": { "c": "hashed" } });
    router.shard(
        "shop.visits",
        doc! { "key": { "_id": 1 }, "unsplittable": true },
    );
    let db = Db::open(router.url()).await.expect("a router");
    let report = db
        .sync_indexes()
        .replace_differing()
        .drop_undeclared()
        .await
        .expect("a report");
    assert_eq!(
        report.differently_sharded,
        [(
            "orders".to_owned(),
            key(&["c", "_id"], None),
            key(&["c"], Some("c"))
        )]
    );
    let line = "differs    orders is sharded by (hashed c), declared as (c, _id): left as it is";
    assert!(report.to_string().contains(line), "{report}");
    // A collection on a single shard (`unsplittable`) counts as unsharded.
    let commands = router.recorded_commands(&["shardCollection"]);
    let names: Vec<_> = commands
        .iter()
        .map(|command| command.get_str("shardCollection").unwrap())
        .collect();
    assert_eq!(names, ["shop.visits"]);
}

#[tokio::test]
async fn single_document_commands_contain_the_shard_key() {
    let router = FakeRouter::start();
    let db = Db::open(router.url()).await.expect("a router");
    let order = Order {
        id: 1,
        customer: "acme".into(),
        total: 5,
    };
    let key = |id| OrderKey {
        id,
        customer: "acme".into(),
    };
    db.update::<Order>(&order)
        .inc(|o| o.total(), 1)
        .await
        .expect("updated");
    db.delete::<Order>(key(1)).await.expect("deleted");
    let found = db
        .update::<Order>(key(1))
        .when(|o| o.total().gt(5))
        .inc(|o| o.total(), 1)
        .returning_after();
    assert_eq!(found.await.expect("an answer").applied(), None);
    let deleted = db
        .delete::<Order>(&order)
        .returning()
        .await
        .expect("an answer");
    assert_eq!(deleted.applied(), None);
    // A bulk sends an update as an upsert, if the report needs to know whether the update matched. A router rejects an upsert
    // without the shard key.
    let updates = (1..4).map(|id| db.update::<Order>(key(id)).inc(|o| o.total(), 1));
    let deletes = (1..4).map(|id| db.delete::<Order>(key(id)));
    let report = db
        .bulk()
        .add_all(updates)
        .add_all(deletes)
        .await
        .expect("a report");
    assert!(report.is_ok(), "{report:?}");

    let mut filters = Vec::new();
    for command in router.recorded_commands(&["update", "delete", "findAndModify"]) {
        for statement in ["updates", "deletes"] {
            let each = command.get_array(statement).into_iter().flatten();
            filters.extend(each.map(|each| {
                each.as_document()
                    .unwrap()
                    .get_document("q")
                    .unwrap()
                    .clone()
            }));
        }
        filters.extend(command.get_document("query").ok().cloned());
    }
    assert_eq!(filters.len(), 2 + 2 + 6);
    for filter in filters {
        let id = filter.get_document("_id").expect("an id").get_i64("$eq");
        assert!(id.is_ok_and(|id| (1..4).contains(&id)), "{filter}");
        assert_eq!(
            filter.get_document("c").expect("the key"),
            &doc! { "$eq": "acme" }
        );
    }
}

/// A fake router.
struct FakeRouter {
    port: u16,
    cluster: Arc<Mutex<FakeCluster>>,
}

#[derive(Default)]
struct FakeCluster {
    recorded: Vec<Document>,
    /// The shard keys by namespace, as in `config.collections`.
    collections: BTreeMap<String, Document>,
}

impl FakeRouter {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let cluster = Arc::<Mutex<FakeCluster>>::default();
        let shared = Arc::clone(&cluster);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let cluster = Arc::clone(&shared);
                // The thread ends with the connection.
                thread::spawn(move || serve(stream, &cluster));
            }
        });
        Self { port, cluster }
    }

    fn url(&self) -> String {
        format!("mongodb://127.0.0.1:{}/shop", self.port)
    }

    fn shard(&self, namespace: &str, known: Document) {
        let mut cluster = self.cluster.lock().expect("no panic");
        cluster.collections.insert(namespace.to_owned(), known);
    }

    /// Returns the recorded commands with these names, without the fields that the driver adds to each command.
    fn recorded_commands(&self, names: &[&str]) -> Vec<Document> {
        let recorded = self.cluster.lock().expect("no panic").recorded.clone();
        let is_named = |command: &Document| {
            command
                .keys()
                .next()
                .is_some_and(|name| names.contains(&name.as_str()))
        };
        let mut commands: Vec<_> = recorded.into_iter().filter(is_named).collect();
        for command in &mut commands {
            for added in ["lsid", "txnNumber", "writeConcern", "$clusterTime"] {
                command.remove(added);
            }
        }
        commands
    }
}

fn serve(mut stream: TcpStream, cluster: &Mutex<FakeCluster>) -> io::Result<()> {
    loop {
        let (request, command) = receive(&mut stream)?;
        let answer = cluster.lock().expect("no panic").answer(command);
        let body = answer.to_vec().map_err(io::Error::other)?;
        let length = i32::try_from(16 + 4 + 1 + body.len()).map_err(io::Error::other)?;
        let mut message = Vec::new();
        for number in [length, 0, request, OP_MSG, 0] {
            message.extend(number.to_le_bytes());
        }
        message.push(0);
        message.extend(body);
        stream.write_all(&message)?;
    }
}

const OP_MSG: i32 = 2013;

/// Receives a request, and returns its id and command.
fn receive(stream: &mut TcpStream) -> io::Result<(i32, Document)> {
    let mut header = [[0; 4]; 4];
    for number in &mut header {
        stream.read_exact(number)?;
    }
    let [length, request, _, code] = header.map(i32::from_le_bytes);
    assert_eq!(code, OP_MSG);
    let mut message = vec![0; usize::try_from(length).map_err(io::Error::other)? - 16];
    stream.read_exact(&mut message)?;
    let has_checksum = message[0] & 1 == 1;
    let end = message.len() - if has_checksum { 4 } else { 0 };
    let mut rest = &message[4..end];
    let mut command = Document::new();
    while let Some((kind, mut section)) = rest.split_first() {
        if *kind == 0 {
            let body = Document::from_reader(&mut section).map_err(io::Error::other)?;
            command.extend(body);
            rest = section;
            continue;
        }
        // A document sequence: the section stands for an array of the command.
        let length = i32::from_le_bytes([section[0], section[1], section[2], section[3]]);
        let (documents, remaining) =
            section.split_at(usize::try_from(length).map_err(io::Error::other)?);
        let name = documents[4..]
            .iter()
            .take_while(|byte| **byte != 0)
            .copied()
            .collect();
        let name = String::from_utf8(name).map_err(io::Error::other)?;
        let mut documents = &documents[4 + name.len() + 1..];
        let mut array = Vec::new();
        while !documents.is_empty() {
            let document = Document::from_reader(&mut documents).map_err(io::Error::other)?;
            array.push(Bson::Document(document));
        }
        command.insert(name, array);
        rest = remaining;
    }
    Ok((request, command))
}

impl FakeCluster {
    fn answer(&mut self, command: Document) -> Document {
        let name = command.keys().next().cloned().unwrap_or_default();
        let cursor = |first: Vec<Document>| doc! { "cursor": { "id": 0_i64, "ns": "a.b", "firstBatch": first }, "ok": 1 };
        let count = |array: &str| {
            let each = command.get_array(array).map_or(0, Vec::len);
            i32::try_from(each).expect("few")
        };
        let answer = match name.as_str() {
            "hello" | "isMaster" | "ismaster" => doc! {
                "helloOk": true,
                "ismaster": true,
                "isWritablePrimary": true,
                "msg": "isdbgrid",
                "maxBsonObjectSize": 16 * 1024 * 1024,
                "maxMessageSizeBytes": 48_000_000,
                "maxWriteBatchSize": 100_000,
                "localTime": DateTime::now(),
                "logicalSessionTimeoutMinutes": 30,
                "minWireVersion": 0,
                "maxWireVersion": 17,
                "ok": 1,
            },
            "listIndexes" => cursor(Vec::new()),
            "find" if command.get_str("$db").is_ok_and(|name| name == "config") => {
                let id = command
                    .get_document("filter")
                    .and_then(|filter| filter.get_str("_id"));
                let known = id.ok().and_then(|id| self.collections.get(id));
                cursor(known.cloned().into_iter().collect())
            }
            "shardCollection" => {
                let namespace = command
                    .get_str("shardCollection")
                    .expect("a name")
                    .to_owned();
                let known = doc! { "key": command.get_document("key").expect("a key").clone() };
                self.collections.insert(namespace, known);
                doc! { "ok": 1 }
            }
            "update" => doc! { "n": count("updates"), "nModified": count("updates"), "ok": 1 },
            "delete" => doc! { "n": count("deletes"), "ok": 1 },
            "findAndModify" => doc! { "value": null, "ok": 1 },
            _ => doc! { "ok": 1 },
        };
        self.recorded.push(command);
        answer
    }
}
