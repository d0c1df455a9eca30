//! The contenders of the comparison.

pub(crate) mod driver;
pub(crate) mod odm;
pub(crate) mod sqlite;

use crate::data::{Part, Product};

/// The result of a benchmark step. Any error ends the benchmark.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A way to store products and to read products back into structs.
pub(crate) trait Contender {
    /// Returns the name in the results.
    fn name(&self) -> &'static str;

    /// Inserts the parts.
    async fn load(&mut self, parts: Vec<Part>) -> Result<()>;

    /// Inserts products in a single call, durably.
    async fn insert_many(&mut self, products: Vec<Product>) -> Result<()>;

    /// Inserts a single product, durably.
    async fn insert(&mut self, product: Product) -> Result<()>;

    /// Reads a product by id.
    async fn get(&mut self, id: i64) -> Result<Product>;

    /// Reads the products of a category, by an index.
    async fn find(&mut self, category: i64) -> Result<Vec<Product>>;

    /// Reads the products of a category with all parts, in the order of the references.
    async fn join(&mut self, category: i64) -> Result<Vec<(Product, Vec<Part>)>>;

    /// Moves a task to a person, so that only this person lists the task, durably.
    async fn move_task(&mut self, task: i64, person: i64) -> Result<()>;
}
