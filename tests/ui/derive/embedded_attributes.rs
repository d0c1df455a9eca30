use odm::prelude::*;

#[derive(Serialize, Deserialize, Embedded)]
#[embedded(collection = "sizes")]
struct Size {
    widths: Vec<i64>,
    #[embed]
    height: i64,
}

fn main() {}
