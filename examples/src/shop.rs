//! The models of `shop_admin`: a shop with every kind of data that its commands work on.

use odm::prelude::*;
use schemars::JsonSchema;

/// A maker counts its products.
#[derive(Debug, Clone, Serialize, Deserialize, Document, JsonSchema)]
#[document(collection = "makers")]
pub struct Maker {
    #[serde(rename = "_id")]
    pub id: i64,
    pub name: String,
    #[count(of = Product::maker)]
    pub products: i64,
}

/// A product has a copy of the name of its maker. Version 2 has a price in cents.
#[derive(Debug, Clone, Serialize, Deserialize, Document, JsonSchema)]
#[document(collection = "products", schema_version = 2, upgrade = upgrade_product)]
pub struct Product {
    #[serde(rename = "_id")]
    pub id: i64,
    #[index]
    pub title: String,
    #[reference(on_delete = restrict)]
    pub maker: Ref<Maker>,
    #[denormalize(from = maker.name)]
    pub maker_name: String,
    pub cents: i64,
}

fn upgrade_product(_from: u32, product: &mut odm::bson::Document) -> odm::Result<()> {
    let price = product.remove("price").and_then(|price| price.as_i64());
    product.insert("cents", price.unwrap_or_default() * 100);
    Ok(())
}

/// A basket can have more entries than fit into a document.
#[derive(Debug, Clone, Serialize, Deserialize, Document, JsonSchema)]
#[document(collection = "baskets")]
pub struct Basket {
    #[serde(rename = "_id")]
    pub id: i64,
    #[embed(overflow(after = 3, into = "basket_entries", owner = "basket"))]
    pub entries: Overflow<String>,
}

/// The models of the shop.
#[derive(Schema)]
#[schema(models(Maker, Product, Basket))]
pub struct Shop;
