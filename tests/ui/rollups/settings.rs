//! Invalid settings of `count`, `sum` and `latest`.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "posts")]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    #[count]
    nothing: i64,
    #[count()]
    of_nothing: i64,
    #[count(of = post)]
    by_nothing: i64,
    #[count(of = Comment::post, by = time)]
    ordered: i64,
    #[count(of = Comment::post, where(shown = true))]
    unknown: i64,
    #[count(of = Comment::post, when(shown == true))]
    doubled: i64,
    #[count(of = Comment::post, when(shown))]
    without_value: i64,
    #[count(of = Comment::post, when(likes >=))]
    without_right_side: i64,
    #[sum(of = Comment::post)]
    of_what: i64,
    #[latest(of = Comment::post, by = time)]
    how_many: Vec<Excerpt>,
    #[latest(0, of = Comment::post, by = time)]
    none: Vec<Excerpt>,
    #[latest(3, of = Comment::post)]
    by_what: Vec<Excerpt>,
    #[embed(max = 3)]
    #[latest(3, of = Comment::post, by = time)]
    bound_twice: Vec<Excerpt>,
    #[count(of = Comment::post)]
    #[sum(of = Comment::post, value = likes)]
    both: i64,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Excerpt {
    #[count(of = Comment::post)]
    inside: i64,
}

fn main() {}
