use odm::{
    backend::operation::Insert,
    bson::{Bson, RawDocumentBuf, rawdoc},
    prelude::*,
};

use crate::{
    Fixture,
    models::{Address, Db, Person, Product},
};

async fn put(db: &Db, collection: &'static str, documents: Vec<RawDocumentBuf>) {
    let insert = Insert {
        collection: collection.into(),
        documents,
        ordered: true,
    };
    db.backend().insert(insert).await.unwrap();
}

fn person(id: ObjectId, street: impl Into<bson::RawBson>) -> RawDocumentBuf {
    let street: bson::RawBson = street.into();
    rawdoc! { "_id": id, "name": "n", "ssn": id.to_hex(), "addresses": [
        { "street": "fine", "city": "c", "cc": "de" }, { "street": street, "city": "c", "cc": "de" },
    ] }
}

/// One broken document among good ones: named exactly, and the rest can be read.
pub async fn a_wrong_type_is_named_and_read_past(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let ids = [(); 3].map(|()| ObjectId::new());
    let documents = vec![person(ids[0], "s"), person(ids[1], 7), person(ids[2], "s")];
    put(&db, "persons", documents).await;

    let error = db.find::<Person>().all().await.unwrap_err();
    assert!(error.is_decode());
    assert_eq!(
        (error.model(), error.collection()),
        (Some("Person"), Some("persons"))
    );
    assert_eq!(error.id(), Some(&Bson::ObjectId(ids[1])));
    assert_eq!(error.path(), Some("addresses.1.street"));
    let text = error.to_string();
    for part in [
        "persons",
        &ids[1].to_hex(),
        "addresses.1.street",
        "invalid type: integer `7`",
    ] {
        assert!(text.contains(part), "{text}");
    }

    let mut rows = db.find::<Person>().sort(|p| p.id().asc()).stream();
    let mut read = Vec::new();
    while let Some(row) = rows.next().await {
        read.push(
            row.map(|person| person.id)
                .map_err(|error| error.path().map(str::to_owned)),
        );
    }
    assert_eq!(
        read,
        [
            Ok(ids[0]),
            Err(Some("addresses.1.street".to_owned())),
            Ok(ids[2])
        ]
    );
    assert_eq!(
        db.get::<Person>(ids[1]).await.unwrap_err().path(),
        Some("addresses.1.street")
    );
}

pub async fn a_missing_field_is_named(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    put(
        &db,
        "persons",
        vec![rawdoc! { "_id": ObjectId::new(), "name": "n", "addresses": [] }],
    )
    .await;
    let error = db.find::<Person>().one().await.unwrap_err();
    assert!(error.is_decode());
    assert!(error.to_string().contains("missing field `ssn`"), "{error}");
}

/// A broken target is the error of the documents that refer to it, and of no others.
pub async fn a_broken_target_spoils_only_its_own(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    put(
        &db,
        "parts",
        vec![
            rawdoc! { "_id": 1_i64, "name": "p", "maker": "m" },
            rawdoc! { "_id": 2_i64, "name": 5 },
        ],
    )
    .await;
    let product = |id: i64, part: i64| {
        rawdoc! { "_id": id, "name": "p", "catalogNumber": id, "parts": [part], "mainPart": null, "spares": [] }
    };
    put(
        &db,
        "products",
        vec![product(1, 1), product(2, 2), product(3, 1)],
    )
    .await;
    let mut rows = db
        .find::<Product>()
        .sort(|p| p.id().asc())
        .with(|p| p.parts())
        .stream();
    let mut read = Vec::new();
    while let Some(row) = rows.next().await {
        read.push(
            row.map(|(product, _)| product.id)
                .map_err(|error| error.collection().map(str::to_owned)),
        );
    }
    assert_eq!(read, [Ok(1), Err(Some("parts".to_owned())), Ok(3)]);
}

/// What other programs put into a document is theirs: it is read past, and no update touches it.
pub async fn unknown_fields_survive_updates(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let id = ObjectId::new();
    let mut document = person(id, "s");
    document.append(bson::raw::cstr!("theirs"), rawdoc! { "x": 1 });
    put(&db, "persons", vec![document]).await;
    db.update::<Person>(id)
        .set(|p| p.name(), "new")
        .pop_last(|p| p.addresses())
        .await
        .unwrap();
    let find = odm::backend::operation::Find {
        collection: "persons".into(),
        filter: rawdoc! {},
        projection: None,
        sort: None,
        limit: None,
        max_time: None,
    };
    let raws = odm::backend::drain(db.backend().find(find).await.unwrap())
        .await
        .unwrap();
    let expected = rawdoc! { "_id": id, "name": "new", "ssn": id.to_hex(), "addresses": [
        { "street": "fine", "city": "c", "cc": "de" },
    ], "theirs": { "x": 1 } };
    assert_eq!(raws, [expected]);
}

/// The stored document is what any other client of MongoDB expects (S1, S2).
pub async fn the_layout_is_plain(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let id = ObjectId::new();
    let address = Address {
        street: "s".into(),
        city: "c".into(),
        cc: "de".into(),
    };
    db.insert(Person {
        id,
        name: "n".into(),
        ssn: "1".into(),
        addresses: vec![address],
    })
    .await
    .unwrap();
    let product = Product {
        id: 1,
        name: "p".into(),
        catalog_number: 7,
        parts: vec![Ref::new(3), Ref::new(4)],
        main_part: None,
        spares: vec![],
    };
    db.insert(product).await.unwrap();
    for (collection, expected) in [
        (
            "persons",
            rawdoc! { "_id": id, "name": "n", "ssn": "1", "addresses": [{ "street": "s", "city": "c", "cc": "de" }] },
        ),
        (
            "products",
            rawdoc! { "_id": 1_i64, "name": "p", "catalogNumber": 7_i64, "parts": [3_i64, 4_i64], "mainPart": null, "spares": [] },
        ),
    ] {
        let find = odm::backend::operation::Find {
            collection: collection.into(),
            filter: rawdoc! {},
            projection: None,
            sort: None,
            limit: None,
            max_time: None,
        };
        let raws = odm::backend::drain(db.backend().find(find).await.unwrap())
            .await
            .unwrap();
        assert_eq!(raws, [expected]);
    }
}
