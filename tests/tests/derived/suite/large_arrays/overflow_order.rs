//! Sorted overflow arrays: the resident elements are the first or the latest by a field.

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

use odm::{
    ErrorKind,
    backend::{
        Recorder,
        operation::{InsertOperation, Operation},
    },
    bson::{Bson, RawDocumentBuf, doc, rawdoc},
    check::FindingKind,
    prelude::*,
};
use odm_tests::assert_clean;
use rand::{Rng, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use crate::Fixture;
use crate::crash::{CrashTest, Write};

/// A host with its latest lines as resident elements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: i64,
    pushed: i64,
    #[embed(overflow(after = 4, into = "more_lines", owner = "host", latest_by = at))]
    lines: Overflow<Line>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Line {
    at: DateTime,
    text: String,
    seen: i64,
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Host)]
struct Card {
    pushed: i64,
    lines: Overflow<Line>,
}

/// A race with its best times as resident elements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "races")]
struct Race {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 3, into = "more_times", first_by = took.seconds))]
    times: Overflow<Time>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Time {
    who: String,
    #[embed]
    took: Took,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Took {
    seconds: Option<f64>,
}

#[derive(Schema)]
#[schema(models(Host, Race))]
struct Net;
type Db = odm::Database<Net>;

fn line(at: i64) -> Line {
    Line {
        at: DateTime::from_millis(at),
        text: format!("line {at}"),
        seen: 0,
    }
}

fn lines(at: impl IntoIterator<Item = i64>) -> Vec<Line> {
    at.into_iter().map(line).collect()
}

fn host(id: i64, at: impl IntoIterator<Item = i64>) -> Host {
    Host {
        id,
        pushed: 0,
        lines: lines(at).into(),
    }
}

fn times(lines: &[Line]) -> Vec<i64> {
    lines
        .iter()
        .map(|line| line.at.timestamp_millis())
        .collect()
}

async fn open_with_indexes(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db
}

async fn all_times(db: &Db, id: i64) -> Vec<i64> {
    let all = db.get::<Host>(id).elements(|h| h.lines()).all();
    times(&all.await.unwrap())
}

/// The latest elements are resident, regardless of the order of the pushes.
pub async fn the_latest_are_in_the_document(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    let inserted = db.insert(host(1, [3, 1, 2])).await.unwrap();
    assert_eq!(times(inserted.lines.resident()), [3, 2, 1]);
    let inserted = db.insert(host(2, [5, 9, 1, 7, 3, 8])).await.unwrap();
    assert_eq!(times(inserted.lines.resident()), [9, 8, 7, 5]);
    assert_eq!(inserted.lines.len(), 6);
    for (id, expected) in [(1, &[3, 2, 1][..]), (2, &[9, 8, 7, 5])] {
        let read = db.get::<Host>(id).await.unwrap();
        assert_eq!(times(read.lines.resident()), expected);
        assert_eq!(read.lines.has_more(), id == 2);
    }
    assert_eq!(all_times(&db, 2).await, [9, 8, 7, 5, 3, 1]);

    // A later element becomes resident. An element earlier than all resident elements is spilled.
    let push = |id, at: Vec<i64>| {
        let push = db.update::<Host>(id).push_each(|h| h.lines(), lines(at));
        push.inc(|h| h.pushed(), 1)
    };
    push(2, vec![10]).await.unwrap();
    push(2, vec![4]).await.unwrap();
    push(2, vec![6, 11]).await.unwrap();
    let read = db.get::<Host>(2).await.unwrap();
    assert_eq!(times(read.lines.resident()), [11, 10, 9, 8]);
    assert_eq!((read.lines.len(), read.pushed), (10, 3));
    // Writes of other fields leave the array unchanged. Replacing the array in a save is refused.
    let edited = db.modify::<Host>(2, |host| host.pushed = 4).await;
    assert_eq!(edited.unwrap().lines, read.lines);
    let refused = db.modify::<Host>(2, |host| host.lines = lines([1]).into());
    assert_eq!(refused.await.unwrap_err().kind(), ErrorKind::Invalid);
    let card = db.find::<Host>().filter(|h| h.id().eq(2)).select::<Card>();
    let card = card.one().await.unwrap();
    assert_eq!((card.pushed, card.lines), (4, read.lines));
    assert_eq!(all_times(&db, 2).await, [11, 10, 9, 8, 7, 6, 5, 4, 3, 1]);

    // Push single elements, then many at once.
    for at in 12..60 {
        push(1, vec![at]).await.unwrap();
    }
    push(1, (60..200).rev().step_by(2).collect()).await.unwrap();
    push(1, (60..200).step_by(2).collect()).await.unwrap();
    let expected: Vec<_> = (12..200).rev().chain([3, 2, 1]).collect();
    assert_eq!(all_times(&db, 1).await, expected);
    let read = db.get::<Host>(1).await.unwrap();
    assert_eq!(times(read.lines.resident()), [199, 198, 197, 196]);
    assert_eq!(read.lines.len(), 191);

    // Every kind of read returns the same order.
    let elements = || db.get::<Host>(1).elements(|h| h.lines());
    let mut stream = elements().stream();
    let mut streamed = Vec::new();
    while let Some(line) = stream.next().await {
        streamed.push(line.unwrap().at.timestamp_millis());
    }
    assert_eq!(streamed, expected);
    for from in [0, 1, 3, 4, 5, 9, 100, 180, 190, 191, 300] {
        for len in [1, 2, 10, 500] {
            let page = elements().page(from, len).await.unwrap();
            let skipped = expected.iter().skip(from as usize).take(len);
            assert_eq!(
                times(&page),
                skipped.copied().collect::<Vec<_>>(),
                "{from}, {len}"
            );
        }
    }
    let filtered = elements().filter(|l| l.at().lt(DateTime::from_millis(15)));
    assert_eq!(times(&filtered.await.unwrap()), [14, 13, 12, 3, 2, 1]);
    assert!(elements().contains(line(13)).await.unwrap());
    assert_clean(&db).await;

    // The stored array may hold up to eight elements before a spill, and all are later than the spilled elements.
    for document in fixture.documents("hosts").await {
        let resident = document.get_array("lines").unwrap();
        assert!((4..=8).contains(&resident.len()), "{document}");
    }
}

/// Sorts by a nested field, ascending. An element without the field comes first.
pub async fn the_first_are_in_the_document(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    let time = |seconds: Option<f64>| Time {
        who: format!("{seconds:?}"),
        took: Took { seconds },
    };
    let seconds = [9.5, 3.0, 12.25, 1.0, 7.5, 2.0].map(Some);
    let race = Race {
        id: 1,
        times: seconds.map(time).into(),
    };
    let inserted = db.insert(race).await.unwrap();
    let seconds_of = |times: &[Time]| times.iter().map(|t| t.took.seconds).collect::<Vec<_>>();
    assert_eq!(
        seconds_of(inserted.times.resident()),
        [1.0, 2.0, 3.0].map(Some)
    );
    for seconds in [Some(2.5), None, Some(f64::INFINITY), Some(8.0)] {
        let push = db.update::<Race>(1).push(|r| r.times(), time(seconds));
        push.await.unwrap();
    }
    let read = db.get::<Race>(1).await.unwrap();
    assert_eq!(
        seconds_of(read.times.resident()),
        [None, Some(1.0), Some(2.0)]
    );
    let elements = db.get::<Race>(1).elements(|r| r.times());
    let expected = [1.0, 2.0, 2.5, 3.0, 7.5, 8.0, 9.5, 12.25, f64::INFINITY];
    let expected: Vec<_> = [None].into_iter().chain(expected.map(Some)).collect();
    assert_eq!(seconds_of(&elements.all().await.unwrap()), expected);
    assert_clean(&db).await;
}

/// Random pushes, sets, pulls, replacements and folds, compared with a sorted list.
pub async fn random_writes_match_a_sorted_list(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    let mut random = ChaCha8Rng::seed_from_u64(7);
    for id in 1..=4 {
        let mut expected: BTreeSet<Reverse<i64>> = BTreeSet::new();
        let fresh = |random: &mut ChaCha8Rng, used: &BTreeSet<Reverse<i64>>, count: usize| {
            let mut found = Vec::new();
            while found.len() < count {
                let at = random.random_range(0..5_000);
                if !used.contains(&Reverse(at)) && !found.contains(&at) {
                    found.push(at);
                }
            }
            found
        };
        let first = fresh(&mut random, &expected, id as usize * 3);
        expected.extend(first.iter().copied().map(Reverse));
        db.insert(host(id, first)).await.unwrap();
        for _ in 0..40 {
            let update = db.update::<Host>(id);
            match random.random_range(0..10) {
                0..=3 => {
                    let at = fresh(&mut random, &expected, 1);
                    expected.extend(at.iter().copied().map(Reverse));
                    update.push_each(|h| h.lines(), lines(at)).await.unwrap();
                }
                4 => {
                    let count = random.random_range(2..30);
                    let at = fresh(&mut random, &expected, count);
                    expected.extend(at.iter().copied().map(Reverse));
                    update.push_each(|h| h.lines(), lines(at)).await.unwrap();
                }
                5..=6 => {
                    // A count of 120 exceeds the tail.
                    let count = [2, 2, 2, 120][random.random_range(0..4)];
                    let mut at = fresh(&mut random, &expected, count);
                    at.extend(expected.iter().take(1).map(|at| at.0));
                    at.extend(expected.iter().last().map(|at| at.0));
                    at.shuffle(&mut random);
                    expected.extend(at.iter().copied().map(Reverse));
                    let add = update.add_each_to_set(|h| h.lines(), lines(at));
                    add.await.unwrap();
                }
                7 => {
                    let (from, to) = (random.random_range(0..5_000), 1_000);
                    expected.retain(|at| !(from..from + to).contains(&at.0));
                    let pulled = update.pull_where(
                        |h| h.lines(),
                        move |l| {
                            l.at().gte(DateTime::from_millis(from))
                                & l.at().lt(DateTime::from_millis(from + to))
                        },
                    );
                    pulled.await.unwrap();
                }
                8 => {
                    let count = random.random_range(0..40);
                    expected.clear();
                    let at = fresh(&mut random, &expected, count);
                    expected.extend(at.iter().copied().map(Reverse));
                    let set = update.set(|h| h.lines(), Overflow::from(lines(at)));
                    set.await.unwrap();
                }
                _ => {
                    db.arrays::<Host>().fold().await.unwrap();
                }
            }
            let sorted: Vec<_> = expected.iter().map(|at| at.0).collect();
            assert_eq!(all_times(&db, id).await, sorted);
            let read = db.get::<Host>(id).await.unwrap();
            assert_eq!(read.lines.len(), sorted.len() as u64);
            let resident = times(read.lines.resident());
            assert_eq!(resident, sorted[..resident.len()]);
            let from = random.random_range(0..=sorted.len());
            let page = db.get::<Host>(id).elements(|h| h.lines());
            let page = times(&page.page(from as u64, 7).await.unwrap());
            assert_eq!(page, sorted[from..sorted.len().min(from + 7)]);
        }
        assert_clean(&db).await;
        // Pulls can leave free places in the document. A fold fills the places.
        db.arrays::<Host>().fold().await.unwrap();
        let read = db.get::<Host>(id).await.unwrap();
        assert!(read.lines.resident().len() as u64 >= read.lines.len().min(3));
    }
}

/// Arrays that were stored before the declaration of an order.
pub async fn existing_arrays_are_sorted(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    let raw = |id: i64, at: Vec<i64>| {
        let lines = at.into_iter().map(|at| {
            doc! { "at": DateTime::from_millis(at), "text": format!("line {at}"), "seen": 0_i64 }
        });
        let lines: Vec<_> = lines.collect();
        let document = doc! { "_id": id, "pushed": 0_i64, "lines": lines };
        RawDocumentBuf::try_from(&document).unwrap()
    };
    let long: Vec<_> = (0..90).map(|n| n * 37 % 90).collect();
    let insert = InsertOperation {
        collection: "hosts".into(),
        documents: vec![
            raw(1, vec![1, 3, 2]),
            raw(2, vec![3, 2, 1]),
            raw(3, long.clone()),
            raw(4, vec![]),
            raw(5, long.clone()),
        ],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    let report = db.check().await.unwrap();
    let wrong = report
        .findings
        .iter()
        .map(|finding| (finding.id.clone(), &finding.kind));
    let wrong: Vec<_> = wrong
        .filter(|(_, fault)| matches!(fault, FindingKind::OutOfOrder))
        .map(|(id, _)| id)
        .collect();
    assert_eq!(wrong, [1, 3, 5].map(Bson::Int64));
    // A push does not wait until the array is sorted.
    let push = db.update::<Host>(5).push(|h| h.lines(), line(90));
    push.await.unwrap();
    assert_eq!(all_times(&db, 5).await, (0..=90).rev().collect::<Vec<_>>());
    assert_eq!(db.arrays::<Host>().spill().await.unwrap(), 2);
    assert_eq!(db.arrays::<Host>().spill().await.unwrap(), 0);
    assert_eq!(all_times(&db, 1).await, [3, 2, 1]);
    assert_eq!(all_times(&db, 2).await, [3, 2, 1]);
    assert_eq!(all_times(&db, 3).await, (0..90).rev().collect::<Vec<_>>());
    assert_clean(&db).await;
    // An old document may lack the array.
    let insert = InsertOperation {
        collection: "hosts".into(),
        documents: vec![rawdoc! { "_id": 6_i64, "pushed": 0_i64 }],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    let push = db
        .update::<Host>(6)
        .push_each(|h| h.lines(), (0..10).map(line));
    push.await.unwrap();
    assert_eq!(all_times(&db, 6).await, (0..10).rev().collect::<Vec<_>>());
    assert_clean(&db).await;
}

/// An update may change any field of an element except the sort field.
pub async fn the_sort_field_cannot_be_updated(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert_many([host(1, 0..2), host(2, 0..40)])
        .await
        .unwrap();
    for id in [1, 2] {
        let early = DateTime::from_millis(0);
        let moved = db.update::<Host>(id).set(|h| h.lines().all().at(), early);
        assert_eq!(moved.await.unwrap_err().kind(), ErrorKind::Unsupported);
        let matching = db.update::<Host>(id).set(
            |h| h.lines().matching(|l| l.text().eq("line 1")).at(),
            early,
        );
        let error = matching.await.unwrap_err();
        assert!(error.to_string().contains("sort field"), "{error}");
        let seen = db.update::<Host>(id).inc(|h| h.lines().all().seen(), 1);
        seen.await.unwrap();
        let all = db.get::<Host>(id).elements(|h| h.lines()).all();
        assert!(all.await.unwrap().iter().all(|line| line.seen == 1));
    }
    assert_clean(&db).await;
}

/// Sixteen tasks push earlier and later elements concurrently.
pub async fn concurrent_pushes_stay_in_order(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert(host(1, [])).await.unwrap();
    let tasks = (0..16_i64).map(|task| {
        let db = db.clone();
        tokio::spawn(async move {
            for round in 0..6_i64 {
                let at = match task % 2 {
                    0 => round * 16 + task,
                    _ => 10_000 - round * 16 - task,
                };
                let push = db.update::<Host>(1).push(|h| h.lines(), line(at));
                push.inc(|h| h.pushed(), 1).await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let early = (0..96).filter(|at| at % 2 == 0);
    let late = (0..96).filter(|at| at % 2 == 1).map(|at| 10_000 - at);
    let mut expected: Vec<_> = early.chain(late).collect();
    expected.sort_by_key(|at| Reverse(*at));
    assert_eq!(all_times(&db, 1).await, expected);
    let read = db.get::<Host>(1).await.unwrap();
    assert_eq!(read.pushed, 96);
    assert_eq!(times(read.lines.resident()), expected[..4]);
    assert_clean(&db).await;
}

/// A fold does not retry elements that stay spilled because of their size.
pub async fn elements_spilled_by_size_stay_spilled(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    let large = |at| Line {
        text: "x".repeat(100_000),
        ..line(at)
    };
    let lines = (0..8).map(large).collect();
    let host = Host {
        lines,
        ..host(1, [])
    };
    db.insert(host).await.unwrap();
    assert_eq!(db.get::<Host>(1).await.unwrap().lines.resident().len(), 2);
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let others = Db::with_backend(recorder.clone());
    assert_eq!(others.arrays::<Host>().fold().await.unwrap(), 0);
    let operations = recorder.operations();
    let reads = |operation: &&Operation| {
        matches!(
            operation,
            Operation::Find(_) | Operation::Count(_) | Operation::Aggregate(_)
        )
    };
    assert_eq!(
        operations.iter().filter(reads).count(),
        operations.len(),
        "{operations:?}"
    );

    // A fold replaces the pulled resident elements.
    let pull = db.update::<Host>(1).pull_where(
        |h| h.lines(),
        |line| line.at().gte(DateTime::from_millis(6)),
    );
    pull.await.unwrap();
    others.arrays::<Host>().fold().await.unwrap();
    let first = db.get::<Host>(1).await.unwrap();
    assert_eq!((first.lines.resident().len(), first.lines.len()), (2, 6));
    let page = db.get::<Host>(1).elements(|h| h.lines()).page(u64::MAX, 1);
    assert_eq!(page.await.unwrap(), []);

    // The three remaining elements are below the limit of four. The size limit still allows only two resident elements.
    let pull = db.update::<Host>(1).pull_where(
        |h| h.lines(),
        |line| line.at().gte(DateTime::from_millis(3)),
    );
    pull.await.unwrap();
    assert!(db.get::<Host>(1).await.unwrap().lines.resident().is_empty());
    others.arrays::<Host>().fold().await.unwrap();
    let first = db.get::<Host>(1).await.unwrap();
    assert_eq!((first.lines.resident().len(), first.lines.len()), (2, 3));
    assert_clean(&db).await;
}

/// A push needs one operation while all elements are resident. A push to an array with spilled elements needs three.
pub async fn operations_of_ordered_pushes(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.sync_indexes().await.unwrap();
    db.insert_many([host(1, 0..2), host(2, 0..30)])
        .await
        .unwrap();
    db.wait_for_pending().await.unwrap();
    let take_operations = || {
        let operations = recorder.operations();
        let summary = operations.iter().map(|operation| match operation {
            Operation::Find(find) => format!("find {}", find.collection),
            Operation::Update(update) => format!("update {}", update.collection),
            Operation::FindAndModify(modify) => format!("modify {}", modify.collection),
            other => panic!("{other:?}"),
        });
        let summary: Vec<_> = summary.collect();
        recorder.clear();
        summary.join(", ")
    };
    recorder.clear();
    let push = async |id, at| {
        let push = db.update::<Host>(id).push(|h| h.lines(), line(at));
        push.await.unwrap();
    };
    push(1, 100).await;
    assert_eq!(take_operations(), "update hosts");
    push(2, 100).await;
    assert_eq!(take_operations(), "update hosts, find hosts, update hosts");
    push(2, -1).await;
    assert_eq!(take_operations(), "update hosts, find hosts, update hosts");
    // A push that spills needs eight operations, any other push three.
    let mut counts = Vec::new();
    for at in 200..240 {
        push(2, at).await;
        counts.push(take_operations().split(", ").count());
    }
    let number_of = |count: usize| counts.iter().filter(|other| **other == count).count();
    assert_eq!(number_of(3) + number_of(8), counts.len(), "{counts:?}");
    // A spill moves five elements at once: the four above the limit and the newly displaced element.
    assert!((1..=8).contains(&number_of(8)), "{counts:?}");
}

fn crash_writes() -> &'static [Write<Net>] {
    &[
        ("push a later one", |db| {
            Box::pin(async move {
                let push = db.update::<Host>(1).push(|h| h.lines(), line(1_000));
                push.inc(|h| h.pushed(), 1).await.map(drop)
            })
        }),
        ("push an earlier one", |db| {
            Box::pin(async move {
                let push = db.update::<Host>(1).push(|h| h.lines(), line(-1_000));
                push.inc(|h| h.pushed(), 1).await.map(drop)
            })
        }),
        ("push to one that is full", |db| {
            Box::pin(async move {
                let push = db.update::<Host>(2).push(|h| h.lines(), line(5));
                push.inc(|h| h.pushed(), 1).await.map(drop)
            })
        }),
        ("push many", |db| {
            Box::pin(async move {
                let many = lines((1..21).map(|n| n * 100 + 7));
                let push = db.update::<Host>(1).push_each(|h| h.lines(), many);
                push.inc(|h| h.pushed(), 20).await.map(drop)
            })
        }),
    ]
}

pub async fn order_survives_a_crash_at_every_operation(fixture: Fixture) {
    let crashes = CrashTest {
        writes: crash_writes(),
        begin: |db| {
            Box::pin(async move {
                db.sync_indexes().await.unwrap();
                db.insert(host(1, 0..40)).await.unwrap();
                // Fill the document up to the spill threshold.
                db.insert(host(2, [])).await.unwrap();
                for at in 0..8 {
                    let push = db.update::<Host>(2).push(|h| h.lines(), line(at * 10));
                    push.await.unwrap();
                }
            })
        },
        may_find: |_| false,
        agrees: |db, name| {
            Box::pin(async move {
                for (id, before) in [(1, 40), (2, 8)] {
                    let read = db.get::<Host>(id).await.unwrap();
                    let all = all_times(db, id).await;
                    assert!(all.is_sorted_by(|a, b| a > b), "{name}: {all:?}");
                    let resident = times(read.lines.resident());
                    assert_eq!(resident, all[..resident.len()], "{name}");
                    assert_eq!(all.len() as i64, before + read.pushed, "{name}");
                }
            })
        },
    };
    crashes.run(&fixture).await;
}
