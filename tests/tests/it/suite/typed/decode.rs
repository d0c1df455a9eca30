use odm::{
    backend::operation::{FindOperation, InsertOperation},
    bson::{
        Binary, Bson, RawBson, RawDocumentBuf, UuidRepresentation, rawdoc, spec::BinarySubtype,
    },
    legacy_uuid::{CSharpUuid, JavaUuid, PythonUuid},
    prelude::*,
};

use crate::{
    Fixture,
    models::{Address, Db, Person, Product},
};

async fn insert_raw(db: &Db, collection: &'static str, documents: Vec<RawDocumentBuf>) {
    let insert = InsertOperation {
        collection: collection.into(),
        documents,
        ordered: true,
        origin: Default::default(),
    };
    db.backend().insert(insert).await.unwrap();
}

fn person(id: ObjectId, street: impl Into<RawBson>) -> RawDocumentBuf {
    let street: RawBson = street.into();
    rawdoc! { "_id": id, "name": "n", "ssn": id.to_hex(), "addresses": [
        { "street": "fine", "city": "c", "cc": "de" }, { "street": street, "city": "c", "cc": "de" },
    ] }
}

/// A broken document among valid documents. The error names the document, and the remaining documents can be read.
pub async fn a_wrong_type_names_the_document(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let ids = [(); 3].map(|()| ObjectId::new());
    let documents = vec![person(ids[0], "s"), person(ids[1], 7), person(ids[2], "s")];
    insert_raw(&db, "persons", documents).await;

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

#[derive(Debug, Deserialize, Projection)]
#[projection(of = Person)]
struct Named {
    name: String,
    ssn: String,
}

/// A decode error names the document even if the selection does not read the `_id`.
pub async fn a_selection_error_names_the_document(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let ids = [(); 5].map(|()| ObjectId::new());
    let mut documents = ids.map(|id| person(id, "s"));
    documents[1] = rawdoc! { "_id": ids[1], "name": "n", "ssn": 5, "addresses": [] };
    documents[3] = rawdoc! { "_id": ids[3], "name": "n", "ssn": true, "addresses": [] };
    insert_raw(&db, "persons", documents.into()).await;
    let find = || db.find::<Person>().select::<Named>().sort(|p| p.id().asc());
    let error = find().all().await.unwrap_err();
    assert_eq!(error.id(), Some(&Bson::ObjectId(ids[1])), "{error}");
    assert_eq!(
        (error.path(), error.collection()),
        (Some("ssn"), Some("persons"))
    );
    let mut rows = find().stream();
    let mut broken = Vec::new();
    while let Some(row) = rows.next().await {
        match row {
            Ok(row) => assert!(row.name == "n" && !row.ssn.is_empty()),
            Err(error) => broken.push((error.id().cloned(), error.path().map(str::to_owned))),
        }
    }
    let at = |id: ObjectId| (Some(Bson::ObjectId(id)), Some("ssn".to_owned()));
    assert_eq!(broken, [at(ids[1]), at(ids[3])]);
}

pub async fn an_aggregate_of_a_wrong_type_names_the_path(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let ids = [(); 2].map(|()| ObjectId::new());
    let documents = vec![
        person(ids[0], "s"),
        rawdoc! { "_id": ids[1], "name": 8, "ssn": "9", "addresses": [] },
    ];
    insert_raw(&db, "persons", documents).await;
    let find = || db.find::<Person>();
    let errors = [
        find().min(|p| p.name()).await.unwrap_err(),
        find().distinct(|p| p.name()).await.unwrap_err(),
        find()
            .group_by(|p| p.name())
            .select(|g| g.count())
            .all()
            .await
            .unwrap_err(),
        find()
            .group_by(|p| (p.ssn(), p.name()))
            .select(|g| g.count())
            .all()
            .await
            .unwrap_err(),
        find()
            .group_by(|p| p.ssn())
            .select(|g| (g.count(), g.max(|p| p.name())))
            .all()
            .await
            .unwrap_err(),
    ];
    for error in errors {
        assert!(error.is_decode(), "{error}");
        assert_eq!(
            (error.path(), error.collection()),
            (Some("name"), Some("persons"))
        );
        assert!(error.to_string().contains("integer `8`"), "{error}");
    }
}

pub async fn a_missing_field_is_named(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_raw(
        &db,
        "persons",
        vec![rawdoc! { "_id": ObjectId::new(), "name": "n", "addresses": [] }],
    )
    .await;
    let error = db.find::<Person>().one().await.unwrap_err();
    assert!(error.is_decode());
    assert!(error.to_string().contains("missing field `ssn`"), "{error}");
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "tickets")]
struct Ticket {
    #[serde(rename = "_id")]
    id: i64,
    number: Uuid,
    holder: Option<ObjectId>,
    #[embed(max = 3)]
    seats: Vec<Uuid>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "orders")]
struct OldOrder {
    #[serde(rename = "_id")]
    id: JavaUuid,
    by_csharp: CSharpUuid,
    by_python: Option<PythonUuid>,
}

#[derive(Schema)]
#[schema(models(Ticket, OldOrder))]
struct BoxOffice;

/// A string that looks like an id could be decoded, but no filter would find the string. So decoding is an error.
pub async fn ids_stored_as_text_are_refused(fixture: Fixture) {
    let db = odm::Database::<BoxOffice>::with_backend(fixture.backend());
    let (number, holder) = (Uuid::from_bytes([7; 16]), ObjectId::from_bytes([7; 12]));
    let ticket = Ticket {
        id: 1,
        number,
        holder: Some(holder),
        seats: vec![number],
    };
    db.insert(ticket.clone()).await.unwrap();
    assert_eq!(db.get::<Ticket>(1).await.unwrap(), ticket);
    let raw = |id: i64, number: RawBson, holder: RawBson, seat: RawBson| {
        rawdoc! { "_id": id, "number": number, "holder": holder, "seats": [seat] }
    };
    let binary = || RawBson::from(Binary::from_uuid(number));
    let text = || RawBson::from(number.to_string());
    let legacy = Binary::from_uuid_with_representation(number, UuidRepresentation::JavaLegacy);
    let documents = vec![
        raw(2, text(), holder.into(), binary()),
        raw(3, binary(), holder.to_hex().into(), binary()),
        raw(4, binary(), RawBson::Null, text()),
        raw(5, legacy.into(), RawBson::Null, binary()),
    ];
    let insert = InsertOperation {
        collection: "tickets".into(),
        documents,
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    for (id, path) in [(2, "number"), (3, "holder"), (4, "seats.0"), (5, "number")] {
        let get = db.get::<Ticket>(id).await.unwrap_err();
        let find = db
            .find::<Ticket>()
            .filter(|t| t.id().eq(id))
            .one()
            .await
            .unwrap_err();
        for error in [get, find] {
            assert!(error.is_decode(), "{error}");
            assert_eq!(
                (error.path(), error.id()),
                (Some(path), Some(&Bson::Int64(id))),
                "{error}"
            );
        }
    }
    let error = db
        .find::<Ticket>()
        .distinct(|t| t.number())
        .await
        .unwrap_err();
    assert!(error.is_decode(), "{error}");
    let found = db
        .find::<Ticket>()
        .filter(|t| t.number().eq(number) & t.holder().eq(holder));
    assert_eq!(found.all().await.unwrap(), [ticket]);
}

/// The expected bytes come from the BSON specification of UUIDs.
pub async fn uuids_of_older_drivers_are_declared(fixture: Fixture) {
    let db = odm::Database::<BoxOffice>::with_backend(fixture.backend());
    let uuid = Uuid::parse_str("00112233-4455-6677-8899-aabbccddeeff").unwrap();
    let old = |bytes: [u8; 16]| Binary {
        subtype: BinarySubtype::UuidOld,
        bytes: bytes.into(),
    };
    let java = old(0x7766_5544_3322_1100_ffee_ddcc_bbaa_9988_u128.to_be_bytes());
    let csharp = old(0x3322_1100_5544_7766_8899_aabb_ccdd_eeff_u128.to_be_bytes());
    let python = old(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes());
    let stored = rawdoc! { "_id": java.clone(), "by_csharp": csharp.clone(), "by_python": python };
    let insert = InsertOperation {
        collection: "orders".into(),
        documents: vec![stored.clone()],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    let order = OldOrder {
        id: JavaUuid(uuid),
        by_csharp: CSharpUuid(uuid),
        by_python: Some(PythonUuid(uuid)),
    };
    assert_eq!(db.get::<OldOrder>(JavaUuid(uuid)).await.unwrap(), order);
    let found = db
        .find::<OldOrder>()
        .filter(|o| o.by_csharp().eq(CSharpUuid(uuid)) & o.by_python().is_in([PythonUuid(uuid)]));
    assert_eq!(found.one().await.unwrap(), order);
    // Writes keep the stored representation.
    db.delete::<OldOrder>(JavaUuid(uuid)).await.unwrap();
    db.insert(order.clone()).await.unwrap();
    db.update::<OldOrder>(JavaUuid(uuid))
        .set(|o| o.by_csharp(), CSharpUuid(uuid))
        .await
        .unwrap();
    let find = FindOperation {
        collection: "orders".into(),
        filter: rawdoc! {},
        projection: None,
        sort: None,
        limit: None,
        options: Default::default(),
    };
    assert_eq!(fixture.backend().find_all(find).await.unwrap(), [stored]);
    let wrong = rawdoc! { "_id": python_of(1), "by_csharp": Binary::from_uuid(uuid) };
    let insert = InsertOperation {
        collection: "orders".into(),
        documents: vec![wrong],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    let error = db
        .get::<OldOrder>(JavaUuid(Uuid::from_bytes([1; 16])))
        .await
        .unwrap_err();
    assert_eq!(
        (error.is_decode(), error.path()),
        (true, Some("by_csharp")),
        "{error}"
    );
}

/// A UUID of equal bytes, so the byte order does not matter.
fn python_of(byte: u8) -> Binary {
    Binary {
        subtype: BinarySubtype::UuidOld,
        bytes: vec![byte; 16],
    }
}

/// A broken target is an error of its referrers only.
pub async fn a_broken_target_fails_only_its_referrers(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_raw(
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
    insert_raw(
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

/// Unknown fields of foreign programs are ignored by reads and kept by updates.
pub async fn unknown_fields_survive_updates(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let id = ObjectId::new();
    let mut document = person(id, "s");
    document.append(bson::raw::cstr!("theirs"), rawdoc! { "x": 1 });
    insert_raw(&db, "persons", vec![document]).await;
    db.update::<Person>(id)
        .set(|p| p.name(), "new")
        .pop_last(|p| p.addresses())
        .await
        .unwrap();
    let find = FindOperation {
        collection: "persons".into(),
        filter: rawdoc! {},
        projection: None,
        sort: None,
        limit: None,
        options: Default::default(),
    };
    let raws = odm::backend::read_to_end(db.backend().find(find).await.unwrap())
        .await
        .unwrap();
    let expected = rawdoc! { "_id": id, "name": "new", "ssn": id.to_hex(), "addresses": [
        { "street": "fine", "city": "c", "cc": "de" },
    ], "theirs": { "x": 1 } };
    assert_eq!(raws, [expected]);
}

/// The stored document has the form that any MongoDB client expects.
pub async fn the_stored_layout_is_plain_mongodb(fixture: Fixture) {
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
        let find = FindOperation {
            collection: collection.into(),
            filter: rawdoc! {},
            projection: None,
            sort: None,
            limit: None,
            options: Default::default(),
        };
        let raws = odm::backend::read_to_end(db.backend().find(find).await.unwrap())
            .await
            .unwrap();
        assert_eq!(raws, [expected]);
    }
}
