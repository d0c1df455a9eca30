//! Comparisons and arithmetic of fields of the same document.

use std::{collections::BTreeMap, time::Duration};

use odm::{
    ErrorKind, Filter, backend::operation::InsertOperation, bson::RawDocumentBuf, prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Member {
    name: String,
    age: i32,
    nick: Option<String>,
    #[embed(max = 10)]
    marks: Vec<i64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Team {
    title: String,
    #[serde(rename = "lead")]
    leader: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Embedded)]
struct Cents(i64);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "teams")]
struct Club {
    #[serde(rename = "_id")]
    id: i64,
    #[index]
    branch: String,
    credits: i64,
    debits: i32,
    ratio: f64,
    limit: Option<i64>,
    price: Cents,
    paid: Cents,
    opened: DateTime,
    closed: Option<DateTime>,
    #[embed]
    first: Team,
    #[embed]
    second: Option<Team>,
    #[embed(max = 20)]
    member: Vec<Member>,
    #[embed]
    scores: BTreeMap<String, i64>,
    #[embed(unbounded)]
    grid: Vec<Vec<i64>>,
}

#[derive(Debug, Clone, Copy, Schema)]
#[schema(models(Club))]
struct League;

type Db = odm::Database<League>;

const DAY: Duration = Duration::from_secs(86_400);

fn member(name: &str, age: i32) -> Member {
    Member {
        name: name.into(),
        age,
        nick: None,
        marks: vec![i64::from(age), 2],
    }
}

fn team(title: &str, leader: &str) -> Team {
    Team {
        title: title.into(),
        leader: leader.into(),
    }
}

fn club(id: i64) -> Club {
    Club {
        id,
        branch: "north".into(),
        credits: 0,
        debits: 0,
        ratio: 0.5,
        limit: None,
        price: Cents(10),
        paid: Cents(10),
        opened: DateTime::from_millis(0),
        closed: None,
        first: team("a", "ann"),
        second: None,
        member: Vec::new(),
        scores: BTreeMap::new(),
        grid: Vec::new(),
    }
}

async fn insert_members(fixture: &Fixture, clubs: impl IntoIterator<Item = Club>) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db.insert_many(clubs).await.unwrap();
    db
}

async fn ids(db: &Db, filter: impl FnOnce(odm::Fields<Club>) -> Filter<Club>) -> Vec<i64> {
    let found = db.find::<Club>().filter(filter).sort(|c| c.id().asc());
    found
        .all()
        .await
        .unwrap()
        .iter()
        .map(|club| club.id)
        .collect()
}

/// Compares `member[0].age` with `member[1].age`, also together with a condition that an index serves.
pub async fn elements_can_be_compared_by_index(fixture: Fixture) {
    let with = |id, branch: &str, ages: &[i32]| Club {
        branch: branch.into(),
        member: ages
            .iter()
            .map(|age| member(&format!("m{age}"), *age))
            .collect(),
        ..club(id)
    };
    let db = insert_members(
        &fixture,
        [
            with(1, "north", &[30, 30]),
            with(2, "north", &[30, 31, 30]),
            with(3, "south", &[40, 40, 1]),
            with(4, "north", &[50]),
            with(5, "north", &[]),
        ],
    )
    .await;
    // Club 5 has neither a first nor a second member, and missing equals missing.
    assert_eq!(
        ids(&db, |c| c
            .member()
            .at(0)
            .age()
            .value()
            .eq(c.member().at(1).age()))
        .await,
        [1, 3, 5]
    );
    assert_eq!(
        ids(&db, |c| c.branch().eq("north")
            & c.member().at(1).exists()
            & c.member().at(0).age().value().eq(c.member().at(1).age()))
        .await,
        [1]
    );
    assert_eq!(
        ids(&db, |c| c
            .member()
            .at(0)
            .name()
            .value()
            .ne(c.member().at(1).name()))
        .await,
        [2, 4]
    );
    // Elements of an array in an element, and of an array in an array.
    assert_eq!(
        ids(&db, |c| c
            .member()
            .at(0)
            .marks()
            .at(0)
            .value()
            .eq(c.member().at(0).age())
            & c.member().at(0).exists())
        .await,
        [1, 2, 3, 4]
    );
    db.update::<Club>(4)
        .set(|c| c.grid(), vec![vec![1, 5], vec![5]])
        .await
        .unwrap();
    assert_eq!(
        ids(&db, |c| c
            .grid()
            .at(0)
            .at(1)
            .value()
            .eq(c.grid().at(1).at(0))
            & c.grid().has_len(2))
        .await,
        [4]
    );
    assert_eq!(ids(&db, |c| c.grid().at(0).at(1).value().eq(5)).await, [4]);
    // Writes use the same filters.
    let done = db
        .update_many::<Club>(|c| c.member().at(0).age().value().lt(c.member().at(1).age()))
        .set(|c| c.branch(), "west")
        .await
        .unwrap();
    assert_eq!(done.modified, 1);
    let done = db
        .update::<Club>(1)
        .when(|c| c.member().at(0).age().value().lt(c.member().at(1).age()))
        .set(|c| c.branch(), "west")
        .await
        .unwrap();
    assert!(!done.is_applied());
    let deleted = db
        .delete_many::<Club>(|c| c.member().len().gt(2))
        .await
        .unwrap();
    assert_eq!(deleted.deleted, 2);
}

pub async fn numbers_are_computed(fixture: Fixture) {
    let with = |id, credits, debits, ratio| Club {
        credits,
        debits,
        ratio,
        ..club(id)
    };
    let mut clubs = [
        with(1, 10, 4, 0.5),
        with(2, 10, 5, 2.0),
        with(3, 10, 6, 6.0),
        with(4, 3_000_000_000, 2_000_000_000, 1.0),
    ];
    clubs[1].limit = Some(5);
    clubs[2].paid = Cents(4);
    clubs[2]
        .scores
        .extend([("a".to_owned(), 1), ("0".to_owned(), 2)]);
    let db = insert_members(&fixture, clubs).await;
    let all = [1, 2, 3, 4];
    assert_eq!(
        ids(&db, |c| (c.credits().value() - c.debits()).gte(5)).await,
        [1, 2, 4]
    );
    assert_eq!(
        ids(&db, |c| (c.credits().value() - c.debits()).eq(6)).await,
        [1]
    );
    assert_eq!(
        ids(&db, |c| (c.debits().value() + c.debits())
            .gt(4_000_000_000_i64 - 1))
        .await,
        [4]
    );
    assert_eq!(ids(&db, |c| (c.debits().value() * 2 + 1).eq(11)).await, [2]);
    assert_eq!(
        ids(&db, |c| (c.debits().value() - c.credits().value() * 2)
            .lt(0))
        .await,
        all
    );
    assert_eq!(
        ids(&db, |c| c.credits().value().lte(c.id().value() * 4)).await,
        [3]
    );
    assert_eq!(
        ids(&db, |c| (c.ratio().value() * 2.0)
            .gt(c.ratio().value() + 1.5))
        .await,
        [2, 3]
    );
    assert_eq!(
        ids(&db, |c| c.debits().value().lt(c.limit())
            | c.debits().value().eq(4_i32))
        .await,
        [1]
    );
    assert_eq!(ids(&db, |c| c.limit().value().eq(c.debits())).await, [2]);
    assert_eq!(ids(&db, |c| c.price().value().gt(c.paid())).await, [3]);
    assert_eq!(
        ids(&db, |c| c.price().value().ne(Cents(10))).await,
        [0_i64; 0]
    );
    assert_eq!(ids(&db, |c| !c.price().value().eq(c.paid())).await, [3]);
    assert_eq!(
        ids(&db, |c| c.scores().key("0").value().gt(c.scores().key("a"))).await,
        [3]
    );
    assert_eq!(
        ids(&db, |c| c.branch().eq("north")
            & ((c.credits().value() - c.debits()).eq(6)
                | c.ratio().gt(5.0)))
        .await,
        [1, 3]
    );
    assert_eq!(
        db.find::<Club>()
            .filter(|c| c.credits().value().gt(c.debits()))
            .count()
            .await
            .unwrap(),
        4
    );
}

pub async fn dates_and_texts_are_compared(fixture: Fixture) {
    let with = |id, opened: i64, closed: Option<i64>, leader: &str| Club {
        opened: DateTime::from_millis(opened),
        closed: closed.map(DateTime::from_millis),
        second: (id != 3).then(|| team("b", leader)),
        ..club(id)
    };
    let day = 86_400_000;
    let db = insert_members(
        &fixture,
        [
            with(1, 0, Some(day), "ann"),
            with(2, day, Some(day * 10), "bob"),
            with(3, day * 2, None, ""),
        ],
    )
    .await;
    assert_eq!(
        ids(&db, |c| c.first().leader().value().eq(c.second().leader())).await,
        [1]
    );
    assert_eq!(
        ids(&db, |c| c.first().leader().value().lt(c.second().leader())).await,
        [2]
    );
    assert_eq!(
        ids(&db, |c| c.branch().value().eq("north")).await,
        [1, 2, 3]
    );
    let spent = |c: &odm::Fields<Club>| c.closed().value() - c.opened();
    assert_eq!(ids(&db, |c| spent(&c).gt(DAY)).await, [2]);
    assert_eq!(ids(&db, |c| spent(&c).eq(DAY)).await, [1]);
    assert_eq!(
        ids(&db, |c| spent(&c).lt(DAY * 2) & c.closed().is_some()).await,
        [1]
    );
    assert_eq!(
        ids(&db, |c| (c.opened().value() + DAY).eq(c.closed())).await,
        [1]
    );
    assert_eq!(
        ids(&db, |c| (c.closed().value() - DAY)
            .gt(DateTime::from_millis(day)))
        .await,
        [2]
    );
    assert_eq!(
        ids(&db, |c| (c.closed().value() - spent(&c)).eq(c.opened())).await,
        [1, 2]
    );
    assert_eq!(ids(&db, |c| (spent(&c) + DAY).gt(DAY * 9)).await, [2]);
    let too_fine = db
        .find::<Club>()
        .filter(|c| spent(&c).gt(Duration::from_micros(1_500)));
    assert_eq!(too_fine.all().await.unwrap_err().kind(), ErrorKind::Invalid);
}

/// MongoDB orders missing before null, and null before numbers. Arithmetic with missing or null is null.
pub async fn missing_and_null_have_an_order(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let mut all: Vec<RawDocumentBuf> = Vec::new();
    for id in 1..=4_i64 {
        let raw = bson::serialize_to_raw_document_buf(&club(id)).unwrap();
        let mut stored = RawDocumentBuf::new();
        for field in raw.iter() {
            let (name, value) = field.unwrap();
            let value: bson::RawBson = match (name.as_str(), id) {
                ("limit", 1) | ("closed", 1 | 2) => continue,
                ("limit", 2) => bson::RawBson::Null,
                ("limit", _) => 0_i64.into(),
                ("member", 1) => continue,
                ("member", 2) => bson::RawBson::Null,
                _ => value.into(),
            };
            stored.append(name, value);
        }
        all.push(stored);
    }
    let insert = InsertOperation {
        collection: "teams".into(),
        documents: all,
        ordered: true,
        origin: Default::default(),
    };
    db.backend().insert(insert).await.unwrap();
    let count = |filter: Filter<Club>| {
        let db = db.clone();
        async move { db.find::<Club>().filter(|_| filter).count().await.unwrap() }
    };
    let c = || <Club as Document>::fields();
    // In an expression, missing and null are less than any number. In a plain condition, missing and null match no range of
    // numbers.
    assert_eq!(count(c().limit().value().lt(c().credits())).await, 2);
    assert_eq!(count(c().limit().lt(1)).await, 2);
    assert_eq!(count(c().limit().value().lt(1)).await, 4);
    assert_eq!(
        count(c().limit().is_some() & c().limit().value().lt(c().credits())).await,
        0
    );
    // Missing equals missing, null equals null, and missing does not equal null.
    assert_eq!(
        count(c().second().leader().value().eq(c().member().at(9).name())).await,
        4
    );
    assert_eq!(
        count(c().limit().value().eq(c().scores().key("none"))).await,
        1
    );
    // Arithmetic with missing or null is null, and null is less than a number.
    assert_eq!(count((c().limit().value() + 5).lt(0)).await, 2);
    assert_eq!(count((c().limit().value() + 5).eq(5)).await, 2);
    // A missing array has length 0.
    assert_eq!(count(c().member().len().eq(0)).await, 4);
    assert_eq!(count(c().member().len().eq(c().limit())).await, 2);
}

pub async fn values_in_expressions_stay_values(fixture: Fixture) {
    let mut hostile = club(2);
    hostile.branch = "$first.lead".into();
    let db = insert_members(&fixture, [club(1), hostile]).await;
    assert_eq!(
        ids(&db, |c| c.branch().value().eq("$first.lead")).await,
        [2]
    );
    assert_eq!(
        ids(&db, |c| c.first().leader().value().eq("$first.lead")).await,
        [0_i64; 0]
    );
    assert_eq!(
        ids(&db, |c| c.branch().value().eq("$$ROOT")).await,
        [0_i64; 0]
    );
    for key in ["a.b", "$x", "", "a\0b"] {
        let refused = db
            .find::<Club>()
            .filter(|c| c.scores().key(key).value().eq(1));
        assert_eq!(
            refused.all().await.unwrap_err().kind(),
            ErrorKind::Invalid,
            "{key:?}"
        );
    }
}
