//! Errors in attributes cause no further errors about insert structs.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "posts", version = revisoin)]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    title: String,
    #[count(of = post)]
    comments: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "comments", timestamps(create = at))]
struct Comment {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = casade)]
    post: Ref<Post>,
    #[denormalize(form = post.title)]
    title: String,
    #[computed(id / 2)]
    half: i64,
    #[reference(inverse_of = 3)]
    answers: Option<Ref<Post>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "payments", id = "payments/{}")]
struct Payment {
    #[serde(rename = "_id")]
    id: String,
    amount: i64,
}

#[derive(Deserialize, Projection)]
#[projection(of = Post)]
struct Title(String);

#[derive(Schema)]
#[schema(models(Post, Comment, Payment))]
struct Blog;

async fn used(db: odm::Database<Blog>) -> odm::Result<()> {
    db.insert(NewPost { id: 1, title: "odm".into() }).await?;
    db.insert(NewComment { id: 1, post: Ref::new(1) }).await?;
    db.insert(NewPayment { amount: 3 }).await?;
    let titles: Vec<Title> = db.find::<Post>().select().all().await?;
    drop(titles);
    Ok(())
}

fn main() {}
