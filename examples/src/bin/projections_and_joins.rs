//! Projections and joins: a list page of a content site reads only the shown fields, joined with the authors' names.
//!
//! ```text
//! How to page, by Alex Doe (3 votes, /how-to-page)
//! Why not skip, by Jane Roe (5 votes, /why-not-skip)
//! of Alex Doe: 2 posts, 4 votes
//! of Jane Roe: 1 posts, 5 votes
//! about: odm, pages
//! ```
//!
//! The example runs in memory, or on the database with the URL in the first argument.

use odm::{Filter, prelude::*};

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "users")]
struct User {
    #[serde(rename = "_id")]
    id: String,
    #[embed]
    name: Name,
    karma: i64,
}

#[derive(Debug, Serialize, Deserialize, Embedded)]
struct Name {
    first: String,
    last: String,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "posts", index(-when, title, slug, votes, author), index(comments.who))]
struct Post {
    #[serde(rename = "_id")]
    id: ObjectId,
    when: DateTime,
    #[reference]
    author: Ref<User>,
    title: String,
    slug: String,
    text: String,
    #[index]
    #[embed(max = 20)]
    tags: Vec<String>,
    votes: i32,
    #[embed(unbounded)]
    comments: Vec<Comment>,
}

#[derive(Debug, Serialize, Deserialize, Embedded)]
struct Comment {
    #[reference]
    who: Ref<User>,
    comment: String,
}

/// The fields of a list entry. The query reads only the index, without text and comments.
#[derive(Debug, Deserialize, Projection)]
#[projection(of = Post)]
struct PostCard {
    title: String,
    slug: String,
    votes: i32,
}

#[derive(Schema)]
#[schema(models(User, Post))]
struct Site;

#[tokio::main]
async fn main() -> odm::Result<()> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let db = odm::Database::<Site>::open(&url).await?;
    db.sync_indexes().await?;
    // Remove the documents of an earlier run.
    db.delete_many::<User>(|_| Filter::all()).await?;
    db.delete_many::<Post>(|_| Filter::all()).await?;
    write_some(&db).await?;

    let list = db
        .find::<Post>()
        .select::<PostCard>()
        .sort(|p| p.when().desc());
    assert_eq!(list.clone().limit(2).explain().await?.documents_examined, 0);
    for (post, author) in list.limit(2).with(|p| p.author()).all().await? {
        let author_name = author.loaded().map_or("somebody".into(), full_name);
        println!(
            "{}, by {author_name} ({} votes, /{})",
            post.title, post.votes, post.slug
        );
    }

    let authors = db
        .find::<Post>()
        .group_by(|p| p.author())
        .select(|g| (g.count(), g.sum(|p| p.votes())))
        .sort(|author, _| author.asc())
        .all()
        .await?;
    for (author, (posts, votes)) in authors {
        let name = full_name(&db.get::<User>(author).await?);
        println!("of {name}: {posts} posts, {votes} votes");
    }

    let mut tags = db.find::<Post>().distinct(|p| p.tags()).await?;
    tags.sort();
    println!("about: {}", tags.join(", "));
    Ok(())
}

fn full_name(user: &User) -> String {
    format!("{} {}", user.name.first, user.name.last)
}

async fn write_some(db: &odm::Database<Site>) -> odm::Result<()> {
    for (id, first, last) in [("alex", "Alex", "Doe"), ("jane", "Jane", "Roe")] {
        let name = Name {
            first: first.into(),
            last: last.into(),
        };
        db.insert(User {
            id: id.into(),
            name,
            karma: 0,
        })
        .await?;
    }
    for (when, author, title, votes, tag) in [
        (1, "alex", "Hello", 1, "odm"),
        (2, "jane", "Why not skip", 5, "pages"),
        (3, "alex", "How to page", 3, "pages"),
    ] {
        db.insert(Post {
            id: ObjectId::new(),
            when: DateTime::from_millis(when),
            author: Ref::new(author),
            title: title.into(),
            slug: title.to_lowercase().replace(' ', "-"),
            text: "…".into(),
            tags: vec![tag.into()],
            votes,
            comments: vec![Comment {
                who: Ref::new("jane"),
                comment: "I agree.".into(),
            }],
        })
        .await?;
    }
    Ok(())
}
