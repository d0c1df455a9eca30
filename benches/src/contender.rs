//! Those that are compared.

pub(crate) mod driver;
pub(crate) mod odm;
pub(crate) mod sqlite;

use crate::data::{Part, Product};

/// Anything can fail in a benchmark, and ends it.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A way to store products and to read them back into structs.
pub(crate) trait Contender {
    /// What it is called in the results.
    fn name(&self) -> &'static str;

    /// Inserts parts, once.
    async fn load(&mut self, parts: Vec<Part>) -> Result<()>;

    /// Inserts products in one call, durably.
    async fn insert_many(&mut self, products: Vec<Product>) -> Result<()>;

    /// Inserts one product, durably.
    async fn insert(&mut self, product: Product) -> Result<()>;

    /// Reads a product by its id.
    async fn get(&mut self, id: i64) -> Result<Product>;

    /// Reads the products of a category, by an index.
    async fn find(&mut self, category: i64) -> Result<Vec<Product>>;

    /// Reads the products of a category with all their parts, in the order of the references.
    async fn join(&mut self, category: i64) -> Result<Vec<(Product, Vec<Part>)>>;

    /// Gives a task to a person, so that it is listed there and nowhere else, durably.
    async fn give(&mut self, task: i64, person: i64) -> Result<()>;
}
