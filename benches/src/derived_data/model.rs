//! Models with copies and rollups, and a model without derived data.

use odm::prelude::*;

/// The source of the copies in lines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
pub(crate) struct Host {
    #[serde(rename = "_id")]
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) ip: String,
}

/// A log line with a default copy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "lines")]
pub(crate) struct Line {
    #[serde(rename = "_id")]
    pub(crate) id: i64,
    pub(crate) message: String,
    #[reference]
    pub(crate) host: Ref<Host>,
    #[denormalize(from = host.ip)]
    pub(crate) ip: String,
}

/// The source of the copies in ports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "switches")]
pub(crate) struct Switch {
    #[serde(rename = "_id")]
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) ip: String,
}

/// The same as a line, with a `sync` copy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "ports")]
pub(crate) struct Port {
    #[serde(rename = "_id")]
    pub(crate) id: i64,
    pub(crate) message: String,
    #[reference]
    pub(crate) host: Ref<Switch>,
    #[denormalize(from = host.ip, sync)]
    pub(crate) ip: String,
}

/// A document without rollups and copies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "entries")]
pub(crate) struct Entry {
    #[serde(rename = "_id")]
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) amount: i64,
}

/// The hot parent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "posts")]
pub(crate) struct Post {
    #[serde(rename = "_id")]
    pub(crate) id: i64,
    pub(crate) title: String,
    #[count(of = Comment::post)]
    pub(crate) comments: i64,
}

/// A child of a post.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "comments")]
pub(crate) struct Comment {
    #[serde(rename = "_id")]
    pub(crate) id: i64,
    pub(crate) text: String,
    #[reference]
    pub(crate) post: Ref<Post>,
}

/// The schema of all models.
#[derive(Debug, Schema)]
#[schema(models(Host, Line, Switch, Port, Entry, Post, Comment))]
pub(crate) struct Derived;

pub(crate) fn message(id: i64) -> String {
    format!("message {id} of a log, of which there are many, each about as long as this one")
}

pub(crate) fn entry(id: i64) -> Entry {
    Entry {
        id,
        name: format!("entry number {id}"),
        text: message(id),
        amount: id % 1_000,
    }
}

pub(crate) fn comment(id: i64, post: i64) -> Comment {
    Comment {
        id,
        text: message(id),
        post: Ref::new(post),
    }
}

/// Returns an address that is different in every round.
pub(crate) fn address(round: usize) -> String {
    format!("10.{}.{}.1", round / 250, round % 250)
}
