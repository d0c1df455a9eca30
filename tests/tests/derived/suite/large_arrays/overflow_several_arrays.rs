//! Updates of several overflow arrays of a document are atomic.

use std::sync::Arc;

use odm::{ErrorKind, Filter, action::Update, backend::Recorder, prelude::*};
use odm_tests::assert_clean;
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;

use crate::Fixture;
use crate::crash::{CrashTest, Write};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "readers")]
struct Reader {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Mark {
    at: i64,
    seen: bool,
}

/// A journal. The tests write equal entries to all three arrays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "journals")]
struct Journal {
    #[serde(rename = "_id")]
    id: i64,
    entries: i64,
    #[embed(overflow(after = 3, into = "more_words", flag = "more_words"))]
    words: Overflow<String>,
    /// An ordered array.
    #[embed(overflow(after = 4, into = "more_marks", flag = "more_marks", latest_by = at))]
    marks: Overflow<Mark>,
    /// An array of references with a delete rule.
    #[reference(on_delete = pull, overflow(after = 5, into = "more_readers", flag = "more_readers"))]
    readers: Overflow<Ref<Reader>>,
}

#[derive(Schema)]
#[schema(models(Reader, Journal))]
struct Library;
type Db = odm::Database<Library>;

const READERS: i64 = 60;

fn word(n: i64) -> String {
    format!("w{n}")
}

fn mark(at: i64) -> Mark {
    Mark { at, seen: false }
}

fn journal(id: i64, entries: impl IntoIterator<Item = i64>) -> Journal {
    let entries: Vec<_> = entries.into_iter().collect();
    let marks: Vec<_> = entries.iter().copied().map(mark).collect();
    let words: Vec<_> = entries.iter().copied().map(word).collect();
    let readers: Vec<_> = entries.iter().copied().map(Ref::new).collect();
    Journal {
        id,
        entries: entries.len() as i64,
        words: words.into(),
        marks: marks.into(),
        readers: readers.into(),
    }
}

async fn insert_readers(db: &Db) {
    db.insert_many((0..READERS).map(|id| Reader { id }))
        .await
        .unwrap();
}

async fn open_library(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    insert_readers(&db).await;
    db
}

/// All elements of the arrays: words and readers in insertion order, marks from the latest.
type JournalElements = (Vec<String>, Vec<Mark>, Vec<i64>);

async fn all_elements(db: &Db, id: i64) -> JournalElements {
    let words = db.get::<Journal>(id).elements(|j| j.words()).all().await;
    let marks = db.get::<Journal>(id).elements(|j| j.marks()).all().await;
    let readers = db.get::<Journal>(id).elements(|j| j.readers()).all().await;
    let readers = readers.unwrap().iter().map(|one| *one.id()).collect();
    (words.unwrap(), marks.unwrap(), readers)
}

/// Returns the elements of all three arrays for equal entries.
fn equal_elements(entries: impl IntoIterator<Item = i64>) -> JournalElements {
    let entries: Vec<_> = entries.into_iter().collect();
    let mut marks: Vec<_> = entries.iter().copied().map(mark).collect();
    marks.sort_by_key(|mark| std::cmp::Reverse(mark.at));
    (entries.iter().copied().map(word).collect(), marks, entries)
}

fn push_entries(db: &Db, id: i64, entries: impl IntoIterator<Item = i64>) -> Update<Journal> {
    let entries: Vec<_> = entries.into_iter().collect();
    db.update::<Journal>(id)
        .inc(|j| j.entries(), entries.len() as i64)
        .push_each(|j| j.words(), entries.iter().copied().map(word))
        .push_each(|j| j.marks(), entries.iter().copied().map(mark))
        .push_each(|j| j.readers(), entries.iter().copied().map(Ref::new))
}

/// Repeated updates grow all three arrays, until each array has resident elements, a tail and chunks.
pub async fn several_arrays_grow_by_the_same_updates(fixture: Fixture) {
    let db = open_library(&fixture).await;
    db.insert(journal(1, [])).await.unwrap();
    for entry in 0..READERS {
        let done = push_entries(&db, 1, [entry]).await.unwrap();
        assert_eq!((done.matched, done.modified), (1, 1));
        if entry % 9 == 0 {
            assert_eq!(all_elements(&db, 1).await, equal_elements(0..=entry));
        }
    }
    assert_eq!(all_elements(&db, 1).await, equal_elements(0..READERS));
    let filled = db.get::<Journal>(1).await.unwrap();
    assert_eq!(filled.entries, READERS);
    assert!(filled.words.has_more() && filled.marks.has_more() && filled.readers.has_more());
    // Push more elements than a tail can hold, to a journal with spilled elements and to an empty journal.
    db.insert(journal(2, [])).await.unwrap();
    for id in [1, 2] {
        push_entries(&db, id, 0..READERS).await.unwrap();
    }
    assert_eq!(
        all_elements(&db, 1).await,
        equal_elements((0..READERS).chain(0..READERS))
    );
    assert_eq!(all_elements(&db, 2).await, equal_elements(0..READERS));
    assert_clean(&db).await;
}

/// A change of an array.
#[derive(Debug, Clone)]
enum Step {
    Nothing,
    Push(Vec<i64>),
    Add(Vec<i64>),
    Set(Vec<i64>),
    Pull(i64),
}

impl Step {
    fn random(random: &mut ChaCha8Rng) -> Self {
        let many = [1, 1, 2, 5, 12, 30].choose(random).copied().unwrap_or(1);
        let mut entries = || {
            let entries = (0..many).map(|_| random.random_range(0..READERS));
            entries.collect::<Vec<_>>()
        };
        let entries = entries();
        match random.random_range(0..7) {
            0 => Self::Nothing,
            1..4 => Self::Push(entries),
            4 => Self::Add(entries),
            5 => Self::Set(entries),
            _ => Self::Pull(entries[0]),
        }
    }

    fn apply(&self, entries: &mut Vec<i64>) {
        match self {
            Self::Nothing => {}
            Self::Push(more) => entries.extend(more),
            Self::Add(more) => {
                for one in more {
                    if !entries.contains(one) {
                        entries.push(*one);
                    }
                }
            }
            Self::Set(all) => entries.clone_from(all),
            Self::Pull(gone) => entries.retain(|one| one != gone),
        }
    }
}

/// Random changes of each array in the same update.
pub async fn random_updates_of_several_arrays_are_atomic(fixture: Fixture) {
    let db = open_library(&fixture).await;
    db.insert(journal(1, [])).await.unwrap();
    let mut expected: [Vec<i64>; 3] = Default::default();
    let random = &mut ChaCha8Rng::seed_from_u64(7);
    for round in 1..=80 {
        let steps = [(); 3].map(|()| Step::random(random));
        let mut update = db.update::<Journal>(1).set(|j| j.entries(), round);
        update = match steps[0].clone() {
            Step::Nothing => update,
            Step::Push(more) => update.push_each(|j| j.words(), more.into_iter().map(word)),
            Step::Add(more) => update.add_each_to_set(|j| j.words(), more.into_iter().map(word)),
            Step::Set(all) => {
                update.set(|j| j.words(), all.into_iter().map(word).collect::<Vec<_>>())
            }
            Step::Pull(gone) => update.pull(|j| j.words(), word(gone)),
        };
        update = match steps[1].clone() {
            Step::Nothing => update,
            Step::Push(more) => update.push_each(|j| j.marks(), more.into_iter().map(mark)),
            Step::Add(more) => update.add_each_to_set(|j| j.marks(), more.into_iter().map(mark)),
            Step::Set(all) => {
                update.set(|j| j.marks(), all.into_iter().map(mark).collect::<Vec<_>>())
            }
            Step::Pull(gone) => update.pull_where(|j| j.marks(), |m| m.at().eq(gone)),
        };
        update = match steps[2].clone() {
            Step::Nothing => update,
            Step::Push(more) => update.push_each(|j| j.readers(), more.into_iter().map(Ref::new)),
            Step::Add(more) => {
                update.add_each_to_set(|j| j.readers(), more.into_iter().map(Ref::new))
            }
            Step::Set(all) => update.set(
                |j| j.readers(),
                all.into_iter().map(Ref::new).collect::<Vec<_>>(),
            ),
            Step::Pull(gone) => update.pull(|j| j.readers(), Ref::new(gone)),
        };
        let before = round - 1;
        assert_eq!(update.returning_before().await.unwrap().entries, before);
        for (entries, step) in expected.iter_mut().zip(&steps) {
            step.apply(entries);
        }
        let [words, marks, readers] = expected.clone().map(equal_elements);
        let found = all_elements(&db, 1).await;
        assert_eq!(found, (words.0, marks.1, readers.2), "{round}: {steps:?}");
    }
    assert_clean(&db).await;
}

/// An invalid change of an array rejects the whole update.
pub async fn a_rejected_array_change_rejects_the_update(fixture: Fixture) {
    let db = open_library(&fixture).await;
    db.insert_many([journal(1, 0..2), journal(2, 0..30)])
        .await
        .unwrap();
    for (id, before) in [(1, 0..2), (2, 0..30)] {
        let many = (0..40).map(word);
        let nobody = db
            .update::<Journal>(id)
            .inc(|j| j.entries(), 1)
            .push_each(|j| j.words(), many.clone())
            .push(|j| j.readers(), Ref::new(READERS));
        assert_eq!(nobody.await.unwrap_err().kind(), ErrorKind::Dangling);
        let too_large = db
            .update::<Journal>(id)
            .push_each(|j| j.marks(), (0..40).map(mark))
            .push(|j| j.words(), "x".repeat(1_000_000));
        assert_eq!(too_large.await.unwrap_err().kind(), ErrorKind::Invalid);
        let not_so = db
            .update::<Journal>(id)
            .when(|j| j.entries().eq(1_000))
            .push_each(|j| j.words(), many)
            .push_each(|j| j.marks(), (0..40).map(mark));
        assert!(!not_so.await.unwrap().is_applied());
        assert_eq!(all_elements(&db, id).await, equal_elements(before.clone()));
        let count = before.count() as i64;
        assert_eq!(db.get::<Journal>(id).await.unwrap().entries, count);
    }
    assert_clean(&db).await;
}

/// Several arrays in `update_many`, in `update_first`, in place, and in a transaction.
pub async fn several_arrays_in_larger_writes(fixture: Fixture) {
    let db = open_library(&fixture).await;
    let has_transactions = fixture.backend().capabilities().transactions;
    db.insert_many([journal(1, 0..2), journal(2, 0..30), journal(3, 0..3)])
        .await
        .unwrap();
    let many = db
        .update_many::<Journal>(|_| Filter::all())
        .push(|j| j.words(), word(50))
        .push(|j| j.readers(), Ref::new(50))
        .push(|j| j.marks(), mark(50));
    assert_eq!(many.await.unwrap().matched, 3);
    for (id, before) in [(1, 0..2), (2, 0..30), (3, 0..3)] {
        assert_eq!(
            all_elements(&db, id).await,
            equal_elements(before.chain([50]))
        );
    }
    let after = db
        .update_first::<Journal>(|j| j.entries().gt(2))
        .sort(|j| j.entries().desc())
        .pull(|j| j.words(), word(3))
        .set(|j| j.marks().all().seen(), true)
        .inc(|j| j.entries(), 1)
        .returning_after()
        .await
        .unwrap()
        .applied()
        .unwrap();
    assert_eq!((after.id, after.entries), (2, 31));
    let (words, marks, _) = all_elements(&db, 2).await;
    assert!(!words.contains(&word(3)) && words.len() == 30);
    assert!(marks.iter().all(|mark| mark.seen) && marks.len() == 31);
    if has_transactions {
        let before = all_elements(&db, 3).await;
        let done: odm::Result<()> = db
            .transaction(async |tx| {
                tx.update::<Journal>(3)
                    .push_each(|j| j.words(), (0..40).map(word))
                    .push_each(|j| j.marks(), (0..40).map(mark))
                    .await?;
                Err(odm::Error::new(ErrorKind::Invalid, "it is not to be"))
            })
            .await;
        done.unwrap_err();
        assert_eq!(all_elements(&db, 3).await, before);
    }
    assert_clean(&db).await;
}

/// Concurrent updates of several arrays lose no elements, and keep the arrays equal.
pub async fn concurrent_updates_keep_arrays_equal(fixture: Fixture) {
    let db = open_library(&fixture).await;
    db.insert(journal(1, [])).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..6 {
        let db = db.clone();
        tasks.spawn(async move {
            for entry in (task..READERS).step_by(6) {
                // A write to a contended document may fail with a conflict.
                while let Err(error) = push_entries(&db, 1, [entry]).await {
                    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let (words, marks, readers) = all_elements(&db, 1).await;
    let (expected, in_order, _) = equal_elements(readers.iter().copied());
    assert_eq!((words, marks), (expected, in_order));
    let mut readers = readers;
    readers.sort_unstable();
    assert_eq!(readers, (0..READERS).collect::<Vec<_>>());
    assert_eq!(db.get::<Journal>(1).await.unwrap().entries, READERS);
    assert_clean(&db).await;
}

/// An update of two arrays without spilled elements is a single operation. With spilled elements, the cost does not depend on the
/// length.
pub async fn operations_per_update_of_several_arrays(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.sync_indexes().await.unwrap();
    insert_readers(&db).await;
    db.insert_many([journal(1, 0..1), journal(2, 0..20), journal(3, 0..59)])
        .await
        .unwrap();
    for (id, cost) in [(1, 1), (2, 5), (3, 5)] {
        recorder.clear();
        let push = db
            .update::<Journal>(id)
            .push(|j| j.words(), word(59))
            .push(|j| j.marks(), mark(59));
        push.await.unwrap();
        assert_eq!(recorder.operations().len(), cost, "{id}");
    }
}

const WRITES: &[Write<Library>] = &[
    ("a push to each", |db| {
        Box::pin(async move { push_entries(&db, 1, [50]).await.map(drop) })
    }),
    ("a push of many to each", |db| {
        Box::pin(async move { push_entries(&db, 1, 20..55).await.map(drop) })
    }),
    ("a pull from each", |db| {
        Box::pin(async move {
            let pull = db
                .update::<Journal>(1)
                .pull(|j| j.words(), word(9))
                .pull_where(|j| j.marks(), |m| m.at().eq(9))
                .pull(|j| j.readers(), Ref::new(9));
            pull.inc(|j| j.entries(), -1).await.map(drop)
        })
    }),
    ("nothing in each", |db| {
        Box::pin(async move {
            let empty = db
                .update::<Journal>(1)
                .set(|j| j.words(), [])
                .set(|j| j.marks(), [])
                .set(|j| j.readers(), []);
            empty.set(|j| j.entries(), 0).await.map(drop)
        })
    }),
];

pub async fn crashed_updates_keep_arrays_equal(fixture: Fixture) {
    let crashes = CrashTest {
        writes: WRITES,
        begin: |db| {
            Box::pin(async move {
                db.sync_indexes().await.unwrap();
                insert_readers(db).await;
                db.insert(journal(1, 0..14)).await.unwrap();
            })
        },
        may_find: |_| false,
        agrees: |db, when| {
            Box::pin(async move {
                let (words, marks, readers) = all_elements(db, 1).await;
                let (expected, in_order, _) = equal_elements(readers.iter().copied());
                assert_eq!((words, marks), (expected, in_order), "{when}");
                let entries = db.get::<Journal>(1).await.unwrap().entries;
                assert_eq!(entries, readers.len() as i64, "{when}");
                let second = push_entries(db, 1, [59]).await;
                second.unwrap_or_else(|error| panic!("{when}: {error}"));
            })
        },
    };
    crashes.run(&fixture).await;
}
