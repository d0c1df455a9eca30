use std::{sync::Arc, time::Duration};

use odm::{
    ErrorKind,
    backend::{Fault, Faults, operation::Operation},
    bson::doc,
    prelude::*,
};

use crate::{
    Fixture,
    models::{Address, Comment, Db, Person, Post, Status},
};

fn person(name: &str, ssn: &str, addresses: usize) -> Person {
    let address = |n| Address {
        street: format!("street {n}"),
        city: "Bonn".into(),
        cc: "de".into(),
    };
    Person {
        id: ObjectId::new(),
        name: name.into(),
        ssn: ssn.into(),
        addresses: (0..addresses).map(address).collect(),
    }
}

/// Inserts three posts. Post 1 has tags and comments.
async fn blog(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    let post = Post::new(1, "alex", &["a", "b"])
        .comment("jane", 3)
        .comment("joe", 9);
    db.insert_many([post, Post::new(2, "alex", &[]), Post::new(3, "joe", &[])])
        .await
        .unwrap();
    db
}

pub async fn insert_returns_the_document(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let jane = person("jane", "1", 2);
    assert_eq!(db.insert(jane.clone()).await.unwrap(), jane);
    assert_eq!(db.get::<Person>(jane.id).await.unwrap(), jane);
    let many = db
        .insert_many([person("joe", "2", 0), person("jim", "3", 0)])
        .await
        .unwrap();
    assert_eq!(db.get::<Person>(&many[1]).await.unwrap().name, "jim");
    assert_eq!(db.insert_many(Vec::<Person>::new()).await.unwrap(), []);
}

/// A duplicate key error names the model, the collection, the index and the value.
pub async fn a_duplicate_key_is_typed(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let jane = db.insert(person("jane", "1", 0)).await.unwrap();
    let error = db.insert(person("other", "1", 0)).await.unwrap_err();
    assert!(error.is_duplicate_key());
    // A panic of `unwrap` prints this form.
    assert_eq!(format!("{error:?}"), format!("DuplicateKey: {error}"));
    assert_eq!(
        (error.model(), error.collection()),
        (Some("Person"), Some("persons"))
    );
    assert_eq!((error.index(), error.path()), (Some("ssn_1"), Some("ssn")));
    assert_eq!(error.value(), Some(&doc! { "ssn": "1" }.into()));
    assert_eq!(error.inserted(), None);
    let error = db.insert(jane.clone()).await.unwrap_err();
    assert_eq!((error.index(), error.path()), (Some("_id_"), Some("_id")));
    assert_eq!(error.id(), Some(&jane.id.into()));

    let many = [
        person("a", "2", 0),
        person("b", "1", 0),
        person("c", "3", 0),
    ];
    let error = db.insert_many(many).await.unwrap_err();
    assert!(error.is_duplicate_key());
    assert_eq!(error.inserted(), Some(1));
    assert_eq!(db.find::<Person>().count().await.unwrap(), 2);
    // An update can cause a duplicate key error, too.
    let joe = db
        .find::<Person>()
        .filter(|p| p.name().eq("a"))
        .one()
        .await
        .unwrap();
    let error = db
        .update::<Person>(&joe)
        .set(|p| p.ssn(), "1")
        .await
        .unwrap_err();
    assert!(error.is_duplicate_key(), "{error:?}");
}

pub async fn concurrent_inserts_of_one_key_have_one_winner(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let tasks: Vec<_> = (0..16)
        .map(|n| {
            let db = db.clone();
            tokio::spawn(async move { db.insert(person(&format!("p{n}"), "same", 0)).await })
        })
        .collect();
    let mut won = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => won += 1,
            Err(error) => assert!(error.is_duplicate_key(), "{error:?}"),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(db.find::<Person>().count().await.unwrap(), 1);
}

/// A write that exceeds the declared maximum fails and changes no document.
pub async fn an_array_stays_within_its_max(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let error = db.insert(person("jane", "1", 4)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooManyElements);
    assert_eq!(
        (error.model(), error.path()),
        (Some("Person"), Some("addresses"))
    );
    let error = db
        .insert_many([person("a", "1", 1), person("b", "2", 9)])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooManyElements);
    assert_eq!(db.find::<Person>().count().await.unwrap(), 0);

    let jane = db.insert(person("jane", "1", 2)).await.unwrap();
    let home = jane.addresses[0].clone();
    db.update::<Person>(&jane)
        .push(|p| p.addresses(), &home)
        .await
        .unwrap();
    for update in [
        db.update::<Person>(&jane)
            .push(|p| p.addresses(), &home)
            .set(|p| p.name(), "x"),
        db.update::<Person>(&jane)
            .push_each(|p| p.addresses(), [&home, &home, &home, &home]),
        db.update::<Person>(&jane)
            .set(|p| p.addresses(), vec![home.clone(); 4]),
    ] {
        let error = update.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooManyElements);
        assert_eq!(error.path(), Some("addresses"));
    }
    let many = db.update_many::<Person>(|p| p.ssn().eq("1"));
    let error = many.push(|p| p.addresses(), &home).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooManyElements);
    let stored = db.get::<Person>(&jane).await.unwrap();
    assert_eq!((stored.addresses.len(), stored.name.as_str()), (3, "jane"));
    // `add_to_set` needs no room for an existing element.
    db.update::<Person>(&jane)
        .add_to_set(|p| p.addresses(), &home)
        .await
        .unwrap();
    let other = Address {
        city: "Rome".into(),
        ..home
    };
    let full = db
        .update::<Person>(&jane)
        .add_to_set(|p| p.addresses(), &other)
        .await;
    let full = full.unwrap_err();
    assert_eq!(full.kind(), ErrorKind::TooManyElements);
    assert_eq!(full.id(), Some(&jane.id.into()));
    assert!(full.to_string().contains("at most 3 elements"), "{full}");
    let absent = db
        .update::<Person>(ObjectId::new())
        .push(|p| p.addresses(), &other)
        .await;
    assert!(absent.unwrap_err().is_not_found());
}

pub async fn many_documents_stay_within_their_max(fixture: Fixture) {
    let db = blog(&fixture).await;
    let all = || db.update_many::<Post>(|_| odm::Filter::all());
    all().push_each(|p| p.voters(), ["a", "b"]).await.unwrap();
    db.update::<Post>(1).pop_last(|p| p.voters()).await.unwrap();
    // An array may reach the maximum.
    let done = all().push(|p| p.voters(), "c").await.unwrap();
    assert_eq!((done.matched, done.modified), (3, 3));
    // Two arrays are full, so the update fails. The third array stays unchanged.
    let refused = all().push(|p| p.voters(), "d").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooManyElements);
    let posts = db
        .find::<Post>()
        .sort(|p| p.id().asc())
        .all()
        .await
        .unwrap();
    let found: Vec<_> = posts.iter().map(|post| post.voters.len()).collect();
    assert_eq!(found, [2, 3, 3]);
}

/// Concurrent pushes do not exceed the maximum: the check and the push are atomic.
pub async fn concurrent_pushes_stay_within_the_max(fixture: Fixture) {
    let db = blog(&fixture).await;
    let tasks: Vec<_> = (0..12)
        .map(|n| {
            let db = db.clone();
            tokio::spawn(async move {
                db.update::<Post>(2)
                    .push(|p| p.voters(), format!("voter{n}"))
                    .inc(|p| p.votes(), 1)
                    .await
            })
        })
        .collect();
    let mut applied = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => applied += 1,
            Err(error) => assert_eq!(error.kind(), ErrorKind::TooManyElements),
        }
    }
    let post = db.get::<Post>(2).await.unwrap();
    assert_eq!((applied, post.voters.len(), post.votes), (3, 3, 3));
}

pub async fn fields_are_set_and_unset(fixture: Fixture) {
    let db = blog(&fixture).await;
    let done = db
        .update::<Post>(1)
        .set(|p| p.title(), "new")
        .set(|p| p.status(), Status::Draft)
        .set(|p| p.subtitle(), "sub")
        .set(|p| p.rating(), Some(2.5))
        .set(|p| p.scores().key("fun"), 7)
        .set(|p| p.comments().at(0).votes(), 30)
        .set(|p| p.tags(), ["x", "y"])
        .await
        .unwrap();
    assert!(done.is_applied());
    assert_eq!((done.matched, done.modified), (1, 1));
    let post = db.get::<Post>(1).await.unwrap();
    assert_eq!((post.title.as_str(), post.status), ("new", Status::Draft));
    assert_eq!(
        (post.subtitle.as_deref(), post.rating),
        (Some("sub"), Some(2.5))
    );
    assert_eq!(
        (
            post.scores["fun"],
            post.comments[0].votes,
            post.comments[1].votes
        ),
        (7, 30, 9)
    );
    assert_eq!(post.tags, ["x", "y"]);

    db.update::<Post>(1)
        .unset(|p| p.subtitle())
        .set(|p| p.rating(), None)
        .remove_key(|p| p.scores(), "fun")
        .set(|p| p.comments().all().hidden(), true)
        .await
        .unwrap();
    let post = db.get::<Post>(1).await.unwrap();
    assert_eq!(
        (post.subtitle, post.rating, post.scores.len()),
        (None, None, 0)
    );
    assert!(
        post.comments
            .iter()
            .all(|comment| comment.hidden == Some(true))
    );
    // Documents that the updates do not select stay unchanged.
    let untouched = db.get::<Post>(2).await.unwrap();
    assert_eq!(untouched, Post::new(2, "alex", &[]));
}

pub async fn numbers_are_changed(fixture: Fixture) {
    let db = blog(&fixture).await;
    db.update::<Post>(1)
        .inc(|p| p.votes(), 5)
        .inc(|p| p.scores().key("new"), 2)
        .inc(|p| p.comments().all().votes(), -1)
        .bit_or(|p| p.flags(), 0b0110_u32)
        .await
        .unwrap();
    db.update::<Post>(1)
        .mul(|p| p.votes(), 3)
        .bit_and(|p| p.flags(), 0b0011_u32)
        .await
        .unwrap();
    db.update::<Post>(1)
        .bit_xor(|p| p.flags(), 0b1000_u32)
        .await
        .unwrap();
    let post = db.get::<Post>(1).await.unwrap();
    assert_eq!(
        (post.votes, post.scores["new"], post.flags),
        (15, 2, 0b1010)
    );
    assert_eq!((post.comments[0].votes, post.comments[1].votes), (2, 8));
    db.update::<Post>(1)
        .max(|p| p.votes(), 10)
        .min(|p| p.when(), DateTime::from_millis(5))
        .await
        .unwrap();
    db.update::<Post>(1)
        .max(|p| p.comments().at(0).votes(), 99)
        .await
        .unwrap();
    let post = db.get::<Post>(1).await.unwrap();
    assert_eq!(
        (post.votes, post.when, post.comments[0].votes),
        (15, DateTime::from_millis(5), 99)
    );

    let before = DateTime::now();
    db.update::<Post>(1)
        .current_date(|p| p.when())
        .await
        .unwrap();
    let age = db.get::<Post>(1).await.unwrap().when.timestamp_millis() - before.timestamp_millis();
    assert!((-60_000..60_000).contains(&age), "{age} ms");
}

pub async fn arrays_are_changed(fixture: Fixture) {
    let db = blog(&fixture).await;
    db.update::<Post>(1).push(|p| p.tags(), "c").await.unwrap();
    db.update::<Post>(1)
        .push(|p| p.tags(), "d")
        .push(|p| p.tags(), "a")
        .await
        .unwrap();
    assert_eq!(
        db.get::<Post>(1).await.unwrap().tags,
        ["a", "b", "c", "d", "a"]
    );
    db.update::<Post>(1).pull(|p| p.tags(), "a").await.unwrap();
    db.update::<Post>(1)
        .add_each_to_set(|p| p.tags(), ["c", "e"])
        .await
        .unwrap();
    assert_eq!(db.get::<Post>(1).await.unwrap().tags, ["b", "c", "d", "e"]);
    db.update::<Post>(1).pop_first(|p| p.tags()).await.unwrap();
    db.update::<Post>(1).pop_last(|p| p.tags()).await.unwrap();
    assert_eq!(db.get::<Post>(1).await.unwrap().tags, ["c", "d"]);
    db.update::<Post>(1)
        .pull_all(|p| p.tags(), ["d", "x"])
        .await
        .unwrap();
    assert_eq!(db.get::<Post>(1).await.unwrap().tags, ["c"]);
    db.update::<Post>(1)
        .set(|p| p.tags(), ["a", "k", "z"])
        .await
        .unwrap();
    db.update::<Post>(1)
        .pull_where(|p| p.tags(), |t| t.gt("b") & t.lt("m"))
        .await
        .unwrap();
    assert_eq!(db.get::<Post>(1).await.unwrap().tags, ["a", "z"]);

    db.update::<Post>(1)
        .pull_where(|p| p.comments(), |c| c.who().eq("jane") & c.votes().lt(5))
        .await
        .unwrap();
    let comment = Comment {
        who: "kim".into(),
        votes: 1,
        hidden: None,
    };
    db.update::<Post>(1)
        .push(|p| p.comments(), &comment)
        .await
        .unwrap();
    let authors: Vec<_> = db
        .get::<Post>(1)
        .await
        .unwrap()
        .comments
        .into_iter()
        .map(|c| c.who)
        .collect();
    assert_eq!(authors, ["joe", "kim"]);
    // `pull` compares the embedded value, and never reads the value as a condition.
    db.update::<Post>(1)
        .pull(|p| p.comments(), &comment)
        .await
        .unwrap();
    assert_eq!(db.get::<Post>(1).await.unwrap().comments.len(), 1);
}

pub async fn update_many_by_condition(fixture: Fixture) {
    let db = blog(&fixture).await;
    let done = db
        .update_many::<Post>(|p| p.author().eq("alex"))
        .set(|p| p.votes(), 9)
        .await
        .unwrap();
    assert_eq!((done.matched, done.modified), (2, 2));
    let second = db
        .update_many::<Post>(|p| p.author().eq("alex"))
        .set(|p| p.votes(), 9)
        .await
        .unwrap();
    assert_eq!((second.matched, second.modified), (2, 0));
    let none = db
        .update_many::<Post>(|p| p.author().eq("nobody"))
        .set(|p| p.votes(), 1)
        .await
        .unwrap();
    assert!(!none.is_applied());
    assert_eq!(
        db.find::<Post>()
            .filter(|p| p.votes().eq(9))
            .count()
            .await
            .unwrap(),
        2
    );
}

/// Concurrent attempts count a voter once, because the condition and the update are atomic.
pub async fn conditions_and_updates_are_atomic(fixture: Fixture) {
    let db = blog(&fixture).await;
    let vote = |db: Db| async move {
        let update = db.update::<Post>(1).when(|p| p.voters().excludes("calvin"));
        update
            .push(|p| p.voters(), "calvin")
            .inc(|p| p.votes(), 1)
            .await
            .unwrap()
            .is_applied()
    };
    let tasks: Vec<_> = (0..8).map(|_| tokio::spawn(vote(db.clone()))).collect();
    let mut applied = 0;
    for task in tasks {
        applied += i32::from(task.await.unwrap());
    }
    assert_eq!(applied, 1);
    assert_eq!(db.get::<Post>(1).await.unwrap().votes, 1);
    let refused = db
        .update::<Post>(1)
        .when(|p| p.votes().gt(5))
        .inc(|p| p.votes(), 1)
        .await
        .unwrap();
    assert_eq!(
        refused.expect_applied().unwrap_err().kind(),
        ErrorKind::NotApplied
    );
    let absent = db.update::<Post>(9).inc(|p| p.votes(), 1).await;
    assert!(absent.unwrap_err().is_not_found());
    let nothing = db.update::<Post>(1).await;
    assert_eq!(nothing.unwrap_err().kind(), ErrorKind::Invalid);
}

pub async fn delete_one_and_many(fixture: Fixture) {
    let db = blog(&fixture).await;
    assert_eq!(db.delete::<Post>(3).await.unwrap().deleted, 1);
    assert_eq!(db.delete::<Post>(3).await.unwrap().deleted, 0);
    assert_eq!(
        db.delete::<Post>(1)
            .when(|p| p.votes().gt(0))
            .await
            .unwrap()
            .deleted,
        0
    );
    assert_eq!(
        db.delete_many::<Post>(|p| p.author().eq("alex"))
            .await
            .unwrap()
            .deleted,
        2
    );
    assert_eq!(db.find::<Post>().count().await.unwrap(), 0);
}

/// A write completes even if the caller drops the future.
pub async fn a_dropped_write_is_finished(fixture: Fixture) {
    let faults = Faults::new(fixture.backend());
    let db = Db::with_backend(Arc::new(faults.clone()));
    faults.inject(
        1,
        Operation::is_write,
        Fault::Delay(Duration::from_millis(100)),
    );
    let gave_up = tokio::time::timeout(
        Duration::from_millis(10),
        db.insert(Post::new(1, "alex", &["a"])).into_future(),
    );
    assert!(gave_up.await.is_err());
    let stored = tokio::time::timeout(Duration::from_secs(10), async {
        loop {
            if let Some(post) = db.find_by_id::<Post>(1).await.unwrap() {
                return post;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert_eq!(stored.await.unwrap(), Post::new(1, "alex", &["a"]));
}

/// If the answer of a write is lost, the caller gets a connection error, although the write has happened.
pub async fn a_lost_answer_is_a_connection_error(fixture: Fixture) {
    let faults = Faults::new(fixture.backend());
    let db = Db::with_backend(Arc::new(faults.clone()));
    faults.inject(1, Operation::is_write, Fault::lost_answer());
    let error = db.insert(Post::new(1, "alex", &[])).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.model()),
        (ErrorKind::Connection, Some("Post"))
    );
    assert!(db.find_by_id::<Post>(1).await.unwrap().is_some());
}
