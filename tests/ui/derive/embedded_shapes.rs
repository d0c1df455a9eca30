use odm::prelude::*;

#[derive(Serialize, Deserialize, Embedded)]
struct Pair(i64, i64);

#[derive(Serialize, Deserialize, Embedded)]
struct Nothing;

#[derive(Embedded)]
union Either {
    a: i64,
    b: f64,
}

#[derive(Serialize, Deserialize, Embedded)]
enum Borrowed<'a> {
    One(&'a str),
}

fn main() {}
