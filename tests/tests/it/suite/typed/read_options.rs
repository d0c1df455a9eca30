//! Options of a single query: an index hint, a comment, and a read preference.

use std::sync::Arc;

use odm::{
    ErrorKind,
    backend::{
        Recorder,
        operation::{Operation, ReadOptions, ReadPreference},
    },
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "makers")]
struct Maker {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "parts", index(number, name))]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[index]
    name: String,
    #[index]
    number: i64,
    #[reference]
    maker: Ref<Maker>,
}

#[derive(Schema)]
#[schema(models(Maker, Part))]
struct Shop;
type Db = odm::Database<Shop>;

async fn insert_parts(fixture: &Fixture) -> (Db, Recorder) {
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(Arc::new(recorder.clone()));
    db.sync_indexes().await.unwrap();
    db.insert(Maker { id: 1 }).await.unwrap();
    let parts = (1..=20).map(|id| Part {
        id,
        name: format!("part {id}"),
        number: id % 4,
        maker: Ref::new(1),
    });
    db.insert_many(parts).await.unwrap();
    recorder.clear();
    (db, recorder)
}

pub async fn a_hint_selects_the_index(fixture: Fixture) {
    let (db, _) = insert_parts(&fixture).await;
    let of_number = || db.find::<Part>().filter(|p| p.number().eq(1));
    for index in ["number_1", "number_1_name_1", "_id_"] {
        let hinted = || of_number().hint(index);
        let explain = hinted().explain().await.unwrap();
        assert_eq!(explain.indexes, [index]);
        assert_eq!(hinted().all().await.unwrap().len(), 5);
        assert_eq!(hinted().count().await.unwrap(), 5);
        assert_eq!(hinted().max(|p| p.id()).await.unwrap(), Some(17));
        assert_eq!(hinted().page(3).await.unwrap().items.len(), 3);
        let joined = hinted().with(|p| p.maker()).first().await.unwrap();
        assert!(joined.unwrap().1.loaded().is_some());
    }
}

pub async fn a_hint_without_an_index_is_an_error(fixture: Fixture) {
    let (db, _) = insert_parts(&fixture).await;
    let hinted = || db.find::<Part>().hint("no_such_index");
    for error in [
        hinted().all().await.unwrap_err(),
        hinted().count().await.unwrap_err(),
        hinted().sum(|p| p.number()).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(error.model(), Some("Part"));
    }
    let by_index = db.find::<Part>().hint("number_1");
    let error = by_index.distinct(|p| p.number()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

pub async fn comments_and_preferences_reach_all_reads(fixture: Fixture) {
    let (db, recorder) = insert_parts(&fixture).await;
    let parts = db
        .find::<Part>()
        .comment("the list of parts")
        .read_preference(ReadPreference::SecondaryPreferred)
        .hint("number_1")
        .with(|p| p.maker())
        .all()
        .await
        .unwrap();
    assert_eq!(parts.len(), 20);
    let options = |operation: &Operation| -> ReadOptions {
        match operation {
            Operation::Find(find) => find.options.clone(),
            other => panic!("{other}"),
        }
    };
    let operations = recorder.operations();
    let [parts, makers] = &operations[..] else {
        panic!("{operations:?}");
    };
    for operation in [parts, makers] {
        let options = options(operation);
        assert_eq!(options.comment.as_deref(), Some("the list of parts"));
        let preference = options.read_preference;
        assert_eq!(preference, Some(ReadPreference::SecondaryPreferred));
    }
    assert_eq!(options(parts).hint.as_deref(), Some("number_1"));
    assert_eq!(options(makers).hint, None);

    // Internal reads of a write stay on the primary, and a transaction has no other members.
    if fixture.backend().capabilities().transactions {
        let read = db.transaction(|tx| async move {
            let find = tx.find::<Part>().read_preference(ReadPreference::Nearest);
            find.all().await.map(drop)
        });
        let error = read.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
