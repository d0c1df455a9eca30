use odm::prelude::*;

#[derive(Serialize, Deserialize, Embedded)]
struct Size {
    #[index]
    width: i64,
}

fn main() {}
