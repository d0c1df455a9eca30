//! A formula names existing fields, and never the computed field itself.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "baskets")]
struct Basket {
    #[serde(rename = "_id")]
    id: i64,
    apples: i64,
    oranges: i64,
    #[embed(max = 5)]
    lines: Vec<Line>,
    #[embed(max = 5)]
    extras: Vec<Line>,
    #[computed(sum(appels, oranges))]
    typo: i64,
    #[computed(bananas + 1)]
    nothing: i64,
    #[computed(own + apples)]
    own: i64,
    #[computed(average(apples, oranges))]
    average: f64,
    #[computed(apples, oranges)]
    two: i64,
    #[computed]
    of_what: i64,
    #[computed(1 + 1)]
    constant: i64,
    #[computed(lines.price)]
    not_summed: i64,
    #[computed(sum(lines.price * extras.price))]
    of_two: i64,
    #[computed(sum(lines.price * sum(lines.price)))]
    nested: i64,
    #[computed(apples)]
    #[embed(max = 3)]
    many: Vec<i64>,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Line {
    price: i64,
    #[computed(price * 2)]
    double: i64,
}

#[derive(Serialize, Deserialize, Embedded)]
#[serde(tag = "kind")]
enum Shape {
    Circle {
        radius: f64,
        #[computed(radius * 2)]
        diameter: f64,
    },
}

fn main() {}
