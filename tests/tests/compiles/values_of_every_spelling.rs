//! The spellings of a value that an application tries: owned and borrowed texts, literals for options, lists, references.

#![expect(
    clippy::needless_borrows_for_generic_args,
    reason = "the test is about spellings with and without a borrow"
)]

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use odm::prelude::*;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "users")]
struct User {
    #[serde(rename = "_id")]
    id: String,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "posts")]
struct Post {
    #[serde(rename = "_id")]
    id: u64,
    title: String,
    subtitle: Option<String>,
    shared: Arc<str>,
    votes: i64,
    rank: Option<i64>,
    #[reference]
    author: Ref<User>,
    #[reference]
    editor: Option<Ref<User>>,
    #[embed(max = 9)]
    tags: Vec<String>,
    #[embed(max = 9)]
    labels: BTreeSet<String>,
    #[embed(max = 9)]
    ranks: Vec<i64>,
}

#[derive(Schema)]
#[schema(models(User, Post))]
struct Blog;

pub(crate) fn main() {
    let user = User { id: "jane".into() };
    let users = vec![user.clone()];
    let (owned, borrowed, shared) = (String::from("a"), "a", Arc::<str>::from("a"));
    let (boxed, cow) = (Box::<str>::from("a"), Cow::Borrowed("a"));
    let texts = vec![String::from("a")];
    let slices: Vec<&str> = vec!["a"];
    let maybe = Some(String::from("a"));
    let p = Post::fields();
    let conditions = [
        p.title().eq("a"),
        p.title().eq(&owned),
        p.title().eq(owned.clone()),
        p.title().eq(&&owned),
        p.title().eq(&borrowed),
        p.title().eq(shared.clone()),
        p.title().eq(&shared),
        p.title().eq(&*shared),
        p.title().eq(boxed.clone()),
        p.title().eq(&cow),
        p.title().is_in(["a", "b"]),
        p.title().is_in(&["a", "b"]),
        p.title().is_in(&texts),
        p.title().is_in(texts.iter().filter(|text| !text.is_empty())),
        p.title().is_in(slices.iter()),
        p.title().is_in(&slices),
        p.title().is_in(&BTreeSet::from(["a"])),
        p.title().is_in(Some("a")),
        p.title().starts_with(&owned),
        p.title().starts_with(&&owned),
        p.title().starts_with(owned.clone()),
        p.title().starts_with(&shared),
        p.title().starts_with(&cow),
        p.title().contains_text(&owned),
        p.shared().eq("a"),
        p.shared().eq(&owned),
        p.shared().starts_with(&owned),
        p.subtitle().eq("a"),
        p.subtitle().eq(&owned),
        p.subtitle().eq(&maybe),
        p.subtitle().eq(maybe.clone()),
        p.subtitle().eq(None),
        p.subtitle().is_in(["a"]),
        p.subtitle().starts_with(&owned),
        p.votes().eq(3),
        p.votes().eq(&3),
        p.votes().is_in([1, 2]),
        p.votes().is_in(&[1, 2]),
        p.votes().is_in(1..3),
        p.votes().is_in(vec![1, 2]),
        p.rank().eq(3),
        p.rank().eq(Some(3)),
        p.rank().eq(None),
        p.rank().gte(3),
        p.author().eq(&user),
        p.author().eq(user.to_ref()),
        p.author().eq(&user.to_ref()),
        p.author().eq(Ref::new("jane")),
        p.author().eq(Ref::new(&owned)),
        p.author().is_in(&users),
        p.author().is_in(users.iter().map(User::to_ref)),
        p.editor().eq(&user),
        p.editor().eq(user.to_ref()),
        p.editor().eq(Some(user.to_ref())),
        p.editor().eq(None),
        p.tags().contains("a"),
        p.tags().contains(&owned),
        p.tags().equals(["a"]),
        p.tags().equals(&["a"]),
        p.tags().equals(vec![]),
        p.tags().equals(&*slices),
        p.tags().equals(&texts),
        p.tags().contains_all(&texts),
        p.labels().contains(&owned),
        p.labels().equals(BTreeSet::from([owned.clone()])),
        p.ranks().contains(3),
        p.ranks().equals(&[1, 2]),
        p.id().eq(3),
        p.id().is_in([1, 2]),
    ];
    for condition in conditions {
        let rendered = format!("{condition:?}");
        assert!(rendered.starts_with("Filter({ \""), "{rendered}");
    }
}

#[expect(dead_code, reason = "the calls only need to compile")]
async fn writes(db: odm::Database<Blog>, user: User, texts: Vec<String>, ids: Vec<u64>) {
    let owned = String::from("a");
    let update = db
        .update::<Post>(7)
        .set(|p| p.title(), "a")
        .set(|p| p.title(), &owned)
        .set(|p| p.title(), format!("{owned}b"))
        .set(|p| p.title(), Cow::Borrowed("a"))
        .set(|p| p.subtitle(), "a")
        .set(|p| p.subtitle(), None)
        .set(|p| p.rank(), 3)
        .set(|p| p.rank(), None)
        .set(|p| p.author(), &user)
        .set(|p| p.editor(), &user)
        .set(|p| p.editor(), None)
        .set(|p| p.tags(), ["a"])
        .set(|p| p.tags(), &["a"])
        .set(|p| p.tags(), vec![])
        .set(|p| p.tags(), &texts)
        .push(|p| p.tags(), "a")
        .push(|p| p.tags(), &owned)
        .push_each(|p| p.tags(), &texts)
        .push_each(|p| p.ranks(), 1..3)
        .add_to_set(|p| p.labels(), "a")
        .add_each_to_set(|p| p.labels(), &texts)
        .pull(|p| p.tags(), &owned)
        .pull_all(|p| p.ranks(), &[1, 2]);
    update.await.expect("the post");
    db.get::<User>("jane").await.expect("the user");
    db.get::<User>(&owned).await.expect("the user");
    db.get::<User>(owned).await.expect("the user");
    db.get::<User>(&user).await.expect("the user");
    db.get::<Post>(7).await.expect("the post");
    db.get::<Post>(&7).await.expect("the post");
    db.get_many::<Post>(ids).await.expect("the posts");
}
