use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use odm_engine::{Aggregate, Database, Direction, ExplainStage, Find, Index, Session, Update};

use crate::{all, find};

fn run(session: &Session, collection: &str, pipeline: &[RawDocumentBuf]) -> Vec<RawDocumentBuf> {
    let aggregate = Aggregate {
        pipeline: pipeline.to_vec(),
        ..Aggregate::default()
    };
    let documents = session.aggregate(collection, &aggregate).unwrap();
    documents.map(Result::unwrap).collect()
}

fn code(session: &Session, pipeline: &[RawDocumentBuf]) -> Option<i32> {
    let aggregate = Aggregate {
        pipeline: pipeline.to_vec(),
        ..Aggregate::default()
    };
    let documents = session.aggregate("c", &aggregate);
    let result = documents.and_then(|documents| documents.collect::<Result<Vec<_>, _>>());
    result.unwrap_err().code()
}

/// A shop database: a collection with two customers, and a collection of their orders.
fn shop() -> Database {
    let database = Database::memory();
    let customers = vec![
        rawdoc! { "_id": 1, "name": "Ada" },
        rawdoc! { "_id": 2, "name": "Grace" },
    ];
    let orders = [(1, 1, 5), (2, 1, 7), (3, 2, 9)];
    let orders = orders.map(|(id, customer, sum)| {
        rawdoc! { "_id": id, "customer": customer, "sum": sum }
    });
    let insert = |collection, documents| {
        database
            .insert(collection, documents)
            .unwrap()
            .into_result()
    };
    insert("customers", customers).unwrap();
    insert("orders", orders.to_vec()).unwrap();
    database
}

fn orders_of_each() -> Vec<RawDocumentBuf> {
    vec![
        rawdoc! { "$lookup": { "from": "orders", "localField": "_id", "foreignField": "customer", "as": "orders" } },
        rawdoc! { "$project": { "sums": "$orders.sum" } },
        rawdoc! { "$sort": { "_id": 1 } },
    ]
}

#[test]
fn a_transaction_joins_its_own_writes() {
    let database = shop();
    let transaction = database.begin().unwrap();
    let order = rawdoc! { "_id": 4, "customer": 2, "sum": 1 };
    transaction
        .insert("orders", vec![order])
        .unwrap()
        .into_result()
        .unwrap();

    let in_transaction = run(&transaction, "customers", &orders_of_each());
    assert_eq!(
        in_transaction,
        [
            rawdoc! { "_id": 1, "sums": [5, 7] },
            rawdoc! { "_id": 2, "sums": [9, 1] }
        ]
    );
    let committed = run(&database, "customers", &orders_of_each());
    assert_eq!(committed[1], rawdoc! { "_id": 2, "sums": [9] });
}

#[test]
fn a_join_reads_the_state_at_the_start_of_the_query() {
    let database = shop();
    let aggregate = Aggregate {
        pipeline: orders_of_each()[..2].to_vec(),
        ..Aggregate::default()
    };
    let cursor = database.aggregate("customers", &aggregate).unwrap();
    let order = rawdoc! { "_id": 5, "customer": 1, "sum": 100 };
    database
        .insert("orders", vec![order])
        .unwrap()
        .into_result()
        .unwrap();
    let first = cursor.map(Result::unwrap).next();
    assert_eq!(first, Some(rawdoc! { "_id": 1, "sums": [5, 7] }));
}

#[test]
fn a_join_is_the_same_with_an_index_and_without() {
    let database = shop();
    let correlated = [
        rawdoc! { "$lookup": { "from": "orders", "let": { "id": "$_id" }, "as": "orders", "pipeline": [
            { "$match": { "$expr": { "$eq": ["$customer", "$$id"] } } },
            { "$sort": { "sum": -1 } },
            { "$limit": 1 },
        ] } },
        rawdoc! { "$project": { "best": "$orders.sum" } },
    ];
    let aggregate = || {
        let simple = run(&database, "customers", &orders_of_each());
        (simple, run(&database, "customers", &correlated))
    };
    let without_index = aggregate();
    assert_eq!(without_index.1[0], rawdoc! { "_id": 1, "best": [7] });
    let keys = [
        ("customer", Direction::Ascending),
        ("sum", Direction::Ascending),
    ];
    database
        .create_indexes("orders", &[Index::new(keys)])
        .unwrap();
    assert_eq!(aggregate(), without_index);
}

#[test]
fn an_index_answers_the_equality_of_an_expression() {
    let database = shop();
    let index = Index::new([("customer", Direction::Ascending)]);
    database.create_indexes("orders", &[index]).unwrap();
    let find = Find {
        filter: rawdoc! { "$expr": { "$and": [{ "$eq": ["$customer", "$$who"] }, { "$gt": ["$sum", 5] }] } },
        variables: rawdoc! { "who": 1 },
        ..Find::default()
    };
    let explained = database.explain("orders", &find).unwrap();
    assert_eq!(explained.stage, ExplainStage::IndexScan);
    assert_eq!((explained.documents_examined, explained.returned), (2, 1));
}

#[test]
fn an_expression_takes_an_array_as_a_whole_also_with_an_index() {
    let database = Database::memory();
    let documents = vec![
        rawdoc! { "_id": 1, "a": 5 },
        rawdoc! { "_id": 2, "a": [5] },
        rawdoc! { "_id": 3, "a": { "b": 5 } },
        rawdoc! { "_id": 4, "a": [{ "b": 5 }] },
    ];
    database
        .insert("c", documents)
        .unwrap()
        .into_result()
        .unwrap();
    let aggregate = |path: &str| {
        let filter = rawdoc! { "$expr": { "$eq": [path, 5] } };
        let results = find(&database, "c", filter);
        let ids = results
            .iter()
            .map(|document| document.get_i32("_id").unwrap());
        ids.collect::<Vec<_>>()
    };
    for path in ["a", "a.b"] {
        let before = aggregate(&format!("${path}"));
        let index = Index::new([(path, Direction::Ascending)]);
        database.create_indexes("c", &[index]).unwrap();
        assert_eq!(aggregate(&format!("${path}")), before);
        assert_eq!(before.len(), 1, "{path}");
    }
}

#[test]
fn pipelines_change_documents_and_never_their_ids() {
    let database = shop();
    let double = |stages: Vec<RawDocumentBuf>| Update {
        filter: rawdoc! { "customer": 1 },
        pipeline: Some(stages),
        multi: true,
        variables: rawdoc! { "factor": 2 },
        ..Update::default()
    };
    let stages = vec![
        rawdoc! { "$set": { "sum": { "$multiply": ["$sum", "$$factor"] }, "old": "$sum" } },
        rawdoc! { "$unset": "customer" },
    ];
    let report = database.update("orders", &double(stages)).unwrap();
    assert_eq!((report.matched, report.modified), (2, 2));
    assert_eq!(
        all(&database, "orders")[0],
        rawdoc! { "_id": 1, "sum": 10, "old": 5 }
    );

    let mut other_id = double(vec![rawdoc! { "$set": { "_id": 9 } }]);
    other_id.filter = rawdoc! {};
    let error = database.update("orders", &other_id).unwrap_err();
    assert_eq!(error.code(), Some(66));
    let mut grouping = double(vec![rawdoc! { "$group": { "_id": 1 } }]);
    grouping.filter = rawdoc! {};
    assert_eq!(
        database.update("orders", &grouping).unwrap_err().code(),
        Some(72)
    );
}

#[test]
fn stages_over_the_memory_limit_are_errors() {
    let database = Database::memory();
    let text = "x".repeat(1 << 20);
    let documents = (0..110).map(|id| rawdoc! { "_id": id, "text": text.as_str() });
    database
        .insert("c", documents.collect())
        .unwrap()
        .into_result()
        .unwrap();
    let push = rawdoc! { "$group": { "_id": null, "all": { "$push": "$text" } } };
    let facet = rawdoc! { "$facet": { "all": [{ "$limit": 1 }] } };
    let auto = rawdoc! { "$bucketAuto": { "groupBy": "$_id", "buckets": 2 } };
    for stage in [push, facet, auto] {
        assert_eq!(code(&database, &[stage]), Some(292));
    }
    let merge = rawdoc! { "$group": { "_id": null, "all": { "$mergeObjects": "$$ROOT" } } };
    assert_eq!(run(&database, "c", &[merge]).len(), 1);
    // A stage that keeps only a few documents needs memory only for these documents.
    let top = [
        rawdoc! { "$sort": { "text": 1, "_id": -1 } },
        rawdoc! { "$limit": 1 },
    ];
    assert_eq!(run(&database, "c", &top).len(), 1);
}

#[test]
fn pipelines_are_long_but_not_endless() {
    let database = shop();
    let stages = [
        rawdoc! { "$skip": 0 },
        rawdoc! { "$set": { "x": "$sum" } },
        rawdoc! { "$unwind": "$sum" },
        rawdoc! { "$lookup": { "from": "none", "localField": "a", "foreignField": "a", "as": "a" } },
        rawdoc! { "$unionWith": "none" },
        rawdoc! { "$redact": "$$KEEP" },
    ];
    for stage in stages {
        assert_eq!(
            run(&database, "orders", &vec![stage.clone(); 1000]).len(),
            3
        );
        assert_eq!(code(&database, &vec![stage; 1001]), Some(7749501));
    }
    let inner = vec![rawdoc! { "$skip": 0 }; 600];
    let elements: RawArrayBuf = inner.iter().cloned().collect();
    let nested = rawdoc! { "$unionWith": { "coll": "c", "pipeline": elements } };
    assert_eq!(
        code(&database, &[inner, vec![nested]].concat()),
        Some(7749501)
    );
}

#[test]
fn deep_and_broken_stages_are_refused() {
    let database = shop();
    let deep = (0..200).fold(rawdoc! {}, |inner, _| rawdoc! { "a": inner });
    assert_eq!(code(&database, &[rawdoc! { "$project": deep }]), Some(15));
    let mut bytes = rawdoc! { "$match": { "a": true } }.into_bytes();
    let flag = bytes.len() - 3;
    bytes[flag] = 7;
    let broken = RawDocumentBuf::from_bytes(bytes).unwrap();
    assert_eq!(code(&database, &[broken]), Some(22));
}

#[test]
fn restored_fields_are_in_their_old_positions() {
    let database = Database::memory();
    let document =
        rawdoc! { "_id": 1, "a": 1, "b": [{ "x": 1, "y": 2 }, 5], "c": { "x": 1, "y": 2 } };
    database
        .insert("c", vec![document])
        .unwrap()
        .into_result()
        .unwrap();
    // The value of `c` is replaced between the stages: the positions inside the old value do not matter.
    let documents = run(
        &database,
        "c",
        &[
            rawdoc! { "$unset": ["a", "b.x", "c.x"] },
            rawdoc! { "$set": { "e": 1, "c": { "$literal": { "y": 3 } } } },
            rawdoc! { "$set": { "a": 7, "b.x": 8, "c.x": 9 } },
        ],
    );
    let expected = rawdoc! {
        "_id": 1, "a": 7, "b": [{ "x": 8, "y": 2 }, { "x": 8 }], "c": { "y": 3, "x": 9 }, "e": 1
    };
    assert_eq!(documents, [expected]);
}
