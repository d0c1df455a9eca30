//! Invalid settings of `avg`, `min` and `max`.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "posts")]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    #[avg(of = Comment::post)]
    of_what: Option<f64>,
    #[min(of = Comment::post, by = likes)]
    by_what: Option<i64>,
    #[max(3, of = Comment::post, value = likes)]
    how_many: Option<i64>,
    #[avg(value = likes)]
    of_nothing: Option<f64>,
    #[min(of = Comment::post, value = likes)]
    #[max(of = Comment::post, value = likes)]
    both: Option<i64>,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Excerpt {
    #[avg(of = Comment::post, value = likes)]
    inside: Option<f64>,
}

fn main() {}
