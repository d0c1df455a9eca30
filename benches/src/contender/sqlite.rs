//! SQLite with JSONB, written by hand: a table for each model, an index on an expression, durable commits.

use std::path::Path;

use odm_benches::tasks::PERSON_COUNT;
use rusqlite::{Connection, params};

use super::{Contender, Result};
use crate::data::{Part, Product};

pub(crate) struct Sqlite {
    name: &'static str,
    connection: Connection,
}

impl Sqlite {
    /// Opens a new database. `synchronous` is the value of the pragma: with `FULL` every commit is durable, and with `NORMAL` a power
    /// loss can lose commits.
    pub(crate) fn open(name: &'static str, path: &Path, synchronous: &str) -> Result<Self> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.execute_batch(
            "CREATE TABLE parts (id INTEGER PRIMARY KEY, doc BLOB NOT NULL) STRICT;
             CREATE TABLE products (id INTEGER PRIMARY KEY, doc BLOB NOT NULL) STRICT;
             CREATE TABLE tasks (id INTEGER PRIMARY KEY, owner INTEGER NOT NULL) STRICT;
             CREATE INDEX owner ON tasks (owner);
             CREATE INDEX category ON products (doc ->> '$.category');",
        )?;
        Ok(Self { name, connection })
    }

    fn write(
        &mut self,
        table: &str,
        rows: impl Iterator<Item = Result<(i64, String)>>,
    ) -> Result<()> {
        let transaction = self.connection.transaction()?;
        {
            let sql = format!("INSERT INTO {table} VALUES (?1, jsonb(?2))");
            let mut insert = transaction.prepare_cached(&sql)?;
            for row in rows {
                let (id, json) = row?;
                insert.execute(params![id, json])?;
            }
        }
        Ok(transaction.commit()?)
    }
}

impl Contender for Sqlite {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn load(&mut self, parts: Vec<Part>) -> Result<()> {
        let rows = parts
            .iter()
            .map(|part| Ok((part.id, serde_json::to_string(part)?)));
        self.write("parts", rows)?;
        for id in 0..PERSON_COUNT {
            self.connection
                .execute("INSERT INTO tasks VALUES (?1, ?1)", [id])?;
        }
        Ok(())
    }

    async fn insert_many(&mut self, products: Vec<Product>) -> Result<()> {
        let rows = products
            .iter()
            .map(|product| Ok((product.id, serde_json::to_string(product)?)));
        self.write("products", rows)
    }

    async fn insert(&mut self, product: Product) -> Result<()> {
        self.insert_many(vec![product]).await
    }

    async fn get(&mut self, id: i64) -> Result<Product> {
        let mut select = self
            .connection
            .prepare_cached("SELECT json(doc) FROM products WHERE id = ?1")?;
        let json: String = select.query_row([id], |row| row.get(0))?;
        Ok(serde_json::from_str(&json)?)
    }

    async fn find(&mut self, category: i64) -> Result<Vec<Product>> {
        let sql = "SELECT json(doc) FROM products WHERE doc ->> '$.category' = ?1";
        let mut select = self.connection.prepare_cached(sql)?;
        let rows = select.query_map([category], |row| row.get::<_, String>(0))?;
        rows.map(|json| Ok(serde_json::from_str(&json?)?)).collect()
    }

    async fn join(&mut self, category: i64) -> Result<Vec<(Product, Vec<Part>)>> {
        let sql =
            "SELECT json(p.doc), json(part.doc) FROM products p, json_each(p.doc, '$.parts') ref
                   JOIN parts part ON part.id = ref.value
                   WHERE p.doc ->> '$.category' = ?1 ORDER BY p.id, ref.key";
        let mut select = self.connection.prepare_cached(sql)?;
        let rows = select.query_map([category], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut joined: Vec<(Product, Vec<Part>)> = Vec::new();
        let mut last = String::new();
        for row in rows {
            let (product, part): (String, String) = row?;
            if product != last {
                joined.push((serde_json::from_str(&product)?, Vec::new()));
                last = product;
            }
            if let Some((_, parts)) = joined.last_mut() {
                parts.push(serde_json::from_str(&part)?);
            }
        }
        Ok(joined)
    }
    /// Updates the owner. The index serves as the inverse.
    async fn move_task(&mut self, task: i64, person: i64) -> Result<()> {
        let sql = "UPDATE tasks SET owner = ?2 WHERE id = ?1";
        self.connection.execute(sql, [task, person])?;
        Ok(())
    }
}
