//! Tenants that are documents: the scope is a reference, and the documents of a tenant go with the tenant.

use odm::{Database, ErrorKind, Session, prelude::*};

use crate::{
    Fixture,
    crash::{CrashTest, Write},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "shops")]
struct Shop {
    #[serde(rename = "_id")]
    id: String,
    name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "categories", scope = shop, soft_delete)]
struct Category {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    shop: Ref<Shop>,
    name: String,
    #[denormalize(from = shop.name)]
    shop_name: String,
    deleted_at: Option<DateTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "products", scope = shop)]
struct Product {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    shop: Ref<Shop>,
    #[index(unique)]
    sku: String,
    #[reference(on_delete = restrict)]
    category: Ref<Category>,
}

#[derive(Schema)]
#[schema(models(Shop, Category, Product))]
struct Trade;
type Db = Database<Trade>;
type Tenant = Session<Trade, Ref<Shop>>;

fn shop(db: &Db, id: &str) -> Tenant {
    db.scope(&Ref::<Shop>::new(id))
}

fn category(id: i64) -> NewCategory {
    NewCategory {
        id,
        name: format!("category {id}"),
    }
}

fn product(id: i64, category: i64) -> NewProduct {
    NewProduct {
        id,
        sku: format!("sku {}", id % 100),
        category: Ref::new(category),
    }
}

/// Inserts two shops with a category and products each. The numbers of the first shop begin with 1, and those of the second with 2.
async fn insert_shops(db: &Db, products: i64) {
    db.sync_indexes().await.unwrap();
    for (id, first) in [("a", 100_000), ("b", 200_000)] {
        let new = Shop {
            id: id.into(),
            name: id.to_uppercase(),
        };
        db.insert(new).await.unwrap();
        let tenant = shop(db, id);
        tenant.insert(category(first)).await.unwrap();
        let products = (0..products).map(|number| NewProduct {
            sku: format!("sku {number}"),
            ..product(first + number, first)
        });
        tenant.insert_many(products).await.unwrap();
    }
}

async fn counts(db: &Db) -> (u64, u64, u64) {
    let all = db.all_scopes();
    (
        db.find::<Shop>().count().await.unwrap(),
        all.find::<Category>().with_deleted().count().await.unwrap(),
        all.find::<Product>().count().await.unwrap(),
    )
}

pub async fn a_tenant_exists(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_shops(&db, 2).await;
    let missing = shop(&db, "missing").insert(category(1)).await;
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::Dangling);
    // Unique within the tenant: both shops have the number `sku 0`.
    let duplicate = shop(&db, "a").insert(product(100_100, 100_000)).await;
    assert!(duplicate.unwrap_err().is_duplicate_key());
    let category = shop(&db, "a").get::<Category>(100_000).await.unwrap();
    assert_eq!(category.shop_name, "A");
    // A category of another tenant.
    let other = shop(&db, "a").insert(product(100_007, 200_000)).await;
    assert_eq!(other.unwrap_err().kind(), ErrorKind::Dangling);
}

pub async fn the_documents_of_a_tenant_go_with_the_tenant(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_shops(&db, 30).await;
    shop(&db, "a").insert(category(100_001)).await.unwrap();
    shop(&db, "a").delete::<Category>(100_001).await.unwrap();
    // Products restrict the delete of their category, and go with the shop.
    let restricted = shop(&db, "a").delete::<Category>(100_000).permanently();
    assert_eq!(restricted.await.unwrap_err().kind(), ErrorKind::Restricted);
    assert_eq!(counts(&db).await, (2, 3, 60));
    let deleted = db.delete::<Shop>("a").await.unwrap();
    assert_eq!(deleted.deleted, 1);
    db.wait_for_pending().await.unwrap();
    assert_eq!(counts(&db).await, (1, 1, 30));
    assert!(db.check().await.unwrap().is_clean());
    // The session of a deleted tenant finds nothing, and inserts nothing.
    assert_eq!(shop(&db, "a").find::<Product>().count().await.unwrap(), 0);
    let late = shop(&db, "a").insert(category(100_002)).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Dangling);
}

pub async fn inserts_beside_the_delete_of_their_tenant(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_shops(&db, 20).await;
    let writer = {
        let db = db.clone();
        tokio::spawn(async move {
            let a = shop(&db, "a");
            for id in 150_000..150_020 {
                match a.insert(category(id)).await {
                    Ok(_) => {}
                    Err(error) => assert!(
                        error.kind() == ErrorKind::Dangling || error.is_conflict(),
                        "{error}"
                    ),
                }
            }
        })
    };
    while let Err(error) = db.delete::<Shop>("a").await {
        assert!(error.is_conflict(), "{error}");
    }
    writer.await.unwrap();
    db.wait_for_pending().await.unwrap();
    assert_eq!(counts(&db).await, (1, 1, 20));
    assert!(db.check().await.unwrap().is_clean());
}

pub async fn a_crash_leaves_a_whole_tenant_or_none(fixture: Fixture) {
    const WRITES: &[Write<Trade>] = &[
        ("delete of a tenant", |db| {
            Box::pin(async move { db.delete::<Shop>("a").await.map(drop) })
        }),
        ("insert into a tenant", |db| {
            Box::pin(async move { shop(&db, "a").insert(category(100_001)).await.map(drop) })
        }),
    ];
    let crashes = CrashTest {
        writes: WRITES,
        begin: |db| Box::pin(async move { insert_shops(db, 3).await }),
        may_find: |_| false,
        agrees: |db, when| {
            Box::pin(async move {
                let all = db.all_scopes();
                let of_a = |count: u64| count - 1;
                let shops = of_a(db.find::<Shop>().count().await.unwrap());
                let categories = of_a(all.find::<Category>().count().await.unwrap());
                let products = all.find::<Product>().count().await.unwrap() - 3;
                let is_whole = shops == 1 && (1..=2).contains(&categories) && products == 3;
                let is_gone = (shops, categories, products) == (0, 0, 0);
                assert!(
                    is_whole || is_gone,
                    "{when}: {shops} {categories} {products}"
                );
            })
        },
    };
    crashes.run(&fixture).await;
}
