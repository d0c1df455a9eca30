//! Indexes with a collation.

use std::path::Path;

use bson::{RawBson, RawDocumentBuf, rawdoc};
use odm_engine::{
    Aggregate, Collation, Count, Database, Delete, Direction, DropIndexes, Error, ExplainStage,
    Find, Index, Update,
};
use redb::ReadableTable;

use crate::{TABLE, all, find, opened_by_redb};

fn collation(specification: RawDocumentBuf) -> Collation {
    Collation::from_document(&specification).unwrap().unwrap()
}

/// A collation that ignores case, but not accents.
fn ignoring_case() -> Collation {
    collation(rawdoc! { "locale": "en", "strength": 2 })
}

fn ascending(path: &str) -> Index {
    Index::new([(path, Direction::Ascending)])
}

/// A database with unique emails.
fn people() -> Database {
    let database = Database::memory();
    let index = ascending("email").unique().collation(ignoring_case());
    database.create_indexes("people", &[index]).unwrap();
    database
}

fn insert(database: &Database, document: RawDocumentBuf) -> Result<(), Error> {
    database
        .insert("people", vec![document])?
        .into_result()
        .map(drop)
}

#[test]
fn equal_strings_are_duplicates_regardless_of_case() {
    let database = people();
    insert(&database, rawdoc! { "_id": 1, "email": "Ada@example.org" }).unwrap();
    let error = insert(&database, rawdoc! { "_id": 2, "email": "ADA@EXAMPLE.ORG" }).unwrap_err();
    assert_eq!(error.code(), Some(11000));
    let duplicate = error.duplicate_key().unwrap();
    assert_eq!(duplicate.index(), "email_1");
    assert_eq!(duplicate.key_pattern(), &*rawdoc! { "email": 1 });
    assert_eq!(
        duplicate.key_value(),
        &*rawdoc! { "email": "ADA@EXAMPLE.ORG" }
    );
    let index_collation = duplicate.collation().unwrap();
    assert_eq!(index_collation.get_str("locale").unwrap(), "en");
    assert_eq!(index_collation.get_i32("strength").unwrap(), 2);
    assert!(error.message().contains("collation: {"), "{error}");

    // Accents are compared, in composed and decomposed form alike.
    insert(&database, rawdoc! { "_id": 3, "email": "Áda@example.org" }).unwrap();
    assert!(
        insert(
            &database,
            rawdoc! { "_id": 4, "email": "a\u{301}da@example.org" }
        )
        .is_err()
    );
    // An update or upsert cannot create a duplicate either.
    let update = |filter: RawDocumentBuf, email: &str, upsert| Update {
        filter,
        update: rawdoc! { "$set": { "email": email } },
        upsert,
        ..Update::default()
    };
    let rejected_updates = [
        update(rawdoc! { "_id": 3 }, "adA@example.org", false),
        update(rawdoc! { "_id": 9 }, "adA@example.org", true),
    ];
    for update in rejected_updates {
        let error = database.update("people", &update).unwrap_err();
        assert!(error.is_duplicate_key());
    }
    // A document may change the case of its own string.
    let own_update = update(rawdoc! { "_id": 1 }, "ADA@example.ORG", false);
    assert_eq!(database.update("people", &own_update).unwrap().modified, 1);
    assert!(insert(&database, rawdoc! { "_id": 5, "email": "ada@example.org" }).is_err());
    let delete = Delete {
        filter: rawdoc! { "_id": 1 },
        ..Delete::default()
    };
    assert_eq!(database.delete("people", &delete).unwrap().deleted, 1);
    insert(&database, rawdoc! { "_id": 5, "email": "ada@example.org" }).unwrap();
    database.validate().unwrap();
}

#[test]
fn a_collation_applies_to_strings_in_documents_and_arrays() {
    let database = people();
    let document = rawdoc! { "x": "Q", "y": [1, "z", { "w": "V" }] };
    insert(&database, rawdoc! { "_id": 1, "email": document }).unwrap();
    let same = rawdoc! { "x": "q", "y": [1, "Z", { "w": "v" }] };
    assert!(insert(&database, rawdoc! { "_id": 2, "email": same }).is_err());
    // Names of fields are not collated.
    let renamed = rawdoc! { "X": "q", "y": [1, "Z", { "w": "v" }] };
    insert(&database, rawdoc! { "_id": 3, "email": renamed }).unwrap();
    insert(&database, rawdoc! { "_id": 4, "email": ["m", "M", "n"] }).unwrap();
    assert!(insert(&database, rawdoc! { "_id": 5, "email": ["o", "N"] }).is_err());
    insert(&database, rawdoc! { "_id": 6, "email": 1 }).unwrap();
    assert!(insert(&database, rawdoc! { "_id": 7, "email": 1.0 }).is_err());
    insert(&database, rawdoc! { "_id": 8 }).unwrap();
    assert!(insert(&database, rawdoc! { "_id": 9, "email": RawBson::Null }).is_err());
    // As on MongoDB, the index refuses symbols.
    let symbol = rawdoc! { "_id": 10, "email": { "x": RawBson::Symbol("q".into()) } };
    assert_eq!(insert(&database, symbol).unwrap_err().code(), Some(201));
    database.validate().unwrap();
}

#[test]
fn a_unique_index_is_refused_over_documents_that_are_equal() {
    let database = Database::memory();
    for (id, name) in ["B", "b", "A", "a"].into_iter().enumerate() {
        let document = rawdoc! { "_id": i32::try_from(id).unwrap(), "email": name };
        insert(&database, document).unwrap();
    }
    let index = ascending("email").unique().collation(ignoring_case());
    let error = database.create_indexes("people", &[index]).unwrap_err();
    assert!(error.is_duplicate_key());
    // The error has the first duplicate in the order of the collation.
    let key = error
        .duplicate_key()
        .unwrap()
        .key_value()
        .get_str("email")
        .unwrap()
        .to_lowercase();
    assert_eq!(key, "a");
    assert_eq!(database.list_indexes("people").unwrap().len(), 1);
    let case = ascending("email")
        .unique()
        .collation(collation(rawdoc! { "locale": "en" }));
    database.create_indexes("people", &[case]).unwrap();
}

#[test]
fn two_transactions_conflict_on_equal_strings() {
    let database = people();
    let (first, second) = (database.begin().unwrap(), database.begin().unwrap());
    first
        .insert("people", vec![rawdoc! { "_id": 1, "email": "ada" }])
        .unwrap()
        .into_result()
        .unwrap();
    let conflict = second.insert("people", vec![rawdoc! { "_id": 2, "email": "ADA" }]);
    let conflict = conflict
        .and_then(|report| report.into_result().map(drop))
        .unwrap_err();
    assert_eq!(conflict.code(), Some(112), "{conflict}");
    first.commit().unwrap();
    assert!(insert(&database, rawdoc! { "_id": 3, "email": "Ada" }).is_err());
    assert_eq!(all(&database, "people").len(), 1);
}

#[test]
fn equal_strings_in_one_insert_are_refused() {
    let database = people();
    let documents = ["a", "A", "b"].map(|email| rawdoc! { "email": email });
    let report = database.insert("people", documents.into()).unwrap();
    assert_eq!(report.failures.len(), 1);
    assert_eq!(report.failures[0].position, 1);
}

const WORDS: [&str; 14] = [
    "a", "A", "b", "B", "ab", "aB", "é", "E", "z", "Z", "", "10", "9", "~",
];

/// Two collections with the same documents, and indexes with collations on one of the collections.
fn with_and_without() -> Database {
    let database = Database::memory();
    let letters = collation(rawdoc! { "locale": "en", "strength": 1 });
    let indexes = [
        ascending("s").collation(ignoring_case()),
        ascending("s").named("letters").collation(letters.clone()),
        Index::new([("s", Direction::Descending), ("n", Direction::Ascending)])
            .collation(letters.clone()),
        Index::new([("n", Direction::Ascending), ("s", Direction::Ascending)])
            .collation(letters.clone()),
        ascending("s").hashed("s").collation(ignoring_case()),
        ascending("$**").collation(ignoring_case()),
        ascending("s")
            .named("sparse")
            .sparse()
            .collation(ignoring_case()),
        ascending("t")
            .partial(rawdoc! { "s": { "$gt": "a" } })
            .collation(letters),
    ];
    database.create_indexes("with", &indexes).unwrap();
    for name in ["with", "without"] {
        let texts = WORDS.into_iter().enumerate().map(|(number, word)| {
            let number = i32::try_from(number).unwrap();
            rawdoc! { "_id": number, "s": word, "t": word, "n": number % 3 }
        });
        let other_filters = [
            rawdoc! { "_id": 20, "s": 5, "n": 1 },
            rawdoc! { "_id": 21, "s": RawBson::Null },
            rawdoc! { "_id": 22, "n": 2 },
            rawdoc! { "_id": 24, "s": { "x": "A" }, "n": 2 },
        ];
        let documents = texts.chain(other_filters).collect();
        database
            .insert(name, documents)
            .unwrap()
            .into_result()
            .unwrap();
    }
    database
}

fn ids(database: &Database, name: &str, find: &Find) -> Vec<i32> {
    let documents = database.find(name, find).unwrap();
    documents
        .map(|document| document.unwrap().get_i32("_id").unwrap())
        .collect()
}

#[test]
fn a_query_has_the_same_answer_with_and_without_the_index() {
    let database = with_and_without();
    let filters = [
        rawdoc! {},
        rawdoc! { "s": "a" },
        rawdoc! { "s": "A" },
        rawdoc! { "s": { "$gt": "a" } },
        rawdoc! { "s": { "$lte": "Z" } },
        rawdoc! { "s": { "$in": ["a", "Z", 5] } },
        rawdoc! { "s": { "$ne": "a" } },
        rawdoc! { "s": { "$regex": "^a" } },
        rawdoc! { "s": 5 },
        rawdoc! { "s": { "$gte": 4 } },
        rawdoc! { "s": RawBson::Null },
        rawdoc! { "s": { "$type": "string" } },
        rawdoc! { "s": { "$exists": true } },
        rawdoc! { "s": { "x": "A" } },
        rawdoc! { "s": { "x": "a" } },
        rawdoc! { "s.x": "A" },
        rawdoc! { "n": 1 },
        rawdoc! { "n": 1, "s": "B" },
        rawdoc! { "n": 1, "s": { "$gt": "B" } },
        rawdoc! { "t": "é", "s": { "$gt": "a" } },
        rawdoc! { "t": "~", "s": { "$gt": "b" } },
        rawdoc! { "$or": [{ "s": "a" }, { "n": 2 }] },
        rawdoc! { "$or": [{ "s": { "$gt": "a" } }, { "s": "a", "_id": { "$gt": 3 } }] },
    ];
    let sorts = [
        rawdoc! { "s": 1, "_id": 1 },
        rawdoc! { "s": -1, "n": 1, "_id": -1 },
        rawdoc! { "_id": 1 },
    ];
    for filter in &filters {
        for sort in &sorts {
            for limit in [None, Some(3)] {
                let query = Find {
                    filter: filter.clone(),
                    sort: Some(sort.clone()),
                    limit,
                    ..Find::default()
                };
                let answer = |name| ids(&database, name, &query);
                assert_eq!(answer("with"), answer("without"), "{query:?}");
            }
        }
        let covered = Find {
            filter: filter.clone(),
            projection: Some(rawdoc! { "s": 1, "_id": 0 }),
            sort: Some(rawdoc! { "s": 1, "_id": 1 }),
            ..Find::default()
        };
        let answer = |name| {
            let documents = database.find(name, &covered).unwrap();
            documents.map(Result::unwrap).collect::<Vec<_>>()
        };
        assert_eq!(answer("with"), answer("without"), "{filter:?}");
        let count = |name| {
            let count = Count {
                filter: filter.clone(),
                ..Count::default()
            };
            database.count(name, &count).unwrap()
        };
        assert_eq!(count("with"), count("without"), "{filter:?}");
        let distinct = |name| {
            let mut values = database.distinct(name, "s", filter).unwrap();
            values.sort_by_key(|value| format!("{value:?}"));
            values
        };
        assert_eq!(distinct("with"), distinct("without"), "{filter:?}");
    }
}

#[test]
fn a_join_compares_byte_by_byte() {
    let database = with_and_without();
    let joined = |name: &str| {
        let aggregate = Aggregate {
            pipeline: vec![
                rawdoc! { "$lookup": { "from": name, "localField": "s", "foreignField": "s", "as": "same" } },
                rawdoc! { "$project": { "same": { "$map": { "input": "$same", "in": "$$this._id" } } } },
                rawdoc! { "$sort": { "_id": 1 } },
            ],
            ..Aggregate::default()
        };
        let documents = database.aggregate("without", &aggregate).unwrap();
        documents.map(Result::unwrap).collect::<Vec<_>>()
    };
    assert_eq!(joined("with"), joined("without"));
}

#[test]
fn a_hinted_index_with_a_collation_is_scanned_for_strings() {
    let database = Database::memory();
    let index = ascending("s").sparse().collation(ignoring_case());
    database.create_indexes("c", &[index]).unwrap();
    let documents = vec![
        rawdoc! { "_id": 1, "s": "B" },
        rawdoc! { "_id": 2, "s": "a" },
        rawdoc! { "_id": 3, "s": 7 },
        rawdoc! { "_id": 4 },
    ];
    database
        .insert("c", documents)
        .unwrap()
        .into_result()
        .unwrap();
    for hint in [RawBson::from("s_1"), rawdoc! { "s": 1 }.into()] {
        let hinted = |filter| Find {
            filter,
            hint: Some(hint.clone()),
            ..Find::default()
        };
        // The scan returns the whole index, in the order of the collation.
        assert_eq!(ids(&database, "c", &hinted(rawdoc! {})), [3, 2, 1]);
        assert_eq!(ids(&database, "c", &hinted(rawdoc! { "s": "B" })), [1]);
        assert_eq!(
            ids(&database, "c", &hinted(rawdoc! { "s": "b" })),
            [0_i32; 0]
        );
        let examined = |filter| {
            let explain = database.explain("c", &hinted(filter)).unwrap();
            assert_eq!(explain.stage, ExplainStage::IndexScan);
            assert!(!explain.covered);
            explain.keys_examined
        };
        assert_eq!(examined(rawdoc! { "s": "B" }), 3);
        assert_eq!(examined(rawdoc! { "s": 7 }), 1);
    }
    // Without a hint, the index is used only for values without strings.
    let explain = |filter| {
        let find = Find {
            filter,
            ..Find::default()
        };
        database.explain("c", &find).unwrap().stage
    };
    assert_eq!(explain(rawdoc! { "s": 7 }), ExplainStage::IndexScan);
    assert_eq!(explain(rawdoc! { "s": "B" }), ExplainStage::CollectionScan);
    // A wildcard index is never scanned as a whole.
    let wildcard = ascending("$**").named("w").collation(ignoring_case());
    database.create_indexes("c", &[wildcard]).unwrap();
    let hinted = |filter| Find {
        filter,
        hint: Some("w".into()),
        ..Find::default()
    };
    assert_eq!(ids(&database, "c", &hinted(rawdoc! { "s": 7 })), [3]);
    let rejection = database
        .find("c", &hinted(rawdoc! { "s": "B" }))
        .err()
        .unwrap();
    assert_eq!(rejection.code(), Some(291));
}

#[test]
fn a_partial_filter_uses_the_index_collation() {
    let database = Database::memory();
    let filter = rawdoc! { "$and": [{ "status": { "$in": ["Active", 1] } }, { "email": { "$exists": true } }] };
    let index = ascending("email")
        .unique()
        .partial(filter)
        .collation(ignoring_case());
    database.create_indexes("people", &[index]).unwrap();
    insert(
        &database,
        rawdoc! { "_id": 1, "email": "a", "status": "active" },
    )
    .unwrap();
    insert(
        &database,
        rawdoc! { "_id": 2, "email": "A", "status": "gone" },
    )
    .unwrap();
    assert!(
        insert(
            &database,
            rawdoc! { "_id": 3, "email": "A", "status": "ACTIVE" }
        )
        .is_err()
    );
    assert!(insert(&database, rawdoc! { "_id": 4, "email": "A", "status": 1 }).is_err());
    assert_eq!(
        find(
            &database,
            "people",
            rawdoc! { "email": "a", "status": "Active" }
        )
        .len(),
        0
    );
    database.validate().unwrap();
    let pattern = bson::Regex {
        pattern: "^a".try_into().unwrap(),
        options: "".try_into().unwrap(),
    };
    let filter = rawdoc! { "status": { "$in": [pattern] } };
    let index = ascending("x").partial(filter).collation(ignoring_case());
    let rejection = database.create_indexes("people", &[index]).unwrap_err();
    assert!(rejection.is_not_supported());
}

#[test]
fn documents_expire_by_the_filter_of_the_index() {
    let database = Database::memory();
    let index = ascending("at")
        .partial(rawdoc! { "kind": "Guest" })
        .collation(ignoring_case())
        .expire_after(std::time::Duration::from_secs(1));
    database.create_indexes("c", &[index]).unwrap();
    let documents = ["guest", "GUEST", "member"]
        .map(|kind| rawdoc! { "kind": kind, "at": bson::DateTime::from_millis(0) });
    database
        .insert("c", documents.into())
        .unwrap()
        .into_result()
        .unwrap();
    assert_eq!(database.delete_expired().unwrap(), 2);
}

#[test]
fn indexes_on_the_same_fields_differ_by_collation() {
    let database = Database::memory();
    let create = |index: Index| database.create_indexes("c", &[index]);
    create(ascending("a")).unwrap();
    create(ascending("a").named("ci").collation(ignoring_case())).unwrap();
    create(ascending("a").named("ci").collation(ignoring_case())).unwrap();
    let code = |index| create(index).unwrap_err().code();
    assert_eq!(
        code(ascending("a").named("other").collation(ignoring_case())),
        Some(85)
    );
    assert_eq!(
        code(ascending("a").collation(ignoring_case()).named("a_1")),
        Some(86)
    );
    let letters = collation(rawdoc! { "locale": "en", "strength": 1 });
    assert_eq!(
        code(ascending("a").named("ci").collation(letters)),
        Some(86)
    );
    assert_eq!(
        code(ascending("_id").named("id").collation(ignoring_case())),
        Some(2)
    );
    let drop = |key| database.drop_indexes("c", &DropIndexes::Keyed(key));
    assert_eq!(drop(rawdoc! { "a": 1 }).unwrap_err().code(), Some(181));
    let indexes = database.list_indexes("c").unwrap();
    assert_eq!(indexes[2].collation, Some(ignoring_case()));
    assert_eq!(
        Index::from_document(&indexes[2].to_document()).unwrap(),
        indexes[2]
    );
    // Several indexes have this key, so only a name is a valid hint.
    let hinted = Find {
        hint: Some(rawdoc! { "a": 1 }.into()),
        ..Find::default()
    };
    assert_eq!(database.find("c", &hinted).err().unwrap().code(), Some(27));
}

#[test]
fn a_specification_is_checked() {
    let code = |specification: RawDocumentBuf| {
        let index = Index::from_document(&specification);
        index
            .and_then(|index| Database::memory().create_indexes("c", &[index]))
            .unwrap_err()
            .code()
    };
    let en = rawdoc! { "locale": "en" };
    for (expected, specification) in [
        (
            14,
            rawdoc! { "key": { "a": 1 }, "name": "a", "collation": "en" },
        ),
        (
            2,
            rawdoc! { "key": { "a": 1 }, "name": "a", "collation": {} },
        ),
        (
            67,
            rawdoc! { "key": { "a": "text" }, "name": "a", "collation": en.clone() },
        ),
        (
            67,
            rawdoc! { "key": { "a": "2d" }, "name": "a", "collation": en.clone() },
        ),
        (
            67,
            rawdoc! { "key": { "a": 1 }, "name": "a", "v": 1, "collation": en.clone() },
        ),
        (
            2,
            rawdoc! { "key": { "_id": 1 }, "name": "_id_", "collation": en.clone() },
        ),
    ] {
        assert_eq!(
            code(specification.clone()),
            Some(expected),
            "{specification:?}"
        );
    }
    let simple = rawdoc! { "key": { "a": 1 }, "name": "a", "collation": { "locale": "simple" } };
    assert_eq!(
        Index::from_document(&simple).unwrap(),
        ascending("a").named("a")
    );
}

#[test]
fn a_file_keeps_the_index() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    {
        let database = Database::open(&path).unwrap();
        let index = ascending("email").unique().collation(ignoring_case());
        database.create_indexes("people", &[index]).unwrap();
        insert(&database, rawdoc! { "_id": 1, "email": "Ada" }).unwrap();
        database
            .set_index_hidden("people", "email_1", true)
            .unwrap();
    }
    let database = Database::open(&path).unwrap();
    assert!(insert(&database, rawdoc! { "_id": 2, "email": "aDA" }).is_err());
    let indexes = database.list_indexes("people").unwrap().remove(1);
    assert_eq!(
        (indexes.collation, indexes.hidden),
        (Some(ignoring_case()), true)
    );
    database.validate().unwrap();
}

/// Modifies the file as if a program with different collation rules had written it. Each entry of a unique index gets a different
/// key, and its definition gets a different rules number.
fn change_rules(path: &Path) {
    let change_checksum = |key: &[u8], value: &mut Vec<u8>| {
        let of_key = twox_hash::XxHash3_64::oneshot(key);
        let sum = twox_hash::XxHash3_64::oneshot_with_seed(of_key, value);
        value.extend_from_slice(&sum.to_be_bytes()[4..]);
    };
    let file = opened_by_redb(path);
    let transaction = file.begin_write().unwrap();
    {
        let mut table = transaction.open_table(TABLE).unwrap();
        let stored: Vec<(Vec<u8>, Vec<u8>)> = table
            .range::<&[u8]>(..)
            .unwrap()
            .map(|entry| {
                let (key, value) = entry.unwrap();
                (key.value().to_vec(), value.value().to_vec())
            })
            .collect();
        for (mut key, mut value) in stored {
            let is_entry = key[0] == 0x04 && key[5..9] == [0, 0, 0, 1];
            if key[0] == 0x01 {
                value.truncate(value.len() - 4);
                let definition = RawDocumentBuf::from_bytes(value).unwrap();
                let mut definition = bson::Document::try_from(definition).unwrap();
                let index = &mut definition.get_array_mut("indexes").unwrap()[0];
                let index = index.as_document_mut().unwrap();
                assert!(index.insert("rules", 1_i64).is_some());
                value = definition.to_vec().unwrap();
                change_checksum(&key, &mut value);
                table.insert(key.as_slice(), value.as_slice()).unwrap();
            } else if is_entry {
                value.truncate(value.len() - 4);
                table.remove(key.as_slice()).unwrap();
                // Insert a byte after the tag of the string.
                key.insert(10, 0x7f);
                change_checksum(&key, &mut value);
                table.insert(key.as_slice(), value.as_slice()).unwrap();
            }
        }
    }
    transaction.commit().unwrap();
}

#[test]
fn an_index_is_rebuilt_after_the_rules_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.odm");
    {
        let database = Database::open(&path).unwrap();
        let index = ascending("email").unique().collation(ignoring_case());
        database.create_indexes("people", &[index]).unwrap();
        insert(&database, rawdoc! { "_id": 1, "email": "Ada" }).unwrap();
        insert(&database, rawdoc! { "_id": 2, "email": "Bob" }).unwrap();
    }
    change_rules(&path);
    let rejection = Database::open_read_only(&path).unwrap_err();
    assert!(rejection.is_read_only(), "{rejection}");
    assert!(rejection.message().contains("compact"), "{rejection}");
    let compacted = directory.path().join("compacted.odm");
    std::fs::copy(&path, &compacted).unwrap();
    Database::compact_file(&compacted).unwrap();
    Database::open_read_only(&compacted)
        .unwrap()
        .validate()
        .unwrap();
    for _ in 0..2 {
        let database = Database::open(&path).unwrap();
        database.validate().unwrap();
        assert!(insert(&database, rawdoc! { "_id": 3, "email": "ADA" }).is_err());
    }
    // Documents that are equal only under the new rules: opening fails, and no data is lost or hidden.
    {
        let database = Database::open(&path).unwrap();
        database.drop_index("people", "email_1").unwrap();
        insert(&database, rawdoc! { "_id": 3, "email": "ADA" }).unwrap();
        let case = collation(rawdoc! { "locale": "en", "strength": 3 });
        let index = ascending("email").unique().collation(case);
        database.create_indexes("people", &[index]).unwrap();
    }
    weaken(&path);
    for _ in 0..2 {
        let rejection = Database::open(&path).unwrap_err();
        assert_eq!(rejection.code(), Some(11000), "{rejection}");
        assert!(
            rejection.message().contains("email_1 of people"),
            "{rejection}"
        );
    }
}

/// Lowers the strength of the only index, as if the old rules distinguished fewer strings.
fn weaken(path: &Path) {
    let file = opened_by_redb(path);
    let transaction = file.begin_write().unwrap();
    {
        let mut table = transaction.open_table(TABLE).unwrap();
        let key = [&[0x01][..], b"people"].concat();
        let mut value = table.get(key.as_slice()).unwrap().unwrap().value().to_vec();
        value.truncate(value.len() - 4);
        let definition = RawDocumentBuf::from_bytes(value).unwrap();
        let mut definition = bson::Document::try_from(definition).unwrap();
        let index = &mut definition.get_array_mut("indexes").unwrap()[0];
        let index = index.as_document_mut().unwrap();
        let specification = index.get_document_mut("spec").unwrap();
        let collation = specification.get_document_mut("collation").unwrap();
        collation.insert("strength", 2);
        let mut value = definition.to_vec().unwrap();
        let of_key = twox_hash::XxHash3_64::oneshot(&key);
        let sum = twox_hash::XxHash3_64::oneshot_with_seed(of_key, &value);
        value.extend_from_slice(&sum.to_be_bytes()[4..]);
        table.insert(key.as_slice(), value.as_slice()).unwrap();
    }
    transaction.commit().unwrap();
}
