//! An average is an `Option<f64>` of integers, and an extreme is an `Option` of the type of the field.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "posts")]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    #[avg(of = Comment::post, value = likes)]
    always: f64,
    #[avg(of = Comment::post, value = weight)]
    of_floats: Option<f64>,
    #[min(of = Comment::post, value = likes)]
    least: i64,
    #[max(of = Comment::post, value = likes)]
    another_type: Option<i32>,
    #[max(of = Comment::post, value = is_shown)]
    no_order: Option<bool>,
    #[min(of = Comment::post, value = version)]
    managed: Option<i64>,
    #[min(of = Comment::post, value = lieks)]
    typo: Option<i64>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "comments", version)]
struct Comment {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    post: Ref<Post>,
    likes: i64,
    weight: f64,
    is_shown: bool,
    version: i64,
}

fn main() {}
