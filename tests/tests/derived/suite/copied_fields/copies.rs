//! Copies of fields from referenced documents, fan-outs of changed sources, and snapshots.

use std::{sync::Arc, time::Duration};

use odm::{
    ErrorKind, Filter,
    backend::{
        Recorder,
        operation::{Direction, DocumentChange, FindOperation, Index, Operation, UpdateOperation},
    },
    bson::{self, Bson, RawDocumentBuf, rawdoc},
    check::FindingKind,
    prelude::*,
};

use crate::Fixture;
use crate::crash::{CrashTest, Write};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Place {
    city: String,
    room: i32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    ipaddr: String,
    #[embed]
    place: Place,
    notes: Option<String>,
}

/// A log message with copies of host fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "logmsgs", timestamps)]
struct LogMessage {
    #[serde(rename = "_id")]
    id: i64,
    message: String,
    #[reference]
    host: Ref<Host>,
    #[denormalize(from = host.ipaddr)]
    ipaddr: String,
    #[denormalize(from = host.name)]
    hostname: String,
    #[denormalize(from = host.place.city)]
    city: String,
    created_at: DateTime,
    updated_at: DateTime,
}

/// A service. [`Alert`] copies `notes`, which is a copy itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "services")]
struct Service {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    host: Option<Ref<Host>>,
    #[denormalize(from = host.place)]
    #[embed]
    place: Option<Place>,
    #[denormalize(from = host.notes)]
    notes: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "alerts")]
struct Alert {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    service: Ref<Service>,
    #[denormalize(from = service.notes, sync)]
    notes: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    price: i64,
}

/// A part of a product, with a copy of the part's name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct PartLink {
    #[reference]
    id: Ref<Part>,
    #[denormalize(from = id.name)]
    name: String,
    quantity: i32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "products", insert_struct)]
struct Product {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[embed(max = 20)]
    parts: Vec<PartLink>,
}

/// An order line, with a snapshot of the price and a copy of the name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct OrderLine {
    #[reference]
    part: Ref<Part>,
    #[snapshot(from = part.price)]
    price: i64,
    #[denormalize(from = part.name)]
    name: String,
    quantity: i32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "orders", insert_struct)]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    #[snapshot]
    #[embed]
    ship_to: Place,
    #[embed(max = 20)]
    lines: Vec<OrderLine>,
}

/// A crate with an optional array, inside an array of the shipment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[embedded(insert_struct)]
struct Crate {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[embed(max = 5)]
    lines: Option<Vec<OrderLine>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "shipments", insert_struct)]
struct Shipment {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 5)]
    crates: Vec<Crate>,
}

/// A ticket. Deleting the host nullifies the reference and removes the copy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "tickets")]
struct Ticket {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = nullify)]
    host: Option<Ref<Host>>,
    #[denormalize(from = host.name)]
    hostname: Option<String>,
}

/// A visit. Deleting the host clears `hostname` and `notes`, and keeps `ipaddr`. [`Note`] copies `hostname` again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "visits")]
struct Visit {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = keep)]
    host: Ref<Host>,
    #[denormalize(from = host.name, on_delete = clear)]
    hostname: Option<String>,
    #[denormalize(from = host.notes, on_delete = clear)]
    notes: Option<String>,
    #[denormalize(from = host.ipaddr, on_delete = keep)]
    ipaddr: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "notes")]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    visit: Ref<Visit>,
    #[denormalize(from = visit.hostname)]
    hostname: Option<String>,
}

#[derive(Schema)]
#[schema(models(
    Host, LogMessage, Service, Alert, Part, Product, Order, Shipment, Ticket, Visit, Note
))]
struct Shop;
type Db = odm::Database<Shop>;

fn host(id: i64) -> Host {
    Host {
        id,
        name: format!("host{id}"),
        ipaddr: format!("10.0.0.{id}"),
        place: place("Bern", 1),
        notes: None,
    }
}

fn place(city: &str, room: i32) -> Place {
    Place {
        city: city.into(),
        room,
    }
}

fn line(id: i64, host: i64) -> NewLogMessage {
    NewLogMessage {
        id,
        message: format!("message {id}"),
        host: Ref::new(host),
    }
}

fn part(id: i64) -> Part {
    Part {
        id,
        name: format!("part {id}"),
        price: 100 * id,
    }
}

fn product(id: i64, parts: &[i64]) -> NewProduct {
    NewProduct {
        id,
        name: format!("product {id}"),
        parts: parts.iter().map(|part| link(*part)).collect(),
    }
}

fn link(part: i64) -> NewPartLink {
    NewPartLink {
        id: Ref::new(part),
        quantity: 1,
    }
}

fn order(id: i64, parts: &[i64]) -> NewOrder {
    let line = |part: &i64| NewOrderLine {
        part: Ref::new(*part),
        quantity: 2,
    };
    NewOrder {
        id,
        ship_to: place("Bern", 7),
        lines: parts.iter().map(line).collect(),
    }
}

async fn shop(db: &Db) {
    db.sync_indexes().await.unwrap();
    db.insert_many([host(1), host(2)]).await.unwrap();
    db.insert_many([part(1), part(2), part(3)]).await.unwrap();
}

async fn names_in(db: &Db, product: i64) -> Vec<String> {
    let product = db.get::<Product>(product).await.unwrap();
    product.parts.into_iter().map(|part| part.name).collect()
}

async fn read_raw(fixture: &Fixture, collection: &'static str) -> Vec<RawDocumentBuf> {
    let find = FindOperation {
        collection: collection.into(),
        filter: rawdoc! {},
        projection: None,
        sort: Some(rawdoc! { "_id": 1 }),
        limit: None,
        options: Default::default(),
    };
    let cursor = fixture.backend().find(find).await.unwrap();
    odm::backend::read_to_end(cursor).await.unwrap()
}

pub async fn copies_are_filled_at_insert(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    let message = db.insert(line(1, 1)).await.unwrap();
    assert_eq!(
        (&*message.ipaddr, &*message.hostname, &*message.city),
        ("10.0.0.1", "host1", "Bern")
    );
    assert_eq!(db.get::<LogMessage>(1).await.unwrap().city, "Bern");
    let lonely = NewService { id: 1, host: None };
    assert_eq!(db.insert(lonely).await.unwrap().place, None);
    let service = NewService {
        id: 2,
        host: Some(Ref::new(2)),
    };
    let service = db.insert(service).await.unwrap();
    assert_eq!(service.place, Some(place("Bern", 1)));
    db.insert(product(1, &[2, 1, 2])).await.unwrap();
    assert_eq!(names_in(&db, 1).await, ["part 2", "part 1", "part 2"]);
    // Clients without `odm` see the copies at the declared paths, and all metadata under `_odm`.
    let [stored] = read_raw(&fixture, "products").await.try_into().unwrap();
    let first = stored.get_array("parts").unwrap().get(0).unwrap().unwrap();
    let keys = first.as_document().unwrap().iter();
    let keys: Vec<_> = keys.map(|field| field.unwrap().0.as_str()).collect();
    assert_eq!(keys, ["id", "name", "quantity", "_odm"]);
    let upsert = db.update::<LogMessage>(9).set(|m| m.message(), "x");
    assert!(upsert.or_insert(line(9, 2)).await.unwrap().is_inserted());
    assert_eq!(db.get::<LogMessage>(9).await.unwrap().hostname, "host2");
}

pub async fn copies_follow_their_source(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    db.insert_many([line(1, 1), line(2, 1), line(3, 2)])
        .await
        .unwrap();
    let before = db.get::<LogMessage>(1).await.unwrap();
    let ips = async || {
        let all = db.find::<LogMessage>().sort(|m| m.id().asc()).all().await;
        let ips = all.unwrap().into_iter().map(|message| message.ipaddr);
        ips.collect::<Vec<_>>()
    };
    db.update::<Host>(1)
        .set(|h| h.ipaddr(), "10.1.1.1")
        .await
        .unwrap();
    assert_eq!(ips().await, ["10.1.1.1", "10.1.1.1", "10.0.0.2"]);
    let mut host = db.edit::<Host>(1).await.unwrap();
    host.ipaddr = "10.2.2.2".into();
    db.save(&mut host).await.unwrap();
    assert_eq!(ips().await, ["10.2.2.2", "10.2.2.2", "10.0.0.2"]);
    let all = db.update_many::<Host>(|_| Filter::all());
    all.set(|h| h.ipaddr(), "::1").await.unwrap();
    assert_eq!(ips().await, ["::1"; 3]);
    db.modify::<Host>(2, |host| host.place.city = "Basel".into())
        .await
        .unwrap();
    assert_eq!(db.get::<LogMessage>(3).await.unwrap().city, "Basel");
    db.update::<Host>(2)
        .set(|h| h.place(), place("Genf", 1))
        .await
        .unwrap();
    assert_eq!(db.get::<LogMessage>(3).await.unwrap().city, "Genf");
    let first = db.update_first::<Host>(|h| h.name().eq("host1"));
    let renamed = first
        .set(|h| h.name(), "web")
        .returning_after()
        .await
        .unwrap();
    assert!(renamed.is_applied());
    let after = db.get::<LogMessage>(1).await.unwrap();
    assert_eq!(after.hostname, "web");
    // A fan-out does not change `updated_at` of a dependent.
    assert_eq!(after.updated_at, before.updated_at);
    // No pending work is left.
    db.wait_for_pending().await.unwrap();
    for collection in ["hosts", "logmsgs"] {
        for raw in read_raw(&fixture, collection).await {
            // All pending work has a token.
            let metadata = raw.get_document("_odm").unwrap();
            let metadata = bson::Document::try_from(metadata).unwrap();
            assert!(!metadata.to_string().contains("token"), "{metadata}");
        }
    }
}

pub async fn copies_in_arrays_follow(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    db.insert_many([product(1, &[1, 2, 1]), product(2, &[3])])
        .await
        .unwrap();
    db.update::<Part>(1)
        .set(|p| p.name(), "bolt")
        .await
        .unwrap();
    assert_eq!(names_in(&db, 1).await, ["bolt", "part 2", "bolt"]);
    assert_eq!(names_in(&db, 2).await, ["part 3"]);
    // The fan-out changes neither the order nor the remaining fields of the elements.
    db.update::<Product>(1)
        .set(|p| p.parts().at(1).quantity(), 7)
        .await
        .unwrap();
    db.update::<Part>(2).set(|p| p.name(), "nut").await.unwrap();
    let product = db.get::<Product>(1).await.unwrap();
    let rows: Vec<_> = product
        .parts
        .iter()
        .map(|p| (&*p.name, p.quantity))
        .collect();
    assert_eq!(rows, [("bolt", 1), ("nut", 7), ("bolt", 1)]);
}

pub async fn copies_in_arrays_of_arrays_follow(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    let with = |parts: &[i64]| NewCrate {
        lines: Some(order(0, parts).lines),
    };
    let crates = vec![
        with(&[1, 2]),
        NewCrate { lines: None },
        with(&[]),
        with(&[2]),
    ];
    db.insert(NewShipment { id: 1, crates }).await.unwrap();
    db.update::<Part>(2).set(|p| p.name(), "nut").await.unwrap();
    let names = async || {
        let shipment = db.get::<Shipment>(1).await.unwrap();
        let lines = shipment.crates.into_iter().filter_map(|one| one.lines);
        let lines = lines.map(|lines| lines.into_iter().map(|line| line.name).collect::<Vec<_>>());
        lines.collect::<Vec<_>>()
    };
    assert_eq!(names().await, [vec!["part 1", "nut"], vec![], vec!["nut"]]);
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
    // The check and the repair skip a document whose revalidation runs in the background.
    db.wait_for_pending().await.unwrap();
    update_raw(
        &fixture,
        "shipments",
        1,
        rawdoc! { "$set": { "crates.3.lines.0.name": "lies" } },
    )
    .await;
    db.repair().apply().await.unwrap();
    assert_eq!(names().await, [vec!["part 1", "nut"], vec![], vec!["nut"]]);
}

pub async fn changed_references_refill_copies(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    db.insert_many([line(1, 1), line(2, 1)]).await.unwrap();
    let name = async |id| db.get::<LogMessage>(id).await.unwrap().hostname;
    db.update::<LogMessage>(1)
        .set(|m| m.host(), Ref::new(2))
        .await
        .unwrap();
    assert_eq!(name(1).await, "host2");
    let mut edited = db.edit::<LogMessage>(2).await.unwrap();
    edited.host = Ref::new(2);
    db.save(&mut edited).await.unwrap();
    assert_eq!(edited.hostname, "host2");
    assert_eq!(name(2).await, "host2");
    let many = db.update_many::<LogMessage>(|_| Filter::all());
    many.set(|m| m.host(), Ref::new(1)).await.unwrap();
    assert_eq!(
        (name(1).await, name(2).await),
        ("host1".into(), "host1".into())
    );
    db.update::<Host>(1).set(|h| h.name(), "web").await.unwrap();
    assert_eq!(name(1).await, "web");

    let service = NewService {
        id: 1,
        host: Some(Ref::new(1)),
    };
    db.insert(service).await.unwrap();
    db.update::<Service>(1).unset(|s| s.host()).await.unwrap();
    assert_eq!(db.get::<Service>(1).await.unwrap().place, None);
    db.update::<Service>(1)
        .set(|s| s.host(), Ref::new(2))
        .await
        .unwrap();
    assert_eq!(
        db.get::<Service>(1).await.unwrap().place,
        Some(place("Bern", 1))
    );

    db.insert(product(1, &[1])).await.unwrap();
    db.update::<Product>(1)
        .push(|p| p.parts(), link(2))
        .await
        .unwrap();
    db.update::<Product>(1)
        .push_each(|p| p.parts(), [link(3), link(1)])
        .await
        .unwrap();
    assert_eq!(
        names_in(&db, 1).await,
        ["part 1", "part 2", "part 3", "part 1"]
    );
    db.update::<Product>(1)
        .set(|p| p.parts().at(0).id(), Ref::new(3))
        .await
        .unwrap();
    let twos = db.update::<Product>(1);
    twos.set(
        |p| p.parts().matching(|part| part.id().eq(Ref::new(2))).id(),
        Ref::new(1),
    )
    .await
    .unwrap();
    assert_eq!(
        names_in(&db, 1).await,
        ["part 3", "part 1", "part 3", "part 1"]
    );
    db.update::<Product>(1)
        .set(|p| p.parts().at(3), link(2))
        .await
        .unwrap();
    db.modify::<Product>(1, |product| {
        product.parts.remove(0);
    })
    .await
    .unwrap();
    assert_eq!(names_in(&db, 1).await, ["part 1", "part 3", "part 2"]);
    for id in 1..=3 {
        db.update::<Part>(id)
            .set(|p| p.name(), format!("new {id}"))
            .await
            .unwrap();
    }
    assert_eq!(names_in(&db, 1).await, ["new 1", "new 3", "new 2"]);
}

/// A deleted source leaves the last copied value. A nullified reference removes the copy.
pub async fn deleted_sources_keep_or_nullify_copies(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    db.insert(line(1, 2)).await.unwrap();
    let host = Some(Ref::new(2));
    let ticket = db.insert(NewTicket { id: 1, host }).await.unwrap();
    assert_eq!(ticket.hostname.as_deref(), Some("host2"));
    db.update::<Host>(2).set(|h| h.name(), "web").await.unwrap();
    assert_eq!(
        db.get::<Ticket>(1).await.unwrap().hostname.as_deref(),
        Some("web")
    );
    db.delete::<Host>(2).await.unwrap();
    let ticket = db.get::<Ticket>(1).await.unwrap();
    assert_eq!((ticket.host, ticket.hostname), (None, None));
    assert_eq!(db.get::<LogMessage>(1).await.unwrap().hostname, "web");
}

fn visit(id: i64, host: i64) -> NewVisit {
    NewVisit {
        id,
        host: Ref::new(host),
    }
}

/// Returns the copies of a visit, and the copy of the visit's note.
async fn copies_of_visit(db: &Db, id: i64) -> (Option<String>, String, Option<String>) {
    let visit = db.get::<Visit>(id).await.unwrap();
    let note = db.get::<Note>(id).await.unwrap();
    assert_eq!(visit.notes, None);
    (visit.hostname, visit.ipaddr, note.hostname)
}

pub async fn deleted_sources_clear_copies(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    db.insert(host(3)).await.unwrap();
    for (id, host) in [(1, 1), (2, 2), (3, 1), (4, 3)] {
        db.insert(visit(id, host)).await.unwrap();
        let visit = Ref::new(id);
        db.insert(NewNote { id, visit }).await.unwrap();
    }
    let was = |id: i64| Some(format!("host{id}"));
    let ip = |id: i64| format!("10.0.0.{id}");
    assert_eq!(copies_of_visit(&db, 1).await, (was(1), ip(1), was(1)));
    db.delete::<Host>(1).await.unwrap();
    db.wait_for_pending().await.unwrap();
    for id in [1, 3] {
        assert_eq!(copies_of_visit(&db, id).await, (None, ip(1), None));
        assert_eq!(db.get::<Visit>(id).await.unwrap().host, Ref::new(1));
    }
    assert_eq!(copies_of_visit(&db, 2).await, (was(2), ip(2), was(2)));

    // The host exists again. Writing the reference fills the cleared copy.
    db.insert(host(1)).await.unwrap();
    db.update::<Visit>(3)
        .set(|v| v.host(), Ref::new(1))
        .await
        .unwrap();
    db.update::<Host>(1)
        .set(|h| h.name(), "again")
        .await
        .unwrap();
    db.wait_for_pending().await.unwrap();
    let renamed = Some("again".to_owned());
    assert_eq!(
        copies_of_visit(&db, 3).await,
        (renamed.clone(), ip(1), renamed)
    );

    // Deletes of several hosts and deletes in a transaction clear copies, too.
    let many = db.delete_many::<Host>(|h| h.id().is_in([1, 2]));
    assert_eq!(many.await.unwrap().deleted, 2);
    db.wait_for_pending().await.unwrap();
    for id in [2, 3] {
        assert_eq!(copies_of_visit(&db, id).await.0, None);
    }
    if fixture.backend().capabilities().transactions {
        let deleted = db.transaction(|tx| async move {
            tx.delete::<Host>(3).await?;
            tx.get::<Visit>(4).await
        });
        assert_eq!(deleted.await.unwrap().hostname, None);
        db.wait_for_pending().await.unwrap();
        assert_eq!(copies_of_visit(&db, 4).await, (None, ip(3), None));
    }
    let dangles = |kind: &FindingKind| matches!(kind, FindingKind::Dangling { .. });
    let report = db.check().await.unwrap();
    assert!(
        report.findings.iter().all(|found| dangles(&found.kind)),
        "{report}"
    );

    // A copy from before the declaration of `on_delete = clear` is stale.
    let change = rawdoc! { "$set": { "hostname": "old" } };
    update_raw(&fixture, "visits", 1, change).await;
    let report = db.check().await.unwrap();
    let stale = report.findings.iter().filter(|found| !dangles(&found.kind));
    // The copy in the note is stale as well.
    assert_eq!(stale.count(), 2, "{report}");
    db.repair().apply().await.unwrap();
    db.wait_for_pending().await.unwrap();
    assert_eq!(copies_of_visit(&db, 1).await.0, None);
}

pub async fn fan_outs_reach_copies_of_copies(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    db.insert(NewService {
        id: 1,
        host: Some(Ref::new(1)),
    })
    .await
    .unwrap();
    db.insert(NewAlert {
        id: 1,
        service: Ref::new(1),
    })
    .await
    .unwrap();
    db.update::<Host>(1)
        .set(|h| h.notes(), "down".to_owned())
        .await
        .unwrap();
    let notes = async || db.get::<Alert>(1).await.unwrap().notes;
    assert_eq!(notes().await.as_deref(), Some("down"));
    // The write completes the fan-outs of the whole chain. Pending work would delay the wait by the lease of five seconds.
    db.wait_for_pending()
        .timeout(Duration::from_secs(3))
        .await
        .unwrap();
    db.update::<Service>(1).unset(|s| s.host()).await.unwrap();
    assert_eq!(notes().await, None);
    db.update::<Service>(1)
        .set(|s| s.host(), Ref::new(1))
        .await
        .unwrap();
    assert_eq!(notes().await.as_deref(), Some("down"));
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[reference]
    friend: Option<Ref<Person>>,
    #[denormalize(from = friend.name)]
    friend_name: Option<String>,
}

#[derive(Schema)]
#[schema(models(Person))]
struct Friends;

/// Friends of each other: a read of current values reads each source once.
pub async fn current_ends_in_a_circle(fixture: Fixture) {
    let db = odm::Database::<Friends>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    for (id, name) in [(1, "ann"), (2, "bob")] {
        let name = name.to_owned();
        let friend = None;
        db.insert(NewPerson { id, name, friend }).await.unwrap();
    }
    for (id, friend) in [(1, 2), (2, 1)] {
        let befriend = db
            .update::<Person>(id)
            .set(|p| p.friend(), Ref::new(friend));
        befriend.await.unwrap();
    }
    let change = rawdoc! { "$set": { "friend_name": "old" } };
    update_raw(&fixture, "persons", 1, change).await;
    let current = db.find::<Person>().current().sort(|p| p.id().asc());
    let limit = Duration::from_secs(30);
    let current = tokio::time::timeout(limit, current.all()).await.unwrap();
    let names = current
        .unwrap()
        .into_iter()
        .map(|person| person.friend_name);
    let names: Vec<_> = names.map(Option::unwrap).collect();
    assert_eq!(names, ["bob", "ann"]);
}

pub async fn snapshots_stay(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    let placed = db.insert(order(1, &[1, 2])).await.unwrap();
    assert_eq!(
        (placed.lines[1].price, &*placed.lines[1].name),
        (200, "part 2")
    );
    db.update::<Part>(1)
        .set(|p| p.price(), 999)
        .set(|p| p.name(), "bolt")
        .await
        .unwrap();
    db.update::<Order>(1)
        .push(|o| o.lines(), order(0, &[1]).lines.remove(0))
        .await
        .unwrap();
    db.delete::<Part>(2).await.unwrap();
    let order = db.get::<Order>(1).await.unwrap();
    let lines: Vec<_> = order
        .lines
        .iter()
        .map(|line| (line.price, &*line.name))
        .collect();
    assert_eq!(lines, [(100, "bolt"), (200, "part 2"), (999, "bolt")]);
    assert_eq!(order.ship_to, place("Bern", 7));
    // A save keeps the snapshots of existing lines, even if the source is gone. A save fills the snapshots of new lines.
    db.modify::<Order>(1, |order| {
        order.lines[1].quantity = 9;
        let mut line = order.lines[0].clone();
        (line.part, line.price, line.name) = (Ref::new(3), 0, String::new());
        order.lines.insert(0, line);
    })
    .await
    .unwrap();
    let order = db.get::<Order>(1).await.unwrap();
    let lines = order
        .lines
        .iter()
        .map(|line| (line.price, &*line.name, line.quantity));
    let expected = [
        (300, "part 3", 2),
        (100, "bolt", 2),
        (200, "part 2", 9),
        (999, "bolt", 2),
    ];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
    let mut edited = db.edit::<Order>(1).await.unwrap();
    edited.lines[1].price = 1;
    let error = db.save(&mut edited).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("lines"))
    );
    let mut edited = db.edit::<Order>(1).await.unwrap();
    edited.ship_to.room = 8;
    let error = db.save(&mut edited).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("ship_to.room"))
    );
}

pub async fn many_dependents_are_updated_in_background(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    db.insert_many((0..1_200).map(|id| line(id, 1)))
        .await
        .unwrap();
    db.update::<Host>(1)
        .set(|h| h.ipaddr(), "::1")
        .await
        .unwrap();
    let stale = async || {
        let stale = db.find::<LogMessage>().filter(|m| m.ipaddr().ne("::1"));
        stale.count().await.unwrap()
    };
    db.wait_for_pending()
        .timeout(Duration::from_secs(60))
        .await
        .unwrap();
    assert_eq!(stale().await, 0);
}

pub async fn a_transaction_includes_fan_outs(fixture: Fixture) {
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    db.insert(line(1, 1)).await.unwrap();
    let seen = db
        .transaction(async |tx| -> odm::Result<_> {
            tx.update::<Host>(1).set(|h| h.name(), "web").await?;
            tx.insert(line(2, 1)).await?;
            Ok((
                tx.get::<LogMessage>(1).await?.hostname,
                tx.get::<LogMessage>(2).await?.hostname,
            ))
        })
        .await
        .unwrap();
    assert_eq!(seen, ("web".into(), "web".into()));
    let gone: odm::Result<()> = db
        .transaction(|tx| async move {
            tx.update::<Host>(1).set(|h| h.name(), "lost").await?;
            Err(odm::Error::new(ErrorKind::Invalid, "taken back"))
        })
        .await;
    gone.unwrap_err();
    assert_eq!(db.get::<LogMessage>(1).await.unwrap().hostname, "web");
}

pub async fn a_bulk_fills_copies_and_fans_out(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    let report = db
        .bulk()
        .add(db.insert(line(1, 1)))
        .add(db.update::<Host>(1).set(|h| h.name(), "web"))
        .add(db.insert(line(2, 1)))
        .add(db.update::<LogMessage>(2).set(|m| m.host(), Ref::new(2)))
        .await
        .unwrap()
        .into_result()
        .unwrap();
    assert_eq!((report.inserted, report.matched), (2, 2));
    let all = db
        .find::<LogMessage>()
        .sort(|m| m.id().asc())
        .all()
        .await
        .unwrap();
    let names: Vec<_> = all.iter().map(|m| &*m.hostname).collect();
    assert_eq!(names, ["web", "host2"]);
}

/// An insert that is rejected midway still revalidates the documents stored before the rejection.
pub async fn a_partial_insert_is_revalidated(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    db.insert(line(2, 1)).await.unwrap();
    let refused = db.insert_many([line(1, 1), line(2, 1), line(3, 1)]).await;
    assert_eq!(refused.unwrap_err().inserted(), Some(1));
    db.wait_for_pending()
        .timeout(Duration::from_secs(3))
        .await
        .unwrap();
    assert_eq!(db.get::<LogMessage>(1).await.unwrap().hostname, "host1");
}

/// An insert of 1,000 dependents only reads the source, and never writes the source. So concurrent inserts do not wait for each
/// other.
pub async fn inserts_only_read_the_source(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let (db, aside) = (
        Db::with_backend(recorder.clone()),
        Db::with_backend(fixture.backend()),
    );
    shop(&db).await;
    recorder.clear();
    db.insert_many((0..1_000).map(|id| line(id, 1)))
        .await
        .unwrap();
    aside
        .wait_for_pending()
        .timeout(Duration::from_secs(30))
        .await
        .unwrap();
    let operations = recorder.operations();
    let summary = operations.iter().map(|operation| match operation {
        Operation::Find(find) => ("find", find.collection.to_string()),
        Operation::Insert(insert) => ("insert", insert.collection.to_string()),
        Operation::Update(update) => ("update", update.collection.to_string()),
        other => panic!("{other:?}"),
    });
    let summary: Vec<_> = summary.collect();
    let summary: Vec<_> = summary
        .iter()
        .map(|(kind, collection)| (*kind, &**collection))
        .collect();
    // The insert runs the first two operations. The background revalidation runs the last two.
    let expected = [
        ("find", "hosts"),
        ("insert", "logmsgs"),
        ("find", "hosts"),
        ("update", "logmsgs"),
    ];
    assert_eq!(summary, expected);
}

pub async fn invalid_copies_are_rejected(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    let refused = db.insert(line(1, 7)).await.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.path()),
        (ErrorKind::Dangling, Some("host"))
    );
    // The model and the id name the missing source.
    assert_eq!(refused.model(), Some("Host"));
    assert_eq!(refused.id(), Some(&Bson::Int64(7)));
    db.insert(line(1, 1)).await.unwrap();
    let refused = db
        .update::<LogMessage>(1)
        .set(|m| m.host(), Ref::new(7))
        .await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Dangling);
    db.insert(product(1, &[1])).await.unwrap();
    let set = db
        .update::<Product>(1)
        .add_to_set(|p| p.parts(), link(2))
        .await;
    assert_eq!(set.unwrap_err().kind(), ErrorKind::Unsupported);
    let mut edited = db.edit::<LogMessage>(1).await.unwrap();
    edited.hostname = "made up".into();
    let refused = db.save(&mut edited).await.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.path()),
        (ErrorKind::Invalid, Some("hostname"))
    );
    assert_eq!(db.get::<LogMessage>(1).await.unwrap().hostname, "host1");
}

pub async fn the_indexes_are_declared(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert(host(1)).await.unwrap();
    // No document copies the name yet, so the fan-out needs no index.
    db.update::<Host>(1).set(|h| h.name(), "web").await.unwrap();
    db.insert(line(1, 1)).await.unwrap();
    let refused = db
        .update::<Host>(1)
        .set(|h| h.name(), "x")
        .await
        .unwrap_err();
    assert_eq!(
        (refused.kind(), refused.path()),
        (ErrorKind::Unsupported, Some("host"))
    );
    assert_eq!(db.get::<Host>(1).await.unwrap().name, "web");
    db.sync_indexes().await.unwrap();
    db.update::<Host>(1).set(|h| h.name(), "x").await.unwrap();
    assert_eq!(db.get::<LogMessage>(1).await.unwrap().hostname, "x");
    let keys = async |collection: &str| {
        let found = fixture.backend().list_indexes(collection).await.unwrap();
        let keys = found.into_iter().map(|index: Index| index.keys);
        keys.collect::<Vec<_>>()
    };
    let has = |found: &[Vec<(String, Direction)>], path: &str| {
        let keys = vec![(path.to_owned(), Direction::Ascending)];
        assert!(found.contains(&keys), "{path}: {found:?}");
    };
    has(&keys("logmsgs").await, "host");
    has(&keys("logmsgs").await, "_odm.pending.revalidate.lease");
    has(&keys("products").await, "parts.id");
    has(&keys("hosts").await, "_odm.pending.fan_out.lease");
}

pub async fn the_check_finds_stale_copies(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    db.insert_many([line(1, 1), line(2, 1)]).await.unwrap();
    db.insert(product(1, &[1, 2])).await.unwrap();
    // The check skips a document whose revalidation runs in the background.
    db.wait_for_pending().await.unwrap();
    assert!(db.check().await.unwrap().is_clean());
    update_raw(
        &fixture,
        "logmsgs",
        1,
        rawdoc! { "$set": { "hostname": "lies" } },
    )
    .await;
    update_raw(
        &fixture,
        "products",
        1,
        rawdoc! { "$set": { "parts.1.name": "lies" } },
    )
    .await;
    // Document 2 lacks a copy and the metadata, like a document stored before the declaration.
    update_raw(
        &fixture,
        "logmsgs",
        2,
        rawdoc! { "$unset": { "_odm": 1, "city": 1 } },
    )
    .await;
    update_raw(
        &fixture,
        "hosts",
        2,
        rawdoc! { "$set": { "name": "nobody copies this" } },
    )
    .await;
    let report = db.check().only::<LogMessage>().await.unwrap();
    let stale = |id: i64, path: &str, fault: &odm::check::Finding| {
        (
            &fault.id,
            &*fault.path,
            matches!(fault.kind, FindingKind::Stale { .. }),
        ) == (&Bson::Int64(id), path, true)
    };
    assert!(
        report
            .findings
            .iter()
            .any(|found| stale(1, "hostname", found)),
        "{report}"
    );
    assert!(
        report.findings.iter().any(|found| stale(2, "city", found)),
        "{report}"
    );
    let report = db.check().only::<Product>().await.unwrap();
    assert_eq!(report.findings.len(), 1, "{report}");
    assert_eq!(report.findings[0].path, "parts.1.name");
    assert_eq!(
        report.findings[0].to_string(),
        r#"products 1, `parts.1.name`: has "lies", expected "part 2" from 2 in parts"#
    );
    db.repair().apply().await.unwrap();
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!(db.get::<LogMessage>(2).await.unwrap().city, "Bern");
    assert_eq!(names_in(&db, 1).await, ["part 1", "part 2"]);
    // Repaired copies follow later changes of the source.
    db.update::<Host>(1)
        .set(|h| h.place().city(), "Basel")
        .await
        .unwrap();
    assert_eq!(db.get::<LogMessage>(2).await.unwrap().city, "Basel");
}

async fn update_raw(fixture: &Fixture, collection: &'static str, id: i64, change: RawDocumentBuf) {
    let update = UpdateOperation {
        collection: collection.into(),
        filter: rawdoc! { "_id": id },
        change: DocumentChange::operators(change),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    assert_eq!(fixture.backend().update(update).await.unwrap().matched, 1);
}

/// The fan-out that a crashed process left is reported as pending work.
pub async fn pending_fan_outs_are_reported(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    db.insert_many([line(1, 1), line(2, 2)]).await.unwrap();
    db.wait_for_pending().await.unwrap();
    assert!(db.pending().await.unwrap().is_empty());
    // A process that crashes after the write leaves this state. The lease of five seconds has almost ended.
    let now = DateTime::now().timestamp_millis();
    let written_at = u32::try_from(now / 1_000).unwrap() - 4;
    let token = ObjectId::from_parts(written_at, [1; 5], [2; 3]);
    let fan_out = rawdoc! { "token": token, "lease": DateTime::from_millis(now + 400) };
    let change = rawdoc! {
        "$set": { "ipaddr": "::1", "_odm.pending.fan_out": fan_out },
        "$inc": { "_odm.version": 1_i64 },
    };
    update_raw(&fixture, "hosts", 1, change).await;
    let pending = db.pending().await.unwrap();
    assert_eq!(pending.models.len(), 1, "{pending}");
    assert_eq!(
        (pending.models[0].model, pending.models[0].fan_outs),
        ("Host", 1)
    );
    assert!(pending.models[0].age >= Duration::from_secs(4), "{pending}");
    // A copy with a pending fan-out is not stale for the check.
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
    let late = db
        .wait_for_pending()
        .timeout(Duration::from_millis(20))
        .await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::StillPending);
    db.wait_for_pending()
        .of::<Host>(2)
        .timeout(Duration::ZERO)
        .await
        .unwrap();
    db.wait_for_pending()
        .timeout(Duration::from_secs(30))
        .await
        .unwrap();
    assert_eq!(db.get::<LogMessage>(1).await.unwrap().ipaddr, "::1");
    assert_eq!(db.pending().await.unwrap().to_string(), "nothing");
}

/// Copies converge under concurrent inserts, moves and renames.
pub async fn concurrent_writes_converge(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    let tasks = (0..8_i64).map(|task| {
        let db = db.clone();
        tokio::spawn(async move {
            for round in 0..12_i64 {
                let id = task * 100 + round;
                match (task + round) % 4 {
                    0 => drop(
                        db.update::<Host>(1 + round % 2)
                            .set(|h| h.name(), format!("{task} {round}"))
                            .await
                            .unwrap(),
                    ),
                    1 => drop(
                        db.insert_many([line(id, 1), line(id + 50, 2)])
                            .await
                            .unwrap(),
                    ),
                    2 => drop(
                        db.update_many::<LogMessage>(|m| m.id().lt(id))
                            .set(|m| m.host(), Ref::new(1 + round % 2))
                            .await
                            .unwrap(),
                    ),
                    _ => drop(db.insert(line(id, 2)).await.unwrap()),
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    // A move revalidates its copies in the background.
    db.wait_for_pending().await.unwrap();
    assert_converged(&db, "at rest").await;
}

async fn assert_converged(db: &Db, when: &str) {
    let hosts = db.find::<Host>().all().await.unwrap();
    for message in db.find::<LogMessage>().all().await.unwrap() {
        if let Some(host) = hosts.iter().find(|host| host.id == *message.host.id()) {
            assert_eq!(message.hostname, host.name, "{when}: {message:?}");
            assert_eq!(message.ipaddr, host.ipaddr, "{when}: {message:?}");
        }
    }
    for visit in db.find::<Visit>().all().await.unwrap() {
        let host = hosts.iter().find(|host| host.id == *visit.host.id());
        let name = host.map(|host| host.name.clone());
        assert_eq!(visit.hostname, name, "{when}: {visit:?}");
    }
    let parts = db.find::<Part>().all().await.unwrap();
    for product in db.find::<Product>().all().await.unwrap() {
        for link in product.parts {
            if let Some(part) = parts.iter().find(|part| part.id == *link.id.id()) {
                assert_eq!(link.name, part.name, "{when}");
            }
        }
    }
}

const WRITES: &[Write<Shop>] = &[
    ("insert", |db| {
        Box::pin(async move { db.insert(line(9, 1)).await.map(drop) })
    }),
    ("rename", |db| {
        Box::pin(async move {
            db.update::<Host>(1)
                .set(|h| h.name(), "web")
                .await
                .map(drop)
        })
    }),
    ("move", |db| {
        Box::pin(async move {
            db.update::<LogMessage>(1)
                .set(|m| m.host(), Ref::new(2))
                .await
                .map(drop)
        })
    }),
    ("push", |db| {
        Box::pin(async move {
            db.update::<Product>(1)
                .push(|p| p.parts(), link(2))
                .await
                .map(drop)
        })
    }),
    ("rename a part", |db| {
        Box::pin(async move {
            db.update::<Part>(1)
                .set(|p| p.name(), "bolt")
                .await
                .map(drop)
        })
    }),
    ("delete", |db| {
        Box::pin(async move { db.delete::<Host>(2).await.map(drop) })
    }),
    ("save", |db| {
        Box::pin(async move {
            db.modify::<LogMessage>(2, |m| m.host = Ref::new(2))
                .await
                .map(drop)
        })
    }),
];

pub async fn copies_converge_after_crashes(fixture: Fixture) {
    let crashes = CrashTest {
        writes: WRITES,
        begin: |db| {
            Box::pin(async move {
                shop(db).await;
                db.insert_many([line(1, 1), line(2, 1), line(3, 2)])
                    .await
                    .unwrap();
                db.insert(product(1, &[1, 3, 1])).await.unwrap();
                db.insert_many([visit(1, 1), visit(2, 2)]).await.unwrap();
            })
        },
        // References to the deleted host may dangle.
        may_find: |fault| matches!(fault, FindingKind::Dangling { .. }),
        agrees: |db, when| Box::pin(assert_converged(db, when)),
    };
    crashes.run(&fixture).await;
}
