//! The outcome of an update of a reference, which counts modifications in the same way as any update.

use odm::{action::Updated, prelude::*};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = owner, max = 10)]
    tasks: Vec<Ref<Task>>,
    #[reference(inverse_of = helpers, max = 10)]
    helps: Vec<Ref<Task>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "tasks")]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    text: String,
    #[reference(inverse = tasks)]
    owner: Option<Ref<Person>>,
    #[reference(inverse = helps, max = 10)]
    helpers: Vec<Ref<Person>>,
}

#[derive(Schema)]
#[schema(models(Person, Task))]
struct Work;
type Db = odm::Database<Work>;

async fn insert_people_and_tasks(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db.insert_many((0..3).map(|id| NewPerson { id }))
        .await
        .unwrap();
    db.insert(Task {
        id: 1,
        text: "wash".to_owned(),
        owner: Some(Ref::new(0)),
        helpers: vec![Ref::new(1)],
    })
    .await
    .unwrap();
    db
}

fn expected_counts(matched: u64, modified: u64) -> Updated {
    let mut report = Updated::default();
    (report.matched, report.modified) = (matched, modified);
    report
}

pub async fn reference_updates_report_modified_documents(fixture: Fixture) {
    let db = insert_people_and_tasks(&fixture).await;
    let task = || db.update::<Task>(1);
    let owner = |id| Some(Ref::<Person>::new(id));
    // Without transactions, an intent record is written into the document first, so the document is always modified.
    let has_transactions = fixture.backend().capabilities().transactions;
    let same = expected_counts(1, u64::from(!has_transactions));

    assert_eq!(
        task().set(|t| t.owner(), owner(2)).await.unwrap(),
        expected_counts(1, 1)
    );
    assert_eq!(task().set(|t| t.owner(), owner(2)).await.unwrap(), same);
    // A second field decides whether the document is modified.
    let both = |text| task().set(|t| t.owner(), owner(2)).set(|t| t.text(), text);
    assert_eq!(both("wash").await.unwrap(), same);
    assert_eq!(both("dry").await.unwrap(), expected_counts(1, 1));
    let both = task().set(|t| t.owner(), owner(0)).set(|t| t.text(), "dry");
    assert_eq!(both.await.unwrap(), expected_counts(1, 1));

    let helped = |id| task().add_to_set(|t| t.helpers(), Ref::new(id));
    assert_eq!(helped(1).await.unwrap(), same);
    assert_eq!(helped(2).await.unwrap(), expected_counts(1, 1));
    // A second reference to the same helper: the array changes, although the set of targets does not.
    let second = task().push(|t| t.helpers(), Ref::new(2));
    assert_eq!(second.await.unwrap(), expected_counts(1, 1));

    let none = task()
        .when(|t| t.text().eq("wash"))
        .set(|t| t.owner(), owner(1));
    assert_eq!(none.await.unwrap(), expected_counts(0, 0));
    let gone = task().set(|t| t.owner(), None);
    assert_eq!(gone.await.unwrap(), expected_counts(1, 1));
    let gone = task().set(|t| t.owner(), None);
    assert_eq!(gone.await.unwrap(), same);

    let persons = db.find::<Person>().sort(|p| p.id().asc()).all();
    let persons = persons.await.unwrap();
    assert!(persons.iter().all(|person| person.tasks.is_empty()));
    let helps: Vec<_> = persons.iter().map(|person| person.helps.len()).collect();
    assert_eq!(helps, [0, 1, 1]);
    fixture.cleanup().await;
}

/// Moves the reference twice within the transaction of an application.
pub async fn a_reference_moves_twice_in_one_transaction(fixture: Fixture) {
    let db = insert_people_and_tasks(&fixture).await;
    if !fixture.backend().capabilities().transactions {
        return fixture.cleanup().await;
    }
    db.transaction(async |tx| -> odm::Result<_> {
        for id in [2, 1] {
            let moved = tx.update::<Task>(1).set(|t| t.owner(), Some(Ref::new(id)));
            assert_eq!(moved.await?, expected_counts(1, 1));
            let listed = tx.get::<Person>(id).await?.tasks;
            assert_eq!(listed, [Ref::new(1)]);
        }
        let same = tx.update::<Task>(1).set(|t| t.owner(), Some(Ref::new(1)));
        assert_eq!(same.await?, expected_counts(1, 0));
        Ok(())
    })
    .await
    .unwrap();
    let listed = db.find::<Person>().sort(|p| p.id().asc()).all();
    let listed: Vec<_> = listed
        .await
        .unwrap()
        .into_iter()
        .map(|p| p.tasks.len())
        .collect();
    assert_eq!(listed, [0, 1, 0]);
    fixture.cleanup().await;
}
