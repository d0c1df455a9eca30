use bson::{RawDocumentBuf, rawdoc};
use odm_engine::{Database, Direction, FindAndModify, FindAndModifyReport, Index, Modification};

use crate::{all, find};

fn scored() -> Database {
    let database = Database::memory();
    let documents = [(1, 5), (2, 9), (3, 7)].map(|(id, score)| {
        rawdoc! { "_id": id, "score": score, "tags": [id, 10] }
    });
    let report = database.insert("c", documents.to_vec()).unwrap();
    report.into_result().unwrap();
    database
}

/// Returns an update of the document with the highest score.
fn update(filter: RawDocumentBuf, update: RawDocumentBuf, return_new: bool) -> FindAndModify {
    let modification = Modification::Update {
        pipeline: None,
        update,
        array_filters: Vec::new(),
        upsert: false,
        return_new,
    };
    FindAndModify {
        sort: Some(rawdoc! { "score": -1 }),
        projection: Some(rawdoc! { "score": 1 }),
        ..FindAndModify::new(filter, modification)
    }
}

fn upsert(mut command: FindAndModify) -> FindAndModify {
    if let Modification::Update { upsert, .. } = &mut command.modification {
        *upsert = true;
    }
    command
}

#[test]
fn the_first_match_is_modified_and_returned_before_or_after() {
    let indexed = scored();
    let index = Index::new([("score", Direction::Ascending)]);
    indexed.create_indexes("c", &[index]).unwrap();
    for database in [scored(), indexed] {
        let increment = rawdoc! { "$inc": { "score": 1 } };
        let before = update(rawdoc! { "_id": { "$ne": 2 } }, increment, false);
        let report = database.find_and_modify("c", &before).unwrap();
        assert_eq!(report.document, Some(rawdoc! { "_id": 3, "score": 7 }));
        assert!(report.matched);
        let pipeline = rawdoc! { "score": 1 };
        let after = update(rawdoc! { "_id": { "$ne": 2 } }, pipeline, true);
        let report = database.find_and_modify("c", &after).unwrap();
        assert_eq!(report.document, Some(rawdoc! { "_id": 3, "score": 1 }));
        let third = find(&database, "c", rawdoc! { "_id": 3 });
        assert_eq!(third, [rawdoc! { "_id": 3, "score": 1 }]);
    }
}

#[test]
fn array_filters_and_positions_work_as_in_an_update() {
    let database = scored();
    let tags = |command: FindAndModify| {
        let projection = Some(rawdoc! { "tags": 1 });
        let command = FindAndModify {
            projection,
            ..command
        };
        database.find_and_modify("c", &command).unwrap().document
    };
    let position = rawdoc! { "$set": { "tags.$": 0 } };
    let changed = tags(update(rawdoc! { "tags": 2 }, position, true));
    assert_eq!(changed, Some(rawdoc! { "_id": 2, "tags": [0, 10] }));
    let named = rawdoc! { "$set": { "tags.$[big]": 11 } };
    let mut command = update(rawdoc! { "_id": 2 }, named, true);
    if let Modification::Update { array_filters, .. } = &mut command.modification {
        array_filters.push(rawdoc! { "big": { "$gt": 9 } });
    }
    let changed = tags(command);
    assert_eq!(changed, Some(rawdoc! { "_id": 2, "tags": [0, 11] }));
}

#[test]
fn a_document_is_deleted_and_returned() {
    let database = scored();
    let delete = FindAndModify {
        sort: Some(rawdoc! { "score": 1 }),
        ..FindAndModify::new(rawdoc! {}, Modification::Delete)
    };
    let mut deleted = Vec::new();
    while let Some(document) = database.find_and_modify("c", &delete).unwrap().document {
        deleted.push(document.get_i32("_id").unwrap());
    }
    assert_eq!(deleted, [1, 3, 2]);
    assert!(all(&database, "c").is_empty());
}

#[test]
fn upsert_inserts_without_a_match() {
    let database = Database::memory();
    let set = || rawdoc! { "$set": { "score": 1 } };
    let none = update(rawdoc! { "_id": 4 }, set(), true);
    let report = database.find_and_modify("c", &none).unwrap();
    assert_eq!(report, FindAndModifyReport::default());
    assert!(database.list_collections().unwrap().is_empty());

    let before = upsert(update(rawdoc! { "_id": 4 }, set(), false));
    let report = database.find_and_modify("c", &before).unwrap();
    let expected = FindAndModifyReport {
        document: None,
        matched: false,
        upserted_id: Some(4.into()),
    };
    assert_eq!(report, expected);
    let after = upsert(update(rawdoc! { "_id": 5 }, set(), true));
    let report = database.find_and_modify("c", &after).unwrap();
    assert_eq!(report.document, Some(rawdoc! { "_id": 5, "score": 1 }));
    assert_eq!(report.upserted_id, Some(5.into()));
    assert_eq!(all(&database, "c").len(), 2);
}

#[test]
fn after_an_error_nothing_has_changed() {
    let database = scored();
    let before = all(&database, "c");
    let rejection = |command: &FindAndModify| {
        let error = database.find_and_modify("c", command).unwrap_err();
        assert_eq!(all(&database, "c"), before);
        error.code().unwrap()
    };
    let set = || rawdoc! { "$set": { "score": 0 } };
    assert_eq!(
        rejection(&update(rawdoc! {}, rawdoc! { "$set": { "_id": 0 } }, false)),
        66
    );
    // The filter does not match through an element of the array.
    let positional = FindAndModify {
        projection: Some(rawdoc! { "tags.$": 1 }),
        ..update(rawdoc! {}, set(), false)
    };
    assert_eq!(rejection(&positional), 51246);
    let new_positional = FindAndModify {
        projection: Some(rawdoc! { "tags.$": 1 }),
        ..update(rawdoc! { "tags": 10 }, set(), true)
    };
    assert_eq!(rejection(&new_positional), 2);
    let colliding = FindAndModify {
        projection: Some(rawdoc! { "a": 1, "a.b": 1 }),
        ..update(rawdoc! {}, set(), false)
    };
    assert_eq!(rejection(&colliding), 31249);
    let changed_id = upsert(update(rawdoc! { "_id": 9 }, rawdoc! { "_id": 1 }, false));
    assert_eq!(rejection(&changed_id), 66);
}

#[test]
fn a_transaction_sees_its_modification_and_ends_with_an_error() {
    let database = scored();
    let transaction = database.begin().unwrap();
    let increment = || rawdoc! { "$inc": { "score": 1 } };
    for score in [10, 11] {
        let command = update(rawdoc! { "_id": 2 }, increment(), true);
        let report = transaction.find_and_modify("c", &command).unwrap();
        assert_eq!(report.document, Some(rawdoc! { "_id": 2, "score": score }));
    }
    let other = update(rawdoc! { "_id": 2 }, increment(), false);
    let report = database.find_and_modify("c", &other).unwrap();
    assert_eq!(report.document, Some(rawdoc! { "_id": 2, "score": 9 }));
    assert!(transaction.commit().unwrap_err().is_write_conflict());

    let transaction = database.begin().unwrap();
    let invalid = update(rawdoc! {}, rawdoc! { "$inc": { "tags": 1 } }, false);
    assert_eq!(
        transaction
            .find_and_modify("c", &invalid)
            .unwrap_err()
            .code(),
        Some(14)
    );
    assert!(transaction.commit().unwrap_err().is_transaction_over());
}
