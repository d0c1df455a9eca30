//! The reference, the values and the conditions of a rollup must have suitable types.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "posts")]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    #[count(of = Comment::author)]
    by_another: i64,
    #[count(of = Comment::text)]
    by_none: i64,
    #[count(of = Comment::post)]
    small: u8,
    #[sum(of = Comment::post, value = text)]
    texts: i64,
    #[sum(of = Comment::post, value = version)]
    versions: i64,
    #[count(of = Comment::post, when(shown = "yes"))]
    condition: i64,
    #[count(of = Comment::post, when(shown > false))]
    unordered: i64,
    #[count(of = Comment::post, when(likes < "many"))]
    number_and_text: i64,
    #[latest(3, of = Comment::post, by = likes)]
    no_excerpt: Vec<Plain>,
    #[latest(3, of = Comment::post, by = shown)]
    no_order: Vec<Shown>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "comments", version)]
struct Comment {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    post: Ref<Post>,
    #[reference]
    author: Ref<Person>,
    text: String,
    likes: i64,
    shown: bool,
    version: i64,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Plain {
    likes: i64,
}

#[derive(Serialize, Deserialize, Embedded)]
#[embedded(of = Comment)]
struct Excerpt {
    likes: i32,
    version: i64,
    title: String,
}

#[derive(Serialize, Deserialize, Embedded)]
#[embedded(of = Comment)]
struct Shown {
    shown: bool,
}

fn main() {}
