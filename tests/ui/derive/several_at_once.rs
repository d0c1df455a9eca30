use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(index(nam))]
struct Part {
    id: i64,
    #[serde(skip_serializing)]
    name: String,
    sizes: Vec<i64>,
    #[embed(most = 3)]
    makers: Vec<String>,
    #[index(uniqe)]
    number: i64,
}

fn use_it(part: Part) -> i64 {
    part.number
}

fn main() {
    let _ = Part::fields();
}
