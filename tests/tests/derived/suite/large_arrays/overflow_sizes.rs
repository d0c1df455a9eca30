//! Document sizes with overflow arrays: no stored document reaches the size limit of MongoDB.

use std::{sync::Arc, time::Duration};

use odm::{
    ErrorKind,
    backend::{Fault, Faults, Recorder, operation::Operation},
    bson::{RawDocumentBuf, doc, rawdoc},
    prelude::*,
};
use odm_tests::assert_clean;
use odm_tests::scales::DocumentSizeRecorder;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::overflow::{
    Book, Db, Shop, book, chunk_documents, customers, open_shop, stored_documents, user, users,
};
use crate::{
    Fixture,
    operation_lists::{CostRow, OperationLists, read_row, write_row},
};

/// The maximum size of a stored document in these tests: a sixteenth of MongoDB's limit.
const MIB: u64 = 1024 * 1024;

/// A word with an `_id` of about 3,000 bytes.
#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "words")]
struct Word {
    #[serde(rename = "_id")]
    id: String,
    #[reference(inverse_of = words, overflow(after = 2, into = "more_used_in"))]
    used_in: Overflow<Ref<Text>>,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "texts")]
struct Text {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = used_in, overflow(after = 2, into = "more_words"))]
    words: Overflow<Ref<Word>>,
    #[reference(exists, overflow(after = 2, into = "more_seen", flag = "has_seen"))]
    seen: Overflow<Ref<Word>>,
}

#[derive(Schema)]
#[schema(models(Word, Text))]
struct Dictionary;

fn words(numbers: std::ops::Range<usize>) -> Vec<Ref<Word>> {
    let names = numbers.map(|n| format!("{n:04}{}", "x".repeat(3_000)));
    names.map(Ref::new).collect()
}

/// On a standalone server, an update stores the references that it changes in an intent record of limited size. Larger updates
/// return `Unsupported`, so the test removes the references in parts.
pub async fn long_references_are_removed_in_batches(fixture: Fixture) {
    let scales = Arc::new(DocumentSizeRecorder::new(fixture.backend()));
    let db = odm::Database::<Dictionary>::with_backend(scales.clone());
    db.sync_indexes().await.unwrap();
    let all = words(0..150);
    let new = all.iter().map(|word| NewWord {
        id: word.id().clone(),
    });
    db.insert_many(new).await.unwrap();
    db.insert(Text {
        id: 1,
        words: words(0..105).into(),
        seen: Overflow::new(),
    })
    .await
    .unwrap();
    db.update::<Text>(1)
        .push_each(|t| t.words(), words(105..150))
        .await
        .unwrap();
    let read_words = async || {
        db.get::<Text>(1)
            .elements(|t| t.words())
            .all()
            .await
            .unwrap()
    };
    let used = async || {
        let used = db
            .find::<Word>()
            .filter(|w| w.used_in().resident().contains(Ref::new(1)));
        used.count().await.unwrap()
    };
    assert_eq!((read_words().await, used().await), (all.clone(), 150));

    let can = fixture.backend().capabilities().transactions;
    // The limit includes the references of a second array in the same update.
    let both = db
        .update::<Text>(1)
        .add_to_set(|t| t.words(), words(0..1).remove(0))
        .push_each(|t| t.seen(), words(0..120));
    match both.await {
        Ok(_) => assert!(can),
        Err(error) => assert!(!can && error.is_unsupported(), "{error}"),
    }
    let none: [Ref<Word>; 0] = [];
    let cleared = db.update::<Text>(1).set(|t| t.words(), none).await;
    if can {
        cleared.unwrap();
        let second = db.update::<Text>(1).push_each(|t| t.words(), all.clone());
        second.await.unwrap();
    } else {
        assert_eq!(cleared.unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!((read_words().await, used().await), (all.clone(), 150));
    }
    let last = || words(149..150);
    let pull = db
        .update::<Text>(1)
        .pull_where(|t| t.words(), |word| word.not_in(last()));
    let pulled = pull.await;
    if can {
        pulled.unwrap();
    } else {
        assert_eq!(pulled.unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!((read_words().await, used().await), (all.clone(), 150));
        // The intent record of a pull by id contains only the named ids.
        for some in all[..149].chunks(20) {
            let pull = db.update::<Text>(1).pull_all(|t| t.words(), some.to_vec());
            pull.await.unwrap();
        }
    }
    assert_eq!((read_words().await, used().await), (last(), 1));
    // A single reference is left, so the intent record is small enough to clear the array.
    let none: [Ref<Word>; 0] = [];
    db.update::<Text>(1).set(|t| t.words(), none).await.unwrap();
    assert_eq!((read_words().await.len(), used().await), (0, 0));
    for collection in ["texts", "more_words", "words"] {
        let most = scales.max_document_bytes(collection);
        assert!((3_000..MIB).contains(&most), "{collection}: {most}");
    }
    assert_clean(&db).await;
}

/// A page. Its inverse lists links with long ids.
#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "pages")]
struct Page {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = to, overflow(after = 2, into = "more_linked"))]
    linked: Overflow<Ref<Link>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "links")]
struct Link {
    #[serde(rename = "_id")]
    id: String,
    #[reference(inverse = linked, on_delete = cascade)]
    to: Ref<Page>,
}

#[derive(Schema)]
#[schema(models(Page, Link))]
struct Web;

/// An `update_many` moves 300 referrers with ids of about 1,000 bytes, and a `delete_many` deletes 200 referrers.
pub async fn referrers_with_long_ids_are_removed_in_batches(fixture: Fixture) {
    let db = odm::Database::<Web>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db.insert_many([NewPage { id: 1 }, NewPage { id: 2 }])
        .await
        .unwrap();
    let links = (0..300).map(|n| Link {
        id: format!("{n:03}{}", "x".repeat(1_000)),
        to: Ref::new(1),
    });
    let links: Vec<_> = links.collect();
    db.insert_many(links.clone()).await.unwrap();
    let listed = async |id| db.get::<Page>(id).await.unwrap().linked.len();
    assert_eq!((listed(1).await, listed(2).await), (300, 0));
    db.update_many::<Link>(|l| l.to().eq(Ref::new(1)))
        .set(|l| l.to(), Ref::new(2))
        .await
        .unwrap();
    assert_eq!((listed(1).await, listed(2).await), (0, 300));
    let delete = db.delete_many::<Link>(|l| l.id().gte("1"));
    delete.await.unwrap();
    assert_eq!((listed(1).await, listed(2).await), (0, 100));
    assert_clean(&db).await;
}

/// The same models with `overflow(inline)`.
mod inline_models {
    use super::*;

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "words")]
    pub(super) struct Word {
        #[serde(rename = "_id")]
        id: String,
        #[reference(inverse_of = words, overflow(inline, into = "more_used_in"))]
        pub(super) used_in: Overflow<Ref<Text>>,
    }

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "texts")]
    pub(super) struct Text {
        #[serde(rename = "_id")]
        id: i64,
        #[reference(inverse = used_in, overflow(inline, into = "more_words"))]
        pub(super) words: Overflow<Ref<Word>>,
        #[reference(exists, overflow(inline, into = "more_seen", flag = "has_seen"))]
        seen: Overflow<Ref<Word>>,
    }

    #[derive(Schema)]
    #[schema(models(Word, Text))]
    pub(super) struct Dictionary;
}

/// References with `overflow(inline)` agree with their inverse after a fold.
pub async fn long_references_keep_inverses_after_fold(fixture: Fixture) {
    let db = odm::Database::<Dictionary>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let all = words(0..240);
    let new = all.iter().map(|word| NewWord {
        id: word.id().clone(),
    });
    db.insert_many(new).await.unwrap();
    let (words, seen) = (Overflow::new(), Overflow::new());
    db.insert(Text { id: 1, words, seen }).await.unwrap();
    for some in all[..239].chunks(60) {
        db.update::<Text>(1)
            .push_each(|t| t.words(), some.to_vec())
            .await
            .unwrap();
    }
    let db = odm::Database::<inline_models::Dictionary>::with_backend(fixture.backend());
    assert_eq!(db.arrays::<inline_models::Text>().fold().await.unwrap(), 1);
    let text = || db.get::<inline_models::Text>(1);
    assert!(!text().await.unwrap().words.has_more());
    let word = |n: usize| Ref::<inline_models::Word>::new(all[n].id().clone());
    let used = async |n: usize| {
        let word = db.get::<inline_models::Word>(word(n)).await.unwrap();
        word.used_in.len()
    };
    db.update::<inline_models::Text>(1)
        .push(|t| t.words(), word(239))
        .await
        .unwrap();
    db.update::<inline_models::Text>(1)
        .pull(|t| t.words(), word(7))
        .await
        .unwrap();
    assert_eq!((used(7).await, used(8).await, used(239).await), (0, 1, 1));
    assert_eq!(text().await.unwrap().words.resident().len(), 239);
    db.delete::<inline_models::Text>(1).await.unwrap();
    assert_eq!((used(8).await, used(239).await), (0, 0));
    assert_clean(&db).await;
}

/// Two elements of the maximum size exceed the maximum size of the tail by a few bytes.
pub async fn the_largest_elements_are_pushed(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    db.insert_many([book(1, 0..2), book(2, 0..8)])
        .await
        .unwrap();
    let largest = "x".repeat(128 * 1024 - 18);
    for id in [1, 2] {
        let before = customers(&db, id).await;
        let push = db.update::<Book>(id);
        let push = push.push_each(
            |b| b.customers_purchased(),
            [largest.clone(), largest.clone()],
        );
        push.await.unwrap();
        let all = customers(&db, id).await;
        assert_eq!(all[..before.len()], before);
        assert_eq!(all[before.len()..], [largest.clone(), largest.clone()]);
        let larger = db
            .update::<Book>(id)
            .push(|b| b.customers_purchased(), format!("{largest}x"));
        assert_eq!(larger.await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert_clean(&db).await;
}

/// The number of round trips equals the table in `book/src/overflow.md`, for any length of the array.
pub async fn round_trips_do_not_grow_with_the_array(fixture: Fixture) {
    open_shop(&fixture).await;
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    let count_operations = || {
        let operations = recorder.operations();
        recorder.clear();
        let is_one =
            |operation: &&Operation| !matches!(operation, Operation::Begin | Operation::Commit);
        operations.iter().filter(is_one).count()
    };
    // A push to an array without spilled elements makes the array overflow.
    db.insert(book(3, 0..2)).await.unwrap();
    count_operations();
    let push = db.update::<Book>(3);
    push.push_each(|b| b.customers_purchased(), users(2..100))
        .await
        .unwrap();
    assert!(
        (6..=9).contains(&count_operations()),
        "push of many to a resident array"
    );
    for (id, len) in [(1, 60), (2, 6_000)] {
        db.insert(book(id, 0..len)).await.unwrap();
        let elements = || db.get::<Book>(id).elements(|b| b.customers_purchased());
        let update = || db.update::<Book>(id);
        count_operations();
        assert_eq!(elements().all().await.unwrap(), users(0..len));
        assert_eq!(count_operations(), 2, "all");
        assert!(elements().contains(format!("u{}", len - 1)).await.unwrap());
        assert_eq!(count_operations(), 2, "contains");
        assert!(!elements().contains("nobody").await.unwrap());
        assert_eq!(count_operations(), 3, "contains, for a missing element");
        assert_eq!(elements().page(50, 5).await.unwrap(), users(50..55));
        assert_eq!(count_operations(), 3, "page");
        let found = elements().filter(|c| c.starts_with("u5")).await.unwrap();
        assert!(found.len() > 10);
        assert_eq!(count_operations(), 3, "filter");
        update()
            .pull(|b| b.customers_purchased(), "u50")
            .await
            .unwrap();
        assert_eq!(count_operations(), 6, "pull");
        let set = update().set(
            |b| b.customers_purchased().matching(|c| c.eq("u51")),
            "someone",
        );
        set.await.unwrap();
        assert_eq!(count_operations(), 9, "set of elements");
        update()
            .push_each(|b| b.customers_purchased(), users(7_000..7_100))
            .await
            .unwrap();
        assert_eq!(count_operations(), 7, "push of many");
        update()
            .set(|b| b.customers_purchased(), users(0..100))
            .await
            .unwrap();
        assert_eq!(count_operations(), 8, "set");
        update()
            .set(|b| b.customers_purchased(), Overflow::new())
            .await
            .unwrap();
        assert_eq!(count_operations(), 6, "set to nothing");
    }
}

/// The operations of the section "Large arrays" in `book/src/operations.md`, in sequence. Book 1 has resident elements only, and
/// book 2 has spilled elements.
const COST_ROWS: &[CostRow<Shop>] = &[
    write_row!("insert with resident elements", |db| {
        db.insert(book(1, 0..2))
    }),
    write_row!("insert with spilled elements", |db| {
        db.insert(book(2, 0..60))
    }),
    write_row!("push to resident elements", |db| {
        db.update::<Book>(1)
            .push(|b| b.customers_purchased(), user(2))
    }),
    write_row!("push to an array with spilled elements", |db| {
        db.update::<Book>(2)
            .push(|b| b.customers_purchased(), user(60))
    }),
    write_row!(
        "push of many elements to an array with spilled elements",
        |db| {
            db.update::<Book>(2)
                .push_each(|b| b.customers_purchased(), users(100..200))
        }
    ),
    write_row!("`add_to_set` to an array with spilled elements", |db| {
        db.update::<Book>(2)
            .add_to_set(|b| b.customers_purchased(), "someone")
    }),
    write_row!("`pull` from an array with spilled elements", |db| {
        db.update::<Book>(2)
            .pull(|b| b.customers_purchased(), user(50))
    }),
    write_row!(
        "update of elements in an array with spilled elements",
        |db| {
            let place = db.update::<Book>(2);
            place.set(|b| b.customers_purchased().matching(|c| c.eq("u51")), "x51")
        }
    ),
    read_row!("`all` of an array with spilled elements", |db| {
        db.get::<Book>(2)
            .elements(|b| b.customers_purchased())
            .all()
    }),
    read_row!("`contains` for an array with spilled elements", |db| {
        let elements = db.get::<Book>(2).elements(|b| b.customers_purchased());
        elements.contains(user(199))
    }),
    read_row!("`page` of an array with spilled elements", |db| {
        let elements = db.get::<Book>(2).elements(|b| b.customers_purchased());
        elements.page(50, 5)
    }),
    write_row!("`set` of the whole array with spilled elements", |db| {
        db.update::<Book>(2)
            .set(|b| b.customers_purchased(), users(0..2))
    }),
    write_row!("delete of a document that had spilled elements", |db| {
        db.delete::<Book>(2)
    }),
];

/// The operations of reads and writes of arrays, as listed in the book.
pub async fn operations_of_arrays_match_the_book(fixture: Fixture) {
    open_shop(&fixture).await;
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(Arc::new(recorder.clone()));
    let mut lists = OperationLists::new(&fixture);
    for row in COST_ROWS {
        lists.run_row(row, &db, &recorder).await;
    }
    lists.assert_match_the_book();
}

/// Documents stay small between two operations of a write, and while later writes complete an abandoned write.
pub async fn documents_stay_small_during_writes(fixture: Fixture) {
    open_shop(&fixture).await;
    let scales = Arc::new(DocumentSizeRecorder::new(fixture.backend()));
    let db = Db::with_backend(scales.clone());
    db.insert(book(1, 0..0)).await.unwrap();
    let can = fixture.backend().capabilities().transactions;
    let faults = Faults::new(scales.clone());
    let dying = Db::with_backend(Arc::new(faults.clone()));
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let long = |n: usize, bytes| format!("{n:03}{}", "x".repeat(bytes));
    let mut expected = Vec::new();
    for step in 0..40 {
        let update = || dying.update::<Book>(1);
        // The size of the change and of the pushed values is close to the maximum.
        let change = update().set(
            |b| {
                b.customers_purchased()
                    .matching(|c| c.is_in((0..4).map(|n| long(n, 60_000))))
            },
            "nobody",
        );
        let count = random.random_range(1..4);
        let values = (0..count).map(|n| long(step * 10 + n, random.random_range(70_000..84_000)));
        let push = update().push_each(|b| b.customers_purchased(), values);
        let is_change = step % 4 == 2;
        // A change in a transaction leaves no pending work, so it gets no fault.
        if !(is_change && can) {
            let is_write = |operation: &Operation| operation.is_write();
            faults.inject(random.random_range(1..6), is_write, Fault::HangAfter);
        }
        let dies = async {
            while is_change && can || faults.pending() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let write = async {
            match is_change {
                true => drop(change.await),
                false => drop(push.await),
            }
        };
        tokio::select! { () = dies => {}, () = write => {} }
        faults.clear();
        let more = long(step * 10 + 9, 80_000);
        expected.push(more.clone());
        let push = db.update::<Book>(1);
        push.push(|b| b.customers_purchased(), more).await.unwrap();
    }
    db.wait_for_pending().await.unwrap();
    assert_clean(&db).await;
    let all = customers(&db, 1).await;
    let stored = all.iter().filter(|one| expected.contains(one));
    assert!(stored.eq(&expected));
    let (most, most_outside) = (
        scales.max_document_bytes("sales"),
        scales.max_document_bytes("extra_sales"),
    );
    assert!((MIB / 2..MIB).contains(&most), "{most}");
    assert!((MIB / 8..MIB / 2).contains(&most_outside), "{most_outside}");
}

/// Large elements are stored in small documents. Elements above the maximum size are rejected.
pub async fn large_elements_keep_documents_small(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    let large = "x".repeat(100_000);
    let too_large = "x".repeat(200_000);
    for size in [1, 4] {
        let many: Vec<_> = (0..size).map(|_| too_large.clone()).collect();
        let mut given = book(1, []);
        given.customers_purchased = many.clone().into();
        assert_eq!(
            db.insert(given).await.unwrap_err().kind(),
            ErrorKind::Invalid
        );
    }
    db.insert(book(1, [])).await.unwrap();
    let push = db
        .update::<Book>(1)
        .push(|b| b.customers_purchased(), &too_large)
        .await;
    assert_eq!(push.unwrap_err().kind(), ErrorKind::Invalid);
    let add = db
        .update::<Book>(1)
        .add_to_set(|b| b.customers_purchased(), &too_large)
        .await;
    assert_eq!(add.unwrap_err().kind(), ErrorKind::Invalid);
    let set = db
        .update::<Book>(1)
        .set(|b| b.customers_purchased(), [too_large.clone()])
        .await;
    assert_eq!(set.unwrap_err().kind(), ErrorKind::Invalid);
    assert!(customers(&db, 1).await.is_empty());
    assert!(chunk_documents(&fixture).await.is_empty());
    for _ in 0..9 {
        db.update::<Book>(1)
            .push(|b| b.customers_purchased(), &large)
            .await
            .unwrap();
    }
    let push = db
        .update::<Book>(1)
        .push_each(|b| b.customers_purchased(), vec![large.clone(); 9]);
    push.await.unwrap();
    let mut given = book(2, []);
    given.customers_purchased = vec![large.clone(); 12].into();
    db.insert(given).await.unwrap();
    for id in [1, 2] {
        let all = customers(&db, id).await;
        assert_eq!(all.len(), if id == 1 { 18 } else { 12 });
        assert!(all.iter().all(|one| *one == large));
    }
    let sales = stored_documents(&fixture, "sales", rawdoc! { "_id": 1 }).await;
    for document in sales.iter().chain(&chunk_documents(&fixture).await) {
        let size = RawDocumentBuf::try_from(document).unwrap().as_bytes().len();
        assert!(size < 1024 * 1024, "{size} bytes");
    }
    assert_clean(&db).await;
}

/// The owner document stores a change of spilled elements until all chunks are changed. So a change above the maximum size is
/// rejected.
pub async fn changes_with_long_conditions_are_rejected(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    db.insert(book(1, 0..60)).await.unwrap();
    let long = || users(0..40_000);
    let set = db.update::<Book>(1).set(
        |b| b.customers_purchased().matching(|c| c.is_in(long())),
        "nobody",
    );
    let pull = db.update::<Book>(1);
    let pull = pull.pull_all(|b| b.customers_purchased(), long());
    for refused in [set.await, pull.await] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    assert_eq!(customers(&db, 1).await, users(0..60));
    assert_clean(&db).await;
}

/// Elements grow in place only while their document has space.
pub async fn growing_elements_are_limited(fixture: Fixture) {
    let db = odm::Database::<Boards>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let board = |id, notes: i64| Board {
        id,
        notes: (0..notes).map(note).collect(),
    };
    db.insert_many([board(1, 90), board(2, 600)]).await.unwrap();
    let push = db.update::<Board>(2);
    push.push_each(|b| b.notes(), (600..690).map(note))
        .await
        .unwrap();
    let texts = async |id| {
        let all = db.get::<Board>(id).elements(|b| b.notes()).all();
        let all = all.await.unwrap();
        all.into_iter().map(|note| note.text).collect::<Vec<_>>()
    };
    for (id, len) in [(1, 90), (2, 690)] {
        for (bytes, kind) in [
            (200_000, ErrorKind::Invalid),
            (5_000, ErrorKind::Unsupported),
        ] {
            let all = db
                .update::<Board>(id)
                .set(|b| b.notes().all().text(), "x".repeat(bytes));
            assert_eq!(all.await.unwrap_err().kind(), kind);
        }
        assert_eq!(texts(id).await, vec![String::new(); len]);
        // Elements grow in turn in the owner document, in the chunks and in the tail, until the space is used up.
        for from in [0, 150, 600] {
            let mut refused = 0;
            let mut expected = texts(id).await;
            for n in (from..from + 15).filter(|n| *n < len) {
                let text = "x".repeat(100_000);
                let set = db.update::<Board>(id).set(
                    |b| b.notes().matching(|note| note.n().eq(n as i64)).text(),
                    &text,
                );
                match set.await {
                    Ok(_) => expected[n] = text,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                        refused += 1;
                    }
                }
            }
            assert!(
                from >= len || (1..15).contains(&refused),
                "{from}: {refused}"
            );
            assert!(texts(id).await == expected);
        }
    }
    for collection in ["boards", "more_notes"] {
        for document in stored_documents(&fixture, collection, rawdoc! { "_id": 1 }).await {
            let size = RawDocumentBuf::try_from(&document)
                .unwrap()
                .as_bytes()
                .len();
            assert!(size < 1024 * 1024, "{size} bytes");
        }
    }
    // A change that needs no additional space succeeds.
    let update = db.update::<Board>(2).set(|b| b.notes().all().seen(), true);
    update.await.unwrap();
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}

fn note(n: i64) -> Note {
    Note {
        n,
        text: String::new(),
        seen: false,
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "boards")]
struct Board {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 100, into = "more_notes", owner = "board"))]
    notes: Overflow<Note>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
struct Note {
    n: i64,
    text: String,
    seen: bool,
}

#[derive(Schema)]
#[schema(models(Board, Twin))]
struct Boards;

/// A document with two overflow arrays.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "twins")]
struct Twin {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 10, into = "more_left", flag = "is_left_more"))]
    left: Overflow<String>,
    #[embed(overflow(after = 10, into = "more_right", flag = "is_right_more"))]
    right: Overflow<String>,
}

/// Two overflow arrays share the space of a document.
pub async fn two_arrays_share_the_size_limit(fixture: Fixture) {
    let db = odm::Database::<Boards>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let (left, right) = (Overflow::new(), Overflow::new());
    db.insert(Twin { id: 1, left, right }).await.unwrap();
    let too_large = "x".repeat(100_000);
    let push = db.update::<Twin>(1).push(|t| t.left(), &too_large);
    assert_eq!(push.await.unwrap_err().kind(), ErrorKind::Invalid);
    let large = "x".repeat(60_000);
    for _ in 0..8 {
        let twin = || db.update::<Twin>(1);
        twin().push(|t| t.left(), &large).await.unwrap();
        twin().push(|t| t.right(), &large).await.unwrap();
        let stored = stored_documents(&fixture, "twins", rawdoc! { "_id": 1 }).await;
        let size = RawDocumentBuf::try_from(&stored[0]).unwrap();
        let size = size.as_bytes().len();
        assert!(size < 540_000, "{size} bytes");
    }
    for all in [
        db.get::<Twin>(1).elements(|t| t.left()).all().await,
        db.get::<Twin>(1).elements(|t| t.right()).all().await,
    ] {
        assert!(all.unwrap() == vec![large.clone(); 8]);
    }
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}

/// The owner document stores the values of a pull until all chunks are changed, so values above the maximum size are rejected.
pub async fn a_pull_of_large_values_is_rejected(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    db.insert(book(1, 0..60)).await.unwrap();
    let many = (0..3).map(|n| format!("{n}{}", "x".repeat(100_000)));
    let pull = db
        .update::<Book>(1)
        .pull_all(|b| b.customers_purchased(), many.chain([user(50)]));
    assert_eq!(pull.await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(customers(&db, 1).await, users(0..60));
    assert_clean(&db).await;
}
