use futures_util::TryStreamExt;
use odm::{ErrorKind, prelude::*};

use crate::{
    Fixture,
    models::{Db, Post},
};

async fn insert_posts(fixture: &Fixture, posts: i64) -> Db {
    let db = Db::with_backend(fixture.backend());
    let authors = ["alex", "jane", "joe"];
    db.insert_many((0..posts).map(|id| {
        let author = authors[usize::try_from(id).unwrap() % 3];
        Post::new(id, author, &[])
    }))
    .await
    .unwrap();
    db
}

pub async fn sort_and_limit(fixture: Fixture) {
    let db = insert_posts(&fixture, 7).await;
    let posts = db
        .find::<Post>()
        .sort(|p| (p.author().asc(), p.when().desc()))
        .limit(4)
        .all()
        .await
        .unwrap();
    let ids: Vec<_> = posts.iter().map(|post| post.id).collect();
    assert_eq!(ids, [6, 3, 0, 4]);
    let first = db
        .find::<Post>()
        .sort(|p| p.author().desc())
        .sort(|p| p.id().desc())
        .first()
        .await
        .unwrap();
    assert_eq!(first.unwrap().id, 5);
    let twice = db
        .find::<Post>()
        .sort(|p| (p.id().asc(), p.id().desc()))
        .all()
        .await;
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(db.find::<Post>().limit(0).all().await.unwrap(), []);
}

pub async fn one_and_first(fixture: Fixture) {
    let db = insert_posts(&fixture, 3).await;
    assert_eq!(
        db.find::<Post>()
            .filter(|p| p.author().eq("joe"))
            .one()
            .await
            .unwrap()
            .id,
        2
    );
    let none = db.find::<Post>().filter(|p| p.author().eq("nobody"));
    assert!(none.one().await.unwrap_err().is_not_found());
    let several = db.find::<Post>().one().await.unwrap_err();
    assert_eq!(several.kind(), ErrorKind::NotUnique);
    assert_eq!(several.model(), Some("Post"));
    let none = db.find::<Post>().filter(|p| p.author().eq("nobody"));
    assert_eq!(none.first().await.unwrap(), None);
}

pub async fn count_and_exists(fixture: Fixture) {
    let db = insert_posts(&fixture, 10).await;
    let alex = || db.find::<Post>().filter(|p| p.author().eq("alex"));
    assert_eq!(alex().count().await.unwrap(), 4);
    assert_eq!(alex().limit(3).count().await.unwrap(), 3);
    assert!(alex().exists().await.unwrap());
    // The same query can run in several ways.
    let query = alex().limit(2);
    assert_eq!(query.clone().count().await.unwrap(), 2);
    assert_eq!(query.all().await.unwrap().len(), 2);
    assert!(
        !db.find::<Post>()
            .filter(|p| p.author().eq("nobody"))
            .exists()
            .await
            .unwrap()
    );
}

pub async fn a_stream_returns_all_in_order(fixture: Fixture) {
    let db = insert_posts(&fixture, 2_500).await;
    let stream = db.find::<Post>().sort(|p| p.id().asc()).stream();
    let ids: Vec<i64> = stream.map_ok(|post| post.id).try_collect().await.unwrap();
    assert_eq!(ids, (0..2_500).collect::<Vec<_>>());
    let mut few = db.find::<Post>().limit(2).stream();
    assert!(few.next().await.unwrap().is_ok());
    assert!(few.next().await.unwrap().is_ok());
    assert!(few.next().await.is_none());
    assert!(few.next().await.is_none());
}

pub async fn by_id_and_by_ids(fixture: Fixture) {
    let db = insert_posts(&fixture, 5).await;
    let post = db.get::<Post>(3).await.unwrap();
    assert_eq!(db.get::<Post>(&post).await.unwrap(), post);
    assert_eq!(db.get::<Post>(post.to_ref()).await.unwrap(), post);
    let error = db.get::<Post>(99).await.unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(
        (error.model(), error.collection()),
        (Some("Post"), Some("posts"))
    );
    assert_eq!(error.id(), Some(&bson::Bson::Int64(99)));
    assert_eq!(db.find_by_id::<Post>(99).await.unwrap(), None);

    let links = db.get_many::<Post>([4, 99, 0, 4]).await.unwrap();
    let ids: Vec<_> = links
        .iter()
        .map(|link| match link {
            Loaded(post) => Ok(post.id),
            Missing(id) => Err(*id.id()),
        })
        .collect();
    assert_eq!(ids, [Ok(4), Err(99), Ok(0), Ok(4)]);
    assert!(
        db.get_many::<Post>(Vec::<i64>::new())
            .await
            .unwrap()
            .is_empty()
    );
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Post)]
struct Card {
    title: String,
    tags: Vec<String>,
}

pub async fn a_projection_reads_its_fields(fixture: Fixture) {
    let db = insert_posts(&fixture, 2).await;
    let recorder = odm::backend::Recorder::new(fixture.backend());
    let recorded = Db::with_backend(std::sync::Arc::new(recorder.clone()));
    let cards: Vec<Card> = recorded
        .find::<Post>()
        .select()
        .sort(|p| p.id().asc())
        .all()
        .await
        .unwrap();
    assert_eq!(
        cards[1],
        Card {
            title: "post 1".into(),
            tags: vec![]
        }
    );
    let [odm::backend::operation::Operation::Find(find)] = &recorder.operations()[..] else {
        panic!("one query");
    };
    let raws = odm::backend::read_to_end(db.backend().find(find.clone()).await.unwrap())
        .await
        .unwrap();
    let keys: Vec<_> = raws[0]
        .iter()
        .map(|field| field.unwrap().0.to_string())
        .collect();
    assert_eq!(keys, ["title", "tags"]);
}
