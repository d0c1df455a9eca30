//! The settings of a patch.
#[path = "../managed.rs"]
mod managed;

use managed::*;
use odm::prelude::*;

#[derive(Patch)]
struct NoModel {
    text: Option<String>,
}

#[derive(Patch)]
#[patch(of = Task, skip)]
struct UnknownSetting {
    text: Option<String>,
}

#[derive(Patch)]
#[patch(of = Task)]
struct UnknownFieldSetting {
    #[patch(skip)]
    text: Option<String>,
}

#[derive(Patch)]
#[patch(of = Task)]
struct Generic<T> {
    text: Option<T>,
}

#[derive(Patch)]
#[patch(of = Task)]
enum Either {
    Text(String),
}

fn main() {}
