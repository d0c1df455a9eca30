//! MongoDB's wire protocol for the embedded engine of `odm`: shells, tools and drivers look into a file, or into a running
//! application.
//!
//! ```
//! use bson::rawdoc;
//! use odm_engine::Database;
//! use odm_wire::Server;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let database = Database::memory(); // or `Database::open("shop.odm")?`
//! database.insert("parts", vec![rawdoc! { "name": "wheel" }])?.into_result()?;
//!
//! let server = Server::builder(database).database_name("shop").bind("127.0.0.1:0").await?;
//! println!("look with: mongosh {}", server.url());
//! tokio::spawn(server.run());
//! # Ok(())
//! # }
//! ```
//!
//! The server is read-only unless it is [told to write](ServerBuilder::allow_writes), and listens only on loopback unless it has a
//! [user](ServerBuilder::user).
//!
//! The modules below are in reading order. Each module uses only modules further down, except that commands and their dispatch
//! know each other.

mod server;

mod connection;
mod dispatch;

mod command;

mod change_stream;
mod cursor;
mod documents;
mod pipeline;
mod session;
mod snapshot;

mod arguments;
mod request;
mod scram;

mod message;
mod namespace;
#[cfg(feature = "tls")]
mod tls;

mod error;

pub use server::{Server, ServerBuilder};
#[cfg(feature = "tls")]
pub use tls::TlsIdentity;

/// The example of the README, compiled as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
