//! Types of the standard library and of other crates: their stored form, conditions and updates.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use chrono::NaiveDate;
use jiff::civil;
use odm::{
    Database, ErrorKind, Filter,
    backend::{
        Recorder,
        operation::{DocumentChange, FindOperation, InsertOperation, UpdateOperation},
        read_to_end,
    },
    bson::{self, Binary, Bson, RawDocumentBuf, doc, spec::BinarySubtype},
    prelude::*,
};
use uuid::Uuid;

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "depots")]
struct Depot {
    #[serde(rename = "_id")]
    id: u64,
    name: String,
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Embedded,
)]
#[serde(rename_all = "snake_case")]
enum Grade {
    First,
    SecondHand,
}

/// A newtype of a number, as the key of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Embedded)]
struct Shelf(i32);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Embedded)]
struct Spot {
    row: i32,
    name: Box<str>,
}

/// serde reads the content of a tagged enum before it knows the types.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[serde(tag = "type")]
enum Event {
    Due {
        #[serde(with = "odm::native")]
        on: NaiveDate,
        #[serde(with = "odm::native")]
        after: Duration,
        #[serde(with = "odm::native")]
        by: Uuid,
        #[embed]
        #[serde(with = "odm::native")]
        counts: BTreeMap<i16, i64>,
    },
    Lost,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "parcels", index(sent), index(tags))]
struct Parcel {
    #[serde(rename = "_id", with = "odm::native")]
    id: Uuid,
    #[reference(on_delete = nullify)]
    parent: Option<Ref<Parcel>>,
    #[reference]
    depot: Ref<Depot>,
    #[serde(with = "odm::native")]
    sent: NaiveDate,
    #[serde(default, with = "odm::native")]
    arrived: Option<civil::Date>,
    #[serde(with = "odm::native")]
    booked: time::Date,
    #[serde(with = "odm::native")]
    limit: Duration,
    opened: DateTime,
    closed: DateTime,
    #[embed(max = 4)]
    tags: BTreeSet<String>,
    #[embed(max = 5)]
    codes: HashSet<i64>,
    #[embed(max = 5)]
    spots: BTreeSet<Spot>,
    #[embed(max = 5)]
    #[serde(with = "odm::native")]
    stops: BTreeSet<NaiveDate>,
    #[embed]
    size: [f64; 3],
    #[embed]
    corners: [Spot; 2],
    #[embed]
    #[serde(with = "odm::native")]
    window: [NaiveDate; 2],
    name: Arc<str>,
    label: Option<Box<str>>,
    #[embed]
    #[serde(with = "odm::native")]
    per_year: BTreeMap<i32, i64>,
    #[embed]
    per_grade: HashMap<Grade, i64>,
    #[embed]
    #[serde(with = "odm::native")]
    per_shelf: BTreeMap<Shelf, Spot>,
    #[embed]
    #[serde(with = "odm::native")]
    per_depot: BTreeMap<Ref<Depot>, i64>,
    #[embed]
    #[serde(with = "odm::native")]
    per_user: BTreeMap<Uuid, Duration>,
    #[embed]
    per_text: BTreeMap<Box<str>, i64>,
    #[embed]
    event: Event,
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Parcel)]
struct ParcelCard {
    #[serde(rename = "_id", with = "odm::native")]
    id: Uuid,
    tags: BTreeSet<String>,
    size: [f64; 3],
    #[serde(with = "odm::native")]
    per_year: BTreeMap<i32, i64>,
    spots: BTreeSet<SpotName>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Projection)]
#[projection(of = Spot)]
struct SpotName {
    name: Box<str>,
}

#[derive(Schema)]
#[schema(models(Depot, Parcel))]
struct Post;
type Db = Database<Post>;

fn day(day: u32) -> NaiveDate {
    NaiveDate::from_ymd_opt(2027, 1, day).unwrap()
}

/// The stored form of a day in January 2027.
fn stored_day(day: u8) -> DateTime {
    let date = DateTime::builder().year(2027).month(1).day(day);
    date.build().unwrap()
}

fn spot(row: i32, name: &str) -> Spot {
    Spot {
        row,
        name: name.into(),
    }
}

fn parcel(number: u128) -> Parcel {
    Parcel {
        id: Uuid::from_u128(number),
        parent: None,
        depot: Ref::new(1),
        sent: day(u32::try_from(number).unwrap()),
        arrived: None,
        booked: time::Date::from_calendar_date(2027, time::Month::January, 2).unwrap(),
        limit: Duration::from_secs(u64::try_from(number).unwrap() * 60),
        opened: DateTime::from_millis(0),
        closed: DateTime::from_millis(120_000),
        tags: BTreeSet::from(["b".into(), "a".into()]),
        codes: HashSet::from([7]),
        spots: BTreeSet::from([spot(1, "x")]),
        stops: BTreeSet::from([day(3), day(2)]),
        size: [1.0, 2.5, 3.0],
        corners: [spot(1, "left"), spot(2, "right")],
        window: [day(1), day(2)],
        name: format!("parcel {number}").into(),
        label: Some("fragile".into()),
        per_year: BTreeMap::from([(-5, 1), (2027, 2)]),
        per_grade: HashMap::from([(Grade::SecondHand, 4)]),
        per_shelf: BTreeMap::from([(Shelf(12), spot(3, "y"))]),
        per_depot: BTreeMap::from([(Ref::new(1), 6)]),
        per_user: BTreeMap::from([(Uuid::from_u128(9), Duration::from_millis(1_500))]),
        per_text: BTreeMap::from([("k".into(), 1)]),
        event: Event::Due {
            on: day(9),
            after: Duration::from_millis(250),
            by: Uuid::from_u128(5),
            counts: BTreeMap::from([(-1, 1)]),
        },
    }
}

fn stored_uuid(number: u128) -> Bson {
    Bson::Binary(Binary {
        subtype: BinarySubtype::Uuid,
        bytes: number.to_be_bytes().to_vec(),
    })
}

async fn database(fixture: &Fixture, numbers: &[u128]) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let depot = Depot {
        id: 1,
        name: "north".into(),
    };
    db.insert(depot).await.unwrap();
    db.insert_many(numbers.iter().map(|number| parcel(*number)))
        .await
        .unwrap();
    db
}

async fn stored_parcel(fixture: &Fixture) -> bson::Document {
    let find = FindOperation {
        collection: "parcels".into(),
        filter: RawDocumentBuf::new(),
        projection: None,
        sort: Some(RawDocumentBuf::try_from(&doc! { "_id": 1 }).unwrap()),
        limit: Some(1),
        options: Default::default(),
    };
    let found = fixture.backend().find(find).await.unwrap();
    let raw = read_to_end(found).await.unwrap().remove(0);
    let mut document = bson::Document::try_from(&*raw).unwrap();
    document.remove("_odm");
    document
}

/// Stores the first parcel again, with a changed field, under the number 20.
async fn insert_with(fixture: &Fixture, field: &str, value: impl Into<Bson>) {
    let mut document = stored_parcel(fixture).await;
    document.insert("_id", stored_uuid(20));
    document.insert(field, value);
    let insert = InsertOperation {
        collection: "parcels".into(),
        documents: vec![RawDocumentBuf::try_from(&document).unwrap()],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
}

/// Returns the numbers of the parcels that match.
async fn numbers(
    db: &Db,
    condition: impl FnOnce(ParcelFields) -> Filter<Parcel> + Send,
) -> Vec<u128> {
    let found = db.find::<Parcel>().filter(condition);
    let found = found.sort(|p| p.id().asc()).all().await.unwrap();
    found.iter().map(|parcel| parcel.id.as_u128()).collect()
}

pub async fn each_type_has_its_stored_form(fixture: Fixture) {
    let db = database(&fixture, &[1]).await;
    let mut stored = stored_parcel(&fixture).await;
    // Hash tables have no order.
    assert_eq!(stored.remove("codes"), Some(bson::bson!([7_i64])));
    let expected = doc! {
        "_id": stored_uuid(1),
        "parent": null,
        "depot": 1_i64,
        "sent": stored_day(1),
        "arrived": null,
        "booked": stored_day(2),
        "limit": 60_000_i64,
        "opened": DateTime::from_millis(0),
        "closed": DateTime::from_millis(120_000),
        "tags": ["a", "b"],
        "spots": [{ "row": 1, "name": "x" }],
        "stops": [stored_day(2), stored_day(3)],
        "size": [1.0, 2.5, 3.0],
        "corners": [{ "row": 1, "name": "left" }, { "row": 2, "name": "right" }],
        "window": [stored_day(1), stored_day(2)],
        "name": "parcel 1",
        "label": "fragile",
        "per_year": { "-5": 1_i64, "2027": 2_i64 },
        "per_grade": { "second_hand": 4_i64 },
        "per_shelf": { "12": { "row": 3, "name": "y" } },
        "per_depot": { "1": 6_i64 },
        "per_user": { "00000000-0000-0000-0000-000000000009": 1_500_i64 },
        "per_text": { "k": 1_i64 },
        "event": {
            "type": "Due",
            "on": stored_day(9),
            "after": 250_i64,
            "by": stored_uuid(5),
            "counts": { "-1": 1_i64 },
        },
    };
    assert_eq!(stored, expected);
    let read = db.get::<Parcel>(Uuid::from_u128(1)).await.unwrap();
    assert_eq!(read, parcel(1));

    // JSON has the forms of the types themselves.
    let json = serde_json::to_value(&read).unwrap();
    assert_eq!(json["_id"], "00000000-0000-0000-0000-000000000001");
    assert_eq!(json["sent"], "2027-01-01");
    assert_eq!(json["limit"], serde_json::json!({ "secs": 60, "nanos": 0 }));
    assert_eq!(json["per_depot"], serde_json::json!({ "1": 6 }));
    assert_eq!(serde_json::from_value::<Parcel>(json).unwrap(), parcel(1));

    let card: ParcelCard = db.find::<Parcel>().select().one().await.unwrap();
    assert_eq!(card.tags, parcel(1).tags);
    assert_eq!(
        (card.size, card.per_year),
        (parcel(1).size, parcel(1).per_year)
    );
    assert_eq!(card.spots.first().map(|spot| &*spot.name), Some("x"));
}

pub async fn a_save_writes_only_what_changed(fixture: Fixture) {
    let db = database(&fixture, &[1]).await;
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let recorded = Db::with_backend(recorder.clone());
    let mut edited = recorded.edit::<Parcel>(Uuid::from_u128(1)).await.unwrap();
    recorder.clear();
    recorded.save(&mut edited).await.unwrap();
    assert_eq!(recorder.operations().len(), 0);
    edited.tags.insert("c".into());
    edited.size[1] = 9.0;
    edited.per_year.insert(2028, 3);
    edited.arrived = Some(civil::date(2027, 1, 5));
    edited.per_user.clear();
    db.save(&mut edited).await.unwrap();
    let stored = stored_parcel(&fixture).await;
    assert_eq!(stored.get("tags"), Some(&bson::bson!(["a", "b", "c"])));
    assert_eq!(stored.get("size"), Some(&bson::bson!([1.0, 9.0, 3.0])));
    assert_eq!(stored.get("arrived"), Some(&stored_day(5).into()));
    let per_year = doc! { "-5": 1_i64, "2027": 2_i64, "2028": 3_i64 };
    assert_eq!(stored.get("per_year"), Some(&per_year.into()));
    assert_eq!(stored.get("per_user"), Some(&doc! {}.into()));
    assert_eq!(db.get::<Parcel>(Uuid::from_u128(1)).await.unwrap(), *edited);
}

/// The stored order of a set differs from the order of the set in memory.
pub async fn a_save_of_a_set_keeps_the_other_elements(fixture: Fixture) {
    let db = database(&fixture, &[1]).await;
    let id = Uuid::from_u128(1);
    let change = bson::rawdoc! { "$set": { "tags": ["b", "c", "a"], "codes": [7_i64, 9_i64, 8_i64, 5_i64] } };
    let update = UpdateOperation {
        collection: "parcels".into(),
        filter: RawDocumentBuf::new(),
        change: DocumentChange::operators(change),
        multi: true,
        upsert: false,
        origin: Default::default(),
    };
    fixture.backend().update(update).await.unwrap();
    let mut edited = db.edit::<Parcel>(id).await.unwrap();
    assert!(edited.tags.remove("a") && edited.codes.remove(&7));
    db.save(&mut edited).await.unwrap();
    let saved = db.get::<Parcel>(id).await.unwrap();
    assert_eq!(saved.tags, BTreeSet::from(["b".into(), "c".into()]));
    assert_eq!(saved.codes, HashSet::from([5, 8, 9]));
    assert!(!edited.is_changed().unwrap());

    // Another writer adds the same element.
    let mut edited = db.edit::<Parcel>(id).await.unwrap();
    edited.tags.insert("d".into());
    let update = db.update::<Parcel>(id).pull(|p| p.tags(), "b");
    update.await.unwrap();
    let update = db.update::<Parcel>(id).add_to_set(|p| p.tags(), "d");
    update.await.unwrap();
    let error = db.save(&mut edited).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let tags = numbers(&db, |p| {
        p.tags()
            .equals(BTreeSet::from(["c".to_owned(), "d".to_owned()]))
    })
    .await;
    assert_eq!(tags, [1]);
}

pub async fn dates_without_a_time_compare_and_sort(fixture: Fixture) {
    let db = database(&fixture, &[1, 2, 3]).await;
    assert_eq!(numbers(&db, |p| p.sent().eq(day(2))).await, [2]);
    assert_eq!(numbers(&db, |p| p.sent().gte(day(2))).await, [2, 3]);
    assert_eq!(
        numbers(&db, |p| p.sent().is_in([day(1), day(3)])).await,
        [1, 3]
    );
    assert_eq!(
        numbers(&db, |p| p.sent().between(day(2), day(9))).await,
        [2, 3]
    );
    assert_eq!(
        numbers(&db, |p| p.stops().contains(day(3))).await,
        [1, 2, 3]
    );
    assert_eq!(
        numbers(&db, |p| p.window().at(1).lt(day(2))).await,
        [] as [u128; 0]
    );
    let sorted = db.find::<Parcel>().sort(|p| p.sent().desc());
    let page = sorted.page(2).await.unwrap();
    assert_eq!(page.items[0].sent, day(3));
    let next = db.find::<Parcel>().sort(|p| p.sent().desc());
    let next = next.page(2).after(page.next.unwrap()).await.unwrap();
    assert_eq!(next.items[0].sent, day(1));

    let update = db.update::<Parcel>(Uuid::from_u128(1));
    let after = update
        .set(|p| p.sent(), day(20))
        .set(|p| p.arrived(), civil::date(2027, 1, 21))
        .min(|p| p.booked(), time::Date::MIN)
        .add_to_set(|p| p.stops(), day(2))
        .add_to_set(|p| p.stops(), day(1))
        .returning_after()
        .await
        .unwrap();
    assert_eq!((after.sent, after.booked), (day(20), time::Date::MIN));
    assert_eq!(after.stops, BTreeSet::from([day(1), day(2), day(3)]));
    assert_eq!(
        numbers(&db, |p| p.arrived().gt(civil::date(1, 1, 1))).await,
        [1]
    );

    // A save of a date without its time would lose the time, so the date is not read.
    insert_with(&fixture, "sent", DateTime::from_millis(1)).await;
    let error = db.get::<Parcel>(Uuid::from_u128(20)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
    assert_eq!(error.path(), Some("sent"));
}

pub async fn durations_are_numbers_of_milliseconds(fixture: Fixture) {
    let db = database(&fixture, &[1, 2, 3]).await;
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    assert_eq!(numbers(&db, |p| p.limit().gte(minutes(2))).await, [2, 3]);
    assert_eq!(
        numbers(&db, |p| p.limit().is_in([minutes(1), minutes(3)])).await,
        [1, 3]
    );
    // The difference of two dates is a duration, so a field can be the limit.
    let in_time = numbers(&db, |p| (p.closed().value() - p.opened()).lte(p.limit())).await;
    assert_eq!(in_time, [2, 3]);
    let after = db
        .update::<Parcel>(Uuid::from_u128(1))
        .max(|p| p.limit(), Duration::from_micros(90_000_999))
        .set(|p| p.per_user().key(Uuid::from_u128(3)), minutes(1))
        .returning_after()
        .await
        .unwrap();
    // Stored without the parts of a millisecond.
    assert_eq!(after.limit, Duration::from_secs(90));
    assert_eq!(after.per_user[&Uuid::from_u128(3)], minutes(1));

    let update = db
        .update::<Parcel>(Uuid::from_u128(1))
        .set(|p| p.limit(), Duration::MAX);
    assert_eq!(update.await.unwrap_err().kind(), ErrorKind::Encode);
    insert_with(&fixture, "limit", -1_i64).await;
    let error = db.get::<Parcel>(Uuid::from_u128(20)).await.unwrap_err();
    assert_eq!(error.path(), Some("limit"));
}

pub async fn uuids_are_ids_references_and_values(fixture: Fixture) {
    let db = database(&fixture, &[1, 2, 3]).await;
    let [first, second] = [1, 2].map(Uuid::from_u128);
    db.update::<Parcel>(second)
        .set(|p| p.parent(), Ref::new(first))
        .await
        .unwrap();
    assert_eq!(
        stored_parcel(&fixture).await.get("_id"),
        Some(&stored_uuid(1))
    );
    assert_eq!(numbers(&db, |p| p.parent().eq(Ref::new(first))).await, [2]);
    assert_eq!(
        numbers(&db, |p| p.id().is_in([first, second])).await,
        [1, 2]
    );
    let child = db.find::<Parcel>().filter(|p| p.id().eq(second));
    let child = child.with(|p| p.parent()).one().await.unwrap();
    let parent = child.1.as_ref().and_then(|parent| parent.loaded());
    assert_eq!(parent.map(|parent| parent.id), Some(first));
    let both = db.get_many::<Parcel>([second, first]).await.unwrap();
    let both: Vec<_> = both.loaded().map(|parcel| parcel.id).collect();
    assert_eq!(both, [second, first]);
    let due = numbers(&db, |p| {
        p.event().due(|due| due.by().eq(Uuid::from_u128(5)))
    })
    .await;
    assert_eq!(due, [1, 2, 3]);

    db.delete::<Parcel>(first).await.unwrap();
    assert_eq!(db.get::<Parcel>(second).await.unwrap().parent, None);
    assert!(!db.exists::<Parcel>(first).await.unwrap());

    // Other binary data of 16 bytes is no UUID.
    let binary = Binary {
        subtype: BinarySubtype::Generic,
        bytes: vec![0; 16],
    };
    insert_with(&fixture, "parent", binary).await;
    let error = db.get::<Parcel>(Uuid::from_u128(20)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Decode, Some("parent"))
    );
}

pub async fn sets_have_each_value_once(fixture: Fixture) {
    let db = database(&fixture, &[1, 2]).await;
    let update = || db.update::<Parcel>(Uuid::from_u128(1));
    update()
        .add_to_set(|p| p.tags(), "a")
        .add_to_set(|p| p.tags(), "c")
        .add_each_to_set(|p| p.codes(), [7, 8, 9])
        .await
        .unwrap();
    update().pull(|p| p.codes(), 8).await.unwrap();
    let stored = stored_parcel(&fixture).await;
    assert_eq!(stored.get("tags"), Some(&bson::bson!(["a", "b", "c"])));
    assert_eq!(stored.get("codes"), Some(&bson::bson!([7_i64, 9_i64])));

    // Sets are equal in any order.
    update().pull(|p| p.tags(), "a").await.unwrap();
    update().add_to_set(|p| p.tags(), "a").await.unwrap();
    let all = ["a", "b", "c"].map(String::from);
    assert_eq!(
        numbers(&db, |p| p.tags().equals(BTreeSet::from(all.clone()))).await,
        [1]
    );
    assert_eq!(
        numbers(&db, |p| p.codes().equals(HashSet::from([9, 7]))).await,
        [1]
    );
    assert_eq!(
        numbers(&db, |p| p.codes().equals(HashSet::new())).await,
        [] as [u128; 0]
    );
    assert_eq!(numbers(&db, |p| p.tags().contains("c")).await, [1]);
    assert_eq!(numbers(&db, |p| p.tags().excludes("c")).await, [2]);
    assert_eq!(
        numbers(&db, |p| p.tags().contains_all(["a", "b"])).await,
        [1, 2]
    );
    assert_eq!(numbers(&db, |p| p.tags().has_len(3)).await, [1]);
    assert_eq!(numbers(&db, |p| p.tags().starts_with("c")).await, [1]);
    assert_eq!(
        numbers(&db, |p| p.codes().any(|code| code.gt(7) & code.lt(10))).await,
        [1]
    );
    assert_eq!(numbers(&db, |p| p.spots().row().eq(1)).await, [1, 2]);

    // The limit of the array is a condition of the update.
    let error = update()
        .add_each_to_set(|p| p.tags(), ["d", "e"])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooManyElements);
    update()
        .set(|p| p.tags(), BTreeSet::new())
        .set(|p| p.codes(), HashSet::from([1]))
        .pull_where(|p| p.spots(), |spot| spot.name().eq("x"))
        .await
        .unwrap();
    let after = db.get::<Parcel>(Uuid::from_u128(1)).await.unwrap();
    assert!(after.tags.is_empty() && after.spots.is_empty());
    assert_eq!(
        numbers(&db, |p| p.tags().equals(BTreeSet::new())).await,
        [1]
    );
    let tags = db.find::<Parcel>().distinct(|p| p.tags()).await.unwrap();
    assert_eq!(tags, ["a", "b"]);
}

pub async fn arrays_of_a_fixed_length_keep_it(fixture: Fixture) {
    let db = database(&fixture, &[1]).await;
    let update = db.update::<Parcel>(Uuid::from_u128(1));
    update
        .set(|p| p.corners().at(0).name(), "top")
        .await
        .unwrap();
    let after = db
        .update::<Parcel>(Uuid::from_u128(1))
        .set(|p| p.size().at(2), 7.0)
        .inc(|p| p.corners().all().row(), 1)
        .set(|p| p.window(), [day(5), day(6)])
        .returning_after()
        .await
        .unwrap();
    assert_eq!(after.size, [1.0, 2.5, 7.0]);
    assert_eq!(after.corners, [spot(2, "top"), spot(3, "right")]);
    assert_eq!(after.window, [day(5), day(6)]);
    assert_eq!(numbers(&db, |p| p.size().at(2).gt(6.0)).await, [1]);
    assert_eq!(
        numbers(&db, |p| p.size().equals([1.0, 2.5, 7.0])).await,
        [1]
    );
    assert_eq!(numbers(&db, |p| p.corners().name().eq("right")).await, [1]);

    // An index beyond the end would make the array longer.
    let update = db
        .update::<Parcel>(Uuid::from_u128(1))
        .set(|p| p.size().at(3), 1.0);
    assert_eq!(update.await.unwrap_err().kind(), ErrorKind::Invalid);
    insert_with(&fixture, "size", bson::bson!([1.0])).await;
    let error = db.get::<Parcel>(Uuid::from_u128(20)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Decode, Some("size"))
    );
}

pub async fn shared_texts_are_texts(fixture: Fixture) {
    let db = database(&fixture, &[1, 2]).await;
    let (owned, shared): (String, Arc<str>) = ("parcel 2".into(), "parcel 2".into());
    assert_eq!(numbers(&db, |p| p.name().eq(&owned)).await, [2]);
    assert_eq!(numbers(&db, |p| p.name().eq(shared.clone())).await, [2]);
    assert_eq!(
        numbers(&db, |p| p.name().is_in(["parcel 1", "none"])).await,
        [1]
    );
    assert_eq!(numbers(&db, |p| p.name().starts_with(&owned)).await, [2]);
    assert_eq!(numbers(&db, |p| p.name().matches("^parcel 2$")).await, [2]);
    assert_eq!(numbers(&db, |p| p.name().starts_with(&*shared)).await, [2]);
    assert_eq!(numbers(&db, |p| p.name().gt("parcel 1")).await, [2]);
    assert_eq!(
        numbers(&db, |p| p.label().contains_text("rag")).await,
        [1, 2]
    );
    let update = db.update::<Parcel>(Uuid::from_u128(1));
    update
        .set(|p| p.name(), "one")
        .set(|p| p.label(), None)
        .await
        .unwrap();
    let after = db.get::<Parcel>(Uuid::from_u128(1)).await.unwrap();
    assert_eq!((&*after.name, after.label), ("one", None));
    db.update::<Parcel>(Uuid::from_u128(1))
        .set(|p| p.label(), owned)
        .await
        .unwrap();
    assert_eq!(numbers(&db, |p| p.label().eq("parcel 2")).await, [1]);
}

pub async fn maps_have_keys_of_every_type(fixture: Fixture) {
    let db = database(&fixture, &[1]).await;
    let id = Uuid::from_u128(1);
    let depot = db.get::<Depot>(1).await.unwrap();
    let user = Uuid::from_u128(9);
    let after = db
        .update::<Parcel>(id)
        .inc(|p| p.per_year().key(-5), 10)
        .set(|p| p.per_year().key(2030), 1)
        .remove_key(|p| p.per_year(), 2027)
        .set(|p| p.per_grade().key(Grade::First), 1)
        .inc(|p| p.per_shelf().key(Shelf(12)).row(), 1)
        .inc(|p| p.per_depot().key(&depot), 1)
        .set(|p| p.per_depot().key(Ref::new(2)), 5)
        .rename_key(|p| p.per_text(), "k", "l")
        .returning_after()
        .await
        .unwrap();
    assert_eq!(after.per_year, BTreeMap::from([(-5, 11), (2030, 1)]));
    let per_grade = HashMap::from([(Grade::First, 1), (Grade::SecondHand, 4)]);
    assert_eq!(after.per_grade, per_grade);
    assert_eq!(after.per_shelf[&Shelf(12)].row, 4);
    assert_eq!(
        after.per_depot,
        BTreeMap::from([(Ref::new(1), 7), (Ref::new(2), 5)])
    );
    assert_eq!(after.per_text, BTreeMap::from([("l".into(), 1)]));

    for matching in [
        numbers(&db, |p| p.per_year().key(2030).gte(1)).await,
        numbers(&db, |p| p.per_year().contains_key(-5)).await,
        numbers(&db, |p| p.per_grade().key(Grade::First).eq(1)).await,
        numbers(&db, |p| p.per_shelf().key(Shelf(12)).name().eq("y")).await,
        numbers(&db, |p| p.per_depot().key(depot.to_ref()).eq(7)).await,
        numbers(&db, |p| p.per_user().key(user).lt(Duration::from_secs(2))).await,
        numbers(&db, |p| p.per_text().key("l").eq(1)).await,
        numbers(&db, |p| p.event().due(|due| due.counts().key(-1).eq(1))).await,
    ] {
        assert_eq!(matching, [1]);
    }
    assert_eq!(
        numbers(&db, |p| p.per_year().contains_key(2027)).await,
        [] as [u128; 0]
    );

    // Each key has a single text, so that conditions find each key.
    for key in ["07", "seven", "99999999999"] {
        insert_with(&fixture, "per_year", doc! { key: 1_i64 }).await;
        let error = db.get::<Parcel>(Uuid::from_u128(20)).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.path()),
            (ErrorKind::Decode, Some("per_year"))
        );
        db.delete_many::<Parcel>(|p| p.id().eq(Uuid::from_u128(20)))
            .await
            .unwrap();
    }
}

pub async fn ids_of_u64_reach_the_largest_int64(fixture: Fixture) {
    let db = database(&fixture, &[1]).await;
    let largest = u64::try_from(i64::MAX).unwrap();
    let depot = |id| Depot {
        id,
        name: "south".into(),
    };
    db.insert(depot(largest)).await.unwrap();
    db.update::<Depot>(largest)
        .set(|d| d.name(), "west")
        .await
        .unwrap();
    let found = db
        .find::<Depot>()
        .filter(|d| d.id().gt(1))
        .one()
        .await
        .unwrap();
    assert_eq!((found.id, found.name.as_str()), (largest, "west"));
    db.update::<Parcel>(Uuid::from_u128(1))
        .set(|p| p.depot(), Ref::new(largest))
        .await
        .unwrap();
    let parcel = db.find::<Parcel>().with(|p| p.depot()).one().await.unwrap();
    assert_eq!(parcel.1.loaded().map(|depot| depot.id), Some(largest));
    for error in [
        db.insert(depot(largest + 1)).await.unwrap_err(),
        db.get::<Depot>(largest + 1).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Encode);
    }
}
