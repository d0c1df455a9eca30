//! Rollups: counts, sums and latest-N lists that a parent document has of its children.

use std::{sync::Arc, time::Duration};

use odm::{
    ErrorKind,
    backend::{
        Recorder,
        operation::{DocumentChange, InsertOperation, Operation, Stage, UpdateOperation},
    },
    bson::{Bson, RawBson, RawDocumentBuf, oid::ObjectId, raw::cstr, rawdoc},
    check::{FindingKind, RepairOutcome},
    prelude::*,
};
use odm_tests::aftermath::expire_leases;
use tokio::sync::Notify;

use crate::{
    Fixture,
    crash::{CrashTest, Write},
    operation_lists::{CostRow, OperationLists, write_row},
};

/// A parent with every kind of rollup.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "posts")]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    title: String,
    #[count(of = Comment::post)]
    comments: i64,
    #[count(of = Comment::post, when(state = State::Shown))]
    shown: i64,
    #[sum(of = Comment::post, value = likes)]
    likes: i64,
    #[latest(3, of = Comment::post, by = at)]
    newest: Vec<Newest>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[embedded(of = Comment)]
struct Newest {
    at: i64,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Embedded)]
enum State {
    New,
    Shown,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "comments")]
struct Comment {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    post: Ref<Post>,
    at: i64,
    text: String,
    likes: i64,
    state: State,
}

/// A parent that children refer to through an array of references. The children can be soft-deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "labels")]
struct Label {
    #[serde(rename = "_id")]
    id: String,
    #[count(of = Ticket::labels)]
    tickets: i64,
    #[latest(2, of = Ticket::labels, by = urgency, when(is_open = true))]
    urgent: Vec<Urgent>,
}

/// An element of a latest-N list without the field that sorts the list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[embedded(of = Ticket)]
struct Urgent {
    title: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    #[count(of = Ticket::assignee)]
    assigned: i64,
    #[count(of = Ticket::assignee, when(is_open = true))]
    open: i64,
    #[count(of = Ticket::assignee, when(urgency = 1))]
    low: i64,
    #[latest(2, of = Ticket::assignee, by = title, when(urgency = 1))]
    lowest: Vec<Urgent>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "tickets", soft_delete)]
struct Ticket {
    #[serde(rename = "_id")]
    id: i64,
    title: String,
    urgency: i32,
    is_open: bool,
    #[reference]
    assignee: Option<Ref<Person>>,
    #[reference(max = 10)]
    labels: Vec<Ref<Label>>,
    deleted_at: Option<DateTime>,
}

/// A child that is deleted with the board (`cascade`) and detached from the author (`nullify`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "notes")]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    board: Ref<Board>,
    #[reference(on_delete = nullify)]
    author: Option<Ref<Author>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "boards")]
struct Board {
    #[serde(rename = "_id")]
    id: i64,
    #[count(of = Note::board)]
    notes: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "authors")]
struct Author {
    #[serde(rename = "_id")]
    id: i64,
    #[count(of = Note::author)]
    notes: i64,
}

#[derive(Schema)]
#[schema(models(Post, Comment, Label, Person, Ticket, Note, Board, Author))]
struct Blog;
type Db = odm::Database<Blog>;

fn post(id: i64) -> NewPost {
    let title = format!("post {id}");
    NewPost { id, title }
}

fn comment(id: i64, post: i64) -> Comment {
    Comment {
        id,
        post: Ref::new(post),
        at: id * 10,
        text: format!("comment {id}"),
        likes: id,
        state: State::New,
    }
}

fn ticket(id: i64, labels: &[&str]) -> NewTicket {
    NewTicket {
        id,
        title: format!("ticket {id}"),
        urgency: i32::try_from(id).unwrap(),
        is_open: true,
        assignee: None,
        labels: labels
            .iter()
            .map(|label| Ref::new((*label).to_owned()))
            .collect(),
    }
}

/// Returns the rollups of a post: the count, the count of shown comments, the likes, and the ids of the latest comments.
async fn read_post_rollups(db: &Db, id: i64) -> (i64, i64, i64, Vec<i64>) {
    let post = db.get::<Post>(id).await.unwrap();
    let newest = post.newest.iter().map(|newest| newest.at / 10).collect();
    (post.comments, post.shown, post.likes, newest)
}

async fn open_with_indexes(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db
}

/// Waits until no pending work is left.
async fn wait_for_pending_work(db: &Db) {
    db.wait_for_pending()
        .timeout(Duration::from_secs(20))
        .await
        .unwrap();
}

async fn assert_clean(db: &Db) {
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}

pub async fn documents_are_counted(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    let first = db.insert(post(1)).await.unwrap();
    assert_eq!((first.comments, first.likes, first.newest.len()), (0, 0, 0));
    db.insert(post(2)).await.unwrap();
    db.insert(comment(1, 1)).await.unwrap();
    assert_eq!(read_post_rollups(&db, 1).await, (1, 0, 1, vec![1]));
    db.insert_many([comment(2, 1), comment(3, 2), comment(4, 1)])
        .await
        .unwrap();
    assert_eq!(read_post_rollups(&db, 1).await, (3, 0, 7, vec![4, 2, 1]));
    assert_eq!(read_post_rollups(&db, 2).await, (1, 0, 3, vec![3]));

    // Writes by operators, by `update_many` and by `save`.
    db.update::<Comment>(1)
        .inc(|c| c.likes(), 10)
        .set(|c| c.state(), State::Shown)
        .await
        .unwrap();
    assert_eq!(read_post_rollups(&db, 1).await, (3, 1, 17, vec![4, 2, 1]));
    db.update_many::<Comment>(|c| c.id().gt(1))
        .set(|c| c.state(), State::Shown)
        .mul(|c| c.likes(), 2)
        .await
        .unwrap();
    assert_eq!(read_post_rollups(&db, 1).await, (3, 3, 23, vec![4, 2, 1]));
    assert_eq!(read_post_rollups(&db, 2).await, (1, 1, 6, vec![3]));
    db.modify::<Comment>(2, |comment| comment.post = Ref::new(2))
        .await
        .unwrap();
    assert_eq!(read_post_rollups(&db, 1).await, (2, 2, 19, vec![4, 1]));
    assert_eq!(read_post_rollups(&db, 2).await, (2, 2, 10, vec![3, 2]));

    db.delete::<Comment>(4).await.unwrap();
    assert_eq!(read_post_rollups(&db, 1).await, (1, 1, 11, vec![1]));
    for (id, is_new) in [(5, true), (1, false)] {
        let upsert = db.update::<Comment>(id).set(|c| c.text(), "upserted");
        let upserted = upsert.or_insert(comment(id, 1)).await.unwrap();
        assert_eq!(upserted.is_inserted(), is_new);
    }
    assert_eq!(read_post_rollups(&db, 1).await, (2, 1, 16, vec![5, 1]));
    assert_eq!(db.get::<Post>(1).await.unwrap().newest[1].text, "upserted");
    db.delete_many::<Comment>(|c| c.likes().gt(4))
        .await
        .unwrap();
    assert_eq!(read_post_rollups(&db, 1).await, (0, 0, 0, vec![]));
    assert_eq!(read_post_rollups(&db, 2).await, (1, 1, 4, vec![2]));

    wait_for_pending_work(&db).await;
    assert_clean(&db).await;
}

pub async fn conditions_and_soft_deletes_are_respected(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert_many([NewPerson { id: 1 }, NewPerson { id: 2 }])
        .await
        .unwrap();
    let read_counts = async |id: i64| {
        let person = db.get::<Person>(id).await.unwrap();
        (person.assigned, person.open)
    };
    let assigned = |id, to| NewTicket {
        assignee: Some(Ref::new(to)),
        ..ticket(id, &[])
    };
    db.insert_many([assigned(1, 1), assigned(2, 1), ticket(3, &[])])
        .await
        .unwrap();
    assert_eq!(
        (read_counts(1).await, read_counts(2).await),
        ((2, 2), (0, 0))
    );
    db.update::<Ticket>(1)
        .set(|t| t.is_open(), false)
        .await
        .unwrap();
    assert_eq!(read_counts(1).await, (2, 1));
    // Set an empty reference, then clear the reference again.
    db.update::<Ticket>(3)
        .set(|t| t.assignee(), Ref::new(2))
        .await
        .unwrap();
    assert_eq!(read_counts(2).await, (1, 1));
    db.update::<Ticket>(3)
        .unset(|t| t.assignee())
        .await
        .unwrap();
    assert_eq!(read_counts(2).await, (0, 0));

    // A soft-deleted document does not count until a restore.
    db.delete::<Ticket>(2).await.unwrap();
    assert_eq!(read_counts(1).await, (1, 0));
    db.restore::<Ticket>(2).await.unwrap();
    assert_eq!(read_counts(1).await, (2, 1));
    db.delete::<Ticket>(2).permanently().await.unwrap();
    assert_eq!(read_counts(1).await, (1, 0));
    wait_for_pending_work(&db).await;
    assert_clean(&db).await;
}

/// Other clients may store an integer in any numeric width.
pub async fn numbers_of_any_width_meet_conditions(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert(NewPerson { id: 1 }).await.unwrap();
    let wide = rawdoc! {
        "_id": 1_i64, "title": "wide", "urgency": 1_i64, "is_open": true, "assignee": 1_i32, "labels": [], "deleted_at": null,
    };
    let tickets = InsertOperation {
        collection: "tickets".into(),
        documents: vec![wide],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(tickets).await.unwrap();
    let narrow = NewTicket {
        assignee: Some(Ref::new(1)),
        urgency: 1,
        ..ticket(2, &[])
    };
    db.insert(narrow).await.unwrap();
    let is_open = db.update::<Ticket>(1).set(|t| t.is_open(), false);
    is_open.await.unwrap();
    let read_rollups = async || {
        let person = db.get::<Person>(1).await.unwrap();
        let lowest = person.lowest.into_iter().map(|ticket| ticket.title);
        (person.low, lowest.collect::<Vec<_>>())
    };
    assert_eq!(
        read_rollups().await,
        (2, vec!["wide".into(), "ticket 2".into()])
    );
    wait_for_pending_work(&db).await;
    assert_clean(&db).await;
    // Deleting a listed child makes a query read the list again. The condition of that query must match the wide integer.
    db.delete::<Ticket>(2).await.unwrap();
    assert_eq!(read_rollups().await, (1, vec!["wide".into()]));
    wait_for_pending_work(&db).await;
    assert_clean(&db).await;
}

pub async fn reference_arrays_count_each_target_once(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    for id in ["bug", "ui"] {
        db.insert(NewLabel { id: id.into() }).await.unwrap();
    }
    let read_label = async |id: &str| {
        let label = db.get::<Label>(id.to_owned()).await.unwrap();
        let titles = label.urgent.into_iter().map(|urgent| urgent.title);
        (label.tickets, titles.collect::<Vec<_>>())
    };
    // A duplicate reference counts once.
    db.insert_many([
        ticket(1, &["bug"]),
        ticket(2, &["bug", "ui", "bug"]),
        ticket(3, &["ui"]),
    ])
    .await
    .unwrap();
    assert_eq!(
        read_label("bug").await,
        (2, vec!["ticket 2".into(), "ticket 1".into()])
    );
    assert_eq!(
        read_label("ui").await,
        (2, vec!["ticket 3".into(), "ticket 2".into()])
    );
    db.update::<Ticket>(1)
        .push(|t| t.labels(), Ref::new("ui".to_owned()))
        .await
        .unwrap();
    assert_eq!(
        read_label("ui").await,
        (3, vec!["ticket 3".into(), "ticket 2".into()])
    );
    db.update::<Ticket>(2)
        .set(|t| t.is_open(), false)
        .await
        .unwrap();
    assert_eq!(
        read_label("ui").await,
        (3, vec!["ticket 3".into(), "ticket 1".into()])
    );
    assert_eq!(read_label("bug").await, (2, vec!["ticket 1".into()]));
    db.update::<Ticket>(2)
        .pull(|t| t.labels(), Ref::new("bug".to_owned()))
        .await
        .unwrap();
    assert_eq!(read_label("bug").await, (1, vec!["ticket 1".into()]));
    assert_eq!(read_label("ui").await.0, 3);
    wait_for_pending_work(&db).await;
    assert_clean(&db).await;
}

pub async fn the_latest_are_kept(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert(post(1)).await.unwrap();
    let newest = async || {
        let post = db.get::<Post>(1).await.unwrap();
        let newest = post.newest.into_iter();
        newest
            .map(|newest| (newest.at, newest.text))
            .collect::<Vec<_>>()
    };
    let entry = |id: i64| (id * 10, format!("comment {id}"));
    db.insert_many((1..=20).map(|id| comment(id, 1)))
        .await
        .unwrap();
    assert_eq!(newest().await, [entry(20), entry(19), entry(18)]);
    // A comment older than all listed comments does not enter the list.
    db.insert(comment(0, 1)).await.unwrap();
    assert_eq!(newest().await, [entry(20), entry(19), entry(18)]);
    // Deleting a listed comment makes room for the next comment.
    db.delete::<Comment>(19).await.unwrap();
    assert_eq!(newest().await, [entry(20), entry(18), entry(17)]);
    // Changing a listed comment updates the list. Changing the sort field of another comment can bring that comment into the
    // list.
    db.update::<Comment>(18)
        .set(|c| c.text(), "mended")
        .await
        .unwrap();
    assert_eq!(
        newest().await,
        [entry(20), (180, "mended".into()), entry(17)]
    );
    db.update::<Comment>(3)
        .set(|c| c.at(), 1_000)
        .await
        .unwrap();
    let third = (1_000, "comment 3".to_owned());
    assert_eq!(newest().await, [third, entry(20), (180, "mended".into())]);
    db.update_many::<Comment>(|c| c.at().gte(180))
        .set(|c| c.at(), 1)
        .await
        .unwrap();
    assert_eq!(newest().await, [entry(17), entry(16), entry(15)]);
    wait_for_pending_work(&db).await;
    assert_clean(&db).await;
}

/// Recomputing a latest-N list and a concurrent change of a child that is about to enter the list conflict on the parent.
pub async fn recomputed_latest_list_includes_concurrent_change(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    if !fixture.backend().capabilities().transactions {
        return;
    }
    db.insert(NewLabel { id: "bug".into() }).await.unwrap();
    let tickets = (1..=4).map(|id| ticket(id, &["bug"]));
    db.insert_many(tickets).await.unwrap();
    let close = |session: &odm::Session<Blog>, id: i64| {
        let closed = session.update::<Ticket>(id);
        closed.set(|t| t.is_open(), false).into_future()
    };
    let other = Db::with_backend(fixture.backend());
    let is_open = Notify::new();
    // The transaction reads ticket 2 as a list element. The concurrent write conflicts with the open transaction and waits for
    // the end.
    let (in_transaction, concurrent) = tokio::join!(
        db.transaction(|tx| {
            let is_open = &is_open;
            async move {
                close(&tx, 4).await?;
                is_open.notify_one();
                tokio::time::sleep(Duration::from_millis(200)).await;
                Ok::<_, odm::Error>(())
            }
        }),
        async {
            is_open.notified().await;
            close(&other, 2).await
        },
    );
    in_transaction.unwrap();
    concurrent.unwrap();
    let label = db.get::<Label>("bug".to_owned()).await.unwrap();
    let urgent: Vec<_> = label.urgent.iter().map(|urgent| &*urgent.title).collect();
    assert_eq!(urgent, ["ticket 3", "ticket 1"]);
    assert_clean(&db).await;
}

pub async fn parents_deleted_and_inserted_again_are_recomputed(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    // Insert the parent after its children.
    db.insert_many([comment(1, 7), comment(2, 7)])
        .await
        .unwrap();
    db.insert(post(7)).await.unwrap();
    wait_for_pending_work(&db).await;
    assert_eq!(read_post_rollups(&db, 7).await, (2, 0, 3, vec![2, 1]));
    // Delete the parent, change its children, and insert the parent again.
    db.delete::<Post>(7).await.unwrap();
    db.update::<Comment>(1).inc(|c| c.likes(), 5).await.unwrap();
    db.insert(comment(3, 7)).await.unwrap();
    db.delete::<Comment>(2).await.unwrap();
    db.insert(post(7)).await.unwrap();
    wait_for_pending_work(&db).await;
    assert_eq!(read_post_rollups(&db, 7).await, (2, 0, 9, vec![3, 1]));
    // Insert the parent by an upsert.
    let upsert = db.update::<Post>(8).set(|p| p.title(), "upserted");
    assert!(upsert.or_insert(post(8)).await.unwrap().is_inserted());
    assert_eq!(read_post_rollups(&db, 8).await, (0, 0, 0, vec![]));
    db.insert(comment(4, 8)).await.unwrap();
    assert_eq!(read_post_rollups(&db, 8).await, (1, 0, 4, vec![4]));
    wait_for_pending_work(&db).await;
    assert_clean(&db).await;

    // Insert the parent and a child concurrently.
    for round in 0..10 {
        let id = 100 + round;
        let (first, second) = tokio::join!(
            db.insert(post(id)).into_future(),
            db.insert(comment(id, id)).into_future(),
        );
        assert_eq!((first.unwrap().id, second.unwrap().id), (id, id));
        wait_for_pending_work(&db).await;
        assert_eq!(read_post_rollups(&db, id).await, (1, 0, id, vec![id]));
    }
}

/// Without a transaction, an insert that fails has stored the documents before the refused document.
pub async fn parents_of_a_failed_insert_are_recomputed(fixture: Fixture) {
    // Recovery does not help within the test.
    let options = Db::options().pending_lease(Duration::from_secs(600));
    let db = options.open_backend(fixture.backend()).await.unwrap();
    db.sync_indexes().await.unwrap();
    db.insert_many([comment(1, 7), comment(2, 7)])
        .await
        .unwrap();
    db.insert(post(8)).await.unwrap();
    let error = db.insert_many([post(7), post(8)]).await.unwrap_err();
    assert!(error.is_duplicate_key(), "{error}");
    let is_stored = db.find_by_id::<Post>(7).await.unwrap().is_some();
    assert_eq!(is_stored, error.inserted() == Some(1));
    if is_stored {
        wait_for_pending_work(&db).await;
        assert_eq!(read_post_rollups(&db, 7).await, (2, 0, 3, vec![2, 1]));
    }
    assert!(is_stored || fixture.backend().capabilities().transactions);
}

pub async fn cascaded_and_detached_children_do_not_count(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    for id in 1..=2 {
        db.insert(NewBoard { id }).await.unwrap();
        db.insert(NewAuthor { id }).await.unwrap();
    }
    let note = |id, board, author| Note {
        id,
        board: Ref::new(board),
        author: Some(Ref::new(author)),
    };
    db.insert_many([note(1, 1, 1), note(2, 1, 2), note(3, 2, 1)])
        .await
        .unwrap();
    let boards = async || {
        (
            db.get::<Board>(2).await.unwrap().notes,
            db.find::<Board>().count().await.unwrap(),
        )
    };
    let count_notes = async |id: i64| db.get::<Author>(id).await.unwrap().notes;
    assert_eq!(
        (boards().await, count_notes(1).await, count_notes(2).await),
        ((1, 2), 2, 1)
    );
    db.delete::<Board>(1).await.unwrap();
    wait_for_pending_work(&db).await;
    assert_eq!(
        (boards().await, count_notes(1).await, count_notes(2).await),
        ((1, 1), 1, 0)
    );
    db.delete::<Author>(1).await.unwrap();
    wait_for_pending_work(&db).await;
    assert_eq!(db.get::<Note>(3).await.unwrap().author, None);
    // A new parent with the `_id` of a deleted parent starts without children.
    db.insert(NewAuthor { id: 1 }).await.unwrap();
    wait_for_pending_work(&db).await;
    assert_eq!(count_notes(1).await, 0);
    db.delete::<Note>(3).await.unwrap();
    wait_for_pending_work(&db).await;
    assert_eq!(boards().await, (0, 1));
    assert_clean(&db).await;
}

pub async fn a_bulk_is_counted(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    let report = db
        .bulk()
        .add(db.insert(post(1)))
        .add(db.insert(post(2)))
        .add(db.insert(comment(1, 1)))
        .add(db.insert(comment(2, 1)))
        .add(db.update::<Comment>(1).set(|c| c.post(), Ref::new(2)))
        .add(db.delete::<Comment>(2))
        .await
        .unwrap()
        .into_result()
        .unwrap();
    assert_eq!((report.inserted, report.deleted), (4, 1));
    assert_eq!(read_post_rollups(&db, 1).await, (0, 0, 0, vec![]));
    assert_eq!(read_post_rollups(&db, 2).await, (1, 0, 1, vec![1]));
    wait_for_pending_work(&db).await;
    assert_clean(&db).await;
}

pub async fn a_transaction_updates_rollups_atomically(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    if !fixture.backend().capabilities().transactions {
        return;
    }
    db.insert_many([post(1), post(2)]).await.unwrap();
    let refused = db
        .transaction(async |tx| {
            tx.insert(comment(1, 1)).await?;
            tx.insert(post(3)).await?;
            tx.insert_many([comment(2, 3), comment(3, 1)]).await?;
            assert_eq!(tx.get::<Post>(1).await?.comments, 2);
            assert_eq!(tx.get::<Post>(3).await?.comments, 1);
            tx.update::<Comment>(1)
                .set(|c| c.post(), Ref::new(2))
                .await?;
            tx.delete::<Comment>(3).await?;
            assert_eq!(tx.get::<Post>(1).await?.comments, 0);
            assert_eq!(tx.get::<Post>(2).await?.likes, 1);
            Err::<(), _>(odm::Error::new(ErrorKind::Other, "never mind"))
        })
        .await;
    assert!(refused.is_err());
    assert_eq!(read_post_rollups(&db, 1).await, (0, 0, 0, vec![]));
    db.transaction(async |tx| {
        tx.insert(comment(1, 1)).await?;
        tx.insert(comment(2, 9)).await?;
        tx.insert(post(9)).await.map(drop)
    })
    .await
    .unwrap();
    assert_eq!(read_post_rollups(&db, 1).await.0, 1);
    wait_for_pending_work(&db).await;
    assert_eq!(read_post_rollups(&db, 9).await, (1, 0, 2, vec![2]));
    assert_clean(&db).await;
}

pub async fn concurrent_writes_are_counted(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert_many([post(1), post(2)]).await.unwrap();
    let tasks = (0..8).map(|task: i64| {
        let db = db.clone();
        tokio::spawn(async move {
            for round in 0..6 {
                let id = 1 + task * 100 + round;
                db.insert(comment(id, 1)).await.unwrap();
                match round {
                    1 => drop(
                        db.update::<Comment>(id)
                            .set(|c| c.post(), Ref::new(2))
                            .await,
                    ),
                    2 => drop(db.delete::<Comment>(id).await),
                    3 => drop(db.update::<Comment>(id).inc(|c| c.likes(), 1).await),
                    _ => {}
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    wait_for_pending_work(&db).await;
    let comments = db.find::<Comment>().all().await.unwrap();
    for id in [1, 2] {
        let of_post = comments.iter().filter(|comment| *comment.post.id() == id);
        let mut of_post: Vec<_> = of_post.collect();
        of_post.sort_by_key(|comment| -comment.at);
        let newest = of_post.iter().take(3).map(|comment| comment.id).collect();
        let likes = of_post.iter().map(|comment| comment.likes).sum();
        let count = i64::try_from(of_post.len()).unwrap();
        assert_eq!(read_post_rollups(&db, id).await, (count, 0, likes, newest));
    }
    assert_clean(&db).await;
}

/// Writes to a document without `odm`, as any client can.
async fn write_without_odm(
    fixture: &Fixture,
    collection: &'static str,
    id: i64,
    update: RawDocumentBuf,
) {
    let update = UpdateOperation {
        collection: collection.into(),
        filter: rawdoc! { "_id": id },
        change: DocumentChange::operators(update),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    assert_eq!(fixture.backend().update(update).await.unwrap().matched, 1);
}

pub async fn the_check_finds_rollups_changed_by_other_clients(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert_many([post(1), post(2), post(3)]).await.unwrap();
    let comments = (1..=6).map(|id| comment(id, 1 + id % 3));
    db.insert_many(comments).await.unwrap();
    wait_for_pending_work(&db).await;
    assert_clean(&db).await;
    write_without_odm(
        &fixture,
        "posts",
        1,
        rawdoc! { "$set": { "comments": 9_i64, "newest.0.text": "lies" } },
    )
    .await;
    // Without `_odm`, the comments look like documents that are older than the declaration of the rollups.
    for id in [1, 4] {
        write_without_odm(
            &fixture,
            "comments",
            id,
            rawdoc! { "$unset": { "_odm": 1 } },
        )
        .await;
    }
    write_without_odm(
        &fixture,
        "posts",
        2,
        rawdoc! { "$unset": { "_odm": 1, "comments": 1, "likes": 1, "newest": 1, "shown": 1 } },
    )
    .await;
    write_without_odm(
        &fixture,
        "comments",
        2,
        rawdoc! { "$set": { "likes": 1_000_i64 } },
    )
    .await;
    let document = rawdoc! {
        "_id": 7_i64, "post": 3_i64, "at": 70_i64, "text": "comment 7", "likes": 7_i64, "state": "New",
    };
    let insert = InsertOperation {
        collection: "comments".into(),
        documents: vec![document],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();

    let report = db.check().await.unwrap();
    let found = report.findings.iter().map(|found| {
        let expected_value = match &found.kind {
            FindingKind::WrongCount {
                expected: expected_value,
                ..
            } => Some((**expected_value).clone()),
            _ => None,
        };
        (
            found.collection,
            found.id.clone(),
            &*found.path,
            expected_value,
        )
    });
    let found: Vec<_> = found.collect();
    let text = report.to_string();
    let has = |id: i64, path: &str, value: i64| {
        let expected = ("posts", Bson::Int64(id), path, Some(Bson::Int64(value)));
        assert!(found.contains(&expected), "{expected:?} in {text}");
    };
    has(1, "comments", 2);
    has(3, "likes", 1_012);
    has(3, "comments", 3);
    assert!(
        text.contains("posts 1, `comments`: has 9, expected 2 from comments"),
        "{text}"
    );
    let repaired = db.repair().apply().await.unwrap();
    let mut steps = repaired.steps.iter();
    assert!(steps.any(|step| step.outcome == RepairOutcome::Done));
    assert_clean(&db).await;
    assert_eq!(read_post_rollups(&db, 1).await, (2, 0, 9, vec![6, 3]));
    assert_eq!(read_post_rollups(&db, 2).await, (2, 0, 5, vec![4, 1]));
    assert_eq!(
        read_post_rollups(&db, 3).await,
        (3, 0, 1_012, vec![7, 5, 2])
    );
    // After the repair, the rollups follow each write again.
    db.delete::<Comment>(7).await.unwrap();
    db.update::<Comment>(4).inc(|c| c.likes(), 1).await.unwrap();
    assert_eq!(read_post_rollups(&db, 3).await, (2, 0, 1_005, vec![5, 2]));
    assert_eq!(read_post_rollups(&db, 2).await, (2, 0, 6, vec![4, 1]));
}

/// Pending work without a token can never be completed. Draining reports the document, completes all other work and ends.
pub async fn invalid_pending_work_is_reported(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert_many([post(1), post(2)]).await.unwrap();
    db.insert_many([comment(1, 1), comment(2, 1), comment(3, 2)])
        .await
        .unwrap();
    wait_for_pending_work(&db).await;
    let long_ago = DateTime::from_millis(0);
    for (collection, id, path) in [
        ("comments", 1, cstr!("_odm.pending.rollup")),
        ("posts", 2, cstr!("_odm.pending.recompute")),
    ] {
        let without_token = rawdoc! { "$set": { path: { "lease": long_ago } } };
        write_without_odm(&fixture, collection, id, without_token).await;
    }
    // Valid pending work of a process that died.
    let valid = rawdoc! { "$set": {
        "_odm.pending.rollup": { "token": ObjectId::new(), "lease": long_ago },
        "likes": 9_i64,
    } };
    write_without_odm(&fixture, "comments", 2, valid).await;

    let done = tokio::time::timeout(Duration::from_secs(20), db.run_pending());
    let error = done.await.expect("it ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StillPending);
    let path = "_odm.pending.recompute";
    assert_eq!(
        (error.collection(), error.id(), error.path()),
        (Some("posts"), Some(&Bson::Int64(2)), Some(path))
    );
    let advice = format!("remove `{path}`");
    assert!(error.to_string().contains(&advice), "{error}");
    // The invalid records did not prevent the other rollup updates.
    assert_eq!(read_post_rollups(&db, 1).await, (2, 0, 10, vec![2, 1]));
    let pending = db.pending().await.unwrap();
    let pending: Vec<_> = pending
        .models
        .iter()
        .map(|model| (model.model, model.recomputes, model.rollups))
        .collect();
    assert_eq!(pending, [("Post", 1, 0), ("Comment", 0, 1)]);

    write_without_odm(
        &fixture,
        "posts",
        2,
        rawdoc! { "$unset": { "_odm.pending.recompute": 1 } },
    )
    .await;
    let error = db.run_pending().await.unwrap_err();
    assert_eq!(
        (error.id(), error.path()),
        (Some(&Bson::Int64(1)), Some("_odm.pending.rollup"))
    );
    write_without_odm(
        &fixture,
        "comments",
        1,
        rawdoc! { "$unset": { "_odm.pending.rollup": 1 } },
    )
    .await;
    db.run_pending().await.unwrap();
    assert_clean(&db).await;
}

pub async fn rollups_cannot_be_written(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert(post(1)).await.unwrap();
    db.insert(comment(1, 1)).await.unwrap();
    let refused = db.modify::<Post>(1, |post| post.comments += 1).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    let refused = db.modify::<Post>(1, |post| post.newest.clear()).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    // A save of another field does not overwrite newer rollups.
    let mut edited = db.edit::<Post>(1).await.unwrap();
    db.insert(comment(2, 1)).await.unwrap();
    edited.title = "changed".into();
    db.save(&mut edited).await.unwrap();
    assert_eq!(read_post_rollups(&db, 1).await, (2, 0, 3, vec![2, 1]));
}

/// A sum that overflows `i64` is an error. With transactions, the child's write fails and changes no document. Without
/// transactions, the rollup stays pending until the sum fits again.
pub async fn a_sum_that_overflows_is_an_error(fixture: Fixture) {
    let has_transactions = fixture.backend().capabilities().transactions;
    let db = open_with_indexes(&fixture).await;
    db.insert(post(1)).await.unwrap();
    let liked = |id: i64, likes: i64| Comment {
        likes,
        ..comment(id, 1)
    };
    db.insert(liked(1, i64::MAX)).await.unwrap();
    assert_eq!(db.get::<Post>(1).await.unwrap().likes, i64::MAX);
    // The intermediate sums overflow `i64`, but the final sum does not.
    let none = [
        liked(2, i64::MAX),
        liked(3, i64::MAX),
        liked(4, -i64::MAX),
        liked(5, -i64::MAX),
    ];
    db.insert_many(none).await.unwrap();
    assert_eq!(db.get::<Post>(1).await.unwrap().likes, i64::MAX);

    for more in [
        vec![liked(6, 1)],
        vec![liked(6, i64::MAX), liked(7, i64::MAX)],
    ] {
        let done = db.insert_many(more).await;
        if has_transactions {
            assert_eq!(done.unwrap_err().kind(), ErrorKind::Invalid);
            assert_eq!(db.find::<Comment>().count().await.unwrap(), 5);
        } else {
            done.unwrap();
            expire_leases::<Blog>(&fixture.backend()).await.unwrap();
            let error = db.run_pending().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StillPending, "{error}");
            assert!(error.to_string().contains("posts 1"), "{error}");
            db.delete_many::<Comment>(|c| c.id().gt(5)).await.unwrap();
        }
        assert_eq!(db.get::<Post>(1).await.unwrap().likes, i64::MAX);
        assert_eq!(db.get::<Post>(1).await.unwrap().comments, 5);
    }
    assert_clean(&db).await;
}

/// Integers and doubles of equal value match in references and conditions, as the database compares them.
pub async fn numbers_of_equal_value_count_alike(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert(NewPerson { id: 1 }).await.unwrap();
    wait_for_pending_work(&db).await;
    for (id, assignee, urgency) in [
        (1, Bson::Double(1.0), Bson::Int32(1)),
        (2, Bson::Int32(1), Bson::Double(1.0)),
    ] {
        let stored = rawdoc! {
            "_id": id, "title": "t", "urgency": RawBson::try_from(urgency).unwrap(), "is_open": true,
            "assignee": RawBson::try_from(assignee).unwrap(), "labels": [], "deleted_at": null,
        };
        let insert = InsertOperation {
            collection: "tickets".into(),
            documents: vec![stored],
            ordered: true,
            origin: Default::default(),
        };
        fixture.backend().insert(insert).await.unwrap();
    }
    db.repair().apply().await.unwrap();
    let person = db.get::<Person>(1).await.unwrap();
    assert_eq!(
        (person.assigned, person.low, person.lowest.len()),
        (2, 2, 2)
    );
    // The check may report doubles that the model cannot hold, but must not report a wrong count.
    let report = db.check().await.unwrap();
    let mut findings = report.findings.iter();
    assert!(
        findings.all(|found| !matches!(found.kind, FindingKind::WrongCount { .. })),
        "{report}"
    );
}

/// Log lines that copy a field of a host. The host has a list of its latest lines.
mod logs {
    use odm::prelude::*;

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "hosts")]
    pub(super) struct Host {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        pub(super) ipaddr: String,
        #[latest(1000, of = LogMessage::host, by = time)]
        pub(super) newest: Vec<Line>,
    }

    #[derive(Debug, Serialize, Deserialize, Embedded)]
    #[embedded(of = LogMessage)]
    pub(super) struct Line {
        pub(super) time: i64,
        pub(super) message: String,
    }

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "logmsgs")]
    pub(super) struct LogMessage {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        pub(super) time: i64,
        pub(super) message: String,
        #[reference]
        pub(super) host: Ref<Host>,
        #[denormalize(from = host.ipaddr)]
        pub(super) ipaddr: String,
    }

    #[derive(Schema)]
    #[schema(models(Host, LogMessage))]
    pub(super) struct Net;
}

/// Inserting a thousand children takes a constant number of operations.
pub async fn a_large_insert_takes_few_operations(fixture: Fixture) {
    let recorder = Recorder::new(fixture.backend());
    let db = odm::Database::<logs::Net>::with_backend(Arc::new(recorder.clone()));
    let aside = odm::Database::<logs::Net>::with_backend(fixture.backend());
    aside.sync_indexes().await.unwrap();
    let host = logs::NewHost {
        id: 1,
        ipaddr: "::1".into(),
    };
    aside.insert(host).await.unwrap();
    aside.wait_for_pending().await.unwrap();
    let lines = (1..=1_000).map(|id| logs::NewLogMessage {
        id,
        time: id,
        message: format!("cpu {id}"),
        host: Ref::new(1),
    });
    db.insert_many(lines).await.unwrap();
    aside.wait_for_pending().await.unwrap();
    let operations = recorder.operations();
    let summary = operations.iter().map(|operation| match operation {
        Operation::Find(find) => format!("find {}", find.collection),
        Operation::Insert(insert) => format!("insert {}", insert.collection),
        Operation::Update(update) => format!("update {}", update.collection),
        Operation::BulkWrite(_) => "write".to_owned(),
        Operation::Begin => "begin".to_owned(),
        Operation::Commit => "commit".to_owned(),
        other => panic!("{other:?}"),
    });
    let summary: Vec<_> = summary.collect();
    let expected = match fixture.backend().capabilities().transactions {
        // One read of the source, one insert, one update of the latest-N list. A find and an update revalidate the copies.
        true => {
            "find hosts, begin, update hosts, insert logmsgs, commit, find hosts, update logmsgs"
        }
        // The update of the host succeeds only if the host is unchanged since the read as a source. So the host has no other
        // lines yet, and the copies are current.
        false => "find hosts, insert logmsgs, update hosts, update logmsgs",
    };
    assert_eq!(summary.join(", "), expected);
    let host = aside.get::<logs::Host>(1).await.unwrap();
    let newest = host.newest.first().map(|line| line.time);
    assert_eq!((host.newest.len(), newest), (1_000, Some(1_000)));
}

/// With transactions, all parents of an insert are updated in one command. A parent that does not exist counts its children when it is
/// inserted.
pub async fn an_insert_updates_many_parents_at_once(fixture: Fixture) {
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(Arc::new(recorder.clone()));
    db.sync_indexes().await.unwrap();
    let missing = [7, 40];
    let posts = (1..=50).filter(|id| !missing.contains(id)).map(post);
    db.insert_many(posts).await.unwrap();
    wait_for_pending_work(&db).await;
    recorder.clear();
    // Each post has two comments.
    let comments = |first: i64| (0..100).map(move |n| comment(first + n, n % 50 + 1));
    db.insert_many(comments(1)).await.unwrap();
    let updates = recorder.operations().into_iter().filter(|operation| {
        let origin = operation.origin();
        origin.stage == Some(Stage::ROLLUPS) && origin.step == "update the parent"
    });
    if fixture.backend().capabilities().transactions {
        assert_eq!(updates.count(), 1);
        for id in (1..=50).filter(|id| !missing.contains(id)) {
            assert_eq!(read_post_rollups(&db, id).await.0, 2, "{id}");
        }
    }
    db.insert_many(missing.map(post)).await.unwrap();
    wait_for_pending_work(&db).await;
    for id in 1..=50 {
        let likes = id + (id + 50);
        assert_eq!(
            read_post_rollups(&db, id).await,
            (2, 0, likes, vec![id + 50, id])
        );
    }
    assert_clean(&db).await;
}

/// The operations of the section "Rollups" in `book/src/operations.md`, in sequence.
const COST_ROWS: &[CostRow<Blog>] = &[
    write_row!("insert of 500 children of a single parent", |db| {
        db.insert_many((1..=500).map(|id| comment(id, 1)))
    }),
    write_row!("update of a parent", |db| {
        db.update::<Post>(1).set(|p| p.title(), "other")
    }),
    write_row!("insert of a parent", |db| db.insert(post(2))),
    write_row!("update of a summed field", |db| {
        db.update::<Comment>(1).inc(|c| c.likes(), 1)
    }),
    write_row!("update that moves a child to another parent", |db| {
        db.update::<Comment>(1).set(|c| c.post(), Ref::new(2))
    }),
    write_row!("delete of a child outside of the latest list", |db| {
        db.delete::<Comment>(2)
    }),
    write_row!("delete of a child in the latest list", |db| {
        db.delete::<Comment>(500)
    }),
];

/// The operations of each kind of write, as listed in the book.
pub async fn operations_of_rollups_match_the_book(fixture: Fixture) {
    let plain = open_with_indexes(&fixture).await;
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(Arc::new(recorder.clone()));
    db.insert(post(1)).await.unwrap();
    wait_for_pending_work(&plain).await;
    let mut lists = OperationLists::new(&fixture);
    for row in COST_ROWS {
        lists.run_row(row, &db, &recorder).await;
    }
    lists.assert_match_the_book();
}

const WRITES: &[Write<Blog>] = &[
    ("insert", |db| {
        Box::pin(async move { db.insert(comment(9, 1)).await.map(drop) })
    }),
    ("insert several", |db| {
        Box::pin(async move {
            let all = db.insert_many([comment(8, 1), comment(9, 2)]);
            all.await.map(drop)
        })
    }),
    ("insert an owner", |db| {
        Box::pin(async move { db.insert(post(3)).await.map(drop) })
    }),
    ("like", |db| {
        Box::pin(async move {
            let liked = db.update::<Comment>(1).inc(|c| c.likes(), 1);
            liked.await.map(drop)
        })
    }),
    ("move", |db| {
        Box::pin(async move {
            let moved = db.update::<Comment>(1).set(|c| c.post(), Ref::new(2));
            moved.await.map(drop)
        })
    }),
    ("delete", |db| {
        Box::pin(async move { db.delete::<Comment>(1).await.map(drop) })
    }),
    ("delete an owner", |db| {
        Box::pin(async move { db.delete::<Post>(1).await.map(drop) })
    }),
];

pub async fn rollups_survive_a_crash_at_every_operation(fixture: Fixture) {
    let crashes = CrashTest {
        writes: WRITES,
        begin: |db| {
            Box::pin(async move {
                db.insert_many([post(1), post(2)]).await.unwrap();
                db.insert_many([comment(1, 1), comment(2, 1), comment(3, 2), comment(4, 3)])
                    .await
                    .unwrap();
            })
        },
        may_find: |fault| matches!(fault, FindingKind::Dangling { .. }),
        agrees: |db, when| {
            Box::pin(async move {
                let comments = db.find::<Comment>().all().await.unwrap();
                for post in db.find::<Post>().all().await.unwrap() {
                    let of_post = comments
                        .iter()
                        .filter(|comment| *comment.post.id() == post.id);
                    let (count, likes) = of_post.fold((0, 0), |(count, likes), comment| {
                        (count + 1, likes + comment.likes)
                    });
                    assert_eq!(
                        (post.comments, post.likes),
                        (count, likes),
                        "{when}: {post:?}"
                    );
                }
            })
        },
    };
    crashes.run(&fixture).await;
}
