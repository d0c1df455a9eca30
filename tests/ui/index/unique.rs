//! Unique indexes that are impossible, or likely a mistake.
use std::collections::BTreeMap;

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "posts", index(author, name; unique))]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    author: Ref<Post>,
    #[denormalize(from = author.title)]
    name: String,
    title: String,
    #[count(of = Post::author)]
    #[index(unique)]
    posts: i64,
    #[embed]
    #[index(unique)]
    labels: BTreeMap<String, String>,
    #[index(unique)]
    nick: Option<String>,
    #[index(unique)]
    number: Option<i64>,
    #[index(unique)]
    #[reference]
    editor: Option<Ref<Post>>,
    #[index(unique, sparse)]
    code: Option<ObjectId>,
}

fn main() {}
