//! odm, on any backend.

use odm::{Database, Ref};
use odm_benches::tasks::{NewPerson, PERSON_COUNT, Task};

use super::{Contender, Result};
use crate::data::{Part, Product, Shop};

pub(crate) struct Odm {
    name: &'static str,
    db: Database<Shop>,
}

impl Odm {
    pub(crate) async fn open(name: &'static str, url: &str) -> Result<Self> {
        let db = Database::open(url).await?;
        db.sync_indexes().await?;
        Ok(Self { name, db })
    }
}

impl Contender for Odm {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn load(&mut self, parts: Vec<Part>) -> Result<()> {
        self.db.insert_many(parts).await?;
        let persons = (0..PERSON_COUNT).map(|id| NewPerson { id });
        self.db.insert_many(persons).await?;
        let tasks = (0..PERSON_COUNT).map(|id| Task {
            id,
            owner: Ref::new(id),
        });
        self.db.insert_many(tasks).await?;
        Ok(())
    }

    async fn insert_many(&mut self, products: Vec<Product>) -> Result<()> {
        self.db.insert_many(products).await?;
        Ok(())
    }

    async fn insert(&mut self, product: Product) -> Result<()> {
        self.db.insert(product).await?;
        Ok(())
    }

    async fn get(&mut self, id: i64) -> Result<Product> {
        Ok(self.db.get(id).await?)
    }

    async fn find(&mut self, category: i64) -> Result<Vec<Product>> {
        let products = self
            .db
            .find::<Product>()
            .filter(|p| p.category().eq(category));
        Ok(products.all().await?)
    }

    async fn join(&mut self, category: i64) -> Result<Vec<(Product, Vec<Part>)>> {
        let products = self
            .db
            .find::<Product>()
            .filter(|p| p.category().eq(category));
        let joined = products.with(|p| p.parts()).all().await?;
        let owned = |parts: odm::relation::Links<Part>| parts.loaded().cloned().collect();
        Ok(joined
            .into_iter()
            .map(|(product, parts)| (product, owned(parts)))
            .collect())
    }

    async fn move_task(&mut self, task: i64, person: i64) -> Result<()> {
        let update = self.db.update::<Task>(task);
        update.set(|t| t.owner(), Ref::new(person)).await?;
        Ok(())
    }
}
