//! Tests of overflow arrays of references with inverses: references and inverses agree, whether elements are resident or spilled.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use odm::{
    ErrorKind,
    backend::{
        Recorder,
        operation::{DocumentChange, Operation, UpdateOperation},
    },
    bson::{RawArrayBuf, RawDocumentBuf, rawdoc},
    check::{FindingKind, RepairOutcome},
    prelude::*,
};
use odm_tests::assert_clean;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Fixture;
use crate::crash::{CrashTest, Write};

/// A user document. The references and the inverse both overflow, and point to the same model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "users")]
struct User {
    #[serde(rename = "_id")]
    id: i64,
    writes: i64,
    #[reference(inverse = followers, on_delete = pull, overflow(after = 2, into = "more_follows", flag = "more_follows"))]
    follows: Overflow<Ref<User>>,
    #[reference(inverse_of = follows, overflow(after = 2, into = "more_followers", flag = "more_followers"))]
    followers: Overflow<Ref<User>>,
}

/// A post document. The references prevent the delete of a topic, and the inverse has a maximum length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "posts")]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = posts, overflow(after = 2, into = "more_topics"))]
    topics: Overflow<Ref<Topic>>,
    /// A second reference with a delete rule.
    #[reference(on_delete = nullify)]
    author: Option<Ref<User>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "topics")]
struct Topic {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = topics, max = 3)]
    posts: Vec<Ref<Post>>,
}

/// A crate of things. Each thing is in a single crate, and a delete of any thing cascades to the crate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "boxes")]
struct Crate {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = place, on_delete = cascade, overflow(after = 2, into = "more_things"))]
    things: Overflow<Ref<Thing>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "things")]
struct Thing {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = things)]
    place: Option<Ref<Crate>>,
}

/// A fan with two overflow arrays that point to the same model. Both models have a tenant and a soft delete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "fans", scope = tenant, soft_delete, version)]
struct Fan {
    #[serde(rename = "_id")]
    id: i64,
    tenant: String,
    version: i64,
    deleted_at: Option<DateTime>,
    #[reference(inverse = liked_by, overflow(after = 2, into = "more_likes", flag = "has_likes"))]
    likes: Overflow<Ref<Song>>,
    #[reference(inverse = wanted_by, overflow(after = 3, into = "more_wants", flag = "has_wants"))]
    wants: Overflow<Ref<Song>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "songs", scope = tenant, soft_delete)]
struct Song {
    #[serde(rename = "_id")]
    id: i64,
    tenant: String,
    deleted_at: Option<DateTime>,
    #[reference(inverse_of = likes, overflow(after = 2, into = "more_fans"))]
    liked_by: Overflow<Ref<Fan>>,
    #[reference(inverse_of = wants, max = 50)]
    wanted_by: Vec<Ref<Fan>>,
}

#[derive(Schema)]
#[schema(models(User, Post, Topic, Crate, Thing, Fan, Song))]
struct Network;
type Db = odm::Database<Network>;

fn refs<T: Document<Id = i64>>(ids: impl IntoIterator<Item = i64>) -> Vec<Ref<T>> {
    ids.into_iter().map(Ref::new).collect()
}

fn ids<T: Document<Id = i64>>(refs: &[Ref<T>]) -> Vec<i64> {
    refs.iter().map(|one| *one.id()).collect()
}

fn user(id: i64, follows: impl IntoIterator<Item = i64>) -> NewUser {
    NewUser {
        id,
        writes: 0,
        follows: refs(follows).into(),
    }
}

fn post(id: i64, topics: impl IntoIterator<Item = i64>) -> Post {
    Post {
        id,
        topics: refs(topics).into(),
        author: None,
    }
}

/// Inserts users with the ids `1..=people` and no references.
async fn insert_people(db: &Db, people: i64) {
    db.insert_many((1..=people).map(|id| user(id, [])))
        .await
        .unwrap();
}

async fn open_with_indexes(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db
}

async fn follows(db: &Db, id: i64) -> Vec<i64> {
    let all = db.get::<User>(id).elements(|u| u.follows()).all().await;
    ids(&all.unwrap())
}

async fn followers(db: &Db, id: i64) -> BTreeSet<i64> {
    let all = db.get::<User>(id).elements(|u| u.followers()).all().await;
    let all = ids(&all.unwrap());
    let once: BTreeSet<_> = all.iter().copied().collect();
    assert_eq!(once.len(), all.len(), "{id} is followed twice: {all:?}");
    once
}

/// Asserts that exactly the listed users follow exactly the listed ids, and that the inverses agree.
async fn assert_follows(db: &Db, expected: &[(i64, &[i64])]) {
    let expected = expected.iter().map(|(id, all)| (*id, all.to_vec()));
    assert_follow_map(db, &expected.collect()).await;
}

async fn assert_follow_map(db: &Db, expected: &BTreeMap<i64, Vec<i64>>) {
    let mut followers_of = BTreeMap::<i64, BTreeSet<i64>>::new();
    for (id, all) in expected {
        for followed in all {
            followers_of.entry(*followed).or_default().insert(*id);
        }
    }
    for user in db.find::<User>().all().await.unwrap() {
        let id = user.id;
        let whom = expected.get(&id).cloned().unwrap_or_default();
        assert_eq!(follows(db, id).await, whom, "whom {id} follows");
        let expected_followers = followers_of.get(&id).cloned().unwrap_or_default();
        assert_eq!(
            followers(db, id).await,
            expected_followers,
            "who follows {id}"
        );
        assert_eq!(
            user.followers.len(),
            expected_followers.len() as u64,
            "how many follow {id}"
        );
    }
    assert_clean(db).await;
}

pub async fn every_update_maintains_inverses(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    insert_people(&db, 20).await;
    let update = |id| db.update::<User>(id).inc(|u| u.writes(), 1);

    update(1).push(|u| u.follows(), Ref::new(2)).await.unwrap();
    assert_follows(&db, &[(1, &[2])]).await;
    // The elements go into the document, into the tail and into chunk documents.
    update(1)
        .push_each(|u| u.follows(), refs(3..=16))
        .await
        .unwrap();
    update(3)
        .push_each(|u| u.follows(), refs([2, 3]))
        .await
        .unwrap();
    let all: Vec<_> = (2..=16).collect();
    assert_follows(&db, &[(1, &all), (3, &[2, 3])]).await;

    update(1)
        .add_each_to_set(|u| u.follows(), refs([2, 9, 16, 17, 1]))
        .await
        .unwrap();
    let all: Vec<_> = (2..=17).chain([1]).collect();
    assert_follows(&db, &[(1, &all), (3, &[2, 3])]).await;

    // Pull from the document, the tail and the chunk documents, and pull an id that is not in the array.
    update(1)
        .pull_all(|u| u.follows(), refs([2, 5, 17, 20]))
        .await
        .unwrap();
    update(3).pull(|u| u.follows(), Ref::new(3)).await.unwrap();
    let all = [3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 1];
    assert_follows(&db, &[(1, &all), (3, &[2])]).await;

    // A pull of the elements that match a condition.
    update(1)
        .pull_where(|u| u.follows(), |one| one.ne(Ref::new(7)))
        .await
        .unwrap();
    assert_follows(&db, &[(1, &[7]), (3, &[2])]).await;

    update(1).set(|u| u.follows(), refs(6..=12)).await.unwrap();
    update(3).set(|u| u.follows(), refs([1, 3])).await.unwrap();
    assert_follows(&db, &[(1, &[6, 7, 8, 9, 10, 11, 12]), (3, &[1, 3])]).await;
    // The replacement spills different elements.
    update(1)
        .set(|u| u.follows(), refs([12, 11, 6, 20, 4]))
        .await
        .unwrap();
    update(3).set(|u| u.follows(), refs([])).await.unwrap();
    assert_follows(&db, &[(1, &[12, 11, 6, 20, 4])]).await;

    // An update of several documents, which pushes a second 6 to the array of user 1.
    db.update_many::<User>(|u| u.id().lt(4))
        .push_each(|u| u.follows(), refs([6, 5]))
        .await
        .unwrap();
    assert_follows(
        &db,
        &[(1, &[12, 11, 6, 20, 4, 6, 5]), (2, &[6, 5]), (3, &[6, 5])],
    )
    .await;
    db.update_many::<User>(|u| u.id().lt(3))
        .pull(|u| u.follows(), Ref::new(6))
        .await
        .unwrap();
    assert_follows(&db, &[(1, &[12, 11, 20, 4, 5]), (2, &[5]), (3, &[6, 5])]).await;

    // An update with a condition that does not match changes neither the references nor the inverses.
    let kept = db.update::<User>(1).when(|u| u.writes().lt(0));
    let kept = kept.set(|u| u.follows(), refs(1..=9)).await.unwrap();
    assert!(!kept.is_applied(), "{kept:?}");
    // An update of a missing document changes neither references nor inverses.
    let nobody = db.update_many::<User>(|u| u.id().eq(99));
    let nobody = nobody.push(|u| u.follows(), Ref::new(8)).await.unwrap();
    assert_eq!(nobody.matched, 0);
    assert_follows(&db, &[(1, &[12, 11, 20, 4, 5]), (2, &[5]), (3, &[6, 5])]).await;
    assert_eq!(db.get::<User>(1).await.unwrap().writes, 7);
}

pub async fn inserts_and_deletes_maintain_inverses(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    insert_people(&db, 12).await;
    db.insert(user(20, [1, 2])).await.unwrap();
    db.insert(user(21, 1..=12)).await.unwrap();
    db.insert_many([user(22, [3]), user(23, 1..=12), user(24, [])])
        .await
        .unwrap();
    let all: Vec<_> = (1..=12).collect();
    assert_follows(&db, &[(20, &[1, 2]), (21, &all), (22, &[3]), (23, &all)]).await;
    // Deleted targets leave the document, the tail and the chunk documents.
    for gone in [1, 6, 12] {
        assert_eq!(db.delete::<User>(gone).await.unwrap().deleted, 1);
    }
    let remaining = [2, 3, 4, 5, 7, 8, 9, 10, 11];
    assert_follows(
        &db,
        &[(20, &[2]), (21, &remaining), (22, &[3]), (23, &remaining)],
    )
    .await;
    // A deleted referrer leaves no inverse entries that would block a new document with the same `_id`.
    db.delete::<User>(21).await.unwrap();
    assert_follows(&db, &[(20, &[2]), (22, &[3]), (23, &remaining)]).await;
    db.insert(user(21, [2, 24])).await.unwrap();
    assert_follows(
        &db,
        &[(20, &[2]), (21, &[2, 24]), (22, &[3]), (23, &remaining)],
    )
    .await;
    // A single delete of referrers and targets.
    db.delete_many::<User>(|u| u.id().gt(8)).await.unwrap();
    assert_follows(&db, &[]).await;
    assert_eq!(db.find::<User>().count().await.unwrap(), 6);
}

pub async fn joins_use_references_and_inverses(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    insert_people(&db, 12).await;
    db.insert_many([user(20, 1..=12), user(21, 5..=9)])
        .await
        .unwrap();
    let found = db
        .find::<User>()
        .filter(|u| u.id().gte(20))
        .sort(|u| u.id().asc())
        .with(|u| u.follows())
        .all()
        .await
        .unwrap();
    let followed: Vec<Vec<i64>> = found
        .iter()
        .map(|(_, whom)| whom.loaded().map(|other| other.id).collect())
        .collect();
    assert_eq!(followed, [(1..=12).collect::<Vec<_>>(), (5..=9).collect()]);
    let found = db
        .find::<User>()
        .filter(|u| u.id().eq(7))
        .with(|u| u.followers())
        .all()
        .await
        .unwrap();
    let followers: Vec<_> = found[0].1.loaded().map(|user| user.id).collect();
    assert_eq!(followers, [20, 21]);
}

pub async fn failed_inverse_updates_reject_the_write(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    insert_people(&db, 12).await;
    db.insert_many((1..=12).map(|id| NewTopic { id }))
        .await
        .unwrap();
    db.insert_many((1..=12).map(|id| NewThing { id }))
        .await
        .unwrap();
    db.insert_many([user(20, 1..=8), user(21, [])])
        .await
        .unwrap();
    for id in [20, 21] {
        let update = || db.update::<User>(id).inc(|u| u.writes(), 1);
        let (push, add, set) = (update(), update(), update());
        let targets = || refs([9, 10, 99]);
        for done in [
            push.push_each(|u| u.follows(), targets()).await,
            add.add_each_to_set(|u| u.follows(), targets()).await,
            set.set(|u| u.follows(), targets()).await,
        ] {
            let error = done.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Dangling, "{error}");
        }
        assert_eq!(db.get::<User>(id).await.unwrap().writes, 0);
    }
    // Without transactions, the document first records the new references as an intent record. The record has a size limit.
    let very_many = db.update::<User>(21);
    let very_many = very_many.push_each(|u| u.follows(), refs(1..=30_000));
    let error = very_many.await.unwrap_err();
    let kind = match fixture.backend().capabilities().transactions {
        true => ErrorKind::Dangling,
        false => ErrorKind::Unsupported,
    };
    assert_eq!(error.kind(), kind, "{error}");
    let error = db.insert(user(22, (1..=12).chain([99]))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Dangling, "{error}");
    assert_follows(&db, &[(20, &[1, 2, 3, 4, 5, 6, 7, 8])]).await;

    // The inverse is full.
    for id in 1..=3 {
        db.insert(post(id, [1, 2, 3, 4, 5])).await.unwrap();
    }
    let full = |error: odm::Error| {
        assert_eq!(error.kind(), ErrorKind::TooManyElements, "{error}");
    };
    full(db.insert(post(4, [6, 7, 8, 9, 5])).await.unwrap_err());
    db.insert(post(4, [6, 7, 8, 9])).await.unwrap();
    let both = db
        .update::<Post>(4)
        .push_each(|p| p.topics(), refs([10, 3]))
        .set(|p| p.author(), Ref::new(1));
    full(both.await.unwrap_err());
    assert_eq!(db.get::<Post>(4).await.unwrap().author, None);
    db.update::<Post>(2)
        .pull(|p| p.topics(), Ref::new(5))
        .await
        .unwrap();
    let both = db
        .update::<Post>(4)
        .push_each(|p| p.topics(), refs([10, 5]))
        .set(|p| p.author(), Ref::new(1));
    both.await.unwrap();
    let topic = db.get::<Topic>(5).await.unwrap();
    assert_eq!(ids(&topic.posts), [1, 3, 4]);
    assert_eq!(ids(&db.get::<Topic>(10).await.unwrap().posts), [4]);
    // The referrer prevents the delete of the topic, whether the reference is resident or spilled.
    let error = db.delete::<Topic>(10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Restricted, "{error}");
    db.delete::<Post>(4).await.unwrap();
    db.delete::<Topic>(10).await.unwrap();
    assert_clean(&db).await;

    // The inverse is a single reference.
    db.insert(Crate {
        id: 1,
        things: refs(1..=6).into(),
    })
    .await
    .unwrap();
    let expect_already_linked = |error: odm::Error| {
        assert_eq!(error.kind(), ErrorKind::AlreadyLinked, "{error}");
    };
    let other = |things: &[i64]| Crate {
        id: 2,
        things: refs(things.iter().copied()).into(),
    };
    expect_already_linked(db.insert(other(&[7, 8, 9, 6])).await.unwrap_err());
    db.insert(other(&[7, 8, 9])).await.unwrap();
    let push = db.update::<Crate>(2).push(|c| c.things(), Ref::new(2));
    expect_already_linked(push.await.unwrap_err());
    db.update::<Crate>(1)
        .pull_all(|c| c.things(), refs([2, 6]))
        .await
        .unwrap();
    db.update::<Crate>(2)
        .push_each(|c| c.things(), refs([2, 6]))
        .await
        .unwrap();
    for (thing, place) in [(1, 1), (2, 2), (6, 2), (9, 2)] {
        let found = db.get::<Thing>(thing).await.unwrap();
        assert_eq!(found.place, Some(Ref::new(place)), "{thing}");
    }
    // The spilled reference cascades the delete to the crate. The remaining things of the crate have no place afterwards.
    db.delete::<Thing>(6).await.unwrap();
    assert_eq!(db.find::<Crate>().count().await.unwrap(), 1);
    for thing in [2, 7, 9] {
        assert_eq!(db.get::<Thing>(thing).await.unwrap().place, None, "{thing}");
    }
    assert_clean(&db).await;
}

pub async fn transactions_maintain_inverses(fixture: Fixture) {
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let db = open_with_indexes(&fixture).await;
    insert_people(&db, 12).await;
    let done = db
        .transaction(async |tx| {
            tx.insert(user(20, 1..=8)).await?;
            let push = tx.update::<User>(20).push(|u| u.follows(), Ref::new(9));
            push.await?;
            let set = tx.update::<User>(1).set(|u| u.follows(), refs([20, 2, 3]));
            set.await?;
            let pull = tx.update::<User>(20).pull(|u| u.follows(), Ref::new(5));
            pull.await?;
            tx.delete::<User>(3).await
        })
        .await;
    done.unwrap();
    let expected: [(i64, &[i64]); 2] = [(1, &[20, 2]), (20, &[1, 2, 4, 6, 7, 8, 9])];
    assert_follows(&db, &expected).await;
    let error = db
        .transaction(async |tx| {
            let set = tx.update::<User>(20).set(|u| u.follows(), refs([12]));
            set.await?;
            tx.update::<User>(1)
                .push(|u| u.follows(), Ref::new(99))
                .await
        })
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Dangling, "{error}");
    assert_follows(&db, &expected).await;
}

/// Compares random writes with a model of the expected arrays.
pub async fn random_writes_match_a_model(fixture: Fixture) {
    const PEOPLE: i64 = 30;
    let db = open_with_indexes(&fixture).await;
    insert_people(&db, PEOPLE).await;
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut model: BTreeMap<i64, Vec<i64>> = (1..=PEOPLE).map(|id| (id, vec![])).collect();
    for round in 0..60 {
        let existing: Vec<_> = model.keys().copied().collect();
        let mut some = |most: usize| -> Vec<i64> {
            let count = random.random_range(0..=most);
            let all = (0..count).map(|_| existing[random.random_range(0..existing.len())]);
            all.collect()
        };
        let (many, few) = (some(14), some(3));
        let id = some(1).first().copied().unwrap_or(existing[0]);
        // Two of three writes go to the same user, so that the array grows long.
        let id = if round % 3 == 0 { id } else { existing[0] };
        let update = || db.update::<User>(id);
        let follows = model.entry(id).or_default();
        match random.random_range(0..7) {
            0 => {
                follows.extend(&many);
                let push = update().push_each(|u| u.follows(), refs(many));
                push.await.unwrap();
            }
            1 => {
                for one in &many {
                    if !follows.contains(one) {
                        follows.push(*one);
                    }
                }
                let add = update().add_each_to_set(|u| u.follows(), refs(many));
                add.await.unwrap();
            }
            2 | 3 => {
                follows.retain(|one| !few.contains(one));
                let pull = update().pull_all(|u| u.follows(), refs(few));
                pull.await.unwrap();
            }
            4 => {
                let target = few.first().copied().unwrap_or(1);
                follows.retain(|one| *one == target);
                let pull = update().pull_where(|u| u.follows(), |one| one.ne(Ref::new(target)));
                pull.await.unwrap();
            }
            5 => {
                follows.clone_from(&many);
                let set = update().set(|u| u.follows(), refs(many));
                set.await.unwrap();
            }
            _ => {
                let gone = few.first().copied().unwrap_or(id);
                model.remove(&gone);
                for follows in model.values_mut() {
                    follows.retain(|one| *one != gone);
                }
                db.delete::<User>(gone).await.unwrap();
                let again: Vec<_> = many.into_iter().filter(|one| *one != gone).collect();
                db.insert(user(gone, again.iter().copied())).await.unwrap();
                model.insert(gone, again);
            }
        }
    }
    assert_follow_map(&db, &model).await;
    db.arrays::<User>().fold().await.unwrap();
    assert_follow_map(&db, &model).await;
}

/// The expected arrays of a fan.
#[derive(Debug, Clone, Default, PartialEq)]
struct FanArrays {
    likes: Vec<i64>,
    wants: Vec<i64>,
}

/// Some writes fail because a soft delete hides the target. A failed write changes neither array.
pub async fn two_arrays_with_soft_deletes_match_a_model(fixture: Fixture) {
    const FANS: i64 = 6;
    const SONGS: i64 = 25;
    let all_scopes = open_with_indexes(&fixture).await;
    let db = all_scopes.scope("acme");
    let song = |id| NewSong { id };
    db.insert_many((1..=SONGS).map(song)).await.unwrap();
    let fan = |id, taste: &FanArrays| NewFan {
        id,
        likes: refs(taste.likes.clone()).into(),
        wants: refs(taste.wants.clone()).into(),
    };
    let mut model: BTreeMap<i64, FanArrays> = BTreeMap::new();
    for id in 1..=FANS {
        let new = fan(id, &FanArrays::default());
        db.insert(new).await.unwrap();
        model.insert(id, FanArrays::default());
    }
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let mut done = BTreeMap::<i32, [usize; 2]>::new();
    for _ in 0..90 {
        let mut some = |most: usize| -> Vec<i64> {
            let count = random.random_range(0..=most);
            (0..count).map(|_| random.random_range(1..=SONGS)).collect()
        };
        let (many, others, few) = (some(12), some(12), some(3));
        let id = random.random_range(1..=FANS);
        let update = || db.update::<Fan>(id);
        let mut taste = model[&id].clone();
        let operation = random.random_range(0..7);
        let result = match operation {
            0 => {
                taste.likes.extend(&many);
                taste.wants.extend(&others);
                let push = update().push_each(|f| f.likes(), refs(many));
                push.push_each(|f| f.wants(), refs(others)).await.map(drop)
            }
            1 => {
                taste.likes.retain(|one| !few.contains(one));
                taste.wants.retain(|one| !few.contains(one));
                let pull = update().pull_all(|f| f.likes(), refs(few.clone()));
                pull.pull_all(|f| f.wants(), refs(few)).await.map(drop)
            }
            2 => {
                taste.likes.clone_from(&many);
                for one in &others {
                    if !taste.wants.contains(one) {
                        taste.wants.push(*one);
                    }
                }
                let set = update().set(|f| f.likes(), refs(many));
                let add = set.add_each_to_set(|f| f.wants(), refs(others));
                add.await.map(drop)
            }
            3 => db.delete::<Fan>(id).await.map(drop),
            4 => db.restore::<Fan>(id).await.map(drop),
            5 => {
                let song = few.first().copied().unwrap_or(1);
                match db.delete::<Song>(song).await {
                    // Songs with even ids are restored immediately, and songs with odd ids later.
                    Ok(_) if song % 2 == 0 => db.restore::<Song>(song).await.map(drop),
                    Ok(_) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            _ => {
                for song in 1..=SONGS {
                    let _ = db.restore::<Song>(song).await;
                }
                db.delete::<Fan>(id).permanently().await.unwrap();
                taste = FanArrays {
                    likes: many,
                    wants: few,
                };
                db.insert(fan(id, &taste)).await.map(drop)
            }
        };
        let [kept, refused] = done.entry(operation).or_default();
        match result {
            Ok(()) => *kept += 1,
            Err(error) => {
                let kinds = [ErrorKind::NotFound, ErrorKind::Dangling];
                assert!(kinds.contains(&error.kind()), "{operation}: {error}");
                *refused += 1;
                continue;
            }
        }
        model.insert(id, taste);
    }
    // Each kind of write succeeded, and each kind that can fail has failed.
    assert!((0..7).all(|operation| done[&operation][0] > 0), "{done:?}");
    assert!(
        [0, 1, 2].iter().all(|operation| done[operation][1] > 0),
        "{done:?}"
    );
    assert_fan_arrays(&all_scopes, &model).await;
    for id in 1..=FANS {
        let _ = db.restore::<Fan>(id).await;
    }
    db.arrays::<Fan>().fold().await.unwrap();
    assert_fan_arrays(&all_scopes, &model).await;
}

async fn assert_fan_arrays(all_scopes: &Db, model: &BTreeMap<i64, FanArrays>) {
    all_scopes.wait_for_pending().await.unwrap();
    assert_clean(all_scopes).await;
    let db = all_scopes.scope("acme");
    let (mut liked, mut wanted) = (BTreeMap::<i64, BTreeSet<i64>>::new(), BTreeMap::new());
    for (id, taste) in model {
        let read = || db.get::<Fan>(*id).with_deleted();
        let likes = read().elements(|f| f.likes()).all().await.unwrap();
        let wants = read().elements(|f| f.wants()).all().await.unwrap();
        assert_eq!(
            (&ids(&likes), &ids(&wants)),
            (&taste.likes, &taste.wants),
            "{id}"
        );
        for one in &taste.likes {
            liked.entry(*one).or_default().insert(*id);
        }
        for one in &taste.wants {
            wanted.entry(*one).or_insert_with(BTreeSet::new).insert(*id);
        }
    }
    for song in db.find::<Song>().with_deleted().all().await.unwrap() {
        let fans = db
            .get::<Song>(song.id)
            .with_deleted()
            .elements(|s| s.liked_by());
        let fans: BTreeSet<_> = ids(&fans.all().await.unwrap()).into_iter().collect();
        assert_eq!(
            fans,
            liked.remove(&song.id).unwrap_or_default(),
            "{}",
            song.id
        );
        let fans: BTreeSet<_> = ids(&song.wanted_by).into_iter().collect();
        assert_eq!(
            fans,
            wanted.remove(&song.id).unwrap_or_default(),
            "{}",
            song.id
        );
    }
}

pub async fn concurrent_writes_keep_inverses_consistent(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    insert_people(&db, 30).await;
    db.insert_many([user(100, 1..=12), user(101, [])])
        .await
        .unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8_u64 {
        let db = db.clone();
        tasks.spawn(async move {
            let mut random = ChaCha8Rng::seed_from_u64(task);
            for _ in 0..12 {
                let from = random.random_range(1..=30);
                let id = random.random_range(100..=101);
                let update = || db.update::<User>(id);
                let targets = refs(from..(from + 4).min(31));
                let done = match random.random_range(0..6) {
                    0 => db.delete::<User>(from).await.map(drop),
                    1 => db.insert(user(from, [100, 101])).await.map(drop),
                    2 => update().push_each(|u| u.follows(), targets).await.map(drop),
                    3 => update().pull_all(|u| u.follows(), targets).await.map(drop),
                    4 => update().set(|u| u.follows(), targets).await.map(drop),
                    _ => update()
                        .push(|u| u.follows(), Ref::new(from))
                        .await
                        .map(drop),
                };
                if let Err(error) = done {
                    let kinds = [
                        ErrorKind::Conflict,
                        ErrorKind::Dangling,
                        ErrorKind::DuplicateKey,
                    ];
                    assert!(kinds.contains(&error.kind()), "{error}");
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    db.wait_for_pending().await.unwrap();
    assert_clean(&db).await;
    // The length of an array and the elements that a read returns agree.
    let mut expected = BTreeMap::new();
    for user in db.find::<User>().all().await.unwrap() {
        expected.insert(user.id, follows(&db, user.id).await);
    }
    assert_follow_map(&db, &expected).await;
}

/// The cost of a push does not depend on the lengths of the array and of the inverse.
pub async fn operations_of_a_push_with_an_inverse(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.sync_indexes().await.unwrap();
    insert_people(&db, 400).await;
    db.insert_many([user(500, 1..=20), user(501, 1..=300)])
        .await
        .unwrap();
    // With transactions: the document, two writes for the array, the inverse, and the commit. Without
    // transactions: the write and the removal of the intent record are added. Both steps read the inverse and the targets.
    let cost = match fixture.backend().capabilities().transactions {
        true => 5,
        false => 13,
    };
    for id in [500, 501] {
        for one in [350, 351] {
            recorder.clear();
            let push = db.update::<User>(id).push(|u| u.follows(), Ref::new(one));
            push.await.unwrap();
            let operations = recorder.operations();
            // The first operation of a transaction begins the transaction.
            let sent = operations
                .iter()
                .filter(|one| !matches!(one, Operation::Begin));
            assert_eq!(sent.count(), cost, "{id}");
        }
    }
}

const WRITES: &[Write<Network>] = &[
    ("an insert", |db| {
        Box::pin(async move { db.insert(user(50, [1, 2, 3, 10])).await.map(drop) })
    }),
    ("a push", |db| {
        Box::pin(async move {
            let push = db.update::<User>(20).push(|u| u.follows(), Ref::new(11));
            push.await.map(drop)
        })
    }),
    ("a pull", |db| {
        Box::pin(async move {
            let pull = db
                .update::<User>(20)
                .pull_all(|u| u.follows(), refs([1, 5, 10]));
            pull.await.map(drop)
        })
    }),
    ("a pull of some", |db| {
        Box::pin(async move {
            let pull = db
                .update::<User>(20)
                .pull_where(|u| u.follows(), |one| one.ne(Ref::new(5)));
            pull.await.map(drop)
        })
    }),
    ("others instead", |db| {
        Box::pin(async move {
            let set = db
                .update::<User>(20)
                .set(|u| u.follows(), refs([5, 12, 1, 11]));
            set.await.map(drop)
        })
    }),
    ("a deletion of who follows", |db| {
        Box::pin(async move { db.delete::<User>(20).await.map(drop) })
    }),
    ("a deletion of who is followed", |db| {
        Box::pin(async move { db.delete::<User>(6).await.map(drop) })
    }),
];

pub async fn crashes_keep_inverses_consistent(fixture: Fixture) {
    let crashes = CrashTest {
        writes: WRITES,
        begin: |db| {
            Box::pin(async move {
                db.sync_indexes().await.unwrap();
                insert_people(db, 12).await;
                db.insert_many([user(20, 1..=6), user(21, [6, 7])])
                    .await
                    .unwrap();
                let push = db
                    .update::<User>(20)
                    .push_each(|u| u.follows(), refs(7..=10));
                push.await.unwrap();
            })
        },
        may_find: |_| false,
        agrees: |db, when| {
            Box::pin(async move {
                let mut followers_of = BTreeMap::<i64, BTreeSet<i64>>::new();
                let all = db.find::<User>().all().await.unwrap();
                for user in &all {
                    for followed in follows(db, user.id).await {
                        followers_of.entry(followed).or_default().insert(user.id);
                    }
                }
                for user in &all {
                    let expected = followers_of.remove(&user.id).unwrap_or_default();
                    assert_eq!(
                        followers(db, user.id).await,
                        expected,
                        "{when}: {}",
                        user.id
                    );
                }
                assert!(
                    followers_of.is_empty(),
                    "{when}: missing users have followers: {followers_of:?}"
                );
            })
        },
    };
    crashes.run(&fixture).await;
}

/// Changes a user without the write path.
async fn write_user(fixture: &Fixture, id: i64, change: RawDocumentBuf) {
    let update = UpdateOperation {
        collection: "users".into(),
        filter: rawdoc! { "_id": id },
        change: DocumentChange::operators(change),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    fixture.backend().update(update).await.unwrap();
}

/// A check keeps spilled inverses for later batches. An inverse that has changed since is read again.
pub async fn an_inverse_that_changes_during_a_check_is_read_again(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    // A batch has at most 1,000 documents, so the first followers and the last follower are in different batches.
    insert_people(&db, 1_100).await;
    let first: Vec<_> = (2..=4).collect();
    for id in &first {
        let follow = db.update::<User>(*id).set(|u| u.follows(), refs([1]));
        follow.await.unwrap();
    }
    db.insert(user(2_000, [1])).await.unwrap();
    write_user(&fixture, 5, rawdoc! { "$push": { "followers": 2_000_i64 } }).await;

    let mut findings = db.check().stream();
    let finding = findings.next().await.unwrap().unwrap();
    assert_eq!(
        finding.to_string(),
        "users 5, `followers`: refers to 2000 in users, which does not refer back"
    );
    // The last follower stops following, which changes both sides, and then only the reference comes back.
    let unfollow = db.update::<User>(2_000);
    unfollow.pull_all(|u| u.follows(), refs([1])).await.unwrap();
    assert_eq!(followers(&db, 1).await, first.into_iter().collect());
    write_user(&fixture, 2_000, rawdoc! { "$push": { "follows": 1_i64 } }).await;
    let finding = findings.next().await.unwrap().unwrap();
    assert_eq!(
        finding.to_string(),
        "users 2000, `follows`: refers to 1 in users, which does not refer back"
    );
    assert!(findings.next().await.is_none());
}

pub async fn the_check_finds_inconsistent_inverses(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    insert_people(&db, 12).await;
    db.insert_many([user(20, 1..=12), user(21, [])])
        .await
        .unwrap();
    let write = |id, change| write_user(&fixture, id, change);
    // Three inverses lack an entry, among them a spilled reference. User 3 has an inverse entry without a reference.
    let none = RawArrayBuf::new();
    for id in [1_i64, 5, 12] {
        write(id, rawdoc! { "$set": { "followers": none.clone() } }).await;
    }
    write(3, rawdoc! { "$push": { "followers": 21_i64 } }).await;
    let report = db.check().await.unwrap();
    let found: BTreeSet<_> = report.findings.iter().map(ToString::to_string).collect();
    let expected = [
        "users 20, `follows`: refers to 1 in users, which does not refer back",
        "users 20, `follows`: refers to 5 in users, which does not refer back",
        "users 20, `follows`: refers to 12 in users, which does not refer back",
        "users 3, `followers`: refers to 21 in users, which does not refer back",
    ];
    assert_eq!(found, expected.map(str::to_owned).into());
    let is_of_a_side =
        |kind: &FindingKind| matches!(kind, FindingKind::OneSided { to: "users", .. });
    assert!(
        report
            .findings
            .iter()
            .all(|finding| is_of_a_side(&finding.kind))
    );
    let repaired = db.repair().apply().await.unwrap();
    for step in &repaired.steps {
        assert!(matches!(step.outcome, RepairOutcome::Done), "{step}");
    }
    let all: Vec<_> = (1..=12).collect();
    assert_follows(&db, &[(20, &all)]).await;
}

/// An array from before the overflow rule spills, folds back, and still agrees with the inverses.
pub async fn existing_arrays_keep_inverses_after_a_spill(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    insert_people(&db, 12).await;
    db.insert(user(20, [1, 2])).await.unwrap();
    // A write from before the model existed.
    let long: RawArrayBuf = (1..=12_i64).collect();
    let update = UpdateOperation {
        collection: "users".into(),
        filter: rawdoc! { "_id": 20_i64 },
        change: DocumentChange::operators(rawdoc! { "$set": { "follows": long } }),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    fixture.backend().update(update).await.unwrap();
    assert_eq!(db.arrays::<User>().spill().await.unwrap(), 1);
    // The references decide, and the repair rebuilds the inverses.
    let repaired = db.repair().apply().await.unwrap();
    assert_eq!(repaired.steps.len(), 10, "{repaired}");
    let all: Vec<_> = (1..=12).collect();
    assert_follows(&db, &[(20, &all)]).await;
    db.update::<User>(20)
        .pull_all(|u| u.follows(), refs(2..=11))
        .await
        .unwrap();
    db.arrays::<User>().fold().await.unwrap();
    assert_follows(&db, &[(20, &[1, 12])]).await;
}
