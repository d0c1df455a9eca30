//! Array operators: conditions and updates of array elements. The items of a player are an array, and the abilities are a
//! struct with known keys.
//!
//! ```text
//! with a strong ranged weapon: Robin
//! Robin's bow has 14 damage now, the dagger still 5
//! Conan's first broken item is repaired: axe
//! Robin had a broken item: false
//! stronger than clever: Conan
//! best scores of Robin: 90, 80, 70
//! ```
//!
//! The example runs in memory, or on the database with the URL in the first argument.

use odm::{Filter, prelude::*};

#[derive(Debug, Serialize, Deserialize, Embedded)]
struct Item {
    name: String,
    damage: i32,
    ranged: bool,
    broken: bool,
}

#[derive(Debug, Serialize, Deserialize, Embedded)]
struct Abilities {
    strength: i32,
    intellect: i32,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "players")]
struct Player {
    #[serde(rename = "_id")]
    id: String,
    #[index]
    level: i32,
    #[embed]
    abilities: Abilities,
    #[embed(max = 50)]
    items: Vec<Item>,
    #[embed(max = 3)]
    scores: Vec<i64>,
}

#[derive(Schema)]
#[schema(models(Player))]
struct Game;

#[tokio::main]
async fn main() -> odm::Result<()> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let db = odm::Database::<Game>::open(&url).await?;
    db.sync_indexes().await?;
    // Remove the documents of an earlier run.
    db.delete_many::<Player>(|_| Filter::all()).await?;
    db.insert_many([robin(), conan()]).await?;

    // Both conditions apply to the same item: Conan's axe is strong, but only Conan's sling is ranged.
    let archer = db
        .find::<Player>()
        .filter(|p| p.items().any(|i| i.damage().gte(10) & i.ranged().eq(true)))
        .one()
        .await?;
    println!("with a strong ranged weapon: {}", archer.id);

    // Updates every matching item.
    db.update::<Player>("Robin")
        .inc(|p| p.items().matching(|i| i.ranged().eq(true)).damage(), 2)
        .await?;
    let items = db.get::<Player>("Robin").await?.items;
    println!(
        "Robin's bow has {} damage now, the dagger still {}",
        items[0].damage, items[1].damage
    );

    // Updates the first matching item. The check for a match is part of the same atomic step.
    db.update::<Player>("Conan")
        .set(
            |p| p.items().first_matching(|i| i.broken().eq(true)).broken(),
            false,
        )
        .await?
        .expect_applied()?;
    let items = db.get::<Player>("Conan").await?.items;
    let repaired: Vec<_> = items
        .iter()
        .filter(|i| !i.broken)
        .map(|i| &*i.name)
        .collect();
    println!(
        "Conan's first broken item is repaired: {}",
        repaired.join(", ")
    );
    let robin = db
        .update::<Player>("Robin")
        .set(
            |p| p.items().first_matching(|i| i.broken().eq(true)).broken(),
            false,
        )
        .await?;
    println!("Robin had a broken item: {}", robin.is_applied());

    // Compares two fields, next to a condition with an index.
    let stronger = db
        .find::<Player>()
        .filter(|p| {
            p.level().gte(5) & (p.abilities().strength().value() - p.abilities().intellect()).gt(5)
        })
        .one()
        .await?;
    println!("stronger than clever: {}", stronger.id);

    // Keeps the three best scores, also with concurrent pushes.
    for score in [70, 20, 90, 80] {
        db.update::<Player>("Robin")
            .push_with(
                |p| p.scores(),
                [score],
                |push| push.sort(|s| s.desc()).keep_first(3),
            )
            .await?;
    }
    let scores: Vec<_> = db
        .get::<Player>("Robin")
        .await?
        .scores
        .iter()
        .map(i64::to_string)
        .collect();
    println!("best scores of Robin: {}", scores.join(", "));
    Ok(())
}

fn robin() -> Player {
    Player {
        id: "Robin".into(),
        level: 7,
        abilities: Abilities {
            strength: 11,
            intellect: 14,
        },
        items: vec![
            item("bow", 12, true, false),
            item("dagger", 5, false, false),
        ],
        scores: vec![],
    }
}

fn conan() -> Player {
    Player {
        id: "Conan".into(),
        level: 9,
        abilities: Abilities {
            strength: 18,
            intellect: 7,
        },
        items: vec![item("axe", 20, false, true), item("sling", 3, true, true)],
        scores: vec![],
    }
}

fn item(name: &str, damage: i32, ranged: bool, broken: bool) -> Item {
    Item {
        name: name.into(),
        damage,
        ranged,
        broken,
    }
}
