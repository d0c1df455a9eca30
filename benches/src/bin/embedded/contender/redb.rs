//! redb with BSON documents and handwritten indexes: the lowest cost that a store on redb can have.

use std::{ops::Range, path::Path};

use odm::bson::{deserialize_from_slice, serialize_to_vec};
use redb::{Builder, Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::{CACHE_BYTES, Contender, Result, run_in_threads};
use crate::data::{Product, Review};

const PRODUCTS: TableDefinition<'_, i64, &[u8]> = TableDefinition::new("products");
/// The index of each field: the value with the id. The unique index has the id as value.
const BY_SKU: TableDefinition<'_, &str, i64> = TableDefinition::new("sku");
const BY_CATEGORY: TableDefinition<'_, (i64, i64), ()> = TableDefinition::new("category");
const BY_PRICE: TableDefinition<'_, (i64, i64), ()> = TableDefinition::new("price");

pub(crate) struct Redb {
    database: Database,
}

impl Redb {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let database = Builder::new().set_cache_size(CACHE_BYTES).create(path)?;
        // The first read needs the tables.
        insert(&database, &[])?;
        Ok(Self { database })
    }

    pub(crate) fn open(path: &Path) -> Result<Self> {
        let database = Builder::new().set_cache_size(CACHE_BYTES).open(path)?;
        Ok(Self { database })
    }
}

fn insert(database: &Database, products: &[Product]) -> Result<()> {
    let transaction = database.begin_write()?;
    {
        let mut documents = transaction.open_table(PRODUCTS)?;
        let mut by_sku = transaction.open_table(BY_SKU)?;
        let mut by_category = transaction.open_table(BY_CATEGORY)?;
        let mut by_price = transaction.open_table(BY_PRICE)?;
        for product in products {
            let bytes = serialize_to_vec(product)?;
            let is_old_id = documents.insert(product.id, bytes.as_slice())?.is_some();
            let is_old_sku = by_sku.insert(product.sku.as_str(), product.id)?.is_some();
            if is_old_id || is_old_sku {
                return Err("a product with this id or sku exists".into());
            }
            by_category.insert((product.category, product.id), ())?;
            by_price.insert((product.price, product.id), ())?;
        }
    }
    Ok(transaction.commit()?)
}

/// Changes a product without a change of an indexed field.
fn change_unindexed(
    documents: &mut redb::Table<'_, i64, &'static [u8]>,
    id: i64,
    change: impl FnOnce(&mut Product) -> Result<()>,
) -> Result<()> {
    let mut product = read_product(documents, id)?;
    change(&mut product)?;
    documents.insert(id, serialize_to_vec(&product)?.as_slice())?;
    Ok(())
}

fn read_product(documents: &impl ReadableTable<i64, &'static [u8]>, id: i64) -> Result<Product> {
    let bytes = documents.get(id)?.ok_or("no product")?;
    Ok(deserialize_from_slice(bytes.value())?)
}

impl Redb {
    /// Runs changes of products in a transaction.
    fn change(&self, change: impl FnOnce(&WriteTransaction) -> Result<()>) -> Result<()> {
        let transaction = self.database.begin_write()?;
        change(&transaction)?;
        Ok(transaction.commit()?)
    }
}

fn add_to_stock(transaction: &WriteTransaction, id: i64, pieces: i64) -> Result<()> {
    let mut documents = transaction.open_table(PRODUCTS)?;
    change_unindexed(&mut documents, id, |product| {
        product.stock += pieces;
        Ok(())
    })
}

impl Contender for Redb {
    async fn insert_many(&mut self, products: Vec<Product>) -> Result<()> {
        insert(&self.database, &products)
    }

    async fn get(&mut self, id: i64) -> Result<Product> {
        let transaction = self.database.begin_read()?;
        read_product(&transaction.open_table(PRODUCTS)?, id)
    }

    async fn find_by_sku(&mut self, sku: String) -> Result<Product> {
        let transaction = self.database.begin_read()?;
        let by_sku = transaction.open_table(BY_SKU)?;
        let id = by_sku.get(sku.as_str())?.ok_or("no product")?.value();
        read_product(&transaction.open_table(PRODUCTS)?, id)
    }

    async fn find_by_category(&mut self, category: i64) -> Result<Vec<Product>> {
        let transaction = self.database.begin_read()?;
        let documents = transaction.open_table(PRODUCTS)?;
        let by_category = transaction.open_table(BY_CATEGORY)?;
        let ids = by_category.range((category, i64::MIN)..=(category, i64::MAX))?;
        let products = ids.map(|entry| read_product(&documents, entry?.0.value().1));
        let mut products = products.collect::<Result<Vec<_>>>()?;
        products.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(products)
    }

    async fn insert(&mut self, product: Product) -> Result<()> {
        insert(&self.database, &[product])
    }

    async fn insert_concurrently(&mut self, batches: Vec<Vec<Product>>) -> Result<()> {
        let handles = vec![&self.database; batches.len()];
        run_in_threads(batches, handles, |database, product| {
            insert(database, &[product])
        })
    }

    async fn increment_stock(&mut self, id: i64) -> Result<()> {
        self.change(|transaction| add_to_stock(transaction, id, 1))
    }

    async fn move_stock(&mut self, from: i64, to: i64) -> Result<()> {
        self.change(|transaction| {
            add_to_stock(transaction, from, -1)?;
            add_to_stock(transaction, to, 1)
        })
    }

    async fn push_review(&mut self, id: i64, review: Review) -> Result<()> {
        self.change(|transaction| {
            let mut documents = transaction.open_table(PRODUCTS)?;
            change_unindexed(&mut documents, id, |product| product.push_review(review))
        })
    }

    async fn restock(&mut self, categories: Range<i64>) -> Result<u64> {
        let mut matched = 0;
        self.change(|transaction| {
            let by_category = transaction.open_table(BY_CATEGORY)?;
            let mut documents = transaction.open_table(PRODUCTS)?;
            let ids = (categories.start, i64::MIN)..(categories.end, i64::MIN);
            for entry in by_category.range(ids)? {
                change_unindexed(&mut documents, entry?.0.value().1, |product| {
                    product.stock += 1;
                    Ok(())
                })?;
                matched += 1;
            }
            Ok(())
        })?;
        Ok(matched)
    }

    async fn close(self) -> Result<()> {
        Ok(())
    }
}
