//! A sharded cluster, as far as there is one here: a router that is none. It says that it is one, notes what it is told, and knows
//! which collections it has been told to shard. So what is tested is what is sent; no document is anywhere.

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
    let router = Router::start();
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
    assert!(report.unsharded.is_empty() && report.sharded_otherwise.is_empty());
    assert!(
        report
            .to_string()
            .ends_with("sharded    orders by (c, _id)\nsharded    visits by (region, hashed _id)"),
        "{report}"
    );
    // The index first, then the collection, and only what is sharded.
    let told = router.told(&["createIndexes", "shardCollection"]);
    assert_eq!(
        told,
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

    // Once is enough.
    let again = db.sync_indexes().await.expect("as it is");
    assert!(
        again.sharded.is_empty() && again.sharded_otherwise.is_empty(),
        "{again}"
    );
    assert_eq!(router.told(&["shardCollection"]).len(), 2);
}

#[tokio::test]
async fn what_is_sharded_otherwise_is_left_as_it_is() {
    let router = Router::start();
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
        report.sharded_otherwise,
        [(
            "orders".to_owned(),
            key(&["c", "_id"], None),
            key(&["c"], Some("c"))
        )]
    );
    let line = "differs    orders is sharded by (hashed c), declared as (c, _id): left as it is";
    assert!(report.to_string().contains(line), "{report}");
    // What the cluster knows as being on one shard is not sharded.
    let told = router.told(&["shardCollection"]);
    let names: Vec<_> = told
        .iter()
        .map(|told| told.get_str("shardCollection").unwrap())
        .collect();
    assert_eq!(names, ["shop.visits"]);
}

#[tokio::test]
async fn every_command_that_writes_one_document_says_the_shard() {
    let router = Router::start();
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
    let gone = db
        .delete::<Order>(&order)
        .returning()
        .await
        .expect("an answer");
    assert_eq!(gone.applied(), None);
    // Those of a bulk that must tell whether they matched are sent as upserts, which a router refuses without the key.
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
    for told in router.told(&["update", "delete", "findAndModify"]) {
        for statement in ["updates", "deletes"] {
            let each = told.get_array(statement).into_iter().flatten();
            filters.extend(each.map(|each| {
                each.as_document()
                    .unwrap()
                    .get_document("q")
                    .unwrap()
                    .clone()
            }));
        }
        filters.extend(told.get_document("query").ok().cloned());
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

/// What says that it is a router.
struct Router {
    port: u16,
    cluster: Arc<Mutex<Cluster>>,
}

#[derive(Default)]
struct Cluster {
    told: Vec<Document>,
    /// What it knows of collections.
    collections: BTreeMap<String, Document>,
}

impl Router {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let cluster = Arc::<Mutex<Cluster>>::default();
        let shared = Arc::clone(&cluster);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let cluster = Arc::clone(&shared);
                // It ends with the connection.
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

    /// The commands of these names, without what the driver adds to each.
    fn told(&self, names: &[&str]) -> Vec<Document> {
        let told = self.cluster.lock().expect("no panic").told.clone();
        let named = |told: &Document| {
            told.keys()
                .next()
                .is_some_and(|name| names.contains(&name.as_str()))
        };
        let mut told: Vec<_> = told.into_iter().filter(named).collect();
        for command in &mut told {
            for added in ["lsid", "txnNumber", "writeConcern", "$clusterTime"] {
                command.remove(added);
            }
        }
        told
    }
}

fn serve(mut stream: TcpStream, cluster: &Mutex<Cluster>) -> io::Result<()> {
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

/// The number of a request, and its command.
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
        // Documents that stand beside the command, in its place for an array.
        let length = i32::from_le_bytes([section[0], section[1], section[2], section[3]]);
        let (documents, behind) =
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
        rest = behind;
    }
    Ok((request, command))
}

impl Cluster {
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
                let asked = command
                    .get_document("filter")
                    .and_then(|filter| filter.get_str("_id"));
                let known = asked.ok().and_then(|asked| self.collections.get(asked));
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
        self.told.push(command);
        answer
    }
}
