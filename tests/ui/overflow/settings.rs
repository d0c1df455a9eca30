//! Invalid settings of `overflow(…)`, and invalid places.

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "bare")]
struct Bare {
    #[serde(rename = "_id")]
    id: i64,
    said_nothing: Overflow<String>,
    #[embed(overflow)]
    said_not_how: Overflow<String>,
    #[embed(overflow(into = "extra_a"))]
    without_a_number: Overflow<String>,
    #[embed(overflow(after = 50))]
    without_a_collection: Overflow<String>,
    #[embed(overflow(after = 0, into = "extra_b"))]
    after_none: Overflow<String>,
    #[embed(overflow(inline, after = 50, into = "extra_b"))]
    on_the_way_back: Overflow<String>,
    #[embed(overflow(after = 50, into = "extra_c", behind = "x"))]
    unknown: Overflow<String>,
    #[embed(overflow(after = 50, into = "system.c"))]
    in_a_collection_of_the_server: Overflow<String>,
    #[embed(overflow(after = 50, into = "extra_d", owner = "a.b"))]
    with_a_path: Overflow<String>,
    #[embed(overflow(after = 50, into = "extra_e", owner = "book", seq = "book"))]
    one_name_twice: Overflow<String>,
    #[embed(max = 10, overflow(after = 50, into = "extra_f"))]
    bounded_as_well: Overflow<String>,
    #[embed(overflow(after = 50, into = "extra_g"))]
    a_vec: Vec<String>,
    #[embed(max = 10)]
    with_a_max: Overflow<String>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "books")]
struct Books {
    #[serde(rename = "_id")]
    id: i64,
    has_extras: bool,
    #[embed(overflow(after = 50, into = "books"))]
    into_its_own: Overflow<String>,
    #[embed(overflow(after = 50, into = "extras", flag = "more"))]
    first: Overflow<String>,
    #[embed(overflow(after = 50, into = "extras", flag = "more"))]
    second: Overflow<String>,
    #[index]
    #[embed(overflow(after = 50, into = "extra_index", flag = "more_index"))]
    indexed: Overflow<String>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "sharded", shard_key(id))]
struct Sharded {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 50, into = "extra_sharded"))]
    lines: Overflow<String>,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Inside {
    #[embed(overflow(after = 50, into = "extra_inside"))]
    lines: Overflow<String>,
}

fn main() {}
