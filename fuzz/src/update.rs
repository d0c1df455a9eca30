use bson::{RawDocumentBuf, rawdoc};
use odm_engine::{Database, Update, UpdateReport};

use crate::collections::{INDEXED, PLAIN, all, assert_valid_bson, database};
use crate::generate::Generator;

/// Tests that an update makes the same changes with and without indexes, keeps documents valid and `_id`s unchanged, and updates
/// the indexes.
pub fn update(data: &[u8]) {
    let mut generator = Generator::new(data);
    let database = database(&mut generator);
    let multi = generator.one_in(2);
    let mut filter = generator.filter();
    if !multi {
        // The plan decides which document is the first. Therefore the filter selects a single `_id`.
        let one = rawdoc! { "_id": generator.below(5) as i32 };
        filter = rawdoc! { "$and": [one, filter] };
    }
    let update = Update {
        filter,
        update: generator.update(),
        array_filters: generator.array_filters(),
        multi,
        upsert: generator.one_in(4),
        ..Update::default()
    };
    let before = ids(&database, PLAIN);
    let plain = complete(database.update(PLAIN, &update));
    let indexed = complete(database.update(INDEXED, &update));
    if let (Some(plain), Some(indexed)) = (&plain, &indexed) {
        let numbers = |report: &UpdateReport| (report.matched, report.modified);
        assert_eq!(numbers(plain), numbers(indexed), "{update:?}");
        let inserts_an_object_id = plain.upserted_id.is_some() || indexed.upserted_id.is_some();
        // Time may pass between the two updates, and new ids differ.
        let has_date = update
            .update
            .get("$currentDate")
            .is_ok_and(|date| date.is_some());
        if !inserts_an_object_id {
            assert_eq!(before, ids(&database, PLAIN), "{update:?}");
            if !has_date {
                assert_eq!(all(&database, PLAIN), all(&database, INDEXED), "{update:?}");
            }
        }
    }
    for collection in [PLAIN, INDEXED] {
        all(&database, collection)
            .iter()
            .for_each(|document| assert_valid_bson(document));
    }
    database
        .validate()
        .expect("an update leaves the indexes in agreement with the documents");
}

/// Returns the report of a complete update. The progress of a failed update depends on the plan.
fn complete(report: odm_engine::Result<UpdateReport>) -> Option<UpdateReport> {
    report.ok().filter(|report| report.failure.is_none())
}

fn ids(database: &Database, collection: &str) -> Vec<Option<RawDocumentBuf>> {
    let documents = all(database, collection);
    let id = |document: &RawDocumentBuf| {
        let id = document.get("_id").ok()??;
        let mut alone = RawDocumentBuf::new();
        alone.append(bson::raw::cstr!("_id"), id);
        Some(alone)
    };
    let mut ids: Vec<_> = documents.iter().map(id).collect();
    ids.sort_by_key(|id| id.as_ref().map(|id| id.as_bytes().to_vec()));
    ids
}
