//! An insert struct has no managed fields.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "posts")]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    title: String,
    #[count(of = Comment::post)]
    comments: i64,
    #[latest(3, of = Comment::post, by = likes)]
    best: Vec<Excerpt>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "comments")]
struct Comment {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    post: Ref<Post>,
    likes: i64,
    #[denormalize(from = post.title)]
    title: String,
}

#[derive(Serialize, Deserialize, Embedded)]
#[embedded(of = Comment)]
struct Excerpt {
    likes: i64,
}

fn wrong() {
    let _ = NewPost { id: 1, title: "odm".into(), comments: 0 };
    let _ = NewPost { id: 1, title: "odm".into(), best: Vec::new() };
    let _ = NewComment { id: 1, post: Ref::new(1), likes: 3, title: "odm".into() };
}

fn main() {}
