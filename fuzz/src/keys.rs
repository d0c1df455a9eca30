use bson::{Bson, doc};
use odm_engine::{Database, Direction, Find, Index};

use crate::collections::{INDEXED, PLAIN, find_documents};
use crate::generate::{Generator, raw};

/// Tests that the byte order of index keys is the order of the values, in both directions and for two fields.
pub fn keys(data: &[u8]) {
    let mut generator = Generator::new(data);
    let value = |generator: &mut Generator<'_>| match generator.value(3) {
        // An array has a key for each element, which is not a matter of the key order.
        Bson::Array(items) => doc! { "in": items }.into(),
        value => value,
    };
    let mut documents = Vec::new();
    for id in 0..2 + generator.below(6) {
        let (first, second) = (value(&mut generator), value(&mut generator));
        documents.push(raw(&doc! { "_id": id as i32, "k": first, "l": second }));
    }
    let database = Database::memory();
    for collection in [PLAIN, INDEXED] {
        let report = database
            .insert(collection, documents.clone())
            .expect("the name is valid");
        report.into_result().expect("the documents are valid");
    }
    let (up, down) = (Direction::Ascending, Direction::Descending);
    let second = if generator.one_in(2) { up } else { down };
    database
        .create_indexes(
            INDEXED,
            &[Index::new([("k", up), ("l", second), ("_id", up)])],
        )
        .expect("the index is valid");
    let sign = |direction| if direction == up { 1 } else { -1 };
    for (k, l) in [(1, sign(second)), (-1, -sign(second))] {
        let find = Find {
            sort: Some(raw(&doc! { "k": k, "l": l, "_id": k })),
            ..Find::default()
        };
        let explained = database.explain(INDEXED, &find).expect("the sort is valid");
        assert!(explained.sorted_by_index);
        let plain = find_documents(&database, PLAIN, &find).expect("the sort is valid");
        assert_eq!(
            plain,
            find_documents(&database, INDEXED, &find).expect("the sort is valid")
        );
    }
    for document in &documents {
        let Ok(Some(value)) = document.get("k") else {
            continue;
        };
        let Ok(value) = Bson::try_from(value) else {
            continue;
        };
        for operator in ["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"] {
            let mut condition = bson::Document::new();
            condition.insert(operator, value.clone());
            let filter = raw(&doc! { "k": condition });
            let sort = Some(raw(&doc! { "_id": 1 }));
            let find = Find {
                filter,
                sort,
                ..Find::default()
            };
            match (
                find_documents(&database, PLAIN, &find),
                find_documents(&database, INDEXED, &find),
            ) {
                (Ok(plain), Ok(indexed)) => assert_eq!(plain, indexed, "{find:?}"),
                (plain, indexed) => assert_eq!(plain.is_err(), indexed.is_err(), "{find:?}"),
            }
        }
    }
}
