//! Invalid formulas, and fields that cannot be computed.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document, garde::Validate)]
#[document(collection = "baskets", validate)]
#[garde(allow_unvalidated)]
struct Basket {
    #[computed(apples)]
    #[serde(rename = "_id")]
    id: i64,
    apples: i64,
    #[embed(max = 3)]
    lines: Vec<i64>,
    #[computed(len(lines, apples))]
    len_of_two: i64,
    #[computed(len())]
    len_of_none: i64,
    #[computed(apples % 2)]
    rest: i64,
    #[computed(!apples)]
    not: i64,
    #[computed("apples")]
    text: i64,
    #[computed(self::apples)]
    path: i64,
    #[computed(apples.0)]
    tuple: i64,
    #[computed(len(lines + lines))]
    len_of_a_sum: i64,
    #[computed(99999999999999999999)]
    large: i64,
    #[computed(apples +)]
    nothing: i64,
    #[computed()]
    empty: i64,
    #[reference]
    other: Ref<Basket>,
    #[denormalize(from = other.apples)]
    #[computed(apples)]
    copied: i64,
    #[computed(apples)]
    #[garde(range(min = 1))]
    ruled: i64,
}

fn main() {}
