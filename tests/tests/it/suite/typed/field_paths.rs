//! Every kind of field path: filters, sorts, updates and projections.

use std::collections::{BTreeMap, HashMap};

use odm::{ErrorKind, Filter, prelude::*};

use crate::Fixture;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, Embedded)]
struct Spot {
    x: i64,
    #[embed(unbounded)]
    names: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "places")]
struct Everything {
    #[serde(rename = "_id")]
    id: i64,
    one: i64,
    #[embed]
    spot: Spot,
    maybe: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    absent: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    other: Option<i64>,
    #[embed]
    maybe_spot: Option<Spot>,
    #[embed(max = 3)]
    #[serde(skip_serializing_if = "Option::is_none")]
    maybe_list: Option<Vec<i64>>,
    #[embed(max = 2)]
    #[serde(skip_serializing_if = "Option::is_none")]
    short_list: Option<Vec<i64>>,
    #[embed(unbounded)]
    list: Vec<i64>,
    #[embed(unbounded)]
    spots: Vec<Spot>,
    #[embed(unbounded)]
    maybes: Vec<Option<i64>>,
    #[embed(unbounded)]
    grid: Vec<Vec<i64>>,
    #[embed(unbounded)]
    spot_grid: Vec<Vec<Spot>>,
    #[embed]
    map: BTreeMap<String, i64>,
    #[embed]
    spot_map: HashMap<String, Spot>,
    #[embed]
    list_map: BTreeMap<String, Vec<i64>>,
    #[embed]
    #[serde(skip_serializing_if = "Option::is_none")]
    maybe_map: Option<BTreeMap<String, i64>>,
    #[embed(unbounded)]
    maps: Vec<BTreeMap<String, i64>>,
}

#[derive(Deserialize, Projection)]
#[projection(of = Everything)]
struct FourFields {
    spot: Spot,
    maybe: Option<i64>,
    grid: Vec<Vec<i64>>,
    map: BTreeMap<String, i64>,
}

#[derive(Debug, Clone, Copy, Schema)]
#[schema(models(Everything))]
struct World;

type Db = odm::Database<World>;

fn spot(x: i64, names: &[&str]) -> Spot {
    Spot {
        x,
        names: names.iter().map(ToString::to_string).collect(),
    }
}

fn map<T>(entries: impl IntoIterator<Item = (&'static str, T)>) -> BTreeMap<String, T> {
    let owned = entries
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value));
    owned.collect()
}

/// Inserts three documents: the first has a value in every field, the second has empty fields, the third has different values.
async fn world(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    let first = Everything {
        id: 1,
        one: 5,
        spot: spot(5, &["a", "b"]),
        maybe: Some(5),
        absent: Some(5),
        maybe_spot: Some(spot(5, &["a"])),
        maybe_list: Some(vec![1, 5]),
        list: vec![1, 5],
        spots: vec![spot(1, &["a"]), spot(5, &["b", "c"])],
        maybes: vec![None, Some(5)],
        grid: vec![vec![1, 2], vec![], vec![5]],
        spot_grid: vec![vec![spot(1, &["a"])], vec![spot(2, &[]), spot(5, &["b"])]],
        map: map([("k", 5), ("l", 1)]),
        spot_map: map([("k", spot(5, &["a"]))]).into_iter().collect(),
        list_map: map([("k", vec![1, 5])]),
        maybe_map: Some(map([("k", 5)])),
        maps: vec![map([("l", 5)]), map([("k", 5)])],
        ..Everything::default()
    };
    let second = Everything {
        id: 2,
        ..Everything::default()
    };
    let third = Everything {
        id: 3,
        one: 7,
        spot: spot(7, &["z"]),
        maybe: Some(7),
        maybe_spot: Some(spot(7, &[])),
        list: vec![7],
        spots: vec![spot(7, &[])],
        maybes: vec![Some(7)],
        grid: vec![vec![7], vec![1, 7]],
        spot_grid: vec![vec![spot(7, &["z"])]],
        map: map([("k", 7)]),
        ..Everything::default()
    };
    db.insert_many([first, second, third]).await.unwrap();
    db
}

type EverythingFilter = Filter<Everything>;

fn everything_fields() -> odm::Fields<Everything> {
    <Everything as Document>::fields()
}

pub async fn every_path_can_be_filtered(fixture: Fixture) {
    let db = world(&fixture).await;
    let only_first: [(&str, EverythingFilter); 40] = [
        ("field", everything_fields().one().eq(5)),
        (
            "nested field",
            everything_fields().spot().x().lt(6) & everything_fields().spot().x().gt(0),
        ),
        (
            "whole struct",
            everything_fields().spot().eq(spot(5, &["a", "b"])),
        ),
        (
            "array in a struct",
            everything_fields().spot().names().contains("b"),
        ),
        ("option", everything_fields().maybe().eq(5)),
        ("option, some of", everything_fields().absent().is_some()),
        ("option, one of", everything_fields().maybe().is_in([5, 6])),
        (
            "field of an optional struct",
            everything_fields().maybe_spot().x().eq(5),
        ),
        (
            "optional struct",
            everything_fields().maybe_spot().eq(spot(5, &["a"])),
        ),
        (
            "array in an optional struct",
            everything_fields().maybe_spot().names().contains("a"),
        ),
        (
            "optional array",
            everything_fields().maybe_list().contains(5),
        ),
        (
            "optional array, is some",
            everything_fields().maybe_list().is_some(),
        ),
        (
            "optional array by index",
            everything_fields().maybe_list().at(1).eq(5),
        ),
        (
            "optional array, any",
            everything_fields().maybe_list().any(|n| n.gt(4) & n.lt(6)),
        ),
        (
            "array, any of its elements",
            everything_fields().list().eq(5),
        ),
        (
            "array as a whole",
            everything_fields().list().equals([1, 5]),
        ),
        ("array by index", everything_fields().list().at(1).eq(5)),
        (
            "array, all of several",
            everything_fields().list().contains_all([5, 1]),
        ),
        ("array of structs", everything_fields().spots().x().eq(5)),
        (
            "array of structs, any",
            everything_fields()
                .spots()
                .any(|s| s.x().eq(5) & s.names().contains("c")),
        ),
        (
            "array of structs by index",
            everything_fields().spots().at(1).names().at(0).eq("b"),
        ),
        (
            "array in an array of structs",
            everything_fields().spots().names().contains("c"),
        ),
        (
            "array in an array of structs by index",
            everything_fields().spots().names().at(1).eq("c"),
        ),
        ("array of options", everything_fields().maybes().eq(5)),
        (
            "array of options, none in it",
            everything_fields().maybes().any(|n| n.is_none()),
        ),
        (
            "array of arrays, a row",
            everything_fields().grid().contains(vec![5]),
        ),
        (
            "array of arrays by indexes",
            everything_fields().grid().at(2).at(0).eq(5),
        ),
        (
            "array of arrays, a row by index",
            everything_fields().grid().at(0).contains(2),
        ),
        (
            "array of arrays, any in any",
            everything_fields().grid().each().contains(5),
        ),
        (
            "array of arrays, any in any, by deref",
            everything_fields().grid().is_in([5, 6]),
        ),
        (
            "array of arrays, any row",
            everything_fields()
                .grid()
                .any(|row| row.contains(5) & row.has_len(1)),
        ),
        (
            "array of arrays, any row with",
            everything_fields()
                .grid()
                .any(|row| row.any(|n| n.gt(4) & n.lt(6))),
        ),
        (
            "array of arrays, first of any row",
            everything_fields().grid().each().at(0).eq(5),
        ),
        (
            "array of arrays of structs",
            everything_fields().spot_grid().each().x().eq(5),
        ),
        (
            "array of arrays of structs, deep",
            everything_fields().spot_grid().each().names().contains("b"),
        ),
        ("map", everything_fields().map().key("k").eq(5)),
        (
            "map of structs",
            everything_fields()
                .spot_map()
                .key("k")
                .names()
                .contains("a"),
        ),
        (
            "map of arrays",
            everything_fields().list_map().key("k").any(|n| n.gt(4)),
        ),
        (
            "optional map",
            everything_fields().maybe_map().key("k").eq(5),
        ),
        (
            "array of maps",
            everything_fields()
                .maps()
                .any(|m| m.key("k").eq(5) & !m.contains_key("l")),
        ),
    ];
    for (name, filter) in only_first {
        assert_eq!(ids(&db, filter.clone()).await, [1], "{name}: {filter:?}");
        let others = ids(&db, !filter).await;
        assert_eq!(others, [2, 3], "not {name}");
    }
    let several: [(EverythingFilter, &[i64]); 16] = [
        (everything_fields().maybe().is_none(), &[2]),
        (everything_fields().maybe().eq(None), &[2]),
        (everything_fields().maybe().exists(), &[1, 2, 3]),
        (everything_fields().absent().is_none(), &[2, 3]),
        (everything_fields().absent().exists(), &[1]),
        (everything_fields().maybe_spot().is_none(), &[2]),
        (everything_fields().maybe_spot().x().gte(5), &[1, 3]),
        (everything_fields().map().eq(map([("k", 7)])), &[3]),
        (everything_fields().map().ne(map([("k", 7)])), &[1, 2]),
        (everything_fields().map().contains_key("l"), &[1]),
        (everything_fields().map().eq(BTreeMap::new()), &[2]),
        (everything_fields().grid().each().excludes(7), &[1, 2]),
        (everything_fields().grid().each().contains_all([1, 7]), &[3]),
        (
            everything_fields()
                .grid()
                .any(|row| row.contains(1) & row.contains(7)),
            &[3],
        ),
        (
            everything_fields()
                .grid()
                .any(|row| row.contains_all([1, 2])),
            &[1],
        ),
        (
            everything_fields().grid().any(|row| row.excludes(1)),
            &[1, 3],
        ),
    ];
    for (filter, expected) in several {
        assert_eq!(ids(&db, filter.clone()).await, expected, "{filter:?}");
    }
}

async fn ids(db: &Db, filter: EverythingFilter) -> Vec<i64> {
    let found = db
        .find::<Everything>()
        .filter(|_| filter)
        .sort(|e| e.id().asc());
    found
        .all()
        .await
        .unwrap()
        .iter()
        .map(|one| one.id)
        .collect()
}

pub async fn single_value_paths_can_be_sorted(fixture: Fixture) {
    let db = world(&fixture).await;
    let e = everything_fields();
    // Missing values come first.
    for (name, sort) in [
        ("field", e.one().asc()),
        ("nested field", e.spot().x().asc()),
        ("option", e.maybe().asc()),
        ("field of an optional struct", e.maybe_spot().x().asc()),
        ("element", e.list().at(0).desc()),
        ("field of an element", e.spots().at(0).x().asc()),
        ("element of an element", e.grid().at(0).at(0).asc()),
        ("map", e.map().key("k").asc()),
    ] {
        let descends = name == "element";
        let found = db.find::<Everything>().sort(|_| sort).all().await.unwrap();
        let found: Vec<_> = found.iter().map(|one| one.id).collect();
        assert_eq!(
            found,
            if descends { [3, 1, 2] } else { [2, 1, 3] },
            "{name}"
        );
    }
}

pub async fn every_path_can_be_updated(fixture: Fixture) {
    let db = world(&fixture).await;
    db.update::<Everything>(1)
        .inc(|e| e.one(), 1)
        .inc(|e| e.spot().x(), 1)
        .push(|e| e.spot().names(), "c")
        .inc(|e| e.maybe(), 1)
        .max(|e| e.absent(), 8)
        .set(|e| e.maybe_spot().x(), 6)
        .push(|e| e.maybe_list(), 6)
        .set(|e| e.list().at(0), 6)
        .inc(|e| e.spots().all().x(), 1)
        .set(|e| e.maybes().at(0), 6)
        .push(|e| e.grid().at(1), 6)
        .inc(|e| e.grid().at(0).all(), 10)
        .set(|e| e.spot_grid().all().matching(|s| s.x().eq(5)).x(), 6)
        .inc(|e| e.map().key("k"), 1)
        .set(|e| e.map().key("new"), 6)
        .set(|e| e.spot_map().key("k").x(), 6)
        .push(|e| e.list_map().key("k"), 6)
        .set(|e| e.maybe_map().key("new"), 6)
        .set(|e| e.maps().all().key("k"), 6)
        .await
        .unwrap();
    db.update::<Everything>(1)
        .set(|e| e.maybes().matching(|n| n.eq(5)), None)
        .await
        .unwrap();
    let one = db.get::<Everything>(1).await.unwrap();
    let expected = Everything {
        id: 1,
        one: 6,
        spot: spot(6, &["a", "b", "c"]),
        maybe: Some(6),
        absent: Some(8),
        maybe_spot: Some(spot(6, &["a"])),
        maybe_list: Some(vec![1, 5, 6]),
        list: vec![6, 5],
        spots: vec![spot(2, &["a"]), spot(6, &["b", "c"])],
        maybes: vec![Some(6), None],
        grid: vec![vec![11, 12], vec![6], vec![5]],
        spot_grid: vec![vec![spot(1, &["a"])], vec![spot(2, &[]), spot(6, &["b"])]],
        map: map([("k", 6), ("l", 1), ("new", 6)]),
        spot_map: map([("k", spot(6, &["a"]))]).into_iter().collect(),
        list_map: map([("k", vec![1, 5, 6])]),
        maybe_map: Some(map([("k", 5), ("new", 6)])),
        maps: vec![map([("k", 6), ("l", 5)]), map([("k", 6)])],
        ..Everything::default()
    };
    assert_eq!(one, expected);

    db.update::<Everything>(1)
        .set(|e| e.maybe(), None)
        .unset(|e| e.absent())
        .unset(|e| e.maybe_spot())
        .set(|e| e.maybe_list(), None)
        .pull_where(|e| e.grid(), |row| row.contains(6))
        .pull(|e| e.list_map().key("k"), 5)
        .remove_key(|e| e.map(), "l")
        .remove_key(|e| e.maybe_map(), "new")
        .await
        .unwrap();
    let one = db.get::<Everything>(1).await.unwrap();
    assert_eq!(
        (one.maybe, one.absent, one.maybe_spot, one.maybe_list),
        (None, None, None, None)
    );
    assert_eq!(one.grid, [vec![11, 12], vec![5]]);
    assert_eq!((one.list_map["k"].clone(), one.map.len()), (vec![1, 6], 2));
    assert_eq!(one.maybe_map, Some(map([("k", 5)])));

    // A push creates a missing array, and respects the maximum length.
    db.update::<Everything>(2)
        .push_each(|e| e.maybe_list(), [1, 2, 3])
        .await
        .unwrap();
    let full = db
        .update::<Everything>(2)
        .push(|e| e.maybe_list(), 4)
        .await
        .unwrap_err();
    assert_eq!(full.kind(), ErrorKind::TooManyElements);
    db.update::<Everything>(2)
        .pop_first(|e| e.maybe_list())
        .inc(|e| e.absent(), 3)
        .await
        .unwrap();
    let two = db.get::<Everything>(2).await.unwrap();
    assert_eq!((two.maybe_list, two.absent), (Some(vec![2, 3]), Some(3)));
}

pub async fn values_are_renamed(fixture: Fixture) {
    let db = world(&fixture).await;
    db.update::<Everything>(1)
        .rename(|e| e.absent(), |e| e.other())
        .rename_key(|e| e.map(), "k", "m")
        .rename_key(|e| e.maybe_map(), "none", "some")
        .await
        .unwrap();
    let one = db.get::<Everything>(1).await.unwrap();
    assert_eq!((one.absent, one.other), (None, Some(5)));
    assert_eq!(
        (one.map, one.maybe_map),
        (map([("l", 1), ("m", 5)]), Some(map([("k", 5)])))
    );
    for refused in [
        // The target array has a smaller maximum length.
        db.update::<Everything>(1)
            .rename(|e| e.maybe_list(), |e| e.short_list()),
        db.update::<Everything>(1)
            .rename(|e| e.maybes().at(0), |e| e.other()),
        db.update::<Everything>(1)
            .rename(|e| e.absent(), |e| e.maybes().at(0)),
        db.update::<Everything>(1)
            .rename_key(|e| e.map(), "m", "a.b"),
        db.update::<Everything>(1)
            .rename_key(|e| e.map(), "$m", "b"),
    ] {
        let error = refused.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    db.update::<Everything>(2)
        .set(|e| e.short_list(), vec![1, 2])
        .await
        .unwrap();
    db.update::<Everything>(2)
        .rename(|e| e.short_list(), |e| e.maybe_list())
        .await
        .unwrap();
    let two = db.get::<Everything>(2).await.unwrap();
    assert_eq!((two.maybe_list, two.short_list), (Some(vec![1, 2]), None));
}

pub async fn paths_can_be_projected(fixture: Fixture) {
    let db = world(&fixture).await;
    let found: Vec<FourFields> = db
        .find::<Everything>()
        .select()
        .sort(|e| e.id().asc())
        .all()
        .await
        .unwrap();
    assert_eq!(
        (found[0].spot.x, found[0].maybe, found[1].maybe),
        (5, Some(5), None)
    );
    assert_eq!((found[2].grid.len(), found[2].map.len()), (2, 1));
}
