use std::time::Duration;

use odm::{
    backend::operation::{Direction, Index},
    bson::rawdoc,
};

use crate::{Fixture, models::Db};

fn keys(index: &Index) -> Vec<(&str, i32)> {
    index
        .keys
        .iter()
        .map(|(path, direction)| (path.as_str(), direction.sign()))
        .collect()
}

pub async fn declared_indexes_are_created(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let report = db.sync_indexes().await.unwrap();
    assert_eq!(report.created.len(), 9, "{report}");
    assert!(
        report.differing.is_empty() && report.undeclared.is_empty() && report.dropped.is_empty()
    );

    let found = |collection: &'static str| {
        let db = db.clone();
        async move { db.backend().list_indexes(collection).await.unwrap() }
    };
    let named =
        |indexes: &[Index], name: &str| indexes.iter().find(|i| i.name == name).unwrap().clone();
    let persons = found("persons").await;
    assert!(named(&persons, "ssn_1").unique);
    assert_eq!(
        keys(&named(&persons, "addresses.city_1")),
        [("addresses.city", 1)]
    );
    assert_eq!(
        keys(&named(&found("products").await, "catalogNumber_1")),
        [("catalogNumber", 1)]
    );
    assert_eq!(
        keys(&named(&found("logmsgs").await, "host_1_time_-1")),
        [("host", 1), ("time", -1)]
    );
    let partial = named(&found("posts").await, "author_1_when_-1")
        .partial
        .unwrap();
    assert_eq!(partial, rawdoc! { "status": { "$eq": "public" } });
    let visits = found("sessions").await;
    assert_eq!(
        named(&visits, "seen_1").expire_after,
        Some(Duration::from_secs(3600))
    );
    let by_user = named(&visits, "by_user");
    assert_eq!((keys(&by_user), by_user.sparse), (vec![("user", -1)], true));

    let second = db.sync_indexes().await.unwrap();
    assert_eq!(second, Default::default(), "{second}");
    assert_eq!(second.to_string(), "every index is as declared");
}

pub async fn different_indexes_are_reported_and_replaced_on_request(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let ssn = Index::new(vec![("ssn".into(), Direction::Ascending)]);
    let extra = Index::new(vec![("name".into(), Direction::Descending)]);
    db.backend()
        .create_indexes("persons", vec![ssn.clone(), extra.clone()])
        .await
        .unwrap();

    let report = db.sync_indexes().await.unwrap();
    assert_eq!(report.created.len(), 8, "{report}");
    let [(collection, declared, found)] = &report.differing[..] else {
        panic!("{report}")
    };
    assert_eq!(
        (collection.as_str(), declared.unique, found.unique),
        ("persons", true, false)
    );
    assert_eq!(report.undeclared, [("persons".to_owned(), extra)]);
    assert!(report.dropped.is_empty());
    assert_eq!(db.backend().list_indexes("persons").await.unwrap().len(), 3);

    let report = db
        .sync_indexes()
        .replace_differing()
        .drop_undeclared()
        .await
        .unwrap();
    assert_eq!(
        (report.created.len(), report.dropped.len()),
        (1, 2),
        "{report}"
    );
    let second = db.sync_indexes().await.unwrap();
    assert_eq!(second, Default::default(), "{second}");
}
