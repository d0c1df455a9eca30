//! Several arrays that overflow in one update: all of it happens, or nothing.

use std::sync::Arc;

use odm::{ErrorKind, Filter, action::Update, backend::Recorder, prelude::*};
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;

use super::is_clean;
use crate::Fixture;
use crate::crash::{Crashes, Write};

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

/// What is in one array is in the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "journals")]
struct Journal {
    #[serde(rename = "_id")]
    id: i64,
    entries: i64,
    #[embed(overflow(after = 3, into = "more_words", flag = "more_words"))]
    words: Overflow<String>,
    /// In an order.
    #[embed(overflow(after = 4, into = "more_marks", flag = "more_marks", latest_by = at))]
    marks: Overflow<Mark>,
    /// With a rule.
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

async fn fill(db: &Db) {
    db.insert_many((0..READERS).map(|id| Reader { id }))
        .await
        .unwrap();
}

async fn fresh(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    fill(&db).await;
    db
}

/// All of what is in them: words and readers in the order in which they came, marks from the latest on.
type All = (Vec<String>, Vec<Mark>, Vec<i64>);

async fn all(db: &Db, id: i64) -> All {
    let words = db.get::<Journal>(id).elements(|j| j.words()).all().await;
    let marks = db.get::<Journal>(id).elements(|j| j.marks()).all().await;
    let readers = db.get::<Journal>(id).elements(|j| j.readers()).all().await;
    let readers = readers.unwrap().iter().map(|one| *one.id()).collect();
    (words.unwrap(), marks.unwrap(), readers)
}

/// Entries as all three of them have them.
fn same(entries: impl IntoIterator<Item = i64>) -> All {
    let entries: Vec<_> = entries.into_iter().collect();
    let mut marks: Vec<_> = entries.iter().copied().map(mark).collect();
    marks.sort_by_key(|mark| std::cmp::Reverse(mark.at));
    (entries.iter().copied().map(word).collect(), marks, entries)
}

fn added(db: &Db, id: i64, entries: impl IntoIterator<Item = i64>) -> Update<Journal> {
    let entries: Vec<_> = entries.into_iter().collect();
    db.update::<Journal>(id)
        .inc(|j| j.entries(), entries.len() as i64)
        .push_each(|j| j.words(), entries.iter().copied().map(word))
        .push_each(|j| j.marks(), entries.iter().copied().map(mark))
        .push_each(|j| j.readers(), entries.iter().copied().map(Ref::new))
}

/// From nothing until each of them has filled its document, its tail and some of its extras.
pub async fn all_of_them_grow_by_the_same_updates(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert(journal(1, [])).await.unwrap();
    for entry in 0..READERS {
        let done = added(&db, 1, [entry]).await.unwrap();
        assert_eq!((done.matched, done.modified), (1, 1));
        if entry % 9 == 0 {
            assert_eq!(all(&db, 1).await, same(0..=entry));
        }
    }
    assert_eq!(all(&db, 1).await, same(0..READERS));
    let whole = db.get::<Journal>(1).await.unwrap();
    assert_eq!(whole.entries, READERS);
    assert!(whole.words.has_more() && whole.marks.has_more() && whole.readers.has_more());
    // More than a tail holds, of a whole one and of an outlier.
    db.insert(journal(2, [])).await.unwrap();
    for id in [1, 2] {
        added(&db, id, 0..READERS).await.unwrap();
    }
    assert_eq!(all(&db, 1).await, same((0..READERS).chain(0..READERS)));
    assert_eq!(all(&db, 2).await, same(0..READERS));
    is_clean(&db).await;
}

/// What happens to an array by one update.
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

/// Whatever happens to one of them, and whatever to the others.
pub async fn whatever_happens_to_each_happens_together(fixture: Fixture) {
    let db = fresh(&fixture).await;
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
        let [words, marks, readers] = expected.clone().map(same);
        let found = all(&db, 1).await;
        assert_eq!(found, (words.0, marks.1, readers.2), "{round}: {steps:?}");
    }
    is_clean(&db).await;
}

/// What keeps one of them from changing keeps all of them from it.
pub async fn what_one_refuses_happens_to_none(fixture: Fixture) {
    let db = fresh(&fixture).await;
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
        assert!(!not_so.await.unwrap().applied());
        assert_eq!(all(&db, id).await, same(before.clone()));
        let count = before.count() as i64;
        assert_eq!(db.get::<Journal>(id).await.unwrap().entries, count);
    }
    is_clean(&db).await;
}

/// Of many, of the first, in place, and in a transaction.
pub async fn they_are_part_of_larger_writes(fixture: Fixture) {
    let db = fresh(&fixture).await;
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
        assert_eq!(all(&db, id).await, same(before.chain([50])));
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
    let (words, marks, _) = all(&db, 2).await;
    assert!(!words.contains(&word(3)) && words.len() == 30);
    assert!(marks.iter().all(|mark| mark.seen) && marks.len() == 31);
    if has_transactions {
        let before = all(&db, 3).await;
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
        assert_eq!(all(&db, 3).await, before);
    }
    is_clean(&db).await;
}

/// Others see both or neither, and no element gets lost.
pub async fn many_at_once_leave_the_same_in_each(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert(journal(1, [])).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..6 {
        let db = db.clone();
        tasks.spawn(async move {
            for entry in (task..READERS).step_by(6) {
                // Where many write to one document a write may give way.
                while let Err(error) = added(&db, 1, [entry]).await {
                    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let (words, marks, readers) = all(&db, 1).await;
    let (expected, in_order, _) = same(readers.iter().copied());
    assert_eq!((words, marks), (expected, in_order));
    let mut readers = readers;
    readers.sort_unstable();
    assert_eq!(readers, (0..READERS).collect::<Vec<_>>());
    assert_eq!(db.get::<Journal>(1).await.unwrap().entries, READERS);
    is_clean(&db).await;
}

/// What is in the documents is one operation; each array with something outside is asked once more.
pub async fn what_several_cost(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.sync_indexes().await.unwrap();
    fill(&db).await;
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
        Box::pin(async move { added(&db, 1, [50]).await.map(drop) })
    }),
    ("a push of many to each", |db| {
        Box::pin(async move { added(&db, 1, 20..55).await.map(drop) })
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

pub async fn wherever_a_write_dies_each_has_the_same(fixture: Fixture) {
    let crashes = Crashes {
        writes: WRITES,
        begin: |db| {
            Box::pin(async move {
                db.sync_indexes().await.unwrap();
                fill(db).await;
                db.insert(journal(1, 0..14)).await.unwrap();
            })
        },
        may_find: |_| false,
        agrees: |db, when| {
            Box::pin(async move {
                let (words, marks, readers) = all(db, 1).await;
                let (expected, in_order, _) = same(readers.iter().copied());
                assert_eq!((words, marks), (expected, in_order), "{when}");
                let entries = db.get::<Journal>(1).await.unwrap().entries;
                assert_eq!(entries, readers.len() as i64, "{when}");
                let again = added(db, 1, [59]).await;
                again.unwrap_or_else(|error| panic!("{when}: {error}"));
            })
        },
    };
    crashes.run(&fixture).await;
}
