use bson::{RawDocumentBuf, rawdoc};
use odm_engine::{Aggregate, Count, Database, Find, Update};

use crate::collections::{all, assert_valid_bson};

/// Tests arbitrary bytes as a document: the engine returns a stored document as valid BSON. The bytes also serve as every further
/// kind of document argument.
pub fn bson(data: &[u8]) {
    let Ok(document) = RawDocumentBuf::from_bytes(data.to_vec()) else {
        return;
    };
    let database = Database::memory();
    let inserted = database.insert("c", vec![document.clone()]);
    if inserted.is_ok_and(|report| report.failures.is_empty()) {
        let [stored] = &all(&database, "c")[..] else {
            panic!("one document was stored");
        };
        assert_valid_bson(stored);
        let id = stored
            .get("_id")
            .expect("it is whole")
            .expect("it has an _id");
        let mut equals = RawDocumentBuf::new();
        equals.append(bson::raw::cstr!("$eq"), id);
        let count = Count {
            filter: rawdoc! { "_id": equals },
            ..Count::default()
        };
        let count = database.count("c", &count);
        assert_eq!(count.expect("it is an _id"), 1);
        database.validate().expect("the stored data is sound");
    } else {
        let _ = database.insert("c", vec![rawdoc! { "_id": 1, "a": [1, { "b": 2 }] }]);
    }
    let find = Find {
        filter: document.clone(),
        projection: Some(document.clone()),
        sort: Some(document.clone()),
        ..Find::default()
    };
    let _ = database.find("c", &find).map(Iterator::count);
    for sorted in [false, true] {
        let find = match sorted {
            true => Find {
                sort: Some(document.clone()),
                ..Find::default()
            },
            false => Find {
                projection: Some(document.clone()),
                ..Find::default()
            },
        };
        let _ = database.find("c", &find).map(Iterator::count);
    }
    let aggregate = Aggregate {
        pipeline: vec![document.clone()],
        ..Aggregate::default()
    };
    let _ = database.aggregate("c", &aggregate).map(Iterator::count);
    let _ = odm_engine::Index::from_document(&document)
        .and_then(|index| database.create_indexes("c", &[index]));
    let filters = rawdoc! { "_id": { "$exists": true } };
    let update = Update {
        filter: filters,
        update: document.clone(),
        array_filters: vec![document],
        ..Update::default()
    };
    let _ = database.update("c", &update);
    let _ = database.update(
        "c",
        &Update {
            array_filters: Vec::new(),
            upsert: true,
            ..update
        },
    );
    let update = Update {
        pipeline: Some(aggregate.pipeline),
        ..Update::default()
    };
    let _ = database.update("c", &update);
    database.validate().expect("the stored data is sound");
    all(&database, "c")
        .iter()
        .for_each(|stored| assert_valid_bson(stored));
}
