//! Every write stores a value in the same form, and queries treat a missing field as reads do.

use std::collections::BTreeMap;

use odm::{
    Database, Filter,
    backend::{
        operation::{FindOperation, InsertOperation},
        read_to_end,
    },
    bson::{Document as Stored, RawDocumentBuf, doc},
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "teams")]
struct Team {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    motto: Option<String>,
    #[reference(inverse_of = team)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    captain: Option<Ref<Captain>>,
}

/// A captain and a team refer to each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "captains")]
struct Captain {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = captain, on_delete = nullify)]
    #[index(unique, sparse)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    team: Option<Ref<Team>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Badge {
    code: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[reference(on_delete = nullify)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of: Option<Ref<Team>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "players")]
struct Player {
    #[serde(rename = "_id")]
    id: i64,
    #[index(unique, sparse)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nick: Option<String>,
    #[reference(on_delete = nullify)]
    #[index(unique, sparse, name = "one_for_a_team")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    team: Option<Ref<Team>>,
    #[reference(on_delete = keep)]
    fan_of: Option<Ref<Team>>,
    #[denormalize(from = fan_of.motto, on_delete = clear)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    motto: Option<String>,
    #[embed(max = 5)]
    badges: Vec<Badge>,
    #[embed(max = 5)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[embed]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    scores: BTreeMap<String, i32>,
}

/// Older documents lack the fields with a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "settings")]
struct Setting {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(default = "default_level")]
    level: i32,
    #[serde(default)]
    is_active: bool,
    #[serde(default)]
    #[embed(max = 5)]
    hosts: Vec<String>,
    #[serde(default)]
    #[embed]
    limits: BTreeMap<String, i64>,
    #[serde(default)]
    owner: Option<String>,
}

fn default_level() -> i32 {
    3
}

/// The fields that every stored setting has.
#[derive(Debug, Clone, PartialEq, Deserialize, Projection)]
#[projection(of = Setting)]
struct Level {
    #[serde(default = "default_level")]
    level: i32,
}

#[derive(Schema)]
#[schema(models(Team, Captain, Player, Setting))]
struct League;
type Db = Database<League>;

async fn league(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db
}

/// The stored documents of a collection, without the framework's metadata.
async fn stored_documents(fixture: &Fixture, collection: &'static str) -> Vec<Stored> {
    let find = FindOperation {
        collection: collection.into(),
        filter: RawDocumentBuf::new(),
        projection: None,
        sort: Some(RawDocumentBuf::try_from(&doc! { "_id": 1 }).unwrap()),
        limit: None,
        options: Default::default(),
    };
    let found = fixture.backend().find(find).await.unwrap();
    let found = read_to_end(found).await.unwrap();
    let found = found.iter().map(|raw| Stored::try_from(&**raw).unwrap());
    found
        .map(|mut document| {
            document.remove("_odm");
            document
        })
        .collect()
}

async fn insert(fixture: &Fixture, collection: &'static str, documents: &[Stored]) {
    let documents = documents
        .iter()
        .map(|document| RawDocumentBuf::try_from(document).unwrap());
    let insert = InsertOperation {
        collection: collection.into(),
        documents: documents.collect(),
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
}

fn player(id: i64) -> NewPlayer {
    NewPlayer {
        id,
        nick: None,
        team: None,
        fan_of: None,
        badges: Vec::new(),
        tags: Vec::new(),
        scores: BTreeMap::new(),
    }
}

fn team(id: i64, motto: Option<&str>) -> NewTeam {
    NewTeam {
        id,
        name: format!("team {id}"),
        motto: motto.map(str::to_owned),
    }
}

pub async fn none_is_stored_as_an_insert_stores_it(fixture: Fixture) {
    let db = league(&fixture).await;
    db.insert(player(1)).await.unwrap();
    let badge = |code| Badge {
        code,
        note: Some("x".into()),
        of: None,
    };
    for id in 2..=8 {
        let full = NewPlayer {
            nick: Some(format!("nick {id}")),
            badges: vec![badge(1), badge(2)],
            tags: vec!["a".into()],
            scores: BTreeMap::from([("x".into(), 1)]),
            ..player(id)
        };
        db.insert(full).await.unwrap();
    }
    let nobody: Option<String> = None;
    // Every kind of write. The sparse unique index would refuse a second stored null.
    let set = |update: odm::action::Update<Player>| {
        update
            .set(|p| p.nick(), nobody.clone())
            .set(|p| p.tags(), Vec::<String>::new())
            .set(|p| p.scores(), BTreeMap::new())
            .set(|p| p.badges(), Vec::new())
    };
    set(db.update::<Player>(2)).await.unwrap();
    set(db.update::<Player>(3)).returning_after().await.unwrap();
    let _ = db
        .bulk()
        .add(set(db.update::<Player>(4)))
        .await
        .unwrap()
        .into_result()
        .unwrap();
    let _ = set(db.update::<Player>(5))
        .or_insert(player(5))
        .await
        .unwrap();
    let clear = |player: &mut Player| {
        player.nick = None;
        player.tags.clear();
        player.scores.clear();
        player.badges.clear();
    };
    db.modify::<Player>(6, clear).await.unwrap();
    let mut edited = db.edit::<Player>(7).await.unwrap();
    clear(&mut edited);
    db.save(&mut edited).await.unwrap();
    let many = db.update_many::<Player>(|p| p.id().eq(8));
    let many = many
        .set(|p| p.nick(), None)
        .set(|p| p.tags(), vec![])
        .set(|p| p.scores(), BTreeMap::new());
    many.set(|p| p.badges(), Vec::new()).await.unwrap();
    let all = stored_documents(&fixture, "players").await;
    for (id, document) in (1_i64..).zip(&all) {
        let mut same = all[0].clone();
        same.insert("_id", id);
        assert_eq!(*document, same);
        assert!(
            !document.contains_key("nick") && !document.contains_key("tags"),
            "{document}"
        );
    }
    // The same form in elements of an array.
    db.update::<Player>(1)
        .push(|p| p.badges(), badge(1))
        .await
        .unwrap();
    db.update::<Player>(1)
        .set(|p| p.badges().all().note(), None)
        .await
        .unwrap();
    let badges = stored_documents(&fixture, "players").await.remove(0);
    assert_eq!(
        badges.get_array("badges").unwrap(),
        &vec![doc! { "code": 1_i64 }.into()]
    );
    odm_tests::assert_clean(&db).await;
}

pub async fn nullified_fields_are_stored_as_missing(fixture: Fixture) {
    let db = league(&fixture).await;
    for id in [1, 2, 3] {
        db.insert(team(id, None)).await.unwrap();
        let of_team = NewPlayer {
            team: Some(Ref::new(id)),
            badges: vec![Badge {
                code: id,
                note: None,
                of: Some(Ref::new(id)),
            }],
            ..player(id)
        };
        db.insert(of_team).await.unwrap();
        db.insert(Captain {
            id,
            team: Some(Ref::new(id)),
        })
        .await
        .unwrap();
    }
    // The sparse unique indexes would refuse a second stored null.
    for id in [1, 2, 3] {
        assert_eq!(db.delete::<Team>(id).await.unwrap().deleted, 1);
    }
    db.wait_for_pending().await.unwrap();
    db.insert(player(4)).await.unwrap();
    db.insert(Captain { id: 4, team: None }).await.unwrap();
    for document in stored_documents(&fixture, "players").await {
        assert!(!document.contains_key("team"), "{document}");
        for badge in document.get_array("badges").unwrap() {
            assert!(
                !badge.as_document().unwrap().contains_key("of"),
                "{document}"
            );
        }
    }
    for document in stored_documents(&fixture, "captains").await {
        assert!(!document.contains_key("team"), "{document}");
    }
    // A cleared inverse is stored as in a new document.
    db.insert(team(5, None)).await.unwrap();
    let new = stored_documents(&fixture, "teams").await;
    db.update::<Captain>(4)
        .set(|c| c.team(), Ref::new(5))
        .await
        .unwrap();
    assert!(stored_documents(&fixture, "teams").await[0].contains_key("captain"));
    db.update::<Captain>(4)
        .set(|c| c.team(), None)
        .await
        .unwrap();
    assert_eq!(stored_documents(&fixture, "teams").await, new);
    db.update::<Captain>(4)
        .set(|c| c.team(), Ref::new(5))
        .await
        .unwrap();
    db.delete::<Captain>(4).await.unwrap();
    db.wait_for_pending().await.unwrap();
    assert_eq!(stored_documents(&fixture, "teams").await, new);
    odm_tests::assert_clean(&db).await;
}

pub async fn copies_of_none_are_stored_as_missing(fixture: Fixture) {
    let db = league(&fixture).await;
    db.insert_many([team(1, Some("up")), team(2, None)])
        .await
        .unwrap();
    let fan = |id, of| NewPlayer {
        fan_of: Some(Ref::new(of)),
        ..player(id)
    };
    db.insert_many([fan(1, 1), fan(2, 1), fan(3, 1), fan(4, 2), player(5)])
        .await
        .unwrap();
    let has_motto = async || {
        db.wait_for_pending().await.unwrap();
        let all = stored_documents(&fixture, "players").await;
        all.iter()
            .map(|player| player.contains_key("motto"))
            .collect::<Vec<_>>()
    };
    assert_eq!(has_motto().await, [true, true, true, false, false]);
    // Player 1 moves to a team without a motto, player 2 to no team.
    db.update::<Player>(1)
        .set(|p| p.fan_of(), Ref::new(2))
        .await
        .unwrap();
    db.modify::<Player>(2, |player| player.fan_of = None)
        .await
        .unwrap();
    assert_eq!(has_motto().await, [false, false, true, false, false]);
    // The copy follows changes of the motto. Deleting the team clears the copy.
    db.update::<Team>(1).set(|t| t.motto(), None).await.unwrap();
    assert_eq!(has_motto().await, [false; 5]);
    db.update::<Team>(1)
        .set(|t| t.motto(), "again".to_owned())
        .await
        .unwrap();
    assert_eq!(has_motto().await, [false, false, true, false, false]);
    let current = db.find::<Player>().filter(|p| p.id().eq(3)).current();
    assert_eq!(current.one().await.unwrap().motto.as_deref(), Some("again"));
    db.delete::<Team>(1).await.unwrap();
    assert_eq!(has_motto().await, [false; 5]);
    let found = db.find::<Player>().filter(|p| p.motto().is_none()).count();
    assert_eq!(found.await.unwrap(), 5);
    let report = db.check().await.unwrap();
    let is_stale = |finding: &odm::check::Finding| finding.to_string().contains("motto");
    assert!(!report.findings.iter().any(is_stale), "{report}");
}

/// A missing field reads as its default, and queries treat the field the same way.
pub async fn a_missing_field_matches_its_default(fixture: Fixture) {
    let db = league(&fixture).await;
    let older = doc! { "_id": 1_i64 };
    let newer = doc! {
        "_id": 2_i64, "level": 7, "is_active": true, "hosts": ["a"], "limits": { "x": 1_i64 }, "owner": "ann",
    };
    let empty = doc! {
        "_id": 3_i64, "level": 3, "is_active": false, "hosts": [], "limits": {}, "owner": null,
    };
    insert(&fixture, "settings", &[older, newer, empty]).await;
    let setting = db.get::<Setting>(1).await.unwrap();
    assert_eq!(
        (setting.level, setting.is_active, &setting.owner),
        (3, false, &None)
    );
    assert_eq!(
        db.get::<Setting>(3).await.unwrap(),
        Setting { id: 3, ..setting }
    );
    async fn ids(db: &Db, filter: Filter<Setting>) -> Vec<i64> {
        let found = db
            .find::<Setting>()
            .filter(move |_| filter)
            .sort(|s| s.id().asc());
        found
            .all()
            .await
            .unwrap()
            .iter()
            .map(|setting| setting.id)
            .collect()
    }
    let s = Setting::fields();
    for (filter, found) in [
        (s.hosts().has_len(0), vec![1, 3]),
        (s.hosts().has_len(1), vec![2]),
        (!s.hosts().has_len(0), vec![2]),
        (s.hosts().equals(Vec::<String>::new()), vec![1, 3]),
        (s.hosts().equals(vec!["a".to_owned()]), vec![2]),
        (s.hosts().contains("a"), vec![2]),
        (s.hosts().excludes("a"), vec![1, 3]),
        (s.hosts().len().eq(0), vec![1, 3]),
        (s.hosts().any(|host| host.ne("b")), vec![2]),
        (s.limits().eq(BTreeMap::new()), vec![1, 3]),
        (s.limits().ne(BTreeMap::new()), vec![2]),
        (s.limits().key("x").eq(1), vec![2]),
        (s.owner().is_none(), vec![1, 3]),
        (s.owner().is_some(), vec![2]),
        (s.level().exists(), vec![2, 3]),
    ] {
        assert_eq!(ids(&db, filter.clone()).await, found, "{filter:?}");
    }
    // Updates treat a missing value as an empty value.
    let update = |id: i64| {
        db.update::<Setting>(id)
            .push(|s| s.hosts(), "b")
            .set(|s| s.limits().key("y"), 2)
    };
    for id in [1, 3] {
        let after = update(id).returning_after().await.unwrap();
        assert_eq!(
            (&*after.hosts, after.limits["y"]),
            (&["b".to_owned()][..], 2)
        );
    }
    // A projection reads the default where the model does.
    let levels = db
        .find::<Setting>()
        .sort(|s| s.id().asc())
        .select::<Level>();
    let levels = levels.all().await.unwrap();
    assert_eq!(
        levels.iter().map(|level| level.level).collect::<Vec<_>>(),
        [3, 7, 3]
    );
    // Storing the default once leaves no document without the field.
    let missing = db.update_many::<Setting>(|s| !s.level().exists());
    assert_eq!(
        missing
            .set(|s| s.level(), default_level())
            .await
            .unwrap()
            .modified,
        1
    );
    assert!(ids(&db, !s.level().exists()).await.is_empty());
}
