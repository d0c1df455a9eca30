use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(with = "text")]
    count: i64,
}

mod text {
    pub fn serialize<S: serde::Serializer>(count: &i64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(count)
    }
    pub fn deserialize<'de, D: serde::Deserializer<'de>>(_: D) -> Result<i64, D::Error> {
        Ok(0)
    }
}

fn main() {}
