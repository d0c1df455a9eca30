//! Random operations compared with a plain map, with transactions and restarts in between.

use std::collections::BTreeMap;

use bson::{RawDocumentBuf, rawdoc};
use odm_engine::{Database, Delete, Direction, Find, Index, Transaction, Update};
use proptest::prelude::*;

use crate::{all, find};

/// The expected content of the collection: the fields `a` and `b` by `_id`.
type Model = BTreeMap<i32, (i32, Vec<i32>)>;

#[derive(Clone, Debug)]
enum Operation {
    Insert(i32, i32, Vec<i32>),
    Set { a: i32, to: i32 },
    Push { id: i32, value: i32 },
    Delete { a: i32 },
    Begin,
    Commit,
    Abort,
    Reopen,
}

fn operation() -> impl Strategy<Value = Operation> {
    let numbers = prop::collection::vec(0..5_i32, 0..3);
    prop_oneof![
        8 => (0..20_i32, 0..6_i32, numbers).prop_map(|(id, a, b)| Operation::Insert(id, a, b)),
        3 => (0..6_i32, 0..6_i32).prop_map(|(a, to)| Operation::Set { a, to }),
        3 => (0..20_i32, 0..5_i32).prop_map(|(id, value)| Operation::Push { id, value }),
        2 => (0..6_i32).prop_map(|a| Operation::Delete { a }),
        1 => Just(Operation::Begin),
        1 => Just(Operation::Commit),
        1 => Just(Operation::Abort),
        1 => Just(Operation::Reopen),
    ]
}

/// The database, or the open transaction on the database.
enum Target<'d> {
    Plain(&'d Database),
    Inside(&'d Transaction),
}

impl Target<'_> {
    fn insert(&self, document: RawDocumentBuf) -> bool {
        let report = match self {
            Target::Plain(database) => database.insert("c", vec![document]),
            Target::Inside(transaction) => transaction.insert("c", vec![document]),
        };
        report.unwrap().into_result().is_ok()
    }

    fn update(&self, filter: RawDocumentBuf, update: RawDocumentBuf) {
        let update = Update {
            filter,
            update,
            multi: true,
            ..Update::default()
        };
        let report = match self {
            Target::Plain(database) => database.update("c", &update),
            Target::Inside(transaction) => transaction.update("c", &update),
        };
        assert!(report.unwrap().failure.is_none());
    }

    fn delete(&self, filter: RawDocumentBuf) {
        let delete = Delete {
            filter,
            multi: true,
            ..Delete::default()
        };
        match self {
            Target::Plain(database) => database.delete("c", &delete),
            Target::Inside(transaction) => transaction.delete("c", &delete),
        }
        .unwrap();
    }
}

fn indexes() -> [Index; 3] {
    [
        Index::new([("a", Direction::Descending), ("b", Direction::Ascending)]),
        Index::new([("b", Direction::Ascending)]),
        Index::new([("a", Direction::Ascending)]).partial(rawdoc! { "a": { "$gte": 3 } }),
    ]
}

fn document(id: i32, a: i32, b: &[i32]) -> RawDocumentBuf {
    let b: bson::RawArrayBuf = b.iter().copied().collect();
    rawdoc! { "_id": id, "a": a, "b": b }
}

fn documents(model: &Model) -> Vec<RawDocumentBuf> {
    model
        .iter()
        .map(|(id, (a, b))| document(*id, *a, b))
        .collect()
}

fn by_id(mut documents: Vec<RawDocumentBuf>) -> Vec<RawDocumentBuf> {
    documents.sort_by_key(|document| document.get_i32("_id").unwrap());
    documents
}

/// Checks that every access path returns the same documents.
fn check(database: &Database, model: &Model) {
    assert_eq!(by_id(all(database, "c")), documents(model));
    let select = |test: &dyn Fn(i32, &[i32]) -> bool| -> Vec<RawDocumentBuf> {
        let chosen = model.iter().filter(|(_, (a, b))| test(*a, b));
        chosen.map(|(id, (a, b))| document(*id, *a, b)).collect()
    };
    for value in 0..6 {
        let actual = by_id(find(database, "c", rawdoc! { "a": value }));
        assert_eq!(actual, select(&|a, _| a == value));
        let actual = by_id(find(database, "c", rawdoc! { "b": value }));
        assert_eq!(actual, select(&|_, b| b.contains(&value)));
        let actual = by_id(find(
            database,
            "c",
            rawdoc! { "a": { "$gte": value }, "b": { "$lt": 2 } },
        ));
        assert_eq!(
            actual,
            select(&|a, b| a >= value && b.iter().any(|b| *b < 2))
        );
    }
}

fn run(operations: Vec<Operation>, mut open: impl FnMut(Option<Database>) -> Database) {
    let mut database = open(None);
    database.create_indexes("c", &indexes()).unwrap();
    let mut model = Model::new();
    let mut active: Option<(Transaction, Model)> = None;
    for operation in operations {
        let (target, state) = match &mut active {
            Some((transaction, state)) => (Target::Inside(transaction), state),
            None => (Target::Plain(&database), &mut model),
        };
        match operation {
            Operation::Insert(id, a, b) => {
                let inserted = target.insert(document(id, a, &b));
                assert_eq!(inserted, !state.contains_key(&id));
                if inserted {
                    state.insert(id, (a, b));
                } else {
                    // A duplicate key has aborted the transaction.
                    active = None;
                }
            }
            Operation::Set { a, to } => {
                target.update(rawdoc! { "a": a }, rawdoc! { "$set": { "a": to } });
                state
                    .values_mut()
                    .filter(|(current, _)| *current == a)
                    .for_each(|(current, _)| *current = to);
            }
            Operation::Push { id, value } => {
                target.update(rawdoc! { "_id": id }, rawdoc! { "$push": { "b": value } });
                state.entry(id).and_modify(|(_, b)| b.push(value));
            }
            Operation::Delete { a } => {
                target.delete(rawdoc! { "a": a });
                state.retain(|_, (current, _)| *current != a);
            }
            Operation::Begin if active.is_none() => {
                active = Some((database.begin().unwrap(), model.clone()));
            }
            Operation::Begin => {}
            Operation::Commit => {
                if let Some((transaction, state)) = active.take() {
                    transaction.commit().unwrap();
                    model = state;
                }
            }
            Operation::Abort => {
                if let Some((transaction, _)) = active.take() {
                    transaction.abort().unwrap();
                }
            }
            Operation::Reopen => {
                active = None;
                database = open(Some(database));
            }
        }
        if active.is_none() {
            check(&database, &model);
        } else if let Some((transaction, state)) = &active {
            let seen = transaction.find("c", &Find::default()).unwrap();
            assert_eq!(by_id(seen.map(Result::unwrap).collect()), documents(state));
        }
    }
    drop(active);
    check(&database, &model);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_collection_in_memory_is_a_map(operations in prop::collection::vec(operation(), 1..40)) {
        run(operations, |database| database.unwrap_or_else(Database::memory));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn a_collection_on_disk_is_a_map(operations in prop::collection::vec(operation(), 1..40)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data.odm");
        run(operations, |database| {
            drop(database);
            Database::open(&path).unwrap()
        });
    }
}
