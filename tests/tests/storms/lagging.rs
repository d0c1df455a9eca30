//! Storms with a URL that reads from a stale member: internal reads must not come from that member.

use odm::{Database, ErrorKind, backend::operation::ReadPreference, prelude::*};
use odm_tests::{
    mongod::ThreeMemberSet,
    storm::{self, Copies, Links, Rollups, Size, Storm},
};

/// Reads of the application follow the URL.
const STALE_MEMBER_OPTIONS: &str = "&readPreference=secondary&readPreferenceTags=lag:forever";

async fn run_storm<S: Storm>(url: &str) {
    let db = Database::<S::Schema>::open(url).await;
    let db = db.expect("its database");
    let size = Size::of(1_000);
    storm::begin::<S>(&db, size).await;
    storm::run::<S>(&db, size).await;
}

#[derive(Debug, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "notes")]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
    text: String,
}

#[derive(Schema)]
#[schema(models(Note))]
struct Notes;

/// All storms share a replica set, because the start of the set takes longer than the storms.
#[tokio::test(flavor = "multi_thread")]
async fn derived_data_ignores_stale_members() {
    let trio = ThreeMemberSet::start().await.expect("a replica set");
    trio.stop_replication_to_one()
        .await
        .expect("a stale member");
    let url = |name: &str| format!("{}{STALE_MEMBER_OPTIONS}", trio.url(name));

    // Reads of the application come from the stale member.
    let db = Database::<Notes>::open(url("notes")).await.expect("it");
    let text = "first".to_owned();
    db.insert(Note { id: 1, text }).await.expect("an insert");
    let read = db.get::<Note>(1).await;
    assert!(
        read.as_ref().is_err_and(odm::Error::is_not_found),
        "{read:?}"
    );
    assert_eq!(db.find::<Note>().count().await.expect("a count"), 0);
    // The preference of a single query replaces the preference of the URL.
    let count = async |db: &Database<Notes>, preference| {
        let query = db.find::<Note>().read_preference(preference);
        query.count().await.expect("a count")
    };
    assert_eq!(count(&db, ReadPreference::Primary).await, 1);
    let primary_first = Database::<Notes>::open(trio.url("notes"))
        .await
        .expect("it");
    assert_eq!(
        primary_first.find::<Note>().count().await.expect("a count"),
        1
    );
    // Either secondary may answer, and only the stale secondary has no document.
    let mut is_stale = false;
    for _ in 0..200 {
        is_stale |= count(&primary_first, ReadPreference::Secondary).await == 0;
    }
    assert!(is_stale, "the stale secondary has never answered");
    // Changes read the primary first.
    let changed = db.modify::<Note>(1, |note| note.text.push('!'));
    changed.await.expect("the document");
    let mut edited = db.edit::<Note>(1).await.expect("the document");
    assert_eq!(edited.text, "first!");
    edited.text.push('?');
    db.save(&mut edited).await.expect("saved");
    db.transaction(async |tx| -> odm::Result<_> {
        let note = tx.get::<Note>(1).await?;
        assert_eq!(note.text, "first!?");
        Ok(())
    })
    .await
    .expect("a transaction");

    // A direct connection reaches the primary only until the next election, so `open` rejects the URL.
    let all = trio.url("notes");
    let (host, _) = all.split_once(',').expect("three hosts");
    let direct = Database::<Notes>::open(format!("{host}/notes?directConnection=true")).await;
    let error = direct.expect_err("it is refused");
    assert_eq!(error.kind(), ErrorKind::InvalidUrl);
    assert!(error.to_string().contains("`replicaSet=odm`"), "{error}");

    run_storm::<Copies>(&url("copies")).await;
    run_storm::<Rollups>(&url("rollups")).await;
    run_storm::<Links>(&url("links")).await;
}

/// A write without confirmation in time has an unknown outcome. The follow-up work is done after the confirmation.
///
/// Only the one write has the short time limit. The first documents and the check wait for the replicas as long as it takes.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_still_gets_its_follow_up() {
    let trio = ThreeMemberSet::start().await.expect("a replica set");
    let url = trio.url("late");
    let db = Database::<<Copies as Storm>::Schema>::open(&url).await;
    let db = db.expect("its database");
    let limited = Database::open(format!("{url}&wtimeoutMS=300")).await;
    let limited = limited.expect("the same database");
    storm::begin::<Copies>(&db, Size::of(1_000)).await;
    trio.pause_replication(true)
        .await
        .expect("two locked members");
    let error = Copies::rename(&limited, 1, "late")
        .await
        .expect_err("no majority");
    assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
    trio.pause_replication(false).await.expect("two members");
    storm::check_after_storm::<Copies>(&db).await;
}
