//! The models of `one-page.md`: a test compares them with the first code block of the page.

use odm::prelude::*;

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
pub struct Comment { pub who: String, pub text: String, pub votes: i64 }

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "users")]
pub struct User {
    #[serde(rename = "_id")]                          // the id is what serde calls `_id`
    pub id: String,
    #[index(unique)]                                  // also sparse, descending, name, expire_after_seconds
    pub mail: String,
    pub karma: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "posts", index(author, -when), version, timestamps)]
pub struct Post {
    #[serde(rename = "_id")]
    pub id: ObjectId,
    #[reference]                                      // joined by `with`
    pub author: Ref<User>,
    pub title: String,
    pub when: DateTime,
    pub votes: i64,
    pub views: i64,
    #[embed(max = 500)]                               // an array says how long it can get, or `unbounded`
    pub voters: Vec<String>,
    #[embed(max = 100)]
    pub comments: Vec<Comment>,
    pub version: i64,                                 // these three are filled by the framework
    pub created_at: DateTime,
    pub updated_at: DateTime,
}

#[derive(Debug, Deserialize, Projection)]
#[projection(of = Post)]
pub struct PostCard { pub title: String, pub votes: i64 }

#[derive(Schema)]
#[schema(models(User, Post))]
pub struct Blog;
pub type Db = odm::Database<Blog>;
