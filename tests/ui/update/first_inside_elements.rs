use odm::prelude::*;

#[derive(Serialize, Deserialize, Embedded)]
struct Comment {
    #[embed(max = 10)]
    replies: Vec<String>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "threads")]
struct Thread {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 100)]
    comments: Vec<Comment>,
}

#[derive(Schema)]
#[schema(models(Thread))]
struct Forum;

fn wrong(db: &odm::Database<Forum>) {
    let _ = db.update::<Thread>(1).set(|t| t.comments().all().replies().first_matching(|r| r.eq("x")), "y");
}

fn main() {}
