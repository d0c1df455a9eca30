//! SQLite with JSONB in WAL mode, written by hand: a table for each model, and indexes on expressions.

use std::{
    ops::Range,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rusqlite::{Connection, params};
use serde::Serialize;

use super::{CACHE_BYTES, CommitMode, Contender, Result, run_in_threads};
use crate::data::{
    Kit, MAX_REVIEWS, Offer, Part, Product, RESIDENT_REPLIES, Review, SUPPLIER_ID, TOPIC_ID,
    supplier,
};

pub(crate) struct Sqlite {
    /// Concurrent callers share the connection. Separate connections would wait for the lock of the file in sleeps, which is slower.
    connection: Mutex<Connection>,
    /// The value of the pragma `synchronous`.
    synchronous: &'static str,
}

/// The indexes on the fields of a document, as in the models of odm. The owner of a task is a column, and its index is the inverse.
const SCHEMA: &str = "
    CREATE TABLE products (id INTEGER PRIMARY KEY, doc BLOB NOT NULL) STRICT;
    CREATE UNIQUE INDEX sku ON products (doc ->> '$.sku');
    CREATE INDEX category ON products (doc ->> '$.category');
    CREATE INDEX price ON products (doc ->> '$.price');
    CREATE TABLE parts (id INTEGER PRIMARY KEY, doc BLOB NOT NULL) STRICT;
    CREATE TABLE kits (id INTEGER PRIMARY KEY, doc BLOB NOT NULL) STRICT;
    CREATE INDEX shelf ON kits (doc ->> '$.shelf');
    CREATE TABLE tasks (id INTEGER PRIMARY KEY, owner INTEGER NOT NULL) STRICT;
    CREATE INDEX owner ON tasks (owner);
    CREATE TABLE suppliers (id INTEGER PRIMARY KEY, doc BLOB NOT NULL) STRICT;
    CREATE TABLE offers (id INTEGER PRIMARY KEY, doc BLOB NOT NULL) STRICT;
    CREATE INDEX supplier ON offers (doc ->> '$.supplier');
    CREATE TABLE topics (id INTEGER PRIMARY KEY, doc BLOB NOT NULL) STRICT;
    CREATE TABLE extra_replies (topic INTEGER, number INTEGER, doc BLOB NOT NULL, PRIMARY KEY (topic, number))
        STRICT, WITHOUT ROWID;";

const ADD_TO_STOCK: &str =
    "UPDATE products SET doc = jsonb_set(doc, '$.stock', (doc ->> '$.stock') + ?2) WHERE id = ?1";

impl Sqlite {
    pub(crate) fn create(path: &Path, synchronous: &'static str) -> Result<Self> {
        let sqlite = Self::open(path, synchronous)?;
        sqlite.lock().execute_batch(SCHEMA)?;
        Ok(sqlite)
    }

    pub(crate) fn open(path: &Path, synchronous: &'static str) -> Result<Self> {
        let connection = Connection::open(path)?;
        connection.set_prepared_statement_cache_capacity(64);
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", synchronous)?;
        // A negative size is in KiB.
        connection.pragma_update(None, "cache_size", -i64::try_from(CACHE_BYTES >> 10)?)?;
        Ok(Self {
            connection: Mutex::new(connection),
            synchronous,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        lock(&self.connection)
    }

    /// Inserts documents in a transaction.
    fn insert_all<T: Serialize>(
        &self,
        table: &str,
        documents: &[T],
        id: impl Fn(&T) -> i64,
    ) -> Result<()> {
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        {
            let sql = format!("INSERT INTO {table} VALUES (?1, jsonb(?2))");
            let mut insert = transaction.prepare_cached(&sql)?;
            for document in documents {
                insert.execute(params![id(document), serde_json::to_string(document)?])?;
            }
        }
        Ok(transaction.commit()?)
    }

    /// Reads products by a condition on `?1`.
    fn find_products(&self, sql: &str, value: impl rusqlite::ToSql) -> Result<Vec<Product>> {
        let connection = self.lock();
        let mut select = connection.prepare_cached(sql)?;
        let rows = select.query_map([value], |row| row.get::<_, String>(0))?;
        rows.map(|json| Ok(serde_json::from_str(&json?)?)).collect()
    }

    /// Reads kits with their parts by a condition on `?1`, ordered by the kit.
    fn find_kits(&self, condition: &str, value: i64) -> Result<Vec<(Kit, Vec<Part>)>> {
        let sql = format!(
            "SELECT json(k.doc), json(part.doc) FROM kits k, json_each(k.doc, '$.parts') ref
             JOIN parts part ON part.id = ref.value WHERE {condition} ORDER BY k.id, ref.key"
        );
        let connection = self.lock();
        let mut select = connection.prepare_cached(&sql)?;
        let mut rows = select.query([value])?;
        let mut joined: Vec<(Kit, Vec<Part>)> = Vec::new();
        let mut last = String::new();
        while let Some(row) = rows.next()? {
            let kit = row.get_ref(0)?.as_str()?;
            if kit != last {
                joined.push((serde_json::from_str(kit)?, Vec::new()));
                kit.clone_into(&mut last);
            }
            if let Some((_, parts)) = joined.last_mut() {
                parts.push(serde_json::from_str(row.get_ref(1)?.as_str()?)?);
            }
        }
        Ok(joined)
    }
}

fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

fn insert_product(connection: &Connection, product: &Product) -> Result<()> {
    let sql = "INSERT INTO products VALUES (?1, jsonb(?2))";
    let json = serde_json::to_string(product)?;
    execute(connection, sql, params![product.id, json])?;
    Ok(())
}

/// Runs a cached statement, and returns the number of changed rows.
fn execute(connection: &Connection, sql: &str, values: impl rusqlite::Params) -> Result<usize> {
    Ok(connection.prepare_cached(sql)?.execute(values)?)
}

fn execute_one(connection: &Connection, sql: &str, values: impl rusqlite::Params) -> Result<()> {
    match execute(connection, sql, values)? {
        1 => Ok(()),
        _ => Err("no row matches".into()),
    }
}

fn one<T>(found: Vec<T>) -> Result<T> {
    Ok(found.into_iter().next().ok_or("no row matches")?)
}

impl Contender for Sqlite {
    async fn insert_many(&mut self, products: Vec<Product>) -> Result<()> {
        self.insert_all("products", &products, |product| product.id)
    }

    async fn get(&mut self, id: i64) -> Result<Product> {
        one(self.find_products("SELECT json(doc) FROM products WHERE id = ?1", id)?)
    }

    async fn find_by_sku(&mut self, sku: String) -> Result<Product> {
        let sql = "SELECT json(doc) FROM products WHERE doc ->> '$.sku' = ?1";
        one(self.find_products(sql, sku)?)
    }

    async fn find_by_category(&mut self, category: i64) -> Result<Vec<Product>> {
        let sql = "SELECT json(doc) FROM products WHERE doc ->> '$.category' = ?1 ORDER BY doc ->> '$.name'";
        self.find_products(sql, category)
    }

    async fn insert(&mut self, product: Product) -> Result<()> {
        insert_product(&self.lock(), &product)
    }

    async fn insert_concurrently(&mut self, batches: Vec<Vec<Product>>) -> Result<()> {
        let handles = vec![&self.connection; batches.len()];
        run_in_threads(batches, handles, |connection, product| {
            insert_product(&lock(connection), &product)
        })
    }

    async fn increment_stock(&mut self, id: i64) -> Result<()> {
        execute_one(&self.lock(), ADD_TO_STOCK, [id, 1])
    }

    async fn move_stock(&mut self, from: i64, to: i64) -> Result<()> {
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        execute_one(&transaction, ADD_TO_STOCK, [from, -1])?;
        execute_one(&transaction, ADD_TO_STOCK, [to, 1])?;
        Ok(transaction.commit()?)
    }

    async fn push_review(&mut self, id: i64, review: Review) -> Result<()> {
        let sql = "UPDATE products SET doc = jsonb_insert(doc, '$.reviews[#]', jsonb(?2))
                   WHERE id = ?1 AND json_array_length(doc, '$.reviews') < ?3";
        let json = serde_json::to_string(&review)?;
        execute_one(&self.lock(), sql, params![id, json, MAX_REVIEWS])
    }

    async fn load_kits(&mut self, parts: Vec<Part>, kits: Vec<Kit>) -> Result<()> {
        self.insert_all("parts", &parts, |part| part.id)?;
        self.insert_all("kits", &kits, |kit| kit.id)
    }

    async fn kit_with_parts(&mut self, id: i64) -> Result<(Kit, Vec<Part>)> {
        one(self.find_kits("k.id = ?1", id)?)
    }

    async fn shelf_with_parts(&mut self, shelf: i64) -> Result<Vec<(Kit, Vec<Part>)>> {
        self.find_kits("k.doc ->> '$.shelf' = ?1", shelf)
    }

    async fn set_commit_mode(&mut self, mode: CommitMode) -> Result<()> {
        let synchronous = match mode {
            CommitMode::Durable => self.synchronous,
            CommitMode::Relaxed => "NORMAL",
        };
        let connection = self.lock();
        Ok(connection.pragma_update(None, "synchronous", synchronous)?)
    }

    async fn load_tasks(&mut self, count: i64) -> Result<()> {
        let connection = self.lock();
        (0..count)
            .try_for_each(|id| execute_one(&connection, "INSERT INTO tasks VALUES (?1, ?1)", [id]))
    }

    async fn move_task(&mut self, task: i64, person: i64) -> Result<()> {
        let sql = "UPDATE tasks SET owner = ?2 WHERE id = ?1";
        execute_one(&self.lock(), sql, [task, person])
    }

    async fn restock(&mut self, categories: Range<i64>) -> Result<u64> {
        let sql = "UPDATE products SET doc = jsonb_set(doc, '$.stock', (doc ->> '$.stock') + 1)
                   WHERE doc ->> '$.category' >= ?1 AND doc ->> '$.category' < ?2";
        let changed = execute(&self.lock(), sql, [categories.start, categories.end])?;
        Ok(u64::try_from(changed)?)
    }

    async fn load_offers(&mut self, offers: Vec<Offer>) -> Result<()> {
        self.insert_all("suppliers", &[supplier()], |supplier| supplier.id)?;
        self.insert_all("offers", &offers, |offer| offer.id)
    }

    async fn move_supplier(&mut self, city: String) -> Result<()> {
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        let sql = "UPDATE suppliers SET doc = jsonb_set(doc, '$.city', ?2) WHERE id = ?1";
        execute_one(&transaction, sql, params![SUPPLIER_ID, city])?;
        let sql =
            "UPDATE offers SET doc = jsonb_set(doc, '$.city', ?2) WHERE doc ->> '$.supplier' = ?1";
        execute(&transaction, sql, params![SUPPLIER_ID, city])?;
        Ok(transaction.commit()?)
    }

    async fn count_offers(&mut self, city: String) -> Result<u64> {
        let sql = "SELECT count(*) FROM offers WHERE doc ->> '$.city' = ?1";
        let count: i64 = self.lock().query_row(sql, [city], |row| row.get(0))?;
        Ok(u64::try_from(count)?)
    }

    async fn load_topic(&mut self, replies: Vec<Review>) -> Result<()> {
        let sql = r#"INSERT INTO topics VALUES (?1, jsonb('{"replies":[]}'))"#;
        execute_one(&self.lock(), sql, [TOPIC_ID])?;
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        for reply in replies {
            insert_reply(&transaction, &reply)?;
        }
        Ok(transaction.commit()?)
    }

    async fn push_reply(&mut self, reply: Review) -> Result<()> {
        insert_reply(&self.lock(), &reply)
    }

    async fn close(self) -> Result<()> {
        let connection = self.connection.into_inner();
        let connection = connection.unwrap_or_else(PoisonError::into_inner);
        connection.close().map_err(|(_, error)| error.into())
    }
}

/// Adds a reply to the document, or to the table of further replies if the document is full.
fn insert_reply(connection: &Connection, reply: &Review) -> Result<()> {
    let json = serde_json::to_string(reply)?;
    let sql = "UPDATE topics SET doc = jsonb_insert(doc, '$.replies[#]', jsonb(?2))
               WHERE id = ?1 AND json_array_length(doc, '$.replies') < ?3";
    if execute(connection, sql, params![TOPIC_ID, json, RESIDENT_REPLIES])? == 1 {
        return Ok(());
    }
    let sql = "INSERT INTO extra_replies
               SELECT ?1, coalesce(max(number), 0) + 1, jsonb(?2) FROM extra_replies WHERE topic = ?1";
    execute_one(connection, sql, params![TOPIC_ID, json])
}
