//! A disk that fails temporarily: the handle recovers when the disk does.

use bson::rawdoc;
use odm_engine::{Count, Database, Update, Watch, WatchFrom};

use super::disk::Disk;
use super::insert;

#[test]
fn a_database_works_after_an_outage() {
    let disk = Disk::new(Vec::new());
    let database = Database::open_storage(disk.clone()).unwrap();
    let start = database.watch(&Watch::default()).unwrap().resume_token();
    insert(&database, "c", 0..10).unwrap();
    let transaction = database.begin().unwrap();
    transaction
        .insert("c", vec![rawdoc! { "_id": 500 }])
        .unwrap()
        .into_result()
        .unwrap();
    disk.set_out(true);
    for _ in 0..3 {
        assert!(insert(&database, "c", 10..20).unwrap_err().is_io());
        assert!(database.reopen().unwrap_err().is_io());
        assert_eq!(database.count("c", &Count::default()).unwrap(), 10);
    }
    disk.set_out(false);
    // A stream that returned the failure also continues.
    insert(&database, "c", 10..20).unwrap();
    transaction.commit().unwrap();
    database.validate().unwrap();
    assert_eq!(database.count("c", &Count::default()).unwrap(), 21);
    let watch = Watch {
        from: WatchFrom::After(start),
        ..Watch::default()
    };
    let mut changes = database.watch(&watch).unwrap();
    let events = std::iter::from_fn(|| changes.try_next().unwrap()).count();
    assert_eq!(events, 21);
    drop((database, transaction, changes));
    let database = Database::open_storage(disk.restarted()).unwrap();
    database.validate().unwrap();
    assert_eq!(database.count("c", &Count::default()).unwrap(), 21);
}

/// `reopen` without a write, for a program that only reads until the disk recovers.
#[test]
fn reopen_makes_a_database_writable() {
    let disk = Disk::new(Vec::new());
    let database = Database::open_storage(disk.clone()).unwrap();
    insert(&database, "c", 0..3).unwrap();
    database.reopen().unwrap();
    disk.set_out(true);
    assert!(insert(&database, "c", 3..4).is_err());
    disk.set_out(false);
    database.reopen().unwrap();
    assert_eq!(database.count("c", &Count::default()).unwrap(), 3);
    insert(&database, "c", 3..4).unwrap();
}

/// Each operation of a commit fails in turn, and the disk works again afterwards. The failed write is rolled back, readers never
/// see it, and the next write succeeds.
#[test]
fn a_failed_write_is_never_visible() {
    let disk = Disk::new(Vec::new());
    // Some updates are records of the log, and some are checkpoints.
    let database = Database::open_storage_with_log(disk.clone(), 4096).unwrap();
    insert(&database, "c", 0..3).unwrap();
    let add_one = Update {
        filter: rawdoc! { "_id": 1 },
        update: rawdoc! { "$inc": { "n": 1 } },
        ..Update::default()
    };
    let (mut applied, mut failed) = (0_u32, 0_u32);
    for at in 0..800 {
        disk.fail_after(at % 40);
        match database.update("c", &add_one) {
            Ok(_) => applied += 1,
            Err(error) => {
                assert!(error.is_io() && error.message().contains("nothing was written"));
                failed += 1;
            }
        }
        disk.heal();
        let documents = crate::find(&database, "c", rawdoc! { "_id": 1 });
        let n = documents[0].get_i32("n").unwrap();
        assert_eq!(u32::try_from(n - 1).unwrap(), applied, "{at}");
    }
    assert!(failed > 20 && applied > 20, "{failed} {applied}");
    database.validate().unwrap();
}
