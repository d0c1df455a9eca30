//! The comparison of declared indexes with the database at `open`.

use odm::{Database, ErrorKind, IndexCheck, prelude::*};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    #[index(unique)]
    ssn: String,
    #[index]
    name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "visits")]
struct Visit {
    #[serde(rename = "_id")]
    id: i64,
    #[index]
    person: i64,
}

#[derive(Schema)]
#[schema(models(Person, Visit))]
struct Office;
type Db = Database<Office>;

fn person(id: i64, ssn: &str) -> Person {
    Person {
        id,
        ssn: ssn.to_owned(),
        name: String::new(),
    }
}

async fn open(fixture: &Fixture, check: IndexCheck) -> odm::Result<Db> {
    let options = Db::options().check_indexes(check);
    options.open_backend(fixture.backend()).await
}

pub async fn a_missing_unique_index_rejects_inserts(fixture: Fixture) {
    let db = open(&fixture, IndexCheck::Warn).await.unwrap();
    let rejections = [
        db.insert(person(1, "a")).await.unwrap_err(),
        db.insert_many([person(1, "a")]).await.unwrap_err(),
        db.update::<Person>(1)
            .set(|p| p.name(), "Jane")
            .or_insert(person(1, "a"))
            .await
            .unwrap_err(),
    ];
    for error in rejections {
        assert_eq!(error.kind(), ErrorKind::MissingIndex, "{error}");
        assert_eq!(error.model(), Some("Person"));
        let text = error.to_string();
        assert!(
            text.contains("ssn_1") && text.contains("sync_indexes"),
            "{text}"
        );
    }
    assert_eq!(db.find::<Person>().count().await.unwrap(), 0);
    // A model without a unique index is not affected.
    db.insert(Visit { id: 1, person: 1 }).await.unwrap();

    // The handle sees the indexes of another handle.
    let other = Db::with_backend(fixture.backend());
    other.sync_indexes().await.unwrap();
    db.insert(person(1, "a")).await.unwrap();
    let duplicate = db.insert(person(2, "a")).await.unwrap_err();
    assert!(duplicate.is_duplicate_key());
}

pub async fn missing_indexes_can_fail_the_open(fixture: Fixture) {
    let error = open(&fixture, IndexCheck::Fail).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingIndex);
    let text = error.to_string();
    for index in [
        "persons: ssn_1 (ssn) unique",
        "persons: name_1",
        "visits: person_1",
    ] {
        assert!(text.contains(index), "{text}");
    }
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    open(&fixture, IndexCheck::Fail).await.unwrap();
    fixture
        .backend()
        .drop_index("persons", "name_1")
        .await
        .unwrap();
    let error = open(&fixture, IndexCheck::Fail).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("name_1") && !text.contains("ssn_1"), "{text}");
}

pub async fn without_a_check_inserts_need_no_index(fixture: Fixture) {
    let db = open(&fixture, IndexCheck::Off).await.unwrap();
    db.insert_many([person(1, "a"), person(2, "a")])
        .await
        .unwrap();
}
