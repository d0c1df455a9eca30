//! Joins along references inside of variants: a reference that leads to documents of one of several models.

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

/// Its ids are those of users too, so that one taken for the other is found.
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

/// The users 1 to 4, and the teams 1 to 3, the last of which nobody leads.
async fn people<S>(fixture: &Fixture) -> (Database<S>, Recorder)
where
    S: Schema + Contains<User> + Contains<Team>,
{
    let recorder = Recorder::new(fixture.backend());
    let db = Database::<S>::with_backend(Arc::new(recorder.clone()));
    let user = |id| User {
        id,
        name: format!("user {id}"),
    };
    let team = |(id, lead)| Team {
        id,
        name: format!("team {id}"),
        lead: Ref::new(lead),
    };
    db.insert_many((1..=4).map(user)).await.unwrap();
    let teams = [(1, 2), (2, 1), (3, 99)];
    db.insert_many(teams.map(team)).await.unwrap();
    recorder.clear();
    (db, recorder)
}

/// The name of what a link leads to, or its id.
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

fn users(links: &Links<User>) -> Vec<String> {
    links.iter().map(user).collect()
}

fn insert(collection: &'static str, documents: Vec<RawDocumentBuf>) -> operation::Insert {
    operation::Insert {
        collection: collection.into(),
        documents,
        ordered: true,
    }
}

/// A module for each of serde's representations, with the same models and tests.
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
                let (db, recorder) = people::<Office>(fixture).await;
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
                // The assets, the users, and the teams of each of two variants.
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

                // Options and arrays in a variant, and an enum that is optional itself.
                recorder.clear();
                let assets = db.find::<Asset>()
                    .sort(|a| a.id().asc())
                    .with(|a| a.owner().team(|team| team.deputy()))
                    .with(|a| a.owner().team(|team| team.members()))
                    .with(|a| a.second().user(|user| user.id()))
                    .with(|a| a.second().team(|team| team.id()))
                    .all().await.unwrap();
                assert_eq!(recorder.queries(), 5);
                let told: Vec<_> = assets.iter().map(|(_, deputy, members, second, of)| (
                    deputy.as_ref().map(|link| user(link.get())),
                    users(members),
                    second.as_ref().map(|link| user(link.get())),
                    of.as_ref().map(|link| team(link.get())),
                )).collect();
                let text = |text: &str| Some(text.to_owned());
                let none = (None, vec![], None, None);
                assert_eq!(told, [
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
                // In the order of the array, so that both can be gone through side by side.
                let told = assets.iter().map(|(asset, users, teams, _, contracts)| {
                    let (mut users, mut teams, mut contracts) = (users.iter(), teams.iter(), contracts.iter());
                    let told = asset.watchers.iter().map(|watcher| match watcher {
                        Owner::User { .. } => user(users.next().unwrap()),
                        Owner::Team { .. } => team(teams.next().unwrap()),
                        Owner::Contract(_) => team(contracts.next().unwrap()),
                        Owner::Nobody => "nobody".into(),
                    });
                    let told = told.collect::<Vec<_>>().join(", ");
                    assert!(users.next().is_none() && teams.next().is_none() && contracts.next().is_none());
                    told
                });
                assert_eq!(told.collect::<Vec<_>>(), [
                    "user 2, team 2, nobody, user 1, user 2",
                    "team 1, team 3",
                    "",
                    "nobody, no user 95, user 4",
                    "team 3, team 2",
                ]);
                let members = assets.iter().map(|(_, _, _, members, _)| users(members).join(", "));
                assert_eq!(members.collect::<Vec<_>>(), ["", "", "", "", "user 4, user 3, user 2"]);

                // With what can be asked of any array of references, inside of the closure or behind it; and one element.
                recorder.clear();
                let assets = db.find::<Asset>()
                    .sort(|a| a.id().asc())
                    .with(|a| a.watchers().user(|user| user.id().sort(|u| u.name().desc()).limit(2)))
                    .with(|a| a.watchers().user(|user| user.id()).filter(|u| u.id().lt(2)))
                    .with(|a| a.watchers().at(1).user(|user| user.id()))
                    .with(|a| a.watchers().at(1).team(|team| team.id().filter(|t| t.name().ne("team 2"))))
                    .all().await.unwrap();
                assert_eq!(recorder.queries(), 5);
                let told = assets.iter().map(|(_, last, first, second, of)| (
                    users(last).join(", "),
                    users(first).join(", "),
                    second.as_ref().map_or(String::new(), |link| user(link.get())),
                    of.as_ref().map_or(String::new(), |link| team(link.get())),
                ));
                let told: Vec<_> = told.collect();
                let told: Vec<_> = told.iter().map(|(a, b, c, d)| [a.as_str(), b, c, d]).collect();
                assert_eq!(told, [
                    ["user 2, user 2", "user 1", "", "no team 2"],
                    ["", "", "", ""],
                    ["", "", "", ""],
                    ["user 4", "", "no user 95", ""],
                    ["", "", "", "no team 2"],
                ]);
            }

            /// One query for each edge and level, and none where no document has the variant.
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

                // However many there are.
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
                // Each id once, and none of the other variant.
                let asked: Vec<_> = recorder.operations().iter().filter_map(|operation| match operation {
                    Operation::Find(find) if &*find.collection == "users" => {
                        let ids = find.filter.get_document("_id").unwrap().get_array("$in").unwrap();
                        let mut ids: Vec<_> = ids.into_iter().map(|id| id.unwrap().as_i64().unwrap()).collect();
                        ids.sort_unstable();
                        Some(ids)
                    }
                    _ => None,
                }).collect();
                assert!(asked.contains(&vec![1, 3]) && asked.contains(&vec![2]), "{asked:?}");
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
                let of: Vec<_> = page.items.iter().map(|(asset, team)| (asset.id, team.is_some())).collect();
                assert_eq!(of, [(1, false), (2, true)]);
            }

            pub(super) async fn in_a_transaction(fixture: &Fixture) {
                let (db, _) = office(fixture).await;
                if !db.backend().capabilities().transactions {
                    return;
                }
                let told = db.transaction(|tx| async move {
                    tx.insert(User { id: 7, name: "new".into() }).await?;
                    tx.update::<Asset>(3).set(|a| a.owner(), of_user(7)).await?;
                    let asset = tx.find::<Asset>().filter(|a| a.id().eq(3));
                    let (_, owner) = asset.with(|a| a.owner().user(|user| user.id())).one().await?;
                    Ok(user(owner.unwrap().get()))
                }).await.unwrap();
                assert_eq!(told, "new");
            }

            /// Only what a join needs is read: the reference, and what says of which variant its enum is.
            pub(super) async fn projected(fixture: &Fixture) {
                let (db, recorder) = office(fixture).await;
                let cards = db.find::<Asset>()
                    .select::<Card>()
                    .sort(|a| a.id().asc())
                    .with(|a| a.owner().user(|user| user.id()))
                    .with(|a| a.watchers().team(|team| team.id()))
                    .with(|a| a.watchers().at(1).user(|user| user.id()))
                    .all().await.unwrap();
                let told = cards.iter().map(|(card, owner, teams, second)| (
                    card.name.as_str(),
                    owner.is_some(),
                    teams.len(),
                    second.as_ref().map(|link| user(link.get())),
                ));
                assert_eq!(told.collect::<Vec<_>>(), [
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

            /// What refers to each from inside of a variant: down, and up again.
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
                let told: Vec<_> = users.iter().map(|(_, own, second, member)| {
                    let teams = member.iter().map(|(_, of)| team(of.as_ref().unwrap().get()));
                    (ids(own), ids(second), teams.collect::<Vec<_>>())
                }).collect();
                assert_eq!(told, [
                    (vec![1], vec![], vec!["team 1".to_owned()]),
                    (vec![], vec![], vec!["team 1".to_owned()]),
                    (vec![], vec![1], vec![]),
                    (vec![], vec![], vec![]),
                ]);
                // A user with the id of a team has none of its assets.
                let teams = db.find::<Team>().sort(|t| t.id().asc())
                    .with_children(Asset::by(|a| a.owner().team(|team| team.id())).select::<Card>())
                    .with_children(Asset::by(|a| a.owner().contract(|contract| contract.with())))
                    .all().await.unwrap();
                let told = teams.iter().map(|(_, own, by_contract)| (own.len(), ids(by_contract)));
                assert_eq!(told.collect::<Vec<_>>(), [(1, vec![]), (0, vec![5]), (0, vec![])]);
            }

            /// What is not as the model says is told, and not taken for another variant.
            pub(super) async fn misfits(fixture: &Fixture) {
                let (db, _) = office(fixture).await;
                // A user without an id: of the variant, but with no reference.
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
                clear(&fixture, collection).await;
            }
            internal::$part(&fixture).await;
            for collection in ["users", "teams"] {
                clear(&fixture, collection).await;
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
    only_what_is_needed_is_read: projected;
    streams_and_pages: streamed;
    variants_in_an_array: in_arrays;
    what_does_not_fit_is_told: misfits;
}

async fn clear(fixture: &Fixture, collection: &'static str) {
    fixture.backend().drop_collection(collection).await.unwrap();
}

/// The reference is all that is in a variant: an enum of references.
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

/// An enum inside of a variant.
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
    /// A field of the same name that leads elsewhere.
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
    let (db, recorder) = people::<Diary>(&fixture).await;
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
    // The notes, one for each edge, and the leads of the teams.
    assert_eq!(recorder.queries(), 8);
    let told = found
        .iter()
        .map(|(_, of, teams, perhaps, all, pair, deeper)| {
            let mut told: Vec<String> = of.iter().map(|link| user(link.get())).collect();
            told.extend(teams.iter().map(|link| {
                let (team, lead) = link.loaded().unwrap();
                format!("{} of {}", team.name, user(lead.get()))
            }));
            told.extend(perhaps.iter().map(|link| user(link.get())));
            told.extend(users(all));
            told.extend(pair.iter().map(|link| team(link.get())));
            told.extend(users(deeper));
            told.join(", ")
        });
    assert_eq!(
        told.collect::<Vec<_>>(),
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
    assert_eq!(users(&of), ["user 1"]);
    assert_eq!(teams.iter().map(team).collect::<Vec<_>>(), ["team 1"]);
    assert_eq!(users(&perhaps), ["user 2"]);
    assert_eq!(users(&all), ["user 3", "user 4"]);
    assert_eq!(users(&pair), ["user 3"]);
    assert_eq!(deeper.iter().map(team).collect::<Vec<_>>(), ["team 3"]);

    // A condition that says the same asks for it too.
    let notes = db.find::<Note>();
    let notes = notes.filter(|n| n.also().any(|s| s.user(|user| user.eq(Ref::new(1)))));
    assert_eq!(notes.count().await.unwrap(), 1);
}

/// Documents that are of one variant or another.
pub async fn an_enum_of_documents(fixture: Fixture) {
    let (db, recorder) = people::<Diary>(&fixture).await;
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
    let told = events.iter().map(|(_, who, invited, guests, by)| {
        let invited = invited.as_ref().map(|link| match link.get() {
            Loaded((team, lead)) => format!("{} of {}", team.name, user(lead.get())),
            Missing(id) => format!("no team {id}"),
        });
        (
            who.as_ref().map(|link| user(link.get())),
            invited,
            users(guests),
            by.as_ref().map(|link| user(link.get())),
        )
    });
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        told.collect::<Vec<_>>(),
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

    // Up again: the events of each user, of one variant or of any.
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
    let told = found
        .iter()
        .map(|(_, logins, invited, by)| (logins.len(), invited.len(), by.len()));
    assert_eq!(told.collect::<Vec<_>>(), [(1, 0, 0), (0, 0, 1), (0, 1, 0)]);
    let all = db.find::<Event>().filter(|_| Filter::all()).count().await;
    assert_eq!(all.unwrap(), 4);
}
