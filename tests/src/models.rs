//! Models of a shop, a blog and a log.
#![expect(missing_docs, reason = "the tests show what the fields mean")]

use std::collections::BTreeMap;

use odm::prelude::*;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct Address {
    pub street: String,
    pub city: String,
    pub cc: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "persons", index(addresses.city))]
pub struct Person {
    #[serde(rename = "_id")]
    pub id: ObjectId,
    pub name: String,
    #[index(unique)]
    pub ssn: String,
    #[embed(max = 3)]
    pub addresses: Vec<Address>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "makers")]
pub struct Maker {
    #[serde(rename = "_id")]
    pub id: String,
    pub country: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "parts")]
pub struct Part {
    #[serde(rename = "_id")]
    pub id: i64,
    pub name: String,
    #[reference]
    pub maker: Ref<Maker>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct Spare {
    #[reference]
    pub part: Ref<Part>,
    pub count: i32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[serde(rename_all = "camelCase")]
#[document(collection = "products", index(catalog_number; unique))]
pub struct Product {
    #[serde(rename = "_id")]
    pub id: i64,
    pub name: String,
    pub catalog_number: i64,
    #[reference]
    pub parts: Vec<Ref<Part>>,
    #[reference]
    pub main_part: Option<Ref<Part>>,
    #[embed(max = 10)]
    pub spares: Vec<Spare>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
pub struct Host {
    #[serde(rename = "_id")]
    pub id: Uuid,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "logmsgs", index(host, -time))]
pub struct LogMessage {
    #[serde(rename = "_id")]
    pub id: i32,
    pub time: DateTime,
    pub message: String,
    #[reference]
    pub host: Ref<Host>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct Comment {
    pub who: String,
    pub votes: i32,
    pub hidden: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Embedded)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Draft,
    Public,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "posts", index(comments.who), index(author, -when; partial = |p| p.status().eq(Status::Public)))]
pub struct Post {
    #[serde(rename = "_id")]
    pub id: i64,
    pub author: String,
    pub when: DateTime,
    pub title: String,
    pub status: Status,
    #[index]
    #[embed(max = 5)]
    pub tags: Vec<String>,
    pub votes: i64,
    #[embed(max = 3)]
    pub voters: Vec<String>,
    #[embed(unbounded)]
    pub comments: Vec<Comment>,
    #[embed]
    pub scores: BTreeMap<String, i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subtitle: Option<String>,
    pub rating: Option<f64>,
    pub flags: u32,
    #[serde(skip)]
    pub cached: u8,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "sessions")]
pub struct Visit {
    #[serde(rename = "_id")]
    pub id: i64,
    #[index(expire_after_seconds = 3600)]
    pub seen: DateTime,
    #[index(sparse, descending, name = "by_user")]
    pub user: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "tasks", version = revision, timestamps)]
pub struct Task {
    #[serde(rename = "_id")]
    pub id: i64,
    pub description: String,
    pub done: bool,
    pub revision: i64,
    pub created_at: DateTime,
    #[serde(rename = "updatedAt")]
    pub updated_at: DateTime,
    #[serde(skip)]
    pub cached: u8,
}

/// The schema of all models above.
#[derive(Debug, Clone, Copy, Schema)]
#[schema(models(Person, Maker, Part, Product, Host, LogMessage, Post, Visit, Task))]
pub struct Shop;

/// A database of the models above.
pub type Db = odm::Database<Shop>;

impl Post {
    /// Returns a post with an id, an author and tags.
    pub fn new(id: i64, author: &str, tags: &[&str]) -> Self {
        Self {
            id,
            author: author.to_owned(),
            when: DateTime::from_millis(id * 1_000),
            title: format!("post {id}"),
            status: Status::Public,
            tags: tags.iter().map(ToString::to_string).collect(),
            votes: 0,
            voters: Vec::new(),
            comments: Vec::new(),
            scores: BTreeMap::new(),
            subtitle: None,
            rating: None,
            flags: 0,
            cached: 0,
        }
    }

    /// Returns the post with an additional comment.
    pub fn comment(mut self, who: &str, votes: i32) -> Self {
        self.comments.push(Comment {
            who: who.to_owned(),
            votes,
            hidden: None,
        });
        self
    }
}
