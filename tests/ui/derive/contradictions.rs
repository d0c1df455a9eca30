//! Attributes that contradict each other, and attributes without effect.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "posts")]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    #[computed(id * 2)]
    #[count(of = Comment::post)]
    comments: i64,
    #[computed(id * 2)]
    #[snapshot]
    taken: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[embed(max = 3)]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nick: Option<String>,
}

#[derive(Serialize, Deserialize, Embedded)]
enum Reaction {
    Counted(#[count(of = Comment::post)] i64, String),
    Latest(#[latest(3, of = Comment::post, by = id)] Vec<String>),
}

#[derive(Serialize, Deserialize, Embedded)]
#[embedded(of = Comment, insert_struct)]
enum Kind {
    Open,
}

#[derive(Serialize, Deserialize, Embedded)]
#[embedded(of = Comment, insert_struct)]
struct Likes(i64);

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "comments")]
struct Comment {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    post: Ref<Post>,
}

fn main() {}
