use std::{collections::BTreeSet, sync::Arc};

use odm::{
    Database, Error, ErrorKind, Filter, Hooks, Session,
    backend::{Recorder, operation},
    bson::{Document as BsonDocument, RawDocumentBuf, doc, rawdoc},
    document::AutoId,
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "users", id = "users/{name}")]
struct User {
    #[serde(rename = "_id")]
    id: String,
    name: String,
    karma: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "accounts", id = "{user}/account")]
struct Account {
    #[serde(rename = "_id")]
    id: String,
    #[reference]
    user: Ref<User>,
    balance: i64,
}

/// A document with an unpadded number in the id, below a parent with a composed id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "entries", id = "{account}/{number}")]
struct Entry {
    #[serde(rename = "_id")]
    id: String,
    #[reference]
    account: Ref<Account>,
    number: i32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "payments", id = "{user}/payments/{#number:06}")]
#[serde(rename_all = "camelCase")]
struct Payment {
    #[serde(rename = "_id")]
    id: String,
    #[reference]
    user: Ref<User>,
    #[serde(rename = "n")]
    number: i64,
    amount: i64,
}

/// A host with an id of any text, slashes included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(
    collection = "logs",
    id = "logs/{tenant}/{host}/{#day}",
    scope = tenant,
    soft_delete,
    version
)]
struct Log {
    #[serde(rename = "_id")]
    id: String,
    tenant: String,
    #[reference]
    host: Ref<Host>,
    day: u32,
    lines: i64,
    version: i64,
    deleted_at: Option<DateTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "things")]
struct Thing {
    #[serde(rename = "_id")]
    id: ObjectId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "marks", id = "{thing}/{batch}/{key}/{type:03}/x")]
struct Mark {
    #[serde(rename = "_id")]
    id: String,
    #[reference]
    thing: Ref<Thing>,
    batch: Uuid,
    key: u64,
    r#type: u32,
}

/// The largest integer that BSON can store.
const MAX_BSON_INTEGER: u64 = i64::MAX.unsigned_abs();

/// A tag with a hook that changes the group to lower case and sets the number before the insert.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "tags", id = "{group}/{#number}", hooks)]
struct Tag {
    #[serde(rename = "_id")]
    id: String,
    group: String,
    number: i32,
}

impl Hooks for Tag {
    type Schema = Bank;
    async fn before_insert(&mut self, _: &Session<Bank>) -> odm::Result<()> {
        self.group = self.group.to_lowercase();
        self.number = 77;
        Ok(())
    }
}

/// A room. Version 1 had no field `house`; only the id contained the house.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(
    collection = "rooms",
    id = "{house}/{room}",
    schema_version = 2,
    upgrade = upgrade_room
)]
struct Room {
    #[serde(rename = "_id")]
    id: String,
    house: String,
    room: i64,
}

fn upgrade_room(_from: u32, room: &mut BsonDocument) -> odm::Result<()> {
    let id = room.get_str("_id").unwrap_or_default();
    let house = id.split('/').next().unwrap_or_default().to_owned();
    room.insert("house", house);
    if room.remove("moved").is_some() {
        room.insert("room", 8_i64);
    }
    Ok(())
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "senders", id = auto)]
struct Sender {
    #[serde(rename = "_id")]
    id: ObjectId,
    #[index(unique)]
    mail: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, Embedded)]
struct LetterId(Uuid);

impl AutoId for LetterId {
    fn generate() -> Self {
        Self(AutoId::generate())
    }
}

/// A document with a generated id and with a copy, which the insert fills.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "letters", id = auto, deny_unknown_fields)]
struct Letter {
    #[serde(rename = "_id")]
    id: LetterId,
    #[reference]
    sender: Ref<Sender>,
    #[denormalize(from = sender.mail)]
    mail: String,
}

#[derive(Schema)]
#[schema(models(Sender, Letter))]
struct Post;

#[derive(Schema)]
#[schema(models(User, Account, Entry, Payment, Host, Log, Thing, Mark, Tag, Room))]
struct Bank;
type Db = Database<Bank>;

fn open_recorded_bank(fixture: &Fixture) -> (Db, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    (Db::with_backend(recorder.clone()), recorder)
}

async fn user(db: &Db, name: &str) -> User {
    let user = NewUser {
        name: name.into(),
        karma: 0,
    };
    db.insert(user).await.unwrap()
}

async fn account(db: &Db, user: &User) -> Account {
    let account = NewAccount {
        user: user.to_ref(),
        balance: 10,
    };
    db.insert(account).await.unwrap()
}

fn payment(user: &User) -> NewPayment {
    NewPayment {
        user: user.to_ref(),
        amount: 5,
    }
}

fn tag(group: &str) -> NewTag {
    NewTag {
        group: group.into(),
    }
}

fn expect_invalid<T: std::fmt::Debug>(result: odm::Result<T>) -> Error {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    error
}

pub async fn an_id_is_composed_of_fields(fixture: Fixture) {
    let (db, _) = open_recorded_bank(&fixture);
    let jane = user(&db, "jane").await;
    assert_eq!(jane.id, "users/jane");
    let janes_account = account(&db, &jane).await;
    assert_eq!(janes_account.id, "users/jane/account");
    let entry = NewEntry {
        account: janes_account.to_ref(),
        number: -7,
    };
    let entry = db.insert(entry).await.unwrap();
    assert_eq!(entry.id, "users/jane/account/-7");
    let expected = doc! { "_id": "users/jane/account", "user": "users/jane", "balance": 10_i64 };
    assert_eq!(fixture.documents("accounts").await, [expected]);

    // An id can be computed without a query, from any value that names a part.
    let id = Account::id_for(&jane).unwrap();
    assert_eq!(id.id(), &janes_account.id);
    assert_eq!(Account::id_for("users/jane").unwrap(), id);
    assert_eq!(Account::id_for(jane.to_ref()).unwrap(), id);
    assert_eq!(Entry::id_for(id, -7).unwrap().id(), &entry.id);
    assert_eq!(User::id_for("jane").unwrap(), jane.to_ref());
    assert_eq!(
        db.get(Account::id_for(&jane).unwrap()).await.unwrap(),
        janes_account
    );

    // The parts can be read from an id.
    assert_eq!(
        Account::parts_of(&janes_account).unwrap().user,
        jane.to_ref()
    );
    let parts = Entry::parts_of(&entry.id).unwrap();
    assert_eq!((parts.account, parts.number), (janes_account.to_ref(), -7));

    // Duplicate keys, joins and updates work as for plain ids.
    let second = db
        .insert(NewUser {
            name: "jane".into(),
            karma: 1,
        })
        .await;
    assert!(second.unwrap_err().is_duplicate_key());
    let rows = db.find::<Account>().with(|a| a.user()).all().await.unwrap();
    assert_eq!(rows[0].1.loaded(), Some(&jane));
    let changed = db
        .update::<Account>(&janes_account)
        .inc(|a| a.balance(), 5)
        .returning_after();
    assert_eq!(changed.await.unwrap().balance, 15);
}

pub async fn parts_of_every_type_round_trip(fixture: Fixture) {
    let (db, _) = open_recorded_bank(&fixture);
    let thing = db
        .insert(Thing {
            id: ObjectId::new(),
        })
        .await
        .unwrap();
    let batch = Uuid::new();
    let mark = NewMark {
        thing: thing.to_ref(),
        batch,
        key: MAX_BSON_INTEGER,
        r#type: 7,
    };
    let mark = db.insert(mark.clone()).await.unwrap();
    assert_eq!(
        mark.id,
        format!("{}/{batch}/{MAX_BSON_INTEGER}/007/x", thing.id)
    );
    let parts = Mark::parts_of(&mark).unwrap();
    assert_eq!(parts.thing, thing.to_ref());
    assert_eq!(
        (parts.batch, parts.key, parts.r#type),
        (batch, MAX_BSON_INTEGER, 7)
    );
    let id = Mark::id_for(&thing, batch, MAX_BSON_INTEGER, 7_u32).unwrap();
    assert_eq!(id, mark.to_ref());
    let under = db.find::<Mark>().under(thing.id).one().await.unwrap();
    assert_eq!(under, mark);
}

pub async fn different_parts_give_different_ids(fixture: Fixture) {
    let (db, _) = open_recorded_bank(&fixture);
    let names = [
        "1",
        "10",
        "1/account",
        "a%2Fb",
        "a/b",
        "%",
        "/",
        "a b",
        "Jürgen",
        "\n",
        "{name}",
        "$x",
        "..",
        "1 ",
        "1.0",
    ];
    for name in names {
        let user = user(&db, name).await;
        assert_eq!(User::parts_of(&user).unwrap().name, name);
        let account = account(&db, &user).await;
        assert_eq!(Account::parts_of(&account).unwrap().user, user.to_ref());
        assert_eq!(account.id.matches('/').count(), 2, "{}", account.id);
    }
    let ids: BTreeSet<_> = fixture
        .documents("users")
        .await
        .into_iter()
        .map(|user| user.to_string())
        .collect();
    assert_eq!(ids.len(), names.len());

    // An id that the application chose is escaped into a single segment.
    let acme = db.scope("acme");
    for (host, id) in [("web/1", "logs/acme/web%2F1/1"), ("web", "logs/acme/web/1")] {
        let host = db.insert(Host { id: host.into() }).await.unwrap();
        let log = acme
            .insert(NewLog {
                host: host.to_ref(),
                lines: 0,
            })
            .await
            .unwrap();
        assert_eq!(log.id, id);
        assert_eq!(Log::parts_of(&log).unwrap().host, host.to_ref());
    }
}

pub async fn invalid_id_parts_are_rejected(fixture: Fixture) {
    let (db, _) = open_recorded_bank(&fixture);
    let jane = user(&db, "jane").await;

    // Values that cannot be a part.
    let empty = expect_invalid(
        db.insert(NewUser {
            name: String::new(),
            karma: 0,
        })
        .await,
    );
    assert_eq!((empty.model(), empty.path()), (Some("User"), Some("name")));
    expect_invalid(User::id_for(""));
    let many = [
        NewUser {
            name: "joe".into(),
            karma: 0,
        },
        NewUser {
            name: String::new(),
            karma: 0,
        },
    ];
    expect_invalid(db.insert_many(many).await);
    for reference in [
        "jane",
        "users",
        "users/",
        "users/jane/",
        "users/jane/account",
        "users/a%2fb",
        "users/%",
        "",
    ] {
        let error = expect_invalid(Account::id_for(reference));
        assert_eq!(error.model(), Some("User"), "{error}");
        let account = NewAccount {
            user: Ref::new(reference),
            balance: 0,
        };
        expect_invalid(db.insert(account).await);
        expect_invalid(db.find::<Payment>().under(reference).all().await);
    }
    let wide = expect_invalid(Payment::id_for(&jane, 1_000_000));
    assert_eq!((wide.model(), wide.path()), (Some("Payment"), Some("n")));
    expect_invalid(Payment::id_for(&jane, -1));

    // Texts that do not fit the pattern.
    for id in [
        "",
        "users/jane/account/",
        "users/jane",
        "users/jane/accounts",
        "/users/jane/account",
        "users//account",
    ] {
        let error = expect_invalid(Account::parts_of(id));
        assert!(error.to_string().contains("{user}/account"), "{error}");
    }
    for id in [
        "users/jane/account/07",
        "users/jane/account/+7",
        "users/jane/account/7.0",
        "users/jane/account/99999999999",
    ] {
        expect_invalid(Entry::parts_of(id));
    }
    for id in [
        "users/jane/payments/7",
        "users/jane/payments/0000007",
        "users/jane/payments/-00007",
    ] {
        expect_invalid(Payment::parts_of(id));
    }
    assert_eq!(fixture.documents("users").await.len(), 1);
    assert!(fixture.documents("accounts").await.is_empty());
}

pub async fn a_part_never_changes(fixture: Fixture) {
    let (db, _) = open_recorded_bank(&fixture);
    let (jane, joe) = (user(&db, "jane").await, user(&db, "joe").await);
    let janes_account = account(&db, &jane).await;
    let paid = db.insert(payment(&jane)).await.unwrap();
    let before = (
        fixture.documents("accounts").await,
        fixture.documents("payments").await,
    );

    let mut edited = db.edit::<Account>(&janes_account).await.unwrap();
    edited.user = joe.to_ref();
    let error = expect_invalid(db.save(&mut edited).await);
    assert_eq!(
        (error.model(), error.path()),
        (Some("Account"), Some("user"))
    );
    let error = expect_invalid(
        db.modify::<Payment>(&paid, |payment| payment.number += 1)
            .await,
    );
    assert_eq!(error.path(), Some("n"));
    expect_invalid(
        db.modify::<Account>(&janes_account, |account| account.id.push('2'))
            .await,
    );
    let now = (
        fixture.documents("accounts").await,
        fixture.documents("payments").await,
    );
    assert_eq!(now, before);

    let saved = db
        .modify::<Account>(&janes_account, |account| account.balance = 3)
        .await
        .unwrap();
    assert_eq!((saved.balance, saved.id), (3, janes_account.id));
}

pub async fn sequence_numbers_are_unique(fixture: Fixture) {
    let (db, recorder) = open_recorded_bank(&fixture);
    let (jane, joe) = (user(&db, "jane").await, user(&db, "joe").await);
    let first = db.insert(payment(&jane)).await.unwrap();
    assert_eq!(
        (first.number, first.id.as_str()),
        (1, "users/jane/payments/000001")
    );
    recorder.clear();
    let second = db.insert(payment(&jane)).await.unwrap();
    assert_eq!(second.number, 2);
    assert_eq!(recorder.operations().len(), 2);

    // A single operation reserves the numbers for each id prefix.
    recorder.clear();
    let several = [&jane, &joe, &jane, &joe, &jane].map(payment);
    let several = db.insert_many(several).await.unwrap();
    let numbers: Vec<_> = several.iter().map(|payment| payment.number).collect();
    assert_eq!(numbers, [3, 1, 4, 2, 5]);

    // Concurrent inserts.
    let inserts = (0..32).map(|task| {
        let (db, jane, joe) = (db.clone(), jane.clone(), joe.clone());
        tokio::spawn(async move {
            for turn in 0..4 {
                match (task + turn) % 3 {
                    0 => drop(db.insert(payment(&jane)).await.unwrap()),
                    1 => drop(
                        db.insert_many([payment(&jane), payment(&joe)])
                            .await
                            .unwrap(),
                    ),
                    _ => drop(db.insert(payment(&joe)).await.unwrap()),
                }
            }
        })
    });
    for insert in inserts.collect::<Vec<_>>() {
        insert.await.unwrap();
    }
    let mut all = 0;
    for user in [&jane, &joe] {
        let payments = db.find::<Payment>().under(user).all().await.unwrap();
        let numbers: BTreeSet<_> = payments.iter().map(|payment| payment.number).collect();
        assert_eq!(numbers.len(), payments.len());
        // No insert has failed, so there is no gap.
        assert_eq!(numbers.last(), Some(&(payments.len() as i64)));
        all += payments.len();
    }
    let single = 32 * 4 / 3;
    assert!(
        (7 + 32 * 4 + single..=7 + 32 * 4 + single + 2).contains(&all),
        "{all}"
    );

    // The number of a deleted document is not used again.
    let last = db.insert(payment(&jane)).await.unwrap();
    db.delete::<Payment>(&last).await.unwrap();
    let next = db.insert(payment(&jane)).await.unwrap();
    assert_eq!(next.number, last.number + 1);
    db.delete_many::<Payment>(|_| Filter::all()).await.unwrap();
    let next = db.insert(payment(&jane)).await.unwrap();
    assert_eq!(next.number, last.number + 2);
}

pub async fn concurrent_inserts_create_one_counter(fixture: Fixture) {
    let (db, _) = open_recorded_bank(&fixture);
    let inserts = (0..32).map(|_| {
        let db = db.clone();
        tokio::spawn(async move { db.insert(tag("new")).await.unwrap().number })
    });
    let mut numbers = BTreeSet::new();
    for insert in inserts.collect::<Vec<_>>() {
        numbers.insert(insert.await.unwrap());
    }
    assert_eq!(numbers, (1..=32).collect());
}

pub async fn numbers_continue_after_existing_documents(fixture: Fixture) {
    let (db, _) = open_recorded_bank(&fixture);
    let (jane, joe) = (user(&db, "jane").await, user(&db, "jane1").await);
    // As before the model had numbers, or in a backup without the counters.
    let old = |user: &User, number: i64| {
        let id = Payment::id_for(user, number).unwrap().into_id();
        rawdoc! { "_id": id, "user": user.id.clone(), "n": number, "amount": 1_i64 }
    };
    let insert = operation::InsertOperation {
        collection: "payments".into(),
        documents: vec![old(&jane, 7), old(&jane, 41), old(&joe, 99)],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    assert_eq!(db.insert(payment(&jane)).await.unwrap().number, 42);
    assert_eq!(db.insert(payment(&joe)).await.unwrap().number, 100);

    // Soft-deleted documents count, too.
    let (acme, globex) = (db.scope("acme"), db.scope("globex"));
    let host = db.insert(Host { id: "web".into() }).await.unwrap();
    let log = || NewLog {
        host: host.to_ref(),
        lines: 1,
    };
    let first = acme.insert(log()).await.unwrap();
    acme.delete::<Log>(&first).await.unwrap();
    let counters = operation::DeleteOperation {
        collection: "_odm.sequences".into(),
        filter: RawDocumentBuf::new(),
        multi: true,
        origin: Default::default(),
    };
    assert!(fixture.backend().delete(counters).await.unwrap().deleted > 0);
    assert_eq!(acme.insert(log()).await.unwrap().id, "logs/acme/web/2");
    assert_eq!(globex.insert(log()).await.unwrap().id, "logs/globex/web/1");
}

pub async fn sequence_numbers_in_transactions_and_bulks(fixture: Fixture) {
    let (db, _) = open_recorded_bank(&fixture);
    let jane = user(&db, "jane").await;
    let report = db
        .bulk()
        .add(db.insert(payment(&jane)))
        .add(db.insert(NewUser {
            name: "joe".into(),
            karma: 0,
        }))
        .add_all([db.insert(payment(&jane)), db.insert(payment(&jane))])
        .await
        .unwrap()
        .into_result()
        .unwrap();
    assert_eq!(report.inserted, 4);
    assert_eq!(db.find::<Payment>().under(&jane).count().await.unwrap(), 3);
    if !fixture.backend().capabilities().transactions {
        return;
    }
    // Concurrent transactions do not conflict on the counter.
    let inserts = (0..16).map(|_| {
        let (db, jane) = (db.clone(), jane.clone());
        tokio::spawn(async move {
            let work = |tx: odm::Transaction<Bank>| {
                let jane = jane.clone();
                async move { Ok::<_, Error>(tx.insert(payment(&jane)).await?.number) }
            };
            db.transaction(work).await.unwrap()
        })
    });
    let mut numbers = BTreeSet::new();
    for insert in inserts.collect::<Vec<_>>() {
        numbers.insert(insert.await.unwrap());
    }
    assert_eq!(numbers, (4..=19).collect());
    // A transaction that rolls back leaves a gap.
    let work = |tx: odm::Transaction<Bank>| {
        let jane = jane.clone();
        async move {
            assert_eq!(tx.insert(payment(&jane)).await?.number, 20);
            Err::<(), _>(Error::other("no"))
        }
    };
    db.transaction(work).await.unwrap_err();
    assert_eq!(db.insert(payment(&jane)).await.unwrap().number, 21);
}

pub async fn a_hook_can_change_an_id_part(fixture: Fixture) {
    let (db, _) = open_recorded_bank(&fixture);
    let first = db.insert(tag("Red")).await.unwrap();
    assert_eq!((first.id.as_str(), first.number), ("red/1", 1));
    let several = db
        .insert_many([tag("red"), tag("RED"), tag("blue")])
        .await
        .unwrap();
    let ids: Vec<_> = several.iter().map(|tag| tag.id.as_str()).collect();
    assert_eq!(ids, ["red/2", "red/3", "blue/1"]);
    let all = fixture.documents("tags").await;
    let all: Vec<_> = all.iter().map(|tag| tag.get_str("_id").unwrap()).collect();
    assert_eq!(all, ["blue/1", "red/1", "red/2", "red/3"]);
    let bulk = db.bulk().add(db.insert(tag("RED"))).await.unwrap();
    assert!(bulk.is_ok());
    db.get(Tag::id_for("red", 4).unwrap()).await.unwrap();
}

pub async fn an_upsert_uses_the_composed_id(fixture: Fixture) {
    let (db, _) = open_recorded_bank(&fixture);
    let jane = user(&db, "jane").await;
    let pay = |user: &User| {
        let new = NewAccount {
            user: user.to_ref(),
            balance: 1,
        };
        db.update::<Account>(Account::id_for(&jane).unwrap())
            .inc(|a| a.balance(), 1)
            .or_insert(new)
    };
    assert!(pay(&jane).await.unwrap().is_inserted());
    assert!(!pay(&jane).await.unwrap().is_inserted());
    let joe = user(&db, "joe").await;
    expect_invalid(pay(&joe).await.map(|_| ()));
    // The number is not known before the insert.
    let id = Payment::id_for(&jane, 1).unwrap();
    let upsert = db
        .update::<Payment>(id)
        .inc(|p| p.amount(), 1)
        .or_insert(payment(&jane));
    assert!(upsert.await.unwrap_err().is_unsupported());
    assert!(fixture.documents("payments").await.is_empty());
}

pub async fn children_are_found_by_id_prefix(fixture: Fixture) {
    let (db, _) = open_recorded_bank(&fixture);
    let mut users = Vec::new();
    for name in ["1", "10", "1-a", "1.", "1/x", "2", "0"] {
        let user = user(&db, name).await;
        db.insert_many((0..25).map(|_| payment(&user)))
            .await
            .unwrap();
        users.push(user);
    }
    let one = &users[0];
    let children = || db.find::<Payment>().under(one);
    let all = children().all().await.unwrap();
    assert_eq!(all.len(), 25);
    assert!(all.iter().all(|payment| payment.user == one.to_ref()));
    for user in &users {
        assert_eq!(db.find::<Payment>().under(user).count().await.unwrap(), 25);
    }
    assert_eq!(
        children()
            .filter(|p| p.number().gt(20))
            .count()
            .await
            .unwrap(),
        5
    );
    assert_eq!(
        db.find::<Payment>()
            .under("users/nobody")
            .count()
            .await
            .unwrap(),
        0
    );

    // The query uses the index on `_id`, and examines no documents of a different parent.
    let explain = children().explain().await.unwrap();
    assert_eq!(explain.indexes, ["_id_"]);
    assert!(!explain.is_collection_scan);
    assert_eq!(explain.documents_examined, 25);
    assert!(explain.keys_examined <= 26, "{explain:?}");

    // Pages follow the order of the numbers, which are zero-padded in the id.
    let first = children().page(20).await.unwrap();
    let numbers: Vec<_> = first.items.iter().map(|payment| payment.number).collect();
    assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
    let second = children().page(20).after(first.next);
    let explain = second.clone().explain().await.unwrap();
    assert!(
        !explain.is_collection_scan
            && !explain.is_sorted_in_memory
            && explain.documents_examined <= 6,
        "{explain:?}"
    );
    let second = second.await.unwrap();
    assert_eq!(second.items.len(), 5);
    assert!(second.next.is_none());

    // Children of a parent with a composed id. Unpadded numbers sort as text, so 10 comes before 2.
    let first_account = account(&db, one).await;
    for number in [1, 2, 10] {
        db.insert(NewEntry {
            account: first_account.to_ref(),
            number,
        })
        .await
        .unwrap();
    }
    let entries = db
        .find::<Entry>()
        .under(&first_account)
        .sort(|e| e.id().asc())
        .all()
        .await
        .unwrap();
    assert_eq!(
        entries.iter().map(|entry| entry.number).collect::<Vec<_>>(),
        [1, 10, 2]
    );
    let entries = db
        .find::<Entry>()
        .under(&first_account)
        .sort(|e| e.number().asc())
        .all()
        .await
        .unwrap();
    assert_eq!(
        entries.iter().map(|entry| entry.number).collect::<Vec<_>>(),
        [1, 2, 10]
    );
    let (entry, link) = db
        .find::<Entry>()
        .under(&first_account)
        .with(|e| e.account())
        .sort(|e| e.number().desc())
        .first()
        .await
        .unwrap()
        .unwrap();
    assert_eq!((entry.number, link.loaded()), (10, Some(&first_account)));
}

pub async fn load_reads_several_models_at_once(fixture: Fixture) {
    let (db, recorder) = open_recorded_bank(&fixture);
    let (jane, joe) = (user(&db, "jane").await, user(&db, "joe").await);
    let janes_account = account(&db, &jane).await;
    recorder.clear();

    let nobody = Ref::<User>::new("users/nobody");
    // The collection of one model does not exist yet.
    let logs: Vec<Ref<Payment>> = vec![Payment::id_for(&jane, 1).unwrap()];
    let loaded = db.load((
        logs,
        &jane.to_ref(),
        Account::id_for(&jane).unwrap(),
        [joe.to_ref(), nobody.clone(), joe.to_ref()],
        joe.to_ref(),
    ));
    let (payments, user, account, users, other) = loaded.await.unwrap();
    assert_eq!((&user, &account, &other), (&jane, &janes_account, &joe));
    assert_eq!(payments.missing().count(), 1);
    assert_eq!(users.len(), 3);
    assert_eq!(users.loaded().collect::<Vec<_>>(), [&joe, &joe]);
    assert_eq!(users.missing().collect::<Vec<_>>(), [&nobody]);
    assert_eq!(recorder.operations().len(), 1);
    assert_eq!(recorder.queries(), 1);

    // A missing document.
    let error = db.load((&jane.to_ref(), &nobody)).await.unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(
        (error.model(), error.id()),
        (Some("User"), Some(&nobody.id().clone().into()))
    );
    recorder.clear();
    let (none, nothing) = db
        .load((Vec::<Ref<User>>::new(), Vec::<Ref<Account>>::new()))
        .await
        .unwrap();
    assert!(none.is_empty() && nothing.is_empty());
    assert_eq!(recorder.operations().len(), 0);

    // 10,001 references take two queries.
    let many: Vec<Ref<User>> = (0..10_001)
        .map(|i| Ref::new(format!("users/{i}")))
        .collect();
    recorder.clear();
    let (user, many) = db.load((jane.to_ref(), many)).await.unwrap();
    assert_eq!((user, many.missing().count()), (jane.clone(), 10_001));
    assert_eq!(recorder.queries(), 2);

    // A stored document that does not fit the model is an error of that model.
    let broken = operation::InsertOperation {
        collection: "accounts".into(),
        documents: vec![
            rawdoc! { "_id": "users/joe/account", "user": "users/joe", "balance": "much" },
        ],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(broken).await.unwrap();
    let error = db
        .load((joe.to_ref(), Account::id_for(&joe).unwrap()))
        .await
        .unwrap_err();
    assert!(error.is_decode());
    assert_eq!(
        (error.model(), error.path()),
        (Some("Account"), Some("balance"))
    );
}

pub async fn load_in_a_transaction_sees_its_writes(fixture: Fixture) {
    let (db, _) = open_recorded_bank(&fixture);
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let jane = user(&db, "jane").await;
    let work = |tx: odm::Transaction<Bank>| {
        let jane = jane.clone();
        async move {
            tx.insert(NewAccount {
                user: jane.to_ref(),
                balance: 7,
            })
            .await?;
            let (_, account) = tx.load((jane.to_ref(), Account::id_for(&jane)?)).await?;
            Ok::<_, Error>(account.balance)
        }
    };
    assert_eq!(db.transaction(work).await.unwrap(), 7);
}

pub async fn an_upgrade_keeps_the_parts(fixture: Fixture) {
    let (db, _) = open_recorded_bank(&fixture);
    let insert = operation::InsertOperation {
        collection: "rooms".into(),
        documents: vec![
            rawdoc! { "_id": "a/7", "room": 7_i64 },
            rawdoc! { "_id": "b/7", "room": 7_i64, "moved": true },
        ],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    let room = db.get(Room::id_for("a", 7).unwrap()).await.unwrap();
    assert_eq!(room.house, "a");
    let error = expect_invalid(db.get(Room::id_for("b", 7).unwrap()).await);
    assert_eq!(error.path(), Some("room"));
    let new = db
        .insert(NewRoom {
            house: "c".into(),
            room: 1,
        })
        .await
        .unwrap();
    assert_eq!(db.get(new.to_ref()).await.unwrap(), new);
}

pub async fn load_respects_scopes_and_soft_deletes(fixture: Fixture) {
    let (db, _) = open_recorded_bank(&fixture);
    let (acme, globex) = (db.scope("acme"), db.scope("globex"));
    let host = db.insert(Host { id: "web".into() }).await.unwrap();
    let log = || NewLog {
        host: host.to_ref(),
        lines: 1,
    };
    let logs = acme.insert_many([log(), log()]).await.unwrap();
    let (seen, gone) = (&logs[0], &logs[1]);
    acme.delete::<Log>(gone).await.unwrap();

    let (host, all) = acme
        .load((host.to_ref(), [seen.to_ref(), gone.to_ref()]))
        .await
        .unwrap();
    assert_eq!(host.id, "web");
    assert_eq!(all.loaded().collect::<Vec<_>>(), [seen]);
    assert!(
        acme.load((gone.to_ref(),))
            .await
            .unwrap_err()
            .is_not_found()
    );
    assert!(
        globex
            .load((seen.to_ref(),))
            .await
            .unwrap_err()
            .is_not_found()
    );
    let under = acme.find::<Log>().under("acme").one().await.unwrap();
    assert_eq!(under, *seen);
    assert_eq!(
        acme.find::<Log>()
            .under("acme")
            .with_deleted()
            .count()
            .await
            .unwrap(),
        2
    );
    assert_eq!(globex.find::<Log>().under("acme").count().await.unwrap(), 0);
    // A soft-deleted document keeps the id.
    assert_eq!(acme.insert(log()).await.unwrap().day, 3);
}

pub async fn an_insert_generates_the_id(fixture: Fixture) {
    let db = Database::<Post>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let sender = |mail: &str| NewSender { mail: mail.into() };
    let stored = db
        .insert_many(["ann", "ben", "cid"].map(sender))
        .await
        .unwrap();
    let ids: BTreeSet<_> = stored.iter().map(|sender| sender.id).collect();
    assert_eq!(ids.len(), 3);
    let [ann, ..] = stored.as_slice() else {
        panic!("{stored:?}")
    };
    assert_eq!(db.get::<Sender>(ann).await.unwrap(), *ann);

    // An upsert by a unique index keeps the existing id.
    let known = db.upsert_by(|s| s.mail(), sender("ann")).returning_after();
    assert_eq!(known.await.unwrap().into_inner(), *ann);
    let new = db.upsert_by(|s| s.mail(), sender("dan")).await.unwrap();
    assert!(new.is_inserted());
    // The id of the update cannot become the id of the document.
    let update = db
        .update::<Sender>(ObjectId::new())
        .set(|s| s.mail(), "eve");
    let error = update.or_insert(sender("eve")).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Unsupported, Some("_id"))
    );

    // A document with a copy is completed after the id is known.
    let letter = NewLetter {
        sender: ann.to_ref(),
    };
    let first = db.insert(letter.clone()).await.unwrap();
    let second = db.insert(letter).await.unwrap();
    assert_ne!(first.id, second.id);
    assert_eq!(first.mail, "ann");
    assert_eq!(db.get::<Letter>(&first).await.unwrap(), first);

    let json = format!(r#"{{ "sender": {{ "$oid": "{}" }} }}"#, ann.id);
    let letter: NewLetter = serde_json::from_str(&json).unwrap();
    assert_eq!(letter.sender, ann.to_ref());
    let chosen = json.replace("{ \"sender\"", r#"{ "_id": 7, "sender""#);
    let error = serde_json::from_str::<NewLetter>(&chosen).unwrap_err();
    assert!(error.to_string().contains("unknown field `_id`"), "{error}");
}
