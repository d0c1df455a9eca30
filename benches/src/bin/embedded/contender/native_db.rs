//! native_db, with the struct of the model as the stored type. An update needs the old and the new struct.

use std::{path::Path, sync::LazyLock};

use native_db::{Builder, Database, Models, transaction::RwTransaction};

use super::{CACHE_BYTES, Contender, Result, run_in_threads};
use crate::data::{Product, ProductKey, Review};

static MODELS: LazyLock<Models> = LazyLock::new(|| {
    let mut models = Models::new();
    let defined = models.define::<Product>();
    defined.expect("the model has a unique id and valid keys");
    models
});

pub(crate) struct NativeDb {
    database: Database<'static>,
}

impl NativeDb {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let database = Builder::new()
            .set_cache_size(CACHE_BYTES)
            .create(&MODELS, path)?;
        Ok(Self { database })
    }

    pub(crate) fn open(path: &Path) -> Result<Self> {
        let database = Builder::new()
            .set_cache_size(CACHE_BYTES)
            .open(&MODELS, path)?;
        Ok(Self { database })
    }
}

fn insert(database: &Database<'_>, products: Vec<Product>) -> Result<()> {
    let transaction = database.rw_transaction()?;
    for product in products {
        transaction.insert(product)?;
    }
    Ok(transaction.commit()?)
}

fn change(
    transaction: &RwTransaction<'_>,
    id: i64,
    change: impl FnOnce(&mut Product) -> Result<()>,
) -> Result<()> {
    let old: Product = transaction.get().primary(id)?.ok_or("no product")?;
    let mut new = old.clone();
    change(&mut new)?;
    Ok(transaction.update(old, new)?)
}

fn add_to_stock(transaction: &RwTransaction<'_>, id: i64, pieces: i64) -> Result<()> {
    change(transaction, id, |product| {
        product.stock += pieces;
        Ok(())
    })
}

impl Contender for NativeDb {
    async fn insert_many(&mut self, products: Vec<Product>) -> Result<()> {
        insert(&self.database, products)
    }

    async fn get(&mut self, id: i64) -> Result<Product> {
        let transaction = self.database.r_transaction()?;
        Ok(transaction.get().primary(id)?.ok_or("no product")?)
    }

    async fn find_by_sku(&mut self, sku: String) -> Result<Product> {
        let transaction = self.database.r_transaction()?;
        let found = transaction.get().secondary(ProductKey::sku, sku)?;
        Ok(found.ok_or("no product")?)
    }

    async fn find_by_category(&mut self, category: i64) -> Result<Vec<Product>> {
        let transaction = self.database.r_transaction()?;
        let scan = transaction.scan();
        let scan = scan.secondary::<Product>(ProductKey::category)?;
        let products = scan.range(category..=category)?;
        let mut products = products.collect::<Result<Vec<_>, _>>()?;
        products.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(products)
    }

    async fn insert(&mut self, product: Product) -> Result<()> {
        insert(&self.database, vec![product])
    }

    async fn insert_concurrently(&mut self, batches: Vec<Vec<Product>>) -> Result<()> {
        let handles = vec![&self.database; batches.len()];
        run_in_threads(batches, handles, |database, product| {
            insert(database, vec![product])
        })
    }

    async fn increment_stock(&mut self, id: i64) -> Result<()> {
        let transaction = self.database.rw_transaction()?;
        add_to_stock(&transaction, id, 1)?;
        Ok(transaction.commit()?)
    }

    async fn move_stock(&mut self, from: i64, to: i64) -> Result<()> {
        let transaction = self.database.rw_transaction()?;
        add_to_stock(&transaction, from, -1)?;
        add_to_stock(&transaction, to, 1)?;
        Ok(transaction.commit()?)
    }

    async fn push_review(&mut self, id: i64, review: Review) -> Result<()> {
        let transaction = self.database.rw_transaction()?;
        change(&transaction, id, |product| product.push_review(review))?;
        Ok(transaction.commit()?)
    }

    async fn close(self) -> Result<()> {
        Ok(())
    }
}
