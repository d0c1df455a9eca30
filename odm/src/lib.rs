//! A typed object-document mapper: relations for documents, on a bundled embedded engine or on MongoDB.
//!
//! Derive a model, say on the struct what is embedded and what is referenced, and read joined documents back. The same
//! code runs on either backend: the URL decides.
//!
//! ```
//! use odm::prelude::*;
//!
//! #[derive(Debug, Serialize, Deserialize, Document)]
//! #[document(collection = "makers")]
//! struct Maker {
//!     #[serde(rename = "_id")]
//!     id: i64,
//!     name: String,
//! }
//!
//! #[derive(Debug, Serialize, Deserialize, Document)]
//! #[document(collection = "parts")]
//! struct Part {
//!     #[serde(rename = "_id")]
//!     id: i64,
//!     #[index]
//!     name: String,
//!     #[reference]
//!     maker: Ref<Maker>,
//! }
//!
//! #[derive(Schema)]
//! #[schema(models(Maker, Part))]
//! struct Shop;
//!
//! # #[cfg(feature = "engine")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> odm::Result<()> {
//! let db = odm::Database::<Shop>::open("memory:").await?; // or "odm:./shop", or "mongodb://localhost/shop"
//! db.sync_indexes().await?;
//!
//! let maker = db.insert(Maker { id: 1, name: "Acme".into() }).await?;
//! db.insert(Part { id: 7, name: "left wheel".into(), maker: maker.to_ref() }).await?;
//!
//! let parts = db
//!     .find::<Part>()
//!     .filter(|p| p.name().starts_with("left"))
//!     .with(|p| p.maker())
//!     .all()
//!     .await?;
//! for (part, maker) in &parts {
//!     println!("{} by {}", part.name, maker.loaded().map_or("nobody", |m| &m.name));
//! }
//! # assert_eq!(parts[0].1.loaded().unwrap().name, "Acme");
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "engine"))]
//! # fn main() {}
//! ```
//!
//! Models are [`Document`]s with [`Embedded`] structs inside; their whole is a [`Schema`]. Operations are methods of a
//! [`Session`], that is of a [`Database`] or of a [`Transaction`]. Everything else hangs on these:
//! [`field`], [`query`] and [`aggregate`] are the typed language, [`action`] what can be done, [`relation`] what a query brings along,
//! [`scope`] whose documents a session reaches, [`backend`] the seam to a database.

pub mod derived;
pub mod document;
pub mod schema;

pub mod aggregate;
pub mod field;
pub mod native;
pub mod projection;
pub mod query;
pub mod relation;

mod access;
pub mod action;
mod batches;
pub mod check;
mod database;

mod decode;
mod edited;
mod limit;
mod maintain;
mod overflow;
mod retry;
mod rule;
pub mod scope;
mod session;
pub mod settled;
mod soft_delete;
mod stored;
mod task;
mod token;
mod trace;
mod transaction;
mod unit;
pub mod watch;

pub mod backend;
mod error;
pub mod hook;
pub mod legacy_uuid;

#[doc(hidden)]
pub mod __private;

pub use action::{Page, PageToken};
pub use bson;
pub use check::CheckToken;
pub use database::Database;
pub use document::{Document, Embedded, Insertable, Overflow, Ref};
pub use edited::Edited;
pub use error::{Error, ErrorKind, Result};
pub use hook::Hooks;
pub use odm_derive::{Document, Embedded, Projection, Schema};
pub use projection::Projection;
pub use query::{Filter, Pattern};
pub use schema::Schema;
pub use session::Session;
pub use soft_delete::SoftDelete;
pub use transaction::{RunTransaction, Transaction};
pub use watch::ResumeToken;

/// The fields of the model `T`, for functions that make filters: `fn visible(p: &Fields<Post>) -> Filter<Post>`.
pub type Fields<T> = <T as Document>::Fields;

/// What a file with models and queries imports.
pub mod prelude {
    pub use bson::{DateTime, Decimal128, Uuid, oid::ObjectId};
    pub use serde::{Deserialize, Serialize};

    pub use crate::{
        Document, Embedded, Overflow, Projection, Ref, Schema,
        action::Outcome::{self, Applied, NotApplied},
        relation::{
            Link,
            Linked::{self, Loaded, Missing},
            Links,
        },
    };
}

/// The README's example, compiled.
#[cfg(all(doctest, feature = "engine"))]
#[doc = include_str!("../../README.md")]
struct Readme;
