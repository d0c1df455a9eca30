//! MongoDB's driver without a mapper, like an application by hand.

use std::collections::HashMap;

use futures_util::TryStreamExt;
use mongodb::{
    Client, Collection, IndexModel,
    bson::{Document, doc},
    options::{Acknowledgment, WriteConcern},
};

use odm_benches::tasks::PERSON_COUNT;

use super::{Contender, Result};
use crate::data::{Part, Product};

pub(crate) struct Driver {
    client: Client,
    persons: Collection<Document>,
    tasks: Collection<Document>,
    parts: Collection<Part>,
    products: Collection<Product>,
}

impl Driver {
    pub(crate) async fn open(url: &str) -> Result<Self> {
        let client = Client::with_uri_str(url).await?;
        let database = client
            .default_database()
            .ok_or("the URL names a database")?;
        // The same durability as the writes of odm.
        let concern = WriteConcern::builder()
            .w(Acknowledgment::Majority)
            .journal(true)
            .build();
        let options = mongodb::options::CollectionOptions::builder()
            .write_concern(concern)
            .build();
        let products = database.collection_with_options::<Product>("products", options.clone());
        let index = IndexModel::builder().keys(doc! { "category": 1 }).build();
        products.create_index(index).await?;
        Ok(Self {
            client,
            persons: database.collection_with_options("persons", options.clone()),
            tasks: database.collection_with_options("tasks", options.clone()),
            parts: database.collection_with_options("parts", options),
            products,
        })
    }
}

impl Contender for Driver {
    fn name(&self) -> &'static str {
        "MongoDB's driver"
    }

    async fn load(&mut self, parts: Vec<Part>) -> Result<()> {
        self.parts.insert_many(parts).await?;
        let persons = (0..PERSON_COUNT).map(|id| doc! { "_id": id, "tasks": [id] });
        self.persons.insert_many(persons).await?;
        let tasks = (0..PERSON_COUNT).map(|id| doc! { "_id": id, "owner": id });
        self.tasks.insert_many(tasks).await?;
        Ok(())
    }

    async fn insert_many(&mut self, products: Vec<Product>) -> Result<()> {
        self.products.insert_many(products).await?;
        Ok(())
    }

    async fn insert(&mut self, product: Product) -> Result<()> {
        self.products.insert_one(product).await?;
        Ok(())
    }

    async fn get(&mut self, id: i64) -> Result<Product> {
        let found = self.products.find_one(doc! { "_id": id }).await?;
        Ok(found.ok_or("no product")?)
    }

    async fn find(&mut self, category: i64) -> Result<Vec<Product>> {
        let cursor = self.products.find(doc! { "category": category }).await?;
        Ok(cursor.try_collect().await?)
    }

    async fn join(&mut self, category: i64) -> Result<Vec<(Product, Vec<Part>)>> {
        let products = self.find(category).await?;
        let mut ids: Vec<i64> = products
            .iter()
            .flat_map(|p| &p.parts)
            .map(|part| *part.id())
            .collect();
        ids.sort_unstable();
        ids.dedup();
        let cursor = self.parts.find(doc! { "_id": { "$in": ids } }).await?;
        let parts: Vec<Part> = cursor.try_collect().await?;
        let parts: HashMap<i64, Part> = parts.into_iter().map(|part| (part.id, part)).collect();
        let parts_of = |product: &Product| {
            let found = product
                .parts
                .iter()
                .filter_map(|part| parts.get(part.id()).cloned());
            found.collect()
        };
        Ok(products
            .into_iter()
            .map(|product| (parts_of(&product), product))
            .map(|(p, product)| (product, p))
            .collect())
    }

    async fn move_task(&mut self, task: i64, person: i64) -> Result<()> {
        let mut session = self.client.start_session().await?;
        session.start_transaction().await?;
        let set = doc! { "$set": { "owner": person } };
        let before = self.tasks.find_one_and_update(doc! { "_id": task }, set);
        let before = before.session(&mut session).await?.ok_or("no task")?;
        let owner = before.get_i64("owner")?;
        let pull = doc! { "$pull": { "tasks": task } };
        let update = self.persons.update_one(doc! { "_id": owner }, pull);
        update.session(&mut session).await?;
        let add = doc! { "$addToSet": { "tasks": task } };
        let entered = self.persons.update_one(doc! { "_id": person }, add);
        if entered.session(&mut session).await?.matched_count != 1 {
            return Err("no person".into());
        }
        Ok(session.commit_transaction().await?)
    }
}
