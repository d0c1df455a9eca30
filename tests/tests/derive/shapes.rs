//! Shapes of models: generics, ids of every type, recursion, circular references, visibility.

use std::collections::BTreeMap;

use odm::{Database, prelude::*};

/// An embedded struct with a type parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[serde(bound = "")]
struct Range<T: Embedded> {
    #[embed(max = 2)]
    ends: Vec<T>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[serde(bound = "")]
#[document(collection = "batches")]
struct Batch<T: Embedded> {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 10)]
    items: Vec<T>,
    #[embed]
    range: Range<T>,
}

/// A newtype with a type parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[serde(bound = "")]
struct Marked<T: Embedded>(T);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Point {
    x: i64,
    y: i64,
}

/// A recursive struct.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Comment {
    text: String,
    #[reference]
    by: Ref<Person>,
    #[embed(max = 10)]
    replies: Vec<Self>,
}

/// A model with references to persons, and to `Team`, which references persons in turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: PersonId,
    #[reference]
    team: Option<Ref<Team>>,
    #[reference(max = 100)]
    friends: Vec<Ref<Self>>,
    #[embed(unbounded)]
    comments: Vec<Comment>,
    #[embed]
    home: Option<Point>,
    #[embed]
    places: BTreeMap<String, Point>,
    state: State,
    states: Option<State>,
    marked: Marked<Point>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "teams")]
struct Team {
    #[serde(rename = "_id")]
    id: Uuid,
    #[reference]
    lead: Ref<Person>,
    #[reference]
    parent: Option<Ref<Team>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct PersonId(String);

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Embedded)]
#[serde(rename_all = "kebab-case")]
enum State {
    AtWork,
    AtHome,
}

/// A model with a type parameter, and a computed field over raw identifiers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[serde(bound = "", rename_all = "camelCase")]
#[document(collection = "sums")]
struct Sums<T: Embedded> {
    #[serde(rename = "_id")]
    id: i64,
    r#type: i32,
    #[embed]
    range: Option<Range<T>>,
    #[embed(max = 3)]
    r#loop: Option<Vec<Point>>,
    #[computed(r#type * -(2 + sum(r#loop.x - r#loop.y)) + len(range.ends))]
    r#match: i64,
}

#[derive(Schema)]
#[schema(models(Person, Team, Batch<Point>, Sums<Point>))]
struct World;

async fn world() -> Database<World> {
    Database::open("memory:").await.unwrap()
}

fn person(id: &str) -> Person {
    let id = PersonId(id.to_owned());
    Person {
        team: None,
        friends: vec![Ref::new(&id)],
        comments: vec![Comment {
            text: "outer".into(),
            by: Ref::new(&id),
            replies: vec![Comment {
                text: "inner".into(),
                by: Ref::new(&id),
                replies: vec![],
            }],
        }],
        home: Some(Point { x: 1, y: 2 }),
        places: BTreeMap::from([("work".into(), Point { x: 3, y: 4 })]),
        state: State::AtHome,
        states: Some(State::AtWork),
        marked: Marked(Point { x: 5, y: 6 }),
        id,
    }
}

#[tokio::test]
async fn documents_with_parameters() {
    let db = world().await;
    let batch = Batch {
        id: 1,
        items: vec![Point { x: 1, y: 2 }],
        range: Range {
            ends: vec![Point { x: 0, y: 0 }],
        },
    };
    db.insert(batch.clone()).await.unwrap();
    let found = db
        .find::<Batch<Point>>()
        .filter(|b| b.items().x().eq(1) & b.range().ends().any(|p| p.x().eq(0) & p.y().eq(0)))
        .one();
    assert_eq!(found.await.unwrap(), batch);
    db.update::<Batch<Point>>(1)
        .set(|b| b.items().all().y(), 7)
        .await
        .unwrap();
    assert_eq!(db.get::<Batch<Point>>(1).await.unwrap().items[0].y, 7);
}

#[tokio::test]
async fn recursive_structs_and_newtype_ids() {
    let db = world().await;
    let jane = db.insert(person("jane")).await.unwrap();
    let team = db
        .insert(Team {
            id: Uuid::new(),
            lead: jane.to_ref(),
            parent: None,
        })
        .await
        .unwrap();
    db.update::<Person>(&jane)
        .set(|p| p.team(), &team)
        .await
        .unwrap();
    let found = db
        .find::<Person>()
        .filter(|p| {
            p.id().eq(PersonId("jane".into()))
                & p.comments().replies().text().eq("inner")
                & p.comments().any(|c| c.replies().any(|r| r.by().eq(&jane)))
                & p.home().x().eq(1)
                & p.places().key("work").y().eq(4)
                & p.state().eq(State::AtHome)
                & p.states().is_in([State::AtWork])
                & p.marked().eq(Marked(Point { x: 5, y: 6 }))
        })
        .with(|p| p.team().with(|t| t.lead()))
        .with(|p| p.friends())
        .one()
        .await
        .unwrap();
    let (_, friends) = (&found.0, &found.2);
    assert_eq!(friends.loaded().count(), 1);
    let (found_team, lead) = found.1.as_ref().and_then(|team| team.loaded()).unwrap();
    assert_eq!(found_team.id, team.id);
    assert_eq!(lead.loaded().map(|lead| &lead.id), Some(&jane.id));
    assert_eq!(db.get::<Person>(&jane.id).await.unwrap().id, jane.id);
    assert!(
        db.find_by_id::<Person>(PersonId("joe".into()))
            .await
            .unwrap()
            .is_none()
    );
}

/// Defines a test with a model for each type of id.
macro_rules! test_id_types {
    ($($test:ident: $id:ty = $value:expr;)*) => {$(
        #[tokio::test]
        async fn $test() {
            #[derive(Serialize, Deserialize, Document)]
            #[document(collection = "models")]
            struct Model {
                #[serde(rename = "_id")]
                id: $id,
                #[reference]
                next: Option<Ref<Model>>,
            }
            #[derive(Schema)]
            #[schema(models(Model))]
            struct Models;

            let id: $id = $value;
            let db = Database::<Models>::open("memory:").await.unwrap();
            db.insert(Model { id: id.clone(), next: Some(Ref::new(id.clone())) }).await.unwrap();
            assert!(db.get::<Model>(&id).await.unwrap().id == id);
            let (_, next) = db.find::<Model>().filter(|m| m.id().eq(&id)).with(|m| m.next()).one().await.unwrap();
            assert!(next.unwrap().loaded().unwrap().id == id);
            assert_eq!(db.get_many::<Model>([&id]).await.unwrap().loaded().count(), 1);
            assert_eq!(db.delete::<Model>(id).await.unwrap().deleted, 1);
        }
    )*};
}
test_id_types! {
    id_object_id: ObjectId = ObjectId::new();
    id_uuid: Uuid = Uuid::new();
    id_string: String = "jane".to_owned();
    id_i32: i32 = -1;
    id_i64: i64 = i64::MIN;
    id_u32: u32 = u32::MAX;
    id_u64: u64 = 7;
    id_newtype: PersonId = PersonId("jane".to_owned());
}

/// The field accessors of a model have the visibility of the struct fields.
mod hidden {
    use odm::prelude::*;

    #[derive(Serialize, Deserialize, Document)]
    #[document(collection = "outers")]
    pub(crate) struct Outer {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[embed]
        inner: Inner,
        #[embed]
        pub(in crate::shapes) given: deeper::Given,
    }

    #[derive(Serialize, Deserialize, Embedded)]
    struct Inner {
        b: i64,
    }

    pub(crate) mod deeper {
        #[derive(serde::Serialize, serde::Deserialize, odm::Embedded)]
        pub(crate) struct Given {
            pub(crate) c: i64,
        }
    }

    pub(crate) fn of(b: i64) -> odm::Filter<Outer> {
        let _ = Outer {
            id: 1,
            inner: Inner { b },
            given: deeper::Given { c: 1 },
        }
        .inner
        .b;
        Outer::fields().inner().b().eq(b)
    }
}

#[test]
fn private_and_restricted_fields() {
    let filter = hidden::of(3)
        & hidden::Outer::fields().id().eq(1)
        & hidden::Outer::fields().given().c().eq(2);
    let text = format!("{filter:?}");
    assert!(
        text.contains("inner.b") && text.contains("given.c"),
        "{text}"
    );
}

#[tokio::test]
async fn computed_from_raw_identifiers() {
    let db = world().await;
    let point = |x, y| Point { x, y };
    let range = Range {
        ends: vec![point(0, 0)],
    };
    let new = NewSums::<Point> {
        id: 1,
        r#type: 3,
        range: Some(range),
        r#loop: Some(vec![point(5, 1), point(7, 2)]),
    };
    assert_eq!(db.insert(new).await.unwrap().r#match, 3 * -(2 + 4 + 5) + 1);
    let update = db.update::<Sums<Point>>(1).unset(|s| s.r#loop());
    let after = update.unset(|s| s.range()).returning_after().await.unwrap();
    assert_eq!((after.r#match, after.r#loop), (-6, None));
}
