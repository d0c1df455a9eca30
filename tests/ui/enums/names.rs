use odm::prelude::*;

#[derive(Serialize, Deserialize, Embedded)]
enum Twice {
    Card {
        number: String,
    },
    #[serde(rename = "Card")]
    Other,
}

#[derive(Serialize, Deserialize, Embedded)]
enum Methods {
    HTTPServer { x: i64 },
    HttpServer { y: i64 },
}

#[derive(Serialize, Deserialize, Embedded)]
enum Path {
    #[serde(rename = "a.b")]
    A { x: i64 },
    #[serde(rename = "$set")]
    B(String),
}

#[derive(Serialize, Deserialize, Embedded)]
#[serde(tag = "ty.pe", content = "$c")]
enum Tag {
    A { x: i64 },
}

#[derive(Serialize, Deserialize, Embedded)]
enum Fields {
    A {
        x: i64,
        #[serde(rename = "x")]
        y: i64,
    },
}

fn main() {}
