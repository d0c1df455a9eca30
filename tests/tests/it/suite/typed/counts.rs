//! Counts, sums and the latest: what documents are made of by others that refer to them.

use std::{sync::Arc, time::Duration};

use odm::{
    ErrorKind,
    backend::{
        Recorder,
        operation::{Change, Insert, Operation, Update},
    },
    bson::{Bson, RawBson, RawDocumentBuf, oid::ObjectId, raw::cstr, rawdoc},
    check::{Fault, RepairOutcome},
    prelude::*,
};
use odm_tests::aftermath::overdue;
use tokio::sync::Notify;

use crate::Fixture;
use crate::crash::{Crashes, Write};

/// S18.
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
    /// S8.
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

/// By an optional reference and by several; soft deleted.
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

/// Without what it is sorted by.
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

/// Deleted with its board, and loses its author.
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

/// What a post has of its comments: how many, how many are shown, their likes, and the latest.
async fn of_post(db: &Db, id: i64) -> (i64, i64, i64, Vec<i64>) {
    let post = db.get::<Post>(id).await.unwrap();
    let newest = post.newest.iter().map(|newest| newest.at / 10).collect();
    (post.comments, post.shown, post.likes, newest)
}

async fn fresh(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db
}

/// Nothing is owed by anybody who is alive.
async fn settled(db: &Db) {
    db.settled().within(Duration::from_secs(20)).await.unwrap();
}

async fn is_clean(db: &Db) {
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}

pub async fn documents_are_counted(fixture: Fixture) {
    let db = fresh(&fixture).await;
    let first = db.insert(post(1)).await.unwrap();
    assert_eq!((first.comments, first.likes, first.newest.len()), (0, 0, 0));
    db.insert(post(2)).await.unwrap();
    db.insert(comment(1, 1)).await.unwrap();
    assert_eq!(of_post(&db, 1).await, (1, 0, 1, vec![1]));
    db.insert_many([comment(2, 1), comment(3, 2), comment(4, 1)])
        .await
        .unwrap();
    assert_eq!(of_post(&db, 1).await, (3, 0, 7, vec![4, 2, 1]));
    assert_eq!(of_post(&db, 2).await, (1, 0, 3, vec![3]));

    // By operators, by `update_many`, by `save`.
    db.update::<Comment>(1)
        .inc(|c| c.likes(), 10)
        .set(|c| c.state(), State::Shown)
        .await
        .unwrap();
    assert_eq!(of_post(&db, 1).await, (3, 1, 17, vec![4, 2, 1]));
    db.update_many::<Comment>(|c| c.id().gt(1))
        .set(|c| c.state(), State::Shown)
        .mul(|c| c.likes(), 2)
        .await
        .unwrap();
    assert_eq!(of_post(&db, 1).await, (3, 3, 23, vec![4, 2, 1]));
    assert_eq!(of_post(&db, 2).await, (1, 1, 6, vec![3]));
    db.modify::<Comment>(2, |comment| comment.post = Ref::new(2))
        .await
        .unwrap();
    assert_eq!(of_post(&db, 1).await, (2, 2, 19, vec![4, 1]));
    assert_eq!(of_post(&db, 2).await, (2, 2, 10, vec![3, 2]));

    db.delete::<Comment>(4).await.unwrap();
    assert_eq!(of_post(&db, 1).await, (1, 1, 11, vec![1]));
    for (id, is_new) in [(5, true), (1, false)] {
        let upsert = db.update::<Comment>(id).set(|c| c.text(), "upserted");
        let upserted = upsert.or_insert(comment(id, 1)).await.unwrap();
        assert_eq!(upserted.is_inserted(), is_new);
    }
    assert_eq!(of_post(&db, 1).await, (2, 1, 16, vec![5, 1]));
    assert_eq!(db.get::<Post>(1).await.unwrap().newest[1].text, "upserted");
    db.delete_many::<Comment>(|c| c.likes().gt(4))
        .await
        .unwrap();
    assert_eq!(of_post(&db, 1).await, (0, 0, 0, vec![]));
    assert_eq!(of_post(&db, 2).await, (1, 1, 4, vec![2]));

    settled(&db).await;
    is_clean(&db).await;
}

pub async fn of_which_documents(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many([NewPerson { id: 1 }, NewPerson { id: 2 }])
        .await
        .unwrap();
    let of = async |id: i64| {
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
    assert_eq!((of(1).await, of(2).await), ((2, 2), (0, 0)));
    db.update::<Ticket>(1)
        .set(|t| t.is_open(), false)
        .await
        .unwrap();
    assert_eq!(of(1).await, (2, 1));
    // From nobody to somebody, and back.
    db.update::<Ticket>(3)
        .set(|t| t.assignee(), Ref::new(2))
        .await
        .unwrap();
    assert_eq!(of(2).await, (1, 1));
    db.update::<Ticket>(3)
        .unset(|t| t.assignee())
        .await
        .unwrap();
    assert_eq!(of(2).await, (0, 0));

    // What is deleted by a mark is not there, until it is restored.
    db.delete::<Ticket>(2).await.unwrap();
    assert_eq!(of(1).await, (1, 0));
    db.restore::<Ticket>(2).await.unwrap();
    assert_eq!(of(1).await, (2, 1));
    db.delete::<Ticket>(2).permanently().await.unwrap();
    assert_eq!(of(1).await, (1, 0));
    settled(&db).await;
    is_clean(&db).await;
}

/// Another program writes whole numbers in the width that it likes.
pub async fn numbers_of_any_width_meet_conditions(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert(NewPerson { id: 1 }).await.unwrap();
    let wide = rawdoc! {
        "_id": 1_i64, "title": "wide", "urgency": 1_i64, "is_open": true, "assignee": 1_i32, "labels": [], "deleted_at": null,
    };
    let tickets = Insert {
        collection: "tickets".into(),
        documents: vec![wide],
        ordered: true,
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
    let of = async || {
        let person = db.get::<Person>(1).await.unwrap();
        let lowest = person.lowest.into_iter().map(|ticket| ticket.title);
        (person.low, lowest.collect::<Vec<_>>())
    };
    assert_eq!(of().await, (2, vec!["wide".into(), "ticket 2".into()]));
    settled(&db).await;
    is_clean(&db).await;
    // One of the latest goes: they are read again by a query, which finds the other one by its condition.
    db.delete::<Ticket>(2).await.unwrap();
    assert_eq!(of().await, (1, vec!["wide".into()]));
    settled(&db).await;
    is_clean(&db).await;
}

pub async fn several_references_count(fixture: Fixture) {
    let db = fresh(&fixture).await;
    for id in ["bug", "ui"] {
        db.insert(NewLabel { id: id.into() }).await.unwrap();
    }
    let of = async |id: &str| {
        let label = db.get::<Label>(id.to_owned()).await.unwrap();
        let titles = label.urgent.into_iter().map(|urgent| urgent.title);
        (label.tickets, titles.collect::<Vec<_>>())
    };
    // One that is there twice is one.
    db.insert_many([
        ticket(1, &["bug"]),
        ticket(2, &["bug", "ui", "bug"]),
        ticket(3, &["ui"]),
    ])
    .await
    .unwrap();
    assert_eq!(
        of("bug").await,
        (2, vec!["ticket 2".into(), "ticket 1".into()])
    );
    assert_eq!(
        of("ui").await,
        (2, vec!["ticket 3".into(), "ticket 2".into()])
    );
    db.update::<Ticket>(1)
        .push(|t| t.labels(), Ref::new("ui".to_owned()))
        .await
        .unwrap();
    assert_eq!(
        of("ui").await,
        (3, vec!["ticket 3".into(), "ticket 2".into()])
    );
    db.update::<Ticket>(2)
        .set(|t| t.is_open(), false)
        .await
        .unwrap();
    assert_eq!(
        of("ui").await,
        (3, vec!["ticket 3".into(), "ticket 1".into()])
    );
    assert_eq!(of("bug").await, (2, vec!["ticket 1".into()]));
    db.update::<Ticket>(2)
        .pull(|t| t.labels(), Ref::new("bug".to_owned()))
        .await
        .unwrap();
    assert_eq!(of("bug").await, (1, vec!["ticket 1".into()]));
    assert_eq!(of("ui").await.0, 3);
    settled(&db).await;
    is_clean(&db).await;
}

pub async fn the_latest_are_kept(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert(post(1)).await.unwrap();
    let newest = async || {
        let post = db.get::<Post>(1).await.unwrap();
        let newest = post.newest.into_iter();
        newest
            .map(|newest| (newest.at, newest.text))
            .collect::<Vec<_>>()
    };
    let of = |id: i64| (id * 10, format!("comment {id}"));
    db.insert_many((1..=20).map(|id| comment(id, 1)))
        .await
        .unwrap();
    assert_eq!(newest().await, [of(20), of(19), of(18)]);
    // What is older than all of them is none.
    db.insert(comment(0, 1)).await.unwrap();
    assert_eq!(newest().await, [of(20), of(19), of(18)]);
    // One that goes makes room.
    db.delete::<Comment>(19).await.unwrap();
    assert_eq!(newest().await, [of(20), of(18), of(17)]);
    // One changes, and another becomes the latest.
    db.update::<Comment>(18)
        .set(|c| c.text(), "mended")
        .await
        .unwrap();
    assert_eq!(newest().await, [of(20), (180, "mended".into()), of(17)]);
    db.update::<Comment>(3)
        .set(|c| c.at(), 1_000)
        .await
        .unwrap();
    let third = (1_000, "comment 3".to_owned());
    assert_eq!(newest().await, [third, of(20), (180, "mended".into())]);
    db.update_many::<Comment>(|c| c.at().gte(180))
        .set(|c| c.at(), 1)
        .await
        .unwrap();
    assert_eq!(newest().await, [of(17), of(16), of(15)]);
    settled(&db).await;
    is_clean(&db).await;
}

/// Whoever reads the latest again, and whoever changes one that is about to become one of them, meet in their owner.
pub async fn what_becomes_one_of_the_latest_is_as_it_is(fixture: Fixture) {
    let db = fresh(&fixture).await;
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
    // The transaction reads ticket 2 as one of the latest. The other write meets the open transaction, and waits for its end.
    let (in_transaction, outside) = tokio::join!(
        db.transaction(|tx| {
            let is_open = &is_open;
            async move {
                close(&tx, 4).await?;
                is_open.notify_one();
                tokio::time::sleep(Duration::from_millis(200)).await;
                Ok(())
            }
        }),
        async {
            is_open.notified().await;
            close(&other, 2).await
        },
    );
    in_transaction.unwrap();
    outside.unwrap();
    let label = db.get::<Label>("bug".to_owned()).await.unwrap();
    let urgent: Vec<_> = label.urgent.iter().map(|urgent| &*urgent.title).collect();
    assert_eq!(urgent, ["ticket 3", "ticket 1"]);
    is_clean(&db).await;
}

pub async fn owners_come_and_go(fixture: Fixture) {
    let db = fresh(&fixture).await;
    // It comes behind its comments.
    db.insert_many([comment(1, 7), comment(2, 7)])
        .await
        .unwrap();
    db.insert(post(7)).await.unwrap();
    settled(&db).await;
    assert_eq!(of_post(&db, 7).await, (2, 0, 3, vec![2, 1]));
    // It goes, and comes again.
    db.delete::<Post>(7).await.unwrap();
    db.update::<Comment>(1).inc(|c| c.likes(), 5).await.unwrap();
    db.insert(comment(3, 7)).await.unwrap();
    db.delete::<Comment>(2).await.unwrap();
    db.insert(post(7)).await.unwrap();
    settled(&db).await;
    assert_eq!(of_post(&db, 7).await, (2, 0, 9, vec![3, 1]));
    // As one that an update inserts.
    let upsert = db.update::<Post>(8).set(|p| p.title(), "upserted");
    assert!(upsert.or_insert(post(8)).await.unwrap().is_inserted());
    assert_eq!(of_post(&db, 8).await, (0, 0, 0, vec![]));
    db.insert(comment(4, 8)).await.unwrap();
    assert_eq!(of_post(&db, 8).await, (1, 0, 4, vec![4]));
    settled(&db).await;
    is_clean(&db).await;

    // Both at once.
    for round in 0..10 {
        let id = 100 + round;
        let (first, second) = tokio::join!(
            db.insert(post(id)).into_future(),
            db.insert(comment(id, id)).into_future(),
        );
        assert_eq!((first.unwrap().id, second.unwrap().id), (id, id));
        settled(&db).await;
        assert_eq!(of_post(&db, id).await, (1, 0, id, vec![id]));
    }
}

pub async fn what_goes_with_another_is_not_counted(fixture: Fixture) {
    let db = fresh(&fixture).await;
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
    let of = async |id: i64| db.get::<Author>(id).await.unwrap().notes;
    assert_eq!((boards().await, of(1).await, of(2).await), ((1, 2), 2, 1));
    db.delete::<Board>(1).await.unwrap();
    settled(&db).await;
    assert_eq!((boards().await, of(1).await, of(2).await), ((1, 1), 1, 0));
    db.delete::<Author>(1).await.unwrap();
    settled(&db).await;
    assert_eq!(db.get::<Note>(3).await.unwrap().author, None);
    // One of the same id has none of what the former had.
    db.insert(NewAuthor { id: 1 }).await.unwrap();
    settled(&db).await;
    assert_eq!(of(1).await, 0);
    db.delete::<Note>(3).await.unwrap();
    settled(&db).await;
    assert_eq!(boards().await, (0, 1));
    is_clean(&db).await;
}

pub async fn a_bulk_is_counted(fixture: Fixture) {
    let db = fresh(&fixture).await;
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
    assert_eq!(of_post(&db, 1).await, (0, 0, 0, vec![]));
    assert_eq!(of_post(&db, 2).await, (1, 0, 1, vec![1]));
    settled(&db).await;
    is_clean(&db).await;
}

pub async fn a_transaction_is_whole(fixture: Fixture) {
    let db = fresh(&fixture).await;
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
    assert_eq!(of_post(&db, 1).await, (0, 0, 0, vec![]));
    db.transaction(async |tx| {
        tx.insert(comment(1, 1)).await?;
        tx.insert(comment(2, 9)).await?;
        tx.insert(post(9)).await.map(drop)
    })
    .await
    .unwrap();
    assert_eq!(of_post(&db, 1).await.0, 1);
    settled(&db).await;
    assert_eq!(of_post(&db, 9).await, (1, 0, 2, vec![2]));
    is_clean(&db).await;
}

pub async fn many_at_once_are_counted(fixture: Fixture) {
    let db = fresh(&fixture).await;
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
    settled(&db).await;
    let comments = db.find::<Comment>().all().await.unwrap();
    for id in [1, 2] {
        let own = comments.iter().filter(|comment| *comment.post.id() == id);
        let mut own: Vec<_> = own.collect();
        own.sort_by_key(|comment| -comment.at);
        let newest = own.iter().take(3).map(|comment| comment.id).collect();
        let likes = own.iter().map(|comment| comment.likes).sum();
        let count = i64::try_from(own.len()).unwrap();
        assert_eq!(of_post(&db, id).await, (count, 0, likes, newest));
    }
    is_clean(&db).await;
}

/// A write that the framework does not see.
async fn around(fixture: &Fixture, collection: &'static str, id: i64, update: RawDocumentBuf) {
    let update = Update {
        collection: collection.into(),
        filter: rawdoc! { "_id": id },
        change: Change::operators(update),
        multi: false,
        upsert: false,
    };
    assert_eq!(fixture.backend().update(update).await.unwrap().matched, 1);
}

pub async fn the_check_finds_what_was_changed_from_outside(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many([post(1), post(2), post(3)]).await.unwrap();
    let comments = (1..=6).map(|id| comment(id, 1 + id % 3));
    db.insert_many(comments).await.unwrap();
    settled(&db).await;
    is_clean(&db).await;
    around(
        &fixture,
        "posts",
        1,
        rawdoc! { "$set": { "comments": 9_i64, "newest.0.text": "lies" } },
    )
    .await;
    // As if counts had been declared when they were there already.
    for id in [1, 4] {
        around(
            &fixture,
            "comments",
            id,
            rawdoc! { "$unset": { "_odm": 1 } },
        )
        .await;
    }
    around(
        &fixture,
        "posts",
        2,
        rawdoc! { "$unset": { "_odm": 1, "comments": 1, "likes": 1, "newest": 1, "shown": 1 } },
    )
    .await;
    around(
        &fixture,
        "comments",
        2,
        rawdoc! { "$set": { "likes": 1_000_i64 } },
    )
    .await;
    let behind = rawdoc! {
        "_id": 7_i64, "post": 3_i64, "at": 70_i64, "text": "comment 7", "likes": 7_i64, "state": "New",
    };
    let behind = Insert {
        collection: "comments".into(),
        documents: vec![behind],
        ordered: true,
    };
    fixture.backend().insert(behind).await.unwrap();

    let report = db.check().await.unwrap();
    let found = report.findings.iter().map(|found| {
        let is = match &found.fault {
            Fault::Miscounted { is, .. } => Some((**is).clone()),
            _ => None,
        };
        (found.collection, found.id.clone(), &*found.path, is)
    });
    let found: Vec<_> = found.collect();
    let text = report.to_string();
    let has = |id: i64, path: &str, is: i64| {
        let expected = ("posts", Bson::Int64(id), path, Some(Bson::Int64(is)));
        assert!(found.contains(&expected), "{expected:?} in {text}");
    };
    has(1, "comments", 2);
    has(3, "likes", 1_012);
    has(3, "comments", 3);
    assert!(
        text.contains("posts 1, `comments`: is 9, and 2 by what comments make of it"),
        "{text}"
    );
    let repaired = db.repair().apply().await.unwrap();
    let mut steps = repaired.steps.iter();
    assert!(steps.any(|step| step.outcome == RepairOutcome::Done));
    is_clean(&db).await;
    assert_eq!(of_post(&db, 1).await, (2, 0, 9, vec![6, 3]));
    assert_eq!(of_post(&db, 2).await, (2, 0, 5, vec![4, 1]));
    assert_eq!(of_post(&db, 3).await, (3, 0, 1_012, vec![7, 5, 2]));
    // From now on they are counted as any other.
    db.delete::<Comment>(7).await.unwrap();
    db.update::<Comment>(4).inc(|c| c.likes(), 1).await.unwrap();
    assert_eq!(of_post(&db, 3).await, (2, 0, 1_005, vec![5, 2]));
    assert_eq!(of_post(&db, 2).await, (2, 0, 6, vec![4, 1]));
}

/// What says that it is to be counted, and not by which write, can never be taken back: it keeps nobody from ending.
pub async fn what_says_nothing_right_is_told(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many([post(1), post(2)]).await.unwrap();
    db.insert_many([comment(1, 1), comment(2, 1), comment(3, 2)])
        .await
        .unwrap();
    settled(&db).await;
    let long_ago = DateTime::from_millis(0);
    for (collection, id, place) in [
        ("comments", 1, cstr!("_odm.count")),
        ("posts", 2, cstr!("_odm.recount")),
    ] {
        let said = rawdoc! { "$set": { place: { "due": long_ago } } };
        around(&fixture, collection, id, said).await;
    }
    // Valid pending work of a process that died.
    let said = rawdoc! { "$set": { "_odm.count": { "token": ObjectId::new(), "due": long_ago }, "likes": 9_i64 } };
    around(&fixture, "comments", 2, said).await;

    let done = tokio::time::timeout(Duration::from_secs(20), db.settle());
    let told = done.await.expect("it ends").unwrap_err();
    assert_eq!(told.kind(), ErrorKind::Unsettled);
    assert_eq!(
        (told.collection(), told.id(), told.path()),
        (Some("posts"), Some(&Bson::Int64(2)), Some("_odm.recount"))
    );
    assert!(told.to_string().contains("remove `_odm.recount`"), "{told}");
    // The rest was not kept from being counted.
    assert_eq!(of_post(&db, 1).await, (2, 0, 10, vec![2, 1]));
    let owed = db.owed().await.unwrap();
    let owed: Vec<_> = owed
        .models
        .iter()
        .map(|of| (of.model, of.owners, of.members))
        .collect();
    assert_eq!(owed, [("Post", 1, 0), ("Comment", 0, 1)]);

    around(
        &fixture,
        "posts",
        2,
        rawdoc! { "$unset": { "_odm.recount": 1 } },
    )
    .await;
    let told = db.settle().await.unwrap_err();
    assert_eq!(
        (told.id(), told.path()),
        (Some(&Bson::Int64(1)), Some("_odm.count"))
    );
    around(
        &fixture,
        "comments",
        1,
        rawdoc! { "$unset": { "_odm.count": 1 } },
    )
    .await;
    db.settle().await.unwrap();
    is_clean(&db).await;
}

pub async fn what_is_made_of_others_is_not_written(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert(post(1)).await.unwrap();
    db.insert(comment(1, 1)).await.unwrap();
    let refused = db.modify::<Post>(1, |post| post.comments += 1).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    let refused = db.modify::<Post>(1, |post| post.newest.clear()).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    // A save of something else takes nothing back.
    let mut edited = db.edit::<Post>(1).await.unwrap();
    db.insert(comment(2, 1)).await.unwrap();
    edited.title = "changed".into();
    db.save(&mut edited).await.unwrap();
    assert_eq!(of_post(&db, 1).await, (2, 0, 3, vec![2, 1]));
}

/// A sum that no `i64` is: where members and owners are written in one, nothing is written. Where they are not, it is owed until it is
/// one.
pub async fn sums_have_a_range(fixture: Fixture) {
    let has_transactions = fixture.backend().capabilities().transactions;
    let db = fresh(&fixture).await;
    db.insert(post(1)).await.unwrap();
    let liked = |id: i64, likes: i64| Comment {
        likes,
        ..comment(id, 1)
    };
    db.insert(liked(1, i64::MAX)).await.unwrap();
    assert_eq!(db.get::<Post>(1).await.unwrap().likes, i64::MAX);
    // Though they are too many on the way.
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
            overdue::<Blog>(&fixture.backend()).await.unwrap();
            let error = db.settle().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsettled, "{error}");
            assert!(error.to_string().contains("posts 1"), "{error}");
            db.delete_many::<Comment>(|c| c.id().gt(5)).await.unwrap();
        }
        assert_eq!(db.get::<Post>(1).await.unwrap().likes, i64::MAX);
        assert_eq!(db.get::<Post>(1).await.unwrap().comments, 5);
    }
    is_clean(&db).await;
}

/// However another client stores it, as the database compares.
pub async fn whole_numbers_are_alike(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert(NewPerson { id: 1 }).await.unwrap();
    settled(&db).await;
    for (id, assignee, urgency) in [
        (1, Bson::Double(1.0), Bson::Int32(1)),
        (2, Bson::Int32(1), Bson::Double(1.0)),
    ] {
        let stored = rawdoc! {
            "_id": id, "title": "t", "urgency": RawBson::try_from(urgency).unwrap(), "is_open": true,
            "assignee": RawBson::try_from(assignee).unwrap(), "labels": [], "deleted_at": null,
        };
        let insert = Insert {
            collection: "tickets".into(),
            documents: vec![stored],
            ordered: true,
        };
        fixture.backend().insert(insert).await.unwrap();
    }
    db.repair().apply().await.unwrap();
    let person = db.get::<Person>(1).await.unwrap();
    assert_eq!(
        (person.assigned, person.low, person.lowest.len()),
        (2, 2, 2)
    );
    // A model has no room for them, but they are counted.
    let report = db.check().await.unwrap();
    let mut findings = report.findings.iter();
    assert!(
        findings.all(|found| !matches!(found.fault, Fault::Miscounted { .. })),
        "{report}"
    );
}

/// Lines that copy from a host, which has the latest of them.
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

/// A thousand lines are not a thousand operations.
pub async fn what_log_lines_cost(fixture: Fixture) {
    let recorder = Recorder::new(fixture.backend());
    let db = odm::Database::<logs::Net>::with_backend(Arc::new(recorder.clone()));
    let aside = odm::Database::<logs::Net>::with_backend(fixture.backend());
    aside.sync_indexes().await.unwrap();
    let host = logs::NewHost {
        id: 1,
        ipaddr: "::1".into(),
    };
    aside.insert(host).await.unwrap();
    aside.settled().await.unwrap();
    let lines = (1..=1_000).map(|id| logs::NewLogMessage {
        id,
        time: id,
        message: format!("cpu {id}"),
        host: Ref::new(1),
    });
    db.insert_many(lines).await.unwrap();
    aside.settled().await.unwrap();
    let operations = recorder.operations();
    let told = operations.iter().map(|operation| match operation {
        Operation::Find(find) => format!("find {}", find.collection),
        Operation::Insert(insert) => format!("insert {}", insert.collection),
        Operation::Update(update) => format!("update {}", update.collection),
        Operation::BulkWrite(_) => "write".to_owned(),
        Operation::Begin => "begin".to_owned(),
        Operation::Commit => "commit".to_owned(),
        other => panic!("{other:?}"),
    });
    let told: Vec<_> = told.collect();
    let expected = match fixture.backend().capabilities().transactions {
        // One source is read and one insert made; the host's latest are one update, and the copies are looked at by two.
        true => {
            "find hosts, begin, update hosts, insert logmsgs, commit, find hosts, update logmsgs"
        }
        // The host is written if it is still as it was read as a source: so it has no other lines, and its copies are right.
        false => "find hosts, insert logmsgs, update hosts, update logmsgs",
    };
    assert_eq!(told.join(", "), expected);
    let host = aside.get::<logs::Host>(1).await.unwrap();
    let newest = host.newest.first().map(|line| line.time);
    assert_eq!((host.newest.len(), newest), (1_000, Some(1_000)));
}

/// What writes cost, by what a recorder saw of them.
pub async fn what_is_counted_costs(fixture: Fixture) {
    let has_transactions = fixture.backend().capabilities().transactions;
    let plain = fresh(&fixture).await;
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.insert(post(1)).await.unwrap();
    settled(&plain).await;
    let told = || {
        let operations = recorder.operations();
        let told = operations.iter().map(|operation| match operation {
            Operation::Find(find) => format!("find {}", find.collection),
            Operation::Insert(insert) => format!("insert {}", insert.collection),
            Operation::Update(update) => format!("update {}", update.collection),
            Operation::Delete(delete) => format!("delete {}", delete.collection),
            Operation::Begin => "begin".to_owned(),
            Operation::BulkWrite(_) => "write".to_owned(),
            Operation::Commit => "commit".to_owned(),
            other => panic!("{other:?}"),
        });
        let told: Vec<_> = told.collect();
        recorder.clear();
        told.join(", ")
    };
    recorder.clear();
    db.insert_many((1..=500).map(|id| comment(id, 1)))
        .await
        .unwrap();
    let expected = match has_transactions {
        true => "begin, update posts, insert comments, commit",
        // The fence of the post is read first; behind what is written there the comments remember that they are counted.
        false => "find posts, insert comments, update posts, write, update posts",
    };
    assert_eq!(told(), expected);
    // What is counted nowhere costs nothing more.
    db.update::<Post>(1)
        .set(|p| p.title(), "other")
        .await
        .unwrap();
    assert_eq!(told(), "update posts");

    // Whoever finds the owner empty is answered; what follows is that it has no members, and says so no more.
    db.insert(post(2)).await.unwrap();
    settled(&plain).await;
    let expected = "insert posts, find posts, find comments, update posts";
    assert_eq!(told(), expected);

    // The post is read because of its latest.
    let liked = db.update::<Comment>(1).inc(|c| c.likes(), 1);
    liked.await.unwrap();
    let expected = match has_transactions {
        true => {
            "begin, update comments, find comments, find posts, update posts, update comments, commit"
        }
        false => {
            "update comments, find comments, find posts, find comments, update posts, update comments, update posts"
        }
    };
    assert_eq!(told(), expected);

    // From one post to another, which has nothing of it and need not be read.
    let moved = db.update::<Comment>(1).set(|c| c.post(), Ref::new(2));
    moved.await.unwrap();
    let expected = match has_transactions {
        true => {
            "begin, update comments, find comments, find posts, update posts, update posts, update comments, commit"
        }
        // It says first that it is about to be counted at the other one, and is read again.
        false => {
            "update comments, find comments, update comments, find comments, \
             find posts, find comments, update posts, find posts, find comments, update posts, \
             update comments, update posts, update posts"
        }
    };
    assert_eq!(told(), expected);

    // One that is not among the latest; and one that is, for which another is looked for.
    for (id, latest) in [(2, ""), (500, "find comments, ")] {
        db.delete::<Comment>(id).await.unwrap();
        let expected = match has_transactions {
            true => format!(
                "begin, find comments, find comments, delete comments, find posts, {latest}update posts, commit"
            ),
            // It is found, looked at, marked and looked at again; then it is counted nowhere any more, and goes.
            false => format!(
                "find comments, find comments, update comments, find comments, \
                 find comments, find posts, find comments, {latest}update posts, update comments, update posts, \
                 delete comments"
            ),
        };
        assert_eq!(told(), expected);
    }
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

pub async fn wherever_a_write_dies_counts_are_exact(fixture: Fixture) {
    let crashes = Crashes {
        writes: WRITES,
        begin: |db| {
            Box::pin(async move {
                db.insert_many([post(1), post(2)]).await.unwrap();
                db.insert_many([comment(1, 1), comment(2, 1), comment(3, 2), comment(4, 3)])
                    .await
                    .unwrap();
            })
        },
        may_find: |fault| matches!(fault, Fault::Dangling { .. }),
        agrees: |db, when| {
            Box::pin(async move {
                let comments = db.find::<Comment>().all().await.unwrap();
                for post in db.find::<Post>().all().await.unwrap() {
                    let own = comments
                        .iter()
                        .filter(|comment| *comment.post.id() == post.id);
                    let (count, likes) = own.fold((0, 0), |(count, likes), comment| {
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
