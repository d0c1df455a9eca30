#[path = "../kinds.rs"]
mod kinds;

use kinds::*;

fn wrong(other: &Other) {
    let _ = other.find::<Circle>();
}

fn main() {}
