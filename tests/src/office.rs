//! An office with all kinds of references between documents, and random writes to the office.

use odm::{Error, ErrorKind, prelude::*};
use rand::Rng;

/// A person with three inverses. The application writes only the `_id`.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "persons")]
pub struct Person {
    #[serde(rename = "_id")]
    pub id: i64,
    #[reference(inverse_of = owner, max = 200)]
    pub projects: Vec<Ref<Project>>,
    #[reference(inverse_of = helpers, max = 20)]
    pub helps: Vec<Ref<Task>>,
    #[reference(inverse_of = of)]
    pub badge: Option<Ref<Badge>>,
}

/// A project. Its owner cannot be deleted while the project exists. A delete of the project cascades to the tasks.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "projects")]
pub struct Project {
    #[serde(rename = "_id")]
    pub id: i64,
    #[reference(inverse = projects, on_delete = restrict)]
    pub owner: Ref<Person>,
    #[reference(inverse_of = project, max = 200)]
    pub tasks: Vec<Ref<Task>>,
}

/// A task of a project, with helpers, a place, and references to tasks that must be done first.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "tasks", version)]
pub struct Task {
    #[serde(rename = "_id")]
    pub id: i64,
    #[reference(inverse = tasks, on_delete = cascade)]
    pub project: Ref<Project>,
    #[reference(inverse = helps, on_delete = pull, max = 8)]
    pub helpers: Vec<Ref<Person>>,
    #[reference(inverse = blocks, on_delete = pull, max = 8)]
    pub waits_for: Vec<Ref<Task>>,
    #[reference(inverse_of = waits_for, max = 200)]
    pub blocks: Vec<Ref<Task>>,
    #[reference(on_delete = nullify)]
    pub place: Option<Ref<Place>>,
    pub version: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "badges")]
pub struct Badge {
    #[serde(rename = "_id")]
    pub id: i64,
    #[reference(inverse = badge, on_delete = nullify)]
    pub of: Option<Ref<Person>>,
    #[reference(exists)]
    pub place: Ref<Place>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "places")]
pub struct Place {
    #[serde(rename = "_id")]
    pub id: i64,
}

#[derive(Schema)]
#[schema(models(Person, Project, Task, Badge, Place))]
pub struct Office;
/// A database of the office.
pub type Db = odm::Database<Office>;

/// Runs a random operation on documents with ids below `ids`.
///
/// # Errors
///
/// Mostly errors that [`is_expected`] accepts, because the operation ignores the state of the database.
pub async fn run_random_operation(
    db: &Db,
    random: &mut (impl Rng + Send),
    ids: i64,
) -> odm::Result<()> {
    let mut id = || random.random_range(0..ids);
    let (a, b, c, d) = (id(), id(), id(), id());
    match random.random_range(0..34) {
        0..=1 => db.insert(NewPerson { id: a }).await.map(drop),
        2..=3 => {
            let owner = Ref::new(b);
            db.insert(NewProject { id: a, owner }).await.map(drop)
        }
        4..=7 => {
            let task = NewTask {
                id: a,
                project: Ref::new(b),
                helpers: vec![Ref::new(c), Ref::new(d), Ref::new(c)],
                waits_for: vec![Ref::new(c)],
                place: (d % 2 == 0).then(|| Ref::new(d)),
            };
            db.insert(task).await.map(drop)
        }
        8..=9 => {
            let badge = Badge {
                id: a,
                of: (c % 3 > 0).then(|| Ref::new(b)),
                place: Ref::new(d),
            };
            db.insert(badge).await.map(drop)
        }
        10..=11 => db.insert(Place { id: a }).await.map(drop),
        12..=13 => {
            let update = db.update::<Project>(a).set(|p| p.owner(), Ref::new(b));
            update.await.map(drop)
        }
        14..=17 => {
            let update = db.update::<Task>(a).set(|t| t.project(), Ref::new(b));
            let update = update.set(|t| t.place(), Some(Ref::new(c)));
            update.await.map(drop)
        }
        18..=19 => {
            let update = db.update::<Task>(a).push(|t| t.helpers(), Ref::new(b));
            update.await.map(drop)
        }
        20 => {
            let update = db.update::<Task>(a).pull(|t| t.helpers(), Ref::new(b));
            update.await.map(drop)
        }
        21..=22 => {
            let change = |task: &mut Task| {
                task.waits_for.reverse();
                task.waits_for.truncate(2);
                task.waits_for.push(Ref::new(b));
            };
            db.modify::<Task>(a, change).await.map(drop)
        }
        23 => {
            let all = db.update_many::<Task>(|t| t.id().gt(ids - 4));
            let all = all.add_to_set(|t| t.waits_for(), Ref::new(b));
            all.await.map(drop)
        }
        24..=26 => {
            let update = db.update::<Badge>(a).set(|t| t.of(), Some(Ref::new(b)));
            update.await.map(drop)
        }
        27 => db.delete::<Person>(a).await.map(drop),
        28 => db.delete::<Project>(a).await.map(drop),
        29 => db.delete::<Task>(a).await.map(drop),
        30 => db.delete::<Badge>(a).await.map(drop),
        31 => db.delete::<Place>(a).await.map(drop),
        _ => {
            let moved = db.update::<Task>(a).set(|t| t.project(), Ref::new(b));
            let bulk = db.bulk().add(moved).add(db.delete::<Badge>(c));
            let bulk = bulk.add(db.insert(NewPerson { id: d }));
            bulk.unordered().await.map(drop)
        }
    }
}

/// Fills a database with a document of each model for each id, and with references between the documents.
///
/// # Errors
///
/// Errors of the database.
pub async fn fill(db: &Db, ids: i64) -> odm::Result<()> {
    db.insert_many((0..ids).map(|id| NewPerson { id })).await?;
    db.insert_many((0..ids).map(|id| Place { id })).await?;
    let owned = |id| NewProject {
        id,
        owner: Ref::new(id / 2),
    };
    db.insert_many((0..ids).map(owned)).await?;
    let task = |id: i64| NewTask {
        id,
        project: Ref::new(id / 3),
        helpers: vec![Ref::new(id), Ref::new((id + 1) % ids)],
        waits_for: (id > 0).then(|| Ref::new(id / 2)).into_iter().collect(),
        place: Some(Ref::new(id)),
    };
    for id in 0..ids {
        // A task waits for an earlier task, so the tasks are inserted in order.
        db.insert(task(id)).await?;
    }
    let badge = |id| Badge {
        id,
        of: Some(Ref::new(id)),
        place: Ref::new(id / 4),
    };
    db.insert_many((0..ids).map(badge)).await?;
    Ok(())
}

/// Returns whether an error is caused by the requested operation, and not by the database.
#[must_use]
pub fn is_expected(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::DuplicateKey
            | ErrorKind::Dangling
            | ErrorKind::AlreadyLinked
            | ErrorKind::Restricted
            | ErrorKind::TooManyElements
            | ErrorKind::Conflict
    )
}
