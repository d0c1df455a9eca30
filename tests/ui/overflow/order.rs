//! Invalid sort orders of overflow arrays.

use odm::{bson::Decimal128, prelude::*};

#[derive(Serialize, Deserialize, Embedded)]
struct Line {
    at: DateTime,
    price: Decimal128,
    #[embed(max = 3)]
    tags: Vec<String>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "twice")]
struct Twice {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 50, into = "extra_lines", first_by = at, latest_by = at))]
    lines: Overflow<Line>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 50, into = "extra_missing", flag = "more_missing", latest_by = tiem))]
    missing: Overflow<Line>,
    #[embed(overflow(after = 50, into = "extra_prices", flag = "more_prices", first_by = price))]
    of_a_decimal: Overflow<Line>,
    #[embed(overflow(after = 50, into = "extra_tags", flag = "more_tags", first_by = tags))]
    of_an_array: Overflow<Line>,
    #[embed(overflow(after = 50, into = "extra_names", flag = "more_names", first_by = name))]
    of_values: Overflow<String>,
}

fn main() {}
