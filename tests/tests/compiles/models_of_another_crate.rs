//! A schema with models of a second crate: references, a copy of a field, a snapshot, a projection, and an embedded struct.

use odm::prelude::*;
use odm_tests::models::{Address, Maker, Part};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "offers", index(maker, -price))]
struct Offer {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    maker: Ref<Maker>,
    #[denormalize(from = maker.country)]
    country: String,
    #[reference]
    part: Ref<Part>,
    #[snapshot(from = part.name)]
    part_name: String,
    #[embed]
    from: Address,
    price: i64,
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Part)]
struct PartName {
    name: String,
}

#[derive(Schema)]
#[schema(models(Maker, Part, Offer))]
struct Market;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> odm::Result<()> {
    let db = odm::Database::<Market>::open("memory:").await?;
    db.sync_indexes().await?;
    let maker = Maker {
        id: "anvil".into(),
        country: "DE".into(),
    };
    db.insert(maker).await?;
    let part = Part {
        id: 1,
        name: "wheel".into(),
        maker: Ref::new("anvil"),
    };
    db.insert(part).await?;
    let from = Address {
        street: "Main street".into(),
        city: "Bonn".into(),
        cc: "DE".into(),
    };
    db.insert(NewOffer { id: 7, maker: Ref::new("anvil"), part: Ref::new(1), from, price: 30 }).await?;
    db.update::<Maker>("anvil").set(|m| m.country(), "FR").await?;
    db.wait_for_pending().await?;
    let offer = db.get::<Offer>(7).await?;
    assert_eq!((offer.country.as_str(), offer.part_name.as_str()), ("FR", "wheel"));
    let cities = db.find::<Offer>().filter(|o| o.from().city().eq("Bonn"));
    assert_eq!(cities.count().await?, 1);
    let name: PartName = db.find::<Part>().select().one().await?;
    assert_eq!(name.name, "wheel");
    Ok(())
}
