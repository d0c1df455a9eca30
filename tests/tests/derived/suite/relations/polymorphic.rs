//! Tests of joins along references inside enum variants: the variant decides the model of the target.

use std::sync::Arc;

use odm::{
    Database, ErrorKind, Filter,
    backend::{Recorder, operation, operation::Operation},
    bson::{RawDocumentBuf, rawdoc},
    prelude::*,
    schema::Contains,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "users")]
pub struct User {
    #[serde(rename = "_id")]
    pub id: i64,
    pub name: String,
}

/// A team. Users and teams share ids, so that a mix-up of the two models fails a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "teams")]
pub struct Team {
    #[serde(rename = "_id")]
    pub id: i64,
    pub name: String,
    #[reference]
    pub lead: Ref<User>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct Contract {
    #[reference]
    pub with: Ref<Team>,
    pub number: String,
}

/// Inserts the users 1 to 4 and the teams 1 to 3. The lead of team 3 does not exist.
async fn insert_people_and_teams<S>(fixture: &Fixture) -> (Database<S>, Recorder)
where
    S: Schema + Contains<User> + Contains<Team>,
{
    let recorder = Recorder::new(fixture.backend());
    let db = Database::<S>::with_backend(Arc::new(recorder.clone()));
    let user_name = |id| User {
        id,
        name: format!("user {id}"),
    };
    let team_name = |(id, lead)| Team {
        id,
        name: format!("team {id}"),
        lead: Ref::new(lead),
    };
    db.insert_many((1..=4).map(user_name)).await.unwrap();
    let teams = [(1, 2), (2, 1), (3, 99)];
    db.insert_many(teams.map(team_name)).await.unwrap();
    recorder.clear();
    (db, recorder)
}

/// Returns the name of the target, or a text with the id if the target is missing.
fn user(link: Linked<&User, &Ref<User>>) -> String {
    match link {
        Loaded(user) => user.name.clone(),
        Missing(id) => format!("no user {id}"),
    }
}

fn team(link: Linked<&Team, &Ref<Team>>) -> String {
    match link {
        Loaded(team) => team.name.clone(),
        Missing(id) => format!("no team {id}"),
    }
}

fn user_names(links: &Links<User>) -> Vec<String> {
    links.iter().map(user).collect()
}

fn insert(collection: &'static str, documents: Vec<RawDocumentBuf>) -> operation::InsertOperation {
    operation::InsertOperation {
        collection: collection.into(),
        documents,
        ordered: true,
        origin: Default::default(),
    }
}

/// Generates a module for each serde representation of enums, with the same models and tests.
macro_rules! representations {
    ($($name:ident: $collection:literal $needs:tt $misfit:tt $($serde:meta)*;)*) => {
        $(mod $name {
            use super::*;

            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
            $(#[serde($serde)])*
            #[serde(rename_all = "lowercase")]
            pub(super) enum Owner {
                User {
                    #[reference]
                    id: Ref<User>,
                },
                Team {
                    #[reference]
                    id: Ref<Team>,
                    #[reference]
                    deputy: Option<Ref<User>>,
                    #[reference(max = 5)]
                    members: Vec<Ref<User>>,
                },
                Contract(Contract),
                Nobody,
            }

            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
            #[document(collection = $collection)]
            pub(super) struct Asset {
                #[serde(rename = "_id")]
                pub id: i64,
                pub name: String,
                #[embed]
                pub owner: Owner,
                #[embed]
                pub second: Option<Owner>,
                #[embed(max = 5)]
                pub watchers: Vec<Owner>,
            }

            #[derive(Debug, Deserialize, Projection)]
            #[projection(of = Asset)]
            pub(super) struct Card {
                pub name: String,
            }

            #[derive(Schema)]
            #[schema(models(User, Team, Asset))]
            pub(super) struct Office;

            pub(super) type Db = Database<Office>;

            fn of_user(id: i64) -> Owner {
                Owner::User { id: Ref::new(id) }
            }

            fn of_team(id: i64, deputy: Option<i64>, members: &[i64]) -> Owner {
                Owner::Team {
                    id: Ref::new(id),
                    deputy: deputy.map(Ref::new),
                    members: members.iter().map(Ref::new).collect(),
                }
            }

            fn contract(id: i64) -> Owner {
                Owner::Contract(Contract { with: Ref::new(id), number: "1".into() })
            }

            fn asset(id: i64, owner: Owner, second: Option<Owner>, watchers: &[Owner]) -> Asset {
                Asset { id, name: format!("asset {id}"), owner, second, watchers: watchers.to_vec() }
            }

            async fn office(fixture: &Fixture) -> (Db, Recorder) {
                let (db, recorder) = insert_people_and_teams::<Office>(fixture).await;
                let nobody = || Owner::Nobody;
                db.insert_many([
                    asset(1, of_user(1), Some(of_user(3)), &[of_user(2), of_team(2, None, &[]), nobody(), of_user(1), of_user(2)]),
                    asset(2, of_team(1, Some(3), &[2, 98, 1]), None, &[of_team(1, None, &[]), contract(3)]),
                    asset(3, nobody(), Some(nobody()), &[]),
                    asset(4, of_user(97), Some(of_team(96, None, &[])), &[nobody(), of_user(95), of_user(4)]),
                    asset(5, contract(2), None, &[of_team(3, Some(4), &[4, 3]), of_team(2, None, &[2])]),
                ]).await.unwrap();
                recorder.clear();
                (db, recorder)
            }

            pub(super) async fn joined(fixture: &Fixture) {
                let (db, recorder) = office(fixture).await;
                let assets = db.find::<Asset>()
                    .sort(|a| a.id().asc())
                    .with(|a| a.owner().user(|user| user.id()))
                    .with(|a| a.owner().team(|team| team.id()))
                    .with(|a| a.owner().contract(|contract| contract.with()))
                    .all().await.unwrap();
                // Four queries: the assets, the users, and the teams of two variants.
                assert_eq!(recorder.queries(), 4);
                let owners: Vec<_> = assets.iter().map(|(asset, u, t, c)| match &asset.owner {
                    Owner::User { .. } => {
                        assert!(t.is_none() && c.is_none());
                        user(u.as_ref().unwrap().get())
                    }
                    Owner::Team { .. } => {
                        assert!(u.is_none() && c.is_none());
                        team(t.as_ref().unwrap().get())
                    }
                    Owner::Contract(_) => {
                        assert!(u.is_none() && t.is_none());
                        team(c.as_ref().unwrap().get())
                    }
                    Owner::Nobody => {
                        assert!(u.is_none() && t.is_none() && c.is_none());
                        String::new()
                    }
                }).collect();
                assert_eq!(owners, ["user 1", "team 1", "", "no user 97", "team 2"]);

                // An optional reference and an array of references in a variant, and an optional enum.
                recorder.clear();
                let assets = db.find::<Asset>()
                    .sort(|a| a.id().asc())
                    .with(|a| a.owner().team(|team| team.deputy()))
                    .with(|a| a.owner().team(|team| team.members()))
                    .with(|a| a.second().user(|user| user.id()))
                    .with(|a| a.second().team(|team| team.id()))
                    .all().await.unwrap();
                assert_eq!(recorder.queries(), 5);
                let joined: Vec<_> = assets.iter().map(|(_, deputy, members, second, of)| (
                    deputy.as_ref().map(|link| user(link.get())),
                    user_names(members),
                    second.as_ref().map(|link| user(link.get())),
                    of.as_ref().map(|link| team(link.get())),
                )).collect();
                let text = |text: &str| Some(text.to_owned());
                let none = (None, vec![], None, None);
                assert_eq!(joined, [
                    (None, vec![], text("user 3"), None),
                    (text("user 3"), vec!["user 2".into(), "no user 98".into(), "user 1".into()], None, None),
                    none.clone(),
                    (None, vec![], None, text("no team 96")),
                    none,
                ]);
            }

            pub(super) async fn in_arrays(fixture: &Fixture) {
                let (db, recorder) = office(fixture).await;
                let assets = db.find::<Asset>()
                    .sort(|a| a.id().asc())
                    .with(|a| a.watchers().user(|user| user.id()))
                    .with(|a| a.watchers().team(|team| team.id()))
                    .with(|a| a.watchers().team(|team| team.members()))
                    .with(|a| a.watchers().contract(|contract| contract.with()))
                    .all().await.unwrap();
                assert_eq!(recorder.queries(), 5);
                // Joined documents keep the order of the array, so that a caller can iterate over both together.
                let joined = assets.iter().map(|(asset, users, teams, _, contracts)| {
                    let (mut users, mut teams, mut contracts) = (users.iter(), teams.iter(), contracts.iter());
                    let watchers = asset.watchers.iter().map(|watcher| match watcher {
                        Owner::User { .. } => user(users.next().unwrap()),
                        Owner::Team { .. } => team(teams.next().unwrap()),
                        Owner::Contract(_) => team(contracts.next().unwrap()),
                        Owner::Nobody => "nobody".into(),
                    });
                    let watchers = watchers.collect::<Vec<_>>().join(", ");
                    assert!(users.next().is_none() && teams.next().is_none() && contracts.next().is_none());
                    watchers
                });
                assert_eq!(joined.collect::<Vec<_>>(), [
                    "user 2, team 2, nobody, user 1, user 2",
                    "team 1, team 3",
                    "",
                    "nobody, no user 95, user 4",
                    "team 3, team 2",
                ]);
                let members = assets.iter().map(|(_, _, _, members, _)| user_names(members).join(", "));
                assert_eq!(members.collect::<Vec<_>>(), ["", "", "", "", "user 4, user 3, user 2"]);

                // Sort, limit and filter work as for any array of references, inside the closure and after the closure. Also the
                // join of a single element.
                recorder.clear();
                let assets = db.find::<Asset>()
                    .sort(|a| a.id().asc())
                    .with(|a| a.watchers().user(|user| user.id().sort(|u| u.name().desc()).limit(2)))
                    .with(|a| a.watchers().user(|user| user.id()).filter(|u| u.id().lt(2)))
                    .with(|a| a.watchers().at(1).user(|user| user.id()))
                    .with(|a| a.watchers().at(1).team(|team| team.id().filter(|t| t.name().ne("team 2"))))
                    .all().await.unwrap();
                assert_eq!(recorder.queries(), 5);
                let joined = assets.iter().map(|(_, last, first, second, of)| (
                    user_names(last).join(", "),
                    user_names(first).join(", "),
                    second.as_ref().map_or(String::new(), |link| user(link.get())),
                    of.as_ref().map_or(String::new(), |link| team(link.get())),
                ));
                let joined: Vec<_> = joined.collect();
                let joined: Vec<_> = joined.iter().map(|(a, b, c, d)| [a.as_str(), b, c, d]).collect();
                assert_eq!(joined, [
                    ["user 2, user 2", "user 1", "", "no team 2"],
                    ["", "", "", ""],
                    ["", "", "", ""],
                    ["user 4", "", "no user 95", ""],
                    ["", "", "", "no team 2"],
                ]);
            }

            /// A join needs a query for each edge and level, and no query if no document has the variant.
            pub(super) async fn nested(fixture: &Fixture) {
                let (db, recorder) = office(fixture).await;
                let assets = db.find::<Asset>()
                    .sort(|a| a.id().asc())
                    .with(|a| a.owner().team(|team| team.id().with(|team| team.lead())))
                    .with(|a| a.watchers().team(|team| team.id()).with(|team| team.lead()).filter(|t| t.id().gt(1)))
                    .all().await.unwrap();
                assert_eq!(recorder.queries(), 5);
                let (_, owner, _) = &assets[1];
                let (owner, lead) = owner.as_ref().unwrap().loaded().unwrap();
                assert_eq!((owner.name.as_str(), user(lead.get()).as_str()), ("team 1", "user 2"));
                let watching = assets.iter().map(|(_, _, teams)| {
                    let leads = teams.loaded().map(|(team, lead)| format!("{}: {}", team.name, user(lead.get())));
                    leads.collect::<Vec<_>>().join(", ")
                });
                assert_eq!(watching.collect::<Vec<_>>(), [
                    "team 2: user 1", "", "", "", "team 3: no user 99, team 2: user 1",
                ]);

                recorder.clear();
                let assets = db.find::<Asset>()
                    .filter(|a| a.id().eq(3))
                    .with(|a| a.owner().user(|user| user.id()))
                    .with(|a| a.owner().team(|team| team.id().with(|team| team.lead())))
                    .with(|a| a.watchers().team(|team| team.members()))
                    .all().await.unwrap();
                assert_eq!((assets.len(), recorder.queries()), (1, 1));

                // The number of queries does not depend on the number of documents.
                let many = (100..200).map(|id| asset(id, if id % 2 == 0 { of_user(id % 4 + 1) } else { of_team(1, None, &[]) }, None, &[]));
                db.insert_many(many).await.unwrap();
                recorder.clear();
                let assets = db.find::<Asset>()
                    .filter(|a| a.id().gte(100))
                    .with(|a| a.owner().user(|user| user.id()))
                    .with(|a| a.owner().team(|team| team.id().with(|team| team.lead())))
                    .all().await.unwrap();
                assert_eq!((assets.len(), recorder.queries()), (100, 4));
                assert!(assets.iter().all(|(_, user, team)| user.is_some() != team.is_some()));
                // Each id is in a query once, and no id of the wrong variant.
                let requested: Vec<_> = recorder.operations().iter().filter_map(|operation| match operation {
                    Operation::Find(find) if &*find.collection == "users" => {
                        let ids = find.filter.get_document("_id").unwrap().get_array("$in").unwrap();
                        let mut ids: Vec<_> = ids.into_iter().map(|id| id.unwrap().as_i64().unwrap()).collect();
                        ids.sort_unstable();
                        Some(ids)
                    }
                    _ => None,
                }).collect();
                assert!(requested.contains(&vec![1, 3]) && requested.contains(&vec![2]), "{requested:?}");
            }

            pub(super) async fn streamed(fixture: &Fixture) {
                let (db, _) = office(fixture).await;
                let many = (1_000..3_000).map(|id| asset(id, if id % 2 == 0 { of_user(id % 4 + 1) } else { of_team(1, None, &[]) }, None, &[]));
                db.insert_many(many).await.unwrap();
                let mut rows = db.find::<Asset>()
                    .filter(|a| a.id().gte(1_000))
                    .sort(|a| a.id().asc())
                    .with(|a| a.owner().user(|user| user.id()))
                    .with(|a| a.owner().team(|team| team.id()))
                    .stream();
                let mut next = 1_000;
                while let Some(row) = rows.next().await {
                    let (asset, user, team) = row.unwrap();
                    assert_eq!(asset.id, next);
                    let user = user.map(|user| user.loaded().unwrap().id);
                    let team = team.map(|team| team.loaded().unwrap().id);
                    assert_eq!((user, team), if next % 2 == 0 { (Some(next % 4 + 1), None) } else { (None, Some(1)) });
                    next += 1;
                }
                assert_eq!(next, 3_000);

                let page = db.find::<Asset>()
                    .sort(|a| a.id().asc())
                    .with(|a| a.owner().team(|team| team.id()))
                    .page(2).await.unwrap();
                let joined: Vec<_> = page.items.iter().map(|(asset, team)| (asset.id, team.is_some())).collect();
                assert_eq!(joined, [(1, false), (2, true)]);
            }

            pub(super) async fn in_a_transaction(fixture: &Fixture) {
                let (db, _) = office(fixture).await;
                if !db.backend().capabilities().transactions {
                    return;
                }
                let name = db.transaction(async |tx| -> odm::Result<_> {
                    tx.insert(User { id: 7, name: "new".into() }).await?;
                    tx.update::<Asset>(3).set(|a| a.owner(), of_user(7)).await?;
                    let asset = tx.find::<Asset>().filter(|a| a.id().eq(3));
                    let (_, owner) = asset.with(|a| a.owner().user(|user| user.id())).one().await?;
                    Ok(user(owner.unwrap().get()))
                }).await.unwrap();
                assert_eq!(name, "new");
            }

            /// A join reads only the needed fields: the reference, and the tag of the variant.
            pub(super) async fn projected(fixture: &Fixture) {
                let (db, recorder) = office(fixture).await;
                let cards = db.find::<Asset>()
                    .select::<Card>()
                    .sort(|a| a.id().asc())
                    .with(|a| a.owner().user(|user| user.id()))
                    .with(|a| a.watchers().team(|team| team.id()))
                    .with(|a| a.watchers().at(1).user(|user| user.id()))
                    .all().await.unwrap();
                let joined = cards.iter().map(|(card, owner, teams, second)| (
                    card.name.as_str(),
                    owner.is_some(),
                    teams.len(),
                    second.as_ref().map(|link| user(link.get())),
                ));
                assert_eq!(joined.collect::<Vec<_>>(), [
                    ("asset 1", true, 1, None),
                    ("asset 2", false, 1, None),
                    ("asset 3", false, 0, None),
                    ("asset 4", true, 0, Some("no user 95".into())),
                    ("asset 5", false, 2, None),
                ]);
                recorder.clear();
                let one = db.find::<Asset>().select::<Card>().filter(|a| a.id().eq(4));
                one.with(|a| a.owner().user(|user| user.id())).one().await.unwrap();
                let Operation::Find(find) = &recorder.operations()[0] else { panic!("a query") };
                assert_eq!(find.projection, Some(rawdoc! $needs));
            }

            /// Children by a reference inside a variant, with a join from the child to a different variant.
            pub(super) async fn children(fixture: &Fixture) {
                let (db, recorder) = office(fixture).await;
                let users = db.find::<User>()
                    .sort(|u| u.id().asc())
                    .with_children(Asset::by(|a| a.owner().user(|user| user.id())))
                    .with_children(Asset::by(|a| a.second().user(|user| user.id())).filter(|a| a.id().lt(9)))
                    .with_children(Asset::by(|a| a.owner().team(|team| team.members())).with(|a| a.owner().team(|team| team.id())))
                    .all().await.unwrap();
                assert_eq!(recorder.queries(), 5);
                let ids = |assets: &[Asset]| assets.iter().map(|asset| asset.id).collect::<Vec<_>>();
                let joined: Vec<_> = users.iter().map(|(_, owned, second, member)| {
                    let teams = member.iter().map(|(_, of)| team(of.as_ref().unwrap().get()));
                    (ids(owned), ids(second), teams.collect::<Vec<_>>())
                }).collect();
                assert_eq!(joined, [
                    (vec![1], vec![], vec!["team 1".to_owned()]),
                    (vec![], vec![], vec!["team 1".to_owned()]),
                    (vec![], vec![1], vec![]),
                    (vec![], vec![], vec![]),
                ]);
                // Users and teams have equal ids: a team does not get the assets of the user with the same id.
                let teams = db.find::<Team>().sort(|t| t.id().asc())
                    .with_children(Asset::by(|a| a.owner().team(|team| team.id())).select::<Card>())
                    .with_children(Asset::by(|a| a.owner().contract(|contract| contract.with())))
                    .all().await.unwrap();
                let joined = teams.iter().map(|(_, owned, by_contract)| (owned.len(), ids(by_contract)));
                assert_eq!(joined.collect::<Vec<_>>(), [(1, vec![]), (0, vec![5]), (0, vec![])]);
            }

            /// A document that does not fit the model is an error, and is not read as a different variant.
            pub(super) async fn misfits(fixture: &Fixture) {
                let (db, _) = office(fixture).await;
                // A document of the variant `user` without the id, so that the variant has no reference.
                db.backend().insert(insert($collection, vec![rawdoc! $misfit])).await.unwrap();
                let cards = db.find::<Asset>().select::<Card>().filter(|a| a.id().eq(11));
                let error = cards.clone().with(|a| a.owner().user(|user| user.id())).one().await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Decode);
                assert!(error.path().unwrap().ends_with(".id"), "{error}");
                assert!(error.to_string().contains("has no reference"), "{error}");
                let (_, of) = cards.with(|a| a.owner().team(|team| team.id())).one().await.unwrap();
                assert!(of.is_none());
            }
        })*
    };
}

representations! {
    external: "external"
        { "name": 1, "owner.user.id": 1, "_id": 0 }
        { "_id": 11_i64, "name": "odd", "owner": { "user": {} }, "watchers": [] };
    internal: "internal"
        { "name": 1, "owner.id": 1, "owner.kind": 1, "_id": 0 }
        { "_id": 11_i64, "name": "odd", "owner": { "kind": "user" }, "watchers": [] }
        tag = "kind";
    adjacent: "adjacent"
        { "name": 1, "owner.of.id": 1, "owner.kind": 1, "_id": 0 }
        { "_id": 11_i64, "name": "odd", "owner": { "kind": "user", "of": {} }, "watchers": [] }
        tag = "kind" content = "of";
}

macro_rules! in_each_representation {
    ($($(#[$attr:meta])* $test:ident: $part:ident;)*) => {$(
        $(#[$attr])*
        pub async fn $test(fixture: Fixture) {
            external::$part(&fixture).await;
            for collection in ["users", "teams"] {
                clear_collection(&fixture, collection).await;
            }
            internal::$part(&fixture).await;
            for collection in ["users", "teams"] {
                clear_collection(&fixture, collection).await;
            }
            adjacent::$part(&fixture).await;
        }
    )*};
}

in_each_representation! {
    a_reference_in_a_variant: joined;
    children_by_a_reference_in_a_variant: children;
    in_a_transaction: in_a_transaction;
    one_query_for_each_edge_and_level: nested;
    only_needed_fields_are_read: projected;
    streams_and_pages: streamed;
    variants_in_an_array: in_arrays;
    a_misfit_is_a_decode_error: misfits;
}

async fn clear_collection(fixture: &Fixture, collection: &'static str) {
    fixture.backend().drop_collection(collection).await.unwrap();
}

/// An enum of references: most variants hold references only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[serde(tag = "kind", content = "id")]
pub enum Subject {
    User(#[reference] Ref<User>),
    Team(#[reference] Ref<Team>),
    Perhaps(#[reference] Option<Ref<User>>),
    Several(#[reference(max = 5)] Vec<Ref<User>>),
    Pair(#[reference] Ref<User>, #[reference] Ref<Team>),
    Deeper(#[embed] Bundle),
    Nobody,
}

/// An embedded struct inside a variant, with an array of enums.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct Bundle {
    #[embed(max = 5)]
    pub holds: Vec<Held>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub enum Held {
    User(#[reference] Ref<User>),
    Team(#[reference] Ref<Team>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "notes")]
pub struct Note {
    #[serde(rename = "_id")]
    pub id: i64,
    #[embed]
    pub about: Subject,
    #[embed(max = 10)]
    pub also: Vec<Subject>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "events", shared(at: i64))]
#[serde(tag = "type")]
pub enum Event {
    Login(Login),
    Invited(Invited),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(variant_of = Event)]
pub struct Login {
    #[serde(rename = "_id")]
    pub id: i64,
    pub at: i64,
    #[reference]
    pub who: Ref<User>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(variant_of = Event)]
pub struct Invited {
    #[serde(rename = "_id")]
    pub id: i64,
    pub at: i64,
    /// A field with the same name as in the variant `Login`, and with a different target model.
    #[reference]
    pub who: Ref<Team>,
    #[reference(max = 3)]
    pub guests: Vec<Ref<User>>,
    #[embed]
    pub by: Held,
}

#[derive(Schema)]
#[schema(models(User, Team, Note, Event))]
pub struct Diary;

pub async fn an_enum_of_references(fixture: Fixture) {
    let (db, recorder) = insert_people_and_teams::<Diary>(&fixture).await;
    let about = [
        Subject::User(Ref::new(1)),
        Subject::Team(Ref::new(1)),
        Subject::Perhaps(Some(Ref::new(2))),
        Subject::Perhaps(None),
        Subject::Several(vec![Ref::new(4), Ref::new(94), Ref::new(3)]),
        Subject::Pair(Ref::new(3), Ref::new(2)),
        Subject::Deeper(Bundle {
            holds: vec![Held::User(Ref::new(2)), Held::Team(Ref::new(3))],
        }),
        Subject::Nobody,
    ];
    let notes = (1..).zip(&about).map(|(id, about)| Note {
        id,
        about: about.clone(),
        also: vec![],
    });
    let mut notes: Vec<_> = notes.collect();
    notes.push(Note {
        id: 9,
        about: Subject::Nobody,
        also: about.to_vec(),
    });
    db.insert_many(notes).await.unwrap();
    recorder.clear();

    let found = db
        .find::<Note>()
        .sort(|n| n.id().asc())
        .with(|n| n.about().user(|user| user))
        .with(|n| n.about().team(|team| team.with(|team| team.lead())))
        .with(|n| n.about().perhaps(|user| user))
        .with(|n| n.about().several(|users| users))
        .with(|n| n.about().pair(|_, team| team))
        .with(|n| n.about().deeper(|b| b.holds().user(|user| user)))
        .all()
        .await
        .unwrap();
    // Eight queries: the notes, the six edges, and the leads of the teams.
    assert_eq!(recorder.queries(), 8);
    let joined = found
        .iter()
        .map(|(_, of, teams, perhaps, all, pair, deeper)| {
            let mut names: Vec<String> = of.iter().map(|link| user(link.get())).collect();
            names.extend(teams.iter().map(|link| {
                let (team, lead) = link.loaded().unwrap();
                format!("{} of {}", team.name, user(lead.get()))
            }));
            names.extend(perhaps.iter().map(|link| user(link.get())));
            names.extend(user_names(all));
            names.extend(pair.iter().map(|link| team(link.get())));
            names.extend(user_names(deeper));
            names.join(", ")
        });
    assert_eq!(
        joined.collect::<Vec<_>>(),
        [
            "user 1",
            "team 1 of user 2",
            "user 2",
            "",
            "user 4, no user 94, user 3",
            "team 2",
            "user 2",
            "",
            ""
        ]
    );

    recorder.clear();
    let (_, of, teams, perhaps, all, pair, deeper) = db
        .find::<Note>()
        .filter(|n| n.id().eq(9))
        .with(|n| n.also().user(|user| user))
        .with(|n| n.also().team(|team| team))
        .with(|n| n.also().perhaps(|user| user))
        .with(|n| {
            n.also()
                .several(|users| users.sort(|u| u.id().asc()).limit(2))
        })
        .with(|n| n.also().pair(|user, _| user))
        .with(|n| n.also().deeper(|b| b.holds().team(|team| team)))
        .one()
        .await
        .unwrap();
    assert_eq!(recorder.queries(), 7);
    assert_eq!(user_names(&of), ["user 1"]);
    assert_eq!(teams.iter().map(team).collect::<Vec<_>>(), ["team 1"]);
    assert_eq!(user_names(&perhaps), ["user 2"]);
    assert_eq!(user_names(&all), ["user 3", "user 4"]);
    assert_eq!(user_names(&pair), ["user 3"]);
    assert_eq!(deeper.iter().map(team).collect::<Vec<_>>(), ["team 3"]);

    // A filter can use the same references as a join.
    let notes = db.find::<Note>();
    let notes = notes.filter(|n| n.also().any(|s| s.user(|user| user.eq(Ref::new(1)))));
    assert_eq!(notes.count().await.unwrap(), 1);
}

/// An enum of documents: each document has a single variant.
pub async fn an_enum_of_documents(fixture: Fixture) {
    let (db, recorder) = insert_people_and_teams::<Diary>(&fixture).await;
    let login = |id, who| {
        Event::Login(Login {
            id,
            at: id,
            who: Ref::new(who),
        })
    };
    let invited = |id, who, guests: &[i64], by| {
        Event::Invited(Invited {
            id,
            at: id,
            who: Ref::new(who),
            guests: guests.iter().map(Ref::new).collect(),
            by,
        })
    };
    db.insert_many([
        login(1, 1),
        invited(2, 1, &[4, 93], Held::User(Ref::new(2))),
        login(3, 92),
        invited(4, 91, &[], Held::Team(Ref::new(3))),
    ])
    .await
    .unwrap();
    recorder.clear();
    let events = db
        .find::<Event>()
        .sort(|e| e.at().asc())
        .with(|e| e.login(|login| login.who()))
        .with(|e| e.invited(|invited| invited.who().with(|team| team.lead())))
        .with(|e| e.invited(|invited| invited.guests()))
        .with(|e| e.invited(|invited| invited.by().user(|user| user)))
        .all()
        .await
        .unwrap();
    assert_eq!(recorder.queries(), 6);
    let joined = events.iter().map(|(_, who, invited, guests, by)| {
        let invited = invited.as_ref().map(|link| match link.get() {
            Loaded((team, lead)) => format!("{} of {}", team.name, user(lead.get())),
            Missing(id) => format!("no team {id}"),
        });
        (
            who.as_ref().map(|link| user(link.get())),
            invited,
            user_names(guests),
            by.as_ref().map(|link| user(link.get())),
        )
    });
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        joined.collect::<Vec<_>>(),
        [
            (text("user 1"), None, vec![], None),
            (
                None,
                text("team 1 of user 2"),
                vec!["user 4".to_owned(), "no user 93".to_owned()],
                text("user 2")
            ),
            (text("no user 92"), None, vec![], None),
            (None, text("no team 91"), vec![], None),
        ]
    );

    // Children of each user: the events by a reference of a single variant.
    recorder.clear();
    let found = db
        .find::<User>()
        .filter(|u| u.id().is_in([1, 2, 4]))
        .sort(|u| u.id().asc())
        .with_children(Event::by(|e| e.login(|login| login.who())))
        .with_children(Event::by(|e| e.invited(|invited| invited.guests())))
        .with_children(Event::by(|e| {
            e.invited(|invited| invited.by().user(|user| user))
        }))
        .all()
        .await
        .unwrap();
    assert_eq!(recorder.queries(), 4);
    let joined = found
        .iter()
        .map(|(_, logins, invited, by)| (logins.len(), invited.len(), by.len()));
    assert_eq!(
        joined.collect::<Vec<_>>(),
        [(1, 0, 0), (0, 0, 1), (0, 1, 0)]
    );
    let all = db.find::<Event>().filter(|_| Filter::all()).count().await;
    assert_eq!(all.unwrap(), 4);
}
