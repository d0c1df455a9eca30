//! Averages, minimums and maximums under schedules: processes insert, move, change and delete the children with extreme values,
//! and delete and insert a parent.

use std::sync::Arc;

use odm::{
    backend::{Backend, BoxFuture},
    check::FindingKind,
    prelude::*,
};

use super::{Case, Process, recover_pending};
use crate::aftermath::recover_and_check;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "products")]
struct Product {
    #[serde(rename = "_id")]
    id: i64,
    #[count(of = Review::product)]
    reviews: i64,
    #[avg(of = Review::product, value = stars)]
    average: Option<f64>,
    #[min(of = Review::product, value = stars)]
    worst: Option<i64>,
    #[max(of = Review::product, value = stars)]
    best: Option<i64>,
    #[computed((best - worst) / reviews, default = -1.0)]
    spread: f64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "reviews")]
struct Review {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    product: Ref<Product>,
    stars: i64,
}

#[derive(Schema)]
#[schema(models(Product, Review))]
struct Shop;
type Db = odm::Database<Shop>;

/// Five processes: inserts of children, moves and changes of the minimum, a delete and insert of the maximum, a delete and insert
/// of a parent, and recovery of pending work.
#[derive(Debug)]
pub struct Averages;

fn review(id: i64, product: i64, stars: i64) -> Review {
    Review {
        id,
        product: Ref::new(product),
        stars,
    }
}

impl Case for Averages {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = Db::with_backend(backend);
            db.sync_indexes().await.expect("indexes");
            let products = [NewProduct { id: 1 }, NewProduct { id: 2 }];
            db.insert_many(products).await.expect("the products");
            let reviews = [review(1, 1, 1), review(2, 1, 9), review(3, 2, 5)];
            db.insert_many(reviews).await.expect("the reviews");
            db.wait_for_pending().await.expect("no pending work");
        })
    }

    fn processes(&self) -> Vec<Process> {
        // A failed write had too many conflicts, and has changed no document.
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.insert_many([review(4, 1, 0), review(5, 2, 3)]).await;
                    let _ = db.delete::<Review>(4).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let moved = db.update::<Review>(1).set(|r| r.product(), Ref::new(2));
                    let _ = moved.inc(|r| r.stars(), 10).await;
                    let back = db.modify::<Review>(1, |review| review.product = Ref::new(1));
                    let _ = back.await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.delete::<Review>(2).await;
                    let _ = db.insert(review(2, 2, 4)).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.delete::<Product>(1).await;
                    let _ = db.insert(NewProduct { id: 1 }).await;
                })
            },
            recover_pending::<Shop>,
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(recover_and_check::<Shop>(backend, |fault| {
            // The product may be deleted.
            matches!(fault, FindingKind::Dangling { .. })
        }))
    }
}

/// A case that is small enough to run every order: the child with the minimum leaves, while a new child becomes the minimum.
#[derive(Debug)]
pub struct SmallAverages;

impl Case for SmallAverages {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Averages.begin(backend)
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.update::<Review>(1).set(|r| r.stars(), 20).await;
                })
            },
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    let _ = db.update::<Review>(2).set(|r| r.stars(), 0).await;
                })
            },
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Averages.end(backend)
    }
}
