//! Tests that every future of the public API is `Send`: each runs in a spawned task.

use futures_util::StreamExt;
use odm::{Database, Session, prelude::*};

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "users")]
struct User {
    #[serde(rename = "_id")]
    id: i64,
    #[index]
    name: String,
    karma: i64,
    #[reference]
    friends: Vec<Ref<User>>,
}

#[derive(Deserialize, Projection)]
#[projection(of = User)]
struct Name {
    name: String,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "papers", scope = of, soft_delete)]
struct Paper {
    #[serde(rename = "_id")]
    id: i64,
    of: String,
    deleted_at: Option<DateTime>,
}

#[derive(Schema)]
#[schema(models(User, Paper))]
struct Users;

fn user(id: i64) -> User {
    User {
        id,
        name: format!("user {id}"),
        karma: 0,
        friends: vec![Ref::new(id)],
    }
}

/// Awaits each future in a spawned task.
macro_rules! spawned {
    ($db:ident: $($future:expr;)*) => {$({
        let $db = $db.clone();
        tokio::spawn(async move { $future.await }).await.unwrap()
    });*};
}

#[tokio::test]
async fn every_future_can_be_spawned() {
    let db = tokio::spawn(Database::<Users>::open("memory:"))
        .await
        .unwrap()
        .unwrap();
    let _ = spawned! { db: db.sync_indexes(); };
    let _ = spawned! { db: db.insert(user(1)); };
    let _ = spawned! { db: db.insert_many([user(2), user(3)]); };
    let _ = spawned! { db: db.get::<User>(1); };
    let _ = spawned! { db: db.find_by_id::<User>(9); };
    let _ = spawned! { db: db.get_many::<User>([1, 9]); };
    let _ = spawned! { db: db.load((Ref::<User>::new(1), [Ref::<User>::new(9)])); };
    let _ = spawned! { db: db.find::<User>().filter(|u| u.id().eq(1)).one(); };
    let _ = spawned! { db: db.find::<User>().first(); };
    let _ = spawned! { db: db.find::<User>().sort(|u| u.name().asc()).all(); };
    let _ = spawned! { db: db.find::<User>().count(); };
    let _ = spawned! { db: db.find::<User>().exists(); };
    let names = spawned! { db: db.find::<User>().select::<Name>().all(); };
    assert_eq!(names.unwrap()[0].name, "user 1");
    let _ = spawned! { db: db.find::<User>().with(|u| u.friends().with(|f| f.friends())).all(); };
    let _ =
        spawned! { db: db.find::<User>().with_children(User::by(|u| u.friends()).limit(3)).all(); };
    let _ = spawned! { db: db.find::<User>().with(|u| u.friends()).stream().collect::<Vec<_>>(); };
    let _ = spawned! { db: async move { db.find::<User>().stream().next().await.map(|user| user.map(|u| u.id)) }; };
    let _ = spawned! { db: db.find::<User>().explain(); };
    let page = spawned! { db: db.find::<User>().with(|u| u.friends()).page(2); }.unwrap();
    let _ = spawned! { db: db.find::<User>().with(|u| u.friends()).page(2).after(page.next); };
    let _ = spawned! { db: db.find::<User>().select::<Name>().page(2).explain(); };
    let _ = spawned! { db: db.find::<User>().sum(|u| u.karma()); };
    let _ = spawned! { db: db.find::<User>().distinct(|u| u.friends()); };
    let _ = spawned! { db: db.find::<User>().group_by(|u| u.name()).select(|g| g.count()).all(); };
    let _ = spawned! { db: db.find::<User>().pipeline([]).all_as::<User>(); };
    let _ =
        spawned! { db: db.find::<User>().pipeline([]).stream_as::<User>().collect::<Vec<_>>(); };
    let _ = spawned! { db: db.update::<User>(1).inc(|u| u.karma(), 1); };
    let _ = spawned! { db: db.update_many::<User>(|u| u.karma().gt(0)).set(|u| u.karma(), 0); };
    let _ = spawned! { db: db.update::<User>(1).inc(|u| u.karma(), 0).returning_after(); };
    let _ = spawned! { db: db.update::<User>(1).inc(|u| u.karma(), 0).returning_before().select::<Name>(); };
    let _ = spawned! { db: db.update_first::<User>(|u| u.karma().gt(9)).sort(|u| u.name().asc()).inc(|u| u.karma(), 0); };
    let _ = spawned! { db: db.update::<User>(1).inc(|u| u.karma(), 0).or_insert(user(1)); };
    let _ = spawned! { db: db.update::<User>(1).when(|u| u.karma().gt(9)).inc(|u| u.karma(), 0).or_insert(user(1)).returning_after(); };
    let _ = spawned! { db: db.delete::<User>(9).returning(); };
    let _ = spawned! { db: db.scope("acme").insert(NewPaper { id: 1 }); };
    let _ = spawned! { db: db.scope("acme").get::<Paper>(1).with_deleted(); };
    let _ = spawned! { db: db.all_scopes().find::<Paper>().only_deleted().all(); };
    let _ = spawned! { db: db.scope("acme").delete::<Paper>(1); };
    let _ = spawned! { db: db.scope("acme").restore::<Paper>(1).returning_after(); };
    let _ = spawned! { db: db.scope("acme").restore_many::<Paper>(|p| p.id().gt(0)); };
    let _ = spawned! { db: db.scope("acme").delete::<Paper>(1).permanently(); };
    let _ = spawned! { db: db.delete_first::<User>(|u| u.karma().gt(9)); };
    let _ = spawned! { db: db.bulk().add(db.update::<User>(2).inc(|u| u.karma(), 0)).add(db.delete::<User>(9)); };
    let _ = spawned! { db: async move { get_and_update(&db).await }; };
    let _ = spawned! { db: async move { db.transaction(|tx| async move { get_and_update(&tx).await }).await }; };
    let _ = spawned! { db: db.delete::<User>(1).when(|u| u.karma().eq(0)); };
    let _ = spawned! { db: db.delete_many::<User>(|u| u.karma().eq(0)); };
    assert_eq!(db.find::<User>().count().await.unwrap(), 0);
}

async fn get_and_update(session: &Session<Users>) -> odm::Result<()> {
    let user = session.get::<User>(1).await?;
    session.update::<User>(&user).inc(|u| u.karma(), 0).await?;
    Ok(())
}
