//! A small catalog to try the service.

use odm::prelude::*;

use crate::models::{
    Category, Customer, NewCategory, NewCustomer, NewProduct, NewReview, Product, TenantSession,
};

/// The categories: the slug, the name, and the kinds of products.
const CATEGORIES: [(&str, &str, [&str; 5]); 3] = [
    (
        "tools",
        "Tools",
        ["Hand saw", "Claw hammer", "Chisel", "Rasp", "Plane"],
    ),
    (
        "garden",
        "Garden",
        ["Spade", "Rake", "Shears", "Trowel", "Watering can"],
    ),
    (
        "kitchen",
        "Kitchen",
        ["Bread knife", "Whisk", "Grater", "Ladle", "Sieve"],
    ),
];

/// The variants of each kind of product.
const VARIANTS: [&str; 4] = ["small", "medium", "large", "antique"];

/// The customers: the email and the name.
const CUSTOMERS: [(&str, &str); 2] = [
    ("ann@example.org", "Ann Archer"),
    ("ben@example.org", "Ben Baker"),
];

/// Inserts a catalog of 60 products with reviews, unless the tenant has categories already. Returns the number of new products.
///
/// # Errors
///
/// Errors of the database.
pub async fn insert_catalog(shop: &TenantSession) -> odm::Result<usize> {
    if shop.find::<Category>().exists().await? {
        return Ok(0);
    }
    let customers = CUSTOMERS.map(|(email, name)| NewCustomer {
        id: ObjectId::new(),
        email: email.to_owned(),
        name: name.to_owned(),
    });
    let customers = shop.insert_many(customers).await?;
    let mut count = 0;
    for (slug, name, kinds) in CATEGORIES {
        let category = NewCategory {
            id: ObjectId::new(),
            slug: slug.to_owned(),
            name: name.to_owned(),
        };
        let category = shop.insert(category).await?;
        let products = new_products(&category, &kinds);
        let products = shop.insert_many(products).await?;
        shop.insert_many(new_reviews(&products, &customers)).await?;
        count += products.len();
    }
    Ok(count)
}

/// Returns each kind in each variant.
fn new_products(category: &Category, kinds: &[&str]) -> Vec<NewProduct> {
    let names = kinds
        .iter()
        .flat_map(|kind| VARIANTS.map(|variant| format!("{kind}, {variant}")));
    let products = (1_u32..).zip(names).map(|(number, name)| NewProduct {
        id: ObjectId::new(),
        sku: format!("{}-{number:03}", category.slug),
        name,
        price: 900 + 350 * i64::from(number),
        stock: 10 * number,
        category: category.to_ref(),
    });
    products.collect()
}

/// Returns a review of each product by each customer.
fn new_reviews(products: &[Product], customers: &[Customer]) -> Vec<NewReview> {
    let pairs = products.iter().flat_map(|product| {
        let authors = customers.iter();
        authors.map(move |author| (product, author))
    });
    let reviews = (0_i64..)
        .zip(pairs)
        .map(|(number, (product, author))| NewReview {
            id: ObjectId::new(),
            product: product.to_ref(),
            author: author.to_ref(),
            stars: 3 + number % 3,
            text: "As described.".to_owned(),
            written: DateTime::now(),
        });
    reviews.collect()
}
