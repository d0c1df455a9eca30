//! `odm-engine` on disk, with documents encoded by hand and without models.

use std::{collections::HashMap, ops::Range, path::Path};

use odm::bson::{
    RawDocumentBuf, deserialize_from_slice, rawdoc, serialize_to_raw_document_buf as encode,
};
use odm_engine::{
    Count, Database, Direction, Durability, Find, Index, Session, Transaction, Update,
};
use serde::{Serialize, de::DeserializeOwned};

use super::{CommitMode, Contender, Result, run_in_threads};
use crate::data::{Kit, MAX_REVIEWS, Offer, Part, Product, Review, SUPPLIER_ID, supplier};

pub(crate) struct RawEngine {
    database: Database,
}

impl RawEngine {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let engine = Self::open(path)?;
        let database = &engine.database;
        let index = |field: &str| Index::new([(field, Direction::Ascending)]);
        let indexes = [index("sku").unique(), index("category"), index("price")];
        database.create_indexes("products", &indexes)?;
        database.create_indexes("kits", &[index("shelf")])?;
        database.create_indexes("tasks", &[index("owner")])?;
        database.create_indexes("offers", &[index("supplier")])?;
        Ok(engine)
    }

    pub(crate) fn open(path: &Path) -> Result<Self> {
        let database = Database::open(path)?;
        Ok(Self { database })
    }

    fn find<T: DeserializeOwned>(
        &self,
        collection: &str,
        filter: RawDocumentBuf,
    ) -> Result<Vec<T>> {
        let find = Find {
            filter,
            ..Find::default()
        };
        self.find_all(collection, &find)
    }

    fn find_all<T: DeserializeOwned>(&self, collection: &str, find: &Find) -> Result<Vec<T>> {
        let documents = self.database.find(collection, find)?;
        let decoded = documents.map(|raw| Ok(deserialize_from_slice(raw?.as_bytes())?));
        decoded.collect()
    }

    /// Returns each kit with its parts, which one query reads.
    fn join_parts(&self, kits: Vec<Kit>) -> Result<Vec<(Kit, Vec<Part>)>> {
        let references = kits.iter().flat_map(|kit| &kit.parts);
        let mut ids: Vec<i64> = references.map(|part| *part.id()).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut array = odm::bson::RawArrayBuf::new();
        ids.into_iter().for_each(|id| array.push(id));
        let parts = self.find::<Part>("parts", rawdoc! { "_id": { "$in": array } })?;
        let parts: HashMap<i64, Part> = parts.into_iter().map(|part| (part.id, part)).collect();
        let join = |kit: Kit| {
            let of_kit = kit.parts.iter().filter_map(|part| parts.get(part.id()));
            let of_kit = of_kit.cloned().collect();
            (kit, of_kit)
        };
        Ok(kits.into_iter().map(join).collect())
    }
}

fn insert<T: Serialize>(session: &Session, collection: &str, documents: &[T]) -> Result<()> {
    let documents = documents.iter().map(encode).collect::<Result<_, _>>()?;
    session.insert(collection, documents)?.into_result()?;
    Ok(())
}

/// Updates documents, and returns the number of matching documents.
fn update(
    session: &Session,
    collection: &str,
    filter: RawDocumentBuf,
    update: RawDocumentBuf,
    multi: bool,
) -> Result<u64> {
    let command = Update {
        filter,
        update,
        multi,
        ..Update::default()
    };
    let report = session.update(collection, &command)?;
    match report.failure {
        Some(failure) => Err(failure.into()),
        None => Ok(report.matched),
    }
}

fn update_one(
    session: &Session,
    collection: &str,
    filter: RawDocumentBuf,
    change: RawDocumentBuf,
) -> Result<()> {
    match update(session, collection, filter, change, false)? {
        1 => Ok(()),
        _ => Err("no document matches".into()),
    }
}

fn add_to_stock(session: &Session, id: i64, pieces: i64) -> Result<()> {
    let change = rawdoc! { "$inc": { "stock": pieces } };
    update_one(session, "products", rawdoc! { "_id": id }, change)
}

fn one<T>(found: Vec<T>) -> Result<T> {
    Ok(found.into_iter().next().ok_or("no document matches")?)
}

impl Contender for RawEngine {
    async fn insert_many(&mut self, products: Vec<Product>) -> Result<()> {
        insert(&self.database, "products", &products)
    }

    async fn get(&mut self, id: i64) -> Result<Product> {
        one(self.find("products", rawdoc! { "_id": id })?)
    }

    async fn find_by_sku(&mut self, sku: String) -> Result<Product> {
        one(self.find("products", rawdoc! { "sku": sku })?)
    }

    async fn find_by_category(&mut self, category: i64) -> Result<Vec<Product>> {
        let find = Find {
            filter: rawdoc! { "category": category },
            sort: Some(rawdoc! { "name": 1 }),
            ..Find::default()
        };
        self.find_all("products", &find)
    }

    async fn insert(&mut self, product: Product) -> Result<()> {
        insert(&self.database, "products", &[product])
    }

    async fn insert_concurrently(&mut self, batches: Vec<Vec<Product>>) -> Result<()> {
        let handles = vec![self.database.clone(); batches.len()];
        run_in_threads(batches, handles, |database, product| {
            insert(database, "products", &[product])
        })
    }

    async fn increment_stock(&mut self, id: i64) -> Result<()> {
        add_to_stock(&self.database, id, 1)
    }

    async fn move_stock(&mut self, from: i64, to: i64) -> Result<()> {
        let transaction: Transaction = self.database.begin()?;
        add_to_stock(&transaction, from, -1)?;
        add_to_stock(&transaction, to, 1)?;
        Ok(transaction.commit()?)
    }

    async fn push_review(&mut self, id: i64, review: Review) -> Result<()> {
        let last = format!("reviews.{}", MAX_REVIEWS - 1);
        let mut filter = rawdoc! { "_id": id };
        filter.append(
            odm::bson::raw::CString::try_from(last)?,
            rawdoc! { "$exists": false },
        );
        let change = rawdoc! { "$push": { "reviews": encode(&review)? } };
        update_one(&self.database, "products", filter, change)
    }

    async fn load_kits(&mut self, parts: Vec<Part>, kits: Vec<Kit>) -> Result<()> {
        insert(&self.database, "parts", &parts)?;
        insert(&self.database, "kits", &kits)
    }

    async fn kit_with_parts(&mut self, id: i64) -> Result<(Kit, Vec<Part>)> {
        one(self.join_parts(self.find("kits", rawdoc! { "_id": id })?)?)
    }

    async fn shelf_with_parts(&mut self, shelf: i64) -> Result<Vec<(Kit, Vec<Part>)>> {
        self.join_parts(self.find("kits", rawdoc! { "shelf": shelf })?)
    }

    async fn set_commit_mode(&mut self, mode: CommitMode) -> Result<()> {
        match mode {
            CommitMode::Relaxed => {
                self.database = self.database.with_durability(Durability::Relaxed);
            }
            CommitMode::Durable => {
                self.database = self.database.with_durability(Durability::Full);
                self.database.sync()?;
            }
        }
        Ok(())
    }

    async fn load_tasks(&mut self, count: i64) -> Result<()> {
        let persons = (0..count).map(|id| rawdoc! { "_id": id, "tasks": [id] });
        self.database
            .insert("persons", persons.collect())?
            .into_result()?;
        let tasks = (0..count).map(|id| rawdoc! { "_id": id, "owner": id });
        self.database
            .insert("tasks", tasks.collect())?
            .into_result()?;
        Ok(())
    }

    async fn move_task(&mut self, task: i64, person: i64) -> Result<()> {
        let transaction = self.database.begin()?;
        let find = Find {
            filter: rawdoc! { "_id": task },
            ..Find::default()
        };
        let before = transaction.find("tasks", &find)?.next();
        let owner = before.ok_or("no task")??.get_i64("owner")?;
        let set = rawdoc! { "$set": { "owner": person } };
        update_one(&transaction, "tasks", rawdoc! { "_id": task }, set)?;
        let pull = rawdoc! { "$pull": { "tasks": task } };
        update_one(&transaction, "persons", rawdoc! { "_id": owner }, pull)?;
        let add = rawdoc! { "$addToSet": { "tasks": task } };
        update_one(&transaction, "persons", rawdoc! { "_id": person }, add)?;
        Ok(transaction.commit()?)
    }

    async fn restock(&mut self, categories: Range<i64>) -> Result<u64> {
        let filter = rawdoc! { "category": { "$gte": categories.start, "$lt": categories.end } };
        let change = rawdoc! { "$inc": { "stock": 1_i64 } };
        update(&self.database, "products", filter, change, true)
    }

    async fn load_offers(&mut self, offers: Vec<Offer>) -> Result<()> {
        insert(&self.database, "suppliers", &[supplier()])?;
        insert(&self.database, "offers", &offers)
    }

    async fn move_supplier(&mut self, city: String) -> Result<()> {
        let set = rawdoc! { "$set": { "city": city } };
        let transaction = self.database.begin()?;
        let source = rawdoc! { "_id": SUPPLIER_ID };
        update_one(&transaction, "suppliers", source, set.clone())?;
        let dependents = rawdoc! { "supplier": SUPPLIER_ID };
        update(&transaction, "offers", dependents, set, true)?;
        Ok(transaction.commit()?)
    }

    async fn count_offers(&mut self, city: String) -> Result<u64> {
        let count = Count {
            filter: rawdoc! { "city": city },
            ..Count::default()
        };
        Ok(self.database.count("offers", &count)?)
    }

    async fn close(self) -> Result<()> {
        self.database.close();
        Ok(())
    }
}
