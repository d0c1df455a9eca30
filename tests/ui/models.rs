//! The models for most mistakes.
#![allow(dead_code)]

use std::collections::BTreeMap;

use odm::prelude::*;

pub type Db = odm::Database<Blog>;

#[derive(Schema)]
#[schema(models(User, Post, Country))]
pub struct Blog;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "users")]
pub struct User {
    #[serde(rename = "_id")]
    pub id: String,
    #[embed]
    pub name: Name,
    pub karma: i64,
    #[reference]
    pub country: Ref<Country>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
pub struct Name {
    pub first: String,
    pub last: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "countries")]
pub struct Country {
    #[serde(rename = "_id")]
    pub id: String,
    pub name: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "posts")]
pub struct Post {
    #[serde(rename = "_id")]
    pub id: ObjectId,
    pub title: String,
    pub votes: i64,
    pub draft: bool,
    pub when: DateTime,
    pub nick: Option<String>,
    secret: i64,
    #[reference]
    pub author: Ref<User>,
    #[reference]
    pub editor: Option<Ref<User>>,
    #[reference]
    pub voters: Vec<Ref<User>>,
    #[embed(max = 20)]
    pub tags: Vec<String>,
    #[embed(max = 100)]
    pub comments: Vec<Comment>,
    #[embed]
    pub scores: BTreeMap<String, i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
pub struct Comment {
    #[reference]
    pub who: Ref<User>,
    pub text: String,
    pub votes: i64,
}

/// A model outside of the schema.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "drafts")]
pub struct Draft {
    #[serde(rename = "_id")]
    pub id: i64,
    #[reference]
    pub author: Ref<User>,
}
