use odm_engine::{Count, Find};

use crate::collections::{INDEXED, PLAIN, assert_valid_bson, database, find_documents, sorted};
use crate::generate::Generator;

/// Tests that a filter finds and counts the same documents with and without indexes.
pub fn filter(data: &[u8]) {
    let mut generator = Generator::new(data);
    let database = database(&mut generator);
    let find = Find {
        filter: generator.filter(),
        ..Find::default()
    };
    let plain = find_documents(&database, PLAIN, &find);
    let indexed = find_documents(&database, INDEXED, &find);
    let count = Count {
        filter: find.filter.clone(),
        ..Count::default()
    };
    let count = database.count(INDEXED, &count);
    let explained = database.explain(INDEXED, &find);
    match (plain, indexed) {
        (Ok(plain), Ok(indexed)) => {
            assert_eq!(sorted(plain.clone()), sorted(indexed), "{:?}", find.filter);
            assert_eq!(count.expect("the filter is valid"), plain.len() as u64);
            let explained = explained.expect("the filter is valid");
            assert_eq!(explained.returned, plain.len() as u64);
        }
        (plain, indexed) => assert_same_error(plain.err(), indexed.err()),
    }
}

/// Tests that sorted, limited and projected documents are the same with and without indexes.
pub fn find(data: &[u8]) {
    let mut generator = Generator::new(data);
    let database = database(&mut generator);
    let filter = match generator.one_in(2) {
        true => generator.filter(),
        false => Default::default(),
    };
    let find = Find {
        filter,
        projection: generator.one_in(2).then(|| generator.projection()),
        sort: Some(generator.sort()),
        skip: generator.below(3) as u64,
        limit: generator.one_in(2).then(|| generator.below(4) as u64),
        ..Find::default()
    };
    match (
        find_documents(&database, PLAIN, &find),
        find_documents(&database, INDEXED, &find),
    ) {
        (Ok(plain), Ok(indexed)) => {
            plain
                .iter()
                .for_each(|document| assert_valid_bson(document));
            assert_eq!(plain, indexed, "{find:?}");
        }
        // A sort that fails on a document need not read that document through an index.
        (Err(_), Ok(_)) => {}
        (plain, indexed) => assert_same_error(plain.err(), indexed.err()),
    }
    let _ = database.distinct(INDEXED, &generator.path(), &find.filter);
}

fn assert_same_error(one: Option<odm_engine::Error>, other: Option<odm_engine::Error>) {
    let kind = |error: Option<odm_engine::Error>| error.map(|error| (error.kind(), error.code()));
    assert_eq!(kind(one), kind(other));
}
