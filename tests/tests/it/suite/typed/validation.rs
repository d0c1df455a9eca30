use std::collections::BTreeMap;

use garde::Validate;
use odm::{
    ErrorKind,
    backend::{Recorder, operation::Operation},
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded, Validate)]
#[embedded(validate)]
pub struct Address {
    #[serde(rename = "town")]
    #[garde(length(min = 2))]
    city: String,
    #[garde(skip)]
    street: String,
}

/// An embedded struct with rules that are not known by path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded, Validate)]
pub struct Opaque {
    #[garde(range(max = 10))]
    level: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document, Validate)]
#[document(collection = "users", validate)]
pub struct User {
    #[serde(rename = "_id")]
    #[garde(skip)]
    id: i64,
    #[garde(length(min = 1, max = 10))]
    name: String,
    #[serde(rename = "years")]
    #[garde(range(min = 0, max = 150))]
    age: i64,
    #[garde(required, inner(length(min = 3)))]
    nick: Option<String>,
    #[embed]
    #[garde(dive)]
    address: Address,
    #[embed(max = 5)]
    #[garde(dive, length(max = 3))]
    others: Vec<Address>,
    #[embed(unbounded)]
    #[garde(length(max = 3), inner(length(min = 2)))]
    tags: Vec<String>,
    #[embed]
    #[garde(dive)]
    homes: BTreeMap<String, Address>,
    #[embed]
    #[garde(dive)]
    opaque: Opaque,
    #[garde(skip)]
    low: i64,
    #[garde(custom(must_be_above(&self.low)))]
    high: i64,
    #[garde(skip)]
    free: i64,
}

fn must_be_above(low: &i64) -> impl FnOnce(&i64, &()) -> garde::Result + '_ {
    move |high, ()| match high > low {
        true => Ok(()),
        false => Err(garde::Error::new("not above `low`")),
    }
}

/// A tour with the first elements of each array as resident elements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document, Validate)]
#[document(collection = "tours", validate)]
pub struct Tour {
    #[serde(rename = "_id")]
    #[garde(skip)]
    id: i64,
    #[embed(overflow(after = 2, into = "more_stops", flag = "has_stops"))]
    #[garde(dive)]
    stops: Overflow<Stop>,
    #[embed(overflow(after = 2, into = "more_tags"))]
    #[garde(inner(length(min = 2)))]
    tags: Overflow<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded, Validate)]
#[embedded(validate)]
pub struct Stop {
    #[garde(length(min = 2))]
    city: String,
    #[garde(range(max = 10))]
    nights: i64,
}

#[derive(Schema)]
#[schema(models(User, Tour))]
pub struct Club;
type Db = odm::Database<Club>;

fn address(city: &str) -> Address {
    Address {
        city: city.into(),
        street: String::new(),
    }
}

fn user(id: i64) -> User {
    User {
        id,
        name: "jane".into(),
        age: 30,
        nick: Some("jay".into()),
        address: address("Oslo"),
        others: vec![address("Rome")],
        tags: vec!["ab".into()],
        homes: BTreeMap::from([("main".to_owned(), address("Oslo"))]),
        opaque: Opaque { level: 1 },
        low: 1,
        high: 2,
        free: 0,
    }
}

fn invalid_user(id: i64) -> User {
    User {
        name: String::new(),
        age: -1,
        others: vec![address("Rome"), address("x")],
        ..user(id)
    }
}

#[track_caller]
fn expect_validation_errors<R: std::fmt::Debug>(done: odm::Result<R>, paths: &[&str]) {
    let error = done.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Validation, "{error}");
    assert_eq!(error.model(), Some("User"), "{error}");
    let found: Vec<_> = error
        .violations()
        .map(|(path, _)| path.to_owned())
        .collect();
    assert_eq!(found, paths, "{error}");
}

pub async fn whole_documents_are_checked(fixture: Fixture) {
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(std::sync::Arc::new(recorder.clone()));
    let paths = ["name", "others.1.town", "years"];
    expect_validation_errors(db.insert(invalid_user(1)).await, &paths);
    expect_validation_errors(db.insert_many([user(1), invalid_user(2)]).await, &paths);
    expect_validation_errors(
        db.update::<User>(1)
            .inc(|u| u.free(), 1)
            .or_insert(invalid_user(1))
            .await,
        &paths,
    );
    assert_eq!(recorder.writes(), 0);
    let report = db
        .bulk()
        .add(db.insert(user(1)))
        .add(db.insert(invalid_user(2)))
        .await
        .unwrap();
    assert_eq!(report.inserted, 1);
    expect_validation_errors(report.into_result(), &paths);

    let mut edited = db.edit::<User>(1).await.unwrap();
    edited.others = invalid_user(1).others;
    edited.name = String::new();
    recorder.clear();
    expect_validation_errors(db.save(&mut edited).await, &["name", "others.1.town"]);
    expect_validation_errors(db.modify::<User>(1, |u| u.age = 151).await, &["years"]);
    assert_eq!(recorder.writes(), 0);
    db.modify::<User>(1, |u| u.age = 150).await.unwrap();
    assert_eq!(
        db.get::<User>(1).await.unwrap(),
        User {
            age: 150,
            ..user(1)
        }
    );
}

pub async fn an_error_lists_all_violations(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let error = db.insert(invalid_user(7)).await.unwrap_err();
    assert!(error.is_validation());
    assert_eq!(error.id(), Some(&7_i64.into()));
    let message = error.to_string();
    for part in [
        "`name`: length is lower than 1",
        "`years`: lower than 0",
        "`others.1.town`",
        "model User",
        "_id 7",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
}

pub async fn set_values_are_validated_without_a_read(fixture: Fixture) {
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(std::sync::Arc::new(recorder.clone()));
    db.insert(user(1)).await.unwrap();
    recorder.clear();
    let update = || db.update::<User>(1);
    expect_validation_errors(
        update().set(|u| u.name(), "").set(|u| u.age(), 200).await,
        &["name", "years"],
    );
    expect_validation_errors(
        update().set(|u| u.name(), "").returning_after().await,
        &["name"],
    );
    expect_validation_errors(
        update()
            .when(|u| u.free().eq(0))
            .set(|u| u.name(), "")
            .await,
        &["name"],
    );
    expect_validation_errors(
        db.update_many::<User>(|u| u.free().eq(0))
            .set(|u| u.name(), "")
            .await,
        &["name"],
    );
    expect_validation_errors(
        db.update_first::<User>(|u| u.free().eq(0))
            .set(|u| u.name(), "")
            .await,
        &["name"],
    );
    expect_validation_errors(
        update().set(|u| u.name(), "").or_insert(user(1)).await,
        &["name"],
    );
    let report = db.bulk().add(update().set(|u| u.name(), "")).await.unwrap();
    expect_validation_errors(report.into_result(), &["name"]);
    expect_validation_errors(update().min(|u| u.age(), -1).await, &["years"]);
    expect_validation_errors(update().max(|u| u.age(), 151).await, &["years"]);
    expect_validation_errors(update().set(|u| u.nick(), "ab").await, &["nick"]);
    expect_validation_errors(update().unset(|u| u.nick()).await, &["nick"]);
    expect_validation_errors(
        update().set(|u| u.address(), address("")).await,
        &["address.town"],
    );
    expect_validation_errors(
        update().set(|u| u.address().city(), "").await,
        &["address.town"],
    );
    expect_validation_errors(
        update().set(|u| u.others().at(0).city(), "").await,
        &["others.0.town"],
    );
    expect_validation_errors(
        update().set(|u| u.others().at(0), address("")).await,
        &["others.0.town"],
    );
    expect_validation_errors(
        update().set(|u| u.others(), [address("")]).await,
        &["others.0.town"],
    );
    expect_validation_errors(update().set(|u| u.tags().at(0), "x").await, &["tags.0"]);
    expect_validation_errors(update().set(|u| u.tags(), ["x", "xy"]).await, &["tags.0"]);
    expect_validation_errors(
        update().set(|u| u.homes().key("summer"), address("")).await,
        &["homes.summer.town"],
    );
    expect_validation_errors(update().push(|u| u.tags(), "x").await, &["tags"]);
    expect_validation_errors(
        update().push(|u| u.others(), address("")).await,
        &["others.town"],
    );
    expect_validation_errors(
        update().set(|u| u.opaque(), Opaque { level: 11 }).await,
        &["opaque.level"],
    );
    assert_eq!(recorder.operations(), []);

    // A valid update is a single operation.
    update()
        .set(|u| u.name(), "joe")
        .min(|u| u.age(), 20)
        .set(|u| u.address().city(), "Bonn")
        .set(|u| u.others().at(0).city(), "Bonn")
        .set(|u| u.tags().at(0), "xy")
        .set(|u| u.homes().key("summer"), address("Nice"))
        .inc(|u| u.free(), 1)
        .await
        .unwrap();
    assert!(matches!(
        recorder.operations().as_slice(),
        [Operation::Update(_)]
    ));
    assert!(db.get::<User>(1).await.unwrap().validate().is_ok());
}

pub async fn an_invalid_outcome_is_rolled_back(fixture: Fixture) {
    let backend = fixture.backend();
    let db = Db::with_backend(backend.clone());
    db.insert_many([
        user(1),
        User {
            age: 149,
            ..user(2)
        },
    ])
    .await
    .unwrap();
    let update = || db.update::<User>(1);
    let undecided = [
        update().inc(|u| u.age(), 1),
        update().mul(|u| u.age(), 2),
        update().push(|u| u.tags(), "yy"),
        update().pull(|u| u.tags(), "ab"),
        update().set(|u| u.opaque().level(), 3),
        update().set(|u| u.low(), 0),
        update().set(|u| u.high(), 20),
    ];
    if !backend.capabilities().transactions {
        for update in undecided {
            let error = update.await.unwrap_err();
            assert!(error.is_unsupported(), "{error}");
        }
        assert_eq!(db.get::<User>(1).await.unwrap(), user(1));
        return;
    }
    for update in undecided {
        assert!(update.await.unwrap().is_applied());
    }
    let stored = db.get::<User>(1).await.unwrap();
    assert_eq!((stored.age, stored.low, stored.opaque.level), (62, 0, 3));

    expect_validation_errors(update().inc(|u| u.age(), 100).await, &["years"]);
    expect_validation_errors(
        update().inc(|u| u.age(), 100).returning_after().await,
        &["years"],
    );
    expect_validation_errors(
        update().inc(|u| u.age(), 100).or_insert(user(1)).await,
        &["years"],
    );
    expect_validation_errors(
        update().set(|u| u.opaque().level(), 11).await,
        &["opaque.level"],
    );
    expect_validation_errors(update().set(|u| u.low(), 20).await, &["high"]);
    expect_validation_errors(
        update()
            .push_each(|u| u.tags(), ["aa", "bb", "cc", "dd"])
            .await,
        &["tags"],
    );
    let report = db
        .bulk()
        .add(update().inc(|u| u.free(), 1))
        .add(update().inc(|u| u.age(), 100))
        .add(update().inc(|u| u.free(), 1))
        .await
        .unwrap();
    assert_eq!(report.modified, 1);
    expect_validation_errors(report.into_result(), &["years"]);
    // If one result is invalid, an update of many changes no document.
    expect_validation_errors(
        db.update_many::<User>(|u| u.age().gte(0))
            .inc(|u| u.age(), 2)
            .await,
        &["years"],
    );
    let first = db
        .update_first::<User>(|u| u.age().gte(0))
        .sort(|u| u.age().desc());
    expect_validation_errors(first.inc(|u| u.age(), 2).await, &["years"]);
    let now = User { free: 1, ..stored };
    assert_eq!(db.get::<User>(1).await.unwrap(), now);
    assert_eq!(db.get::<User>(2).await.unwrap().age, 149);
}

pub async fn invalid_updates_make_transactions_rollback_only(fixture: Fixture) {
    let backend = fixture.backend();
    if !backend.capabilities().transactions {
        return;
    }
    let db = Db::with_backend(backend);
    db.insert(user(1)).await.unwrap();
    let done = db.transaction(|tx| async move {
        tx.update::<User>(1).inc(|u| u.free(), 1).await?;
        // The caller ignores the error, but the transaction cannot commit.
        tx.update::<User>(1)
            .inc(|u| u.age(), 500)
            .await
            .unwrap_err();
        Ok(())
    });
    expect_validation_errors(done.await, &["years"]);
    assert_eq!(db.get::<User>(1).await.unwrap(), user(1));
}

pub async fn existing_violations_do_not_fail_updates(fixture: Fixture) {
    let backend = fixture.backend();
    let transactions = backend.capabilities().transactions;
    let db = Db::with_backend(backend.clone());
    db.insert(user(1)).await.unwrap();
    // As if the rule had been added after the document was stored.
    let change = odm::backend::operation::DocumentChange::operators(
        bson::rawdoc! { "$set": { "name": "" } },
    );
    let update = odm::backend::operation::UpdateOperation {
        collection: "users".into(),
        filter: bson::rawdoc! { "_id": 1_i64 },
        change,
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    backend.update(update).await.unwrap();
    db.update::<User>(1).set(|u| u.age(), 31).await.unwrap();
    if transactions {
        db.update::<User>(1).inc(|u| u.age(), 1).await.unwrap();
    }
    expect_validation_errors(db.modify::<User>(1, |u| u.age += 1).await, &["name"]);
}

pub async fn concurrent_updates_keep_the_rules(fixture: Fixture) {
    let backend = fixture.backend();
    if !backend.capabilities().transactions {
        return;
    }
    let db = Db::with_backend(backend);
    db.insert(User {
        age: 146,
        ..user(1)
    })
    .await
    .unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let db = db.clone();
            tokio::spawn(async move { db.update::<User>(1).inc(|u| u.age(), 1).await })
        })
        .collect();
    let mut applied = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(done) => applied += done.matched,
            Err(error) => assert!(error.is_validation() || error.is_conflict(), "{error}"),
        }
    }
    let age = db.get::<User>(1).await.unwrap().age;
    assert_eq!(age, 146 + i64::try_from(applied).unwrap());
    assert!(age <= 150);
}

fn stop(city: &str, nights: i64) -> Stop {
    Stop {
        city: city.into(),
        nights,
    }
}

pub async fn resident_and_spilled_elements_are_validated(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let tour = |stops: Vec<Stop>, tags: &[&str]| Tour {
        id: 1,
        stops: stops.into(),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
    };
    let cities = ["Bern", "Bonn", "Brno", "Bray"];
    let stops: Vec<_> = cities.map(|city| stop(city, 9)).into();
    let mut bad = stops.clone();
    bad[3].nights = 11;
    let is_refused = |error: odm::Error, path: &str| {
        assert_eq!(error.kind(), ErrorKind::Validation, "{error}");
        assert!(error.to_string().contains(path), "{error}");
    };
    let refused = db
        .insert(tour(bad, &["ab", "cd", "ef", "g"]))
        .await
        .unwrap_err();
    is_refused(refused.clone(), "`stops.3.nights`");
    is_refused(refused, "`tags.3`");
    db.insert(tour(stops.clone(), &["ab", "cd", "ef"]))
        .await
        .unwrap();

    let push = db
        .update::<Tour>(1)
        .push_each(|t| t.stops(), [stop("Bari", 1), stop("B", 1)]);
    is_refused(push.await.unwrap_err(), "`stops.city`");
    let push = db.update::<Tour>(1).push(|t| t.tags(), "g");
    is_refused(push.await.unwrap_err(), "`tags`");
    let set = db.update::<Tour>(1).set(|t| t.stops().all().nights(), 11);
    is_refused(set.await.unwrap_err(), "`stops.$[].nights`");
    let set = db.update::<Tour>(1).set(|t| t.stops().all().nights(), 10);
    set.await.unwrap();

    // The rule needs the result of the update, even for spilled elements alone.
    let spilled = db
        .update::<Tour>(1)
        .inc(|t| t.stops().matching(|s| s.city().eq("Bray")).nights(), 1);
    let refused = spilled.await.unwrap_err();
    let nights = db
        .get::<Tour>(1)
        .elements(|t| t.stops())
        .all()
        .await
        .unwrap();
    assert!(nights.iter().all(|stop| stop.nights == 10), "{nights:?}");
    if fixture.backend().capabilities().transactions {
        is_refused(refused, "`stops.3.nights`");
        let decrement = db.update::<Tour>(1).inc(|t| t.stops().all().nights(), -1);
        decrement.await.unwrap();
        let all = db
            .get::<Tour>(1)
            .elements(|t| t.stops())
            .all()
            .await
            .unwrap();
        assert_eq!(all, stops);
    } else {
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    }
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}
