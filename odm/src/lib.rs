//! A typed object-document mapper: relations for documents, on a bundled embedded engine or on MongoDB.
//!
//! Derive a model, declare on the struct which fields are embedded and which are references, and read joined documents. The same
//! code runs on both backends: the URL selects the backend.
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
//! Models are [`Document`]s with [`Embedded`] structs inside. A [`Schema`] lists all models of a database. Operations are methods
//! of a [`Session`]: a [`Database`] or a [`Transaction`]. The modules: [`field`], [`query`] and [`aggregate`] are the typed
//! language, [`action`] the operations, [`relation`] joins, [`scope`] access by scope, and [`backend`] the interface to a
//! database.

mod error;
mod language;
mod metadata;
mod model;
mod overflow;
mod parallel;
mod session;
mod write;

pub mod action;
#[cfg(feature = "axum")]
pub mod axum;
pub mod backend;
pub mod check;
pub mod pending;
pub mod relation;
pub mod schema;
#[cfg(feature = "testing")]
pub mod testing;
pub mod transfer;

#[doc(hidden)]
pub mod __private;

pub use action::{Page, PageToken, Patch};
pub use backend::Durability;
pub use bson;
pub use check::CheckToken;
pub use error::{Error, ErrorKind, Problem, Result, Violation};
pub use language::{
    aggregate, field,
    query::{self, Filter, Pattern},
};
pub use model::{
    derive_support,
    document::{self, Document, Embedded, Insertable, Overflow, Ref},
    edited::Edited,
    hook::{self, Hooks},
    json, legacy_uuid, native,
    projection::{self, Projection},
};
pub use odm_derive::{Document, Embedded, Patch, Projection, Schema};
pub use schema::Schema;
#[cfg(feature = "serve")]
pub use session::database::DatabaseServer;
pub use session::{
    Session,
    database::{Database, DatabaseOptions, IndexCheck},
    scope,
    soft_delete::SoftDelete,
    transaction::{RunTransaction, Transaction, TransactionError},
    watch::{self, ResumeToken},
};
pub use transfer::copy;

/// The field tree of the model `T`, for functions that return filters: `fn visible(p: &Fields<Post>) -> Filter<Post>`.
pub type Fields<T> = <T as Document>::Fields;

/// The imports of a file with models and queries.
pub mod prelude {
    pub use bson::{DateTime, Decimal128, Uuid, oid::ObjectId};
    pub use serde::{Deserialize, Serialize};

    pub use crate::{
        Document, Embedded, Overflow, Patch, Projection, Ref, Schema,
        action::Outcome::{self, Applied, NotApplied},
        relation::{
            Link,
            Linked::{self, Loaded, Missing},
            Links,
        },
    };
}
