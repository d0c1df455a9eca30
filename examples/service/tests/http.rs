//! The service over HTTP: each test starts an empty database and a server on a free port.
//!
//! The tests run in memory. With the feature `mongodb`, `ODM_TEST_URL` names a replica set instead, without a database:
//! `ODM_TEST_URL=mongodb://localhost/?replicaSet=rs0`. Each test then uses and drops a database of its own.

use std::{collections::BTreeSet, io, time::Duration};

use futures_util::future::join_all;
use odm::{assert_queries, testing::TestDb};
use odm_service::{
    models::{Db, Order, Review, Shop, Tenant},
    seed, serve,
};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

/// The maximum time until an event of a feed arrives, or the server stops.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// A server with an empty database.
struct TestServer {
    db: Db,
    /// Drops the database of a MongoDB server at the end.
    test_db: Option<TestDb<Shop>>,
    origin: String,
    http: reqwest::Client,
    stop: CancellationToken,
    task: JoinHandle<io::Result<()>>,
}

impl TestServer {
    async fn start() -> Self {
        let test_db = TestDb::new().await;
        let server = Self::serve(Db::clone(&test_db)).await;
        let test_db = Some(test_db);
        Self { test_db, ..server }
    }

    async fn serve(db: Db) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let task = tokio::spawn(serve(listener, db.clone(), stop.clone()));
        Self {
            db,
            test_db: None,
            origin,
            http: reqwest::Client::new(),
            stop,
            task,
        }
    }

    fn tenant(&self, name: &'static str) -> Client<'_> {
        Client { server: self, name }
    }

    /// Stops the server as a signal does, and closes the database.
    async fn end(self) {
        self.stop.cancel();
        let stopped = timeout(MAX_WAIT, self.task).await;
        stopped.expect("the server stops in time").unwrap().unwrap();
        self.db.close().await.unwrap();
    }
}

/// A client of one tenant.
#[derive(Clone, Copy)]
struct Client<'s> {
    server: &'s TestServer,
    name: &'static str,
}

impl Client<'_> {
    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.server.origin);
        let request = self.server.http.request(method, url);
        request.header("x-tenant", self.name)
    }

    async fn get(&self, path: &str) -> Answer {
        Answer::to(self.request(Method::GET, path)).await
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        Answer::to(self.request(Method::POST, path).json(&body)).await
    }

    async fn patch(&self, path: &str, body: Value) -> Answer {
        Answer::to(self.request(Method::PATCH, path).json(&body)).await
    }

    async fn delete(&self, path: &str) -> Answer {
        Answer::to(self.request(Method::DELETE, path)).await
    }

    /// Creates the category `tools`.
    async fn create_category(&self) {
        let category = json!({ "slug": "tools", "name": "Tools" });
        self.post("/categories", category).await.expect(201);
    }

    /// Creates a product of the category `tools`, and returns the id.
    async fn create_product(&self, sku: &str, price: i64, stock: u32) -> String {
        let answer = self.post("/products", product(sku, price, stock)).await;
        id_of(&answer.expect(201))
    }

    async fn create_customer(&self, email: &str) -> String {
        let customer = json!({ "email": email, "name": "Ann Archer" });
        id_of(&self.post("/customers", customer).await.expect(201))
    }

    async fn open_feed(&self, last_event: Option<&str>) -> Feed {
        let mut request = self.request(Method::GET, "/feed");
        if let Some(id) = last_event {
            request = request.header("last-event-id", id);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        let text = String::new();
        Feed { response, text }
    }
}

/// The body of `POST /products`.
fn product(sku: &str, price: i64, stock: u32) -> Value {
    let name = format!("Product {sku}");
    json!({ "sku": sku, "name": name, "price": price, "stock": stock, "category": "tools" })
}

fn id_of(document: &Value) -> String {
    document["_id"].as_str().expect("an id").to_owned()
}

/// The answer to a request.
#[derive(Debug)]
struct Answer {
    status: u16,
    content_type: String,
    etag: Option<String>,
    /// Null for an empty body.
    body: Value,
}

impl Answer {
    async fn to(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let header = |name| Some(response.headers().get(name)?.to_str().unwrap().to_owned());
        let (content_type, etag) = (header("content-type"), header("etag"));
        let status = response.status().as_u16();
        let bytes = response.bytes().await.unwrap();
        Self {
            status,
            content_type: content_type.unwrap_or_default(),
            etag,
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
        }
    }

    /// Returns the body of an answer with this status. An answer to an error must be problem details.
    #[track_caller]
    fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        if status >= 400 {
            assert_eq!(self.content_type, "application/problem+json", "{self:?}");
            assert_eq!(self.body["status"], status, "{self:?}");
            assert!(self.body["title"].is_string(), "{self:?}");
        }
        self.body
    }
}

/// An open feed.
struct Feed {
    response: Response,
    /// Received text after the last event.
    text: String,
}

/// An event of a feed.
#[derive(Debug, Default)]
struct FeedEvent {
    id: String,
    name: String,
    data: Value,
}

impl Feed {
    /// Returns the next event with a name.
    async fn next_named(&mut self, name: &str) -> FeedEvent {
        loop {
            let event = self.next().await.expect("the feed ends too early");
            if event.name == name {
                return event;
            }
        }
    }

    /// Returns the next event, or `None` at the end of the feed.
    async fn next(&mut self) -> Option<FeedEvent> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let event = FeedEvent::parse(block);
                self.text = rest.to_owned();
                return Some(event);
            }
            let chunk = timeout(MAX_WAIT, self.response.chunk()).await;
            let chunk = chunk.expect("an event in time").unwrap()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

impl FeedEvent {
    fn parse(block: &str) -> Self {
        let mut event = Self::default();
        for line in block.lines() {
            match line.split_once(": ") {
                Some(("id", id)) => event.id = id.to_owned(),
                Some(("event", name)) => event.name = name.to_owned(),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                // A comment keeps the connection open.
                _ => {}
            }
        }
        event
    }
}

#[tokio::test]
async fn a_product_is_created_read_changed_and_deleted() {
    let server = TestServer::start().await;
    let acme = server.tenant("acme");
    acme.create_category().await;
    let created = acme.post("/products", product("saw-1", 2_450, 10)).await;
    assert_eq!(created.etag.as_deref(), Some("\"1\""));
    let created = created.expect(201);
    let path = format!("/products/{}", id_of(&created));
    assert_eq!(created["tenant"], "acme");
    assert!(created["created_at"].as_str().unwrap().ends_with('Z'));

    let author = acme.create_customer("ann@example.org").await;
    let review = json!({ "author": author, "stars": 4, "text": "Cuts well." });
    let reviews = format!("{path}/reviews");
    acme.post(&reviews, review.clone()).await.expect(201);
    // A customer reviews a product once.
    acme.post(&reviews, review).await.expect(409);

    let change = json!({ "price": 2_300, "stock": 9 });
    let changed = acme.patch(&path, change).await.expect(200);
    assert_eq!(
        (&changed["price"], &changed["stock"]),
        (&json!(2_300), &json!(9))
    );
    assert_eq!(changed["name"], "Product saw-1");

    let rename = json!({ "name": "Ann Baker" });
    let customer = format!("/customers/{author}");
    acme.patch(&customer, rename).await.expect(200);
    let details = acme.get(&path).await.expect(200);
    assert_eq!(details["product"]["reviews"], 1);
    assert_eq!(details["product"]["stars"], 4);
    assert_eq!(details["category"]["slug"], "tools");
    assert_eq!(details["reviews"][0]["author_name"], "Ann Baker");

    acme.delete(&path).await.expect(204);
    acme.delete(&path).await.expect(404);
    acme.get(&path).await.expect(404);
    let tenant = "acme".parse::<Tenant>().unwrap();
    let left = server.db.scope(&tenant).find::<Review>().count().await;
    assert_eq!(left.unwrap(), 0, "a delete of a product cascades");
    server.end().await;
}

#[tokio::test]
async fn a_sku_is_unique_in_a_tenant() {
    let server = TestServer::start().await;
    for name in ["acme", "globex"] {
        let client = server.tenant(name);
        client.create_category().await;
        client.create_product("saw-1", 2_450, 10).await;
    }
    let acme = server.tenant("acme");
    let problem = acme.post("/products", product("saw-1", 100, 1)).await;
    let problem = problem.expect(409);
    assert_eq!(problem["path"], "sku");
    server.end().await;
}

#[tokio::test]
async fn a_violation_names_the_fields() {
    let server = TestServer::start().await;
    let acme = server.tenant("acme");
    acme.create_category().await;
    let mut invalid = product("saw-1", -1, 10);
    invalid["name"] = json!("");
    let problem = acme.post("/products", invalid).await.expect(422);
    let violations = json!([
        { "path": "name", "message": "length is lower than 1" },
        { "path": "price", "message": "lower than 0" },
    ]);
    assert_eq!(problem["violations"], violations);

    let id = acme.create_product("saw-1", 2_450, 10).await;
    let path = format!("/products/{id}");
    let problem = acme.patch(&path, json!({ "price": -1 })).await.expect(422);
    assert_eq!(problem["violations"][0]["path"], "price");

    let customer = acme.create_customer("ann@example.org").await;
    let order = json!({ "customer": customer, "lines": [{ "product": id, "quantity": 0 }] });
    acme.post("/orders", order).await.expect(422);
    let order = json!({ "customer": customer, "lines": [] });
    acme.post("/orders", order).await.expect(422);
    server.end().await;
}

#[tokio::test]
async fn a_malformed_request_is_a_problem() {
    let server = TestServer::start().await;
    let acme = server.tenant("acme");
    acme.create_category().await;
    let id = acme.create_product("saw-1", 2_450, 10).await;
    let path = format!("/products/{id}");

    server.tenant("").get("/products").await.expect(400);
    server.tenant("a/b").get("/products").await.expect(400);
    acme.get("/products/seven").await.expect(400);
    acme.get("/products?after=seven").await.expect(400);
    acme.get("/products?category=toys").await.expect(422);
    acme.get("/nothing").await.expect(404);
    acme.delete("/products").await.expect(405);
    // A patch without a value changes nothing.
    let unchanged = acme.patch(&path, json!({})).await.expect(200);
    assert_eq!(unchanged["version"], 1);
    acme.patch(&path, json!({ "sku": "saw-2" }))
        .await
        .expect(422);
    acme.patch(&path, json!({ "stock": -1 })).await.expect(422);
    // A client chooses no id.
    let category = json!({ "_id": id, "slug": "toys", "name": "Toys" });
    acme.post("/categories", category).await.expect(422);
    let order = json!({ "customer": id, "lines": [{ "product": id, "quantity": 1, "price": 0 }] });
    acme.post("/orders", order).await.expect(422);
    server.end().await;
}

#[tokio::test]
async fn a_tenant_does_not_see_other_tenants() {
    let server = TestServer::start().await;
    let (acme, globex) = (server.tenant("acme"), server.tenant("globex"));
    for client in [acme, globex] {
        client.create_category().await;
        for number in 0..3 {
            let sku = format!("saw-{number}");
            client.create_product(&sku, 2_450, 10).await;
        }
    }
    let page = acme.get("/products?size=1").await.expect(200);
    let path = format!("/products/{}", id_of(&page["items"][0]));
    acme.get(&path).await.expect(200);
    globex.get(&path).await.expect(404);
    globex.patch(&path, json!({ "price": 1 })).await.expect(404);
    globex.delete(&path).await.expect(404);
    let author = globex.create_customer("ann@example.org").await;
    let review = json!({ "author": author, "stars": 1, "text": "Bad." });
    let reviews = format!("{path}/reviews");
    globex.post(&reviews, review).await.expect(422);

    // A page token is valid in its tenant alone.
    let next = page["next"].as_str().unwrap();
    let next = format!("/products?size=1&after={next}");
    acme.get(&next).await.expect(200);
    globex.get(&next).await.expect(400);
    server.end().await;
}

#[tokio::test]
async fn pages_contain_each_product_once() {
    let server = TestServer::start().await;
    let acme = server.tenant("acme");
    acme.create_category().await;
    for number in 0..25 {
        // Several products have the same price.
        let price = 100 * (number % 4);
        acme.create_product(&format!("saw-{number}"), price, 1)
            .await;
    }
    let query = "/products?category=tools&prefix=Product&sort=price&size=4";
    let (mut prices, mut ids) = (Vec::new(), BTreeSet::new());
    let mut page = acme.get(query).await.expect(200);
    let first_items = page["items"].clone();
    assert!(page["previous"].is_null());
    let mut previous = None;
    loop {
        for item in page["items"].as_array().unwrap() {
            prices.push(item["price"].as_i64().unwrap());
            ids.insert(id_of(item));
        }
        let Some(token) = page["next"].as_str() else {
            break;
        };
        let next = format!("{query}&after={token}");
        page = acme.get(&next).await.expect(200);
        previous = previous.or_else(|| Some(page["previous"].as_str()?.to_owned()));
    }
    assert_eq!((prices.len(), ids.len()), (25, 25));
    assert!(prices.is_sorted());

    // From the second page back to the first page.
    let back = format!("{query}&before={}", previous.unwrap());
    let back = acme.get(&back).await.expect(200);
    assert_eq!(back["items"], first_items);

    let range = "/products?min_price=100&max_price=200&size=100";
    let range = acme.get(range).await.expect(200);
    assert_eq!(range["items"].as_array().unwrap().len(), 12);
    server.end().await;
}

#[tokio::test]
async fn an_outdated_version_is_refused() {
    let server = TestServer::start().await;
    let acme = server.tenant("acme");
    acme.create_category().await;
    let id = acme.create_product("saw-1", 2_450, 10).await;
    let path = format!("/products/{id}");
    let patch = |version: &str, price: i64| {
        let request = acme.request(Method::PATCH, &path);
        let request = request.header("if-match", version);
        Answer::to(request.json(&json!({ "price": price })))
    };
    let etag = acme.get(&path).await.etag.unwrap();
    let changed = patch(&etag, 2_000).await;
    assert_ne!(changed.etag.as_ref(), Some(&etag));
    changed.expect(200);
    patch(&etag, 1_000).await.expect(412);
    patch("\"seven\"", 1_000).await.expect(400);
    let details = acme.get(&path).await.expect(200);
    assert_eq!(details["product"]["price"], 2_000);

    acme.delete(&path).await.expect(204);
    patch(&etag, 1_000).await.expect(404);
    server.end().await;
}

#[tokio::test]
async fn an_order_keeps_the_price() {
    let server = TestServer::start().await;
    let acme = server.tenant("acme");
    acme.create_category().await;
    let customer = acme.create_customer("ann@example.org").await;
    let saw = acme.create_product("saw-1", 2_450, 10).await;
    let hammer = acme.create_product("hammer-1", 1_000, 1).await;
    let lines = json!([
        { "product": saw, "quantity": 2 },
        { "product": hammer, "quantity": 1 },
    ]);
    let order = json!({ "customer": customer, "lines": lines });
    let placed = acme.post("/orders", order.clone()).await.expect(201);
    assert_eq!(placed["total"], 5_900);

    let path = format!("/products/{saw}");
    acme.patch(&path, json!({ "price": 1 })).await.expect(200);
    let order_path = format!("/orders/{}", id_of(&placed));
    let details = acme.get(&order_path).await.expect(200);
    assert_eq!(details["order"]["lines"][0]["price"], 2_450);
    assert_eq!(details["order"]["total"], 5_900);
    assert_eq!(details["customer"]["email"], "ann@example.org");

    // The hammer is sold out, so the stock of the saw stays unchanged too.
    let problem = acme.post("/orders", order).await.expect(409);
    assert!(problem["title"].as_str().unwrap().contains(&hammer));
    let details = acme.get(&path).await.expect(200);
    assert_eq!(details["product"]["stock"], 8);
    // Orders refer to the product: `on_delete = restrict`.
    acme.delete(&path).await.expect(409);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_orders_sell_each_piece_once() {
    let server = TestServer::start().await;
    let acme = server.tenant("acme");
    acme.create_category().await;
    let customer = acme.create_customer("ann@example.org").await;
    let saw = acme.create_product("saw-1", 2_450, 5).await;
    let order = json!({ "customer": customer, "lines": [{ "product": saw, "quantity": 1 }] });
    let orders = (0..20).map(|_| acme.post("/orders", order.clone()));
    let answers = join_all(orders).await;
    let with_status = |status: u16| {
        let statuses = answers.iter().map(|answer| answer.status);
        statuses.filter(|other| *other == status).count()
    };
    assert_eq!((with_status(201), with_status(409)), (5, 15), "{answers:?}");

    let details = acme.get(&format!("/products/{saw}")).await.expect(200);
    assert_eq!(details["product"]["stock"], 0);
    let tenant = "acme".parse::<Tenant>().unwrap();
    let stored = server.db.scope(&tenant).find::<Order>().count().await;
    assert_eq!(stored.unwrap(), 5);
    server.end().await;
}

#[tokio::test]
async fn a_category_with_products_is_not_deleted() {
    let server = TestServer::start().await;
    let acme = server.tenant("acme");
    acme.create_category().await;
    let id = acme.create_product("saw-1", 2_450, 10).await;
    let categories = acme.get("/categories").await.expect(200);
    assert_eq!(categories[0]["products"], 1);
    acme.delete("/categories/tools").await.expect(409);

    let path = format!("/products/{id}");
    acme.delete(&path).await.expect(204);
    acme.delete("/categories/tools").await.expect(204);
    acme.delete("/categories/tools").await.expect(404);
    server.end().await;
}

#[tokio::test]
async fn a_feed_delivers_the_changes_of_a_tenant() {
    let server = TestServer::start().await;
    let (acme, globex) = (server.tenant("acme"), server.tenant("globex"));
    for client in [acme, globex] {
        client.create_category().await;
    }
    let mut feed = acme.open_feed(None).await;
    let start = feed.next().await.unwrap();
    globex.create_product("saw-1", 2_450, 10).await;
    let saw = acme.create_product("saw-2", 2_450, 10).await;
    let inserted = feed.next_named("inserted").await;
    assert_eq!(inserted.data["sku"], "saw-2");
    let path = format!("/products/{saw}");
    acme.patch(&path, json!({ "price": 1 })).await.expect(200);
    let updated = loop {
        let updated = feed.next_named("updated").await;
        if updated.data["price"] == 1 {
            break updated;
        }
    };
    assert_eq!(updated.data["_id"], saw.as_str());
    drop(feed);

    // A client that connects again receives the changes in between.
    acme.create_product("saw-3", 2_450, 10).await;
    for (last_event, sku) in [(&start.id, "saw-2"), (&updated.id, "saw-3")] {
        let mut feed = acme.open_feed(Some(last_event)).await;
        let missed = feed.next_named("inserted").await;
        assert_eq!(missed.data["sku"], sku);
    }
    let request = acme.request(Method::GET, "/feed");
    let invalid = request.header("last-event-id", "seven");
    Answer::to(invalid).await.expect(400);

    // An open feed does not prevent the end of the server.
    let mut open = acme.open_feed(None).await;
    open.next().await.unwrap();
    server.end().await;
    while open.next().await.is_some() {}
}

/// Fails if a change of the models or of the handler makes the route slower.
#[tokio::test]
async fn the_details_of_a_product_cost_three_operations() {
    let server = TestServer::start().await;
    let acme = server.tenant("acme");
    acme.create_category().await;
    let id = acme.create_product("saw-1", 2_450, 10).await;
    for number in 0..12 {
        let email = format!("{number}@example.org");
        let author = acme.create_customer(&email).await;
        let review = json!({ "author": author, "stars": 5, "text": "Cuts well." });
        let reviews = format!("/products/{id}/reviews");
        acme.post(&reviews, review).await.expect(201);
    }
    // Follow-up work of the inserts can run after the answer.
    server.db.wait_for_pending().await.unwrap();
    let path = format!("/products/{id}");
    let details = acme.get(&path);
    let details = assert_queries!(
        server.test_db.as_ref().unwrap(),
        3,
        details.await.expect(200)
    );
    assert_eq!(details["reviews"].as_array().unwrap().len(), 10);
    assert_eq!(details["product"]["reviews"], 12);
    server.end().await;
}

#[tokio::test]
async fn the_catalog_is_inserted_once() {
    let server = TestServer::start().await;
    let demo = server.db.scope(&"demo".parse::<Tenant>().unwrap());
    assert_eq!(seed::insert_catalog(&demo).await.unwrap(), 60);
    assert_eq!(seed::insert_catalog(&demo).await.unwrap(), 0);
    let categories = server.tenant("demo").get("/categories").await.expect(200);
    assert_eq!(categories[0]["products"], 20);
    server.end().await;
}

#[tokio::test]
async fn documents_outlive_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("odm:{}", folder.path().join("shop.odm").display());
    let db = Db::open(&url).await.unwrap();
    db.sync_indexes().await.unwrap();
    let server = TestServer::serve(db).await;
    server.tenant("acme").create_category().await;
    server.end().await;

    let server = TestServer::serve(Db::open(&url).await.unwrap()).await;
    server.tenant("acme").get("/health").await.expect(200);
    let categories = server.tenant("acme").get("/categories").await;
    assert_eq!(categories.expect(200)[0]["slug"], "tools");
    server.end().await;
}
