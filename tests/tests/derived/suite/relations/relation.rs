use std::sync::Arc;

use odm::{
    ErrorKind,
    backend::{Fault, Faults, Recorder, operation::Operation},
    bson::rawdoc,
    prelude::*,
};

use crate::{
    Fixture,
    models::{Db, Host, LogMessage, Maker, Part, Product, Spare},
};

fn product(id: i64, parts: &[i64], main: Option<i64>, spares: &[i64]) -> Product {
    Product {
        id,
        name: format!("product {id}"),
        catalog_number: 1_000 + id,
        parts: parts.iter().map(Ref::new).collect(),
        main_part: main.map(Ref::new),
        spares: spares
            .iter()
            .map(|&id| Spare {
                part: Ref::new(id),
                count: 1,
            })
            .collect(),
    }
}

/// Inserts a maker, five parts and three products. The maker of part 5 does not exist.
async fn insert_shop(fixture: &Fixture) -> (Db, Recorder) {
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(Arc::new(recorder.clone()));
    db.insert(Maker {
        id: "acme".into(),
        country: "de".into(),
    })
    .await
    .unwrap();
    let part = |id: i64| Part {
        id,
        name: format!("part {id}"),
        maker: Ref::new(if id == 5 { "gone" } else { "acme" }),
    };
    db.insert_many((1..=5).map(part)).await.unwrap();
    db.insert_many([
        product(1, &[3, 1, 2, 1], Some(5), &[4]),
        product(2, &[], None, &[]),
        product(3, &[5, 99, 3], Some(98), &[1, 97]),
    ])
    .await
    .unwrap();
    recorder.clear();
    (db, recorder)
}

/// A join keeps the order and the length of an array of references. A dangling reference is `Missing`.
pub async fn an_array_of_references(fixture: Fixture) {
    let (db, recorder) = insert_shop(&fixture).await;
    let products = db
        .find::<Product>()
        .sort(|p| p.id().asc())
        .with(|p| p.parts())
        .all()
        .await
        .unwrap();
    let names: Vec<Vec<_>> = products
        .iter()
        .map(|(_, parts)| {
            parts
                .iter()
                .map(|part| match part {
                    Loaded(part) => Ok(part.name.as_str()),
                    Missing(id) => Err(*id.id()),
                })
                .collect()
        })
        .collect();
    assert_eq!(
        names[0],
        [Ok("part 3"), Ok("part 1"), Ok("part 2"), Ok("part 1")]
    );
    assert_eq!(names[1], []);
    assert_eq!(names[2], [Ok("part 5"), Err(99), Ok("part 3")]);
    assert_eq!(recorder.queries(), 2);
    let (_, parts) = &products[2];
    assert_eq!((parts.len(), parts.loaded().count()), (3, 2));
    assert_eq!(parts.missing().map(Ref::id).collect::<Vec<_>>(), [&99]);
}

pub async fn an_optional_reference(fixture: Fixture) {
    let (db, _) = insert_shop(&fixture).await;
    let products = db
        .find::<Product>()
        .sort(|p| p.id().asc())
        .with(|p| p.main_part())
        .all()
        .await
        .unwrap();
    let [(_, first), (_, second), (_, third)] = &products[..] else {
        panic!("three products")
    };
    assert_eq!(first.as_ref().unwrap().loaded().unwrap().name, "part 5");
    assert!(second.is_none());
    assert!(matches!(third.as_ref().unwrap().get(), Missing(id) if *id.id() == 98));
}

/// A single query joins references in embedded values, several relations, and relations of relations.
pub async fn several_and_nested_relations(fixture: Fixture) {
    let (db, recorder) = insert_shop(&fixture).await;
    let products = db
        .find::<Product>()
        .sort(|p| p.id().asc())
        .with(|p| p.parts().with(|part| part.maker()))
        .with(|p| p.main_part().with(|part| part.maker()))
        .with(|p| p.spares().part())
        .all()
        .await
        .unwrap();
    // Six queries: products, parts, main parts, spares, and the makers of parts and main parts.
    assert_eq!(recorder.queries(), 6);
    let (product, parts, main, spares) = &products[0];
    assert_eq!(product.id, 1);
    for part in parts {
        let Loaded((_, maker)) = part else {
            panic!("{product:?}")
        };
        assert_eq!(maker.loaded().unwrap().country, "de");
    }
    let Loaded((part, maker)) = main.as_ref().unwrap().get() else {
        panic!("{product:?}")
    };
    assert_eq!(part.id, 5);
    assert!(matches!(maker.get(), Missing(id) if id.id() == "gone"));
    assert_eq!(spares.loaded().map(|part| part.id).collect::<Vec<_>>(), [4]);
    let (_, _, _, spares) = &products[2];
    assert_eq!(
        spares
            .iter()
            .map(|s| matches!(s, Loaded(_)))
            .collect::<Vec<_>>(),
        [true, false]
    );
}

/// A join needs one query per relation and level, and sends each id once, for any number of documents.
pub async fn the_number_of_queries_is_fixed(fixture: Fixture) {
    let (db, recorder) = insert_shop(&fixture).await;
    let many = (10..110).map(|id| product(id, &[id % 5 + 1, 2, 3], None, &[]));
    db.insert_many(many).await.unwrap();
    recorder.clear();
    let joined = db
        .find::<Product>()
        .filter(|p| p.id().gte(10))
        .with(|p| p.parts().with(|part| part.maker()))
        .all()
        .await
        .unwrap();
    assert_eq!(joined.len(), 100);
    assert_eq!(recorder.queries(), 3);
    let Operation::Find(parts) = &recorder.operations()[1] else {
        panic!("a query");
    };
    let ids = parts
        .filter
        .get_document("_id")
        .unwrap()
        .get_array("$in")
        .unwrap();
    assert_eq!(ids.into_iter().count(), 5);
}

/// The error of a failed query names the queried model, also inside a join.
pub async fn a_failed_query_names_its_model(fixture: Fixture) {
    let (db, _) = insert_shop(&fixture).await;
    let faults = Faults::new(db.backend().clone());
    let db = Db::with_backend(Arc::new(faults.clone()));
    faults.inject(2, Operation::is_query, Fault::lost_answer());
    let joined = db.find::<Product>().with(|p| p.parts()).all().await;
    let error = joined.unwrap_err();
    assert_eq!(
        (error.kind(), error.model()),
        (ErrorKind::Connection, Some("Part"))
    );
    faults.inject(1, Operation::is_query, Fault::lost_answer());
    assert_eq!(
        db.get::<Maker>("acme").await.unwrap_err().model(),
        Some("Maker")
    );
}

pub async fn a_stream_is_joined_batch_by_batch(fixture: Fixture) {
    let (db, _) = insert_shop(&fixture).await;
    db.insert_many((10..2_510).map(|id| product(id, &[id % 5 + 1], None, &[])))
        .await
        .unwrap();
    let mut rows = db
        .find::<Product>()
        .filter(|p| p.id().gte(10))
        .sort(|p| p.id().asc())
        .with(|p| p.parts())
        .stream();
    let mut next = 10;
    while let Some(row) = rows.next().await {
        let (product, parts) = row.unwrap();
        assert_eq!(product.id, next);
        assert_eq!(parts.loaded().next().unwrap().id, next % 5 + 1);
        next += 1;
    }
    assert_eq!(next, 2_510);
}

/// A join compares ids of different number types by value, like the server.
pub async fn ids_match_across_number_types(fixture: Fixture) {
    let (db, _) = insert_shop(&fixture).await;
    let written_elsewhere = odm::backend::operation::InsertOperation {
        collection: "products".into(),
        documents: vec![rawdoc! {
            "_id": 50_i64, "name": "p", "catalogNumber": 1_i64, "parts": [1_i32, 2.0], "mainPart": null, "spares": [],
        }],
        ordered: true,
        origin: Default::default(),
    };
    db.backend().insert(written_elsewhere).await.unwrap();
    let query = db.find::<Product>().filter(|p| p.id().eq(50));
    // Serde does not read the double 2.0 as an `i64`, so decoding the typed document may fail.
    let joined = query.with(|p| p.parts()).all().await;
    match joined {
        Ok(rows) => assert_eq!(rows[0].1.loaded().count(), 2),
        Err(error) => assert!(error.is_decode(), "{error:?}"),
    }
}

#[derive(Debug, Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
#[projection(of = Product)]
struct Card {
    name: String,
    catalog_number: i64,
}

pub async fn a_projection_can_be_joined(fixture: Fixture) {
    let (db, _) = insert_shop(&fixture).await;
    let cards = db
        .find::<Product>()
        .select::<Card>()
        .sort(|p| p.id().asc())
        .with(|p| p.parts())
        .with(|p| p.spares().part())
        .all()
        .await
        .unwrap();
    let (card, parts, spares) = &cards[0];
    assert_eq!(
        (card.name.as_str(), card.catalog_number),
        ("product 1", 1_001)
    );
    assert_eq!((parts.len(), spares.len()), (4, 1));
}

/// Inserts three hosts, and 60 log messages that reference two of the hosts.
async fn insert_log(fixture: &Fixture) -> (Db, Recorder, Vec<Host>) {
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(Arc::new(recorder.clone()));
    db.sync_indexes().await.unwrap();
    let hosts: Vec<_> = ["alpha", "beta", "gamma"]
        .map(|name| Host {
            id: Uuid::new(),
            name: name.into(),
        })
        .into();
    db.insert_many(hosts.clone()).await.unwrap();
    let lines = (0..60).map(|n| LogMessage {
        id: n,
        time: DateTime::from_millis(i64::from(n * 7 % 60)),
        message: format!("line {n}"),
        host: hosts[usize::try_from(n % 2).unwrap()].to_ref(),
    });
    db.insert_many(lines).await.unwrap();
    recorder.clear();
    (db, recorder, hosts)
}

pub async fn the_children_of_one_parent(fixture: Fixture) {
    let (db, recorder, hosts) = insert_log(&fixture).await;
    let query = db.find::<LogMessage>().filter(|m| m.host().eq(&hosts[1]));
    let lines = query
        .sort(|m| m.time().desc())
        .limit(5)
        .all()
        .await
        .unwrap();
    let times: Vec<_> = lines
        .iter()
        .map(|line| line.time.timestamp_millis())
        .collect();
    assert_eq!(times, [59, 57, 55, 53, 51]);
    assert!(lines.iter().all(|line| line.host == hosts[1].to_ref()));
    assert_eq!(recorder.queries(), 1);
}

pub async fn the_children_of_many_parents(fixture: Fixture) {
    let (db, recorder, _) = insert_log(&fixture).await;
    let hosts = db
        .find::<Host>()
        .sort(|h| h.name().asc())
        .with_children(
            LogMessage::by(|m| m.host())
                .sort(|m| m.time().desc())
                .limit(3),
        )
        .all()
        .await
        .unwrap();
    assert_eq!(recorder.queries(), 2);
    let times: Vec<Vec<_>> = hosts
        .iter()
        .map(|(_, lines)| {
            lines
                .iter()
                .map(|line| line.time.timestamp_millis())
                .collect()
        })
        .collect();
    assert_eq!(times, [vec![58, 56, 54], vec![59, 57, 55], vec![]]);
}

/// Children through an array of references, with a condition and a nested relation.
pub async fn children_of_many_to_many(fixture: Fixture) {
    let (db, recorder) = insert_shop(&fixture).await;
    let parts = db
        .find::<Part>()
        .sort(|p| p.id().asc())
        .with_children(
            Product::by(|p| p.parts())
                .filter(|p| p.id().lt(3))
                .with(|p| p.main_part()),
        )
        .with(|p| p.maker())
        .all()
        .await
        .unwrap();
    assert_eq!(recorder.queries(), 4);
    let used: Vec<Vec<_>> = parts
        .iter()
        .map(|(_, products, _)| {
            products
                .iter()
                .map(|(product, main)| (product.id, main.is_some()))
                .collect()
        })
        .collect();
    assert_eq!(
        used,
        [
            vec![(1, true)],
            vec![(1, true)],
            vec![(1, true)],
            vec![],
            vec![]
        ]
    );
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Part)]
struct PartName {
    name: String,
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = LogMessage)]
struct Line {
    message: String,
}

/// A condition drops unmatched and dangling references from an array. A single reference without a match is `Missing`.
pub async fn a_join_with_a_condition(fixture: Fixture) {
    let (db, recorder) = insert_shop(&fixture).await;
    let products = db
        .find::<Product>()
        .sort(|p| p.id().asc())
        .with(|p| {
            p.parts()
                .filter(|part| part.id().gte(2))
                .filter(|part| part.name().ne("part 9"))
        })
        .with(|p| {
            p.main_part()
                .filter(|part| part.maker().eq(Ref::new("acme")))
        })
        .with(|p| p.spares().part().filter(|part| part.id().lt(4)))
        .all()
        .await
        .unwrap();
    assert_eq!(recorder.queries(), 4);
    let ids = |links: &Links<Part>| {
        let ids = links.iter().map(|link| match link {
            Loaded(part) => part.id,
            Missing(id) => panic!("{id}"),
        });
        ids.collect::<Vec<_>>()
    };
    let parts = products.iter().map(|(_, parts, ..)| ids(parts));
    assert_eq!(parts.collect::<Vec<_>>(), [vec![3, 2], vec![], vec![5, 3]]);
    let spares = products.iter().map(|(.., spares)| ids(spares));
    assert_eq!(spares.collect::<Vec<_>>(), [vec![], vec![], vec![1]]);
    let main = products
        .iter()
        .map(|(_, _, main, _)| main.as_ref().map(|link| link.loaded().is_some()));
    // Part 5 has a different maker, the second product has no main part, and part 98 does not exist.
    assert_eq!(main.collect::<Vec<_>>(), [Some(false), None, Some(false)]);
}

/// The sort of a join replaces the order of the array. Dangling references come last, and do not count towards a limit.
pub async fn a_sorted_join(fixture: Fixture) {
    let (db, recorder) = insert_shop(&fixture).await;
    let joined = db
        .find::<Product>()
        .sort(|p| p.id().asc())
        .with(|p| p.parts().sort(|part| part.name().desc()))
        .with(|p| {
            p.parts()
                .sort(|part| part.maker().asc())
                .sort(|part| part.id().desc())
                .limit(2)
        })
        .with(|p| {
            p.parts()
                .limit(1)
                .select::<PartName>()
                .with(|part| part.maker())
        })
        .all()
        .await
        .unwrap();
    // Five queries: products, three joins of parts, and makers.
    assert_eq!(recorder.queries(), 5);
    let sorted = joined.iter().map(|(_, parts, ..)| {
        let ids = parts.iter().map(|link| match link {
            Loaded(part) => part.id,
            Missing(id) => -id.id(),
        });
        ids.collect::<Vec<_>>()
    });
    // A part with two references appears twice.
    assert_eq!(
        sorted.collect::<Vec<_>>(),
        [vec![3, 2, 1, 1], vec![], vec![5, 3, -99]]
    );
    let cut = joined
        .iter()
        .map(|(_, _, parts, _)| parts.loaded().map(|part| part.id).collect::<Vec<_>>());
    // Parts of the maker `acme` come before the part of the maker `gone`.
    assert_eq!(cut.collect::<Vec<_>>(), [vec![3, 2], vec![], vec![3, 5]]);
    let named = joined.iter().map(|(.., parts)| {
        let parts = parts
            .loaded()
            .map(|(part, maker)| (part.name.clone(), maker.loaded().is_some()));
        parts.collect::<Vec<_>>()
    });
    let named: Vec<_> = named.collect();
    assert_eq!(named[0], [("part 3".to_owned(), true)]);
    assert_eq!(named[2], [("part 5".to_owned(), false)]);
    // The query of a projection reads only the required fields.
    let operations = recorder.operations();
    let reads = operations.iter().filter_map(|operation| match operation {
        Operation::Find(find) => find.projection.clone(),
        _ => None,
    });
    let reads: Vec<_> = reads.collect();
    assert_eq!(reads, [rawdoc! { "name": 1, "maker": 1, "_id": 1 }]);
}

/// A join to a parent and back to its children: the hosts of log messages, and the last message of each host.
pub async fn children_of_a_joined_document(fixture: Fixture) {
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(Arc::new(recorder.clone()));
    db.sync_indexes().await.unwrap();
    let hosts: Vec<_> = (0..3)
        .map(|n| Host {
            id: Uuid::new(),
            name: format!("host {n}"),
        })
        .collect();
    db.insert_many(hosts.clone()).await.unwrap();
    let message = |id: i32| LogMessage {
        id,
        time: DateTime::from_millis(id.into()),
        message: format!("message {id}"),
        host: hosts[usize::try_from(id % 2).unwrap()].to_ref(),
    };
    db.insert_many((1..=9).map(message)).await.unwrap();
    recorder.clear();
    let last = || {
        LogMessage::by(|m| m.host())
            .sort(|m| m.time().desc())
            .limit(1)
    };
    let lines = db
        .find::<LogMessage>()
        .filter(|m| m.id().lte(3))
        .sort(|m| m.id().asc())
        .with(|m| m.host().with_children(last().select::<Line>()))
        .all()
        .await
        .unwrap();
    assert_eq!(recorder.queries(), 3);
    let joined = lines.iter().map(|(line, host)| {
        let (host, last) = host.loaded().unwrap();
        (line.id, host.name.as_str(), last[0].message.as_str())
    });
    let expected = [
        (1, "host 1", "message 9"),
        (2, "host 0", "message 8"),
        (3, "host 1", "message 9"),
    ];
    assert_eq!(joined.collect::<Vec<_>>(), expected);

    // Children of children: the last message of each host, and all messages of the host of that message.
    recorder.clear();
    let all = LogMessage::by(|m| m.host()).filter(|m| m.id().lte(3));
    let hosts = db
        .find::<Host>()
        .sort(|h| h.name().asc())
        .with_children(last().with(|m| m.host().with_children(all)))
        .all()
        .await
        .unwrap();
    assert_eq!(recorder.queries(), 4);
    let joined = hosts.iter().map(|(host, last)| {
        let all = last.first().map(|(_, again)| {
            let (_, all) = again.loaded().unwrap();
            all.len()
        });
        (host.name.as_str(), all)
    });
    assert_eq!(
        joined.collect::<Vec<_>>(),
        [("host 0", Some(1)), ("host 1", Some(2)), ("host 2", None)]
    );
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "labels")]
struct Label {
    #[serde(rename = "_id")]
    id: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "items")]
struct Item {
    #[serde(rename = "_id")]
    id: i64,
    #[index]
    #[reference]
    label: Ref<Label>,
}

#[derive(Schema)]
#[schema(models(Label, Item))]
struct Depot;

/// Joins read long ids in batches: 1,500 ids of 12,000 characters are 18 MB, and a MongoDB command holds 16 MB.
pub async fn long_ids_are_queried_in_batches(fixture: Fixture) {
    const MANY: usize = 1_500;
    let recorder = Recorder::new(fixture.backend());
    let db = odm::Database::<Depot>::with_backend(Arc::new(recorder.clone()));
    db.sync_indexes().await.unwrap();
    let long = |n: usize| format!("{n:05}{}", "x".repeat(11_995));
    let labels = (0..MANY).map(|n| Label { id: long(n) });
    db.insert_many(labels).await.unwrap();
    let items = (0..MANY).map(|n| Item {
        id: n as i64,
        label: Ref::new(long(n)),
    });
    db.insert_many(items).await.unwrap();

    recorder.clear();
    let items = db.find::<Item>().with(|i| i.label()).all().await.unwrap();
    assert_eq!((items.len(), recorder.queries()), (MANY, 1 + 3));
    for (item, label) in &items {
        assert!(
            label
                .loaded()
                .is_some_and(|label| label.id == *item.label.id())
        );
    }
    let labels = db.find::<Label>().with_children(Item::by(|i| i.label()));
    let labels = labels.all().await.unwrap();
    assert_eq!(labels.len(), MANY);
    for (label, items) in &labels {
        assert!(items.len() == 1 && items[0].label.id() == &label.id);
    }

    let ids: Vec<_> = (0..MANY).map(long).collect();
    let found = db.get_many::<Label>(ids.iter().cloned()).await.unwrap();
    assert_eq!(found.loaded().count(), MANY);
    let references: Vec<Ref<Label>> = ids.into_iter().map(Ref::new).collect();
    let (one, all) = db.load((Ref::<Item>::new(7), references)).await.unwrap();
    assert_eq!((one.id, all.loaded().count()), (7, MANY));
    assert!(db.check().await.unwrap().is_clean());
}

/// A read by id joins relations and reads projections like a query, with one further query for each relation.
pub async fn reads_by_id_join_relations(fixture: Fixture) {
    let (db, recorder) = insert_shop(&fixture).await;

    let (product, parts, main) = db
        .get::<Product>(1)
        .with(|p| p.parts().with(|part| part.maker()))
        .with(|p| p.main_part())
        .await
        .unwrap();
    assert_eq!(recorder.queries(), 4);
    assert_eq!((product.id, parts.len()), (1, 4));
    let Some(Loaded((part, maker))) = parts.get(0) else {
        panic!("{parts:?}")
    };
    assert_eq!(
        (part.id, maker.loaded().unwrap().country.as_str()),
        (3, "de")
    );
    assert_eq!(main.unwrap().loaded().unwrap().name, "part 5");

    let missing = db.get::<Product>(9).with(|p| p.parts()).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert_eq!(missing.id(), Some(&9_i64.into()));
    let found = db.find_by_id::<Product>(9).with(|p| p.parts()).await;
    assert!(found.unwrap().is_none());

    let (name, maker) = db
        .find_by_id::<Part>(5)
        .select::<PartName>()
        .with(|p| p.maker())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(name.name, "part 5");
    assert!(matches!(maker.get(), Missing(id) if id.id() == "gone"));

    let (maker, parts) = db
        .get::<Maker>("acme")
        .with_children(Part::by(|p| p.maker()).sort(|p| p.id().desc()).limit(2))
        .await
        .unwrap();
    assert_eq!(maker.country, "de");
    assert_eq!(parts.iter().map(|part| part.id).collect::<Vec<_>>(), [4, 3]);

    recorder.clear();
    let parts = db.get_many::<Part>([5, 1, 99, 5]).with(|p| p.maker()).await;
    let parts = parts.unwrap();
    let makers: Vec<_> = parts
        .iter()
        .map(|part| match part {
            Loaded((part, maker)) => Ok((part.id, maker.loaded().is_some())),
            Missing(id) => Err(*id.id()),
        })
        .collect();
    assert_eq!(
        makers,
        [Ok((5, false)), Ok((1, true)), Err(99), Ok((5, false))]
    );
    assert_eq!(recorder.queries(), 2);
}
