//! Rollups that name a missing field, reference or model.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "posts")]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    #[count(of = Comment::psot)]
    reference: i64,
    #[sum(of = Comment::post, value = lieks)]
    value: i64,
    #[latest(3, of = Comment::post, by = tiem)]
    by: Vec<Excerpt>,
    #[count(of = Comment::post, when(shwon = true))]
    when: i64,
    #[count(of = Coment::post)]
    model: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "comments")]
struct Comment {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    post: Ref<Post>,
    likes: i64,
    shown: bool,
}

#[derive(Serialize, Deserialize, Embedded)]
#[embedded(of = Comment)]
struct Excerpt {
    likes: i64,
}

fn main() {}
