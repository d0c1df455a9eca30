use odm::prelude::*;

#[derive(Embedded)]
union Payment {
    card: i64,
    cash: f64,
}

fn main() {}
