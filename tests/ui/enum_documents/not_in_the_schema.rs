#[path = "../shapes.rs"]
mod shapes;

use shapes::*;

fn wrong(other: &Other) {
    let _ = other.find::<Circle>();
}

fn main() {}
