//! Models with text forms in JSON: the stored documents do not change.

use odm::{
    backend::operation::CountOperation,
    bson::{Decimal128, Uuid, rawdoc},
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "tickets", timestamps)]
struct Ticket {
    #[serde(rename = "_id", with = "odm::json")]
    id: ObjectId,
    #[reference]
    #[serde(with = "odm::json")]
    event: Ref<Happening>,
    #[reference(max = 3)]
    #[serde(with = "odm::json")]
    others: Vec<Ref<Happening>>,
    #[serde(default, with = "odm::json")]
    used: Option<DateTime>,
    #[embed]
    seat: Seat,
    #[serde(with = "odm::json")]
    created_at: DateTime,
    #[serde(with = "odm::json")]
    updated_at: DateTime,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "happenings")]
struct Happening {
    #[serde(rename = "_id", with = "odm::json")]
    id: ObjectId,
}

/// serde buffers the content of an internally tagged enum.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[serde(tag = "kind")]
enum Seat {
    Standing,
    Numbered {
        #[serde(with = "odm::json")]
        block: ObjectId,
        #[serde(with = "odm::json")]
        until: DateTime,
        #[serde(with = "odm::json")]
        code: Uuid,
        #[serde(with = "odm::json")]
        price: Decimal128,
    },
}

#[derive(Schema)]
#[schema(models(Ticket, Happening))]
struct Festival;

const ID: &str = "507f1f77bcf86cd799439011";

/// The database stores BSON types, and JSON has texts.
pub async fn bson_types_are_texts_in_json(fixture: Fixture) {
    let db = odm::Database::<Festival>::with_backend(fixture.backend());
    let id = ObjectId::parse_str(ID).unwrap();
    let noon = DateTime::parse_rfc3339_str("2026-11-27T12:00:00Z").unwrap();
    let code = Uuid::parse_str("936da01f-9abd-4d9d-80c7-02af85c822a8").unwrap();
    let ticket = NewTicket {
        id,
        event: Ref::new(id),
        others: vec![Ref::new(id)],
        used: Some(noon),
        seat: Seat::Numbered {
            block: id,
            until: noon,
            code,
            price: "19.90".parse().unwrap(),
        },
    };
    let ticket = db.insert(ticket).await.unwrap();
    assert_eq!(db.get::<Ticket>(id).await.unwrap(), ticket);

    // Filters and updates use the stored types.
    let tickets = db.find::<Ticket>().filter(|t| {
        t.id().eq(id)
            & t.event().eq(Ref::new(id))
            & t.used().lte(noon)
            & t.created_at().lte(DateTime::now())
    });
    assert_eq!(tickets.one().await.unwrap(), ticket);
    db.update::<Ticket>(id)
        .set(|t| t.used(), None)
        .await
        .unwrap();
    db.update::<Ticket>(id)
        .set(|t| t.used(), noon)
        .await
        .unwrap();
    let count = CountOperation {
        collection: "tickets".into(),
        filter: rawdoc! {
            "_id": id, "event": id, "others": [id], "used": noon,
            "seat.block": id, "seat.until": noon, "seat.code": { "$type": "binData" },
            "seat.price": { "$type": "decimal" },
        },
        limit: None,
        options: Default::default(),
    };
    assert_eq!(fixture.backend().count(count).await.unwrap(), 1);

    let ticket = db.get::<Ticket>(id).await.unwrap();
    let json = serde_json::to_value(&ticket).unwrap();
    let seat = serde_json::json!({
        "kind": "Numbered",
        "block": ID,
        "until": "2026-11-27T12:00:00Z",
        "code": "936da01f-9abd-4d9d-80c7-02af85c822a8",
        "price": "19.90",
    });
    assert_eq!(
        (&json["_id"], &json["event"], &json["others"][0]),
        (&ID.into(), &ID.into(), &ID.into())
    );
    assert_eq!(
        (&json["used"], &json["seat"]),
        (&"2026-11-27T12:00:00Z".into(), &seat)
    );
    assert_eq!(serde_json::from_value::<Ticket>(json).unwrap(), ticket);

    // The extended form of BSON values in JSON can be read, and other texts are errors.
    let extended = serde_json::json!({ "_id": { "$oid": ID } });
    assert_eq!(
        serde_json::from_value::<Happening>(extended).unwrap(),
        Happening { id }
    );
    let wrong = serde_json::json!({ "_id": "seven" });
    let error = serde_json::from_value::<Happening>(wrong)
        .unwrap_err()
        .to_string();
    assert_eq!(error, "`seven` is not an id of 24 hexadecimal digits");
}

/// A joined reference is the document or `{"missing": id}`.
pub async fn joins_are_documents_in_json(fixture: Fixture) {
    let db = odm::Database::<Festival>::with_backend(fixture.backend());
    let id = ObjectId::parse_str(ID).unwrap();
    let gone = ObjectId::parse_str("507f1f77bcf86cd799439012").unwrap();
    db.insert(Happening { id }).await.unwrap();
    let ticket = NewTicket {
        id,
        event: Ref::new(gone),
        others: vec![Ref::new(id), Ref::new(gone)],
        used: None,
        seat: Seat::Standing,
    };
    db.insert(ticket).await.unwrap();
    let (_, event, others) = db
        .get::<Ticket>(id)
        .with(|t| t.event())
        .with(|t| t.others())
        .await
        .unwrap();
    let event = serde_json::to_string(&event).unwrap();
    assert_eq!(event, r#"{"missing":"507f1f77bcf86cd799439012"}"#);
    let others = serde_json::to_string(&others).unwrap();
    assert_eq!(others, format!(r#"[{{"_id":"{ID}"}},{event}]"#));
}
