//! Links of every cardinality (1:1, 1:n, n:m), several links between the same models, and overflow inverses.

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = owner, max = 5)]
    owns: Vec<Ref<Task>>,
    #[reference(inverse_of = helpers, overflow(after = 5, into = "more_helps", flag = "more_help"))]
    helps: Overflow<Ref<Task>>,
    #[reference(inverse_of = watchers, overflow(after = 5, into = "more_watched"))]
    watched: Overflow<Ref<Task>>,
    #[reference(inverse_of = of)]
    badge: Option<Ref<Badge>>,
    #[reference(on_delete = pull, overflow(after = 5, into = "more_seen", flag = "more_seen"))]
    seen: Overflow<Ref<Task>>,
    #[reference(inverse = stars, on_delete = pull, overflow(after = 5, into = "more_starred", flag = "more_starred"))]
    starred: Overflow<Ref<Task>>,
    #[reference(inverse = reviewers, on_delete = pull, overflow(after = 5, into = "more_reviews", flag = "more_reviews"))]
    reviews: Overflow<Ref<Task>>,
    #[reference(inverse = pinned_by, on_delete = pull, overflow(after = 5, into = "more_pinned", flag = "more_pinned"))]
    pinned: Overflow<Ref<Task>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tasks")]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = owns, on_delete = restrict)]
    owner: Ref<Person>,
    #[reference(inverse = helps, on_delete = pull, max = 10)]
    helpers: Vec<Ref<Person>>,
    #[reference(inverse = watched, on_delete = pull, max = 10)]
    watchers: Vec<Ref<Person>>,
    #[reference(inverse_of = starred, overflow(after = 5, into = "more_stars"))]
    stars: Overflow<Ref<Person>>,
    #[reference(inverse_of = reviews, max = 5)]
    reviewers: Vec<Ref<Person>>,
    #[reference(inverse_of = pinned)]
    pinned_by: Option<Ref<Person>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "badges")]
struct Badge {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = badge, on_delete = nullify)]
    of: Option<Ref<Person>>,
}

#[derive(Schema)]
#[schema(models(Person, Task, Badge))]
struct Office;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> odm::Result<()> {
    let db = odm::Database::<Office>::open("memory:").await?;
    let ann = db.insert(NewPerson {
        id: 1,
        seen: Overflow::new(),
        starred: Overflow::new(),
        reviews: Overflow::new(),
        pinned: Overflow::new(),
    }).await?.to_ref();
    let all = vec![ann];
    db.insert(NewTask { id: 1, owner: ann, helpers: all.clone(), watchers: all }).await?;
    db.update::<Person>(1).push(|p| p.seen(), Ref::new(1)).await?;
    db.update::<Person>(1)
        .push(|p| p.starred(), Ref::new(1))
        .push(|p| p.reviews(), Ref::new(1))
        .push(|p| p.pinned(), Ref::new(1))
        .await?;
    assert_eq!(db.get::<Task>(1).await?.pinned_by, Some(Ref::new(1)));
    let found = db
        .find::<Person>()
        .with(|p| p.helps())
        .with(|p| p.watched().limit(3))
        .with(|p| p.seen().with(|t| t.owner()))
        .one()
        .await?;
    assert_eq!((found.1.len(), found.2.len(), found.3.len()), (1, 1, 1));
    Ok(())
}
