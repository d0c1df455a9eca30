//! A small catalog to try the service.

use odm::prelude::*;

use crate::models::{Category, NewCategory, NewCustomer, NewProduct, NewReview, TenantSession};

/// The categories, with the kinds of products.
const CATEGORIES: [(&str, &str); 3] = [
    ("Tools", "Hand saw, Claw hammer, Chisel, Rasp, Plane"),
    ("Garden", "Spade, Rake, Shears, Trowel, Watering can"),
    ("Kitchen", "Bread knife, Whisk, Grater, Ladle, Sieve"),
];

/// The variants of each kind of product.
const VARIANTS: [&str; 4] = ["small", "medium", "large", "antique"];

/// The names of the customers, who review each product.
const CUSTOMERS: [&str; 2] = ["Ann", "Ben"];

/// Inserts a catalog of 60 products with reviews, unless the tenant has categories already. Returns the number of new products.
///
/// # Errors
///
/// Errors of the database.
pub async fn insert_catalog(shop: &TenantSession) -> odm::Result<usize> {
    if shop.find::<Category>().exists().await? {
        return Ok(0);
    }
    let customers = CUSTOMERS.map(|name| NewCustomer {
        email: format!("{}@example.org", name.to_lowercase()),
        name: name.to_owned(),
    });
    let customers = shop.insert_many(customers).await?;
    let mut count = 0;
    for (name, kinds) in CATEGORIES {
        let (slug, name) = (name.to_lowercase(), name.to_owned());
        let category = shop.insert(NewCategory { slug, name }).await?;
        let kinds = kinds.split(", ");
        let names = kinds.flat_map(|kind| VARIANTS.map(|variant| format!("{kind}, {variant}")));
        let products = (1_u32..).zip(names).map(|(number, name)| NewProduct {
            sku: format!("{}-{number:03}", category.slug),
            name,
            price: 900 + 350 * i64::from(number),
            stock: 10 * number,
            category: category.to_ref(),
        });
        let products = shop.insert_many(products).await?;
        for (author, stars) in customers.iter().zip(3..) {
            let reviews = products.iter().map(|product| NewReview {
                product: product.to_ref(),
                author: author.to_ref(),
                stars,
                text: "As described.".to_owned(),
            });
            shop.insert_many(reviews).await?;
        }
        count += products.len();
    }
    Ok(count)
}
