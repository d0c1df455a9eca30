//! A computed field has no setter, and is no field of the insert struct.
use odm::prelude::*;

#[derive(Clone, Serialize, Deserialize, Document)]
#[document(collection = "rooms")]
struct Room {
    #[serde(rename = "_id")]
    id: i64,
    width: i64,
    #[computed(width * width)]
    area: i64,
}

#[derive(Schema)]
#[schema(models(Room))]
struct House;

async fn set(db: odm::Database<House>) -> odm::Result<odm::action::Updated> {
    db.update::<Room>(1).set(|r| r.area(), 5).await
}

async fn whole(db: odm::Database<House>, room: Room) -> odm::Result<Room> {
    db.insert(room).await
}

async fn given(db: odm::Database<House>) -> odm::Result<Room> {
    db.insert(NewRoom { id: 1, width: 2, area: 4 }).await
}

fn main() {}
