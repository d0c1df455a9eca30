//! Two-way references: the owner of a task has an inverse, and odm updates both in each write.
//!
//! ```text
//! alice: paint the door, mow the lawn
//! bob: nothing
//! alice: mow the lawn
//! bob: paint the door
//! bob stays: Restricted
//! alice is deleted, her badge has no owner: None
//! no findings
//! ```
//!
//! The example runs in memory, or on the database with the URL in the first argument.

use odm::{Filter, prelude::*};

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: String,
    /// A managed field: no setter, and not in the insert struct `NewPerson`.
    #[reference(inverse_of = owner, max = 200)]
    tasks: Vec<Ref<Task>>,
    #[reference(inverse_of = of)]
    badge: Option<Ref<Badge>>,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "tasks")]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    description: String,
    /// A person with tasks cannot be deleted.
    #[reference(inverse = tasks, on_delete = restrict)]
    owner: Ref<Person>,
}

/// A one-to-one reference. A delete of the person sets the reference to null.
#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "badges")]
struct Badge {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = badge, on_delete = nullify)]
    of: Option<Ref<Person>>,
}

#[derive(Schema)]
#[schema(models(Person, Task, Badge))]
struct Office;
type Db = odm::Database<Office>;

#[tokio::main]
async fn main() -> odm::Result<()> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let db = Db::open(&url).await?;
    // Remove the documents of an earlier run.
    db.delete_many::<Task>(|_| Filter::all()).await?;
    db.delete_many::<Badge>(|_| Filter::all()).await?;
    db.delete_many::<Person>(|_| Filter::all()).await?;

    let alice = db.insert(NewPerson { id: "alice".into() }).await?;
    let bob = db.insert(NewPerson { id: "bob".into() }).await?;
    let task = |id, description: &str| Task {
        id,
        description: description.into(),
        owner: alice.to_ref(),
    };
    db.insert_many([task(1, "paint the door"), task(2, "mow the lawn")])
        .await?;
    db.insert(Badge {
        id: 7,
        of: Some(alice.to_ref()),
    })
    .await?;
    list(&db).await?;

    // Removes the task from the inverse of alice, and adds the task to the inverse of bob.
    db.update::<Task>(1).set(|t| t.owner(), &bob).await?;
    list(&db).await?;

    let rejected = db.delete::<Person>("bob").await.unwrap_err();
    println!("bob stays: {:?}", rejected.kind());
    db.delete::<Task>(2).await?;
    db.delete::<Person>("alice").await?;
    let badge = db.get::<Badge>(7).await?;
    println!("alice is deleted, her badge has no owner: {:?}", badge.of);
    let report = db.check().await?;
    println!(
        "{}",
        report.to_string().rsplit(": ").next().unwrap_or_default()
    );
    Ok(())
}

async fn list(db: &Db) -> odm::Result<()> {
    let persons = db
        .find::<Person>()
        .sort(|p| p.id().asc())
        .with(|p| p.tasks())
        .all()
        .await?;
    for (person, tasks) in persons {
        let tasks: Vec<_> = tasks
            .loaded()
            .map(|task| task.description.as_str())
            .collect();
        let tasks = if tasks.is_empty() {
            "nothing".to_owned()
        } else {
            tasks.join(", ")
        };
        println!("{}: {tasks}", person.id);
    }
    Ok(())
}
