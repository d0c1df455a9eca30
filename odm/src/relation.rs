//! Relations: what a query brings along, in the type of what it gives.
//!
//! A join is made by the application: the documents first, then for each relation one query for the documents that all
//! of them refer to. Nothing is loaded that the query does not name.
//!
//! # References to one of several models
//!
//! They are an enum, each variant of which has a reference. A join names the variant as a condition on it does, by its closure, and
//! gives an option: none for a document whose value is of another variant. One query loads what those of the variant refer to, and
//! none is made if there are none.
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
//! // The assets, the users, the teams, and who leads them: four queries.
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
//! // Of an array, those of each variant in its order: to bring them together again, go through them side by side.
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
//!                 Missing(id) => format!("team {id}, which is no more"),
//!             }),
//!         };
//!         println!("{} watches", name.as_deref().unwrap_or_default());
//! #         names.extend(name);
//!     }
//! }
//! # assert_eq!(names, ["jane", "blue", "jane"]);
//!
//! // The other way: what each user owns.
//! let users = db.find::<User>().with_children(Asset::by(|a| a.owner().user(|user| user))).all().await?;
//! # assert_eq!(users[0].1.len(), 0);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "engine"))]
//! # fn main() {}
//! ```
//!
//! The same goes for [enums as documents](crate::document::VariantOf), whose variants have references of their own:
//! `db.find::<Shape>().with(|s| s.circle(|c| c.maker()))`. No index goes over one variant of an enum, so for each document whose
//! children are asked for through an [`Embedded`](crate::Embedded) one, all of the collection are looked at.

mod children;
mod edge;
mod join;
mod link;
mod load;
mod variant;
mod way;

pub use children::Children;
pub use edge::{JoinOf, RefersToMany};
pub use join::{Append, FoundByIt, IntoJoin, Join, Joins, Reference};
pub use link::{Item, Link, Linked, Links};
pub(crate) use load::{MAX_KEYS, by_ids, found_by_ids};
