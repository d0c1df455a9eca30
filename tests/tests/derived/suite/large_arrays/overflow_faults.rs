//! Tests of overflow arrays with concurrent writers, crashed processes, refused operations, and changes from outside of odm.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use odm::{
    Hooks,
    backend::{
        Fault as CrashFault, Faults,
        operation::{DeleteOperation, DocumentChange, InsertOperation, Operation, UpdateOperation},
    },
    bson::{Bson, RawDocumentBuf, doc, rawdoc},
    check::{FindingKind, RepairOutcome},
    prelude::*,
};
use odm_tests::assert_clean;

use super::overflow::{Book, Shop, book, customers, open_shop, stored_documents, user, users};
use super::overflow_maintenance::{inline_again, larger_limit};
use crate::Fixture;
use crate::crash::{CrashTest, Write};

/// Concurrent writers lose no element, around the threshold and above the threshold.
pub async fn concurrent_writes_lose_no_elements(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    db.insert_many([book(1, []), book(2, []), book(3, 0..60)])
        .await
        .unwrap();
    let (tasks, each) = (8, 40);
    let running = (0..tasks).map(|task| {
        let db = db.clone();
        tokio::spawn(async move {
            for nth in 0..each {
                let number = 1_000 + task * each + nth;
                for id in [1, 3] {
                    let push = db
                        .update::<Book>(id)
                        .push(|b| b.customers_purchased(), user(number));
                    retry_conflicts(push).await;
                }
                // All tasks add the same elements to the set of book 2.
                let add = db
                    .update::<Book>(2)
                    .add_to_set(|b| b.customers_purchased(), user(nth));
                retry_conflicts(add).await;
                if nth % 8 == 7 {
                    let pull = db
                        .update::<Book>(3)
                        .pull(|b| b.customers_purchased(), user(number - 3));
                    retry_conflicts(pull).await;
                }
            }
        })
    });
    for task in running.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    db.wait_for_pending()
        .timeout(Duration::from_secs(30))
        .await
        .unwrap();
    let all: Vec<_> = (1_000..1_000 + tasks * each).collect();
    let mut pushed = customers(&db, 1).await;
    // The elements of a task keep their order.
    for task in 0..tasks {
        let is_of_task = |name: &&String| {
            let number: usize = name[1..].parse().unwrap();
            (number - 1_000) / each == task
        };
        let elements: Vec<_> = pushed.iter().filter(is_of_task).cloned().collect();
        assert_eq!(elements, users(all[task * each..][..each].iter().copied()));
    }
    pushed.sort();
    assert_eq!(pushed, users(all.iter().copied()));
    let mut set = customers(&db, 2).await;
    set.sort();
    let mut expected = users(0..each);
    expected.sort();
    assert_eq!(set, expected);
    let mut remaining = customers(&db, 3).await;
    remaining.sort();
    let stays = |number: &usize| (number - 1_000) % each % 8 != 4;
    let mut expected = users((0..60).chain(all.into_iter().filter(stays)));
    expected.sort();
    assert_eq!(remaining, expected);
    assert_clean(&db).await;
}

/// Repeats an update while the update fails with a conflict.
async fn retry_conflicts(update: odm::action::Update<Book>) {
    loop {
        match update.clone().await {
            Ok(_) => return,
            Err(error) if error.is_conflict() => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn update_raw(
    fixture: &Fixture,
    collection: &'static str,
    filter: RawDocumentBuf,
    change: RawDocumentBuf,
) {
    let update = UpdateOperation {
        collection: collection.into(),
        filter,
        change: DocumentChange::operators(change),
        multi: true,
        upsert: false,
        origin: Default::default(),
    };
    assert!(fixture.backend().update(update).await.unwrap().matched > 0);
}

pub async fn the_check_finds_changed_array_metadata(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    db.insert_many((1..=7).map(|id| book(id, 0..1_200)))
        .await
        .unwrap();
    db.insert_many([book(8, 0..2), book(9, 0..1_200)])
        .await
        .unwrap();
    assert_clean(&db).await;
    let by_id = |id: i64| rawdoc! { "_id": id };
    let manifest = "_odm.overflow.customers_purchased";
    update_raw(
        &fixture,
        "sales",
        by_id(1),
        rawdoc! { "$unset": { "has_extras": "" } },
    )
    .await;
    update_raw(
        &fixture,
        "sales",
        by_id(8),
        rawdoc! { "$set": { "has_extras": true } },
    )
    .await;
    let count =
        RawDocumentBuf::try_from(&doc! { "$set": { format!("{manifest}.count"): 7_i64 } }).unwrap();
    update_raw(&fixture, "sales", by_id(2), count).await;
    let next = doc! { "$set": { format!("{manifest}.next"): 1_000_000_000_i64 } };
    let next = RawDocumentBuf::try_from(&next).unwrap();
    update_raw(&fixture, "sales", by_id(9), next).await;
    let lost = DeleteOperation {
        collection: "extra_sales".into(),
        filter: rawdoc! { "book_id": 9_i64, "seq": { "$lt": 2_i64 } },
        multi: true,
        origin: Default::default(),
    };
    fixture.backend().delete(lost).await.unwrap();
    let longer = RawDocumentBuf::try_from(
        &doc! { "$push": { "customers_purchased": { "$each": users(2_000..2_010) } } },
    )
    .unwrap();
    update_raw(&fixture, "sales", by_id(3), longer).await;
    let lost = DeleteOperation {
        collection: "extra_sales".into(),
        filter: rawdoc! { "book_id": 4_i64, "seq": 1_i64 },
        multi: false,
        origin: Default::default(),
    };
    fixture.backend().delete(lost).await.unwrap();
    update_raw(
        &fixture,
        "extra_sales",
        rawdoc! { "book_id": 5_i64, "seq": 2_i64 },
        rawdoc! { "$set": { "seq": 1_i64 } },
    )
    .await;
    let orphan = rawdoc! { "_id": "lost", "book_id": 6_i64, "seq": 0_i64, "customers_purchased_extra": ["x"] };
    let nobodys = rawdoc! { "_id": "nobody's", "book_id": 99_i64, "seq": 0_i64, "customers_purchased_extra": ["x"] };
    let insert = InsertOperation {
        collection: "extra_sales".into(),
        documents: vec![orphan, nobodys],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    let report = db.check().await.unwrap();
    let found: Vec<_> = report
        .findings
        .iter()
        .map(|finding| (finding.collection, finding.id.clone(), finding.kind.clone()))
        .collect();
    let of = "extra_sales";
    let miscounted = |actual: i64, expected: i64| FindingKind::WrongCount {
        of,
        actual: Box::new(Bson::Int64(actual)),
        expected: Box::new(Bson::Int64(expected)),
    };
    let misflagged = |actual| FindingKind::WrongFlag {
        flag: "has_extras",
        actual,
    };
    let run = |seq, to, times| FindingKind::OutOfSequence { of, seq, to, times };
    let sequence = |seq, times| run(seq, seq, times);
    let orphaned = |owner: i64| FindingKind::Orphaned {
        of: "sales",
        owner: Bson::Int64(owner),
        seq: 0,
    };
    let expected = vec![
        ("sales", Bson::Int64(1), misflagged(false)),
        ("sales", Bson::Int64(2), miscounted(7, 1_197)),
        (
            "sales",
            Bson::Int64(3),
            FindingKind::TooManyResident { actual: 13, max: 3 },
        ),
        ("sales", Bson::Int64(4), miscounted(1_197, 697)),
        ("sales", Bson::Int64(4), sequence(1, 0)),
        ("sales", Bson::Int64(5), sequence(1, 2)),
        ("sales", Bson::Int64(5), sequence(2, 0)),
        ("sales", Bson::Int64(8), misflagged(true)),
        // Adjacent missing numbers are a single finding, regardless of how many.
        ("sales", Bson::Int64(9), miscounted(1_197, 197)),
        ("sales", Bson::Int64(9), run(0, 1, 0)),
        ("sales", Bson::Int64(9), run(3, 999_999_999, 0)),
        (of, Bson::from("lost"), orphaned(6)),
        (of, Bson::from("nobody's"), orphaned(99)),
    ];
    assert_eq!(found, expected);
    let repaired = db.repair().apply().await.unwrap();
    assert!(repaired.is_clean(), "{repaired}");
    assert!(
        repaired
            .steps
            .iter()
            .any(|step| step.outcome == RepairOutcome::Done)
    );
    assert_clean(&db).await;
    assert_eq!(customers(&db, 1).await, users(0..1_200));
    assert_eq!(customers(&db, 2).await, users(0..1_200));
    let expected = (0..3).chain(2_000..2_010).chain(3..1_200);
    assert_eq!(customers(&db, 3).await, users(expected));
    assert_eq!(customers(&db, 4).await.len(), 700);
    assert_eq!(customers(&db, 5).await.len(), 1_200);
    assert_eq!(customers(&db, 8).await, users(0..2));
    assert_eq!(customers(&db, 9).await.len(), 200);
}

/// An operation on chunk documents that the server refuses does not block later writes to the array.
pub async fn a_rejected_change_leaves_no_pending_work(fixture: Fixture) {
    let db = odm::Database::<Polls>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let options = (0..80).map(|number| PollOption {
        number,
        votes: (number != 60).then_some(1),
    });
    db.insert(Poll {
        id: 1,
        options: options.collect(),
    })
    .await
    .unwrap();
    let votes = db.update::<Poll>(1).inc(|p| p.options().all().votes(), 1);
    let error = votes.await.unwrap_err();
    assert!(!error.is_conflict(), "{error}");
    let pending = db.pending().await.unwrap();
    assert!(pending.is_empty(), "{pending}");
    let pull = db
        .update::<Poll>(1)
        .pull_where(|p| p.options(), |option| option.number().eq(60));
    pull.await.unwrap();
    for number in 80..90 {
        let votes = Some(1);
        db.update::<Poll>(1)
            .push(|p| p.options(), PollOption { number, votes })
            .await
            .unwrap();
    }
    let votes = db.update::<Poll>(1).inc(|p| p.options().all().votes(), 1);
    votes.await.unwrap();
    let all = db.get::<Poll>(1).elements(|p| p.options()).all().await;
    let numbers = all.unwrap().into_iter().map(|option| option.number);
    let expected = (0..90).filter(|number| *number != 60);
    assert!(numbers.eq(expected));
    assert!(db.check().await.unwrap().is_clean());
}

/// A poll with options and votes.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "polls")]
struct Poll {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 2, into = "more_options", owner = "poll"))]
    options: Overflow<PollOption>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
struct PollOption {
    number: i64,
    votes: Option<i64>,
}

#[derive(Schema)]
#[schema(models(Poll))]
struct Polls;

const WRITES: &[Write<Shop>] = &[
    ("insert", |db| {
        Box::pin(async move { db.insert(book(9, 0..120)).await.map(drop) })
    }),
    ("insert several", |db| {
        Box::pin(async move {
            let all = db.insert_many([book(8, 0..2), book(9, 0..60), book(10, 0..60)]);
            all.await.map(drop)
        })
    }),
    ("push", |db| {
        Box::pin(async move {
            let push = db.update::<Book>(1).push(|b| b.customers_purchased(), "u3");
            push.inc(|b| b.copies(), 1).await.map(drop)
        })
    }),
    ("push where it is full", |db| {
        Box::pin(async move {
            let push = db
                .update::<Book>(3)
                .push(|b| b.customers_purchased(), "u11");
            push.inc(|b| b.copies(), 1).await.map(drop)
        })
    }),
    ("add many", |db| {
        Box::pin(async move {
            let add = db
                .update::<Book>(3)
                .add_each_to_set(|b| b.customers_purchased(), users(5..200));
            add.inc(|b| b.copies(), 189).await.map(drop)
        })
    }),
    ("push many", |db| {
        Box::pin(async move {
            let push = db
                .update::<Book>(3)
                .push_each(|b| b.customers_purchased(), users(11..200));
            push.inc(|b| b.copies(), 189).await.map(drop)
        })
    }),
    ("add", |db| {
        Box::pin(async move {
            let add = db
                .update::<Book>(2)
                .add_to_set(|b| b.customers_purchased(), "u120");
            add.inc(|b| b.copies(), 1).await.map(drop)
        })
    }),
    ("pull", |db| {
        Box::pin(async move {
            let pull = db
                .update::<Book>(2)
                .pull_all(|b| b.customers_purchased(), users([1, 50, 118]));
            pull.inc(|b| b.copies(), -3).await.map(drop)
        })
    }),
    ("replace", |db| {
        Box::pin(async move {
            let set = db
                .update::<Book>(2)
                .set(|b| b.customers_purchased(), users(0..150));
            set.inc(|b| b.copies(), 30).await.map(drop)
        })
    }),
    ("clear", |db| {
        Box::pin(async move {
            let set = db.update::<Book>(2).set(|b| b.customers_purchased(), []);
            set.inc(|b| b.copies(), -120).await.map(drop)
        })
    }),
    ("add where it is full", |db| {
        Box::pin(async move {
            let add = db
                .update::<Book>(3)
                .add_to_set(|b| b.customers_purchased(), "u11");
            add.inc(|b| b.copies(), 1).await.map(drop)
        })
    }),
    ("change", |db| {
        Box::pin(async move {
            let fifty = db.update::<Book>(2).set(
                |b| b.customers_purchased().matching(|c| c.eq("u50")),
                "u500",
            );
            fifty.await.map(drop)
        })
    }),
    ("fold", |db| {
        Box::pin(async move { db.arrays::<Book>().fold().await.map(drop) })
    }),
    ("delete", |db| {
        Box::pin(async move { db.delete::<Book>(2).await.map(drop) })
    }),
];

/// The field `copies` counts the customers: an update changes both the array and the count, or changes neither.
pub async fn crashed_writes_lose_no_elements(fixture: Fixture) {
    let crashes = CrashTest {
        writes: WRITES,
        begin: |db| {
            Box::pin(async move {
                let with = |id, len| Book {
                    copies: len as i64,
                    ..book(id, 0..len)
                };
                db.insert_many([with(1, 3), with(2, 120), with(3, 3), with(4, 60)])
                    .await
                    .unwrap();
                let push = db
                    .update::<Book>(3)
                    .push_each(|b| b.customers_purchased(), users(3..11));
                push.inc(|b| b.copies(), 8).await.unwrap();
                let pull = db
                    .update::<Book>(4)
                    .pull_all(|b| b.customers_purchased(), users(2..60));
                pull.inc(|b| b.copies(), -58).await.unwrap();
            })
        },
        may_find: |_| false,
        agrees: |db, when| {
            Box::pin(async move {
                let pending = db.pending().await.unwrap();
                assert!(pending.is_empty(), "{when}: {pending}");
                for found in db.find::<Book>().all().await.unwrap() {
                    let all = customers(db, found.id).await;
                    assert_eq!(found.customers_purchased.len(), all.len() as u64, "{when}");
                    let distinct: BTreeSet<_> = all.iter().collect();
                    assert_eq!(distinct.len(), all.len(), "{when}: {all:?}");
                    if found.id < 8 {
                        assert_eq!(found.copies, all.len() as i64, "{when}: {all:?}");
                    } else {
                        let len = all.len();
                        assert!([2, 60, 120].contains(&len), "{when}: {len}");
                    }
                }
            })
        },
    };
    crashes.run(&fixture).await;
}

/// A transaction cannot see the end of a spill that a crashed process left. Therefore odm restarts the transaction.
pub async fn a_transaction_restarts_during_a_spill(fixture: Fixture) {
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let db = open_shop(&fixture).await;
    leave_abandoned_spill(&fixture).await;
    let begun = Arc::new(AtomicU32::new(0));
    let done = db.transaction(|tx| {
        begun.fetch_add(1, Ordering::Relaxed);
        async move {
            let push = tx.update::<Book>(1);
            push.push_each(|b| b.customers_purchased(), users(40..60))
                .await
        }
    });
    done.await.unwrap();
    assert!(begun.load(Ordering::Relaxed) > 1);
    assert_eq!(customers(&db, 1).await, users(0..60));
}

/// A write without an explicit transaction waits for the pending spill before the write begins a transaction.
pub async fn a_write_waits_for_a_pending_spill(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    leave_abandoned_spill(&fixture).await;
    db.update::<Book>(1)
        .push_each(|b| b.customers_purchased(), users(40..60))
        .await
        .unwrap();
    db.update::<Book>(1)
        .pull(|b| b.customers_purchased(), "u50")
        .await
        .unwrap();
    let expected = users(0..50).into_iter().chain(users(51..60));
    assert!(customers(&db, 1).await.into_iter().eq(expected));
    db.arrays::<Book>().spill().await.unwrap();
    assert_clean(&db).await;
}

/// A star with an inverse of fans.
#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "stars")]
struct Star {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = of, overflow(after = 2, into = "more_fans"))]
    fans: Overflow<Ref<Fan>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "fans", hooks)]
struct Fan {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = fans)]
    of: Ref<Star>,
}

#[derive(Schema)]
#[schema(models(Star, Fan))]
struct Fame;

impl Hooks for Fan {
    type Schema = Fame;
}

/// A save or a modify in a transaction may change an inverse while a different process spills the array. The document is saved,
/// or an error reports that the document is not saved.
pub async fn saves_during_a_spill_succeed_or_conflict(fixture: Fixture) {
    let db = odm::Database::<Fame>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db.insert_many([NewStar { id: 1 }, NewStar { id: 2 }])
        .await
        .unwrap();
    let fans = (1..=40).map(|id| Fan {
        id,
        of: Ref::new(1),
    });
    db.insert_many(fans.collect::<Vec<_>>()).await.unwrap();
    let written_anew = async || {
        let lease = DateTime::from_millis(DateTime::now().timestamp_millis() + 2_000);
        let work = doc! { "token": ObjectId::new(), "lease": lease, "kind": "stage" };
        let set = doc! { "$set": { "_odm.overflow.fans.work": work } };
        let update = UpdateOperation {
            collection: "stars".into(),
            filter: rawdoc! { "_id": 1_i64 },
            change: DocumentChange::operators(RawDocumentBuf::try_from(&set).unwrap()),
            multi: false,
            upsert: false,
            origin: Default::default(),
        };
        let done = fixture.backend().update(update).await.unwrap();
        assert_eq!(done.matched, 1);
    };

    written_anew().await;
    let mut fan = db.edit::<Fan>(30).await.unwrap();
    fan.of = Ref::new(2);
    let saved = db.save(&mut fan).await;
    let is_saved = *db.get::<Fan>(30).await.unwrap().of.id() == 2;
    match saved {
        Ok(()) => assert!(is_saved),
        Err(error) => assert!(error.is_conflict() && !is_saved, "{error}"),
    }

    if fixture.backend().capabilities().transactions {
        db.wait_for_pending().await.unwrap();
        written_anew().await;
        db.transaction(|tx| async move { tx.modify::<Fan>(31, |fan| fan.of = Ref::new(2)).await })
            .await
            .unwrap();
        assert_eq!(*db.get::<Fan>(31).await.unwrap().of.id(), 2);
    }
    db.modify::<Fan>(32, |fan| fan.of = Ref::new(2))
        .await
        .unwrap();
    db.wait_for_pending().await.unwrap();
    assert_clean(&db).await;
}

/// Without transactions, a server may refuse the rest of a pull. The length then counts the remaining elements.
pub async fn a_partial_pull_updates_the_length(fixture: Fixture) {
    if fixture.backend().capabilities().transactions {
        return;
    }
    let db = open_shop(&fixture).await;
    db.insert(book(1, 0..60)).await.unwrap();
    let faults = Faults::new(fixture.backend());
    let refused = odm::Database::<Shop>::with_backend(Arc::new(faults.clone()));
    let is_outside = |operation: &Operation| matches!(operation, Operation::Update(update) if update.collection == "extra_sales");
    let error = odm::Error::new(odm::ErrorKind::Invalid, "no");
    faults.inject(1, is_outside, CrashFault::FailAfter(error));
    let pull = refused
        .update::<Book>(1)
        .pull(|b| b.customers_purchased(), "u50")
        .await;
    assert_eq!(pull.unwrap_err().kind(), odm::ErrorKind::Invalid);
    let all = customers(&db, 1).await;
    assert_eq!(all.len(), 59);
    let len = db
        .get::<Book>(1)
        .elements(|b| b.customers_purchased())
        .len();
    assert_eq!(len.await.unwrap(), 59);
    assert_clean(&db).await;

    // After a temporary server error, the next process completes the pull.
    let error = odm::Error::new(odm::ErrorKind::Backend, "operation was interrupted");
    faults.inject(
        1,
        is_outside,
        CrashFault::FailBefore(error.with_code(11_601)),
    );
    let pull = refused
        .update::<Book>(1)
        .pull(|b| b.customers_purchased(), "u51")
        .await;
    assert_eq!(pull.unwrap_err().kind(), odm::ErrorKind::Backend);
    db.wait_for_pending().await.unwrap();
    assert_eq!(customers(&db, 1).await.len(), 58);
    assert_clean(&db).await;
}

/// Leaves an array with an abandoned spill in progress.
async fn leave_abandoned_spill(fixture: &Fixture) {
    let long = larger_limit::Book {
        id: 1,
        title: "long".into(),
        copies: 0,
        customers_purchased: users(0..40).into(),
    };
    let before = odm::Database::<larger_limit::Shop>::with_backend(fixture.backend());
    before.insert(long).await.unwrap();
    let faults = Faults::new(fixture.backend());
    let dying = odm::Database::<Shop>::with_backend(Arc::new(faults.clone()));
    faults.inject(1, Operation::is_write, CrashFault::HangAfter);
    let died = tokio::spawn(async move { dying.arrays::<Book>().spill().await });
    while faults.pending() > 0 || !has_pending_spill(fixture).await {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    died.abort();
}

async fn has_pending_spill(fixture: &Fixture) -> bool {
    let stored = stored_documents(fixture, "sales", rawdoc! { "_id": 1 }).await;
    let metadata = stored[0].get_document("_odm");
    metadata.is_ok_and(|metadata| metadata.to_string().contains("stage"))
}

const MAINTENANCE_WRITES: &[Write<Shop>] = &[
    ("spill", |db| {
        Box::pin(async move { db.arrays::<Book>().spill().await.map(drop) })
    }),
    ("repair", |db| {
        Box::pin(async move { db.repair().apply().await.map(drop) })
    }),
    ("inline", |db| {
        Box::pin(async move {
            let back = odm::Database::<inline_again::Shop>::with_backend(db.backend().clone());
            back.arrays::<inline_again::Book>().fold().await.map(drop)
        })
    }),
];

/// A process that crashes during a spill, a repair or a fold loses no element. A later repair finishes the work.
pub async fn crashed_maintenance_loses_no_elements(fixture: Fixture) {
    let crashes = CrashTest {
        writes: MAINTENANCE_WRITES,
        begin: |db| {
            Box::pin(async move {
                let backend = db.backend().clone();
                let others = odm::Database::<larger_limit::Shop>::with_backend(backend.clone());
                let long = larger_limit::Book {
                    id: 1,
                    title: "long".into(),
                    copies: 0,
                    customers_purchased: users(0..40).into(),
                };
                others.insert(long).await.unwrap();
                db.insert(book(2, 0..40)).await.unwrap();
                let count = doc! { "$set": { "_odm.overflow.customers_purchased.count": 7_i64 } };
                let update = UpdateOperation {
                    collection: "sales".into(),
                    filter: rawdoc! { "_id": 2_i64 },
                    change: DocumentChange::operators(RawDocumentBuf::try_from(&count).unwrap()),
                    multi: false,
                    upsert: false,
                    origin: Default::default(),
                };
                backend.update(update).await.unwrap();
            })
        },
        may_find: |fault| {
            matches!(
                fault,
                FindingKind::TooManyResident { .. } | FindingKind::WrongCount { .. }
            )
        },
        agrees: |db, when| {
            Box::pin(async move {
                db.repair().apply().await.unwrap();
                assert_clean(db).await;
                for id in [1, 2] {
                    assert_eq!(customers(db, id).await, users(0..40), "{when}");
                }
            })
        },
    };
    crashes.run(&fixture).await;
}
