use chrono::{DateTime, TimeZone, Utc};
use odm::{
    action::Upserted,
    bson::{RawBson, RawBsonRef, RawDocumentBuf, rawdoc},
    prelude::*,
};
use rust_decimal::{Decimal, dec};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "stays", timestamps(created = noted), index(-from))]
struct Stay {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(with = "odm::native")]
    from: DateTime<Utc>,
    #[serde(default, with = "odm::native")]
    until: Option<DateTime<Utc>>,
    #[serde(with = "odm::native")]
    #[embed(max = 3)]
    calls: Vec<jiff::Timestamp>,
    #[serde(with = "odm::native")]
    paid: time::OffsetDateTime,
    #[serde(rename = "costs", with = "odm::native")]
    price: Decimal,
    #[serde(with = "odm::native")]
    noted: DateTime<Utc>,
    #[embed]
    room: Room,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Room {
    number: i32,
    #[serde(default, with = "odm::native")]
    cleaned: Option<time::OffsetDateTime>,
}

/// A bill that keeps the latest meals in the document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "bills")]
struct Bill {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(with = "odm::native")]
    paid: DateTime<Utc>,
    #[embed(overflow(after = 2, into = "more_meals", latest_by = number))]
    meals: Overflow<Meal>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Meal {
    number: i64,
}

/// Defines models with every kind of derived field, and with timestamps of each date library.
macro_rules! visits {
    ($($model:ident $collection:literal $time:ty;)*) => {$(
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
        #[document(
            collection = $collection,
            timestamps(created = made, updated = changed),
            soft_delete = gone
        )]
        struct $model {
            #[serde(rename = "_id")]
            id: i64,
            nights: i64,
            #[reference]
            stay: Ref<Stay>,
            #[serde(skip_serializing_if = "Option::is_none")]
            note: Option<String>,
            #[computed(nights * 2)]
            meals: i64,
            #[denormalize(from = stay.paid)]
            #[serde(with = "odm::native")]
            paid: time::OffsetDateTime,
            #[snapshot(from = stay.price)]
            #[serde(with = "odm::native")]
            price: Decimal,
            #[serde(with = "odm::native")]
            made: $time,
            #[serde(with = "odm::native")]
            changed: $time,
            #[serde(default, with = "odm::native")]
            gone: Option<$time>,
        }
    )*};
}
visits! {
    ChronoVisit "chrono_visits" DateTime<Utc>;
    TimeVisit "time_visits" time::OffsetDateTime;
    JiffVisit "jiff_visits" jiff::Timestamp;
}

#[derive(Schema)]
#[schema(models(Stay, Bill, ChronoVisit, TimeVisit, JiffVisit))]
struct Hotel;
type Db = odm::Database<Hotel>;

/// Returns a time on 2 January 2026, with nanoseconds that a BSON date cannot store.
fn arrival() -> DateTime<Utc> {
    Utc.timestamp_nanos(1_767_312_000_123_456_789)
}

/// The time of `arrival` in milliseconds.
const ARRIVAL_MILLIS: i64 = 1_767_312_000_123;

fn stay(id: i64) -> NewStay {
    NewStay {
        id,
        from: arrival(),
        until: None,
        calls: vec![jiff::Timestamp::from_nanosecond(-1).unwrap()],
        paid: time::OffsetDateTime::UNIX_EPOCH
            .to_offset(time::UtcOffset::from_hms(2, 0, 0).unwrap()),
        price: dec!(120.50),
        room: Room {
            number: 7,
            cleaned: Some(time::OffsetDateTime::UNIX_EPOCH),
        },
    }
}

async fn read_raw(db: &Db, collection: &'static str) -> RawDocumentBuf {
    let find = odm::backend::operation::FindOperation {
        collection: collection.into(),
        filter: RawDocumentBuf::new(),
        projection: None,
        sort: None,
        limit: None,
        options: Default::default(),
    };
    let cursor = db.backend().find(find).await.unwrap();
    odm::backend::read_to_end(cursor).await.unwrap().remove(0)
}

pub async fn native_types_are_stored_as_bson_types(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let inserted = db.insert(stay(1)).await.unwrap();
    let raw = read_raw(&db, "stays").await;
    let date = |millis| RawBson::DateTime(bson::DateTime::from_millis(millis));
    let stored_value = |name: &str| RawBson::from(raw.get(name).unwrap().unwrap());
    assert_eq!(stored_value("from"), date(ARRIVAL_MILLIS));
    assert_eq!(stored_value("until"), RawBson::Null);
    // A nanosecond before 1970 rounds down to the last millisecond before 1970.
    assert_eq!(stored_value("calls"), bson::rawbson!([date(-1)]));
    assert_eq!(stored_value("paid"), date(0));
    assert_eq!(
        stored_value("costs"),
        RawBson::Decimal128("120.50".parse().unwrap())
    );
    assert_eq!(
        stored_value("room"),
        bson::rawbson!({ "number": 7, "cleaned": date(0) })
    );
    assert!(matches!(stored_value("noted"), RawBson::DateTime(_)));
    // An insert returns the stored values.
    assert_eq!(
        inserted.from.timestamp_nanos_opt(),
        Some(ARRIVAL_MILLIS * 1_000_000)
    );
    assert_eq!(db.get::<Stay>(1).await.unwrap(), inserted);
}

pub async fn timestamps_combine_with_derived_fields(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert(stay(1)).await.unwrap();
    macro_rules! each {
        ($($model:ident $new:ident $collection:literal)*) => {$(
            let new = $new { id: 1, nights: 3, stay: Ref::new(1), note: None };
            let begun = bson::DateTime::now();
            let visit = db.insert(new).await.unwrap();
            assert_eq!((visit.meals, visit.price, visit.gone), (6, dec!(120.50), None));
            assert_eq!(visit.paid, time::OffsetDateTime::UNIX_EPOCH);
            assert_eq!(visit.made, visit.changed);
            assert_eq!(db.get::<$model>(1).await.unwrap(), visit);
            let raw = read_raw(&db, $collection).await;
            assert!(matches!(raw.get("made"), Ok(Some(RawBsonRef::DateTime(made))) if made >= begun));
            assert!(matches!(raw.get("gone"), Ok(Some(RawBsonRef::Null))));
            assert!(matches!(raw.get("note"), Ok(None)));

            let after = db.update::<$model>(1).inc(|v| v.nights(), 1).returning_after().await.unwrap();
            assert_eq!((after.nights, after.meals, after.made), (4, 8, visit.made));
            assert!(after.changed >= visit.changed);
            let mut edited = db.edit::<$model>(1).await.unwrap();
            edited.nights = 5;
            db.save(&mut edited).await.unwrap();
            assert_eq!(db.get::<$model>(1).await.unwrap(), *edited);
            db.delete::<$model>(1).await.unwrap();
            assert!(db.find_by_id::<$model>(1).await.unwrap().is_none());
            assert_eq!(db.restore::<$model>(1).await.unwrap().modified, 1);
            assert_eq!(db.get::<$model>(1).await.unwrap().gone, None);
        )*};
    }
    each! {
        ChronoVisit NewChronoVisit "chrono_visits"
        TimeVisit NewTimeVisit "time_visits"
        JiffVisit NewJiffVisit "jiff_visits"
    }
}

pub async fn filters_and_updates_use_stored_values(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert_many([stay(1), stay(2)]).await.unwrap();
    let (later, epoch) = (
        arrival() + chrono::Duration::days(1),
        time::OffsetDateTime::UNIX_EPOCH,
    );
    let calls = [jiff::Timestamp::UNIX_EPOCH];
    let done = db
        .update::<Stay>(1)
        .when(|s| s.from().eq(arrival()) & s.until().is_none() & s.room().cleaned().eq(epoch))
        .set(|s| s.until(), later)
        .push_each(|s| s.calls(), calls)
        .inc(|s| s.price(), dec!(0.25))
        .await
        .unwrap();
    assert!(done.is_applied());
    let remaining = db
        .find::<Stay>()
        .filter(|s| s.until().lte(later))
        .one()
        .await
        .unwrap();
    assert_eq!((remaining.id, remaining.price), (1, dec!(120.75)));
    assert_eq!(remaining.calls.len(), 2);
    let dear = db
        .find::<Stay>()
        .filter(|s| s.price().gt(dec!(120.5)))
        .count()
        .await;
    assert_eq!(dear.unwrap(), 1);
    let called = db
        .find::<Stay>()
        .filter(|s| s.calls().contains(calls[0]))
        .count()
        .await;
    assert_eq!(called.unwrap(), 1);
    db.update::<Stay>(1)
        .set(|s| s.until(), None)
        .current_date(|s| s.paid())
        .await
        .unwrap();
    let now = db.get::<Stay>(1).await.unwrap();
    assert!(now.until.is_none() && now.paid > epoch);
}

pub async fn an_upsert_returns_the_stored_document(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let upsert = || {
        let update = db.update::<Stay>(1).inc(|s| s.price(), dec!(1));
        update.or_insert(stay(1)).returning_after()
    };
    let Upserted::Inserted(inserted) = upsert().await.unwrap() else {
        panic!("there was no document to update");
    };
    assert_eq!(inserted, db.get::<Stay>(1).await.unwrap());
    let Upserted::Updated(updated) = upsert().await.unwrap() else {
        panic!("there was a document to update");
    };
    assert_eq!(updated.price, dec!(121.50));
}

pub async fn a_save_ignores_lost_precision(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert(stay(1)).await.unwrap();
    let before = read_raw(&db, "stays").await;
    let mut edited = db.edit::<Stay>(1).await.unwrap();
    edited.from += chrono::Duration::nanoseconds(5);
    db.save(&mut edited).await.unwrap();
    assert_eq!(read_raw(&db, "stays").await, before);
    edited.price += dec!(1);
    db.save(&mut edited).await.unwrap();
    assert_eq!(db.get::<Stay>(1).await.unwrap().price, dec!(121.50));
}

pub async fn a_rounding_save_keeps_spilled_elements(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let bill = Bill {
        id: 1,
        paid: arrival(),
        meals: (1..=7).map(|number| Meal { number }).collect(),
    };
    db.insert(bill).await.unwrap();
    let mut edited = db.edit::<Bill>(1).await.unwrap();
    edited.paid += chrono::Duration::nanoseconds(5_000_005);
    db.save(&mut edited).await.unwrap();
    let stored = db.get::<Bill>(1).await.unwrap();
    assert_eq!(*edited, stored);
    assert_eq!((edited.meals.len(), edited.meals.has_more()), (7, true));
}

pub async fn unrepresentable_values_are_decode_errors(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let date = |millis| RawBson::DateTime(bson::DateTime::from_millis(millis));
    let good = || {
        rawdoc! {
            "from": date(0), "calls": [], "paid": date(0), "costs": RawBson::Decimal128("1E+3".parse().unwrap()),
            "noted": date(0), "room": { "number": 1 }
        }
    };
    let bad: [(&str, RawBson); 4] = [
        ("paid", date(i64::MAX)),
        ("from", "2026-01-02T00:00:00Z".into()),
        ("costs", RawBson::Decimal128("1E+40".parse().unwrap())),
        ("costs", RawBson::Decimal128("NaN".parse().unwrap())),
    ];
    let mut documents = vec![good()];
    for (name, value) in &bad {
        let mut document = RawDocumentBuf::new();
        for field in &good() {
            let (key, other) = field.unwrap();
            let kept = if key == *name {
                value.clone()
            } else {
                other.into()
            };
            document.append(key, kept);
        }
        documents.push(document);
    }
    for (id, document) in (0_i64..).zip(&mut documents) {
        document.append(bson::raw::cstr!("_id"), id);
    }
    let insert = odm::backend::operation::InsertOperation {
        collection: "stays".into(),
        documents,
        ordered: true,
        origin: Default::default(),
    };
    db.backend().insert(insert).await.unwrap();
    assert_eq!(db.get::<Stay>(0).await.unwrap().price, dec!(1000));
    for (id, (path, _)) in (1_i64..).zip(&bad) {
        let error = db.get::<Stay>(id).await.unwrap_err();
        assert!(error.is_decode(), "{error}");
        assert_eq!(error.path(), Some(*path), "{error}");
    }
}
