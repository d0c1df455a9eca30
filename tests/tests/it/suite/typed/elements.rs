//! Tests of updates of matching elements, and of pushes with a position, an order and a slice.

use odm::{
    ErrorKind,
    action::BulkResult,
    backend::{Recorder, operation::Operation},
    bson::doc,
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Reply {
    who: String,
    votes: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Comment {
    who: String,
    votes: i64,
    #[embed(max = 2)]
    tags: Vec<String>,
    #[embed(unbounded)]
    replies: Vec<Reply>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "threads")]
struct Thread {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(unbounded)]
    comments: Vec<Comment>,
    #[embed(unbounded)]
    grades: Vec<i32>,
    #[embed(max = 3)]
    latest: Vec<Reply>,
    #[embed(max = 3)]
    voters: Vec<String>,
    #[embed(unbounded)]
    grid: Vec<Vec<i32>>,
}

#[derive(Debug, Clone, Copy, Schema)]
#[schema(models(Thread))]
struct Forum;

type Db = odm::Database<Forum>;

fn reply(who: &str, votes: i64) -> Reply {
    let reply_authors = who.into();
    Reply {
        who: reply_authors,
        votes,
    }
}

fn comment(who: &str, votes: i64, replies: &[(&str, i64)]) -> Comment {
    Comment {
        who: who.into(),
        votes,
        tags: Vec::new(),
        replies: replies
            .iter()
            .map(|(who, votes)| reply(who, *votes))
            .collect(),
    }
}

fn thread(id: i64, comments: Vec<Comment>) -> Thread {
    Thread {
        id,
        comments,
        grades: vec![85, 100, 90, 100],
        latest: Vec::new(),
        voters: vec!["ann".into(), "bob".into()],
        grid: vec![vec![1, 2], vec![3], vec![]],
    }
}

async fn insert_threads(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    let threads = [
        thread(
            1,
            vec![
                comment("jane", 1, &[("joe", 0), ("kim", 5)]),
                comment("joe", 2, &[("jane", 0)]),
                comment("jane", 7, &[("joe", 3)]),
            ],
        ),
        thread(2, vec![comment("joe", 4, &[])]),
    ];
    db.insert_many(threads).await.unwrap();
    db
}

async fn votes(db: &Db, id: i64) -> Vec<i64> {
    let thread = db.get::<Thread>(id).await.unwrap();
    thread
        .comments
        .iter()
        .map(|comment| comment.votes)
        .collect()
}

fn who(replies: &[Reply]) -> Vec<&str> {
    replies.iter().map(|reply| reply.who.as_str()).collect()
}

/// An update changes exactly the matching elements, and no element if no element matches.
pub async fn matching_elements_are_updated(fixture: Fixture) {
    let db = insert_threads(&fixture).await;
    let done = db
        .update::<Thread>(1)
        .inc(
            |t| t.comments().matching(|c| c.who().eq("jane")).votes(),
            10,
        )
        .await
        .unwrap();
    assert_eq!((done.matched, done.modified), (1, 1));
    assert_eq!(votes(&db, 1).await, [11, 2, 17]);
    let done = db
        .update_many::<Thread>(|_| odm::Filter::all())
        .set(
            |t| {
                t.comments()
                    .matching(|c| c.who().eq("jane") & c.votes().gt(15) | c.votes().eq(4))
                    .votes()
            },
            0,
        )
        .await
        .unwrap();
    assert_eq!((done.matched, done.modified), (2, 2));
    assert_eq!(votes(&db, 1).await, [11, 2, 0]);
    assert_eq!(votes(&db, 2).await, [0]);
    // No element matches, so the document does not change.
    let done = db
        .update::<Thread>(2)
        .set(|t| t.comments().matching(|c| c.who().eq("kim")).votes(), 9)
        .await
        .unwrap();
    assert_eq!((done.matched, done.modified), (1, 0));
    // A condition of `None` matches every element.
    let condition: Option<&str> = None;
    db.update::<Thread>(1)
        .set(
            |t| {
                t.comments()
                    .matching(|c| condition.map(|who| c.who().eq(who)))
                    .votes()
            },
            3,
        )
        .await
        .unwrap();
    assert_eq!(votes(&db, 1).await, [3, 3, 3]);
    // Arrays of plain values, with combined conditions, and replacement of whole elements.
    db.update::<Thread>(1)
        .set(
            |t| t.grades().matching(|g| !g.eq(85) & (g.eq(90) | g.gt(99))),
            0,
        )
        .set(
            |t| t.comments().matching(|c| c.who().eq("joe")),
            comment("new", 1, &[]),
        )
        .await
        .unwrap();
    let thread = db.get::<Thread>(1).await.unwrap();
    assert_eq!(thread.grades, [85, 0, 0, 0]);
    assert_eq!(thread.comments[1], comment("new", 1, &[]));
}

pub async fn nested_arrays_and_several_conditions(fixture: Fixture) {
    let db = insert_threads(&fixture).await;
    db.update::<Thread>(1)
        .inc(
            |t| {
                t.comments()
                    .matching(|c| c.who().eq("jane"))
                    .replies()
                    .matching(|r| r.who().eq("joe"))
                    .votes()
            },
            1,
        )
        .inc(|t| t.comments().matching(|c| c.votes().gte(2)).votes(), 100)
        .await
        .unwrap();
    let thread = db.get::<Thread>(1).await.unwrap();
    let replies = |thread: &Thread| -> Vec<Vec<i64>> {
        let each = |comment: &Comment| comment.replies.iter().map(|reply| reply.votes).collect();
        thread.comments.iter().map(each).collect()
    };
    assert_eq!(replies(&thread), [vec![1, 5], vec![0], vec![4]]);
    assert_eq!(votes(&db, 1).await, [1, 102, 107]);
    // Every element of the outer array and some elements of the inner array. Also the same condition at both levels.
    db.update::<Thread>(1)
        .set(
            |t| {
                t.comments()
                    .all()
                    .replies()
                    .matching(|r| r.votes().lt(2))
                    .votes()
            },
            9,
        )
        .await
        .unwrap();
    assert_eq!(
        replies(&db.get::<Thread>(1).await.unwrap()),
        [vec![9, 5], vec![9], vec![4]]
    );
    db.update::<Thread>(1)
        .set(
            |t| {
                t.comments()
                    .matching(|c| c.who().eq("joe"))
                    .replies()
                    .matching(|r| r.who().eq("joe"))
                    .votes()
            },
            77,
        )
        .set(
            |t| {
                t.comments()
                    .matching(|c| c.who().eq("jane"))
                    .replies()
                    .at(0)
                    .votes()
            },
            66,
        )
        .await
        .unwrap();
    assert_eq!(
        replies(&db.get::<Thread>(1).await.unwrap()),
        [vec![66, 5], vec![9], vec![66]]
    );
    // Updates the values below 2 in each row that contains a 2.
    db.update::<Thread>(1)
        .set(
            |t| {
                t.grid()
                    .matching(|row| row.contains(2))
                    .matching(|n| n.lt(2))
            },
            8,
        )
        .await
        .unwrap();
    assert_eq!(
        db.get::<Thread>(1).await.unwrap().grid,
        [vec![8, 2], vec![3], vec![]]
    );
}

/// Equal conditions share an array filter, and different conditions have separate array filters.
pub async fn equal_conditions_share_an_array_filter(fixture: Fixture) {
    let recorder = std::sync::Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.insert(thread(1, vec![comment("jane", 1, &[])]))
        .await
        .unwrap();
    recorder.clear();
    db.update::<Thread>(1)
        .inc(|t| t.comments().matching(|c| c.who().eq("jane")).votes(), 1)
        .push(
            |t| t.comments().matching(|c| c.who().eq("jane")).replies(),
            reply("x", 0),
        )
        .set(|t| t.grades().matching(|g| g.lt(90)), 90)
        .await
        .unwrap();
    let operations = recorder.operations();
    let Some(Operation::Update(update)) = operations.first() else {
        panic!("{operations:?}");
    };
    let odm::backend::operation::DocumentChange::Operators {
        update,
        array_filters,
    } = &update.change
    else {
        panic!("{update:?}");
    };
    let readable = |raw: &bson::RawDocumentBuf| bson::Document::try_from(raw.clone()).unwrap();
    assert_eq!(
        array_filters.iter().map(readable).collect::<Vec<_>>(),
        [
            doc! { "e0.who": { "$eq": "jane" } },
            doc! { "e1": { "$lt": 90 } }
        ]
    );
    let update = readable(update);
    assert_eq!(
        update.get_document("$inc").unwrap(),
        &doc! { "comments.$[e0].votes": 1_i64 }
    );
    assert_eq!(
        update.get_document("$set").unwrap(),
        &doc! { "grades.$[e1]": 90 }
    );
    let thread = db.get::<Thread>(1).await.unwrap();
    assert_eq!(
        (thread.comments[0].votes, thread.comments[0].replies.len()),
        (2, 1)
    );
    assert_eq!(thread.grades[0], 90);
}

/// `first_matching` adds the condition to the filter: if no element matches, the update is not applied.
pub async fn the_first_element_is_updated(fixture: Fixture) {
    let db = insert_threads(&fixture).await;
    let done = db
        .update::<Thread>(1)
        .inc(
            |t| {
                t.comments()
                    .first_matching(|c| c.who().eq("jane") & c.votes().gt(1))
                    .votes()
            },
            10,
        )
        .push(
            |t| {
                t.comments()
                    .first_matching(|c| c.who().eq("jane") & c.votes().gt(1))
                    .tags()
            },
            "hot",
        )
        .await
        .unwrap();
    assert!(done.is_applied());
    assert_eq!(votes(&db, 1).await, [1, 2, 17]);
    assert_eq!(db.get::<Thread>(1).await.unwrap().comments[2].tags, ["hot"]);
    // Only the first of several matching elements changes, with the elements inside.
    db.update::<Thread>(1)
        .set(
            |t| {
                t.comments()
                    .first_matching(|c| c.who().eq("jane"))
                    .replies()
                    .all()
                    .votes()
            },
            50,
        )
        .set(|t| t.comments().at(1).votes(), 3)
        .await
        .unwrap();
    let thread = db.get::<Thread>(1).await.unwrap();
    assert_eq!(
        thread.comments[0].replies,
        [reply("joe", 50), reply("kim", 50)]
    );
    assert_eq!(thread.comments[2].replies, [reply("joe", 3)]);
    assert_eq!(votes(&db, 1).await, [1, 3, 17]);
    // No matching element means not applied, and not `NotFound`.
    let nothing = db
        .update::<Thread>(2)
        .set(
            |t| t.comments().first_matching(|c| c.who().eq("jane")).votes(),
            0,
        )
        .await
        .unwrap();
    assert!(!nothing.is_applied());
    // `update_many` changes the first matching element in each document, and skips documents without a matching element.
    let done = db
        .update_many::<Thread>(|_| odm::Filter::all())
        .set(
            |t| t.comments().first_matching(|c| c.who().eq("joe")).votes(),
            99,
        )
        .set(|t| t.grades().at(0), 1)
        .await
        .unwrap();
    assert_eq!((done.matched, done.modified), (2, 2));
    assert_eq!(
        (votes(&db, 1).await, votes(&db, 2).await),
        (vec![1, 99, 17], vec![99])
    );
    let done = db
        .update_many::<Thread>(|_| odm::Filter::all())
        .set(
            |t| t.comments().first_matching(|c| c.who().eq("jane")).votes(),
            0,
        )
        .await
        .unwrap();
    assert_eq!((done.matched, done.modified), (1, 1));
    // Arrays of plain values, and a first matching element below an index.
    db.update::<Thread>(1)
        .set(|t| t.grades().first_matching(|g| g.gte(90)), 0)
        .set(|t| t.voters().at(0), "first")
        .await
        .unwrap();
    assert_eq!(db.get::<Thread>(1).await.unwrap().grades, [1, 0, 90, 100]);
    db.update::<Thread>(1)
        .set(
            |t| {
                t.comments()
                    .at(0)
                    .replies()
                    .first_matching(|r| r.who().eq("kim"))
                    .votes()
            },
            -1,
        )
        .await
        .unwrap();
    assert_eq!(
        db.get::<Thread>(1).await.unwrap().comments[0].replies[1].votes,
        -1
    );
}

/// Without a condition, a missing document is `NotFound`. A missing element is not applied, or is a `NotApplied` error if the
/// caller expects a document.
pub async fn missing_elements_differ_from_missing_documents(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let stored = thread(1, vec![comment("joe", 0, &[])]);
    db.insert(stored.clone()).await.unwrap();
    let jane = |t: odm::Fields<Thread>| t.comments().first_matching(|c| c.who().eq("jane")).votes();
    let update = |id: i64| db.update::<Thread>(id).set(jane, 1);
    assert!(!update(1).await.unwrap().is_applied());
    let error = update(2).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");

    let error = update(1).returning_after().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotApplied, "{error}");
    assert_eq!(error.model(), Some("Thread"));
    let error = update(2).returning_before().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let error = update(1).or_insert(stored.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotApplied, "{error}");
    let either = update(1).when(|_| None::<odm::Filter<Thread>>);
    let either = either.returning_after().await;
    assert!(matches!(either, Ok(NotApplied)));
    let when = update(1).when(|t| t.id().gt(0)).returning_after().await;
    assert!(matches!(when, Ok(NotApplied)));

    let report = db
        .bulk()
        .unordered()
        .add(update(1))
        .add(update(2))
        .await
        .unwrap();
    assert!(matches!(report.results[0], BulkResult::NotApplied));
    assert!(
        report.results[1]
            .error()
            .is_some_and(|error| error.kind() == ErrorKind::NotFound)
    );
    assert_eq!(db.get::<Thread>(1).await.unwrap(), stored);
}

/// A second condition on an array could bind `$` to the wrong element: such an update fails before any operation.
pub async fn ambiguous_first_matching_is_an_error(fixture: Fixture) {
    let recorder = std::sync::Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.insert(thread(
        1,
        vec![comment("joe", 0, &[]), comment("jane", 1, &[])],
    ))
    .await
    .unwrap();
    recorder.clear();
    let by_id = || db.update::<Thread>(1);
    let jane = |t: odm::Fields<Thread>| t.comments().first_matching(|c| c.who().eq("jane")).votes();
    let none: Option<&str> = None;
    let by_id_when = || by_id().when(|_| None::<odm::Filter<Thread>>);
    for wrong in [
        by_id_when().set(jane, 1).set(
            |t| t.comments().first_matching(|c| c.who().eq("joe")).votes(),
            1,
        ),
        by_id_when()
            .set(jane, 1)
            .set(|t| t.grades().first_matching(|g| g.eq(100)), 1),
        by_id().set(jane, 1).when(|t| t.voters().contains("ann")),
        by_id().set(jane, 1).when(|t| t.comments().votes().gt(0)),
        by_id()
            .set(jane, 1)
            .when(|t| t.voters().contains("ann") | t.id().eq(1)),
        by_id().set(jane, 1).when(|t| !t.voters().excludes("ann")),
        by_id()
            .set(jane, 1)
            .when(|t| t.comments().any(|c| c.votes().eq(0))),
        by_id_when().set(|t| t.grades().first_matching(|g| g.eq(85) | g.eq(100)), 1),
        by_id_when().set(|t| t.grades().first_matching(|g| none.map(|_| g.eq(85))), 1),
    ] {
        let error = wrong.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(error.model(), Some("Thread"));
    }
    let many = db
        .update_many::<Thread>(|t| t.voters().contains("ann"))
        .set(jane, 1);
    assert_eq!(many.await.unwrap_err().kind(), ErrorKind::Invalid);
    assert!(recorder.operations().is_empty());
    // Conditions that match without an array element do not bind `$`.
    let done = by_id()
        .set(jane, 5)
        .when(|t| t.voters().excludes("zoe") & !t.voters().contains("yan") & t.id().gt(0))
        .add_to_set(|t| t.voters(), "zoe")
        .await
        .unwrap();
    assert!(done.is_applied());
    assert_eq!(votes(&db, 1).await, [0, 5]);
    let second = by_id()
        .set(jane, 6)
        .when(|t| t.voters().excludes("zoe"))
        .await
        .unwrap();
    assert!(!second.is_applied());
}

/// The maximum length of an inner array is checked for the changed elements only.
pub async fn elements_stay_within_their_max(fixture: Fixture) {
    let db = insert_threads(&fixture).await;
    db.update::<Thread>(1)
        .push_each(
            |t| t.comments().matching(|c| c.who().eq("joe")).tags(),
            ["a", "b"],
        )
        .await
        .unwrap();
    // Joe's tags are full. Jane's tags have room.
    db.update::<Thread>(1)
        .push(
            |t| t.comments().matching(|c| c.who().eq("jane")).tags(),
            "c",
        )
        .await
        .unwrap();
    db.update::<Thread>(1)
        .add_to_set(
            |t| t.comments().first_matching(|c| c.who().eq("jane")).tags(),
            "d",
        )
        .await
        .unwrap();
    for full in [
        db.update::<Thread>(1)
            .push(|t| t.comments().all().tags(), "x"),
        // Joe's tags have an "a" already and need no room, but Jane's first tags are full without an "a".
        db.update::<Thread>(1)
            .add_to_set(|t| t.comments().all().tags(), "a"),
        db.update::<Thread>(1)
            .push(|t| t.comments().matching(|c| c.votes().eq(2)).tags(), "x"),
        db.update::<Thread>(1).push(
            |t| t.comments().first_matching(|c| c.who().eq("jane")).tags(),
            "x",
        ),
    ] {
        let error = full.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooManyElements, "{error}");
    }
    let many = db
        .update_many::<Thread>(|_| odm::Filter::all())
        .push(|t| t.comments().matching(|c| c.votes().eq(2)).tags(), "x");
    assert_eq!(many.await.unwrap_err().kind(), ErrorKind::TooManyElements);
    let thread = db.get::<Thread>(1).await.unwrap();
    let tags: Vec<_> = thread
        .comments
        .iter()
        .map(|comment| comment.tags.join(""))
        .collect();
    assert_eq!(tags, ["cd", "ab", "c"]);
}

/// A push with a position, an order and a slice keeps the best elements in a single atomic step.
pub async fn pushes_have_a_position_an_order_and_a_slice(fixture: Fixture) {
    let db = insert_threads(&fixture).await;
    let grades = |db: Db| async move { db.get::<Thread>(1).await.unwrap().grades };
    db.update::<Thread>(1)
        .push_with(|t| t.grades(), [1, 2], |push| push.at(1))
        .await
        .unwrap();
    assert_eq!(grades(db.clone()).await, [85, 1, 2, 100, 90, 100]);
    db.update::<Thread>(1)
        .push_with(|t| t.grades(), [3], |push| push.before_last(1))
        .await
        .unwrap();
    assert_eq!(grades(db.clone()).await, [85, 1, 2, 100, 90, 3, 100]);
    db.update::<Thread>(1)
        .push_with(|t| t.grades(), [4], |push| push.before_last(0))
        .await
        .unwrap();
    assert_eq!(grades(db.clone()).await, [85, 1, 2, 100, 90, 3, 100, 4]);
    db.update::<Thread>(1)
        .push_with(
            |t| t.grades(),
            [50],
            |push| push.sort(|g| g.desc()).keep_first(4),
        )
        .await
        .unwrap();
    assert_eq!(grades(db.clone()).await, [100, 100, 90, 85]);
    // A push without values cuts the existing array.
    db.update::<Thread>(1)
        .push_with(|t| t.grades(), [0_i32; 0], |push| push.keep_last(2))
        .await
        .unwrap();
    assert_eq!(grades(db.clone()).await, [90, 85]);
    db.update::<Thread>(1)
        .push_with(|t| t.grades(), [7], |push| push.keep_first(0))
        .await
        .unwrap();
    assert_eq!(grades(db.clone()).await, [0_i32; 0]);

    // An order by fields of the elements. The slice keeps the maximum length of three, so that the write does not check for room.
    for (name, votes) in [("a", 1), ("b", 5), ("c", 3), ("d", 5), ("e", 4)] {
        db.update::<Thread>(1)
            .push_with(
                |t| t.latest(),
                [reply(name, votes)],
                |push| {
                    push.sort(|r| (r.votes().desc(), r.who().asc()))
                        .keep_first(3)
                },
            )
            .await
            .unwrap();
    }
    assert_eq!(
        who(&db.get::<Thread>(1).await.unwrap().latest),
        ["b", "d", "e"]
    );
    let all = ["v", "w", "x", "y", "z"].map(|name| reply(name, 9));
    db.update::<Thread>(1)
        .push_with(|t| t.latest(), &all, |push| push.keep_last(3))
        .await
        .unwrap();
    assert_eq!(
        who(&db.get::<Thread>(1).await.unwrap().latest),
        ["x", "y", "z"]
    );
    // A push without a slice, or with a slice above the maximum length, needs room.
    for push in [
        db.update::<Thread>(1)
            .push_with(|t| t.latest(), [reply("q", 1)], |push| push.keep_last(4)),
        db.update::<Thread>(1)
            .push_with(|t| t.latest(), [reply("q", 1)], |push| push.at(0)),
    ] {
        assert_eq!(push.await.unwrap_err().kind(), ErrorKind::TooManyElements);
    }
    // A push into an array inside matching elements.
    db.update::<Thread>(1)
        .push_with(
            |t| t.comments().matching(|c| c.who().eq("jane")).replies(),
            [reply("ann", 4)],
            |push| push.sort(|r| r.who().asc()),
        )
        .await
        .unwrap();
    let thread = db.get::<Thread>(1).await.unwrap();
    assert_eq!(who(&thread.comments[0].replies), ["ann", "joe", "kim"]);
    assert_eq!(who(&thread.comments[1].replies), ["jane"]);
    for twice in [
        db.update::<Thread>(1).push(|t| t.grades(), 1).push_with(
            |t| t.grades(),
            [2],
            |push| push.at(0),
        ),
        db.update::<Thread>(1)
            .push_with(|t| t.grades(), [2], |push| push.at(0))
            .push(|t| t.grades(), 1),
        db.update::<Thread>(1).push_with(
            |t| t.latest(),
            [reply("a", 1)],
            |push| push.sort(|r| (r.asc(), r.who().asc())),
        ),
    ] {
        assert_eq!(twice.await.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

/// Concurrent pushes keep the best elements, and no push fails.
pub async fn concurrent_pushes_keep_the_best(fixture: Fixture) {
    let db = insert_threads(&fixture).await;
    let tasks: Vec<_> = (0..12)
        .map(|n| {
            let db = db.clone();
            tokio::spawn(async move {
                let push = db.update::<Thread>(1).push_with(
                    |t| t.latest(),
                    [reply(&format!("r{n}"), n)],
                    |push| push.sort(|r| r.votes().desc()).keep_first(3),
                );
                push.await.unwrap()
            })
        })
        .collect();
    for task in tasks {
        assert!(task.await.unwrap().is_applied());
    }
    assert_eq!(
        who(&db.get::<Thread>(1).await.unwrap().latest),
        ["r11", "r10", "r9"]
    );
}
