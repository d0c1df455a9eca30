//! `Database::serve`: a running application behind MongoDB's wire protocol.

use std::time::Duration;

use bson::{Document as BsonDocument, doc};
use mongodb::{Client, options::ClientOptions};
use odm::{ErrorKind, prelude::*};

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

#[derive(Schema)]
#[schema(models(Part))]
struct Shop;

type Db = odm::Database<Shop>;

async fn client(url: &str) -> Client {
    let mut options = ClientOptions::parse(url).await.unwrap();
    options.server_selection_timeout = Some(Duration::from_secs(3));
    Client::with_options(options).unwrap()
}

#[tokio::test]
async fn a_driver_looks_into_a_running_application() {
    let db = Db::open("memory:").await.unwrap();
    let server = db.serve("127.0.0.1:0").await.unwrap();
    let url = server.url().to_owned();
    let wheel = Part {
        id: 7,
        name: "wheel".into(),
    };
    db.insert(wheel).await.unwrap();
    let database = client(&url).await.database("odm");
    let parts = database.collection::<BsonDocument>("parts");
    let found = parts.find_one(doc! { "name": "wheel" }).await.unwrap();
    assert_eq!(found.unwrap().get_i64("_id").unwrap(), 7);
    assert!(parts.delete_many(doc! {}).await.is_err());
    assert_eq!(db.find::<Part>().count().await.unwrap(), 1);
    drop(server);
    let database = client(&url).await.database("odm");
    assert!(database.run_command(doc! { "ping": 1 }).await.is_err());
}

#[tokio::test]
async fn only_a_loopback_address_of_an_embedded_database_is_served() {
    let db = Db::open("memory:").await.unwrap();
    for address in ["0.0.0.0:0", "127.0.0.1", "127.0.0.1:port"] {
        let refused = db.serve(address).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        let message = refused.to_string();
        assert!(message.contains("`127.0.0.1:port`"), "{message}");
    }
    let server = db.serve("127.0.0.1:0").await.unwrap();
    let address = server
        .url()
        .trim_start_matches("mongodb://")
        .trim_end_matches("/odm");
    let in_use = db.serve(address).await.unwrap_err();
    assert_eq!(in_use.kind(), ErrorKind::Io);
    assert!(in_use.cause().is_some());
    let real = odm_mongod::standalone().await;
    let real = Db::open(real.fresh_url()).await.unwrap();
    let refused = real.serve("127.0.0.1:0").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
}
