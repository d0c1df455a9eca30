//! odm, on the engine on disk or in memory.

use std::{ops::Range, path::Path, time::Duration};

use odm::{Database, Durability, prelude::*};
use odm_benches::tasks::{NewPerson, Task};
use tokio::task::JoinSet;

use super::{CommitMode, Contender, Result, unsupported};
use crate::data::{
    FIRST_CITY, Kit, NewOffer, Offer, Part, Product, Review, SUPPLIER_ID, Shop, Supplier, TOPIC_ID,
    Topic, supplier,
};

/// The maximum wait for pending work.
const MAX_PENDING_WAIT: Duration = Duration::from_secs(600);

pub(crate) struct Odm {
    db: Database<Shop>,
    is_on_disk: bool,
}

impl Odm {
    pub(crate) async fn create(path: &Path) -> Result<Self> {
        let created = Self::open(path).await?;
        created.db.sync_indexes().await?;
        Ok(created)
    }

    /// Opens the database like a program at its start.
    pub(crate) async fn open(path: &Path) -> Result<Self> {
        let db = Database::open(&format!("odm:{}", path.display())).await?;
        Ok(Self {
            db,
            is_on_disk: true,
        })
    }

    pub(crate) async fn create_in_memory() -> Result<Self> {
        let db = Database::open("memory:").await?;
        db.sync_indexes().await?;
        Ok(Self {
            db,
            is_on_disk: false,
        })
    }
}

impl Contender for Odm {
    async fn insert_many(&mut self, products: Vec<Product>) -> Result<()> {
        self.db.insert_many(products).await?;
        Ok(())
    }

    async fn get(&mut self, id: i64) -> Result<Product> {
        Ok(self.db.get(id).await?)
    }

    async fn find_by_sku(&mut self, sku: String) -> Result<Product> {
        let products = self.db.find::<Product>().filter(|p| p.sku().eq(sku));
        Ok(products.one().await?)
    }

    async fn find_by_category(&mut self, category: i64) -> Result<Vec<Product>> {
        let products = self.db.find::<Product>();
        let products = products.filter(|p| p.category().eq(category));
        Ok(products.sort(|p| p.name().asc()).all().await?)
    }

    async fn insert(&mut self, product: Product) -> Result<()> {
        self.db.insert(product).await?;
        Ok(())
    }

    /// Runs each caller in a task, like the requests of a server.
    async fn insert_concurrently(&mut self, batches: Vec<Vec<Product>>) -> Result<()> {
        let mut callers = JoinSet::<odm::Result<()>>::new();
        for batch in batches {
            let db = self.db.clone();
            callers.spawn(async move {
                for product in batch {
                    db.insert(product).await?;
                }
                Ok(())
            });
        }
        while let Some(finished) = callers.join_next().await {
            finished??;
        }
        Ok(())
    }

    async fn increment_stock(&mut self, id: i64) -> Result<()> {
        self.db.update::<Product>(id).inc(|p| p.stock(), 1).await?;
        Ok(())
    }

    async fn move_stock(&mut self, from: i64, to: i64) -> Result<()> {
        let moved = self.db.transaction(async |tx| -> odm::Result<()> {
            tx.update::<Product>(from).inc(|p| p.stock(), -1).await?;
            tx.update::<Product>(to).inc(|p| p.stock(), 1).await?;
            Ok(())
        });
        Ok(moved.await?)
    }

    async fn push_review(&mut self, id: i64, review: Review) -> Result<()> {
        let update = self.db.update::<Product>(id);
        update.push(|p| p.reviews(), review).await?;
        Ok(())
    }

    async fn load_kits(&mut self, parts: Vec<Part>, kits: Vec<Kit>) -> Result<()> {
        self.db.insert_many(parts).await?;
        self.db.insert_many(kits).await?;
        Ok(())
    }

    async fn kit_with_parts(&mut self, id: i64) -> Result<(Kit, Vec<Part>)> {
        let (kit, parts) = self.db.get::<Kit>(id).with(|k| k.parts()).await?;
        Ok((kit, parts.loaded().cloned().collect()))
    }

    async fn shelf_with_parts(&mut self, shelf: i64) -> Result<Vec<(Kit, Vec<Part>)>> {
        let kits = self.db.find::<Kit>().filter(|k| k.shelf().eq(shelf));
        let kits = kits.with(|k| k.parts()).all().await?.into_iter();
        Ok(kits
            .map(|(kit, parts)| (kit, parts.loaded().cloned().collect()))
            .collect())
    }

    async fn set_commit_mode(&mut self, mode: CommitMode) -> Result<()> {
        if !self.is_on_disk {
            return unsupported();
        }
        self.db = self.db.with_durability(match mode {
            CommitMode::Durable => Durability::Full,
            CommitMode::Relaxed => Durability::Relaxed,
        });
        Ok(())
    }

    async fn load_tasks(&mut self, count: i64) -> Result<()> {
        let persons = (0..count).map(|id| NewPerson { id });
        self.db.insert_many(persons).await?;
        let owner = Ref::new;
        let tasks = (0..count).map(|id| Task {
            id,
            owner: owner(id),
        });
        self.db.insert_many(tasks).await?;
        Ok(())
    }

    async fn move_task(&mut self, task: i64, person: i64) -> Result<()> {
        let update = self.db.update::<Task>(task);
        update.set(|t| t.owner(), Ref::new(person)).await?;
        Ok(())
    }

    async fn restock(&mut self, categories: Range<i64>) -> Result<u64> {
        let update = self.db.update_many::<Product>(|p| {
            p.category().gte(categories.start) & p.category().lt(categories.end)
        });
        Ok(update.inc(|p| p.stock(), 1).await?.matched)
    }

    async fn load_offers(&mut self, offers: Vec<Offer>) -> Result<()> {
        self.db.insert(supplier()).await?;
        let offers = offers.into_iter().map(|offer| NewOffer {
            id: offer.id,
            text: offer.text,
            supplier: offer.supplier,
        });
        let offers = self.db.insert_many(offers).await?;
        assert!(offers.iter().all(|offer| offer.city == FIRST_CITY));
        Ok(())
    }

    async fn move_supplier(&mut self, city: String) -> Result<()> {
        let update = self.db.update::<Supplier>(SUPPLIER_ID);
        update.set(|s| s.city(), city).await?;
        let pending = self.db.wait_for_pending();
        pending.timeout(MAX_PENDING_WAIT).await?;
        Ok(())
    }

    async fn count_offers(&mut self, city: String) -> Result<u64> {
        let offers = self.db.find::<Offer>().filter(|o| o.city().eq(city));
        Ok(offers.count().await?)
    }

    async fn load_topic(&mut self, replies: Vec<Review>) -> Result<()> {
        let topic = Topic {
            id: TOPIC_ID,
            replies: Overflow::new(),
        };
        self.db.insert(topic).await?;
        let update = self.db.update::<Topic>(TOPIC_ID);
        update.push_each(|t| t.replies(), replies).await?;
        Ok(())
    }

    async fn push_reply(&mut self, reply: Review) -> Result<()> {
        let update = self.db.update::<Topic>(TOPIC_ID);
        update.push(|t| t.replies(), reply).await?;
        Ok(())
    }

    async fn close(self) -> Result<()> {
        Ok(self.db.close().await?)
    }
}
