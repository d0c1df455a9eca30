use odm::prelude::*;

#[derive(Serialize, Deserialize)]
struct Plain {
    x: i64,
}

#[derive(Serialize, Deserialize, Embedded)]
enum Payment {
    Plain(Plain),
    Time { at: std::time::Duration },
}

fn main() {}
