//! Joins: the relations that a query loads, and the types of their results.
//!
//! A join runs in the application, not on the server. The library first reads the documents of the query, and then the targets of
//! each relation with one further query. A query loads only the relations that it names.
//!
//! # References to one of several models
//!
//! An enum with a reference in each variant can refer to one of several models. A join names the variant with a closure, as a
//! condition does, and returns an option: `None` for a document with another variant. One query loads the targets of all
//! documents with the variant. Without such documents the join sends no query.
//!
//! ```
//! use odm::prelude::*;
//!
//! #[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
//! #[serde(tag = "kind", content = "id")]
//! enum Owner {
//!     User(#[reference] Ref<User>),
//!     Team(#[reference] Ref<Team>),
//! }
//!
//! #[derive(Debug, Serialize, Deserialize, Document)]
//! #[document(collection = "assets")]
//! struct Asset {
//!     #[serde(rename = "_id")]
//!     id: i64,
//!     #[embed]
//!     owner: Owner,
//!     #[embed(max = 5)]
//!     watchers: Vec<Owner>,
//! }
//!
//! # #[derive(Debug, Serialize, Deserialize, Document)]
//! # #[document(collection = "users")]
//! # struct User { #[serde(rename = "_id")] id: i64, name: String }
//! # #[derive(Debug, Serialize, Deserialize, Document)]
//! # #[document(collection = "teams")]
//! # struct Team { #[serde(rename = "_id")] id: i64, name: String, #[reference] lead: Ref<User> }
//! # #[derive(Schema)] #[schema(models(User, Team, Asset))] struct Office;
//! # #[cfg(feature = "engine")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> odm::Result<()> {
//! # let db = odm::Database::<Office>::open("memory:").await?;
//! # let jane = db.insert(User { id: 1, name: "jane".into() }).await?;
//! # let blue = db.insert(Team { id: 1, name: "blue".into(), lead: jane.to_ref() }).await?;
//! # let (user, team) = (Owner::User(jane.to_ref()), Owner::Team(blue.to_ref()));
//! # db.insert(Asset { id: 1, owner: team.clone(), watchers: vec![user.clone(), team, user] }).await?;
//! // The assets, the users, the teams, and the leads of the teams: four queries.
//! let assets = db
//!     .find::<Asset>()
//!     .with(|a| a.owner().user(|user| user))
//!     .with(|a| a.owner().team(|team| team.with(|team| team.lead())))
//!     .all()
//!     .await?;
//! for (asset, user, team) in &assets {
//!     match (user, team) {
//!         (Some(user), _) => println!("{} is of {:?}", asset.id, user.loaded().map(|user| &user.name)),
//!         (_, Some(team)) => println!("{} is of {:?}", asset.id, team.loaded().map(|(team, _lead)| &team.name)),
//!         (None, None) => {}
//!     }
//! }
//! # let (_, user, team) = &assets[0];
//! # assert!(user.is_none());
//! # assert_eq!(team.as_ref().unwrap().loaded().unwrap().0.name, "blue");
//!
//! // For an array, each join returns the targets of its variant in array order: iterate over both results side by side.
//! let assets = db
//!     .find::<Asset>()
//!     .with(|a| a.watchers().user(|user| user))
//!     .with(|a| a.watchers().team(|team| team))
//!     .all()
//!     .await?;
//! # let mut names = Vec::new();
//! for (asset, users, teams) in &assets {
//!     let (mut users, mut teams) = (users.iter(), teams.iter());
//!     for watcher in &asset.watchers {
//!         let name = match watcher {
//!             Owner::User(_) => users.next().map(|user| match user {
//!                 Loaded(user) => user.name.clone(),
//!                 Missing(id) => format!("user {id}, who left"),
//!             }),
//!             Owner::Team(_) => teams.next().map(|team| match team {
//!                 Loaded(team) => team.name.clone(),
//!                 Missing(id) => format!("team {id}, which was deleted"),
//!             }),
//!         };
//!         println!("{} watches", name.as_deref().unwrap_or_default());
//! #         names.extend(name);
//!     }
//! }
//! # assert_eq!(names, ["jane", "blue", "jane"]);
//!
//! // The opposite direction: the assets of each user.
//! let users = db.find::<User>().with_children(Asset::by(|a| a.owner().user(|user| user))).all().await?;
//! # assert_eq!(users[0].1.len(), 0);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "engine"))]
//! # fn main() {}
//! ```
//!
//! [Enums as documents](crate::document::VariantOf) work in the same way, because their variants have separate references:
//! `db.find::<Shape>().with(|s| s.circle(|c| c.maker()))`. No index covers a single variant of an enum. So a `with_children`
//! through an [`Embedded`](crate::Embedded) enum scans the collection of the children for each parent.

mod children;
mod condition;
mod covering;
mod join;
mod link;
mod load;
mod reference_path;
mod resolve;
mod target_join;
mod variant;

pub use children::Children;
pub use condition::Targets;
pub use join::{AppendJoin, FindableReference, IntoJoin, Join, Joins, ReferencePlace};
pub use link::{Link, LinkItem, Linked, Links};
pub(crate) use load::{MAX_IDS_PER_QUERY, links_of_found, load_by_ids};
pub(crate) use resolve::{Resolved, explain_related, resolve_for_read, resolve_related};
pub use target_join::{JoinOf, RefersToMany};
