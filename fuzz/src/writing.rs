use bson::{RawDocumentBuf, rawdoc};
use odm_engine::{Database, Update, UpdateReport};

use crate::collections::{INDEXED, PLAIN, all, assert_whole, database};
use crate::generate::Generator;

/// An update changes the same with and without indexes, leaves documents whole, their `_id`s as they were
/// and the indexes in agreement with them.
pub fn update(data: &[u8]) {
    let mut generator = Generator::new(data);
    let database = database(&mut generator);
    let multi = generator.one_in(2);
    let mut filter = generator.filter();
    if !multi {
        // Which document is the first depends on the plan: there is only one with this.
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
        // The time may have gone on between the two, and new ids differ.
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
            .for_each(|document| assert_whole(document));
    }
    database
        .validate()
        .expect("an update leaves the indexes in agreement with the documents");
}

/// What an update did, unless it failed: how far it came before depends on the plan.
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
