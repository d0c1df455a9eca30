//! Derives for the crate under a different path.

mod house {
    pub mod mapper {
        pub use odm::*;
    }
}

use house::mapper::prelude::*;

#[derive(Serialize, Deserialize, Embedded)]
#[embedded(crate = house::mapper)]
struct Size {
    width: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts", crate = house::mapper, index(size.width))]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    size: Size,
}

#[derive(Deserialize, Projection)]
#[projection(of = Part, crate = house::mapper)]
struct Wide {
    size: Size,
}

#[derive(Patch)]
#[patch(of = Part, crate = house::mapper)]
struct PartPatch {
    #[patch(nested)]
    size: Option<SizePatch>,
}

#[derive(Patch)]
#[patch(of = Size, crate = house::mapper)]
struct SizePatch {
    width: Option<i64>,
}

#[derive(Schema)]
#[schema(models(Part), crate = house::mapper)]
struct Shop;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> house::mapper::Result<()> {
    let db = house::mapper::Database::<Shop>::open("memory:").await?;
    db.insert(Part { id: 1, size: Size { width: 2 } }).await?;
    assert_eq!(db.find::<Part>().select::<Wide>().one().await?.size.width, 2);
    let patch = PartPatch { size: Some(SizePatch { width: Some(3) }) };
    let part = db.update::<Part>(1).apply(patch).returning_after().await?;
    assert_eq!(part.size.width, 3);
    Ok(())
}
