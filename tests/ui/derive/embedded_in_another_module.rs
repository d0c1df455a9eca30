use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    size: hidden::Size,
}

mod hidden {
    #[derive(serde::Serialize, serde::Deserialize, odm::Embedded)]
    pub struct Size {
        width: i64,
    }
}

fn wrong() {
    let _ = Part::fields().size().width().gt(3);
}

fn main() {}
