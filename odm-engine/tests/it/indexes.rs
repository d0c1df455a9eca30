use std::time::Duration;

use bson::rawdoc;
use odm_engine::{Database, Direction, DropIndexes, Index, Update};

fn index(path: &str) -> Index {
    Index::new([(path, Direction::Ascending)])
}

#[test]
fn creating_an_existing_index_changes_nothing() {
    let database = Database::memory();
    let definition = index("a").unique().named("mine");
    database
        .create_indexes("c", std::slice::from_ref(&definition))
        .unwrap();
    database
        .create_indexes("c", std::slice::from_ref(&definition))
        .unwrap();
    let indexes = database.list_indexes("c").unwrap();
    assert_eq!(indexes.len(), 2);
    assert_eq!(
        (indexes[0].name.as_str(), indexes[0].unique),
        ("_id_", false)
    );
    assert_eq!(indexes[1], definition);
}

#[test]
fn conflicting_indexes_are_rejected() {
    let database = Database::memory();
    database.create_indexes("c", &[index("a")]).unwrap();
    let code = |index: Index| database.create_indexes("c", &[index]).unwrap_err().code();
    assert_eq!(code(index("a").named("other")), Some(85));
    assert_eq!(code(index("b").named("a_1")), Some(86));
    assert_eq!(code(index("a").unique()), Some(86));
    assert_eq!(
        code(index("a").expire_after(Duration::from_secs(1))),
        Some(85)
    );
    assert_eq!(code(Index::new::<String>([])), Some(67));
    assert_eq!(code(index("a..b")), Some(67));
    assert_eq!(database.list_indexes("c").unwrap().len(), 2);
}

/// The cases record the answers of MongoDB 6.0.5.
#[test]
fn only_the_ascending_id_index_is_allowed() {
    let create = |specification: bson::RawDocumentBuf| {
        let database = Database::memory();
        let created = Index::from_document(&specification)
            .and_then(|index| database.create_indexes("c", &[index]));
        let error = created.err().and_then(|error| error.code());
        (error, database.list_indexes("c").unwrap().len())
    };
    let complete = [
        rawdoc! { "key": { "_id": 1 }, "name": "a" },
        rawdoc! { "key": { "_id": 1.0 }, "name": "a" },
    ];
    for specification in complete {
        assert_eq!(create(specification), (None, 1));
    }
    let invalid = [
        (2, rawdoc! { "key": { "_id": -1 }, "name": "a" }),
        (2, rawdoc! { "key": { "_id": 1.5 }, "name": "a" }),
        (
            197,
            rawdoc! { "key": { "_id": -1 }, "name": "a", "hidden": true },
        ),
        (
            197,
            rawdoc! { "key": { "_id": -1.9 }, "name": "a", "sparse": true },
        ),
        (
            197,
            rawdoc! { "key": { "_id": -1 }, "name": "a", "sparse": true, "collation": { "locale": "a" } },
        ),
        (2, rawdoc! { "key": { "_id": 5 }, "name": "_id_" }),
    ];
    for (code, specification) in invalid {
        assert_eq!(
            create(specification.clone()).0,
            Some(code),
            "{specification:?}"
        );
    }
    assert_eq!(
        create(rawdoc! { "key": { "_id": 5 }, "name": "a", "sparse": true }),
        (None, 2)
    );
}

#[test]
fn an_index_is_built_over_existing_documents() {
    let database = Database::memory();
    let documents = (0..50).map(|n| rawdoc! { "_id": n, "a": n % 5, "b": [n, n + 1] });
    database
        .insert("c", documents.collect())
        .unwrap()
        .into_result()
        .unwrap();
    let error = database
        .create_indexes("c", &[index("a").unique()])
        .unwrap_err();
    assert!(error.is_duplicate_key());
    assert_eq!(
        error.duplicate_key().unwrap().key_value(),
        &*rawdoc! { "a": 0 }
    );
    assert_eq!(database.list_indexes("c").unwrap().len(), 1);
    database.create_indexes("c", &[index("b")]).unwrap();
    assert_eq!(crate::find(&database, "c", rawdoc! { "b": 7 }).len(), 2);
}

#[test]
fn a_unique_index_counts_missing_as_null_and_arrays_by_element() {
    let database = Database::memory();
    database
        .create_indexes("c", &[index("a").unique()])
        .unwrap();
    let insert = |document| {
        database
            .insert("c", vec![document])
            .unwrap()
            .into_result()
            .err()
    };
    assert!(insert(rawdoc! { "_id": 1 }).is_none());
    assert!(
        insert(rawdoc! { "_id": 2, "a": bson::RawBson::Null })
            .unwrap()
            .is_duplicate_key()
    );
    assert!(insert(rawdoc! { "_id": 3, "a": [1, 2, 2] }).is_none());
    assert!(
        insert(rawdoc! { "_id": 4, "a": [3, 2.0] })
            .unwrap()
            .is_duplicate_key()
    );
    assert!(insert(rawdoc! { "_id": 5, "a": 3 }).is_none());
}

#[test]
fn parallel_arrays_are_refused() {
    let database = Database::memory();
    let both = Index::new([("a", Direction::Ascending), ("b", Direction::Ascending)]);
    database.create_indexes("c", &[both]).unwrap();
    let insert = |document| {
        database
            .insert("c", vec![document])
            .unwrap()
            .into_result()
            .err()
    };
    assert!(insert(rawdoc! { "a": [1, 2], "b": 1 }).is_none());
    assert_eq!(
        insert(rawdoc! { "a": [1, 2], "b": [1] }).unwrap().code(),
        Some(171)
    );
}

#[test]
fn a_dropped_index_leaves_no_entries() {
    let database = Database::memory();
    database
        .create_indexes("c", &[index("a").unique()])
        .unwrap();
    database
        .insert("c", vec![rawdoc! { "a": 1 }])
        .unwrap()
        .into_result()
        .unwrap();
    database.drop_index("c", "a_1").unwrap();
    assert_eq!(
        database.drop_index("c", "a_1").unwrap_err().code(),
        Some(27)
    );
    assert_eq!(
        database.drop_index("c", "_id_").unwrap_err().code(),
        Some(72)
    );
    database
        .insert("c", vec![rawdoc! { "a": 1 }])
        .unwrap()
        .into_result()
        .unwrap();
    assert!(
        database
            .create_indexes("c", &[index("a").unique()])
            .is_err()
    );
    database.create_indexes("c", &[index("a")]).unwrap();
}

#[test]
fn definitions_are_read_as_mongodb_writes_them() {
    let specification = rawdoc! {
        "v": 2, "key": { "a": 1, "b.c": -1 }, "name": "x", "unique": true,
        "partialFilterExpression": { "a": { "$gt": 1 } },
    };
    let index = Index::from_document(&specification).unwrap();
    assert_eq!(index.keys[1], ("b.c".to_owned(), Direction::Descending));
    let again = Index::from_document(&index.to_document()).unwrap();
    assert_eq!(again, index);
    let error = |specification| Index::from_document(specification).unwrap_err();
    let text = rawdoc! { "key": { "a": "text" }, "name": "x" };
    assert!(error(&text).is_not_supported());
    let unknown = rawdoc! { "key": { "a": 1 }, "name": "x", "colour": "red" };
    assert_eq!(error(&unknown).code(), Some(197));
}

#[test]
fn several_indexes_are_dropped_atomically() {
    let database = Database::memory();
    let partial = index("a").named("part").partial(rawdoc! { "a": 1 });
    let all = [index("a"), index("b"), index("c"), partial];
    database.create_indexes("x", &all).unwrap();
    let names = || -> Vec<String> {
        let indexes = database.list_indexes("x").unwrap();
        indexes.into_iter().map(|index| index.name).collect()
    };
    let drop = |selection| {
        let dropped = database.drop_indexes("x", &selection);
        dropped.err().and_then(|error| error.code())
    };
    let named =
        |names: &[&str]| DropIndexes::Named(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(drop(named(&["b_1", "none"])), Some(27));
    assert_eq!(drop(named(&["b_1", "_id_"])), Some(72));
    assert_eq!(drop(DropIndexes::Keyed(rawdoc! { "b": -1 })), Some(27));
    assert_eq!(drop(DropIndexes::Keyed(rawdoc! { "a": 1 })), Some(181));
    assert_eq!(names().len(), 5);
    assert_eq!(drop(DropIndexes::Keyed(rawdoc! { "b": 1 })), None);
    assert_eq!(drop(named(&["a_1"])), None);
    assert_eq!(names(), ["_id_", "c_1", "part"]);
    assert_eq!(drop(DropIndexes::All), None);
    assert_eq!(names(), ["_id_"]);
}

#[test]
fn hashed_and_wildcard_indexes_are_listed_as_they_were_defined() {
    for specification in [
        rawdoc! { "key": { "a": "hashed" }, "name": "a_hashed", "sparse": true },
        rawdoc! { "key": { "b": -1.5, "a.b": "hashed" }, "name": "x", "hidden": true },
        rawdoc! { "key": { "$**": 1 }, "name": "$**_1", "wildcardProjection": { "a": 0, "b.c": 0 } },
        rawdoc! { "key": { "a.b.$**": 2 }, "name": "w", "partialFilterExpression": { "a": 1 } },
    ] {
        let index = Index::from_document(&specification).unwrap();
        let database = Database::memory();
        database
            .create_indexes("c", std::slice::from_ref(&index))
            .unwrap();
        let indexes = database.list_indexes("c").unwrap();
        assert_eq!(indexes[1], index);
        assert_eq!(
            Index::from_document(&indexes[1].to_document()).unwrap(),
            index
        );
        let key = specification.get_document("key").unwrap();
        assert_eq!(indexes[1].to_document().get_document("key").unwrap(), key);
    }
    let pairs = [("a", Direction::Ascending), ("b", Direction::Descending)];
    let index = Index::new(pairs).hashed("a");
    assert_eq!(index.name, "a_hashed_b_-1");
    assert_eq!(Index::from_document(&index.to_document()).unwrap(), index);
    let renamed = Index::new(pairs).named("mine").hashed("a");
    assert_eq!(renamed.name, "mine");
}

#[test]
fn invalid_hashed_and_wildcard_indexes_are_refused() {
    let code = |key: bson::RawDocumentBuf, option: &str, value: bson::RawBson| {
        let mut specification = rawdoc! { "key": key, "name": "x" };
        specification.append(bson::raw::CString::try_from(option).unwrap(), value);
        let index = Index::from_document(&specification);
        index.err().and_then(|error| error.code())
    };
    let flag = || bson::RawBson::Boolean(true);
    assert_eq!(
        code(rawdoc! { "a": "hashed" }, "unique", flag()),
        Some(16764)
    );
    assert_eq!(
        code(rawdoc! { "_id": "hashed" }, "unique", flag()),
        Some(16764)
    );
    assert_eq!(code(rawdoc! { "_id": "hashed" }, "sparse", flag()), None);
    let two_hashed = rawdoc! { "a": "hashed", "b": "hashed" };
    assert_eq!(code(two_hashed, "sparse", flag()), Some(31303));
    let mixed = rawdoc! { "a": "hashed", "b": "2dsphere" };
    assert_eq!(code(mixed, "sparse", flag()), Some(67));
    assert_eq!(
        code(rawdoc! { "$**": "hashed" }, "sparse", flag()),
        Some(67)
    );
    assert_eq!(code(rawdoc! { "$**": 1 }, "sparse", flag()), Some(67));
    assert_eq!(code(rawdoc! { "$**": -1 }, "hidden", flag()), Some(67));
    assert_eq!(code(rawdoc! { "$**": 1 }, "v", 1.into()), Some(67));
    assert_eq!(
        code(rawdoc! { "a": "wildcard" }, "hidden", flag()),
        Some(67)
    );
    let projection = || bson::RawBson::Document(rawdoc! { "a": 1, "b": 0 });
    assert_eq!(
        code(rawdoc! { "$**": 1 }, "wildcardProjection", projection()),
        Some(31254)
    );
    assert_eq!(
        code(rawdoc! { "a": 1 }, "wildcardProjection", projection()),
        Some(2)
    );
}

#[test]
fn wildcard_indexes_with_different_projections_differ() {
    let database = Database::memory();
    let wildcard = |projection| index("$**").wildcard_projection(projection);
    let first = wildcard(rawdoc! { "a": 1, "b": 1 });
    database.create_indexes("c", &[first, index("a")]).unwrap();
    let code = |index: Index| {
        let created = database.create_indexes("c", &[index]);
        created.err().and_then(|error| error.code())
    };
    assert_eq!(
        code(wildcard(rawdoc! { "b": true, "a": 1, "_id": 0 })),
        None
    );
    assert_eq!(
        code(wildcard(rawdoc! { "b": 1, "a": 1 }).named("x")),
        Some(85)
    );
    assert_eq!(code(wildcard(rawdoc! { "a": 1 })), Some(86));
    assert_eq!(code(wildcard(rawdoc! { "a": 1 }).named("x")), None);
    assert_eq!(code(index("$**").named("y")), None);
    assert_eq!(code(index("a").hashed("a")), None);
    assert_eq!(database.list_indexes("c").unwrap().len(), 6);
}

#[test]
fn a_hashed_index_refuses_arrays() {
    let database = Database::memory();
    let insert = |document| {
        database
            .insert("c", vec![document])
            .unwrap()
            .into_result()
            .err()
    };
    assert!(insert(rawdoc! { "_id": 1, "a": [1] }).is_none());
    let hashed = || index("a").hashed("a");
    let code = |error: Option<odm_engine::Error>| error.and_then(|error| error.code());
    let created = database.create_indexes("c", &[hashed()]);
    assert_eq!(code(created.err()), Some(16766));
    let partial = hashed().partial(rawdoc! { "b": 1 });
    database.create_indexes("c", &[partial]).unwrap();
    assert_eq!(
        code(insert(rawdoc! { "_id": 2, "a": [], "b": 1 })),
        Some(16766)
    );
    assert!(insert(rawdoc! { "_id": 3, "a": [], "b": 2 }).is_none());
    assert_eq!(crate::find(&database, "c", rawdoc! {}).len(), 2);
}

#[test]
fn entries_of_a_wildcard_index_follow_the_document() {
    let database = Database::memory();
    database.create_indexes("c", &[index("$**")]).unwrap();
    let document = rawdoc! { "_id": 1, "a": { "b": 1 }, "c": [1, { "d": 2 }] };
    database
        .insert("c", vec![document])
        .unwrap()
        .into_result()
        .unwrap();
    for update in [
        rawdoc! { "$set": { "a.b": "x", "c.1.d": [1, 2] } },
        rawdoc! { "$unset": { "a.b": 1 } },
        rawdoc! { "$push": { "c": [] } },
        rawdoc! { "$set": { "c": 1 } },
    ] {
        let update = Update {
            filter: rawdoc! { "_id": 1 },
            update,
            ..Update::default()
        };
        assert_eq!(database.update("c", &update).unwrap().modified, 1);
        database.validate().unwrap();
    }
    assert_eq!(crate::find(&database, "c", rawdoc! { "a": {} }).len(), 1);
    assert_eq!(crate::find(&database, "c", rawdoc! { "c": 1 }).len(), 1);
    assert!(crate::find(&database, "c", rawdoc! { "c.d": 2 }).is_empty());
    let other = rawdoc! { "_id": 2, "a": 1 };
    database
        .insert("c", vec![other])
        .unwrap()
        .into_result()
        .unwrap();
    database.drop_index("c", "$**_1").unwrap();
    database.validate().unwrap();
}
